"""A link is altered and leads to another broker, and back: nothing is lost, and what may be there twice is told."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from mgw.gateway.ledger import check
from tests.conformance.moving import Arrivals, Broker, Flow, Line, address, another_address
from tests.faults.verdict import LANES, Numbered
from tests.support.brokers import Kafka, Mosquitto, RabbitMQ
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually

FAR = 1_000_000  # numbers from here on are published to the second broker
AT_EACH = 200


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        yield gateway


@pytest.fixture(scope="module")
def second_rabbitmq() -> Iterator[RabbitMQ]:
    with RabbitMQ() as server:
        yield server


@pytest.fixture(scope="module")
def second_kafka() -> Iterator[Kafka]:
    with Kafka() as server:
        yield server


@pytest.fixture(scope="module")
def second_mosquitto() -> Iterator[Mosquitto]:
    with Mosquitto() as server:
        yield server


@pytest.fixture
def second_vhost(rabbitmq: RabbitMQ) -> RabbitMQ:
    """Another virtual host of the same broker."""
    second = copy.copy(rabbitmq)
    second.vhost = "second"
    rabbitmq.ctl("add_vhost", second.vhost)
    rabbitmq.ctl("set_permissions", "-p", second.vhost, rabbitmq.username, ".*", ".*", ".*")
    return second


@pytest.fixture(params=["rabbitmq", "kafka", "mosquitto"])
def pair(request: pytest.FixtureRequest) -> tuple[Broker, Broker]:
    return request.getfixturevalue(request.param), request.getfixturevalue(f"second_{request.param}")


def offences(gateway: Gateway, line: Line) -> list[str]:
    """What the ledger says of the jobs."""
    found = []
    for name in (line.read, line.written):
        job = gateway.admin.get_job(name)
        assert job is not None
        with gateway.hub.read() as conn:
            found += check.reconcile(conn, job, gateway.hub.hub_id).offences
    return found


def to_and_fro(gateway: Gateway, line: Line, near: Broker, far: Broker) -> None:
    """Move twice to the other broker and back while both are published to; all arrives, once."""
    with Arrivals(line.outlet(near), line.outlet(far)) as arrivals, gateway.run():
        line.await_connected()
        with Flow(line.feed(near)) as first:
            if isinstance(far, Mosquitto):  # it collects nothing for a job that was never there
                line.move(address(far))
                line.await_activations(2)
            with Flow(line.feed(far), FAR) as second:
                for server in (far, near, far, near):
                    line.await_both(AT_EACH)
                    line.move(address(server))
                line.await_both(AT_EACH)
        line.move(address(far))
        arrivals.complete(second.published)
        line.move(address(near))
        published = first.published | second.published
        assert arrivals.complete(published) == Counter(published)
        assert offences(gateway, line) == []


def test_another_broker_and_back_loses_and_repeats_nothing(gateway: Gateway, pair: tuple[Broker, Broker]) -> None:
    near, far = pair
    line = Line(gateway, near, start="latest")
    line.prepare(far)
    to_and_fro(gateway, line, near, far)
    told = [text for text in gateway.events() if "is now at" in text]
    assert len(told) >= 8, told
    assert any("everything that was sent before is confirmed" in text for text in told)


def test_another_virtual_host_and_back_loses_and_repeats_nothing(
    gateway: Gateway, rabbitmq: RabbitMQ, second_vhost: RabbitMQ
) -> None:
    line = Line(gateway, rabbitmq)
    line.prepare(second_vhost)
    to_and_fro(gateway, line, rabbitmq, second_vhost)


def test_a_stream_goes_on_where_the_job_left_it_at_that_broker(
    gateway: Gateway, rabbitmq: RabbitMQ, second_rabbitmq: RabbitMQ
) -> None:
    line = Line(gateway, rabbitmq, kind="stream")
    line.prepare(second_rabbitmq)
    to_and_fro(gateway, line, rabbitmq, second_rabbitmq)


def test_a_moved_job_begins_at_the_first_record_of_a_cluster_where_it_never_was(
    gateway: Gateway, kafka: Kafka, second_kafka: Kafka
) -> None:
    line = Line(gateway, kafka, start="latest")
    line.prepare(second_kafka)
    feed = line.feed(second_kafka)
    feed.publish([Numbered(at, at % LANES, b"%d" % at, None) for at in range(100)])
    feed.close()
    with Arrivals(line.outlet(second_kafka)) as arrivals, gateway.run():
        line.await_connected()
        line.move(address(second_kafka))
        assert arrivals.complete(range(100)) == Counter(range(100))
        assert any("it starts at the first message there" in text for text in gateway.events())


def test_what_was_not_confirmed_is_sent_to_the_new_broker_and_told(
    gateway: Gateway, pair: tuple[Broker, Broker]
) -> None:
    near, far = pair
    line = Line(gateway, near)
    line.prepare(far)
    with (
        Arrivals(line.outlet(near), line.outlet(far)) as arrivals,
        another_address(near) as way,
        gateway.run(),
    ):
        line.await_connected()
        line.move(way.where)
        line.send(range(50))
        arrivals.complete(range(50))
        way.proxy.stall(requests=False)
        line.send(range(50, 150))
        eventually(lambda: gateway.plans(line.written), deadline=60, what="a batch in doubt")
        line.move(address(far))
        numbers = arrivals.complete(range(150))
        assert set(numbers) == set(range(150))
        assert all(numbers[at] == 1 for at in range(50))
        eventually(lambda: gateway.plans(line.written) == [], deadline=60, what="everything confirmed")
        told = [text for text in gateway.events() if "its destination" in text]
        assert "were sent and not confirmed" in told[-1], told
        assert "they may also be at" in gateway.job(line.written)["GUARANTEE_NOTE"]
        way.proxy.resume()
        line.move(address(near))
        line.send(range(150, 200))
        numbers = arrivals.complete(range(200))
        assert all(numbers[at] == 1 for at in range(150, 200))
        assert "they may also be at" in gateway.job(line.written)["GUARANTEE_NOTE"]
        assert offences(gateway, line) == []


@pytest.mark.parametrize("system", ["rabbitmq", "kafka"])
def test_what_was_stored_and_not_acknowledged_is_recognised_when_the_link_comes_back(
    request: pytest.FixtureRequest, gateway: Gateway, system: str
) -> None:
    near, far = request.getfixturevalue(system), request.getfixturevalue(f"second_{system}")
    line = Line(gateway, near)
    line.prepare(far)
    feed = line.feed(near)
    with Arrivals(line.outlet(near), line.outlet(far)) as arrivals, another_address(near) as way:
        gateway.admin.disable_job(line.written)
        with gateway.run():
            line.move(way.where)
            line.await_activations(1)
            feed.publish([Numbered(at, at % LANES, b"%d" % at, None) for at in range(50)])
            eventually(lambda: line.carried(line.read) == 50, deadline=60, what="the first messages in the hub")
            if system == "rabbitmq":
                way.proxy.stall(answers=False)  # messages still come, acknowledgements do not go
            feed.publish([Numbered(at, at % LANES, b"%d" % at, None) for at in range(50, 80)])
            eventually(lambda: line.carried(line.read) > 50, deadline=60, what="messages that are not acknowledged")
            line.move(address(far))
            eventually(lambda: "it starts at the first" in "".join(gateway.events()), deadline=90, what="the move")
            way.proxy.cut()
            line.move(address(near))
            gateway.admin.enable_job(line.written)
            assert arrivals.complete(range(80)) == Counter(range(80))
            assert offences(gateway, line) == []
    feed.close()
