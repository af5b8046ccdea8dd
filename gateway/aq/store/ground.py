"""The ground of a hub: its connections, the turns of its writers, its clock, who is woken, its transactions."""

from __future__ import annotations

import os
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, Protocol

import sqlalchemy as sa

from mgw.gateway.aq.model import Durability
from mgw.gateway.aq.store.connection_state import BUSY_SECONDS, POOL, ConnectionState
from mgw.gateway.aq.store.database_errors import shown_url, translate, translated
from mgw.gateway.aq.store.files import HubFiles
from mgw.gateway.aq.store.namespace_sql import Namespace
from mgw.gateway.aq.store.notify import Notifier
from mgw.gateway.aq.store.turns import ConnectionTurns
from mgw.gateway.aq.store.wal import Checkpoints
from mgw.gateway.aq.store.write_lock import FairLock, writer_lock
from mgw.transforms.clock import Clock
from mgw.transforms.errors import AqError, HubClosed, HubError, HubUnavailable

__all__ = ["Counting", "Ground", "Writer", "require_own_thread"]

#: A connection with no transaction open, its driver's connection, and what the hub keeps with it.
Writer = tuple[sa.Connection, Any, ConnectionState]


class Counting(Protocol):
    """Counts what transactions did."""

    def add(self, events: Sequence[Any]) -> None:
        """Count what one committed transaction did."""
        ...


class Ground:
    """The base of all rooms of a hub; may be used by any number of threads.

    Attributes:
        hub_id: 8 random bytes made with the database; the first half of every message id.
        durability: ``full``: a commit survives power loss. ``fast``: the last commits may be lost then.
        notifier: wakes those who wait for messages.
        clock: the clock behind every time the hub stores.
        statistics: counts what transactions did, when they have committed.
        name: the database as shown to people, without password.
        namespace: the schema of the hub's tables; None on SQLite.
        path: the file of the database; None on PostgreSQL.
        log_warned: bytes of the write-ahead log when its length was last warned of; 0: it was not.
    """

    def __init__(  # noqa: PLR0917
        self,
        engine: sa.Engine,
        hub_id: bytes,
        durability: Durability,
        clock: Clock,
        counting: Counting,
        notifier: Notifier,
        namespace: Namespace | None = None,
        files: HubFiles | None = None,
    ) -> None:
        self.engine = engine
        self.hub_id = hub_id
        self.durability: Durability = durability
        self.clock = clock
        self.name = shown_url(engine.url)
        self.namespace = namespace
        self.postgresql = engine.dialect.name == "postgresql"
        self.path = None if self.postgresql else os.path.abspath(engine.url.database or "")
        self.statistics = counting
        self.notifier = notifier
        self.log_warned = 0
        self._reader = engine.execution_options(ro=True)
        self._writers: deque[Writer] = deque()
        self._turns = ConnectionTurns(2 * POOL)
        self._open = True
        self._files = files
        self._lock: FairLock | None = None
        self._checkpoints: Checkpoints | None = None
        if self.path is not None:
            self._lock = writer_lock(os.path.realpath(self.path))
            self._checkpoints = Checkpoints(self.path, self._lock)
            weakref.finalize(self, self._checkpoints.stop).atexit = False  # nobody may have closed the hub

    @property
    def is_open(self) -> bool:
        """Whether the hub has not been closed."""
        return self._open

    def require_open(self) -> None:
        """Refuse to work on a hub that was closed.

        Raises:
            HubClosed: the hub was closed.
        """
        if not self._open:
            raise HubClosed(
                f"hub {self.name} is closed",
                cause="this program closed it, possibly while the call waited",
                cure="open it again, and create new sessions",
            )

    # -- transactions ----------------------------------------------------------------------------------------------

    @contextmanager
    def write(
        self, *, durable: bool = True, patience: float = BUSY_SECONDS, urgent: bool = False
    ) -> Iterator[sa.Connection]:
        """A transaction that may write: commits at the end, rolls back when the body raises.

        On SQLite the threads of a process take turns in order of arrival; another process is waited for up to 30 s.
        Keep it short and never wait for a network inside.

        Args:
            durable: False for what may be forgotten at a power failure as long as it is forgotten whole (claims of
                sessions): SQLite then does not wait for the disk. The next durable commit carries it along.
            patience: how many seconds to wait for SQLite's write lock.
            urgent: without waiting for other threads that use connections of PostgreSQL: a lease cannot wait for them.

        Raises:
            HubClosed: the hub was closed.
            HubMoved: its file was moved, deleted or replaced (SQLite).
            HubUnavailable, HubFull, HubError: instead of any database error.
        """
        self.require_open()
        with self.write_last(durable=durable, patience=patience, urgent=urgent) as conn:
            yield conn

    @contextmanager
    def write_last(
        self, *, durable: bool = True, patience: float = BUSY_SECONDS, urgent: bool = False
    ) -> Iterator[sa.Connection]:
        """:meth:`write` that also works while the hub is closed, to tidy up."""
        self.take_turn(patience)
        try:
            turn = nullcontext() if urgent else self._turn()
            with turn, translated(self.name, self.path), self._writer(durable, patience) as conn:
                yield conn
        finally:
            self.end_turn()

    @contextmanager
    def _writer(self, durable: bool, patience: float) -> Iterator[sa.Connection]:
        """A transaction on a connection that is kept for the next one: checking out and resetting cost too much here.

        After any error the connections kept go back to the pool, which resets them, or replaces them if they are dead.
        """
        conn, raw, state = self.take_writer()
        failure: BaseException | None = None
        try:
            state.durable, state.patience = durable, patience
            with conn.begin():
                try:
                    yield conn
                except BaseException as error:
                    failure = error
                    raise
            self.committed()
        except BaseException as error:
            state.tally = []
            self.drop_writers()
            if self.postgresql and raw.closed and not conn.invalidated:  # lost at the commit: SQLAlchemy does not know
                conn.invalidate()
                self.engine.dispose()
            self.give_back(conn)
            if failure is not None and error is not failure:
                raise failure from failure.__cause__  # the reason, not that a lost connection cannot be rolled back
            raise
        if tally := state.tally:
            state.tally = []
            self.statistics.add(tally)
        self.keep_writer((conn, raw, state))

    def require_files(self) -> None:
        """Refuse to work where the file of the hub is not the one that is open (SQLite).

        Raises:
            HubMoved: it was moved, deleted or replaced.
        """
        if self._files is not None:
            self._files.look()

    def committed(self) -> None:
        """Refuse to acknowledge what was committed to a file that was moved meanwhile.

        Raises:
            HubMoved: it was moved, deleted or replaced.
        """
        if self._files is not None:
            self._files.committed()
        if self._checkpoints is not None:
            self._checkpoints.committed()

    def end_checkpoints(self) -> None:
        """No thread of the hub copies SQLite's log into the database any more."""
        if self._checkpoints is not None:
            self._checkpoints.close()

    def writes_here(self) -> bool:
        """Whether the calling thread has SQLite's write lock, so that a second transaction would wait for itself."""
        return self._lock is not None and self._lock.held_here()

    # The parts of a write transaction; those who use them see to it that each is undone.

    def take_turn(self, patience: float = BUSY_SECONDS) -> None:
        """Wait until the calling thread may write (SQLite): the threads of a process take turns in order of arrival.

        Raises:
            HubUnavailable: another thread writes for longer than ``patience`` seconds.
            HubError: the calling thread has a write transaction open.
        """
        lock = self._lock
        if lock is None:
            return
        if lock.held_here():
            raise HubError(
                f"a second write transaction on hub {self.name} was begun by the thread that has one open",
                cause="SQLite has one writer; the second would wait for the first forever",
                cure="pass on the open connection",
            )
        if not lock.acquire(patience):
            raise HubUnavailable(
                f"hub {self.name} stayed locked for {patience:.0f} s",
                cause="another thread of this process keeps a write transaction open",
                cure="keep transactions short",
            )

    def end_turn(self) -> None:
        """Let the next thread write."""
        if self._lock is not None:
            self._lock.release()

    def take_writer(self) -> Writer:
        """A connection with no transaction open, its driver's connection, and what the hub keeps with it."""
        try:
            return self._writers.pop()
        except IndexError:
            conn = self.engine.connect()
        driver: Any = conn.connection.driver_connection
        return conn, driver, driver.hub_state

    def keep_writer(self, writer: Writer) -> None:
        """Keep the connection for the next transaction; the last one has ended well."""
        if writer[2].listened:
            writer[2].listened = False
            self.give_back(writer[0])
            return
        self._writers.append(writer)
        if not self._open or len(self._writers) > POOL:
            self.drop_writers()

    def drop_writer(self, conn: sa.Connection) -> None:
        """Undo the transaction of a connection of :meth:`take_writer`, whose fate SQLAlchemy does not know."""
        driver: Any = conn.connection.driver_connection
        state: ConnectionState = driver.hub_state
        state.tally = []
        if state.pipeline is not None:
            state.pipeline.forget()
        try:
            conn.connection.rollback()
        except Exception:  # it is dead; what failed first is what the caller is told
            self.abandon_writer((conn, None, state))
            self.engine.dispose()  # those in the pool may be dead, too, and would be taken for good one after another
            return
        self.drop_writers()
        self.give_back(conn)

    def abandon_writer(self, writer: Writer) -> None:
        """A connection of :meth:`take_writer` whose state is unknown: it is not used again.

        Nor are those that are kept: they may have been lost together.
        """
        lost: Writer | None = writer
        while lost is not None:
            lost[0].invalidate()
            lost[0].close()
            try:
                lost = self._writers.pop()
            except IndexError:  # also where another thread took the last one
                lost = None

    def drop_writers(self) -> None:
        """Return the connections that are kept to the pool."""
        while self._writers:
            with suppress(IndexError):  # another thread took the last one
                self.give_back(self._writers.pop()[0])

    def give_back(self, conn: sa.Connection) -> None:
        """To the pool; after :meth:`close` there is none any more that would ever close it."""
        if not self._open and not conn.invalidated:
            conn.detach()
        conn.close()

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A transaction that only reads; on SQLite it never waits for writers.

        Raises:
            HubClosed: the hub was closed.
            HubUnavailable, HubError: instead of any database error.
        """
        self.require_open()
        with self._turn(), translated(self.name, self.path), self._reader.connect() as conn:
            yield conn

    def _turn(self) -> AbstractContextManager[None]:
        """A turn at the connections. The one writer of SQLite needs none: those who have one may wait for it."""
        return nullcontext() if self.writes_here() else self._turns.take()

    def translate(self, error: BaseException) -> HubError | None:
        """The hub's error for a database error, or None when it is not one."""
        return translate(error, self.name, self.path)

    def translated(self) -> Any:
        """Context manager that lets database errors leave as hub errors."""
        return translated(self.name, self.path)


def require_own_thread(hub: Ground) -> None:
    """Refuse a call that would wait for the calling thread itself (SQLite's one writer)."""
    if hub.writes_here():
        raise AqError(
            "the call needs a transaction of its own",
            cause="this thread has a write transaction of the hub open, and SQLite has one writer",
            cure="end that transaction first, or pass its connection to the session",
        )
