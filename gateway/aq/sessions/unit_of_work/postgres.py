"""Sessions that work in a database transaction of their own (PostgreSQL)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from mgw.gateway.aq.model import QueueRef
from mgw.gateway.aq.queues.consuming import take_now
from mgw.gateway.aq.queues.intake import store
from mgw.gateway.aq.queues.messages_sql import Finisher
from mgw.gateway.aq.queues.prepared import Prepared
from mgw.gateway.aq.sessions.attempts import count_later, count_soon
from mgw.gateway.aq.sessions.ground import SessionGround
from mgw.gateway.aq.sessions.savepoints import Held, Savepoints, cut, lengths
from mgw.gateway.aq.sessions.unit_of_work.base import took
from mgw.gateway.aq.store import pg_protocol
from mgw.gateway.aq.store.ground import Writer
from mgw.gateway.aq.store.statements import Db, Row
from mgw.gateway.aq.store.tables import State
from mgw.transforms.errors import AqError, HubUnavailable

if TYPE_CHECKING:
    from mgw.gateway.aq.sessions.application import Application

__all__ = ["TransactionWork"]


class _Mark(NamedTuple):
    """A savepoint: its number in the database (None: the transaction had not begun), and what was done before it."""

    number: int | None
    taken: dict[tuple[QueueRef, int], int]
    ready: frozenset[int]
    events: int


class TransactionWork:
    """A transaction of the session's own on PostgreSQL: locked rows are skipped by others, deleted rows come back."""

    claim: int | None = None
    within: Application | None = None
    undone = 0

    def __init__(self, hub: SessionGround) -> None:
        self._hub = hub
        self._writer: Writer | None = None
        self._taken: Held = {}
        self._ready: set[int] = set()
        self._busy = False
        self._undone = False  # the database ended the transaction; nothing may pretend that it goes on
        self._savepoints: Savepoints[_Mark] = Savepoints()
        self._last_savepoint = 0

    @contextmanager
    def transaction(self) -> Iterator[Db]:
        self._refuse_if_undone()
        with self._hub.translated():
            if self._writer is None:
                self._writer = self._hub.take_writer()
            try:
                yield Db.within(self._writer, postgresql=True)
            except AqError:
                self.pause()  # refused before anything was done; the transaction goes on, if there is one
                raise
            except BaseException:
                self._abort()
                raise

    def _abort(self) -> None:
        """The database gave the transaction up; what it did is undone there, and its attempts count at the rollback."""
        writer, self._writer = self._writer, None
        self._undone = self._busy
        taken = self._taken
        self._forget()
        self._taken = taken
        if writer is not None:
            self._hub.abandon_writer(writer)

    def _refuse_if_undone(self) -> None:
        if self._undone:
            raise HubUnavailable(
                f"the session's transaction on hub {self._hub.name} was rolled back",
                cause="an earlier call lost the connection, or was refused by the database",
                cure="roll back and repeat everything since the last commit",
            )

    def _forget(self) -> None:
        self._taken, self._ready, self._busy = {}, set(), False
        self._savepoints.clear()

    def store(self, db: Db, prepared: Prepared) -> None:
        store(db, prepared)
        self._busy = True
        if prepared.ready:
            self._ready.add(prepared.queue.id)

    def pending(self, queue: QueueRef) -> list[Row]:  # noqa: ARG002
        return []

    def took(self, queue: QueueRef, number: int) -> bool:
        return took(self._taken, queue, number)

    def take(self, db: Db, queue: QueueRef, consumer: int, ids: Sequence[int], by: Finisher) -> None:
        take_now(db, queue, consumer, ids, by)
        self._busy = True
        self._taken.setdefault((queue, consumer), []).extend(ids)

    def hold(
        self,
        db: Db,  # noqa: ARG002
        queue: QueueRef,  # noqa: ARG002
        consumer: int,  # noqa: ARG002
        ids: Sequence[int],  # noqa: ARG002
        state: State = State.READY,  # noqa: ARG002
    ) -> None:
        self._busy = True  # the search locked the rows

    def locked(self, queue: QueueRef, consumer: int) -> Sequence[int]:  # noqa: ARG002
        return ()

    def taken(self, queue: QueueRef, consumer: int) -> Sequence[int]:  # noqa: ARG002
        return ()

    def pause(self) -> None:
        if not self._busy and self._writer is not None:
            try:
                with self._hub.translated():
                    pg_protocol.rollback(self._writer[1])
            except BaseException:
                self._abort()
                raise

    def savepoint(self, name: str) -> None:
        number, events = None, 0
        if self._busy:
            with self.transaction() as db:
                self._last_savepoint += 1
                number = self._last_savepoint
                db.savepoint(number)
                events = len(db.tally or ())
        else:
            self._refuse_if_undone()
        self._savepoints.set(name, _Mark(number, lengths(self._taken), frozenset(self._ready), events))

    def rollback_to(self, name: str) -> None:
        self._refuse_if_undone()
        mark = self._savepoints.back_to(name)
        if self._writer is not None:
            try:
                with self._hub.translated():
                    if mark.number is None:
                        pg_protocol.rollback(self._writer[1])
                        self._busy = False
                    else:
                        Db.within(self._writer, postgresql=True).rollback_to(mark.number)
                    del self._writer[2].tally[mark.events :]
            except BaseException:
                self._abort()
                raise
        self._ready = set(mark.ready)
        self._count(cut(self._taken, mark.taken))

    def release(self, name: str) -> None:
        self._refuse_if_undone()
        mark = self._savepoints.release(name)
        if mark.number is not None:
            with self.transaction() as db:
                db.release(mark.number)

    def commit(self) -> None:
        self._refuse_if_undone()
        if self._writer is None:
            self._savepoints.clear()
            return
        try:
            with self._hub.translated():
                pg_protocol.commit(self._writer[1])
        except BaseException:
            self._abort()
            raise
        ready = self._ready
        self._forget()
        state = self._writer[2]
        if tally := state.tally:
            state.tally = []
            self._hub.statistics.add(tally)
        if ready:
            self._hub.notifier.committed(ready)

    def rollback(self) -> None:
        self._undone = False
        try:
            if self._writer is not None:
                with self._hub.translated():
                    self._writer[2].tally = []
                    pg_protocol.rollback(self._writer[1])
        except BaseException:
            self._abort()
            raise
        taken = self._taken
        self._forget()
        self._count(taken)

    def _count(self, taken: Held) -> None:
        if taken:
            count_later(self._hub.attempts, taken)
            count_soon(self._hub.attempts)  # the rollback is done, whatever happens to the counting

    def close(self) -> None:
        try:
            self.rollback()
        finally:
            writer, self._writer = self._writer, None
            if writer is not None:
                self._hub.keep_writer(writer)
