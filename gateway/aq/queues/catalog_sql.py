"""Statements on queue tables and queues."""

from __future__ import annotations

from dataclasses import fields
from functools import lru_cache
from math import inf
from typing import Any

from mgw.gateway.aq.errors import UnknownQueue
from mgw.gateway.aq.model import (
    DEFAULT_MAX_RETRIES,
    PayloadType,
    QueueInfo,
    QueueRef,
    QueueTableInfo,
    QueueType,
    SortList,
)
from mgw.gateway.aq.names import DEFAULT_SCHEMA, QualifiedName, qualified
from mgw.gateway.aq.options import read_options
from mgw.gateway.aq.store.columns import Columns
from mgw.gateway.aq.store.queue_settings import Hold, QueueSettings, SettingsAhead
from mgw.gateway.aq.store.statements import Db, Row
from mgw.gateway.aq.store.tables import MESSAGE_COUNTER, Enabled
from mgw.transforms.errors import AqError

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

_REF = Columns(
    id="q.id",
    name="q.name",
    schema="q.schema",
    queue_type="q.queue_type",
    table_schema="t.schema",
    table_name="t.name",
    queue_table_id="t.id",
    payload_type="t.payload_type",
    sort_list="t.sort_list",
    multiple_consumers="t.multiple_consumers",
    max_payload="t.max_payload",
    hub_id="h.hub_id",
    secure="t.secure",
    message_grouping="t.message_grouping",
    object_type="t.object_type",
    type_id="t.type_id",
    jms_types="t.jms_types",
)
_REF_FROM = " FROM aq_queue q JOIN aq_queue_table t ON t.id = q.queue_table_id CROSS JOIN aq_hub h"
_BY_KEY = f"SELECT {_REF.sql} {_REF_FROM} WHERE q.name_key = ?"
_BY_ID = f"SELECT {_REF.sql} {_REF_FROM} WHERE q.id = ?"
_DEFAULT_EXCEPTION = f"SELECT {_REF.sql} {_REF_FROM} WHERE q.queue_table_id = ? AND q.name_key = ?"
_ID = _REF.at("id")
_SETTINGS = Columns(
    enqueue_enabled="q.enqueue_enabled",
    dequeue_enabled="q.dequeue_enabled",
    max_retries="q.max_retries",
    retry_delay="q.retry_delay",
    retention_time="q.retention_time",
)
_PLAIN = f"SELECT {_SETTINGS.sql} FROM aq_queue q WHERE q.id = ?"
_QUEUE_LOCK = "(q.tableoid::int, (q.id % 2147483647)::int)"
_LOCKED = f"CASE WHEN q.{{0}}_enabled = {Enabled.STARTED} THEN pg_try_advisory_xact_lock_shared{_QUEUE_LOCK} END"
#: Settings, and whether the queue is held; for a dequeue also what its search has to know.
_HELD_SETTINGS = _SETTINGS.extended(held=_LOCKED.format("enqueue"))
_SEARCHED = _SETTINGS.extended(
    reopened="(SELECT min(r.k3) FROM aq_reopened r WHERE r.queue_id = q.id)",
    last_id="(SELECT last_value FROM aq_message_id)",
    held=_LOCKED.format("dequeue"),
)
_HELD_AT = {len(columns): columns.at("held") for columns in (_HELD_SETTINGS, _SEARCHED)}
_FOR_SEARCH = _SEARCHED.getter("reopened", "last_id")
_HELD_COLUMNS = {"enqueue": _HELD_SETTINGS.sql, "dequeue": _SEARCHED.sql}
_HELD = {direction: f"SELECT {columns} FROM aq_queue q WHERE q.id = ?" for direction, columns in _HELD_COLUMNS.items()}
_LAST_ID = f"(SELECT value FROM aq_counter WHERE name = '{MESSAGE_COUNTER}')"
#: A queue and its settings at once, where the call needs both; on SQLite and on PostgreSQL.
_BOTH, _BOTH_HELD = (
    {
        direction: f"SELECT {_REF.sql}, {columns} {_REF_FROM} WHERE q.name_key = ?"
        for direction, columns in columns_of.items()
    }
    for columns_of in (
        {"enqueue": _SETTINGS.sql, "dequeue": _SEARCHED.altered(reopened="NULL", last_id=_LAST_ID, held="NULL").sql},
        _HELD_COLUMNS,
    )
)
_WAIT = f"SELECT pg_advisory_xact_lock_shared{_QUEUE_LOCK} IS NULL FROM aq_queue q WHERE q.id = ?"


@lru_cache(maxsize=4096)
def _ref(row: Row) -> QueueRef:
    of = _REF.named(row)
    return QueueRef(
        id=of.id,
        name=of.name,
        schema=of.schema,
        queue_type=QueueType(of.queue_type),
        queue_table=QualifiedName(of.table_schema, of.table_name).shown,
        queue_table_id=of.queue_table_id,
        payload_type=PayloadType(of.payload_type),
        sort_list=SortList(of.sort_list),
        multiple_consumers=bool(of.multiple_consumers),
        max_payload=of.max_payload,
        hub_id=bytes(of.hub_id),
        secure=bool(of.secure),
        grouped=of.message_grouping == "TRANSACTIONAL",
        object_type=of.object_type,
        type_id=of.type_id,
        jms_types=bool(of.jms_types),
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
    rest = row[_REF.rest]
    db.settings = SettingsAhead(row[_ID], hold, _is_held(rest), _settings(rest))
    return _ref(row[_REF.whole])


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
        AqError: 25205 when it was dropped in the meantime.
    """
    ahead, db.settings = db.settings, None
    row: Row | None
    if hold and ahead is not None and ahead.queue_id == queue.id and ahead.hold == hold:
        if ahead.held:
            return ahead.settings
    else:
        row = db.row(_HELD[hold] if hold and db.postgresql else _PLAIN, (queue.id,))
        if row is None:
            raise _gone(queue)
        if _is_held(row):
            return _settings(row)
    db.rows(_WAIT, (queue.id,))
    row = db.row(_PLAIN, (queue.id,))
    if row is None:
        raise _gone(queue)
    return _settings(row)


def ids_ahead(db: Db, queue: QueueRef, count: int, told: int | None) -> list[int] | None:
    """Fresh message ids (:meth:`Db.message_ids`) in the round trip that reads the settings for an enqueue (PostgreSQL).

    :func:`queue_settings`, which is called next, knows the settings then. None: the queue is gone or not held, so that
    ids have to be taken later. They are never taken before the lock: see :mod:`mgw.gateway.aq.queues.search_bounds`.
    """
    found, ids = db.together((_HELD["enqueue"], (queue.id,)), db.message_ids_query(count, told))
    if not found:
        return None
    held = _is_held(found[0])
    db.settings = SettingsAhead(queue.id, "enqueue", held, _settings(found[0]))
    return [number for (number,) in ids] if held else None


def _is_held(row: Row) -> bool:
    """Whether the queue is held, where that was asked for; if not, somebody has it exclusively, or waits for it."""
    held = _HELD_AT.get(len(row))
    return held is None or row[held] is not False


def _settings(row: Row) -> QueueSettings:
    enqueue, dequeue, retries, delay, retention = row[_SETTINGS.whole]
    return QueueSettings(
        enqueue == Enabled.STARTED,
        dequeue == Enabled.STARTED,
        DEFAULT_MAX_RETRIES if retries is None else retries,
        float(delay),
        float(retention),
        enqueue == Enabled.STOPPING,
        *(_FOR_SEARCH(row) if len(row) == len(_SEARCHED) else (-inf, None)),
    )


def _gone(queue: QueueRef) -> UnknownQueue:
    return UnknownQueue(
        f"queue {queue.full_name} does not exist",
        cause="it was dropped in the meantime",
        cure="create it again or use another queue",
    )


def enabled(db: Db, queue_id: int) -> tuple[Enabled, Enabled] | None:
    """Whether a queue can be enqueued to and dequeued from. None: it is gone."""
    row = db.row("SELECT enqueue_enabled, dequeue_enabled FROM aq_queue WHERE id = ?", (queue_id,))
    if row is None:
        return None
    enqueue, dequeue = row
    return Enabled(enqueue), Enabled(dequeue)


# -- queue tables and queues -----------------------------------------------------------------------------------------

_TABLE = Columns(**{field.name: field.name for field in fields(QueueTableInfo)})
_TABLES = f"SELECT {_TABLE.sql} FROM aq_queue_table"
_QUEUE = Columns(
    id="q.id",
    schema="q.schema",
    name="q.name",
    table_schema="t.schema",
    table_name="t.name",
    queue_type="q.queue_type",
    max_retries="q.max_retries",
    retry_delay="q.retry_delay",
    retention_time="q.retention_time",
    enqueue_enabled="q.enqueue_enabled",
    dequeue_enabled="q.dequeue_enabled",
    comment="q.comment",
    payload_type="t.payload_type",
    multiple_consumers="t.multiple_consumers",
    object_type="t.object_type",
)
_QUEUES = f"SELECT {_QUEUE.sql} FROM aq_queue q JOIN aq_queue_table t ON t.id = q.queue_table_id"


def _table_info(row: Row) -> QueueTableInfo:
    of = _TABLE.named(row)
    typed = {
        "payload_type": PayloadType(of.payload_type),
        "sort_list": SortList(of.sort_list),
        **{name: bool(getattr(of, name)) for name in ("multiple_consumers", "secure", "jms_types")},
        "options": read_options(of.options),
    }
    return QueueTableInfo(**{**of._asdict(), **typed})


def find_queue_table(db: Db, key: str) -> QueueTableInfo | None:
    """The queue table with this name key, or None."""
    row = db.row(_TABLES + " WHERE name_key = ?", (key,))
    return _table_info(row) if row else None


def list_queue_tables(db: Db) -> list[QueueTableInfo]:
    """Every queue table, by name."""
    return [_table_info(row) for row in db.rows(_TABLES + " ORDER BY name_key")]


def list_queues(db: Db, where: str = "", params: tuple[Any, ...] = ()) -> list[QueueInfo]:
    """Queues by name; ``where`` is a constant of this package."""
    return [
        QueueInfo(
            id=of.id,
            schema=of.schema,
            name=of.name,
            queue_table=QualifiedName(of.table_schema, of.table_name).shown,
            queue_type=QueueType(of.queue_type),
            max_retries=DEFAULT_MAX_RETRIES if of.max_retries is None else of.max_retries,
            retry_delay=of.retry_delay,
            retention_time=of.retention_time,
            enqueue_enabled=of.enqueue_enabled == Enabled.STARTED,
            dequeue_enabled=of.dequeue_enabled == Enabled.STARTED,
            comment=of.comment,
            payload_type=PayloadType(of.payload_type),
            multiple_consumers=bool(of.multiple_consumers),
            object_type=of.object_type,
        )
        for of in map(_QUEUE.named, db.rows(f"{_QUEUES} {where} ORDER BY q.name_key", params))
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
    return int(db.scalar(f"INSERT INTO {table} ({names}) VALUES ({marks}) RETURNING id", tuple(values.values())))


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
    if not db.postgresql:  # there they add up to nothing and are merged away; to delete them would wait for who merges
        db.run("DELETE FROM aq_total WHERE queue_id = ?", (queue_id,))
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
