"""How a session keeps what it did until commit: in a database transaction, or as claims (SQLite has one writer)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

import sqlalchemy as sa

from gateway.aq import statements_catalog as catalog
from gateway.aq import statements_messages as messages_sql
from gateway.aq import statements_time as time_sql
from gateway.aq.hub import LISTENED
from gateway.aq.model import QueueRef, QueueType
from gateway.aq.statements import TALLY, Db
from gateway.aq.statements_messages import Finisher
from gateway.aq.tables import State
from gateway.aq.tally import Dequeued, Tally
from gateway.aq.transfer import Prepared, check_enqueue, store
from transforms.errors import AqError, HubError, HubUnavailable, LeaseLost

if TYPE_CHECKING:
    from gateway.aq.hub import Hub

__all__ = ["ApplicationWork", "ClaimWork", "RolledBack", "TransactionWork", "Work", "consume", "count_rolled_back"]

Held = dict[tuple[QueueRef, int], list[int]]  # queue and consumer -> message ids
RolledBack = deque[tuple[QueueRef, int, list[int]]]


class Work(Protocol):
    """What a session did since its last commit."""

    claim: int | None
    within: sa.Connection | None  #: the application's connection, where the transaction is its own
    undone: int  #: how many of the application's transactions were rolled back after a dequeue

    def transaction(self) -> Any:
        """Context manager giving a :class:`Db` to search and take in."""
        ...

    def store(self, db: Db, prepared: Prepared) -> None:
        """Keep messages for the commit."""
        ...

    def take(self, db: Db, queue: QueueRef, consumer: int, ids: Sequence[int], by: Finisher) -> None:
        """These messages are consumed at commit; a rollback counts as a failed attempt."""
        ...

    def hold(self, db: Db, queue: QueueRef, consumer: int, ids: Sequence[int]) -> None:
        """Nobody else takes these messages until commit or rollback (dequeue mode LOCKED)."""
        ...

    def taken(self, queue: QueueRef, consumer: int) -> Sequence[int]:
        """What was taken from a queue and still lies in it, claimed (SQLite)."""
        ...

    def pause(self) -> None:
        """The session is about to wait: hold no idle transaction without need."""
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


def consume(  # noqa: PLR0917
    db: Db, queue: QueueRef, consumer: int, ids: Sequence[int], by: Finisher, held: str, params: Any = ()
) -> int:
    """Messages leave the queue for good; returns how many met the condition ``held``."""
    if queue.queue_type is QueueType.EXCEPTION:
        number = messages_sql.finish_exceptions(db, queue, ids, held, params)
        if db.tally is not None:
            db.tally.append(Dequeued(queue.id, 0, by.time, number, number))
        return number
    retention = catalog.queue_settings(db, queue).retention_time
    return messages_sql.finish(db, queue, consumer, ids, by, retention=retention, held=held, params=params)


def count_rolled_back(hub: Hub) -> None:
    """Count the failed attempts of rolled back transactions that could not be counted at once.

    What is in other hands by now waits for the next call, and so does everything when the hub fails.

    Raises:
        HubError: the database refused; nothing is forgotten.
    """
    for _ in range(len(hub.rolled_back)):
        try:
            queue, consumer, ids = hub.rolled_back.popleft()
        except IndexError:
            return  # another thread counts too
        left = ids
        try:
            left = _count_failure(hub, queue, consumer, ids)
        except AqError:
            left = []  # the queue is gone, and its messages with it
        finally:
            if left:
                hub.rolled_back.append((queue, consumer, left))


def _count_failure(hub: Hub, queue: QueueRef, consumer: int, ids: Sequence[int]) -> list[int]:
    """Count an attempt of messages that a rollback gave back; returns those that somebody else has taken since."""
    touched, left = [queue.id], list[int]()
    with hub.write() as conn:
        db = Db(conn)
        if queue.queue_type is QueueType.NORMAL:
            left = time_sql.in_other_hands(db, queue, consumer, ids)
            free = [number for number in ids if number not in set(left)] if left else ids
            touched = time_sql.fail(db, queue, consumer, free, hub.clock.now(), claim=None)
        db.notify(touched)
    hub.notifier.committed(touched)
    return left


def _count_later(hub: Hub, taken: Held) -> None:
    hub.rolled_back.extend((queue, consumer, ids) for (queue, consumer), ids in taken.items() if ids)


class TransactionWork:
    """A transaction of the session's own on PostgreSQL: locked rows are skipped by others, deleted rows come back."""

    claim: int | None = None
    within: sa.Connection | None = None
    undone = 0

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._conn: sa.Connection | None = None
        self._taken: Held = {}
        self._ready: set[int] = set()
        self._busy = False
        self._undone = False  # the database ended the transaction; nothing may pretend that it goes on

    @contextmanager
    def transaction(self) -> Iterator[Db]:
        self._refuse_if_undone()
        with self._hub.translated():
            if self._conn is None:
                self._conn = self._hub.engine.connect()
            try:
                yield Db(self._conn)
            except AqError:
                raise  # refused before anything was done; the transaction goes on
            except BaseException:
                self._abort()
                raise

    def _abort(self) -> None:
        """The database gave the transaction up; what it did is undone there, and its attempts count at the rollback."""
        conn, self._conn = self._conn, None
        self._undone = self._busy
        taken = self._taken
        self._forget()
        self._taken = taken
        if conn is not None:
            conn.invalidate()
            conn.close()

    def _refuse_if_undone(self) -> None:
        if self._undone:
            raise HubUnavailable(
                f"the session's transaction on hub {self._hub.name} is undone",
                cause="an earlier call lost the connection, or was refused by the database",
                cure="roll back and repeat everything since the last commit",
            )

    def _forget(self) -> None:
        self._taken, self._ready, self._busy = {}, set(), False

    def store(self, db: Db, prepared: Prepared) -> None:
        store(db, prepared)
        self._busy = True
        if prepared.ready:
            self._ready.add(prepared.queue.id)

    def take(self, db: Db, queue: QueueRef, consumer: int, ids: Sequence[int], by: Finisher) -> None:
        _take_now(db, queue, consumer, ids, by)
        self._busy = True
        self._taken.setdefault((queue, consumer), []).extend(ids)

    def hold(self, db: Db, queue: QueueRef, consumer: int, ids: Sequence[int]) -> None:  # noqa: ARG002
        self._busy = True  # the search locked the rows

    def taken(self, queue: QueueRef, consumer: int) -> Sequence[int]:  # noqa: ARG002
        return ()

    def pause(self) -> None:
        if not self._busy and self._conn is not None:
            with self._hub.translated():
                self._conn.rollback()

    def commit(self) -> None:
        self._refuse_if_undone()
        if self._conn is None:
            return
        try:
            with self._hub.translated():
                self._conn.commit()
        except BaseException:
            self._abort()
            raise
        ready = self._ready
        self._forget()
        if tally := self._conn.info[TALLY]:
            self._conn.info[TALLY] = []
            self._hub.statistics.add(tally)
        if ready:
            self._hub.notifier.committed(ready)

    def rollback(self) -> None:
        self._undone = False
        try:
            if self._conn is not None:
                with self._hub.translated():
                    self._conn.info[TALLY] = []
                    self._conn.rollback()
        except BaseException:
            self._abort()
            raise
        taken = self._taken
        self._forget()
        if taken:
            _count_later(self._hub, taken)
            with suppress(HubError):  # the rollback is done; what is not counted now, the next dequeue counts
                count_rolled_back(self._hub)

    def close(self) -> None:
        try:
            self.rollback()
        finally:
            conn, self._conn = self._conn, None
            if conn is not None:
                conn.close()


def _take_now(db: Db, queue: QueueRef, consumer: int, ids: Sequence[int], by: Finisher) -> None:
    number = consume(db, queue, consumer, ids, by, "state IN (0, 1, 3)")
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

    def take(self, db: Db, queue: QueueRef, consumer: int, ids: Sequence[int], by: Finisher) -> None:
        _take_now(db, queue, consumer, ids, by)
        self._taken.setdefault((queue, consumer), []).extend(ids)
        if not self._listening:
            self._listening = True
            self._conn.info[LISTENED] = True
            sa.event.listen(self._conn, "rollback", self._rolled_back)
            sa.event.listen(self._conn, "commit", self._committed)

    def _rolled_back(self, _: sa.Connection) -> None:
        taken, self._taken, self._tally = self._taken, {}, []
        self.undone += 1
        _count_later(self._hub, taken)

    def _committed(self, _: sa.Connection) -> None:
        tally, self._tally = self._tally, []
        if tally:
            self._hub.statistics.add(tally)
        self._taken = {}  # SQLAlchemy tells of no commit that fails: its attempts go uncounted

    def hold(self, db: Db, queue: QueueRef, consumer: int, ids: Sequence[int]) -> None:
        """The search locked the rows (PostgreSQL), or the transaction keeps writers out (SQLite)."""

    def taken(self, queue: QueueRef, consumer: int) -> Sequence[int]:  # noqa: ARG002
        return ()

    def pause(self) -> None:
        """The transaction is the application's."""

    def commit(self) -> None:
        raise _not_ours("commit")

    def rollback(self) -> None:
        raise _not_ours("roll back")

    def close(self) -> None:
        """Nothing is ours to end."""


def _not_ours(what: str) -> AqError:
    return AqError(
        f"the session cannot {what}",
        cause="it works inside the application's transaction",
        cure=f"{what} the application's connection",
    )


class ClaimWork:
    """SQLite: between two calls the session has no transaction open, so it never keeps other writers waiting.

    Taken messages are CLAIMED under its id; enqueued ones stay in memory (checked, numbered, addressed) and are stored
    at commit, together with the end of the claims, in one transaction.
    """

    within: sa.Connection | None = None
    undone = 0

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self.claim: int | None = None
        self._pending: list[Prepared] = []
        self._taken: Held = {}
        self._by: dict[tuple[QueueRef, int], Finisher] = {}
        self._locked: Held = {}

    @contextmanager
    def transaction(self) -> Iterator[Db]:
        taken = {key: list(ids) for key, ids in self._taken.items()}
        locked = {key: list(ids) for key, ids in self._locked.items()}
        pending, claim = len(self._pending), self.claim
        try:
            with self._hub.write(durable=False) as conn:
                yield Db(conn)
        except BaseException:
            self._taken, self._locked = taken, locked
            del self._pending[pending:]
            if claim is None and self.claim is not None:
                self._hub.registry.forget(self.claim)
                self.claim = None
            raise

    def store(self, db: Db, prepared: Prepared) -> None:  # noqa: ARG002
        self._pending.append(prepared)

    def _mark(self, db: Db, consumer: int, ids: Sequence[int]) -> None:
        if self.claim is None:
            self.claim = self._hub.registry.register(db)
        messages_sql.mark_claimed(db, consumer, ids, self.claim)

    def take(self, db: Db, queue: QueueRef, consumer: int, ids: Sequence[int], by: Finisher) -> None:
        key = (queue, consumer)
        locked = self._locked.get(key, [])
        known, taken = set(locked), set(ids)
        fresh = [number for number in ids if number not in known]
        if fresh:
            self._mark(db, consumer, fresh)
        self._locked[key] = [number for number in locked if number not in taken]
        self._taken.setdefault(key, []).extend(ids)
        self._by[key] = by

    def hold(self, db: Db, queue: QueueRef, consumer: int, ids: Sequence[int]) -> None:
        locked = self._locked.setdefault((queue, consumer), [])
        known = {*locked, *self.taken(queue, consumer)}
        fresh = [number for number in ids if number not in known]
        if fresh:
            self._mark(db, consumer, fresh)
            locked.extend(fresh)

    def taken(self, queue: QueueRef, consumer: int) -> Sequence[int]:
        return self._taken.get((queue, consumer), ())

    def pause(self) -> None:
        """No transaction is open."""

    def commit(self) -> None:
        if not (self._pending or self._taken or self._locked):
            return
        ready: set[int] = set()
        with self._hub.write() as conn:
            db = Db(conn)
            for (queue, consumer), ids in self._taken.items():
                by = self._by[queue, consumer]
                number = consume(db, queue, consumer, ids, by, "state = 8 AND claim = ?", (self.claim,))
                if number != len(ids):
                    raise LeaseLost(
                        f"{len(ids) - number} message(s) of queue {queue.full_name} are no longer this session's",
                        cause="the session was silent for longer than its lease, or the queue was dropped",
                        cure="roll back and dequeue again",
                    )
            ready |= self._release_locked(db)
            for prepared in self._pending:
                check_enqueue(db, prepared.queue)
                store(db, prepared)
                if prepared.ready:
                    ready.add(prepared.queue.id)
        self._forget()
        self._hub.notifier.committed(ready)

    def _release_locked(self, db: Db) -> set[int]:
        released = set()
        for (queue, consumer), ids in self._locked.items():
            if not ids:
                continue
            released.add(queue.id)
            if queue.queue_type is QueueType.EXCEPTION:
                _restore_exceptions(db, ids, self.claim)
            else:
                messages_sql.release(db, queue, consumer, ids, self.claim)
        return released

    def _forget(self) -> None:
        self._pending, self._taken, self._locked, self._by = [], {}, {}, {}

    def rollback(self) -> None:
        self._pending = []
        if not (self._taken or self._locked):
            return
        touched: set[int] = set()
        with self._hub.write() as conn:
            db = Db(conn)
            now = self._hub.clock.now()
            for (queue, consumer), ids in self._taken.items():
                if queue.queue_type is QueueType.EXCEPTION:
                    _restore_exceptions(db, ids, self.claim)
                    touched.add(queue.id)
                else:
                    touched |= set(time_sql.fail(db, queue, consumer, ids, now, claim=self.claim))
            touched |= self._release_locked(db)
        self._forget()
        self._hub.notifier.committed(touched)

    def close(self) -> None:
        try:
            self.rollback()
        except HubError:
            self._abandon()
            raise
        if self.claim is not None:
            number, self.claim = self.claim, None
            self._hub.registry.forget(number)
            with self._hub.write() as conn:
                time_sql.delete_session(Db(conn), number)

    def _abandon(self) -> None:
        """The hub fails: the lease is left to run out, which ends the claims, and the attempts are counted after it."""
        number, self.claim = self.claim, None
        if number is not None:
            self._hub.registry.forget(number)
        _count_later(self._hub, self._taken)
        self._forget()


def _restore_exceptions(db: Db, ids: Sequence[int], claim: int | None) -> None:
    messages_sql.restore(db, ids, claim, int(State.EXPIRED))
