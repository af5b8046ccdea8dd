"""Two jobs on one link, whose broker or its address is about to change, and what counts their messages."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from mgw.transforms.message import Message
from tests.faults.ends.kafka import KafkaFeed, KafkaOutlet
from tests.faults.ends.mqtt import MqttFeed, MqttOutlet
from tests.faults.ends.rabbitmq import RabbitFeed, RabbitOutlet, declare
from tests.faults.verdict import LANES, Numbered
from tests.support.brokers import Kafka, Mosquitto, RabbitMQ
from tests.support.gateways import Gateway
from tests.support.proxy import TcpProxy
from tests.support.waiting import eventually

__all__ = ["Arrivals", "Broker", "Flow", "Line", "Way", "address", "another_address"]

Broker = RabbitMQ | Kafka | Mosquitto

_LOG_QUEUE = {"x-queue-type": "classic", "x-max-length": 2}
_OUTLETS: Mapping[type, Any] = {RabbitMQ: RabbitOutlet, Kafka: KafkaOutlet, Mosquitto: MqttOutlet}
_FEEDS: Mapping[type, Any] = {RabbitMQ: RabbitFeed, Kafka: KafkaFeed, Mosquitto: MqttFeed}


class Line:
    """A queue of a broker, the hub, a queue of the same broker: two jobs on one link with its logs."""

    def __init__(self, gateway: Gateway, server: Broker, *, kind: str = "classic", start: str = "earliest") -> None:
        """``kind`` of the source queue at RabbitMQ; ``start``: where a job without positions begins to read Kafka."""
        self.kind = kind
        self.gateway = gateway
        self.name = name = f"a{uuid.uuid4().hex[:8]}"
        self.read, self.written = f"{name}_in", f"{name}_out"
        self.logs = logs = self.prepare(server)
        system = type(server).__name__.upper().replace("MOSQUITTO", "MQTT")
        where = {"username": server.username, "password": server.password} if system == "RABBITMQ" else {}
        gateway.admin.create_msgsystem_link("moving", system, address(server) | where, **logs)
        source = f"{name}_S/+" if system == "MQTT" else f"{name}_S"
        options = {"KAFKA_StartAt": start} if system == "KAFKA" else {}
        gateway.admin.register_foreign_queue("S", "moving", source, options=options)
        gateway.admin.register_foreign_queue("T", "moving", f"{name}_T")
        gateway.queue("H")
        gateway.admin.create_job(self.read, "INBOUND", "S@moving", "H", poll_interval=0.5)
        gateway.admin.create_job(self.written, "OUTBOUND", "H", "T@moving", poll_interval=0.5)

    def prepare(self, server: Broker) -> dict[str, Any]:
        """Queues, topics and logs of the line at a broker; the settings that name the logs."""
        for name in (f"{self.name}_S", f"{self.name}_T"):
            if isinstance(server, RabbitMQ):
                declare(server, name, {"x-queue-type": self.kind if name.endswith("S") else "classic"})
            elif isinstance(server, Kafka):
                server.create_topic(name, LANES)
        return self.prepare_logs(server, "sent")

    def prepare_logs(self, server: Broker, name: str) -> dict[str, Any]:
        """Logs at a broker; the settings that name them."""
        if isinstance(server, RabbitMQ):
            for log in (f"mgw.{name}.in.{self.read}", f"mgw.{name}.out.{self.written}"):
                declare(server, log, _LOG_QUEUE)
            return {"inbound_log_queue": f"mgw.{name}.in.{{job}}", "outbound_log_queue": f"mgw.{name}.out.{{job}}"}
        if isinstance(server, Kafka):
            server.create_topic(f"{self.name}_{name}", LANES, {"cleanup.policy": "compact"})
            return {"outbound_log_queue": f"{self.name}_{name}"}
        return {"outbound_log_queue": f"mgw/{name}/{{job}}"}

    def feed(self, server: Broker) -> Any:
        """What publishes to the source."""
        return _FEEDS[type(server)](server, f"{self.name}_S")

    def outlet(self, server: Broker) -> Any:
        """What takes everything from the target."""
        return _OUTLETS[type(server)](server, f"{self.name}_T")

    def move(self, where: Mapping[str, Any]) -> None:
        """Alter the link."""
        self.gateway.admin.alter_msgsystem_link("moving", where)

    def await_connected(self) -> None:
        """Wait until both jobs were connected once."""
        jobs = (self.read, self.written)
        eventually(
            lambda: all(self.gateway.job(job)["GUARANTEE"] for job in jobs), deadline=60, what="the first connection"
        )

    def carried(self, job: str) -> int:
        """Messages that a job has carried."""
        return int(self.gateway.job(job)["PROPAGATED_TOTAL"] or 0)

    def await_both(self, messages: int) -> None:
        """Wait until each job has carried so many more."""
        goals = {job: self.carried(job) + messages for job in (self.read, self.written)}

        def reached() -> bool:
            return all(self.carried(job) >= goal for job, goal in goals.items())

        eventually(reached, deadline=90, what=f"{messages} more messages by each job: {goals}, {self.trouble()}")

    def await_activations(self, count: int) -> None:
        """Wait until the job that reads was connected so often."""
        begin = f"job {self.read} activated"
        eventually(
            lambda: sum(text.startswith(begin) for text in self.gateway.events()) >= count,
            deadline=60,
            what=f"activation {count}: {self.trouble()}",
        )

    def send(self, numbers: Iterable[int]) -> None:
        """Put messages into the hub's queue."""
        self.gateway.enqueue("H", [Message(b"%d" % at) for at in numbers])

    def trouble(self) -> list[Any]:
        """What the jobs say last."""
        return [self.gateway.job(job)["LAST_ERROR_MSG"] for job in (self.read, self.written)]


def address(server: Broker) -> dict[str, Any]:
    """The attributes of a link that say where a broker is."""
    if isinstance(server, Kafka):
        return {"bootstrap_servers": server.bootstrap}
    more = {"virtual_host": server.vhost} if isinstance(server, RabbitMQ) else {}
    return {"hostname": server.host, "port": server.port} | more


class Way(NamedTuple):
    """Another address of a broker: what a link says of it, and the proxy behind it."""

    where: Mapping[str, Any]
    proxy: TcpProxy


@contextmanager
def another_address(server: Broker) -> Iterator[Way]:
    """The same broker, reached through a proxy."""
    if isinstance(server, Kafka):
        with server.proxy() as proxy:
            yield Way({"bootstrap_servers": server.proxied_bootstrap}, proxy)
        return
    with TcpProxy(server.host, server.port) as proxy:
        yield Way({"hostname": proxy.host, "port": proxy.port}, proxy)


class Flow:
    """Publishes to a feed on a thread until it is ended; ``published`` are the numbers that the broker has."""

    def __init__(self, feed: Any, start: int = 0) -> None:
        self.published: set[int] = set()
        self._feed, self._next = feed, start
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flow", daemon=True)

    def __enter__(self) -> Flow:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(60)
        self._feed.close()

    def _run(self) -> None:
        while not self._over.wait(0.02):
            numbers = range(self._next, self._next + 30)
            self._next = numbers.stop
            self.published |= self._feed.publish([Numbered(at, at % LANES, b"%d" % at, str(at)) for at in numbers])


class Arrivals:
    """How often each number came to any of the targets."""

    def __init__(self, *outlets: Any) -> None:
        self.numbers: Counter[int] = Counter()
        self._outlets = outlets

    def __enter__(self) -> Arrivals:
        return self

    def __exit__(self, *_: object) -> None:
        for outlet in self._outlets:
            outlet.close()

    def _collect(self) -> bool:
        copies = [copy for outlet in self._outlets for copy in outlet.collect()]
        self.numbers.update(int(copy.body) for copy in copies if not copy.repeated)
        return bool(copies)

    def complete(self, expected: Collection[int]) -> Counter[int]:
        """All that came, once all that is expected is there and nothing more comes."""

        def everything() -> bool:
            self._collect()
            return set(expected) <= self.numbers.keys()

        try:
            eventually(everything, deadline=90, what=f"{len(expected)} messages at the target")
        except AssertionError as error:
            missing = sorted(set(expected) - self.numbers.keys())
            raise AssertionError(f"{len(missing)} are missing: {missing[:20]}") from error
        while self._collect():
            pass
        return self.numbers
