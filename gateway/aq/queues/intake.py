"""Messages on their way into a queue: checked, numbered, given to those who get them, stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from mgw.gateway.aq.errors import (
    AgentAddressInvalid,
    DuplicateRecipient,
    ExceptionQueueEnqueue,
    MessageRefused,
    NoRecipients,
    NotEnabledForEnqueue,
    RecipientInvalid,
    TooManyRecipients,
)
from mgw.gateway.aq.model import Agent, QueueRef, QueueType, SortList
from mgw.gateway.aq.names import agent_name
from mgw.gateway.aq.payloads import forms as payloads
from mgw.gateway.aq.queues import catalog_sql as catalog
from mgw.gateway.aq.queues import consumers_sql, messages_sql
from mgw.gateway.aq.queues.activity import LeftOut, enqueued
from mgw.gateway.aq.queues.codec import encode
from mgw.gateway.aq.queues.grouping import in_group, place
from mgw.gateway.aq.queues.prepared import Prepared
from mgw.gateway.aq.store.columns import NEW_MESSAGE
from mgw.gateway.aq.store.statements import Db, Row
from mgw.gateway.aq.store.tables import State
from mgw.transforms.message import Message

if TYPE_CHECKING:
    from mgw.gateway.aq.conditions.rules import Rule

__all__ = ["Enrol", "address", "check_enqueue", "numbered", "prepare", "store"]

Enrol = Callable[[str], int]  # name of a consumer -> its id
_PRIORITY_FIRST = frozenset((SortList.PRIORITY, SortList.PRIORITY_ENQ_TIME))
_Arriving = tuple[Message, Row]
MAX_RECIPIENTS = 1024
_ID, _ORIGINAL = NEW_MESSAGE.at("id"), NEW_MESSAGE.at("original_msgid")
_OF_ENTRY = NEW_MESSAGE.getter("id", "queue_id", "k1", "k2", "k3", "ready_at", "expires_at")


class _Routed(NamedTuple):
    """The consumers of each message, whether the queue has subscribers, as far as that was asked, and how many messages
    the rule of each consumer refused."""

    chosen: list[list[int]]
    subscribed: bool
    left_out: Mapping[int, int] = MappingProxyType({})


_NO_ROUTE = _Routed([], True)


def prepare(
    db: Db,
    queue: QueueRef,
    messages: Sequence[Message],
    now: float,
    *,
    discard_unrouted: bool = False,
    user: str | None = None,
    recipients: Sequence[Agent] = (),
) -> Prepared:
    """Everything of :func:`put` but the storing of messages; takes fresh message ids."""
    started = perf_counter()
    ids: Sequence[int] | None = None
    if db.pipelined and queue.queue_type is QueueType.NORMAL:
        ids = catalog.ids_ahead(db, queue, len(messages), _told(queue, messages))
    check_enqueue(db, queue)
    messages, rows = numbered(db, queue, messages, now, user=user, ids=ids)
    named = [recipients] * len(messages) if recipients else ()
    prepared = address(db, queue, messages, rows, now, recipients=named, discard_unrouted=discard_unrouted)
    return prepared._replace(seconds=perf_counter() - started)


def numbered(
    db: Db,
    queue: QueueRef,
    messages: Sequence[Message],
    now: float,
    *,
    user: str | None = None,
    txn: str | None = None,
    system: bool = True,
    later: bool = False,
    ids: Sequence[int] | None = None,
    deviates: bool = False,
) -> tuple[Sequence[Message], list[Row]]:
    """Messages as they are stored, and their rows with fresh ids; see :func:`mgw.gateway.aq.queues.codec.encode`.

    ``later``: without ids, for one message that gets it where it is stored. ``ids``: those to use. ``deviates``: their
    places follow from the order of the call (sequence deviation).
    """
    values = payloads.encoded(db, queue, messages) if queue.payload_type in payloads.TYPED else ()
    if ids is None:
        ids = (0,) if later else db.message_ids(len(messages), _told(queue, messages))
    if queue.sort_list in _PRIORITY_FIRST and not (queue.grouped or deviates):
        ids = _as_taken(messages, ids)
    rows = encode(queue, messages, ids, now, user, txn, values, system=system)
    return (payloads.as_stored(messages, values) if values else messages), rows


def _as_taken(messages: Sequence[Message], ids: Sequence[int]) -> Sequence[int]:
    """The ids of messages that are taken in the order of their priorities: those of one priority have ids in a row.

    Rows are stored in the order of ids. So what is taken together lies together, in few pages of the file, however
    many messages of other priorities wait. Within a priority nothing changes: ids decide there.
    """
    priorities = [message.priority for message in messages]
    if len(set(priorities)) < 2 or any(type(priority) is not int for priority in priorities):
        return ids
    placed = list(ids)
    for number, index in zip(ids, sorted(range(len(ids)), key=priorities.__getitem__), strict=True):
        placed[index] = number
    return placed


def _told(queue: QueueRef, messages: Sequence[Message]) -> int | None:
    """The queue, if those who wait for its messages are to be told of these."""
    return queue.id if any(not message.delay for message in messages) else None


def address(
    db: Db,
    queue: QueueRef,
    messages: Sequence[Message],
    rows: list[Row],
    now: float,
    *,
    recipients: Sequence[Sequence[Agent]] = (),
    discard_unrouted: bool = False,
    enrol: Enrol | None = None,
) -> Prepared:
    """Give the rows of messages to those who get them.

    Args:
        recipients: for each message the agents named for it, or nobody; empty when none is named for any.
        enrol: stores a consumer who was never named before; default: in the transaction of the call.
    """
    rule_seconds = 0.0
    left_out: Mapping[int, int] = {}
    ids = [row[_ID] for row in rows]
    entries: list[Row] = []
    discarded: list[int] = []
    if queue.multiple_consumers:

        def in_the_call(name: str) -> int:
            return consumers_sql.ensure_consumer(db, queue, name, address="", protocol=0, now=now)

        began = perf_counter()
        arriving = list(zip(messages, rows, strict=True))
        chosen, subscribed, left_out = _chosen(db, queue, arriving, recipients, enrol or in_the_call)
        rule_seconds = perf_counter() - began
        kept = []
        discarded = [index for index, consumers in enumerate(chosen) if not consumers]
        if discarded and not (discard_unrouted and subscribed):
            raise _no_recipient(queue, discarded, subscribed=subscribed)
        for index, (row, consumers) in enumerate(zip(rows, chosen, strict=True)):
            if not consumers:
                continue
            kept.append(row)
            number, queue_id, k1, k2, k3, ready_at, expires_at = _OF_ENTRY(row)
            state = int(State.WAITING) if messages[index].delay > 0 else int(State.READY)
            entries += [(number, c, queue_id, state, k1, k2, k3, ready_at, expires_at, 0) for c in consumers]
        rows = kept
    elif recipients and any(recipients):
        raise RecipientInvalid(
            f"recipients given for queue {queue.full_name}",
            cause="the queue is a single-consumer queue",
            cure="leave the recipient list out",
        )
    if queue.sort_list in _PRIORITY_FIRST:
        rows.sort(key=itemgetter(_ID))
    hub_id = queue.hub_id
    identities: list[bytes | None] = [hub_id + number.to_bytes(8, "big") for number in ids]
    for index in discarded:
        identities[index] = None
    ready = bool(rows) and (not messages[0].delay or any(not message.delay for message in messages))
    return Prepared(queue, rows, entries, identities, discarded, ready, rule_seconds=rule_seconds, left_out=left_out)


def store(db: Db, prepared: Prepared) -> None:
    """Store what :func:`prepare` made, and tell other processes at commit.

    A message that has no id yet gets it here, and its place in ``msgids`` with it.
    """
    started = perf_counter()
    if prepared.queue.grouped:
        prepared = in_group(db, prepared)
    if prepared.numbered:
        messages_sql.store(db, prepared.rows, prepared.entries, grouped=prepared.queue.grouped)
    else:
        number = messages_sql.store_one(db, prepared.rows[0], prepared.queue.id if prepared.ready else None)
        prepared.msgids[0] = prepared.queue.hub_id + number.to_bytes(8, "big")
    if prepared.queue.grouped:
        place(db, prepared)
    if db.tally is not None and prepared.rows:
        seconds = prepared.seconds + perf_counter() - started
        queue_id, rows, entries = prepared.queue.id, prepared.rows, prepared.entries
        db.tally.append(enqueued(queue_id, rows, entries, seconds, prepared.rule_seconds))
    if prepared.left_out and db.tally is not None:
        db.tally.append(LeftOut(prepared.queue.id, prepared.left_out))
    if prepared.ready and prepared.numbered:
        db.notify((prepared.queue.id,))


def check_enqueue(db: Db, queue: QueueRef, *, committing: bool = False) -> None:
    """Refuse an enqueue to a queue that does not take any (25206, 25207, 25205).

    ``committing``: the messages were accepted before; a queue that is being stopped still takes them.
    """
    if queue.queue_type is QueueType.EXCEPTION:
        raise ExceptionQueueEnqueue(
            f"enqueue to exception queue {queue.full_name}",
            cause="only the hub moves messages into an exception queue",
            cure="enqueue to a normal queue",
        )
    settings = catalog.queue_settings(db, queue, hold="enqueue")
    if not (settings.enqueue_enabled or (committing and settings.enqueue_closing)):
        raise NotEnabledForEnqueue(
            f"queue {queue.full_name} is not enabled for enqueue",
            cause="it was not started, or stopped",
            cure=f"start it: mgw aq start {queue.full_name} (in Python start_queue)",
        )


def _no_recipient(queue: QueueRef, unrouted: Sequence[int], *, subscribed: bool) -> MessageRefused:
    refusal = NoRecipients(
        f"message {unrouted[0]} for queue {queue.full_name} has no recipient",
        index=unrouted[0],
        cause="no subscriber of the queue has a rule that is true for it",
        cure="add a subscriber, or name recipients",
    )
    refusal.unrouted, refusal.subscribed = unrouted, subscribed
    return refusal


def _chosen(
    db: Db,
    queue: QueueRef,
    arriving: Sequence[_Arriving],
    recipients: Sequence[Sequence[Agent]],
    enrol: Enrol,
) -> _Routed:
    """The consumers of each message: those named for it, or the subscribers."""
    if not any(recipients):
        return _route(db, queue, arriving)
    named: dict[int, list[int]] = {}  # lists that are one object are resolved once
    for agents in recipients:
        if agents and id(agents) not in named:
            named[id(agents)] = _recipients(db, queue, agents, enrol)
    others = [index for index, agents in enumerate(recipients) if not agents]
    try:
        found, subscribed, left_out = _route(db, queue, [arriving[index] for index in others]) if others else _NO_ROUTE
    except MessageRefused as error:
        error.index = others[error.index]
        raise
    routed = dict(zip(others, found, strict=True))
    chosen = [routed[index] if index in routed else named[id(agents)] for index, agents in enumerate(recipients)]
    return _Routed(chosen, subscribed, left_out)


def _recipients(db: Db, queue: QueueRef, recipients: Sequence[Agent], enrol: Enrol) -> list[int]:
    """Consumers of an explicit recipient list; it replaces the subscribers (AQ guide 12.2 §1.3.2)."""
    if len(recipients) > MAX_RECIPIENTS:
        raise TooManyRecipients(f"{len(recipients)} recipients given", cause=f"at most {MAX_RECIPIENTS} are allowed")
    found: dict[int, None] = {}
    for agent in recipients:
        name = agent_name(agent.name, what="recipient")
        if agent.address or agent.protocol:
            where = repr(agent.address) if agent.address else f"an address of protocol {agent.protocol}"
            raise AgentAddressInvalid(
                f"recipient at {where} of queue {queue.full_name} cannot be served",
                cause="propagation to other queues is not part of this release",
                cure="name local consumers only, or use a gateway job",
            )
        if name is None:
            raise RecipientInvalid("a recipient has neither name nor address", cure="name the recipient")
        known = consumers_sql.consumer_id(db, queue, name)
        consumer = enrol(name) if known is None else known
        if consumer in found:
            raise DuplicateRecipient(f"recipient {name!r} is listed twice", cure="list every recipient once")
        found[consumer] = None
    return list(found)


def _route(db: Db, queue: QueueRef, arriving: Sequence[_Arriving]) -> _Routed:
    """The subscribers of each message (AQ guide 12.2 §1.3.4, §8.6.1); rules see it as it is stored."""
    subscribers = consumers_sql.subscribers_for(db, queue)
    everything = [consumer for consumer, _, rule in subscribers if rule is None]
    if len(everything) == len(subscribers):
        return _Routed([everything] * len(arriving), bool(everything))
    from mgw.gateway.aq.conditions.rules import compile_rule
    from mgw.gateway.aq.queues.condition_search import matching
    from mgw.transforms.language.expression import Row as Parsed

    # bodies are parsed at most once for all rules
    parsed = [Parsed(_as_new(message, row[_ORIGINAL])) for message, row in arriving]
    rules: dict[str, list[tuple[int, str, Rule]]] = {}  # equal rules are evaluated once
    for consumer, name, text in subscribers:
        if text is not None:
            rule = compile_rule(text, db)
            rules.setdefault(rule.canonical, []).append((consumer, name, rule))
    chosen = [list(everything) for _ in arriving]
    left_out: dict[int, int] = {}
    for same in rules.values():
        _, name, rule = same[0]
        consumers = [consumer for consumer, _, _ in same]
        refused = len(arriving)
        for index in matching(rule, parsed, f"subscriber {name} of queue {queue.full_name}"):
            chosen[index] += consumers
            refused -= 1
        if refused:
            left_out |= dict.fromkeys(consumers, refused)
    return _Routed(chosen, True, left_out)


def _as_new(message: Message, original: bytes | None) -> Message:
    """A message before its enqueue: what it was in the queue it may have come from is over."""
    fresh = message.msgid is None and message.enqueue_time is None and not message.attempts
    if fresh and message.original_msgid == original:
        return message
    return replace(message, msgid=None, enqueue_time=None, expires_at=None, attempts=0, original_msgid=original)
