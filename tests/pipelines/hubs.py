"""Hubs for the tests of the data source: queues and messages in few words."""

from __future__ import annotations

import time
from typing import Any

import pytest

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.queues import transfer
from mgw.transforms.message import Message

__all__ = ["ManualClock", "database", "make", "put"]


class ManualClock:
    """Wall-clock time moved by hand; waiting is real."""

    def __init__(self, start: float) -> None:
        self.time = start

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return time.monotonic()


def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, name: str) -> str:
    """URL of a hub in an empty database of the kind that ``request.param`` names."""
    if request.param == "postgresql":
        url: str = request.getfixturevalue("postgresql").create_database(name)
        return f"{url}?schema=Spark"
    return f"sqlite:///{tmp_path_factory.mktemp(name) / 'a hub.db'}"


def make(hub: Hub, name: str, *subscribers: str, table: dict[str, Any] | None = None, **settings: Any) -> str:
    """A started queue in a table of its own, with subscribers if it is to have several consumers."""
    admin = QueueAdmin(hub)
    admin.create_queue_table(f"{name}_t", multiple_consumers=bool(subscribers), **(table or {}))
    admin.create_queue(name, f"{name}_t", **settings)
    admin.start_queue(name)
    for subscriber in subscribers:
        admin.add_subscriber(name, subscriber)
    return name


def put(hub: Hub, name: str, *messages: Message | str) -> list[bytes]:
    """Store messages; their ids."""
    given = [Message(message) if isinstance(message, str) else message for message in messages]
    with hub.write() as conn:
        stored = transfer.put(conn, transfer.resolve(conn, name), given).msgids
    return [msgid for msgid in stored if msgid is not None]
