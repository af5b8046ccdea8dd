"""What the procedures of :class:`~gateway.aq.admin.QueueAdmin` share: transaction, look-ups, checks of values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TypeVar

import sqlalchemy as sa

from gateway.aq import statements_catalog as catalog
from gateway.aq.errors import QueueMissing, QueueTableMissing
from gateway.aq.hub import Hub
from gateway.aq.model import QueueInfo, QueueRef, QueueTableInfo
from gateway.aq.names import DEFAULT_SCHEMA, QualifiedName
from gateway.aq.statements import Db
from transforms.errors import AqError

__all__ = ["Administration", "choice", "need_queue_table", "queue_info"]

Choice = TypeVar("Choice", bound=StrEnum)


class Administration:
    """The hub, and one transaction per call, or part of the one of ``connection``.

    Args:
        hub: the open hub.
        connection: the application's connection to the hub's database, whose transaction the calls belong to.
        schema: schema of plain names.
    """

    def __init__(self, hub: Hub, connection: sa.Connection | None = None, *, schema: str = DEFAULT_SCHEMA) -> None:
        self.hub = hub
        self.connection = connection
        self.schema = schema

    @contextmanager
    def change(self) -> Iterator[sa.Connection]:
        """A transaction that may write."""
        if self.connection is not None:
            with self.hub.translated():
                yield self.connection
        else:
            with self.hub.write() as conn:
                yield conn

    @contextmanager
    def look(self) -> Iterator[Db]:
        """A transaction that only reads."""
        if self.connection is not None:
            with self.hub.translated():
                yield Db(self.connection)
        else:
            with self.hub.read() as conn:
                yield Db(conn)

    def need_queue(self, db: Db, queue_name: str) -> QueueRef:
        """The queue, or 24010."""
        return catalog.require_queue(db, queue_name, self.schema, error=QueueMissing)


def need_queue_table(db: Db, name: QualifiedName) -> QueueTableInfo:
    """The queue table, or 24002."""
    found = catalog.find_queue_table(db, name.key)
    if found is None:
        raise QueueTableMissing(
            f"queue table {name.shown} does not exist",
            cause="no queue table of that name is in the hub",
            cure="create it: create_queue_table",
        )
    return found


def queue_info(db: Db, queue_id: int) -> QueueInfo:
    """The queue with this id, which exists."""
    return catalog.list_queues(db, "WHERE q.id = ?", (queue_id,))[0]


def choice(kind: type[Choice], value: str, what: str, error: type[AqError]) -> Choice:
    """The member of an enumeration that ``value`` names, in either case, or ``error``."""
    try:
        return kind(str(value).upper())
    except ValueError:
        allowed = ", ".join(member.value for member in kind)
        raise error(f"{what} is {value!r}", cause=f"allowed are {allowed}") from None
