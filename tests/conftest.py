"""Real servers for the tests, each started once per session on first use; a missing one is a failure, never a skip."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator

import pytest

from tests.support.brokers import Kafka, Mosquitto, PostgreSQL, RabbitMQ


@pytest.fixture(scope="session")
def rabbitmq() -> Iterator[RabbitMQ]:
    """A RabbitMQ node; use own queue names."""
    with RabbitMQ() as server:
        yield server


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    """A Kafka broker; use own topics, made with ``create_topic``."""
    with Kafka() as server:
        yield server


@pytest.fixture(scope="session")
def mosquitto() -> Iterator[Mosquitto]:
    """A Mosquitto broker; use own topics and client ids."""
    with Mosquitto() as server:
        yield server


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    """A PostgreSQL cluster; take a database of your own with ``create_database``."""
    with PostgreSQL() as server:
        yield server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that uses a server carries its marker, so that ``-m "not kafka"`` means what it says."""
    servers = {"rabbitmq", "kafka", "mosquitto", "postgresql"}
    for item in items:
        for name in servers.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(name)
    # kafka-python leaves the sockets of refused connections to the garbage collector, which may run in a later test.
    clients = {item.path for item in items if "kafka" in item.nodeid or item.get_closest_marker("kafka")}
    for item in items:
        if item.path in clients:
            item.add_marker(pytest.mark.filterwarnings(_LEFT_SOCKETS))


_LEFT_SOCKETS = "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"


@pytest.fixture(autouse=True, scope="module")
def _sockets_collected(request: pytest.FixtureRequest) -> Iterator[None]:
    """Sockets that a Kafka client left are collected in the module that used it, not in somebody else's test."""
    yield
    if any(
        item.get_closest_marker("kafka") or "kafka" in item.nodeid
        for item in request.session.items
        if item.path == request.path
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
