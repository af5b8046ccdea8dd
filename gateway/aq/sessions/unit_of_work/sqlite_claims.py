"""Sessions of their own on SQLite: they hold messages between calls without holding the database's one write lock."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from mgw.gateway.aq.model import QueueRef, QueueType
from mgw.gateway.aq.queues import attempts_sql, messages_sql
from mgw.gateway.aq.queues.consuming import consume
from mgw.gateway.aq.queues.deviation import place
from mgw.gateway.aq.queues.intake import check_enqueue, store
from mgw.gateway.aq.queues.messages_sql import Finisher
from mgw.gateway.aq.queues.prepared import Prepared
from mgw.gateway.aq.sessions import sessions_sql
from mgw.gateway.aq.sessions.attempts import count_later, count_soon
from mgw.gateway.aq.sessions.ground import SessionGround
from mgw.gateway.aq.sessions.savepoints import Held, Savepoints, after, cut, lengths
from mgw.gateway.aq.sessions.unit_of_work.base import took
from mgw.gateway.aq.store.fast_transaction import Writing
from mgw.gateway.aq.store.statements import Db, Row
from mgw.gateway.aq.store.tables import State
from mgw.transforms.errors import HubError, LeaseLost

if TYPE_CHECKING:
    from mgw.gateway.aq.sessions.application import Application

__all__ = ["ClaimWork"]


class _Mark(NamedTuple):
    """A savepoint: how much was enqueued and taken before it, and what was locked then."""

    pending: int
    taken: dict[tuple[QueueRef, int], int]
    locked: dict[tuple[QueueRef, int], frozenset[int]]


#: Of a session: how much was taken, what was locked, how much was enqueued, and its claim.
_Before = tuple[dict[tuple[QueueRef, int], int], dict[tuple[QueueRef, int], tuple[list[int], int]], int, int | None]
_NOTHING_LOCKED: dict[tuple[QueueRef, int], tuple[list[int], int]] = {}


class _Call(Writing):
    """The transaction of one call of a session; what the call changed in the session goes when it is undone."""

    __slots__ = ("_before", "_work")

    def __init__(self, work: ClaimWork, hub: SessionGround) -> None:
        super().__init__(hub, durable=False)
        self._work = work
        self._before = work.mark()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            super().__exit__(kind, error, trace)
        except BaseException:
            self._work.undo(self._before)
            raise
        if error is not None:
            self._work.undo(self._before)


class ClaimWork:
    """SQLite: between two calls the session has no transaction open, so it never keeps other writers waiting.

    Taken messages are CLAIMED under its id; enqueued ones stay in memory (checked, numbered, addressed) and are stored
    at commit, together with the end of the claims, in one transaction.
    """

    within: Application | None = None
    undone = 0

    def __init__(self, hub: SessionGround) -> None:
        self._hub = hub
        self.claim: int | None = None
        self._pending: list[Prepared] = []
        self._taken: Held = {}
        self._by: dict[tuple[QueueRef, int], Finisher] = {}
        self._locked: Held = {}
        self._hidden: dict[tuple[int, int], int] = {}  # consumer, locked message: state hiding it from searches
        self._savepoints: Savepoints[_Mark] = Savepoints()

    def transaction(self) -> _Call:
        return _Call(self, self._hub)

    def mark(self) -> _Before:
        """What the session has now; not a copy, which would make a long transaction slower with every call."""
        locked = {key: (ids, len(ids)) for key, ids in self._locked.items()} if self._locked else _NOTHING_LOCKED
        return lengths(self._taken), locked, len(self._pending), self.claim

    def undo(self, before: _Before) -> None:
        """A call failed: the session has what it had."""
        taken, locked, pending, claim = before
        cut(self._taken, taken)
        self._locked = {key: ids[:length] for key, (ids, length) in locked.items()}
        del self._pending[pending:]
        if claim is None and self.claim is not None:
            self._hub.registry.forget(self.claim)
            self.claim = None

    def store(self, db: Db, prepared: Prepared) -> None:  # noqa: ARG002
        self._pending.append(prepared)

    def pending(self, queue: QueueRef) -> list[Row]:
        return [row for prepared in self._pending if prepared.queue.id == queue.id for row in prepared.rows]

    def took(self, queue: QueueRef, number: int) -> bool:
        return took(self._taken, queue, number)

    def _mark(self, db: Db, consumer: int, ids: Sequence[int]) -> None:
        if self.claim is None:
            self.claim = self._hub.registry.register(db)
        if not messages_sql.mark_held(db, consumer, ids, self.claim):  # it was silent too long and taken for dead
            self._hub.registry.register_again(db, self.claim)
            messages_sql.mark_held(db, consumer, ids, self.claim)

    def take(self, db: Db, queue: QueueRef, consumer: int, ids: Sequence[int], by: Finisher) -> None:
        key = (queue, consumer)
        locked = self._locked.get(key, [])
        known, taken = set(locked), set(ids)
        fresh = [number for number in ids if number not in known]
        if fresh:
            self._mark(db, consumer, fresh)
        self._locked[key] = [number for number in locked if number not in taken]
        self._taken.setdefault(key, []).extend(ids)
        self._by[key] = by._replace(retention=None)  # it may be another one at the commit

    def hold(self, db: Db, queue: QueueRef, consumer: int, ids: Sequence[int], state: State = State.READY) -> None:
        locked = self._locked.setdefault((queue, consumer), [])
        known = {*locked, *self.taken(queue, consumer)}
        fresh = [number for number in ids if number not in known]
        if fresh:
            self._mark(db, consumer, fresh)
            locked.extend(fresh)
            for number in fresh:
                if state in (State.WAITING, State.UNDELIVERABLE):
                    self._hidden[consumer, number] = state
                elif self._hidden:
                    self._hidden.pop((consumer, number), None)

    def locked(self, queue: QueueRef, consumer: int) -> Sequence[int]:
        ids = self._locked.get((queue, consumer), ())
        return [number for number in ids if (consumer, number) not in self._hidden] if self._hidden else ids

    def taken(self, queue: QueueRef, consumer: int) -> Sequence[int]:
        return self._taken.get((queue, consumer), ())

    def pause(self) -> None:
        """No transaction is open."""

    # -- savepoints ------------------------------------------------------------------------------------------------

    def savepoint(self, name: str) -> None:
        locked = {key: frozenset(ids) for key, ids in self._locked.items() if ids}
        self._savepoints.set(name, _Mark(len(self._pending), lengths(self._taken), locked))

    def rollback_to(self, name: str) -> None:
        mark = self._savepoints.back_to(name)
        back = after(self._taken, mark.taken)
        free: Held = {}
        for key, ids in self._locked.items():
            free[key] = [number for number in ids if number not in mark.locked.get(key, ())]
        held: Held = {}  # locked before the savepoint, taken after it: locked again
        touched: set[int] = set()
        if back or any(free.values()):
            with self._hub.write() as conn:
                db = Db(conn)
                touched = self._unlock(db, free) | self._give_back(db, back)
                for (queue, consumer), ids in back.items():
                    again = [number for number in ids if number in mark.locked.get((queue, consumer), ())]
                    if again and self.claim is not None:
                        state = State.EXPIRED if queue.queue_type is QueueType.EXCEPTION else State.READY
                        held[queue, consumer] = messages_sql.claim_again(db, consumer, again, self.claim, int(state))
        cut(self._taken, mark.taken)
        for key, ids in free.items():
            self._locked[key] = [number for number in self._locked[key] if number not in ids]
        for key, ids in held.items():
            self._locked.setdefault(key, []).extend(ids)
        del self._pending[mark.pending :]
        self._hub.notifier.committed(touched)

    def release(self, name: str) -> None:
        self._savepoints.release(name)

    # -- the end ---------------------------------------------------------------------------------------------------

    def commit(self) -> None:
        if not (self._pending or self._taken or self._locked):
            self._savepoints.clear()
            return
        ready: set[int] = set()
        with Writing(self._hub) as db:
            for (queue, consumer), ids in self._taken.items():
                if not ids:
                    continue
                by = self._by[queue, consumer]
                number = consume(db, queue, consumer, ids, by, messages_sql.BY_SESSION, (self.claim,))
                if number != len(ids):
                    raise LeaseLost(
                        f"{len(ids) - number} message(s) of queue {queue.full_name} no longer belong to this session",
                        cause="the session was silent for longer than its lease, or the queue was dropped",
                        cure="roll back and dequeue again",
                    )
            ready |= self._unlock(db, self._locked)
            for prepared in self._pending:
                check_enqueue(db, prepared.queue, committing=True)
                store(db, prepared if prepared.deviation is None else place(db, prepared))
                if prepared.ready:
                    ready.add(prepared.queue.id)
        self._forget()
        self._hub.notifier.committed(ready)

    def _give_back(self, db: Db, taken: Held) -> set[int]:
        """What was removed was not: a failed attempt of each message."""
        now, touched = self._hub.clock.now(), set[int]()
        for (queue, consumer), ids in taken.items():
            if queue.queue_type is QueueType.EXCEPTION:
                _restore_exceptions(db, ids, self.claim)
                touched.add(queue.id)
            else:
                touched |= set(attempts_sql.fail(db, queue, consumer, ids, now, claim=self.claim))
        return touched

    def _unlock(self, db: Db, locked: Held) -> set[int]:
        """Locked messages are anybody's again; no attempt of theirs failed."""
        released = set()
        for (queue, consumer), ids in locked.items():
            if not ids:
                continue
            released.add(queue.id)
            if queue.queue_type is QueueType.EXCEPTION:
                _restore_exceptions(db, ids, self.claim)
            elif self.claim is not None:
                if self._hidden:
                    blocked = [each for each in ids if self._hidden.get((consumer, each)) == State.UNDELIVERABLE]
                    messages_sql.block_again(db, consumer, blocked, self.claim)
                messages_sql.unlock(db, queue, consumer, ids, claim=self.claim, now=self._hub.clock.now())
        return released

    def _forget(self) -> None:
        self._pending, self._taken, self._locked, self._by = [], {}, {}, {}
        self._hidden.clear()
        self._savepoints.clear()

    def rollback(self) -> None:
        self._pending = []
        self._savepoints.clear()
        if not (self._taken or self._locked):
            return
        with self._hub.write_last() as conn:
            db = Db(conn)
            touched = self._unlock(db, self._locked) | self._give_back(db, self._taken)
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
            with self._hub.write_last() as conn:
                sessions_sql.delete_session(Db(conn), number)

    def _abandon(self) -> None:
        """The hub fails: the lease is left to run out, which ends the claims, and the attempts are counted after it."""
        number, self.claim = self.claim, None
        if number is not None:
            self._hub.registry.forget(number)
        count_later(self._hub.attempts, self._taken)
        self._forget()
        count_soon(self._hub.attempts)


def _restore_exceptions(db: Db, ids: Sequence[int], claim: int | None) -> None:
    messages_sql.restore(db, ids, claim, int(State.EXPIRED))
