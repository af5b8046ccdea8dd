"""Sessions that work in a database transaction: one of their own (PostgreSQL), or the application's (both)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

import sqlalchemy as sa

from gateway.aq import wire
from gateway.aq.arrivals import Prepared, store
from gateway.aq.hub import LISTENED, Writer
from gateway.aq.model import QueueRef
from gateway.aq.savepoints import Held, Savepoints, cut, lengths
from gateway.aq.statements import TALLY, Db, Row
from gateway.aq.statements_messages import Finisher
from gateway.aq.tables import State
from gateway.aq.tally import Tally
from gateway.aq.work import consume, count_later, count_rolled_back, took
from transforms.errors import AqError, HubError, HubUnavailable

if TYPE_CHECKING:
    from gateway.aq.hub import Hub

__all__ = ["ApplicationWork", "TransactionWork"]


class _Mark(NamedTuple):
    """A savepoint: its number in the database (None: the transaction had not begun), and what was done before it."""

    number: int | None
    taken: dict[tuple[QueueRef, int], int]
    ready: frozenset[int]
    events: int


class TransactionWork:
    """A transaction of the session's own on PostgreSQL: locked rows are skipped by others, deleted rows come back."""

    claim: int | None = None
    within: sa.Connection | None = None
    undone = 0

    def __init__(self, hub: Hub) -> None:
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
                wire.begin(self._writer[1])
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
                f"the session's transaction on hub {self._hub.name} is undone",
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
        _take_now(db, queue, consumer, ids, by)
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
                    wire.rollback(self._writer[1])
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
                        wire.rollback(self._writer[1])
                        self._busy = False
                    else:
                        Db.within(self._writer, postgresql=True).rollback_to(mark.number)
                    del self._writer[2][TALLY][mark.events :]
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
                wire.commit(self._writer[1])
        except BaseException:
            self._abort()
            raise
        ready = self._ready
        self._forget()
        info = self._writer[2]
        if tally := info[TALLY]:
            info[TALLY] = []
            self._hub.statistics.add(tally)
        if ready:
            self._hub.notifier.committed(ready)

    def rollback(self) -> None:
        self._undone = False
        try:
            if self._writer is not None:
                with self._hub.translated():
                    self._writer[2][TALLY] = []
                    wire.rollback(self._writer[1])
        except BaseException:
            self._abort()
            raise
        taken = self._taken
        self._forget()
        self._count(taken)

    def _count(self, taken: Held) -> None:
        if taken:
            count_later(self._hub, taken)
            with suppress(HubError):  # the rollback is done; what is not counted now, the next dequeue counts
                count_rolled_back(self._hub)

    def close(self) -> None:
        try:
            self.rollback()
        finally:
            writer, self._writer = self._writer, None
            if writer is not None:
                self._hub.keep_writer(writer)


def _take_now(db: Db, queue: QueueRef, consumer: int, ids: Sequence[int], by: Finisher) -> None:
    number = consume(db, queue, consumer, ids, by, "state IN (0, 1, 3, 4)")
    if number != len(ids):
        raise HubUnavailable(
            f"a message of queue {queue.full_name} was taken by another process",
            cause="the application's transaction does not isolate its reads",
            cure="repeat the dequeue",
        )


class ApplicationWork:
    """The application's own transaction: the session only works inside it."""

    claim: int | None = None

    def __init__(self, hub: Hub, conn: sa.Connection) -> None:
        self._hub = hub
        self._conn = conn
        self.within: sa.Connection | None = conn
        self.undone = 0
        self._taken: Held = {}
        self._savepoints: dict[str, tuple[dict[tuple[QueueRef, int], int], int]] = {}
        self._tally: Tally = []
        self._listening = False

    @contextmanager
    def transaction(self) -> Iterator[Db]:
        with self._hub.translated():
            db = Db(self._conn)
            tally: Tally = []
            db.tally = tally
            yield db
        if self._listening:
            self._tally += tally
        elif tally:  # to learn of the commit would cost more than the call: it counts now
            self._hub.statistics.add(tally)

    def store(self, db: Db, prepared: Prepared) -> None:
        store(db, prepared)

    def pending(self, queue: QueueRef) -> list[Row]:  # noqa: ARG002
        return []

    def took(self, queue: QueueRef, number: int) -> bool:
        return took(self._taken, queue, number)

    def take(self, db: Db, queue: QueueRef, consumer: int, ids: Sequence[int], by: Finisher) -> None:
        _take_now(db, queue, consumer, ids, by)
        self._taken.setdefault((queue, consumer), []).extend(ids)
        if not self._listening:
            self._listening = True
            _listeners_of(self._conn).append(self)

    def rolled_back(self) -> None:
        """The application rolled back."""
        taken, self._taken, self._tally = self._taken, {}, []
        self._savepoints.clear()
        self._listening = False
        count_later(self._hub, taken)
        self.undone += 1

    def committed(self) -> None:
        """The application committed."""
        tally, self._tally = self._tally, []
        self._listening = False
        if tally:
            self._hub.statistics.add(tally)
        self._taken = {}  # SQLAlchemy tells of no commit that fails: its attempts go uncounted
        self._savepoints.clear()

    def savepoint_set(self, name: str) -> None:
        """The application set a savepoint."""
        self._savepoints[name] = lengths(self._taken), len(self._tally)

    def savepoint_undone(self, name: str) -> None:
        """Nothing was taken before a savepoint that is not known: it was set before the first message was taken."""
        taken, events = self._savepoints.pop(name, ({}, 0))
        del self._tally[events:]
        count_later(self._hub, cut(self._taken, taken))
        self.undone += 1

    def savepoint_released(self, name: str) -> None:
        """The application released a savepoint."""
        self._savepoints.pop(name, None)

    def hold(self, db: Db, queue: QueueRef, consumer: int, ids: Sequence[int], state: State = State.READY) -> None:
        """The search locked the rows (PostgreSQL), or the transaction keeps writers out (SQLite)."""

    def locked(self, queue: QueueRef, consumer: int) -> Sequence[int]:  # noqa: ARG002
        return ()

    def taken(self, queue: QueueRef, consumer: int) -> Sequence[int]:  # noqa: ARG002
        return ()

    def pause(self) -> None:
        """The transaction is the application's."""

    def savepoint(self, name: str) -> None:  # noqa: ARG002
        raise _not_ours("set a savepoint", "begin_nested() on")

    def rollback_to(self, name: str) -> None:  # noqa: ARG002
        raise _not_ours("go back to a savepoint", "roll back the nested transaction of")

    def release(self, name: str) -> None:  # noqa: ARG002
        raise _not_ours("release a savepoint", "commit the nested transaction of")

    def commit(self) -> None:
        raise _not_ours("commit", "commit")

    def rollback(self) -> None:
        raise _not_ours("roll back", "roll back")

    def close(self) -> None:
        """Nothing is ours to end."""


_LISTENERS = "mgw_listeners"  # among the options of the application's connection, so that they end with it


def _listeners_of(conn: sa.Connection) -> list[ApplicationWork]:
    """The sessions that took messages in the application's present transaction; they learn how it ends.

    However many sessions come and go on a connection, it is listened to once.
    """
    known: list[ApplicationWork] | None = conn.get_execution_options().get(_LISTENERS)
    if known is not None:
        return known
    works: list[ApplicationWork] = []
    conn.execution_options(**{_LISTENERS: works})
    conn.info[LISTENED] = True

    def ended(how: Callable[[ApplicationWork], None]) -> None:
        told = works.copy()
        works.clear()
        for work in told:
            how(work)

    def tell(how: Callable[[ApplicationWork, str], None], name: str) -> None:
        for work in works:
            how(work, name)

    sa.event.listen(conn, "rollback", lambda _: ended(ApplicationWork.rolled_back))
    sa.event.listen(conn, "commit", lambda _: ended(ApplicationWork.committed))
    sa.event.listen(conn, "savepoint", lambda _, name: tell(ApplicationWork.savepoint_set, name))
    undone, released = ApplicationWork.savepoint_undone, ApplicationWork.savepoint_released
    sa.event.listen(conn, "rollback_savepoint", lambda _, name, __: tell(undone, name))
    sa.event.listen(conn, "release_savepoint", lambda _, name, __: tell(released, name))
    return works


def _not_ours(what: str, instead: str) -> AqError:
    return AqError(
        f"the session cannot {what}",
        cause="it works inside the application's transaction",
        cure=f"{instead} the application's connection",
    )
