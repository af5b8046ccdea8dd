"""At defaults the batches of a job follow what waits: up to max_batch_size under load, single messages when idle."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pika
import pytest
import sqlalchemy as sa
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from mgw.gateway.definitions.objects import DEFAULT_BATCH_LIMIT, DEFAULT_BATCH_SIZE
from mgw.gateway.runtime.ends.hub_source import HubSource
from mgw.links.contract import BATCH_BYTES
from mgw.transforms.errors import AdminError
from mgw.transforms.message import Message
from tests.support.brokers import RabbitMQ
from tests.support.gateways import Gateway, gateway_on
from tests.support.kafka_clients import KafkaProducer
from tests.support.waiting import eventually

COUNT = 4000
BODIES = [b"%06d" % number + b"." * 250 for number in range(COUNT)]
PLACES = [
    pytest.param("rabbitmq", marks=pytest.mark.rabbitmq),
    pytest.param("kafka", marks=pytest.mark.kafka),
    pytest.param("mosquitto", marks=pytest.mark.mosquitto),
]


class Place:
    """Two queues or topics of a broker, as links of a gateway: IN is filled, OUT is written."""

    def __init__(self, gateway: Gateway, broker: Any, kind: str) -> None:
        self.gateway = gateway
        self.kind = kind
        self.broker = broker
        self.name = f"sizing/{uuid.uuid4().hex}".replace("/", "." if kind == "kafka" else "/")
        given: dict[str, Any] = {}
        place = {"hostname": getattr(broker, "host", ""), "port": getattr(broker, "port", 0)}
        if kind == "rabbitmq":
            given = {"username": broker.username, "password": broker.password}
            place["virtual_host"] = broker.vhost
            with self._channel() as channel:
                for end in ("in", "out"):
                    channel.queue_declare(f"{self.name}/{end}", durable=True)
        elif kind == "kafka":
            place = {"bootstrap_servers": broker.bootstrap}
            for end in ("in", "out"):
                broker.create_topic(f"{self.name}.{end}", 2)
        gateway.admin.create_msgsystem_link("there", "MQTT" if kind == "mosquitto" else kind.upper(), place, **given)
        options = {"KAFKA_StartAt": "earliest"} if kind == "kafka" else {}
        slash = "." if kind == "kafka" else "/"
        gateway.admin.register_foreign_queue("IN", "there", f"{self.name}{slash}in", options=options)
        gateway.admin.register_foreign_queue("OUT", "there", f"{self.name}{slash}out")

    def _channel(self) -> Any:
        return _Channel(self.broker)

    def publish(self, bodies: list[bytes]) -> None:
        """Fill IN."""
        if self.kind == "rabbitmq":
            with self._channel() as channel:
                channel.tx_select()
                for body in bodies:
                    channel.basic_publish("", f"{self.name}/in", body, pika.BasicProperties(delivery_mode=2))
                channel.tx_commit()
        elif self.kind == "kafka":
            producer = KafkaProducer(bootstrap_servers=self.broker.bootstrap, acks="all", linger_ms=5)
            for body in bodies:
                producer.send(f"{self.name}.in", body)
            producer.flush()
            producer.close()
        else:
            client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
            client.connect(self.broker.host, self.broker.port)
            client.loop_start()
            for told in [client.publish(f"{self.name}/in", body, qos=1) for body in bodies]:
                told.wait_for_publish(60)
            client.disconnect()
            client.loop_stop()

    def deliver(self, stored: int) -> None:
        """With so many messages stored, wait until RabbitMQ has delivered as many more as a consumer may hold."""
        if self.kind == "rabbitmq":
            most = max(0, COUNT - stored - 2 * DEFAULT_BATCH_LIMIT)
            with self._channel() as channel:
                declare = functools.partial(channel.queue_declare, f"{self.name}/in", passive=True)
                eventually(lambda: declare().method.message_count <= most, what="messages delivered")


class _Channel:
    def __init__(self, broker: RabbitMQ) -> None:
        self._connection = pika.BlockingConnection(pika.URLParameters(broker.url))

    def __enter__(self) -> Any:
        return self._connection.channel()

    def __exit__(self, *_: object) -> None:
        self._connection.close()


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        gateway.queue("H")
        yield gateway


@pytest.fixture
def place(request: pytest.FixtureRequest, gateway: Gateway) -> Place:
    return Place(gateway, request.getfixturevalue(request.param), request.param)


def batches(gateway: Gateway, job: str) -> list[int]:
    """Messages in each batch of a job, in order, as the ledger has them."""
    with gateway.hub.read() as conn:
        query = (
            "SELECT l.messages FROM gw_ledger l JOIN gw_job j ON j.id = l.job_id WHERE j.name = :job "
            "AND l.kind IN ('RECEIVED', 'COMPLETED') AND l.messages > 0 ORDER BY l.number"
        )
        return [int(row[0]) for row in conn.execute(sa.text(query), {"job": job})]


def moved(gateway: Gateway, job: str, count: int) -> Callable[[], bool]:
    return lambda: gateway.job(job)["PROPAGATED_TOTAL"] >= count


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_out_of_a_full_queue_batches_grow_to_the_limit(gateway: Gateway, place: Place) -> None:
    gateway.enqueue("H", [Message(body) for body in BODIES])
    gateway.admin.create_job("out", "OUTBOUND", "H", "OUT@there")
    with gateway.run():
        eventually(moved(gateway, "out", COUNT), what="everything carried", deadline=60)
    sizes = batches(gateway, "out")
    assert sizes[0] == DEFAULT_BATCH_SIZE
    assert max(sizes) == DEFAULT_BATCH_LIMIT
    assert len(sizes) < COUNT / DEFAULT_BATCH_SIZE / 3
    assert sum(sizes) == COUNT


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_into_the_hub_batches_grow_to_the_limit(gateway: Gateway, place: Place) -> None:
    gateway.admin.create_job("in", "INBOUND", "IN@there", "H")
    with gateway.run():
        eventually(lambda: gateway.job("in")["ACTIVITY"] == "IDLE", what="connected")
        with gateway.hub.write():  # nothing can be stored meanwhile
            place.publish(BODIES)
        # A broker on a busy machine delivers less than a batch between two batches: let it deliver all it may.
        while (before := gateway.job("in")["PROPAGATED_TOTAL"]) < COUNT:
            with gateway.hub.write():
                place.deliver(gateway.job("in")["PROPAGATED_TOTAL"])
            eventually(moved(gateway, "in", before + 1), what="more carried", deadline=60)
    sizes = batches(gateway, "in")
    assert sizes[0] <= DEFAULT_BATCH_SIZE
    assert max(sizes) == DEFAULT_BATCH_LIMIT
    assert len(sizes) < COUNT / DEFAULT_BATCH_SIZE / 3
    assert sum(sizes) == COUNT


@pytest.mark.parametrize("place", PLACES[:1], indirect=True)
def test_what_is_planned_as_it_comes_counts_too(gateway: Gateway, place: Place) -> None:
    """A job that waits has messages planned in the transaction that brings them."""
    gateway.admin.create_job("in", "INBOUND", "IN@there", "H")
    gateway.admin.create_job("out", "OUTBOUND", "H", "OUT@there")
    with gateway.run():
        eventually(lambda: gateway.job("out")["ACTIVITY"] == "IDLE", what="connected")
        place.publish(BODIES)
        eventually(moved(gateway, "out", COUNT), what="everything carried", deadline=60)
    sizes = batches(gateway, "out")
    assert max(sizes) > DEFAULT_BATCH_SIZE
    assert sum(sizes) == COUNT


@pytest.mark.parametrize("place", PLACES[:1], indirect=True)
def test_single_messages_are_carried_in_batches_of_one(gateway: Gateway, place: Place) -> None:
    gateway.admin.create_job("in", "INBOUND", "IN@there", "H")
    gateway.admin.create_job("out", "OUTBOUND", "H", "OUT@there")
    with gateway.run():
        for number in range(5):
            place.publish([b"%d" % number])
            eventually(moved(gateway, "out", number + 1), what=f"message {number}")
    assert batches(gateway, "in") == batches(gateway, "out") == [1] * 5


@pytest.mark.parametrize("place", PLACES[:1], indirect=True)
def test_a_limit_that_is_the_batch_size_keeps_batches_as_they_are(gateway: Gateway, place: Place) -> None:
    options = {"MsgBatchSize": 20, "max_batch_size": 20}
    place.publish(BODIES[:500])
    gateway.admin.create_job("in", "INBOUND", "IN@there", "H", options=options)
    gateway.admin.create_job("out", "OUTBOUND", "H", "OUT@there", options=options)
    with gateway.run():
        eventually(moved(gateway, "out", 500), what="everything carried", deadline=60)
    assert max(batches(gateway, "in")) == max(batches(gateway, "out")) == 20


@pytest.mark.parametrize("place", PLACES[:1], indirect=True)
def test_heavy_messages_do_not_make_batches_that_fill_the_memory(gateway: Gateway, place: Place) -> None:
    each = 100_000
    gateway.enqueue("H", [Message(bytes(each))] * 300)
    gateway.admin.create_job("out", "OUTBOUND", "H", "OUT@there")
    with gateway.run():
        eventually(moved(gateway, "out", 300), what="everything carried", deadline=60)
    assert DEFAULT_BATCH_SIZE < max(batches(gateway, "out")) <= BATCH_BYTES // each


@pytest.mark.parametrize("place", PLACES[:1], indirect=True)
@pytest.mark.parametrize("light", [1300, 2600, 4000])
def test_heavy_messages_behind_light_ones_are_not_claimed_by_thousands(
    gateway: Gateway, place: Place, light: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bodies are in memory once claimed, and the weight of the last batch says nothing of the next one."""
    each, most, claimed = 10_000, 6_000_000, list[int]()
    monkeypatch.setattr("mgw.gateway.runtime.ends.hub_source.WINDOW_BYTES", most)
    real = HubSource._claimed

    def noted(self: HubSource, *arguments: Any, **more: Any) -> list[Any]:
        found = real(self, *arguments, **more)
        claimed.append(sum(len(entry.message.body or b"") for entry in found))
        return found

    monkeypatch.setattr(HubSource, "_claimed", noted)
    gateway.enqueue("H", [Message(b"light")] * light + [Message(bytes(each))] * 2000)
    gateway.admin.create_job("out", "OUTBOUND", "H", "OUT@there")
    with gateway.run():
        eventually(moved(gateway, "out", light + 2000), what="everything carried", deadline=60)
    assert 0 < max(claimed) <= most


def test_a_limit_below_the_batch_size_is_refused(gateway: Gateway) -> None:
    gateway.queue("K")
    options = {"MsgBatchSize": 50, "max_batch_size": 49}
    said = r"ORA-32841: job loc: max_batch_size cannot be 49; .*MsgBatchSize is 50.*at least 50"
    with pytest.raises(AdminError, match=said):
        gateway.admin.create_job("loc", "LOCAL", "H", "K", options=options)
    gateway.admin.create_job("loc", "LOCAL", "H", "K", options={"max_batch_size": 40})
    with pytest.raises(AdminError, match=r"ORA-32841: .*max_batch_size cannot be 40"):
        gateway.admin.alter_job("loc", options={"MsgBatchSize": 41})
    gateway.admin.alter_job("loc", options={"MsgBatchSize": 40})
    with pytest.raises(AdminError, match="ORA-32841"):
        gateway.admin.alter_job("loc", options={"max_batch_size": 10001})
    job = gateway.admin.get_job("loc")
    assert job is not None
    assert (job.batch_size, job.batch_limit) == (40, 40)


@pytest.mark.parametrize(
    ("options", "size", "limit"),
    [({}, 30, 500), ({"MsgBatchSize": 800}, 800, 800), ({"max_batch_size": 2000}, 30, 2000)],
)
def test_the_limit_is_the_default_or_the_batch_size_if_that_is_more(
    gateway: Gateway, options: Mapping[str, int], size: int, limit: int
) -> None:
    gateway.queue("K")
    job = gateway.admin.create_job("loc", "LOCAL", "H", "K", options=options)
    assert (job.batch_size, job.batch_limit) == (size, limit)


def test_between_two_queues_of_the_hub_batches_grow_too(gateway: Gateway) -> None:
    gateway.queue("K")
    gateway.enqueue("H", [Message(body) for body in BODIES])
    gateway.admin.create_job("loc", "LOCAL", "H", "K")
    with gateway.run():
        eventually(moved(gateway, "loc", COUNT), what="everything carried", deadline=60)
    assert max(batches(gateway, "loc")) == DEFAULT_BATCH_LIMIT
