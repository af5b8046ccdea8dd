"""A connection that died unnoticed must not let newer messages pass those that it keeps at the broker."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import pytest

from mgw.links.contract import Direction, Endpoint
from mgw.links.rabbitmq.source import RabbitSource
from mgw.transforms.errors import LinkError, LinkUnavailable
from tests.conformance.link_suite import unique, use_of
from tests.conformance.test_rabbitmq_link import RabbitTemplate
from tests.conformance.test_rabbitmq_logs import LOGS, Bench, Hub, carry, connected
from tests.support.brokers import RabbitMQ
from tests.support.proxy import TcpProxy
from tests.support.waiting import eventually

pytestmark = pytest.mark.rabbitmq

HEARTBEAT = 2  # seconds
NOTICED = 3 * HEARTBEAT + 3  # seconds until the broker has given a dead connection up
MESSAGES = 1500  # more than are sent ahead


@pytest.fixture
def bench(rabbitmq: RabbitMQ) -> Iterator[Bench]:
    template = RabbitTemplate(rabbitmq)
    yield Bench(template)
    template.close()


@contextmanager
def proxied(bench: Bench) -> Iterator[TcpProxy]:
    server = bench.template.server
    with TcpProxy(server.host, server.port) as proxy:
        yield proxy


def source_through(proxy: TcpProxy, bench: Bench, queue: str, *, heartbeat: int = HEARTBEAT, log: bool) -> RabbitSource:
    attributes = {"hostname": proxy.host, "port": proxy.port}
    options = {"AMQP_Heartbeat": str(heartbeat)}
    link = bench.template.link(attributes=attributes, options=options, **(LOGS if log else {}))
    source = link.source(bench.use(queue, logs=log))
    assert isinstance(source, RabbitSource)
    return source


def first_copies(hub: Hub) -> list[int]:
    return list(dict.fromkeys(int(body or b"") for body in hub.rows))


def read_all(source: RabbitSource, hub: Hub, count: int) -> None:
    source.connect(dict(hub.log))
    deadline = time.monotonic() + 20
    while len(first_copies(hub)) < count and time.monotonic() < deadline:
        batch = source.read(500, 0.5)
        hub.store(batch)
        source.settle(batch)


@pytest.mark.parametrize(
    "kinds", [pytest.param(("classic", "quorum"), id="plain"), pytest.param(("logged",), id="log-queue")]
)
def test_newer_messages_do_not_pass_those_that_a_dead_connection_keeps(bench: Bench, kinds: Sequence[str]) -> None:
    """The kinds lie side by side, since each has to wait."""
    with proxied(bench) as proxy:
        ways: list[tuple[RabbitSource, Hub]] = []
        for kind in kinds:
            bench.template.queue_type = "quorum" if kind == "quorum" else "classic"
            queue = bench.template.queue()
            bench.fill(queue, *(b"%d" % number for number in range(MESSAGES)))
            ways.append((source_through(proxy, bench, queue, log=kind == "logged"), Hub()))
        for source, hub in ways:
            source.connect({})
            carry(source, hub, 100)
        proxy.forsake()
        begun = time.monotonic()
        for source, _ in ways:
            with pytest.raises(LinkError):
                eventually(lambda source=source: source.read(1, 0.1) and False)
            source.close()
        readers = [threading.Thread(target=read_all, args=(*way, MESSAGES), daemon=True) for way in ways]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(40)
        took = time.monotonic() - begun
        for (source, hub), kind in zip(ways, kinds, strict=True):
            source.close()
            order = first_copies(hub)
            assert len(order) == MESSAGES, kind
            late = sum(after < before for before, after in pairwise(order))
            assert order == sorted(order), f"{kind}: {late} times an older message came behind a newer one"
        assert took < NOTICED + 10


def test_a_job_that_is_stopped_does_not_wait_for_the_connection_before(bench: Bench) -> None:
    queue = bench.template.queue()
    with proxied(bench) as proxy:
        source = source_through(proxy, bench, queue, heartbeat=60, log=False)
        source.connect({})
        proxy.forsake()
        source.close()
        refusals: list[LinkUnavailable] = []

        def connect() -> None:
            with pytest.raises(LinkUnavailable, match="still connected") as caught:
                source.connect({})
            refusals.append(caught.value)

        waiting = threading.Thread(target=connect, daemon=True)
        waiting.start()
        eventually(lambda: proxy.connections == 1)

        def stopped() -> bool:
            source.interrupt()
            waiting.join(0.05)
            return bool(refusals)

        eventually(stopped)  # it would wait for 30 s
        source.close()


def test_others_may_read_the_queue_as_well(bench: Bench) -> None:
    queue = bench.template.queue()
    bench.channel.basic_qos(prefetch_count=1)
    bench.channel.basic_consume(queue, lambda *_: None)
    bench.fill(queue, b"1", b"2")
    hub = Hub()
    with connected(bench.template.link().source(bench.use(queue, logs=False)), hub) as source:
        carry(source, hub, 1)
    assert hub.rows in ([b"1"], [b"2"])


def test_a_user_who_may_not_declare_the_lock_reads_and_the_note_says_what_it_costs(bench: Bench) -> None:
    server = bench.template.server
    server.ctl("add_user", (user := unique("reader")), "secret")
    server.ctl("set_permissions", user, "^$", "^$", ".*")
    poor = bench.template.link(username=user, password="secret")
    queue, alone = bench.template.queue(), bench.template.queue(**{"x-single-active-consumer": True})
    bench.fill(queue, b"1")
    use, hub = bench.use(queue, logs=False), Hub()
    with connected(poor.source(use), hub) as source:
        carry(source, hub, 1)
    report = poor.verify(use, Direction.INBOUND)
    assert "newer messages may overtake up to 1000 older ones" in report.note
    assert "mgw[.]lock[.]" in report.note
    assert poor.verify(use, Direction.INBOUND) == report

    rich = bench.template.link()
    assert "newer messages may overtake" not in rich.verify(use, Direction.INBOUND).note
    with connected(rich.source(use), Hub()):  # the lock is held
        assert "newer messages may overtake" not in bench.template.link().verify(use, Direction.INBOUND).note

    server.ctl("set_permissions", user, "^q", "^$", ".*")  # to tell the arguments of queues
    for endpoint in (Endpoint("f", "rmq", alone), Endpoint("f", "rmq", queue, options={"AMQP_Exclusive": "TRUE"})):
        assert "newer messages may overtake" not in poor.verify(use_of(endpoint), Direction.INBOUND).note


def test_no_lock_is_left_behind(bench: Bench) -> None:
    queue = bench.template.queue()
    use = bench.use(queue, logs=False)
    bench.template.link().verify(use, Direction.INBOUND)
    with connected(bench.template.link().source(use), Hub()) as source:
        assert isinstance(source, RabbitSource)
        name = source.fence.name
        assert name in bench.template.server.ctl("list_queues", "name")
    assert name not in bench.template.server.ctl("list_queues", "name")
