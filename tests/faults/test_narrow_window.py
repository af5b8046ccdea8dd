"""What a SIGKILL under full load repeats on jobs that are at-least-once: at most 1,000 messages at a time.

Batches have grown to their limit then, and the window is full.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from mgw.gateway.ledger.record import unpacked
from mgw.gateway.runtime.ends.link_destination import WINDOW_MESSAGES
from mgw.transforms.message import Message
from tests.support.brokers import Mosquitto, RabbitMQ
from tests.support.brokers.server import OwnedProcess
from tests.support.gateways import Gateway, gateway_on
from tests.support.rabbitmq_kills import KilledGateway, killed_gateway
from tests.support.waiting import eventually

KILLS = 4
MOVING = 1500  # messages after which batches are as large as they get
MORE = 8000  # messages that are put before each kill, so that more wait than can be carried in the meantime
MOMENT = 0.05  # seconds
AT_MOST = 1000


@pytest.fixture
def rng() -> random.Random:
    return random.Random(int(os.environ.get("MGW_FAULT_SEED") or 20261124))


@pytest.fixture
def killed(rabbitmq: RabbitMQ, tmp_path: Path) -> Iterator[KilledGateway]:
    with killed_gateway(rabbitmq, tmp_path) as gateway:
        yield gateway


def bodies(start: int) -> list[bytes]:
    return [b"%08d" % number + b"." * 250 for number in range(start, start + MORE)]


def planned(gateway: Gateway, job: str) -> int:
    """Messages that may have been sent and are not completed."""
    return sum(len(plan.ids) for plan in gateway.plans(job))


def consumed(killed: KilledGateway) -> Counter[bytes]:
    """Everything in the broker's queue."""
    came: Counter[bytes] = Counter()
    with killed.channel() as channel:
        waiting = channel.queue_declare(killed.queue, passive=True).method.message_count
        for _, _, body in channel.consume(killed.queue, auto_ack=True):
            came[body] += 1
            if came.total() == waiting:
                break
    return came


def carried(gateway: Gateway) -> int:
    with gateway.hub.read() as conn:
        return int(conn.execute(sa.text("SELECT propagated_total FROM gw_job_state")).scalar_one())


def killed_under_load(  # noqa: PLR0917
    gateway: Gateway,
    put: Callable[[list[bytes]], object],
    start: Callable[[], object],
    kill: Callable[[], object],
    repeated: Callable[[], int],
    rng: random.Random,
) -> tuple[list[bytes], list[int]]:
    """Kill the agent in the middle of its work, time and again: what was put, and what ``repeated`` says each time."""
    given: list[bytes] = []
    windows: list[int] = []
    for _ in range(KILLS):
        more = bodies(len(given))
        put(more)
        given += more
        before = carried(gateway)
        start()
        eventually(lambda before=before: carried(gateway) >= before + MOVING, deadline=120, what="full load")  # type: ignore[misc]
        time.sleep(rng.uniform(0, MOMENT))
        kill()
        windows.append(repeated())
    start()
    return given, windows


@pytest.mark.rabbitmq
def test_out_to_rabbitmq(killed: KilledGateway, rng: random.Random) -> None:
    gateway = killed.gateway
    killed.define("OUTBOUND", batch=30)
    given, windows = killed_under_load(
        gateway, killed.enqueue, killed.start, killed.stop, lambda: planned(gateway, killed.job), rng
    )
    eventually(lambda: gateway.browse("H") == [], deadline=120, what="everything carried")
    eventually(lambda: killed.state()["activity"] == "IDLE", what="rest")
    killed.stop()
    assert killed.state()["guarantee"] == "at-least-once"
    came = consumed(killed)
    assert set(came) == set(given)
    assert max(windows) <= AT_MOST == WINDOW_MESSAGES
    assert came.total() - len(given) <= sum(windows)
    assert sum(windows) > 0, "no kill came while messages were on their way"


@pytest.mark.rabbitmq
def test_into_the_hub_from_a_queue_without_a_log(killed: KilledGateway, rng: random.Random) -> None:
    gateway = killed.gateway
    killed.define("INBOUND", batch=30)
    total = [0]

    def put(more: list[bytes]) -> None:
        killed.publish([(body, None) for body in more])
        total[0] += len(more)

    def repeated() -> int:
        """Messages that are in the hub and in the queue, too."""
        with killed.channel() as channel:
            eventually(
                lambda: channel.queue_declare(killed.queue, passive=True).method.consumer_count == 0,
                what="the broker noticing the end of the connection",
            )
        return len(set(killed.stored())) + killed.waiting() - total[0]

    given, windows = killed_under_load(gateway, put, killed.start, killed.stop, repeated, rng)
    eventually(lambda: set(killed.stored()) == set(given), deadline=120, what="everything carried")
    assert killed.state()["guarantee"] == "at-least-once"
    assert min(windows) >= 0, "a message was lost"
    assert max(windows) <= AT_MOST
    assert len(killed.stored()) - len(given) <= sum(windows)


@pytest.mark.rabbitmq
def test_from_rabbitmq_to_rabbitmq(killed: KilledGateway, rng: random.Random) -> None:
    """The broker sends ahead more than the window holds: only what is on its way is repeated."""
    gateway = killed.gateway
    killed.define("INBOUND", batch=30)
    source, killed.queue = killed.queue, f"{killed.queue}-there"
    with killed.channel() as channel:
        channel.queue_declare(killed.queue, durable=True)
    gateway.admin.register_foreign_queue("THERE", "rmq", killed.queue)
    gateway.admin.remove_job(killed.job)
    gateway.admin.create_job(
        killed.job, "THROUGH", "F@rmq", "THERE@rmq", poll_interval=0.5, options={"MsgBatchSize": 30}
    )
    there = killed.queue

    def put(more: list[bytes]) -> None:
        killed.queue = source
        killed.publish([(body, None) for body in more])
        killed.queue = there

    def on_their_way() -> int:
        return sum(int(unpacked(plan.detail or b"{}")["messages"]) for plan in gateway.plans(killed.job))

    given, windows = killed_under_load(gateway, put, killed.start, killed.stop, on_their_way, rng)
    eventually(lambda: carried(gateway) >= len(given), deadline=120, what="everything carried")
    eventually(lambda: killed.state()["activity"] == "IDLE", what="rest")
    killed.stop()
    assert killed.state()["guarantee"] == "at-least-once"
    came = consumed(killed)
    assert set(came) == set(given)
    assert max(windows) <= AT_MOST
    assert came.total() - len(given) <= sum(windows)
    assert sum(windows) > 0, "no kill came while messages were on their way"


class _Topic:
    """Somebody else's client, which counts what is published to a topic."""

    def __init__(self, broker: Mosquitto, topic: str) -> None:
        self.came: Counter[bytes] = Counter()
        subscribed = threading.Event()
        self._client = client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
        client.on_message = self._take
        client.on_subscribe = lambda *_: subscribed.set()
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.ReceiveMaximum = 65535
        client.connect(broker.host, broker.port, properties=properties)
        client.loop_start()
        client.subscribe(topic, qos=1)
        assert subscribed.wait(20)

    def _take(self, _client: Client, _data: object, message: MQTTMessage) -> None:
        self.came[message.payload] += 1

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


@pytest.mark.mosquitto
def test_out_to_mqtt(tmp_path: Path, rng: random.Random) -> None:
    config = ("max_queued_messages 0", "max_inflight_messages 1000", "autosave_interval 1800")
    url = f"sqlite:///{tmp_path}/hub.db"
    process: list[OwnedProcess] = []

    def start() -> None:
        environment = os.environ | {"MGW_HUB": url}
        command = [sys.executable, "-m", "mgw.gateway", "run"]
        process.append(OwnedProcess(command, environment=environment, log=tmp_path / "agent.log", folder=tmp_path))

    def kill() -> None:
        if process:
            process.pop().kill()

    with Mosquitto(config=config) as broker, gateway_on(url) as gateway:
        gateway.queue("H")
        where = {"hostname": broker.host, "port": broker.port}
        gateway.admin.create_msgsystem_link("plant", "MQTT", where)
        gateway.admin.register_foreign_queue("T", "plant", "narrow/t")
        gateway.admin.create_job("J", "OUTBOUND", "H", "T@plant", poll_interval=0.5)
        topic = _Topic(broker, "narrow/t")
        try:
            given, windows = killed_under_load(
                gateway,
                lambda more: gateway.enqueue("H", [Message(body) for body in more]),
                start,
                kill,
                lambda: planned(gateway, "J"),
                rng,
            )
            eventually(lambda: set(topic.came) == set(given), deadline=120, what="everything carried")
            eventually(lambda: gateway.job("J")["ACTIVITY"] == "IDLE", what="rest")
        finally:
            kill()
            topic.close()
        assert gateway.job("J")["GUARANTEE"] == "at-least-once"
    assert max(windows) <= AT_MOST
    assert topic.came.total() - len(given) <= sum(windows)
    assert sum(windows) > 0, "no kill came while messages were on their way"
