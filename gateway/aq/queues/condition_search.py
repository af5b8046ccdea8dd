"""Dequeue by condition: the database chooses where it can, Python where it must (AQ guide 12.2 §10.5).

A condition that the database can evaluate as a whole is part of the one statement that finds and locks a batch. Of any
other, what the database can decide narrows the pages that Python reads; what matches is then locked, a batch at a time.
Either way the same messages are found, in the same order, and the same errors raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import islice

from mgw.gateway.aq.conditions.rules import Rule, bindings_for, compile_rule
from mgw.gateway.aq.conditions.sql.columns import message_columns
from mgw.gateway.aq.conditions.sql.payload import Payload
from mgw.gateway.aq.conditions.sql.rules import Filter, translate
from mgw.gateway.aq.errors import MessageRefused
from mgw.gateway.aq.model import PayloadType, QueueRef
from mgw.gateway.aq.python_code.stored_functions import Bindings, bound
from mgw.gateway.aq.queues import messages_sql
from mgw.gateway.aq.queues.codec import decode
from mgw.gateway.aq.queues.messages_sql import Search, keys_of
from mgw.gateway.aq.store.columns import ATTEMPTS, ID
from mgw.gateway.aq.store.statements import Db, Row
from mgw.transforms.errors import GatewayError
from mgw.transforms.language.compiler import analyse
from mgw.transforms.language.expression import Row as Parsed
from mgw.transforms.language.functions import on_change

__all__ = ["find_matching", "matching", "pushed"]

_FIRST_PAGE = 50  # messages looked at together by Python, at first
_LARGEST_PAGE = 800

Browse = Callable[[Db, Search, int], list[Row]]


@lru_cache(maxsize=1024)
def pushed(
    text: str, hub_id: bytes, *, postgresql: bool, entries: bool, fields: bool, bindings: Bindings = ()
) -> Filter | None:
    """What a database can do for a condition that :func:`mgw.gateway.aq.conditions.rules.compile_rule` accepts.

    Args:
        entries: the queue has several consumers.
        fields: its payloads are FIELDS.
        bindings: functions of the hub that it calls.
    """
    columns = message_columns(hub_id, postgresql=postgresql, entries=entries)
    return translate(analyse(text, functions=bound(bindings)), columns, Payload(postgresql=postgresql, fields=fields))


on_change(pushed.cache_clear)


def _filter(db: Db, queue: QueueRef, consumer: int, text: str, bindings: Bindings) -> Filter | None:
    fields = queue.payload_type is PayloadType.FIELDS
    return pushed(
        text, queue.hub_id, postgresql=db.postgresql, entries=bool(consumer), fields=fields, bindings=bindings
    )


def find_matching(db: Db, what: Search, text: str, limit: int, *, browse: Browse | None) -> list[Row]:
    """Rows of messages for which the condition in ``text`` is true, in order; locked unless they are browsed.

    Args:
        what: where to look.
        browse: how a browser searches; None: the rows are to be taken.

    Raises:
        RuleInvalid: ORA-25448, the condition is invalid.
        RuleFailed: ORA-25449, it has no value for a message.
    """
    bindings = bindings_for(text, db)
    rule = compile_rule(text, bindings=bindings)
    found = _filter(db, what.queue, what.consumer, text, bindings)
    if found is not None:
        what = what._replace(where=found.sql, where_params=found.params)
        if found.exact:
            return browse(db, what, limit) if browse else messages_sql.search(db, what, limit, lock=True)
    matching = _matching(db, what, rule, limit, browse or _look)
    if browse:
        return list(islice(matching, limit))
    chosen: list[Row] = []
    while len(chosen) < limit:
        wanted = list(islice(matching, limit - len(chosen)))
        if not wanted:
            break
        chosen += _lock(db, what, rule, wanted)
    return chosen


def _look(db: Db, what: Search, limit: int) -> list[Row]:
    return messages_sql.search(db, what, limit, lock=False)


def _matching(db: Db, what: Search, rule: Rule, limit: int, look: Browse) -> Iterator[Row]:
    """Rows for which the rule is true, read page by page; no message is judged before it is asked for."""
    size = max(_FIRST_PAGE, min(limit, _LARGEST_PAGE))
    while page := look(db, what, size):
        for row, message in zip(page, decode(page, what.queue.hub_id), strict=True):
            if rule.matches(message):
                yield row
        what = what._replace(after=keys_of(page[-1], what.queue))
        size = min(2 * size, _LARGEST_PAGE)


def _lock(db: Db, what: Search, rule: Rule, wanted: list[Row]) -> list[Row]:
    """Those that nobody holds, locked by one statement."""
    numbers = tuple(row[ID] for row in wanted)
    exactly = Search(what.queue, what.consumer, what.states, held_by=what.held_by, numbers=numbers)
    locked = messages_sql.search(db, exactly, len(numbers), lock=True)
    seen = {row[ID]: row[ATTEMPTS] for row in wanted}  # the one property that may change before the row is locked
    changed = {row[ID] for row in locked if row[ATTEMPTS] != seen[row[ID]]}
    if not changed:
        return locked
    messages = decode(locked, what.queue.hub_id)
    return [
        row for row, message in zip(locked, messages, strict=True) if row[ID] not in changed or rule.matches(message)
    ]


def matching(rule: Rule, messages: Sequence[Parsed], owner: str) -> list[int]:
    """Indexes of the messages for which a subscriber's rule is true; ``owner`` names the subscriber, for errors.

    Raises:
        MessageRefused: the rule has no value for a message (its ``index``).
    """
    holds = rule.matches
    index = 0
    found = []
    try:
        for index, message in enumerate(messages):
            if holds(message):
                found.append(index)
    except Exception as error:
        raise MessageRefused(
            f"the rule of {owner} failed on message {index}",
            index=index,
            cause=_why(error),
            cure="correct the rule (alter_subscriber) or the message",
        ) from error
    return found


def _why(error: Exception) -> str:
    if not isinstance(error, GatewayError):
        return f"{type(error).__name__}: {error}"
    return f"{error.what}: {error.cause}" if error.cause else error.what
