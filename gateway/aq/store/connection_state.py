"""What the hub keeps with each of its own connections, while the connection lives."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import sqlalchemy as sa

from mgw.gateway.aq.store.namespace_sql import Namespace
from mgw.gateway.aq.store.pg_pipeline import Pipeline
from mgw.transforms.clock import SYSTEM_CLOCK, Clock

__all__ = [
    "BUSY_SECONDS",
    "POOL",
    "Begin",
    "ConnectionState",
    "HubSqliteConnection",
    "ServerMemory",
    "hub_clock",
    "state_of",
]

BUSY_SECONDS = 30.0  # how long a writer waits for its turn on SQLite
POOL = 8  # connections kept

#: Begins a write transaction on a driver's connection to SQLite.
Begin = Callable[[Any, "ConnectionState"], None]


class ServerMemory(Protocol):
    """What a process remembers of a database server, for all its connections."""

    def connected(self, server: object) -> None:
        """A connection was made. Another server, or one that was restarted, may hold another past of the hub."""
        ...


@dataclass(slots=True, eq=False)
class ConnectionState:
    """Of one connection.

    Attributes:
        clock: the clock of the hub.
        namespace: the schema of the hub's tables; None on SQLite.
        memory: what is remembered of the server (PostgreSQL).
        pipeline: for statements in few round trips (PostgreSQL).
        begin: begins a write transaction (SQLite).
        synchronous: level of that pragma now (SQLite).
        durable: whether the next transaction may not be forgotten at a power failure.
        patience: how many seconds the next transaction waits for SQLite's write lock.
        tally: what the transaction does, to be counted when it has committed.
        listened: somebody listens to events of the connection: it is not kept for the next transaction.
    """

    clock: Clock
    namespace: Namespace | None = None
    memory: ServerMemory | None = None
    pipeline: Pipeline | None = None
    begin: Begin | None = None
    synchronous: str = ""
    durable: bool = True
    patience: float = BUSY_SECONDS
    tally: list[Any] = field(default_factory=list)
    listened: bool = False


class HubSqliteConnection(sqlite3.Connection):
    """A connection of the hub's own; on PostgreSQL the driver's class takes the attribute as it is."""

    hub_state: ConnectionState


def state_of(conn: sa.Connection) -> ConnectionState | None:
    """What the hub keeps with a connection; None: it is none of a hub's own."""
    found: ConnectionState | None = getattr(conn.connection.driver_connection, "hub_state", None)
    return found


def hub_clock(conn: sa.Connection) -> Clock:
    """The clock of the hub a connection belongs to; the system's for a foreign connection."""
    state = state_of(conn)
    return SYSTEM_CLOCK if state is None else state.clock
