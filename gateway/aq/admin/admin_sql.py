"""Statements of administration: who works on a queue, what a purge removes, what a queue table holds.

On PostgreSQL a transaction that enqueues into or dequeues from a queue holds a shared advisory lock on it until it ends
(:func:`mgw.gateway.aq.queues.catalog_sql.queue_settings`); an operation that needs the queue for itself takes it
exclusively. On SQLite the claims of the sessions say the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mgw.gateway.aq.conditions.sql.columns import view_columns
from mgw.gateway.aq.conditions.sql.rules import Filter
from mgw.gateway.aq.payloads import forms as payloads
from mgw.gateway.aq.queues.codec import decode
from mgw.gateway.aq.store import totals_sql
from mgw.gateway.aq.store.columns import ID, STORED
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.aq.store.tables import Enabled, State
from mgw.gateway.aq.views.dialect import quoted
from mgw.transforms.message import Message

__all__ = [
    "Body",
    "InHands",
    "Who",
    "body_over",
    "close",
    "consumers",
    "delete_entries",
    "delete_messages",
    "delete_orphans",
    "delete_some_messages",
    "exclusive",
    "in_hands",
    "lock_bodies",
    "lock_entries",
    "message_view",
    "messages_by_number",
    "open_again",
    "selected",
    "try_exclusive",
    "update_queue_table",
    "without_entries",
]

_LOCK = "(tableoid::int, (id % 2147483647)::int)"  # of table aq_queue: hubs in one database do not share it


class InHands(NamedTuple):
    """Messages that somebody has taken and not yet consumed, as far as the hub stores it."""

    sessions: int  # SQLite only
    plans: int  # of gateway jobs


def in_hands(db: Db, queue_ids: Sequence[int]) -> InHands:
    """How many messages of these queues are held by sessions, and by plans of jobs."""
    row = db.row(
        f"""SELECT COUNT(h.claim), COUNT(*) - COUNT(h.claim) FROM (
                SELECT m.claim FROM aq_message m WHERE m.queue_id {{ids}} AND m.state = {State.CLAIMED}
                UNION ALL
                SELECT e.claim FROM aq_consumer c JOIN aq_entry e ON e.consumer_id = c.id
                 WHERE c.queue_id {{ids}} AND e.state = {State.CLAIMED}) AS h""",
        (db.ids(queue_ids), db.ids(queue_ids)),
    )
    return InHands(*(row or (0, 0)))


# -- a queue for oneself ---------------------------------------------------------------------------------------------


def try_exclusive(db: Db, queue_ids: Sequence[int]) -> bool:
    """Whether no other transaction works on these queues; none can begin to before this one ends (PostgreSQL)."""
    if not db.postgresql:
        return True
    sql = f"SELECT bool_and(pg_try_advisory_xact_lock{_LOCK}) FROM aq_queue WHERE id {{ids}}"
    return bool(db.scalar(sql, (db.ids(queue_ids),)))


def exclusive(db: Db, queue_ids: Sequence[int], milliseconds: int = 0) -> None:
    """As :func:`try_exclusive`, and wait for those that do, at most so long for each queue (0: as long as it takes)."""
    if not db.postgresql:
        return
    if milliseconds:
        db.run(f"SET LOCAL lock_timeout = {int(milliseconds)}")
    for queue_id in sorted(queue_ids):
        db.rows(f"SELECT pg_advisory_xact_lock{_LOCK} IS NULL FROM aq_queue WHERE id = ?", (queue_id,))


def close(db: Db, queue_id: int, *, enqueue: bool, dequeue: bool) -> None:
    """Let nobody begin any more who does not work on the queue yet; :func:`open_again` takes it back."""
    for direction, wanted in (("enqueue_enabled", enqueue), ("dequeue_enabled", dequeue)):
        if wanted:
            _turn(db, queue_id, direction, Enabled.STARTED, Enabled.STOPPING)


def open_again(db: Db, queue_id: int, *, enqueue: bool, dequeue: bool) -> None:
    """The queue is not stopped after all."""
    for direction, wanted in (("enqueue_enabled", enqueue), ("dequeue_enabled", dequeue)):
        if wanted:
            _turn(db, queue_id, direction, Enabled.STOPPING, Enabled.STARTED)


def _turn(db: Db, queue_id: int, direction: str, before: Enabled, now: Enabled) -> None:
    db.run(f"UPDATE aq_queue SET {direction} = {now} WHERE id = ? AND {direction} = {before}", (queue_id,))


# -- queue tables ----------------------------------------------------------------------------------------------------


def update_queue_table(db: Db, table_id: int, values: dict[str, Any]) -> None:
    """Set columns of a queue table."""
    assignments = ", ".join(f"{name} = ?" for name in values)
    db.run(f"UPDATE aq_queue_table SET {assignments} WHERE id = ?", (*values.values(), table_id))


def body_over(db: Db, table_id: int, size: int) -> bool:
    """Whether a message of the queue table has a body of more than ``size`` bytes."""
    found = db.scalar(
        """SELECT EXISTS (SELECT 1 FROM aq_message m JOIN aq_queue q ON q.id = m.queue_id
                           WHERE q.queue_table_id = ? AND length(m.body) > ?)""",
        (table_id, size),
    )
    return bool(found)


def delete_some_messages(db: Db, queue_id: int, limit: int) -> int:
    """Delete messages of a queue that is to be dropped; returns how many, less than ``limit`` at the end."""
    ids = db.column("SELECT id FROM aq_message WHERE queue_id = ? LIMIT ?", (queue_id, limit))
    if ids:
        db.run("DELETE FROM aq_entry WHERE message_id {ids}", (db.ids(ids),))
        totals_sql.delete_messages(db, "id {ids}", (db.ids(ids),))
    return len(ids)


# -- purge -----------------------------------------------------------------------------------------------------------

_COLUMNS = ("QUEUE", "MSG_ID", "MSG_STATE", "RETRY_COUNT", "CONSUMER_NAME", "ADDRESS", "PROTOCOL")


def message_view(db: Db, table_id: int) -> str:
    """Name of the view of a queue table's messages, as it is written in SQL."""
    name = db.scalar("SELECT name FROM aq_view WHERE kind = 'MESSAGES' AND queue_table_id = ?", (table_id,))
    return quoted(name or "")


def selected(
    db: Db, view: str, chosen: Filter, names: Sequence[str], size: int, *, in_hands: bool = False
) -> Iterator[list[Mapping[str, Any]]]:
    """Rows of a message view that pass a filter, in pages of one snapshot, by names of columns.

    Args:
        names: columns to be judged by, where the filter is not exact; times come as text.
        in_hands: only those that somebody has taken, as far as the hub stores it.

    The connection may only read between two pages, on SQLite.
    """
    columns = ", ".join(f'qtview."{name}"' for name in _COLUMNS)
    if not chosen.exact:  # a date may be beyond what the driver can read
        known = view_columns(postgresql=db.postgresql)
        columns += "".join(f', {known[name.lower()].sql} AS "{name}"' for name in names if name not in _COLUMNS)
    where = f'({chosen.sql}) AND qtview."IN_TRANSACTION"' if in_hands else chosen.sql
    if db.postgresql:  # the name of the view may hold any character
        view, where = view.replace("%", "%%"), where.replace("%", "%%").replace("?", "%s")
    cursor = db.raw.cursor(name="mgw_selected") if db.postgresql else db.raw.cursor()
    try:
        cursor.execute(f"SELECT {columns} FROM {view} AS qtview WHERE {where}", tuple(chosen.params))
        names = [name for name, *_ in cursor.description]
        while page := cursor.fetchmany(size):
            yield [dict(zip(names, row, strict=True)) for row in page]
    finally:
        cursor.close()


def messages_by_number(db: Db, hub_id: bytes, numbers: Sequence[int]) -> dict[int, Message]:
    """Messages with their bodies, by their numbers; those that are gone are left out."""
    rows = db.rows(f"SELECT {STORED.of('m')} FROM aq_message m WHERE m.id {{ids}}", (db.ids(numbers),))
    payloads.learn(db, rows)
    return {row[ID]: message for row, message in zip(rows, decode(rows, hub_id), strict=True)}


class Who(NamedTuple):
    """A consumer as the view shows it; a message has no two that look the same."""

    name: str | None
    address: str | None
    protocol: int


class Body(NamedTuple):
    """What of a message a purge looks at."""

    queue_id: int
    state: int
    attempts: int


def consumers(db: Db, table_id: int) -> dict[int, Who]:
    """Who the consumers of a queue table are, by their ids."""
    rows = db.rows(
        """SELECT c.id, c.name_key, c.address, c.protocol FROM aq_consumer c JOIN aq_queue q ON q.id = c.queue_id
            WHERE q.queue_table_id = ?""",
        (table_id,),
    )
    return {number: Who(name or None, address or None, protocol) for number, name, address, protocol in rows}


def lock_bodies(db: Db, ids: Sequence[int]) -> tuple[dict[int, Body], set[int]]:
    """Messages that are there and free, now locked, and the ids of those that other transactions hold."""
    columns = "id, queue_id, state, attempts"
    rows = db.rows(f"SELECT {columns} FROM aq_message WHERE id {{ids}} {{lock}}", (db.ids(ids),))
    free = {number: Body(*rest) for number, *rest in rows}
    if not db.postgresql:
        return free, set()
    return free, set(db.column("SELECT id FROM aq_message WHERE id {ids}", (db.ids(ids),))) - free.keys()


def lock_entries(db: Db, ids: Sequence[int]) -> tuple[dict[tuple[int, int], Body], set[tuple[int, int]]]:
    """Entries of these messages (message, consumer) that are free, now locked, and those that others hold."""
    columns = "message_id, consumer_id, queue_id, state, attempts"
    rows = db.rows(f"SELECT {columns} FROM aq_entry WHERE message_id {{ids}} {{lock}}", (db.ids(ids),))
    free = {(message, consumer): Body(*rest) for message, consumer, *rest in rows}
    if not db.postgresql:
        return free, set()
    every = db.rows("SELECT message_id, consumer_id FROM aq_entry WHERE message_id {ids}", (db.ids(ids),))
    return free, {(message, consumer) for message, consumer in every} - free.keys()


def delete_messages(db: Db, ids: Sequence[int]) -> int:
    """Delete messages, without a look at their entries; returns how many."""
    return totals_sql.delete_messages(db, "id {ids}", (db.ids(ids),)) if ids else 0


def delete_entries(db: Db, consumer: int, ids: Sequence[int]) -> int:
    """Delete the entries of a consumer; returns how many."""
    return db.run("DELETE FROM aq_entry WHERE consumer_id = ? AND message_id {ids}", (consumer, db.ids(ids)))


def delete_orphans(db: Db, ids: Sequence[int]) -> None:
    """Delete the entries of these messages whose consumers are gone with their queue."""
    db.run(
        """DELETE FROM aq_entry WHERE message_id {ids}
              AND NOT EXISTS (SELECT 1 FROM aq_consumer c WHERE c.id = aq_entry.consumer_id)""",
        (db.ids(ids),),
    )


def without_entries(db: Db, ids: Sequence[int]) -> list[int]:
    """Those messages that have no entry."""
    held = set(db.column("SELECT message_id FROM aq_entry WHERE message_id {ids}", (db.ids(ids),)))
    return [number for number in ids if number not in held]
