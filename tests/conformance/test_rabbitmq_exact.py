"""Exactly once with RabbitMQ: agents and brokers are killed at random moments, then every message is counted.

The fault tests of every run (``tests/faults``) do so with the same jobs, under another judge.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.brokers import RabbitMQ
from tests.support.rabbitmq_kills import Figures, KilledGateway, killed_gateway

pytestmark = pytest.mark.rabbitmq

LOG = "mgw.log.{job}"
SHORT = (3, 4000)  # kills, messages
LONG = (int(os.environ.get("MGW_KILLS", "200")), 100_000)


@pytest.fixture(scope="module")
def mortal() -> Iterator[RabbitMQ]:
    """A broker that may be killed."""
    with RabbitMQ() as server:
        yield server


@pytest.fixture
def stand(mortal: RabbitMQ, tmp_path: Path) -> Iterator[KilledGateway]:
    with killed_gateway(mortal, tmp_path) as stand:
        yield stand


def sized() -> pytest.MarkDecorator:
    short = pytest.param(*SHORT, marks=pytest.mark.matrix, id="short")
    long = pytest.param(*LONG, marks=[pytest.mark.long, pytest.mark.timeout(3600)], id="long")
    return pytest.mark.parametrize(("kills", "messages"), [short, long])


def accept(figures: Figures, *, level: str, disordered: bool = False) -> None:
    """Report the figures and hold them to what the level promises."""
    print(figures)
    assert figures.level == level
    assert (figures.lost, figures.doubled) == (0, 0), figures
    assert disordered or not figures.disordered, figures


def numbered(stand: KilledGateway, *, identified: bool) -> Callable[[int, int], Sequence[bytes]]:
    """Puts different messages into the broker's queue, with or without message ids."""

    def put(start: int, count: int) -> Sequence[bytes]:
        numbers = range(start, start + count)
        return stand.publish([(b"%d" % number, f"id-{number}" if identified else None) for number in numbers])

    return put


@sized()
def test_unique_ids_survive_kills_of_the_agent_and_of_the_broker(
    stand: KilledGateway, kills: int, messages: int
) -> None:
    stand.define("INBOUND", options={"AMQP_UniqueIds": "TRUE"})
    stand.server.flush_declarations()
    put = numbered(stand, identified=True)
    given = stand.kill_often(kills, messages, put, broker=max(2, kills // 10))
    accept(stand.figures("unique ids in", given, stand.stored()), level="exact")
    assert stand.waiting() == 0


def enqueued(stand: KilledGateway) -> Callable[[int, int], Sequence[bytes]]:
    """Puts different messages into the hub queue."""
    return lambda start, count: stand.enqueue([b"%d" % number for number in range(start, start + count)])


def two_bodies(stand: KilledGateway) -> Callable[[int, int], Sequence[bytes]]:
    """Puts messages of two bodies into the broker's queue: nothing else tells them apart."""

    def put(_start: int, count: int) -> Sequence[bytes]:
        return stand.publish([(b"even" if number % 2 else b"odd", None) for number in range(count)])

    return put


@sized()
def test_equal_messages_without_ids_survive_kills_of_the_agent(stand: KilledGateway, kills: int, messages: int) -> None:
    stand.define("INBOUND", log_queue=LOG)
    given = stand.kill_often(kills, messages, two_bodies(stand))
    figures = stand.figures("queue without ids in", given, stand.stored(), ordered=False)
    accept(figures, level="exact-unless-broker-crash")
    assert stand.waiting() == 0


@sized()
def test_outbound_messages_survive_kills_of_the_agent(stand: KilledGateway, kills: int, messages: int) -> None:
    stand.define("OUTBOUND", log_queue=LOG)
    given = stand.kill_often(kills, messages, enqueued(stand))
    accept(stand.figures("queue out", given, stand.drained()), level="exact-unless-broker-crash")


@sized()
@pytest.mark.parametrize("direction", ["INBOUND", "OUTBOUND"])
def test_crash_of_the_broker_loses_nothing(stand: KilledGateway, direction: str, kills: int, messages: int) -> None:
    """The level says so: a crash of the broker may double what it was told to forget or had half stored."""
    inbound = direction == "INBOUND"
    stand.define(direction, log_queue=LOG)
    stand.server.flush_declarations()
    put = numbered(stand, identified=False) if inbound else enqueued(stand)
    given = stand.kill_often(kills, messages, put, broker=max(2, kills // 10))
    found = stand.stored() if inbound else stand.drained()
    figures = stand.figures(f"{direction} with broker crashes", given, found)
    print(figures)
    assert figures.level == "exact-unless-broker-crash"
    assert not figures.lost, figures
