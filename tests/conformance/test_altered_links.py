"""A link is altered while its jobs carry messages: another address of the same broker loses and repeats nothing."""

from __future__ import annotations

import socket
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partialmethod
from pathlib import Path

import pytest

from mgw.gateway.runtime import job_runner
from mgw.links import registry
from mgw.links.rabbitmq import connection
from tests.conformance.moving import Arrivals, Broker, Flow, Line, address, another_address
from tests.support.brokers import RabbitMQ
from tests.support.gateways import Gateway, gateway_on

MOVES = 4
AT_EACH = 300  # messages carried between two changes


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        yield gateway


@pytest.fixture
def drained(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job drains completely, also on a loaded machine: another log, or none, proves nothing of its last batches."""
    monkeypatch.setattr(job_runner, "DRAIN_SECONDS", 60.0)


@pytest.fixture(params=["rabbitmq", "kafka", "mosquitto"])
def server(request: pytest.FixtureRequest) -> Broker:
    found: Broker = request.getfixturevalue(request.param)
    return found


def test_another_address_of_the_same_broker_loses_and_repeats_nothing(gateway: Gateway, server: Broker) -> None:
    line = Line(gateway, server)
    with Arrivals(line.outlet(server)) as arrivals, another_address(server) as other, gateway.run():
        line.await_connected()  # MQTT collects nothing before
        with Flow(line.feed(server)) as flow:
            for move in range(MOVES):
                line.await_both(AT_EACH)
                line.move(address(server) if move % 2 else other.where)
            line.await_both(AT_EACH)
        assert arrivals.complete(flow.published) == Counter(flow.published)
        assert {gateway.job(job)["STATUS"] for job in (line.read, line.written)} == {"READY"}
        assert not [text for text in gateway.events() if "is now at cluster" in text], "it is the same broker"


def test_another_log_loses_and_repeats_nothing(gateway: Gateway, server: Broker) -> None:
    line = Line(gateway, server)
    first, second = line.logs, line.prepare_logs(server, "again")
    with Arrivals(line.outlet(server)) as arrivals, gateway.run():
        line.await_connected()  # MQTT collects nothing before
        with Flow(line.feed(server)) as flow:
            for logs in (second, first, dict.fromkeys(first), second):
                line.await_both(AT_EACH)
                line.move(logs)
            line.await_both(AT_EACH)
        assert arrivals.complete(flow.published) == Counter(flow.published)
        assert {gateway.job(job)["STATUS"] for job in (line.read, line.written)} == {"READY"}
        told = [text for text in gateway.events() if "its log for" in text]
        assert len([text for text in told if line.written in text]) == 3, told
        assert not [text for text in gateway.events() if "is now at" in text]


def reset(session: connection.Session, close: Callable[[connection.Session], None]) -> None:
    """Close the connection with a reset."""
    transport = session._impl._transport
    if transport is not None:
        transport._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    close(session)


@pytest.mark.usefixtures("drained")
def test_another_log_at_a_slow_broker_loses_and_repeats_nothing(
    gateway: Gateway, rabbitmq: RabbitMQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each change meets a job that waits for the broker, and what is under way at the end of a connection is lost."""
    monkeypatch.setattr(connection, "_CLOSE_SECONDS", 0.0)
    monkeypatch.setattr(connection.Session, "close", partialmethod(reset, connection.Session.close))
    line = Line(gateway, rabbitmq)
    first, second = line.logs, line.prepare_logs(rabbitmq, "again")
    with Arrivals(line.outlet(rabbitmq)) as arrivals, another_address(rabbitmq) as way:
        line.move(way.where)
        with gateway.run():
            line.await_connected()
            with Flow(line.feed(rabbitmq)) as flow:
                way.proxy.delay(0.05)
                for logs in (second, first, dict.fromkeys(first), second):
                    line.await_both(AT_EACH)
                    line.move(logs)
                line.await_both(AT_EACH)
            way.proxy.delay(0.0)
            assert arrivals.complete(flow.published) == Counter(flow.published)
            assert {gateway.job(job)["STATUS"] for job in (line.read, line.written)} == {"READY"}


@pytest.mark.parametrize("kind", ["RABBITMQ", "KAFKA", "MQTT"])
def test_every_attribute_and_option_of_a_link_can_be_altered(kind: str) -> None:
    spec = registry.spec(kind)
    assert [field.name for field in (*spec.attributes, *spec.options) if not field.alterable] == []
