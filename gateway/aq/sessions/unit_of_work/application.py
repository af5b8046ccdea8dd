"""Sessions that work inside the application's own transaction, on both databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import sqlalchemy as sa

from mgw.gateway.aq.model import QueueRef
from mgw.gateway.aq.queues.activity import Tally
from mgw.gateway.aq.queues.consuming import take_now
from mgw.gateway.aq.queues.intake import store
from mgw.gateway.aq.queues.messages_sql import Finisher
from mgw.gateway.aq.queues.prepared import Prepared
from mgw.gateway.aq.sessions.application import Application
from mgw.gateway.aq.sessions.attempts import count_later, count_soon
from mgw.gateway.aq.sessions.ground import SessionGround
from mgw.gateway.aq.sessions.savepoints import Held, cut, lengths
from mgw.gateway.aq.sessions.unit_of_work.base import took
from mgw.gateway.aq.store.connection_state import state_of
from mgw.gateway.aq.store.statements import Db, Row
from mgw.gateway.aq.store.tables import State
from mgw.transforms.errors import AqError

__all__ = ["ApplicationWork"]


class ApplicationWork:
    """The application's own transaction: the session only works inside it."""

    claim: int | None = None

    def __init__(self, hub: SessionGround, application: Application) -> None:
        self.hub = hub
        self.within: Application | None = application
        self._application = application
        self.undone = 0
        self._taken: Held = {}
        self._savepoints: dict[str, tuple[dict[tuple[QueueRef, int], int], int]] = {}
        self._tally: Tally = []
        self._listening = False

    @contextmanager
    def transaction(self) -> Iterator[Db]:
        with self.hub.translated():
            self.hub.require_files()
            db = Db(self._application.connection(), self.hub.namespace)
            tally: Tally = []
            db.tally = tally
            yield db
        if self._listening:
            self._tally += tally
        elif tally:  # to learn of the commit would cost more than the call: it counts now
            self.hub.statistics.add(tally)

    def store(self, db: Db, prepared: Prepared) -> None:
        store(db, prepared)

    def pending(self, queue: QueueRef) -> list[Row]:  # noqa: ARG002
        return []

    def took(self, queue: QueueRef, number: int) -> bool:
        return took(self._taken, queue, number)

    def take(self, db: Db, queue: QueueRef, consumer: int, ids: Sequence[int], by: Finisher) -> None:
        take_now(db, queue, consumer, ids, by)
        self._taken.setdefault((queue, consumer), []).extend(ids)
        if not self._listening:
            self._listening = True
            _ends_of(db.connection).works.append(self)

    def end(self) -> tuple[Held, Tally]:
        """The application's transaction ends: what was taken in it, and what it did."""
        taken, self._taken = self._taken, {}
        tally, self._tally = self._tally, []
        self._savepoints.clear()
        self._listening = False
        return taken, tally

    def savepoint_set(self, name: str) -> None:
        """The application set a savepoint."""
        self._savepoints[name] = lengths(self._taken), len(self._tally)

    def savepoint_undone(self, name: str) -> None:
        """Nothing was taken before a savepoint that is not known: it was set before the first message was taken."""
        taken, events = self._savepoints.pop(name, ({}, 0))
        del self._tally[events:]
        count_later(self.hub.attempts, cut(self._taken, taken))
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
        raise _not_ours("roll back to a savepoint", "roll back the nested transaction of")

    def release(self, name: str) -> None:  # noqa: ARG002
        raise _not_ours("release a savepoint", "commit the nested transaction of")

    def commit(self) -> None:
        raise _not_ours("commit", "commit")

    def rollback(self) -> None:
        raise _not_ours("roll back", "roll back")

    def close(self) -> None:
        """Nothing is ours to end."""


_ENDS = "mgw_ends"  # among the options of the application's connection, so that it ends with it


class _Ends:
    """How the transactions of an application's connection end, for the sessions that took messages in them.

    SQLAlchemy tells of a rollback and of a commit before it is done, and of a commit that fails as of any error.
    """

    def __init__(self) -> None:
        self.works: list[ApplicationWork] = []
        self._committing: list[tuple[SessionGround, Held]] = []
        self._transaction: sa.RootTransaction | None = None  # the one that is being committed

    def _ended(self) -> list[tuple[SessionGround, Held, Tally]]:
        ended = [(work.hub, *work.end()) for work in self.works]
        self.works.clear()
        return ended

    def rolling_back(self, conn: sa.Connection) -> None:
        """The application rolls back: its attempts are counted behind it.

        The transaction is ended here already. SQLAlchemy's rollback, which follows, then finds nothing to do.
        """
        works = self.works.copy()
        self._committing = [(hub, taken) for hub, taken, _ in self._ended()]
        for work in works:
            work.undone += 1
        self._count_failed(conn)

    def committing(self, conn: sa.Connection) -> None:
        """The application commits, which may fail still."""
        self._transaction = conn.get_transaction()
        ended = self._ended()
        self._committing = [(hub, taken) for hub, taken, _ in ended]
        for hub, _, tally in ended:
            if tally:
                hub.statistics.add(tally)
            if hub.rolled_back:  # to a savepoint
                hub.attempts.wake()

    def commit_failed(self, conn: sa.Connection) -> None:
        """The commit failed; where it is unknown what happened to it, only messages that are there are counted.

        Nobody tells of a commit that is done: an error of the next transaction is none of it.
        """
        if self._committing and conn.get_transaction() is self._transaction:
            self._count_failed(conn)

    def prepared_rolls_back(self) -> None:
        """A transaction of two phases is rolled back; it ends when SQLAlchemy has told the database."""
        for work in self.works:
            work.undone += 1
        for hub, taken, _ in self._ended():
            count_later(hub.attempts, taken)
            hub.attempts.wake()

    def _count_failed(self, conn: sa.Connection) -> None:
        failed, self._committing = self._committing, []
        if not failed:
            return
        for hub, taken in failed:
            count_later(hub.attempts, taken)
        hubs = {id(hub): hub for hub, _ in failed if hub.rolled_back}
        if hubs and not (conn.closed or conn.invalidated):
            with suppress(Exception):  # SQLAlchemy meets the same, and says so
                conn.dialect.do_rollback(conn.connection)
        for hub in hubs.values():
            count_soon(hub.attempts)


def _ends_of(conn: sa.Connection) -> _Ends:
    """How transactions end on this connection; however many sessions come and go on it, it is listened to once."""
    known: _Ends | None = conn.get_execution_options().get(_ENDS)
    if known is not None:
        _listen_to_two_phases(conn, known)
        return known
    ends = _Ends()
    conn.execution_options(**{_ENDS: ends})
    if (state := state_of(conn)) is not None:
        state.listened = True

    def tell(how: Callable[[ApplicationWork, str], None], name: str) -> None:
        for work in ends.works:
            how(work, name)

    sa.event.listen(conn, "rollback", ends.rolling_back)
    sa.event.listen(conn, "commit", ends.committing)
    sa.event.listen(conn, "savepoint", lambda _, name: tell(ApplicationWork.savepoint_set, name))
    undone, released = ApplicationWork.savepoint_undone, ApplicationWork.savepoint_released
    sa.event.listen(conn, "rollback_savepoint", lambda _, name, __: tell(undone, name))
    sa.event.listen(conn, "release_savepoint", lambda _, name, __: tell(released, name))
    if not sa.event.contains(conn.engine, "handle_error", _failed):
        sa.event.listen(conn.engine, "handle_error", _failed)
    _listen_to_two_phases(conn, ends)
    return ends


_TWO_PHASES = "mgw_two_phases"


def _listen_to_two_phases(conn: sa.Connection, ends: _Ends) -> None:
    if isinstance(conn.get_transaction(), sa.TwoPhaseTransaction) and not conn.get_execution_options().get(_TWO_PHASES):
        conn.execution_options(**{_TWO_PHASES: True})
        sa.event.listen(conn, "rollback_twophase", lambda _, __, ___: ends.prepared_rolls_back())
        sa.event.listen(conn, "commit_twophase", lambda conn, _, __: ends.committing(conn))


def _failed(context: sa.engine.ExceptionContext) -> None:
    """A database error on the application's engine: of a commit, where it has no statement."""
    if context.statement is None and context.connection is not None:
        ends: _Ends | None = context.connection.get_execution_options().get(_ENDS)
        if ends is not None:
            ends.commit_failed(context.connection)


def _not_ours(what: str, instead: str) -> AqError:
    return AqError(
        f"the session cannot {what}",
        cause="it works inside the application's transaction",
        cure=f"{instead} the application's connection",
    )
