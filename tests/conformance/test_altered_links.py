"""A link is altered while its jobs carry messages: another address of the same broker loses and repeats nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from mgw.links import registry
from tests.conformance.moving import Arrivals, Broker, Flow, Line, address, another_address
from tests.support.gateways import Gateway, gateway_on

MOVES = 4
AT_EACH = 300  # messages carried between two changes


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        yield gateway


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


@pytest.mark.parametrize("kind", ["RABBITMQ", "KAFKA", "MQTT"])
def test_every_attribute_and_option_of_a_link_can_be_altered(kind: str) -> None:
    spec = registry.spec(kind)
    assert [field.name for field in (*spec.attributes, *spec.options) if not field.alterable] == []
