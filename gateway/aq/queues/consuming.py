"""Messages that leave a queue for good."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mgw.gateway.aq.model import QueueRef, QueueType
from mgw.gateway.aq.queues import catalog_sql as catalog
from mgw.gateway.aq.queues import messages_sql
from mgw.gateway.aq.queues.activity import Dequeued
from mgw.gateway.aq.queues.messages_sql import BY_LOCK, Finisher
from mgw.gateway.aq.store.statements import Db
from mgw.transforms.errors import HubUnavailable

__all__ = ["consume", "take_now"]


def consume(  # noqa: PLR0917
    db: Db, queue: QueueRef, consumer: int, ids: Sequence[int], by: Finisher, held: str, params: Any = ()
) -> int:
    """Messages leave the queue for good; returns how many met the condition ``held``."""
    if queue.queue_type is QueueType.EXCEPTION:
        number = messages_sql.finish_exceptions(db, queue, ids, held, params)
        if db.tally is not None:
            db.tally.append(Dequeued(queue.id, 0, by.time, number, number))
        return number
    retention = by.retention
    if retention is None:
        retention = catalog.queue_settings(db, queue).retention_time
    return messages_sql.finish(db, queue, consumer, ids, by, retention=retention, held=held, params=params)


def take_now(db: Db, queue: QueueRef, consumer: int, ids: Sequence[int], by: Finisher) -> None:
    """Messages that a search has just found leave the queue in its transaction.

    Raises:
        HubUnavailable: another transaction took one of them.
    """
    number = consume(db, queue, consumer, ids, by, BY_LOCK)
    if number != len(ids):
        raise HubUnavailable(
            f"a message of queue {queue.full_name} was dequeued by another process",
            cause="the application's transaction does not isolate its reads",
            cure="repeat the dequeue",
        )
