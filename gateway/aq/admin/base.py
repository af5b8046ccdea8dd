"""What the procedures of :class:`~mgw.gateway.aq.admin.QueueAdmin` share: transaction, look-ups, checks of values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, TypeVar

import sqlalchemy as sa

from mgw.gateway.aq.admin.audit import Changed, Info, keep_change, keep_object
from mgw.gateway.aq.errors import QueueMissing, QueueTableMissing
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import QueueInfo, QueueRef, QueueTableInfo
from mgw.gateway.aq.names import DEFAULT_SCHEMA, QualifiedName
from mgw.gateway.aq.queues import catalog_sql as catalog
from mgw.gateway.aq.security.privileges import rights_of
from mgw.gateway.aq.store.namespace_sql import on_path
from mgw.gateway.aq.store.statements import Db
from mgw.transforms.errors import AqError

__all__ = ["Administration", "choice", "queue_info"]

Choice = TypeVar("Choice", bound=StrEnum)


class Administration:
    """The hub, and one transaction per call, or part of the one of ``connection``.

    With ``connection`` nothing is committed by a call unless it is asked to (``auto_commit``): what it did is in force
    when the application commits.

    Args:
        hub: the open hub.
        connection: the application's connection to the hub's database, whose transaction the calls belong to.
        schema: schema of plain names.
        user: the user who administers; None, SYS and SYSTEM: the hub's owner. A user may administer the schema of that
            name, and every schema with MANAGE_ANY or AQ_ADMINISTRATOR_ROLE (AQ guide 12.2 §4.2).

    Raises:
        AqError: 25200 not the name of a user.
    """

    #: Who administers, for the audit, where that is neither a user of the hub nor the account of the program.
    by: str | None = None
    #: Whether what has no procedure that shows it is written into the audit; False: the caller does that.
    notes: bool = True
    #: Asked in the transaction that drops queues, before anything is done: with what is dropped, as ``queue ORDERS``,
    #: and the queues that go. It raises where they have to stay. None, as in documented procedures: nobody is asked.
    may_go: Callable[[sa.Connection, str, Sequence[QueueRef]], None] | None = None

    def __init__(
        self,
        hub: Hub,
        connection: sa.Connection | None = None,
        *,
        schema: str = DEFAULT_SCHEMA,
        user: str | None = None,
    ) -> None:
        self.hub = hub
        self.connection = connection
        self.schema = schema
        self.rights = rights_of(hub.user_for(user))

    @contextmanager
    def change(self, auto_commit: bool | None = None) -> Iterator[sa.Connection]:
        """A transaction that may write.

        Args:
            auto_commit: True: it is committed before and after, also if it is the application's. False: it has to be
                the application's, who commits it. None: whichever of the two it is.

        Raises:
            AqError: ``auto_commit`` is False, and there is no transaction of the application's.
        """
        self._check_commit(auto_commit)
        if self.connection is None:
            with self.hub.write() as conn:
                yield conn
            return
        with self.hub.translated():
            if auto_commit:
                self.connection.commit()
            with on_path(self.connection, self.hub.namespace):
                yield self.connection
            if auto_commit:
                self.connection.commit()

    def _keep(
        self, conn: sa.Connection, verb: str, kind: str, before: Info | None = None, after: Info | None = None
    ) -> None:
        """Write a change into the audit, in its transaction; nothing where the object is as it was."""
        keep_object(conn, verb, kind, before, after, self.hub.clock.now(), self._who())

    def _note(  # noqa: PLR0917
        self,
        conn: sa.Connection,
        verb: str,
        kind: str,
        name: str,
        before: Mapping[str, Any] | None = None,
        after: Mapping[str, Any] | None = None,
    ) -> None:
        """The same of what has no procedure that shows it: a grant, a module, ..."""
        if self.notes and before != after:
            changed = Changed(verb, kind, name, _told(before), _told(after))
            keep_change(conn, changed, now=self.hub.clock.now(), by=self._who())

    def _who(self) -> str | None:
        return self.by or (None if self.rights is None else self.rights.user)

    def _check_commit(self, auto_commit: bool | None) -> None:
        """Refuse ``auto_commit`` False where there is no transaction of the application's."""
        if self.connection is None and auto_commit is False:
            raise AqError(
                "auto_commit cannot be false here",
                cause="the call is not part of a transaction of the application",
                cure="create the QueueAdmin with the application's connection, or leave auto_commit out",
            )

    @contextmanager
    def look(self) -> Iterator[Db]:
        """A transaction that only reads."""
        if self.connection is not None:
            with self.hub.translated(), on_path(self.connection, self.hub.namespace):
                yield Db(self.connection)
        else:
            with self.hub.read() as conn:
                yield Db(conn)

    def need_queue(self, db: Db, queue_name: str) -> QueueRef:
        """The queue to administer: 24010 there is none, 1031 the user may not."""
        if self.rights is not None:
            return self.rights.manage_target(db, queue_name, self.schema)
        return catalog.require_queue(db, queue_name, self.schema, error=QueueMissing)

    def visible(self, db: Db, queues: list[QueueInfo]) -> list[QueueInfo]:
        """Those of the queues that the user may know of, as in ALL_QUEUES (AQ guide 12.2 §9.2)."""
        rights = self.rights
        if rights is None:
            return queues
        held = rights.held(db)
        return [queue for queue in queues if rights.sees(held, queue.id, queue.schema)]

    def manages(self, db: Db, schema: str) -> bool:
        """Whether the user may administer a schema."""
        return self.rights is None or self.rights.manages(db, schema)

    def need_queue_table(self, db: Db, name: QualifiedName) -> QueueTableInfo:
        """The queue table to administer, or 24002; the user does not see those of others."""
        found = catalog.find_queue_table(db, name.key)
        if self.rights is not None and not self.rights.manages(db, name.schema):
            raise QueueTableMissing(
                f"queue table {name.shown} does not exist for user {self.rights.user}",
                cause="no queue table of that name is in the hub, or the user may not administer it",
                cure=f"correct the name, or have an administrator grant MANAGE_ANY to {self.rights.user}",
            )
        if found is None:
            raise QueueTableMissing(
                f"queue table {name.shown} does not exist",
                cause="no queue table of that name is in the hub",
                cure="create it: create_queue_table",
            )
        return found


def _told(values: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if values is None else {key: value for key, value in values.items() if value not in (None, ())}


def queue_info(db: Db, queue_id: int) -> QueueInfo:
    """The queue with this id, which exists."""
    return catalog.list_queues(db, "WHERE q.id = ?", (queue_id,))[0]


def choice(kind: type[Choice], value: str, what: str, error: type[AqError]) -> Choice:
    """The member of an enumeration that ``value`` names, in either case, or ``error``."""
    try:
        return kind(str(value).upper())
    except ValueError:
        allowed = ", ".join(member.value for member in kind)
        raise error(f"{what} is {value!r}", cause=f"allowed are {allowed}", cure="name one of them") from None
