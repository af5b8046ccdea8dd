"""Purging a queue table (AQ guide 12.2 §8.1.4)."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing
from typing import Any, NamedTuple

from mgw.gateway.aq.admin import admin_sql
from mgw.gateway.aq.admin.base import Administration, choice
from mgw.gateway.aq.admin.removal import Held, Removal, record
from mgw.gateway.aq.admin.stopping import Patience, exclusively
from mgw.gateway.aq.conditions.purge_conditions import PurgeCondition
from mgw.gateway.aq.conditions.purge_conditions import purge_condition as purge_condition_of
from mgw.gateway.aq.errors import DeliveryModeInvalid, PurgeConflict, QueueInUse
from mgw.gateway.aq.model import DeliveryMode, QueueTableInfo
from mgw.gateway.aq.names import qualified
from mgw.gateway.aq.queues import catalog_sql as catalog
from mgw.gateway.aq.queues import messages_sql
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.aq.store.tables import State

__all__ = ["PurgeProcedures", "Purged"]

_log = logging.getLogger(__name__)
_BATCH = 1000  # rows of the view that one transaction removes: other writers get in between
_STATES = {
    "READY": State.READY,
    "WAIT": State.WAITING,
    "WAITING": State.WAITING,
    "PROCESSED": State.PROCESSED,
    "EXPIRED": State.EXPIRED,
    "UNDELIVERABLE": State.UNDELIVERABLE,
}


_Key = tuple[int, "admin_sql.Who | None"]  # message and consumer: a row of the view
_AsRead = tuple[int, int, int]  # queue, state and attempts: what others may change of it


class Purged(NamedTuple):
    """What a purge removed.

    Attributes:
        messages: messages that are gone altogether.
        entries: of multi-consumer messages: one for each consumer that has lost its own, be the message gone or not.
    """

    messages: int
    entries: int


class _Batch(NamedTuple):
    """What happened to the rows of one page of the view."""

    messages: int
    entries: int
    in_hands: int
    changed: int  # by others, since the page was read


class _Plan(NamedTuple):
    """A purge, resolved."""

    table: QueueTableInfo
    view: str
    condition: PurgeCondition
    consumers: dict[int, admin_sql.Who]
    queues: dict[str, int]  # by their names in upper case
    upto: int  # the last message there was when the purge began


class PurgeProcedures(Administration):
    """Remove messages by a condition."""

    def purge_queue_table(
        self,
        queue_table: str,
        purge_condition: str | None = None,
        *,
        block: bool | float = False,
        delivery_mode: str = DeliveryMode.PERSISTENT,
    ) -> Purged:
        """Remove the messages of a queue table for which a condition is true (AQ guide 12.2 §8.1.4).

        The condition reads like a WHERE clause over the columns of the view ``AQ$<queue table>``, each with the prefix
        ``qtview.`` (or ``qview.``): ``qtview.queue = 'ORDERS' AND qtview.retry_count > 3``
        (:mod:`conditions.purge_conditions`). Values compare with regard to letter case, and names are in upper case in
        the view. On a multi-consumer table its rows are entries of consumers: a condition that holds for some of them
        leaves the message to the others, and the message goes with its last entry.

        The call commits by itself, a batch of messages at a time, unless it is part of an application's transaction.
        Messages that were enqueued after it began stay. Messages that jobs and sessions hold are never removed.

        Args:
            purge_condition: None or blanks = all messages of all queues, exception queues included.
            block: True: wait for the transactions and jobs that hold messages, for as long as it takes. Nobody
                enqueues or dequeues while messages are removed (on SQLite others do, between two batches); while jobs
                hold some, others do. A number: wait at most so many seconds. False: fail.
            delivery_mode: PERSISTENT, or PERSISTENT_OR_BUFFERED.

        Raises:
            AqError: 24002 unknown, 25448 the condition is invalid, 25299 delivery mode, 54 other transactions hold
                messages; the text says how many others were removed before.
        """
        name = qualified(queue_table, self.schema, what="queue table")
        mode = choice(
            DeliveryMode, delivery_mode, f"delivery mode of the purge of queue table {name.shown}", DeliveryModeInvalid
        )
        if mode is DeliveryMode.BUFFERED:
            raise DeliveryModeInvalid(
                f"buffered messages of queue table {name.shown} cannot be purged",
                cause="buffered messages are not part of this release",
                cure="use PERSISTENT",
            )
        condition = purge_condition_of(purge_condition)
        with self.look() as db:
            plan = _plan(db, self.need_queue_table(db, name), condition)
        done = self._purge(plan, block)
        told = " ".join((purge_condition or "").splitlines())
        if done.messages or done.entries:
            with self.change() as conn:
                which = f" where {told}" if told else ""
                record(self, conn, Removal("purge", f"queue table {name.shown}{which}", Held(done.messages)))
        _log.info(
            "queue table %s purged: %d message(s) and %d entries of consumers removed; condition: %s",
            name.shown,
            done.messages,
            done.entries,
            told or "none, all messages",
        )
        return done

    def purge_queue(
        self, queue_name: str, purge_condition: str | None = None, *, block: bool | float = False
    ) -> Purged:
        """Remove the messages of one queue for which a condition is true; arguments as :meth:`purge_queue_table`.

        Raises:
            AqError: as :meth:`purge_queue_table`, 24010 unknown.
        """
        return self.purge_queue_table(*self._of_queue(queue_name, purge_condition), block=block)

    def would_purge(self, queue_name: str, purge_condition: str | None = None) -> Purged:
        """What :meth:`purge_queue` would remove now, if nobody holds any of it; nothing is removed.

        ``messages`` counts those of which anything would go.

        Raises:
            AqError: 24010 unknown, 25448, 25449 the condition.
        """
        table, text = self._of_queue(queue_name, purge_condition)
        with self.look() as db:
            name = qualified(table, self.schema, what="queue table")
            plan = _plan(db, self.need_queue_table(db, name), purge_condition_of(text))
        messages, entries = set[int](), 0
        with closing(self._pages(plan)) as pages:
            for page in pages:
                messages.update(map(_number, page))
                entries += sum(row["PROTOCOL"] is not None for row in page)
        return Purged(len(messages), entries)

    def _of_queue(self, queue_name: str, condition: str | None) -> tuple[str, str]:
        """The queue table of a queue, and the condition for its messages alone."""
        with self.look() as db:
            queue = self.need_queue(db, queue_name)
        whole = purge_condition_of(condition).text  # by itself: what is wrong is told where it stands in this text
        name = queue.name.upper().replace("'", "''")
        mine = f"qtview.queue = '{name}'"
        return queue.queue_table, f"{mine} AND ({whole}\n)" if whole else mine

    def _purge(self, plan: _Plan, block: bool | float) -> Purged:
        patience = Patience(self.hub, block)
        waits = patience.waits and (self.connection is None or self.hub.postgresql)
        messages = entries = 0

        def conflict() -> PurgeConflict:
            return PurgeConflict(
                f"queue table {plan.table.full_name} cannot be purged now",
                cause=f"other transactions hold some of the selected messages; {messages} others were removed",
                cure="repeat it when they have ended, or have it wait (block)",
            )

        if not waits:
            with closing(self._pages(plan, in_hands=True)) as pages:
                if any(pages):
                    raise conflict()
        ids = sorted(plan.queues.values()) if waits and self.connection is None else []
        try:
            while True:
                # Alone for one round at a time: a job whose plan is waited for has to have the queue to end it.
                with exclusively(self.hub, ids, patience):
                    left = changed = 0
                    with closing(self._pages(plan)) as pages:
                        for page in pages:
                            done = self._remove(plan, page, partly=waits)
                            if done is None:
                                raise conflict()
                            messages, entries = messages + done.messages, entries + done.entries
                            left, changed = left + done.in_hands, changed + done.changed
                if not left and not changed:
                    return Purged(messages, entries)
                if left and patience.over():
                    raise conflict()
                patience.rest()
        except QueueInUse as error:
            raise conflict() from error

    def _pages(self, plan: _Plan, *, in_hands: bool = False) -> Generator[list[Mapping[str, Any]], None, None]:
        """The selected rows, from a snapshot; on SQLite an application's connection cannot read and write at once."""
        with self.look() as db:
            chosen = plan.condition.where(postgresql=db.postgresql)
            pages: Iterable[list[Mapping[str, Any]]] = admin_sql.selected(
                db, plan.view, chosen, plan.condition.names, _BATCH, in_hands=in_hands
            )
            if self.connection is not None and not db.postgresql:
                pages = list(pages)
            for page in pages:
                rows = page
                if not chosen.exact:
                    rows = self._judged(db, plan.condition, page)
                if rows:
                    yield rows

    def _judged(self, db: Db, condition: PurgeCondition, page: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Those rows for which the condition is true."""
        if not condition.reads_bodies:
            return [row for row in page if condition.holds(row)]
        numbers = [_number(row) for row in page]
        messages = admin_sql.messages_by_number(db, self.hub.hub_id, list(set(numbers)))
        found = ((row, messages.get(number)) for row, number in zip(page, numbers, strict=True))
        return [row for row, message in found if message is not None and condition.holds(row, message)]

    def _remove(self, plan: _Plan, page: list[Mapping[str, Any]], *, partly: bool) -> _Batch | None:
        """Remove the rows of a page that are as they were read, in one transaction.

        None, and nothing is removed, if others hold some and the rest is not to go without them (``partly``).
        """
        wanted: dict[_Key, _AsRead] = {}
        for row in page:
            number = _number(row)
            queue = plan.queues.get(row["QUEUE"])
            if number <= plan.upto and queue is not None:
                known = row["PROTOCOL"] is not None
                who = admin_sql.Who(row["CONSUMER_NAME"], row["ADDRESS"], row["PROTOCOL"]) if known else None
                wanted[number, who] = (queue, int(_STATES[row["MSG_STATE"]]), row["RETRY_COUNT"])
        if not wanted:
            return _Batch(0, 0, 0, 0)
        with self.change() as conn:
            if plan.table.multiple_consumers:
                return _remove_entries(Db(conn), wanted, plan.consumers, partly=partly)
            return _remove_messages(Db(conn), {number: row for (number, _), row in wanted.items()}, partly=partly)


def _number(row: Mapping[str, Any]) -> int:
    return int(row["MSG_ID"][16:], 16)


def _plan(db: Db, table: QueueTableInfo, condition: PurgeCondition) -> _Plan:
    queues = catalog.list_queues(db, "WHERE q.queue_table_id = ?", (table.id,))
    return _Plan(
        table,
        admin_sql.message_view(db, table.id),
        condition,
        admin_sql.consumers(db, table.id) if table.multiple_consumers else {},
        {queue.name.upper(): queue.id for queue in queues},
        db.last_message_id(),
    )


def _remove_messages(db: Db, wanted: dict[int, _AsRead], *, partly: bool) -> _Batch | None:
    free, others = admin_sql.lock_bodies(db, list(wanted))
    claimed = [number for number, row in free.items() if row.state == State.CLAIMED]
    if (others or claimed) and not partly:
        return None
    same = [number for number, row in free.items() if tuple(row) == wanted[number]]
    number = admin_sql.delete_messages(db, same)
    return _Batch(number, 0, len(others) + len(claimed), len(free) - len(same) - len(claimed))


def _remove_entries(
    db: Db, wanted: dict[_Key, _AsRead], consumers: dict[int, admin_sql.Who], *, partly: bool
) -> _Batch | None:
    ids = list({number for number, _ in wanted})
    bodies, taken = admin_sql.lock_bodies(db, ids)
    taken |= {number for number, body in bodies.items() if body.state == State.CLAIMED}
    free, others = admin_sql.lock_entries(db, ids)
    others |= {key for key, entry in free.items() if entry.state == State.CLAIMED}
    held = {(number, consumers.get(consumer)): (consumer, entry) for (number, consumer), entry in free.items()}
    locked = {(number, consumers.get(consumer)) for number, consumer in others}
    there = [key for key in wanted if key[0] in bodies]  # others are gone, or in somebody's hands
    in_hands = sum(number in taken or (number, who) in locked for number, who in wanted)
    if in_hands and not partly:
        return None
    bare: list[int] = []
    by_consumer: dict[int, list[int]] = {}
    changed = 0
    for number, who in there:
        if number in taken or (number, who) in locked:
            continue
        if who is None:
            bare.append(number)
        elif (number, who) in held:
            consumer, entry = held[number, who]
            if _as_read(bodies[number], entry) == wanted[number, who]:
                by_consumer.setdefault(consumer, []).append(number)
            else:
                changed += 1
    entries = sum(admin_sql.delete_entries(db, consumer, numbers) for consumer, numbers in by_consumer.items())
    if bare:
        admin_sql.delete_orphans(db, bare)
    touched = list({number for numbers in by_consumer.values() for number in numbers} | set(bare))
    messages = _remove_bodies(db, touched, bodies)
    return _Batch(messages, entries, in_hands, changed)


def _remove_bodies(db: Db, ids: list[int], bodies: dict[int, admin_sql.Body]) -> int:
    """Messages without entries go; for the rest perhaps nobody waits any more, which the time manager finds out."""
    empty = admin_sql.without_entries(db, ids)
    gone = set(empty)
    rest = [number for number in ids if number not in gone and bodies[number].state == State.SPLIT]
    if rest:
        messages_sql.log_consumption(db, rest)
    return admin_sql.delete_messages(db, empty)


def _as_read(body: admin_sql.Body, entry: admin_sql.Body) -> _AsRead:
    """An entry as the view shows it."""
    state = State.EXPIRED if body.state == State.EXPIRED else entry.state
    return (body.queue_id, int(state), entry.attempts)
