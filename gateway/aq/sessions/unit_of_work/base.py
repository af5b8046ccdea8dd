"""How a session keeps what it did until commit: in a database transaction, or as claims (SQLite has one writer)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from gateway.aq import statements_catalog as catalog
from gateway.aq import statements_messages as messages_sql
from gateway.aq.arrivals import Prepared
from gateway.aq.model import QueueRef, QueueType
from gateway.aq.savepoints import Held
from gateway.aq.statements import Db, Row
from gateway.aq.statements_messages import Finisher
from gateway.aq.tables import State
from gateway.aq.tally import Dequeued
from transforms.errors import HubUnavailable

if TYPE_CHECKING:
    from gateway.aq.application import Application

__all__ = ["Work", "consume", "take_now", "took"]


class Work(Protocol):
    """What a session did since its last commit."""

    claim: int | None
    within: Application | None  #: where the transaction is the application's own
    undone: int  #: how many of the application's transactions were rolled back after a dequeue

    def transaction(self) -> Any:
        """Context manager giving a :class:`Db` to search and take in."""
        ...

    def store(self, db: Db, prepared: Prepared) -> None:
        """Keep messages for the commit."""
        ...

    def pending(self, queue: QueueRef) -> list[Row]:
        """Rows of messages that are not in the database before the commit."""
        ...

    def took(self, queue: QueueRef, number: int) -> bool:
        """Whether the session has removed this message of a single-consumer queue."""
        ...

    def take(self, db: Db, queue: QueueRef, consumer: int, ids: Sequence[int], by: Finisher) -> None:
        """These messages are consumed at commit; a rollback counts as a failed attempt."""
        ...

    def hold(self, db: Db, queue: QueueRef, consumer: int, ids: Sequence[int], state: State = State.READY) -> None:
        """Nobody else takes these messages until commit or rollback (dequeue mode LOCKED).

        ``state``: theirs; those that wait or are blocked are found by their id alone, by this session too.
        """
        ...

    def locked(self, queue: QueueRef, consumer: int) -> Sequence[int]:
        """What this session's claim keeps from others, and a search of its own still finds (SQLite)."""
        ...

    def taken(self, queue: QueueRef, consumer: int) -> Sequence[int]:
        """What was taken from a queue and still lies in it, claimed (SQLite)."""
        ...

    def pause(self) -> None:
        """The session is about to wait: hold no idle transaction without need."""
        ...

    def savepoint(self, name: str) -> None:
        """Name the present place in the transaction."""
        ...

    def rollback_to(self, name: str) -> None:
        """Undo what was done after a savepoint."""
        ...

    def release(self, name: str) -> None:
        """Forget a savepoint and those after it."""
        ...

    def commit(self) -> None:
        """Make it all true."""
        ...

    def rollback(self) -> None:
        """Undo it all."""
        ...

    def close(self) -> None:
        """Undo what is not committed and let go of everything."""
        ...


def took(taken: Held, queue: QueueRef, number: int) -> bool:
    """Whether a message of a single-consumer queue is among those removed."""
    return number in taken.get((queue, 0), ())


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
    number = consume(db, queue, consumer, ids, by, "state IN (0, 1, 3, 4)")
    if number != len(ids):
        raise HubUnavailable(
            f"a message of queue {queue.full_name} was taken by another process",
            cause="the application's transaction does not isolate its reads",
            cure="repeat the dequeue",
        )
