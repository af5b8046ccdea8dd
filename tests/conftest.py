"""Real servers for the tests, each started once per session on first use; a missing one is a failure, never a skip."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.support.brokers import Kafka, Mosquitto, PostgreSQL, RabbitMQ
from tests.support.combinations import begins_first, is_left, is_long
from tests.support.costs import measure
from tests.support.memory import write_into_memory
from tests.support.tally import count

write_into_memory()
# Many agents run at once; the tests of the port say which one they want.
os.environ["MGW_HTTP"] = "off"
# How fast examples are made says something about the machine, not about the code.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


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


def pytest_configure(config: pytest.Config) -> None:
    """For the last lines of ``make test``, and for who looks for what makes it slow."""
    count(config)
    measure(config)


def pytest_collection() -> None:
    """Ten thousand tests are made now; nothing of them is garbage."""
    gc.disable()


def pytest_collection_finish() -> None:
    """The collector need not look at them again, neither by itself nor behind every module."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="module", autouse=True)
def nothing_left_open() -> Iterator[None]:
    """What a module leaves open (sockets, files, connections) fails the module itself, not whoever comes next."""
    yield
    gc.collect()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that uses a server carries its marker, so that ``-m "not kafka"`` means what it says; so does one that
    ``make test`` leaves to ``make test-all``. What takes longest begins."""
    servers = {"rabbitmq", "kafka", "mosquitto", "postgresql"}
    items.sort(key=lambda item: begins_first(item.nodeid))
    for item in items:
        if is_long(item.nodeid):
            item.add_marker(pytest.mark.long)
        if is_left(item.nodeid):
            item.add_marker(pytest.mark.matrix)
        for name in servers.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(name)
