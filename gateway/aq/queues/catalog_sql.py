"""Statements on queue tables and queues."""

from __future__ import annotations

from functools import lru_cache
from math import inf
from typing import Any, Literal, NamedTuple

from gateway.aq.errors import UnknownQueue
from gateway.aq.model import (
    DEFAULT_MAX_RETRIES,
    PayloadType,
    QueueInfo,
    QueueRef,
    QueueTableInfo,
    QueueType,
    SortList,
)
from gateway.aq.names import DEFAULT_SCHEMA, QualifiedName, qualified
from gateway.aq.statements import Db, Row
from gateway.aq.tables import MESSAGE_COUNTER
from transforms.errors import AqError

__all__ = [
    "QueueSettings",
    "enabled",
    "find_queue",
    "find_queue_by_id",
    "find_queue_table",
    "list_queue_tables",
    "list_queues",
    "queue_settings",
    "require_queue",
]

_REF_COLUMNS = """
    SELECT q.id, q.name, q.schema, q.queue_type, t.schema, t.name, t.id, t.payload_type, t.sort_list,
           t.multiple_consumers, t.max_payload, h.hub_id, t.secure, t.message_grouping, t.object_type, t.type_id,
           t.jms_types"""
_REF_FROM = """
      FROM aq_queue q JOIN aq_queue_table t ON t.id = q.queue_table_id CROSS JOIN aq_hub h
"""
_OF_REF = 17  # columns
_REF = _REF_COLUMNS + _REF_FROM
_BY_KEY = _REF + " WHERE q.name_key = ?"
_BY_ID = _REF + " WHERE q.id = ?"
_DEFAULT_EXCEPTION = _REF + " WHERE q.queue_table_id = ? AND q.name_key = ?"


class QueueSettings(NamedTuple):
    """The attributes of a queue that may change while it is used."""

    enqueue_enabled: bool
    dequeue_enabled: bool
    max_retries: int
    retry_delay: float
    retention_time: float
    enqueue_closing: bool = False  # being stopped: what a transaction has enqueued it may still commit
    reopened: float | None = None  # last key of the first message that became READY again; -inf: not looked up
    last_id: int | None = None  # of the hub's messages; None: not looked up


Hold = Literal["enqueue", "dequeue"]
_ENABLED, _CLOSING = 1, 2
_SETTINGS = "q.enqueue_enabled, q.dequeue_enabled, q.max_retries, q.retry_delay, q.retention_time"
_PLAIN = f"SELECT {_SETTINGS} FROM aq_queue q WHERE q.id = ?"
_QUEUE_LOCK = "(q.tableoid::int, (q.id % 2147483647)::int)"
_SEARCHED = (
    """(SELECT min(r.k3) FROM aq_reopened r WHERE r.queue_id = q.id), (SELECT last_value FROM aq_message_id), """
)
_LOCKED = f"CASE WHEN q.{{0}}_enabled = 1 THEN pg_try_advisory_xact_lock_shared{_QUEUE_LOCK} END"
_HELD_COLUMNS = {
    "enqueue": f"{_SETTINGS}, {_LOCKED.format('enqueue')}",
    "dequeue": f"{_SETTINGS}, {_SEARCHED}{_LOCKED.format('dequeue')}",
}
_WITH_SEARCHED = 8  # columns
_HELD = {direction: f"SELECT {columns} FROM aq_queue q WHERE q.id = ?" for direction, columns in _HELD_COLUMNS.items()}
_LAST_ID = f"(SELECT value FROM aq_counter WHERE name = '{MESSAGE_COUNTER}')"
#: A queue and its settings at once, where the call needs both; on SQLite and on PostgreSQL.
_BOTH = {
    "enqueue": f"{_REF_COLUMNS}, {_SETTINGS}{_REF_FROM} WHERE q.name_key = ?",
    "dequeue": f"{_REF_COLUMNS}, {_SETTINGS}, NULL, {_LAST_ID}, NULL{_REF_FROM} WHERE q.name_key = ?",
}
_BOTH_HELD = {
    direction: f"{_REF_COLUMNS}, {columns}{_REF_FROM} WHERE q.name_key = ?"
    for direction, columns in _HELD_COLUMNS.items()
}
_WAIT = f"SELECT pg_advisory_xact_lock_shared{_QUEUE_LOCK} IS NULL FROM aq_queue q WHERE q.id = ?"


@lru_cache(maxsize=4096)
def _ref(row: Row) -> QueueRef:
    return QueueRef(
        id=row[0],
        name=row[1],
        schema=row[2],
        queue_type=QueueType(row[3]),
        queue_table=QualifiedName(row[4], row[5]).shown,
        queue_table_id=row[6],
        payload_type=PayloadType(row[7]),
        sort_list=SortList(row[8]),
        multiple_consumers=bool(row[9]),
        max_payload=row[10],
        hub_id=bytes(row[11]),
        secure=bool(row[12]),
        grouped=row[13] == "TRANSACTIONAL",
        object_type=row[14],
        type_id=row[15],
        jms_types=bool(row[16]),
    )


def find_queue(db: Db, name: str, schema: str = DEFAULT_SCHEMA, *, hold: Hold | None = None) -> QueueRef | None:
    """The queue called ``name``, or None.

    ``hold``: the call asks for :func:`queue_settings` with this next, and the same statement answers it.
    """
    if hold is None:
        row = db.row(_BY_KEY, (_key(name, schema),))
        return _ref(row) if row else None
    row = db.row((_BOTH_HELD if db.postgresql else _BOTH)[hold], (_key(name, schema),))
    if row is None:
        return None
    db.settings = (row[0], hold, row[_OF_REF:])
    return _ref(row[:_OF_REF])


def _key(name: str, schema: str) -> str:
    if type(name) is str and type(schema) is str:
        return _known_key(name, schema)
    return qualified(name, schema).key  # which says what is wrong with it


@lru_cache(maxsize=4096)
def _known_key(name: str, schema: str) -> str:
    return qualified(name, schema).key


def find_queue_by_id(db: Db, queue_id: int) -> QueueRef | None:
    """The queue with this id, or None."""
    row = db.row(_BY_ID, (queue_id,))
    return _ref(row) if row else None


def require_queue(
    db: Db,
    name: str,
    schema: str = DEFAULT_SCHEMA,
    *,
    error: type[AqError] = UnknownQueue,
    hold: Hold | None = None,
) -> QueueRef:
    """The queue called ``name``; ``hold`` as in :func:`find_queue`.

    Raises:
        UnknownQueue: there is none. Administration has another error, ``error``, for that.
    """
    found = find_queue(db, name, schema, hold=hold)
    if found is None:
        raise error(
            f"queue {name!r} does not exist",
            cause="no queue of that name is in the hub",
            cure="create it (queues in the file, create_queue in Python), or list those that exist: mgw aq queues",
        )
    return found


def default_exception_queue(db: Db, queue: QueueRef) -> QueueRef | None:
    """``AQ$_<queue table>_E`` of the queue's table (AQ guide 12.2 §8.1.1)."""
    table = qualified(queue.queue_table)
    key = QualifiedName(table.schema, f"AQ$_{table.name}_E").key
    row = db.row(_DEFAULT_EXCEPTION, (queue.queue_table_id, key))
    return _ref(row) if row else None


def queue_settings(db: Db, queue: QueueRef, *, hold: Hold | None = None) -> QueueSettings:
    """The queue's current settings.

    Args:
        hold: what the transaction is going to do, if the queue is enabled for it: it cannot be stopped, and a blocking
            purge of its table waits, until the transaction ends. On PostgreSQL that is a shared lock, taken in the same
            statement; on SQLite the claims of sessions say it.

    Raises:
        AqError: 25205 when it was dropped meanwhile.
    """
    known, db.settings = db.settings, None
    row: Row | None
    if hold and known is not None and known[:2] == (queue.id, hold):
        row = known[2]
    else:
        row = db.row(_HELD[hold] if hold and db.postgresql else _PLAIN, (queue.id,))
    if row is not None and row[-1] is False:  # somebody has, or waits for, the queue for himself
        db.rows(_WAIT, (queue.id,))
        row = db.row(_PLAIN, (queue.id,))
    if row is None:
        raise UnknownQueue(
            f"queue {queue.full_name} does not exist",
            cause="it was dropped meanwhile",
            cure="create it again or use another queue",
        )
    return QueueSettings(
        row[0] == _ENABLED,
        row[1] == _ENABLED,
        DEFAULT_MAX_RETRIES if row[2] is None else row[2],
        float(row[3]),
        float(row[4]),
        row[0] == _CLOSING,
        *((row[5], row[6]) if len(row) == _WITH_SEARCHED else (-inf, None)),
    )


def enabled(db: Db, queue_id: int) -> tuple[int, int] | None:
    """Whether a queue's directions, enqueue and dequeue, are open: 0, 1, 2 while being stopped. None: it is gone."""
    row = db.row("SELECT enqueue_enabled, dequeue_enabled FROM aq_queue WHERE id = ?", (queue_id,))
    return (row[0], row[1]) if row else None


# -- queue tables and queues -----------------------------------------------------------------------------------------

_TABLE = """
    SELECT id, schema, name, payload_type, sort_list, multiple_consumers, message_grouping, compatible, secure,
           max_payload, comment, object_type, type_id, jms_types, storage_clause, primary_instance, secondary_instance
      FROM aq_queue_table
"""
_QUEUE = """
    SELECT q.id, q.schema, q.name, t.schema, t.name, q.queue_type, q.max_retries, q.retry_delay, q.retention_time,
           q.enqueue_enabled, q.dequeue_enabled, q.comment, t.payload_type, t.multiple_consumers,
           t.object_type
      FROM aq_queue q JOIN aq_queue_table t ON t.id = q.queue_table_id
"""


def _table_info(row: Row) -> QueueTableInfo:
    return QueueTableInfo(
        id=row[0],
        schema=row[1],
        name=row[2],
        payload_type=PayloadType(row[3]),
        sort_list=SortList(row[4]),
        multiple_consumers=bool(row[5]),
        message_grouping=row[6],
        compatible=row[7],
        secure=bool(row[8]),
        max_payload=row[9],
        comment=row[10],
        object_type=row[11],
        type_id=row[12],
        jms_types=bool(row[13]),
        storage_clause=row[14],
        primary_instance=row[15],
        secondary_instance=row[16],
    )


def find_queue_table(db: Db, key: str) -> QueueTableInfo | None:
    """The queue table with this name key, or None."""
    row = db.row(_TABLE + " WHERE name_key = ?", (key,))
    return _table_info(row) if row else None


def list_queue_tables(db: Db) -> list[QueueTableInfo]:
    """Every queue table, by name."""
    return [_table_info(row) for row in db.rows(_TABLE + " ORDER BY name_key")]


def list_queues(db: Db, where: str = "", params: tuple[Any, ...] = ()) -> list[QueueInfo]:
    """Queues by name; ``where`` is a constant of this package."""
    return [
        QueueInfo(
            id=row[0],
            schema=row[1],
            name=row[2],
            queue_table=QualifiedName(row[3], row[4]).shown,
            queue_type=QueueType(row[5]),
            max_retries=DEFAULT_MAX_RETRIES if row[6] is None else row[6],
            retry_delay=row[7],
            retention_time=row[8],
            enqueue_enabled=row[9] == _ENABLED,
            dequeue_enabled=row[10] == _ENABLED,
            comment=row[11],
            payload_type=PayloadType(row[12]),
            multiple_consumers=bool(row[13]),
            object_type=row[14],
        )
        for row in db.rows(f"{_QUEUE} {where} ORDER BY q.name_key", params)
    ]


def queues_of(db: Db, table_id: int) -> list[QueueInfo]:
    """The queues of a queue table, by name."""
    return list_queues(db, "WHERE q.queue_table_id = ?", (table_id,))


def insert_queue_table(db: Db, values: dict[str, Any]) -> int:
    """Store a queue table and return its id."""
    return _insert(db, "aq_queue_table", values)


def insert_queue(db: Db, values: dict[str, Any]) -> int:
    """Store a queue and return its id."""
    return _insert(db, "aq_queue", values)


def _insert(db: Db, table: str, values: dict[str, Any]) -> int:
    names, marks = ", ".join(values), ", ".join("?" * len(values))
    found = db.rows(f"INSERT INTO {table} ({names}) VALUES ({marks}) RETURNING id", tuple(values.values()))
    return int(found[0][0])


def enable_jms_types(db: Db, table_id: int) -> None:
    """Let an ANYDATA queue table take JMS and XML types."""
    db.run("UPDATE aq_queue_table SET jms_types = 1 WHERE id = ?", (table_id,))


def update_queue(db: Db, queue_id: int, values: dict[str, Any]) -> None:
    """Set columns of a queue."""
    assignments = ", ".join(f"{name} = ?" for name in values)
    db.run(f"UPDATE aq_queue SET {assignments} WHERE id = ?", (*values.values(), queue_id))


def delete_queue(db: Db, queue_id: int) -> None:
    """Delete a queue with its messages and consumers."""
    db.run("DELETE FROM aq_entry WHERE message_id IN (SELECT id FROM aq_message WHERE queue_id = ?)", (queue_id,))
    db.run("DELETE FROM aq_message WHERE queue_id = ?", (queue_id,))
    db.run("DELETE FROM aq_reopened WHERE queue_id = ?", (queue_id,))
    db.run("DELETE FROM aq_consumer WHERE queue_id = ?", (queue_id,))
    db.run("DELETE FROM aq_privilege WHERE queue_id = ?", (queue_id,))
    db.run("DELETE FROM aq_queue WHERE id = ?", (queue_id,))


def delete_queue_table(db: Db, table_id: int) -> None:
    """Delete an empty queue table."""
    db.run("DELETE FROM aq_queue_table WHERE id = ?", (table_id,))


def names_exception_queue(db: Db, name: str, queue: QueueRef) -> QueueRef | None:
    """The exception queue a message of ``queue`` names, or None if it is missing or cannot hold the message."""
    try:
        found = find_queue(db, name, queue.schema)
    except AqError:
        return None
    if found is None or found.queue_type is not QueueType.EXCEPTION:
        return None
    held = (queue.multiple_consumers, queue.payload_type, queue.type_id)
    return found if (found.multiple_consumers, found.payload_type, found.type_id) == held else None
