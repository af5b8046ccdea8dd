"""Statements on the consumers of queues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mgw.gateway.aq.errors import ConsumerMissing, ConsumerNotAllowed, SubscriberMissing
from mgw.gateway.aq.model import DeliveryMode, QueueRef, SubscriberInfo
from mgw.gateway.aq.names import JOB_SUBSCRIBER, QualifiedName, agent_key, is_of_job
from mgw.gateway.aq.options import read_options
from mgw.gateway.aq.store.columns import Columns
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.aq.store.tables import OPEN, State

__all__ = [
    "consumer_id",
    "count_subscribers",
    "drop_removed",
    "ensure_consumer",
    "is_subscriber",
    "list_subscribers",
    "options_of",
    "remove_subscriber",
    "require_consumer",
    "require_consumer_of",
    "set_options",
    "set_rule",
    "subscriber",
    "subscribers_for",
    "upsert_subscriber",
]


_SUBSCRIBER = Columns(
    id="c.id",
    queue_schema="q.schema",
    queue="q.name",
    name="c.name",
    address="c.address",
    protocol="c.protocol",
    rule="c.rule",
    transformation="c.transformation",
    delivery_mode="c.delivery_mode",
    queue_to_queue="c.queue_to_queue",
    options="c.options",
)


def consumer_id(db: Db, queue: QueueRef, agent_name: str, address: str = "", protocol: int = 0) -> int | None:
    """Id of a consumer of the queue, or None."""
    number, _ = _consumer(db, queue, agent_name.upper(), address, protocol) or (None, None)
    return number


def _consumer(db: Db, queue: QueueRef, key: str, address: str, protocol: int) -> tuple[int, str | None] | None:
    row = db.row(
        "SELECT id, transformation FROM aq_consumer"
        " WHERE queue_id = ? AND name_key = ? AND address = ? AND protocol = ?",
        (queue.id, key, address, protocol),
    )
    if row is None:
        return None
    number, transformation = row
    return number, transformation


def require_consumer(db: Db, queue: QueueRef, consumer: str | None) -> int:
    """Id of the consumer that dequeues from a multi-consumer queue; 0 for a single-consumer queue.

    Raises:
        AqError: 25231 missing, 25256 not allowed, 24035 unknown.
    """
    return require_consumer_of(db, queue, consumer)[0]


def require_consumer_of(db: Db, queue: QueueRef, consumer: str | None) -> tuple[int, str | None]:
    """As :func:`require_consumer`, with the transformation of the subscriber.

    The name is read as :class:`mgw.gateway.aq.security.privileges.Rights` read it to allow it.
    """
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
    found = _consumer(db, queue, agent_key(consumer), "", 0)
    if found is None:
        cause = "it is not a subscriber, and no message ever named it as a recipient"
        cure = "name one of its subscribers, or add it (subscribers in the file, add_subscriber in Python)"
        if is_of_job(consumer):
            cause = "that subscription of a job is gone: the queue was dropped and made again, or somebody removed it"
            cure = f"subscribe the job again, from now on: mgw jobs reset {consumer[len(JOB_SUBSCRIBER) :]}"
        raise SubscriberMissing(
            f"consumer {consumer!r} of queue {queue.full_name} does not exist", cause=cause, cure=cure
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
    return [(number, name or address, rule) for number, name, address, rule in rows]


def list_subscribers(db: Db, queue: QueueRef | None = None) -> list[SubscriberInfo]:
    """Subscribers of one queue, or of all."""
    return _subscribers(db, *(("AND c.queue_id = ?", (queue.id,)) if queue else ("", ())))


def subscriber(db: Db, number: int) -> SubscriberInfo | None:
    """The subscriber with this id, or None."""
    return next(iter(_subscribers(db, "AND c.id = ?", (number,))), None)


def _subscribers(db: Db, where: str, params: tuple[int, ...]) -> list[SubscriberInfo]:
    rows = db.rows(
        f"""SELECT {_SUBSCRIBER.sql} FROM aq_consumer c JOIN aq_queue q ON q.id = c.queue_id
             WHERE c.is_subscriber = 1 {where} ORDER BY q.name_key, c.id""",
        params,
    )
    return [
        SubscriberInfo(
            id=each.id,
            queue=QualifiedName(each.queue_schema, each.queue).shown,
            name=each.name,
            address=each.address or None,
            protocol=each.protocol,
            rule=each.rule,
            transformation=each.transformation,
            delivery_mode=DeliveryMode(each.delivery_mode),
            queue_to_queue=bool(each.queue_to_queue),
            options=read_options(each.options),
        )
        for each in map(_SUBSCRIBER.named, rows)
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
    return db.column("SELECT address FROM aq_consumer WHERE queue_id = ? AND is_subscriber = 1", (queue.id,))


def is_subscriber(db: Db, consumer: int) -> bool:
    """Whether a consumer is a subscriber now."""
    return bool(db.scalar("SELECT is_subscriber FROM aq_consumer WHERE id = ?", (consumer,)))


def set_rule(db: Db, consumer: int, rule: str | None, transformation: str | None) -> None:
    """Set both attributes of a subscriber that can change."""
    db.run(
        "UPDATE aq_consumer SET rule = ?, rule_sql = NULL, transformation = ? WHERE id = ?",
        (rule, transformation, consumer),
    )


def options_of(db: Db, consumer: int) -> str:
    """The options of a subscriber as they are stored."""
    return db.scalar("SELECT options FROM aq_consumer WHERE id = ?", (consumer,)) or "{}"


def set_options(db: Db, consumer: int, options: str) -> None:
    """Set the options of a subscriber."""
    db.run("UPDATE aq_consumer SET options = ? WHERE id = ?", (options, consumer))


def remove_subscriber(db: Db, consumer: int) -> None:
    """End a subscription with its backlog; messages nobody waits for any more are left to the time manager.

    What transactions hold is left to them; :func:`drop_removed` takes what they give back.
    """
    db.run(
        """UPDATE aq_consumer SET is_subscriber = 0, rule = NULL, rule_sql = NULL, transformation = NULL,
                  removed_upto = ? WHERE id = ?""",
        (db.last_message_id(), consumer),
    )
    pending = f"consumer_id = ? AND state IN {OPEN}"
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

    ``claimed``: those of these messages that the session ``claim`` holds count, too.
    """
    who = "AND c.id = ?" if consumer is not None else ""
    held, params = "", list[Any]()
    if claim is not None:
        held, params = (
            f"OR (e.state = {State.CLAIMED} AND e.claim = ? AND e.message_id {{ids}})",
            [claim, db.ids(claimed)],
        )
    rows = db.rows(
        f"""SELECT e.message_id, e.consumer_id FROM aq_consumer c JOIN aq_entry e ON e.consumer_id = c.id
             WHERE c.removed_upto IS NOT NULL {who} AND e.message_id <= c.removed_upto
               AND (e.state IN {OPEN} {held}) {{lock_e}}""",
        params if consumer is None else (consumer, *params),
    )
    if rows:
        db.many("INSERT INTO aq_dequeue_log (message_id) VALUES (?)", [(message,) for message, _ in rows])
        db.many("DELETE FROM aq_entry WHERE message_id = ? AND consumer_id = ?", rows)
    return len(rows)
