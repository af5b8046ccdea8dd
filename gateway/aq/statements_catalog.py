"""Statements on queue tables, queues and consumers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import inf
from typing import Any, Literal, NamedTuple

from gateway.aq.errors import ConsumerMissing, ConsumerNotAllowed, SubscriberMissing, UnknownQueue
from gateway.aq.model import (
    DEFAULT_MAX_RETRIES,
    DeliveryMode,
    PayloadType,
    QueueInfo,
    QueueRef,
    QueueTableInfo,
    QueueType,
    SortList,
    SubscriberInfo,
)
from gateway.aq.names import DEFAULT_SCHEMA, QualifiedName, agent_name, qualified
from gateway.aq.statements import Db, Row
from transforms.errors import AqError

__all__ = [
    "QueueSettings",
    "consumer_id",
    "enabled",
    "find_queue",
    "find_queue_by_id",
    "find_queue_table",
    "list_queue_tables",
    "list_queues",
    "list_subscribers",
    "queue_settings",
    "require_consumer",
    "require_queue",
    "subscribers_for",
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
#: A queue and its settings at once, where the call needs both; on SQLite and on PostgreSQL.
_BOTH = f"{_REF_COLUMNS}, {_SETTINGS}{_REF_FROM} WHERE q.name_key = ?"
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
    row = db.row(_BOTH_HELD[hold] if db.postgresql else _BOTH, (_key(name, schema),))
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
            cure="create it (create_queue), or list those that exist: mgw aq queues",
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


# -- consumers -------------------------------------------------------------------------------------------------------


def consumer_id(db: Db, queue: QueueRef, agent_name: str, address: str = "", protocol: int = 0) -> int | None:
    """Id of a consumer of the queue, or None."""
    found = _consumer(db, queue, agent_name, address, protocol)
    return found[0] if found else None


def _consumer(db: Db, queue: QueueRef, name: str, address: str, protocol: int) -> tuple[int, str | None] | None:
    row = db.row(
        "SELECT id, transformation FROM aq_consumer"
        " WHERE queue_id = ? AND name_key = ? AND address = ? AND protocol = ?",
        (queue.id, name.upper(), address, protocol),
    )
    return (int(row[0]), row[1]) if row else None


def require_consumer(db: Db, queue: QueueRef, consumer: str | None) -> int:
    """Id of the consumer that dequeues from a multi-consumer queue; 0 for a single-consumer queue.

    Raises:
        AqError: 25231 missing, 25256 not allowed, 24035 unknown.
    """
    return require_consumer_of(db, queue, consumer)[0]


def require_consumer_of(db: Db, queue: QueueRef, consumer: str | None) -> tuple[int, str | None]:
    """As :func:`require_consumer`, with the transformation of the subscriber."""
    if not queue.multiple_consumers:
        if consumer is not None:
            raise ConsumerNotAllowed(
                f"consumer {consumer!r} given for queue {queue.full_name}",
                cause="the queue is a single-consumer queue",
                cure="leave the consumer name out",
            )
        return 0, None
    if consumer is None:
        raise ConsumerMissing(
            f"no consumer given for queue {queue.full_name}",
            cause="the queue is a multi-consumer queue",
            cure="name one of its subscribers as consumer",
        )
    found = _consumer(db, queue, consumer, "", 0)
    if found is None and consumer[:1] == '"':
        found = _consumer(db, queue, agent_name(consumer) or "", "", 0)
    if found is None:
        raise SubscriberMissing(
            f"consumer {consumer!r} of queue {queue.full_name} does not exist",
            cause="it is neither a subscriber nor was it ever named as a recipient",
            cure="add it with add_subscriber",
        )
    return found


def ensure_consumer(db: Db, queue: QueueRef, name: str | None, *, address: str, protocol: int, now: float) -> int:
    """Id of a consumer, stored now as a mere recipient if it is new."""
    found = consumer_id(db, queue, name or "", address, protocol)
    if found is not None:
        return found
    insert = """
        INSERT INTO aq_consumer (queue_id, name, name_key, address, protocol, delivery_mode, queue_to_queue, created)
        VALUES (?, ?, ?, ?, ?, 'PERSISTENT', 0, ?) ON CONFLICT DO NOTHING
    """
    db.run(insert, (queue.id, name, (name or "").upper(), address, protocol, now))
    found = consumer_id(db, queue, name or "", address, protocol)
    if found is None:
        raise SubscriberMissing(f"consumer {name!r} of queue {queue.full_name} could not be stored")
    return found


def subscribers_for(db: Db, queue: QueueRef) -> list[tuple[int, str, str | None]]:
    """(id, name or address, rule) of every subscriber that gets persistent messages."""
    rows = db.rows(
        "SELECT id, name, address, rule FROM aq_consumer WHERE queue_id = ? AND is_subscriber = 1"
        " AND delivery_mode <> 'BUFFERED' ORDER BY id",
        (queue.id,),
    )
    return [(row[0], row[1] or row[2], row[3]) for row in rows]


def list_subscribers(db: Db, queue: QueueRef | None = None) -> list[SubscriberInfo]:
    """Subscribers of one queue, or of all."""
    where, params = ("AND c.queue_id = ?", (queue.id,)) if queue else ("", ())
    rows = db.rows(
        f"""SELECT c.id, q.schema, q.name, c.name, c.address, c.protocol, c.rule, c.transformation, c.delivery_mode,
                   c.queue_to_queue
              FROM aq_consumer c JOIN aq_queue q ON q.id = c.queue_id
             WHERE c.is_subscriber = 1 {where} ORDER BY q.name_key, c.id""",
        params,
    )
    return [
        SubscriberInfo(
            id=row[0],
            queue=QualifiedName(row[1], row[2]).shown,
            name=row[3],
            address=row[4] or None,
            protocol=row[5],
            rule=row[6],
            transformation=row[7],
            delivery_mode=DeliveryMode(row[8]),
            queue_to_queue=bool(row[9]),
        )
        for row in rows
    ]


def upsert_subscriber(db: Db, values: dict[str, Any]) -> None:
    """Store a subscriber; a consumer that was only a recipient so far becomes one."""
    names, marks = ", ".join(values), ", ".join("?" * len(values))
    changes = ", ".join(f"{name} = excluded.{name}" for name in values if name not in ("queue_id", "created"))
    db.run(
        f"""INSERT INTO aq_consumer ({names}) VALUES ({marks})
            ON CONFLICT (queue_id, name_key, address, protocol) DO UPDATE SET {changes}""",
        tuple(values.values()),
    )


def count_subscribers(db: Db, queue: QueueRef) -> list[str]:
    """Addresses of the queue's subscribers (empty text: local)."""
    rows = db.rows("SELECT address FROM aq_consumer WHERE queue_id = ? AND is_subscriber = 1", (queue.id,))
    return [row[0] for row in rows]


def is_subscriber(db: Db, consumer: int) -> bool:
    """Whether a consumer is a subscriber now."""
    row = db.row("SELECT is_subscriber FROM aq_consumer WHERE id = ?", (consumer,))
    return bool(row and row[0])


def set_rule(db: Db, consumer: int, rule: str | None, transformation: str | None) -> None:
    """Set both attributes of a subscriber that can change."""
    db.run(
        "UPDATE aq_consumer SET rule = ?, rule_sql = NULL, transformation = ? WHERE id = ?",
        (rule, transformation, consumer),
    )


def remove_subscriber(db: Db, consumer: int) -> None:
    """End a subscription with its backlog; messages nobody waits for any more are left to the time manager.

    What transactions have in hand is left to them; :func:`drop_removed` takes what they give back.
    """
    db.run(
        """UPDATE aq_consumer SET is_subscriber = 0, rule = NULL, rule_sql = NULL, transformation = NULL,
                  removed_upto = ? WHERE id = ?""",
        (db.last_message_id(), consumer),
    )
    pending = "consumer_id = ? AND state IN (0, 1, 4)"
    if not db.postgresql:
        db.run(f"INSERT INTO aq_dequeue_log (message_id) SELECT message_id FROM aq_entry WHERE {pending}", (consumer,))
        db.run(f"DELETE FROM aq_entry WHERE {pending}", (consumer,))
        return
    db.run(
        f"""WITH free AS MATERIALIZED (SELECT message_id FROM aq_entry WHERE {pending} FOR UPDATE SKIP LOCKED),
                 gone AS (DELETE FROM aq_entry e USING free
                           WHERE e.consumer_id = ? AND e.message_id = free.message_id RETURNING e.message_id)
            INSERT INTO aq_dequeue_log (message_id) SELECT message_id FROM gone""",
        (consumer, consumer),
    )


def drop_removed(db: Db, consumer: int | None = None, *, claim: int | None = None, claimed: Sequence[int] = ()) -> int:
    """Drop what a consumer, or any, gets back although it ceased to be a subscriber since; returns how many entries.

    ``claimed``: those of these messages that the session ``claim`` has in hand count, too.
    """
    who = "AND c.id = ?" if consumer is not None else ""
    held, params = "", list[Any]()
    if claim is not None:
        held, params = "OR (e.state = 8 AND e.claim = ? AND e.message_id {ids})", [claim, db.ids(claimed)]
    rows = db.rows(
        f"""SELECT e.message_id, e.consumer_id FROM aq_consumer c JOIN aq_entry e ON e.consumer_id = c.id
             WHERE c.removed_upto IS NOT NULL {who} AND e.message_id <= c.removed_upto
               AND (e.state IN (0, 1, 4) {held}) {{lock_e}}""",
        params if consumer is None else (consumer, *params),
    )
    if rows:
        db.many("INSERT INTO aq_dequeue_log (message_id) VALUES (?)", [(row[0],) for row in rows])
        db.many("DELETE FROM aq_entry WHERE message_id = ? AND consumer_id = ?", [(row[0], row[1]) for row in rows])
    return len(rows)


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
