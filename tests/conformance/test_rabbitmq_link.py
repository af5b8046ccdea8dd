"""The RabbitMQ link on a real broker: the suite of every link, and what is particular to RabbitMQ."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pika
import pytest

from mgw.links.contract import Domain, Endpoint, Link, LinkConfig
from mgw.links.rabbitmq.link import SPEC, RabbitLink, open_link
from tests.conformance.link_suite import LinkSuite, LinkTemplate, Pair, Wire, unique
from tests.support.brokers import RabbitMQ
from tests.support.ports import free_port
from tests.support.proxy import TcpProxy

pytestmark = pytest.mark.rabbitmq

#: Short enough that a test of a stalled broker ends soon; pika notices silence after up to two checks of 2 + 5 s.
IMPATIENT = {"AMQP_Heartbeat": "2", "AMQP_ConnectTimeout": "2", "AMQP_AnswerTimeout": "2", "AMQP_ConfirmTimeout": "3"}


class ProxyWire:
    """The suite's faults on a TCP proxy."""

    def __init__(self, proxy: TcpProxy) -> None:
        self._proxy = proxy

    def cut(self) -> None:
        self._proxy.cut()

    def stall(self) -> None:
        self._proxy.stall()

    def refuse(self) -> None:
        self._proxy.refuse()
        self._proxy.cut()

    def resume(self) -> None:
        self._proxy.resume()
        self._proxy.accept()


class RabbitTemplate(LinkTemplate):
    spec = SPEC
    message_id_header = "MGW_AMQP_messageId"
    patience = 18.0
    queue_type = "classic"

    def __init__(self, server: RabbitMQ) -> None:
        self.server = server
        self.connection = pika.BlockingConnection(pika.ConnectionParameters(server.host, server.port, heartbeat=0))
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()

    def config(self, **changes: object) -> LinkConfig:
        settings = {
            "name": "rmq",
            "type": "RABBITMQ",
            "attributes": {"hostname": self.server.host, "port": self.server.port},
            "username": self.server.username,
            "password": self.server.password,
            "client_name": "mgw-test",
        }
        return LinkConfig(**(settings | changes))  # type: ignore[arg-type]

    def link(self, **changes: object) -> RabbitLink:
        return open_link(self.config(**changes))

    def queue(self, **arguments: object) -> str:
        """A new queue."""
        name = unique("q")
        self.channel.queue_declare(name, durable=True, arguments={"x-queue-type": self.queue_type, **arguments})
        return name

    def pair(self) -> Pair:
        name = self.queue()
        return Pair(Endpoint("src", "rmq", name, Domain.QUEUE), Endpoint("dst", "rmq", name, Domain.QUEUE))

    def log_pair(self) -> Pair:
        name = unique("stream")
        self.channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
        return Pair(Endpoint("src", "rmq", name), Endpoint("dst", "rmq", name))

    def missing(self) -> Pair:
        name = unique("nowhere")
        return Pair(Endpoint("src", "rmq", name), Endpoint("dst", "rmq", name))

    def pattern(self) -> Endpoint:
        return Endpoint("all", "rmq", "amq.topic/plant.*.#", Domain.TOPIC)

    @contextmanager
    def disturbed(self) -> Iterator[tuple[Link, Wire]]:
        with TcpProxy(self.server.host, self.server.port) as proxy:
            attributes = {"hostname": proxy.host, "port": proxy.port}
            yield self.link(attributes=attributes, options=IMPATIENT), ProxyWire(proxy)

    def wrong_password(self) -> Link:
        return self.link(password="not-the-one")

    def wrong_port(self) -> Link:
        return self.link(attributes={"hostname": self.server.host, "port": free_port()})

    def foreign_publish(self, pair: Pair, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            target = ["--exchange", "", "--routing-key", pair.destination.provider_queue]
            subprocess.run(
                ["amqp-publish", "--url", self.server.url.rstrip("/"), *target, "--persistent"],
                input=body,
                check=True,
                timeout=20,
            )

    def foreign_read(self, pair: Pair, count: int) -> list[bytes]:
        command = ["amqp-get", "--url", self.server.url.rstrip("/"), "--queue", pair.source.provider_queue]
        return [subprocess.run(command, check=True, capture_output=True, timeout=20).stdout for _ in range(count)]

    def close(self) -> None:
        self.connection.close()


@pytest.fixture
def template(rabbitmq: RabbitMQ) -> Iterator[RabbitTemplate]:
    template = RabbitTemplate(rabbitmq)
    yield template
    template.close()


class TestRabbitLink(LinkSuite):
    """On classic queues."""
