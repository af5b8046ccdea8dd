"""The hub: one database with durable, transactional queues."""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import sqlalchemy as sa

from gateway.aq import statements_schema as schema
from gateway.aq.database import BUSY_SECONDS, POOL, make_engine, make_private, parse_url, watchfulness
from gateway.aq.errors import PrivilegeMissing
from gateway.aq.failures import shown_url, translate, translated
from gateway.aq.files import HubFiles, files_of
from gateway.aq.grants import OWNERS
from gateway.aq.lock import FairLock, writer_lock
from gateway.aq.model import Durability, SchemaPart
from gateway.aq.names import DEFAULT_SCHEMA
from gateway.aq.notify import Notifier
from gateway.aq.statements import TALLY
from gateway.aq.statistics import Statistics
from transforms.clock import SYSTEM_CLOCK, Clock
from transforms.errors import AqError, HubClosed, HubError, HubUnavailable, HubVersionMismatch

if TYPE_CHECKING:
    from gateway.aq.application import Given
    from gateway.aq.attempts import Attempts, RolledBack
    from gateway.aq.claims import SessionRegistry
    from gateway.aq.session import Session

__all__ = ["Durability", "Hub"]


#: In the ``info`` of a connection on which somebody listens to events: it is not kept for the next transaction.
LISTENED = "mgw_listened"

#: A connection with no transaction open, its driver's connection, and its ``info``.
Writer = tuple[sa.Connection, Any, dict[Any, Any]]


class Hub:
    """A hub database, opened with :meth:`open`; may be used by any number of threads.

    Attributes:
        hub_id: 8 random bytes made with the database; the first half of every message id.
        durability: ``full``: a commit survives power loss. ``fast``: the last commits may be lost then.
        notifier: wakes whoever waits for messages.
        clock: the clock behind every time the hub stores.
        statistics: what this process did with the queues.
        transform_modules: modules whose functions transformations may call.
        rolled_back: messages of rolled back transactions whose failed attempt is still to be counted.
        attempts: counts them.
        object_views: whether queue tables and queues are made with views of their own (a rehearsal needs none).
        name: the database as shown to people, without password.
        login: PostgreSQL login of this program, if it has not the rights of the owner of the hub's tables; None if it
            has, and on SQLite.
    """

    def __init__(  # noqa: PLR0917  (made by open)
        self,
        engine: sa.Engine,
        hub_id: bytes,
        durability: Durability,
        clock: Clock,
        login: str | None = None,
        transform_modules: Sequence[str] = (),
        parts: Sequence[SchemaPart] = (),
    ) -> None:
        self.engine = engine
        self.hub_id = hub_id
        self.durability: Durability = durability
        self.clock = clock
        self.login = login
        self.transform_modules = tuple(transform_modules)
        self.parts = tuple(parts)
        self.name = shown_url(engine.url)
        self.postgresql = engine.dialect.name == "postgresql"
        self.path = None if self.postgresql else os.path.abspath(engine.url.database or "")
        self._reader = engine.execution_options(ro=True)
        self._writers: deque[Writer] = deque()
        self.object_views = True
        self._open = True
        self._create = False
        self._files: HubFiles | None = None
        self._lock: FairLock | None = None if self.path is None else writer_lock(os.path.realpath(self.path))
        self.notifier = Notifier(self._watch_target(), watchfulness(engine.url) if self.postgresql else {})
        self.statistics = Statistics(clock)
        self.rolled_back: RolledBack = deque()
        self.attempts = _attempts(self)
        self._registry: SessionRegistry | None = None
        self._registry_mutex = threading.Lock()
        self._sessions: WeakSet[Session] = WeakSet()
        self._process = os.getpid()
        _open_hubs.add(self)

    # -- opening ---------------------------------------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        url: str,
        *,
        create: bool = False,
        durability: Durability = "full",
        clock: Clock = SYSTEM_CLOCK,
        schemas: Sequence[SchemaPart] = (),
        transform_modules: Sequence[str] = (),
    ) -> Hub:
        """Open a hub, or make it.

        Args:
            url: SQLAlchemy URL, ``sqlite:///path`` or ``postgresql://user@host/database``.
            create: make the hub if the database is empty (SQLite: or the file missing).
            durability: ``fast`` gives up the last commits at a power failure (SQLite ``synchronous=NORMAL``,
                PostgreSQL ``synchronous_commit=off``); it takes the exactly-once label off every job.
            clock: source of time.
            schemas: tables and views of other modules, made with the hub and checked like it.
            transform_modules: modules whose functions transformations may call, beside those that are built in.

        Raises:
            HubVersionMismatch: written by a newer release, or not a hub at all; the database is left untouched.
            HubUnavailable: cannot be reached.
            HubError: it does not exist and ``create`` is False, or the URL cannot be used.
        """
        address = parse_url(url)
        where = shown_url(address)
        if durability not in ("full", "fast"):
            raise HubError(f"durability {durability!r} of hub {where} is not known", cure="use 'full' or 'fast'")
        if address.get_backend_name() == "sqlite":
            found = schema.inspect_sqlite(address.database or "", where)
        else:
            found = schema.Found(frozenset(), None, None, {})
        files = files_of(address, where)
        engine = make_engine(address, durability, clock, files)
        try:
            with translated(where, address.database):
                if address.get_backend_name() == "postgresql":
                    with engine.connect() as conn:
                        found = schema.inspect(conn)
                schema.judge(found, where, create=create, schemas=schemas)
                if found.hub_id is None or any(part.name not in found.parts for part in schemas):
                    if address.get_backend_name() == "sqlite":
                        make_private(address.database or "")
                    found = schema.create(engine, durability, clock, schemas, where)
                if address.get_backend_name() == "postgresql":
                    schema.refresh_functions(engine, found, where)
            if found.hub_id is None:
                raise HubVersionMismatch(f"hub {where} has no identity", cause="table aq_hub is empty")
            login = None
            if address.get_backend_name() == "postgresql":
                with translated(where), engine.connect() as conn:
                    login = schema.strange_login(conn)
            hub = cls(engine, found.hub_id, durability, clock, login, transform_modules, schemas)
            hub._create, hub._files = create, files
            return hub
        except BaseException:
            engine.dispose()
            raise

    def add_part(self, part: SchemaPart) -> None:
        """Have the tables and views of another module, as if they had been among ``schemas`` when the hub was opened.

        Raises:
            HubVersionMismatch: another release made them.
            HubError: they are not there, and the hub was not opened with ``create``.
        """
        if any(known.name == part.name for known in self.parts):
            return
        with self.read() as conn:
            found = schema.inspect(conn)
        schema.judge(found, self.name, create=self._create, schemas=[part])
        if part.name not in found.parts:
            require_own_thread(self)
            with self.translated():
                schema.create(self.engine, self.durability, self.clock, [part], self.name)
        self.parts = (*self.parts, part)

    def close(self) -> None:
        """End what goes on and close the connections. Idempotent.

        Sessions that were not closed are rolled back, and failed attempts counted that were not yet. Every other call
        on the hub or on one of its sessions is refused from then on; who waits for a message learns it.
        """
        self._open = False
        _open_hubs.discard(self)
        self.notifier.close()
        with self._registry_mutex:
            sessions = list(self._sessions)
        for session in sessions:
            session.close_idle()
        self.attempts.close()
        with self._registry_mutex:
            registry, self._registry = self._registry, None
        if registry is not None:
            registry.close()
        self.statistics.forget(self)
        self._drop_writers()
        self.engine.dispose()

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
                cause="this program closed it, maybe while the call waited",
                cure="open it again, and make new sessions",
            )

    def __enter__(self) -> Hub:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- transactions ----------------------------------------------------------------------------------------------

    @contextmanager
    def write(self, *, durable: bool = True, patience: float = BUSY_SECONDS) -> Iterator[sa.Connection]:
        """A transaction that may write: commits at the end, rolls back when the body raises.

        On SQLite the threads of a process take turns in order of arrival; another process is waited for up to 30 s.
        Keep it short and never wait for a network inside.

        Args:
            durable: False for what may be forgotten at a power failure as long as it is forgotten whole (claims of
                sessions): SQLite then does not wait for the disk. The next durable commit carries it along.
            patience: how many seconds to wait for SQLite's write lock.

        Raises:
            HubClosed: the hub was closed.
            HubMoved: its file was moved, deleted or replaced (SQLite).
            HubUnavailable, HubFull, HubError: instead of any database error.
        """
        self.require_open()
        with self.write_last(durable=durable, patience=patience) as conn:
            yield conn

    @contextmanager
    def write_last(self, *, durable: bool = True, patience: float = BUSY_SECONDS) -> Iterator[sa.Connection]:
        """:meth:`write` that works when the hub is closed, too: what it leaves is put in order then."""
        self.take_turn(patience)
        try:
            with translated(self.name, self.path), self._writer(durable, patience) as conn:
                yield conn
        finally:
            self.end_turn()

    @contextmanager
    def _writer(self, durable: bool, patience: float) -> Iterator[sa.Connection]:
        """A transaction on a connection that is kept for the next one: checking out and resetting cost too much here.

        After any error the connections kept go back to the pool, which resets them, or replaces them if they are dead.
        """
        conn, raw, info = self.take_writer()
        failure: BaseException | None = None
        try:
            if not durable:
                info["mgw_relaxed"] = True
            if patience != BUSY_SECONDS:
                info["mgw_patience"] = patience
            with conn.begin():
                try:
                    yield conn
                except BaseException as error:
                    failure = error
                    raise
            self.committed()
        except BaseException as error:
            info[TALLY] = []
            self._drop_writers()
            self.give_back(conn)
            if failure is not None and error is not failure:
                raise failure from failure.__cause__  # the reason, not that a lost connection cannot be rolled back
            raise
        if tally := info[TALLY]:
            info[TALLY] = []
            self.statistics.add(tally)
        self.keep_writer((conn, raw, info))

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
                cause="SQLite has one writer; the second would wait for the first for ever",
                cure="pass the open connection on",
            )
        if not lock.acquire(patience):
            raise HubUnavailable(
                f"hub {self.name} stayed locked for {patience:.0f} s",
                cause="another thread of this process keeps a write transaction open",
                cure="end transactions soon",
            )

    def end_turn(self) -> None:
        """The next thread may write."""
        if self._lock is not None:
            self._lock.release()

    def take_writer(self) -> Writer:
        """A connection with no transaction open, its driver's connection, and its ``info``."""
        try:
            return self._writers.pop()
        except IndexError:
            conn = self.engine.connect()
        return conn, conn.connection.driver_connection, conn.info

    def keep_writer(self, writer: Writer) -> None:
        """The transaction has ended well: the connection is there for the next."""
        if writer[2].pop(LISTENED, False):
            self.give_back(writer[0])
            return
        self._writers.append(writer)
        if not self._open or len(self._writers) > POOL:
            self._drop_writers()

    def drop_writer(self, conn: sa.Connection) -> None:
        """Undo the transaction of a connection of :meth:`take_writer`, whose fate SQLAlchemy does not know."""
        info = conn.info
        info[TALLY] = []
        try:
            conn.connection.rollback()
        except Exception:  # it is dead; what failed first is what the caller is told
            self.abandon_writer((conn, None, info))
            self.engine.dispose()  # those in the pool may be dead, too, and would be taken for good one after another
            return
        self._drop_writers()
        self.give_back(conn)

    def abandon_writer(self, writer: Writer) -> None:
        """A connection of :meth:`take_writer` that nothing is known of any more: it is not used again.

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

    def _drop_writers(self) -> None:
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
        with translated(self.name, self.path), self._reader.connect() as conn:
            yield conn

    def session(
        self, connection: Given | None = None, *, user: str | None = None, schema: str = DEFAULT_SCHEMA
    ) -> Session:
        """A session to enqueue and dequeue with.

        Args:
            connection: the application's own connection to the same database, or its ``sqlalchemy.orm.Session``: every
                call becomes part of its transaction, which the application commits. None: a session with transactions
                of its own.
            user: the user who works: recorded with every message, and allowed what was granted (AQ guide 12.2 §8.5).
                None, SYS and SYSTEM: the owner of the hub, who may do everything; see :meth:`user_for`.
            schema: schema of plain queue names.

        Raises:
            HubClosed: the hub was closed.
            ArgumentInvalid: ``connection`` is something else.
            AqError: 25200 not the name of a user, 1031 another user than the login; the connection is closed, goes
                through another driver, or is in AUTOCOMMIT.
        """
        from gateway.aq.session import Session

        self.require_open()
        return Session(self, connection, user=user, schema=schema)

    def began(self, session: Session) -> None:
        """Know a session with transactions of its own, to end it with the hub."""
        with self._registry_mutex:
            self._sessions.add(session)

    def user_for(self, user: str | None) -> str | None:
        """The user as whom work is done: the one named, or the login of a program that is not the owner of the hub.

        Raises:
            AqError: 1031 a program that has not the rights of the hub's owner works as its own login only, and that
                has to be the name of a user.
        """
        login = self.login
        if login is None:
            return user
        if login.strip() != login or '"' in login:  # as the name of a user it would be another's
            raise PrivilegeMissing(
                f"login {login} may not work on hub {self.name}",
                cause="its name has double quotes in it, or blanks around it, which no user of the hub has",
                cure="log in under another name",
            )
        if login.upper() not in OWNERS and (user is None or user.strip().upper() == login.upper()):
            return login
        raise PrivilegeMissing(
            f"login {login} may not work as {user or 'the owner'} of hub {self.name}",
            cause="it has not the rights of the owner of the hub's tables",
            cure="leave the user out, or log in as the owner",
        )

    @property
    def registry(self) -> SessionRegistry:
        """The sessions of this process that hold claims, and their lease."""
        with self._registry_mutex:
            if self._registry is None:
                from gateway.aq.claims import SessionRegistry

                self._registry = SessionRegistry(self)
            return self._registry

    def renew_leases(self) -> None:
        """Prolong the leases of this process's sessions where it is time; its lease thread does so every 10 s."""
        with self._registry_mutex:
            registry = self._registry
        if registry is not None:
            registry.renew()

    def translate(self, error: BaseException) -> HubError | None:
        """The hub's error for a database error, or None when it is not one."""
        return translate(error, self.name, self.path)

    def translated(self) -> Any:
        """Context manager that lets database errors leave as hub errors."""
        return translated(self.name, self.path)

    def _watch_target(self) -> str:
        if self.path is not None:
            return f"sqlite:{self.path}"
        url = self.engine.url.set(drivername="postgresql")
        return url.render_as_string(hide_password=False)


def _attempts(hub: Hub) -> Attempts:
    from gateway.aq.attempts import Attempts

    return Attempts(hub)


_open_hubs: WeakSet[Hub] = WeakSet()


def _close_all() -> None:
    """The process ends in order, though nobody closed the hub: what nobody committed is rolled back, and counted."""
    for hub in list(_open_hubs):
        if hub._process == os.getpid():  # not in a child that was forked
            with suppress(Exception):
                hub.close()


atexit.register(_close_all)


def require_own_thread(hub: Hub) -> None:
    """Refuse a call that would wait for the calling thread itself (SQLite's one writer)."""
    if hub.writes_here():
        raise AqError(
            "the call needs a transaction of its own",
            cause="this thread has a write transaction of the hub open, and SQLite has one writer",
            cure="end that transaction first, or pass its connection to the session",
        )
