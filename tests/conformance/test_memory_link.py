"""The in-process broker passes the suite of every link."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from mgw.links.contract import Direction, Domain, Endpoint, Link, LinkConfig
from mgw.links.memory.link import SPEC, MemoryBroker, MemoryLink
from mgw.links.registry import open_link
from mgw.transforms.errors import DeliveryRejected, LinkUnavailable, PositionLost
from mgw.transforms.message import Header, Message, ValueType
from tests.conformance.link_suite import (
    LinkSuite,
    LinkTemplate,
    Pair,
    Wire,
    numbered,
    numbers,
    reading,
    unique,
    use_of,
    writing,
)


class MemoryWire:
    """Disturbs the broker itself."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker

    def cut(self) -> None:
        self._broker.cut()

    def stall(self) -> None:
        self._broker.stalled = True
        self._broker.wake()

    def refuse(self) -> None:
        self._broker.refuse_connections = True
        self._broker.cut()

    def resume(self) -> None:
        self._broker.refuse_connections = self._broker.stalled = False
        self._broker.wake()


class MemoryTemplate(LinkTemplate):
    spec = SPEC
    message_id_header = "MGW_MEMORY_messageId"
    patience = 3.0

    def __init__(self) -> None:
        self.broker = MemoryBroker.get(unique("broker"))

    def link(self) -> MemoryLink:
        return self._link()

    def _link(self, **settings: object) -> MemoryLink:
        config = LinkConfig("mem", "memory", {"broker": self.broker.name, **settings}, username="me", password="s3cret")
        link = open_link(config)
        assert isinstance(link, MemoryLink)
        return link

    def pair(self) -> Pair:
        name = unique("q")
        self.broker.queue(name)
        return self._pair(name)

    def _pair(self, name: str) -> Pair:
        return Pair(Endpoint("src", "mem", name), Endpoint("dst", "mem", name))

    def log_pair(self) -> Pair:
        name = unique("log")
        self.broker.log(name)
        return self._pair(name)

    def missing(self) -> Pair:
        return self._pair(unique("nowhere"))

    def pattern(self) -> Endpoint:
        return Endpoint("all", "mem", "plant.*", Domain.TOPIC)

    @contextmanager
    def disturbed(self) -> Iterator[tuple[Link, Wire]]:
        yield self._link(timeout=0.3), MemoryWire(self.broker)

    def wrong_password(self) -> Link:
        self.broker.users = {"me": "other"}
        return self.link()

    def wrong_port(self) -> Link:
        self.broker.refuse_connections = True
        return self.link()

    def foreign_publish(self, pair: Pair, bodies: Sequence[bytes]) -> None:
        self.broker.put(pair.destination.provider_queue, *(Message(body) for body in bodies))

    def foreign_read(self, pair: Pair, count: int) -> list[bytes]:
        found = [message.body for message in self.broker.queue(pair.source.provider_queue).messages[:count]]
        return [body.encode() if isinstance(body, str) else body for body in found if isinstance(body, str | bytes)]

    def foreign_long_header(self, pair: Pair, name: str, body: bytes) -> bool:
        message = Message(body, headers=(Header(name, ValueType.TEXT, "v"),))
        self.broker.put(pair.destination.provider_queue, message)
        return True

    def close(self) -> None:
        MemoryBroker.drop(self.broker.name)


@pytest.fixture
def template() -> Iterator[MemoryTemplate]:
    template = MemoryTemplate()
    yield template
    template.close()


class TestMemoryLink(LinkSuite):
    def test_full_queue_refuses_the_whole_batch(self, template: MemoryTemplate) -> None:
        pair = template.pair()
        template.broker.queue(pair.source.provider_queue, max_length=5)
        with writing(template.link(), pair) as writer:
            writer.deliver(*numbered(4))
            with pytest.raises(DeliveryRejected, match="at most 5"):
                writer.send(*numbered(2))
        assert len(template.broker.queue(pair.source.provider_queue).messages) == 4

    def test_fault_is_raised_once_by_the_named_operation(self, template: MemoryTemplate) -> None:
        pair = template.pair()
        with writing(template.link(), pair) as writer:
            template.broker.fail_next("publish", LinkUnavailable("no"))
            with pytest.raises(LinkUnavailable, match="no"):
                writer.send(Message(b"x"))
            assert template.broker.queue(pair.source.provider_queue).messages == []
            writer.deliver(Message(b"x"))

    def test_unknown_outcome_is_stored_and_not_confirmed(self, template: MemoryTemplate) -> None:
        pair = template.pair()
        with writing(template.link(), pair) as writer:
            template.broker.fail_next("confirm", LinkUnavailable("gone"))
            writer.send(Message(b"x"))
            with pytest.raises(LinkUnavailable):
                writer.confirm()
        assert len(template.broker.queue(pair.source.provider_queue).messages) == 1

    def test_topic_job_collects_while_disconnected_until_it_is_forgotten(self, template: MemoryTemplate) -> None:
        link = template.link()
        template.broker.topic("plant.a")
        pair = Pair(Endpoint("t", "mem", "plant.*", Domain.TOPIC), Endpoint("a", "mem", "plant.a", Domain.TOPIC))
        use = use_of(pair.source)
        link.verify(use, Direction.INBOUND)
        with writing(link, pair) as writer:
            writer.deliver(*numbered(3))
        with reading(link, pair, job=use.job) as reader:
            assert reader.bodies(3) == numbers(3)
        assert template.broker.subscriptions == [f"MGW_{use.job}"]
        link.forget(use, Direction.INBOUND)
        assert template.broker.subscriptions == []

    def test_log_position_below_retention_is_lost(self, template: MemoryTemplate) -> None:
        pair = template.log_pair()
        link = template.link()
        with writing(link, pair) as writer:
            writer.deliver(*numbered(10))
        template.broker.log(pair.source.provider_queue).discard_before(5)
        source = link.source(use_of(pair.source))
        with pytest.raises(PositionLost, match="holds 5 to 9"):
            source.connect({"0": "2"})
        source.connect({"0": "4"})
        assert [delivery.origin for delivery in source.read(1, 0).deliveries] == [f"{pair.source.provider_queue}@5"]
        source.close()
