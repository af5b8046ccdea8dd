"""The hub: one database with durable, transactional queues."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING
from weakref import WeakSet

import sqlalchemy as sa

from mgw.gateway.aq.model import Durability
from mgw.gateway.aq.names import DEFAULT_SCHEMA
from mgw.gateway.aq.queues.search_bounds import Heads
from mgw.gateway.aq.schema import schema_sql as schema
from mgw.gateway.aq.sessions.ground import SessionGround
from mgw.gateway.aq.sessions.session import Session
from mgw.gateway.aq.store.database import find_schema, libpq_uri, make_engine, make_private, parse_url, watchfulness
from mgw.gateway.aq.store.database_errors import translated
from mgw.gateway.aq.store.files import HubFiles, files_of
from mgw.gateway.aq.store.ground import require_own_thread
from mgw.gateway.aq.store.membership import Membership
from mgw.gateway.aq.store.namespace_sql import Namespace
from mgw.gateway.aq.store.notify import Notifier
from mgw.gateway.aq.store.schema_part import SchemaPart
from mgw.gateway.aq.upkeep.time_sql import WITH_MESSAGES
from mgw.transforms.clock import SYSTEM_CLOCK, Clock
from mgw.transforms.errors import HubError, HubVersionMismatch

if TYPE_CHECKING:
    from mgw.gateway.aq.sessions.application import Given

__all__ = ["Durability", "Hub"]


class Hub(SessionGround):
    """A hub database, opened with :meth:`open`; may be used by any number of threads.

    Attributes:
        hub_id: 8 random bytes made with the database; the first half of every message id.
        durability: ``full``: a commit survives power loss. ``fast``: the last commits may be lost then.
        notifier: wakes those who wait for messages.
        clock: the clock behind every time the hub stores.
        statistics: what this process did with the queues.
        transform_modules: modules whose functions transformations may call.
        attempts: counts failed attempts of messages of rolled back transactions.
        name: the database as shown to people, without password.
        namespace: the schema of the hub's tables; None on SQLite.
        login: PostgreSQL login of this program, if it lacks the rights of the owner of the hub's tables; None
            otherwise, and on SQLite.
        parts: tables and views of other modules that were made, or checked, with the hub.
        object_views: whether queue tables and queues are made with views of their own (a rehearsal needs none).
        on_removal: called in the transaction of a removal with its object, what happened in words, and how many
            messages it held.
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
        namespace: Namespace | None = None,
        files: HubFiles | None = None,
    ) -> None:
        notifier = _notifier(engine, namespace)
        super().__init__(engine, hub_id, durability, clock, notifier, namespace, files, login, transform_modules)
        self.parts = tuple(parts)
        self.object_views = True
        self.on_removal: Callable[[sa.Connection, str, str, int], None] | None = None
        self._create = False
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
            transform_modules: modules whose functions transformations may call, in addition to those built in.

        Raises:
            HubVersionMismatch: written by a newer release, or not a hub at all; the database is left untouched.
            HubUnavailable: cannot be reached.
            HubMissing: it does not exist and ``create`` is False.
            HubError: the URL cannot be used.
        """
        address = parse_url(url)
        where, database = address.shown, address.url.database
        if durability not in ("full", "fast"):
            raise HubError(f"durability {durability!r} of hub {where} is not known", cure="use 'full' or 'fast'")
        namespace, membership = None, Membership(where)
        with translated(where, database):
            if address.postgresql:
                namespace = Namespace(find_schema(address))
                found = schema.Found(frozenset(), None, None, {})
            else:
                found = schema.inspect_sqlite(database or "", where)
        files = files_of(address.url, where)
        engine = make_engine(
            address.url, durability, clock, files, namespace=namespace, membership=membership, memory=Heads()
        )
        try:
            with translated(where, database):
                if namespace is not None:
                    with engine.connect() as conn:
                        found = schema.inspect(conn)
                schema.judge(found, where, create=create, schemas=schemas)
                if found.hub_id is None or any(part.name not in found.parts for part in schemas):
                    if namespace is None:
                        make_private(database or "")
                    found = schema.create(engine, durability, clock, schemas, where)
                if namespace is not None:
                    schema.refresh_functions(engine, found, where, schemas)
            if found.hub_id is None:
                raise HubVersionMismatch(f"hub {where} has no identity", cause="table aq_hub is empty")
            login = None
            if namespace is not None:
                with translated(where), engine.connect() as conn:
                    login = membership.begin(conn)
            hub = cls(engine, found.hub_id, durability, clock, login, transform_modules, schemas, namespace, files)
            hub.name = where
            hub._create = create
            return hub
        except BaseException:
            engine.dispose()
            raise

    def add_part(self, part: SchemaPart) -> None:
        """Add the tables and views of another module, as if they had been among ``schemas`` when the hub was opened.

        Raises:
            HubVersionMismatch: another release made them.
            HubIncomplete: they are not there, and the hub was not opened with ``create``.
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
        """End all sessions and close the connections. Idempotent.

        Sessions that were not closed are rolled back, and failed attempts counted that were not yet. Every other call
        on the hub or on one of its sessions is refused from then on; who waits for a message learns it.
        """
        _open_hubs.discard(self)
        super().close()

    @property
    def schema(self) -> str | None:
        """The schema of the hub's tables in a PostgreSQL database; None on SQLite."""
        return None if self.namespace is None else self.namespace.schema

    def __enter__(self) -> Hub:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def session(
        self, connection: Given | None = None, *, user: str | None = None, schema: str = DEFAULT_SCHEMA
    ) -> Session:
        """A session to enqueue and dequeue with.

        Args:
            connection: the application's own connection to the same database, or its ``sqlalchemy.orm.Session``: every
                call becomes part of its transaction, which the application commits. A connection of the driver
                (psycopg, sqlite3), as Django has one, will do to enqueue and to browse; a session on it is for one
                transaction. None: a session with transactions of its own.
            user: the user who works: recorded with every message, and allowed what was granted (AQ guide 12.2 §8.5).
                None, SYS and SYSTEM: the owner of the hub, who may do everything; see :meth:`user_for`.
            schema: schema of plain queue names.

        Raises:
            HubClosed: the hub was closed.
            ArgumentInvalid: ``connection`` is something else.
            AqError: 25200 not the name of a user, 1031 another user than the login; the connection is closed, goes
                through another driver, or is in AUTOCOMMIT.
        """
        self.require_open()
        return Session(self, connection, user=user, schema=schema)


def _notifier(engine: sa.Engine, namespace: Namespace | None) -> Notifier:
    if namespace is None:
        target = f"sqlite:{os.path.abspath(engine.url.database or '')}"
        return Notifier(target, {}, with_messages=WITH_MESSAGES)
    return Notifier(libpq_uri(engine.url), watchfulness(engine.url), channel=namespace.channel)


_open_hubs: WeakSet[Hub] = WeakSet()


def _close_all() -> None:
    """The process ends in order, though nobody closed the hub: what nobody committed is rolled back, and counted."""
    for hub in list(_open_hubs):
        if hub._process == os.getpid():  # not in a child that was forked
            with suppress(Exception):
                hub.close()


atexit.register(_close_all)
