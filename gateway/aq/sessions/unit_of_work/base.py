"""How a session keeps what it did until commit: in a database transaction, or as claims (SQLite has one writer)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from mgw.gateway.aq.model import QueueRef
from mgw.gateway.aq.queues.messages_sql import Finisher
from mgw.gateway.aq.queues.prepared import Prepared
from mgw.gateway.aq.sessions.savepoints import Held
from mgw.gateway.aq.store.statements import Db, Row
from mgw.gateway.aq.store.tables import State

if TYPE_CHECKING:
    from mgw.gateway.aq.sessions.application import Application

__all__ = ["Work", "took"]


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
        """What was dequeued and is still in the queue, claimed (SQLite)."""
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
