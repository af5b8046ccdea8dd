"""MQTT into the hub exactly once: a real Mosquitto, the real agent, and SIGKILL while messages move."""

from __future__ import annotations

import logging
import os
import random
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from mgw.links.contract import Batch, Direction, Endpoint, Guarantee, Link, LinkConfig
from mgw.links.mqtt.link import open_link
from mgw.links.mqtt.receiving_log import KEPT
from mgw.transforms.message import Message
from tests.conformance.link_suite import Pair, Reader, body_bytes, numbered, numbers, unique, use_of, writing
from tests.conformance.test_mqtt_link import mosquitto_pub
from tests.support.brokers import Mosquitto
from tests.support.brokers.server import OwnedProcess
from tests.support.gateways import Gateway, gateway_on
from tests.support.proxy import TcpProxy
from tests.support.waiting import eventually

pytestmark = pytest.mark.mosquitto

VERSIONS = pytest.mark.parametrize("version", [5, 4], ids=["5", "3.1.1"])


@pytest.fixture(scope="module")
def broker() -> Iterator[Mosquitto]:
    with Mosquitto(config=("autosave_on_changes false", "autosave_interval 1800")) as server:
        yield server


class KeepingReader(Reader):
    """Keeps marks too, as the hub does."""

    def settle(self, batch: Batch) -> None:
        for name, value in batch.marks:
            if value is None:
                self.positions.pop(name, None)
            else:
                self.positions[name] = value
        super().settle(batch)

    def commit_only(self, batch: Batch) -> None:
        """The hub has the batch, and then the process dies: nothing is acknowledged."""
        source, self.source = self.source, _Unsettled()  # type: ignore[assignment]
        self.settle(batch)
        self.source = source


class _Unsettled:
    def settle(self, batch: Batch) -> None:
        """Do nothing."""


def link_to(port: int, version: int = 5, options: dict[str, str] | None = None, **more: Any) -> Link:
    attributes = {"hostname": "127.0.0.1", "port": port, "protocol_version": version, **more}
    return open_link(LinkConfig("plant", "mqtt", attributes, options or {}))


def pair_of(topic: str, **options: str) -> Pair:
    return Pair(Endpoint("q", "plant", topic, None, options), Endpoint("q", "plant", topic, None))


# -- the source -----------------------------------------------------------------------------------------------------


@VERSIONS
def test_stored_messages_that_come_again_are_marked_as_duplicates(broker: Mosquitto, version: int) -> None:
    """Two equal bodies: one batch of them was stored, the next one was only read."""
    pair = pair_of(unique("again"))
    link = link_to(broker.port, version)
    reader = KeepingReader(link, use_of(pair.source)).connect()
    with writing(link, pair) as writer:
        writer.deliver(*[Message(b"same")] * 8)
    (stored,) = reader.batches(4, size=4, settle=False)
    reader.commit_only(stored)
    reader.batches(4, size=4, settle=False)
    reader.reconnect()
    again = reader.collect(8)
    assert [d.duplicate for d in again] == [True] * 4 + [False] * 4
    assert all(d.redelivered for d in again)
    reader.source.close()


def test_a_broker_that_is_slow_to_take_the_last_acknowledgements_is_waited_for(broker: Mosquitto) -> None:
    """At another address nothing else proves that they were stored."""
    use, end = use_of(pair_of(unique("slow")).source), b"end"
    pair = Pair(use.endpoint, use.endpoint)
    with TcpProxy(broker.host, broker.port) as proxy, writing(link_to(broker.port), pair) as writer:
        reader = KeepingReader(link_to(proxy.port), use).connect()
        writer.deliver(*[Message(b"%d" % number) for number in range(20)])
        batches = reader.batches(20, settle=False)
        proxy.stall(answers=False)
        for batch in batches:
            reader.settle(batch)
        resumed = threading.Timer(1.8, proxy.resume)
        resumed.start()
        reader.source.close()
        reader.source = link_to(broker.port).source(use)
        reader.connect()
        writer.deliver(Message(end))
        assert reader.bodies(1) == [end]
        reader.source.close()
        resumed.join()


@VERSIONS
def test_packet_ids_are_cyclic_and_an_equal_message_one_round_later_is_stored(broker: Mosquitto, version: int) -> None:
    """After 65,535 packet ids the same id and the same body come again, with the DUP flag: a new message."""
    topic = unique("round")
    pair = pair_of(topic)
    link = link_to(broker.port, version)
    reader = KeepingReader(link, use_of(pair.source, batch_size=2000)).connect()
    with writing(link, pair) as writer:
        for _ in range(65535 // 771):
            writer.deliver(*[Message(b"same")] * 771)
    first: list[str] = []
    for batch in reader.batches(65535, size=2000):
        first += [d.origin for d in batch.deliveries]
    assert [first[0], first[-1]] == [f"{topic}#1", f"{topic}#65535"]
    assert len(reader.positions) <= 2 + 2 * KEPT // 20 + 1
    with writing(link, pair) as writer:
        writer.deliver(*[Message(b"same")] * 5)
    reader.batches(5, settle=False)
    reader.reconnect()
    again = reader.collect(5)
    assert [d.origin for d in again] == first[:5]
    assert [(d.redelivered, d.duplicate) for d in again] == [(True, False)] * 5
    reader.source.close()


def test_message_expiry_does_not_change_the_digest(broker: Mosquitto) -> None:
    """The broker counts it down between the deliveries."""
    topic = unique("expiry")
    reader = KeepingReader(link_to(broker.port), use_of(pair_of(topic).source)).connect()
    expiring = ("-D", "publish", "message-expiry-interval", "100", "-D", "publish", "user-property", "a", "b")
    mosquitto_pub(broker.port, topic, b"x", *expiring, version=5)
    (batch,) = reader.batches(1, settle=False)
    reader.commit_only(batch)
    first = batch.deliveries[0].message.expiration
    reader.source.close()

    def again() -> bool:
        reader.reconnect()
        (delivery,) = reader.batches(1, settle=False)[0].deliveries
        assert delivery.duplicate
        assert first is not None
        assert delivery.message.expiration is not None
        return delivery.message.expiration < first

    eventually(again, what="an expiry that the broker counted down")
    reader.source.close()


@VERSIONS
def test_session_lost_while_the_process_was_down_is_told(
    broker: Mosquitto, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A new process knows from the hub that there was a session; what it stored from that one counts no more."""
    pair = pair_of(unique("gone"))
    link = link_to(broker.port, version)
    use = use_of(pair.source)
    reader = KeepingReader(link, use).connect()
    with writing(link, pair) as writer:
        writer.deliver(*[Message(b"same")] * 3)
        assert len(reader.collect(3)) == 3
        reader.source.close()
        link.forget(use, Direction.INBOUND)
        successor = link_to(broker.port, version)
        fresh = KeepingReader(successor, use)
        fresh.positions = reader.positions
        with caplog.at_level(logging.WARNING, "mgw.links.mqtt"):
            fresh.connect()
        assert "no longer has the session" in caplog.text
        writer.deliver(*[Message(b"same")] * 3)
        fresh.batches(3, settle=False)
        fresh.reconnect()  # the hub does not know of the loss yet
        again = fresh.collect(3)
    assert [(d.redelivered, d.duplicate) for d in again] == [(True, False)] * 3
    assert fresh.positions["session"].startswith("2:1:")
    note = successor.verify(use, Direction.INBOUND).note
    assert note.startswith("the broker lost the job's session")
    fresh.source.close()
    link.forget(use, Direction.INBOUND)
    last = KeepingReader(link, use).connect()
    assert not last.source.read(10, 0.2).deliveries, "forget removes the session of either client id"
    last.source.close()


@VERSIONS
def test_duplicates_are_known_after_a_clean_restart_of_the_broker(version: int) -> None:
    with Mosquitto() as own:
        pair = pair_of("t")
        link = link_to(own.port, version)
        reader = KeepingReader(link, use_of(pair.source)).connect()
        with writing(link, pair) as writer:
            writer.deliver(*[Message(b"same")] * 10)
        (stored,) = reader.batches(6, size=6, settle=False)
        reader.commit_only(stored)
        own.restart()
        reader.reconnect()
        assert [d.duplicate for d in reader.collect(10)] == [True] * 6 + [False] * 4
        reader.source.close()


# -- the promise ----------------------------------------------------------------------------------------------------


def test_promise_names_the_first_condition_that_fails(broker: Mosquitto) -> None:
    """A broker that does not show what it is stands for all others: here Mosquitto without $SYS."""

    def promise(port: int, topic: str = "t", options: dict[str, str] | None = None, **queue: str) -> tuple[str, str]:
        version = int(queue.pop("version", "5"))
        endpoint = pair_of(topic, **queue).source
        report = link_to(port, version, options).verify(use_of(endpoint), Direction.INBOUND)
        return report.level, report.note

    best = Guarantee.EXACT_UNLESS_BROKER_CRASH
    level, note = promise(broker.port)
    assert level == best
    assert note.startswith("a crash of the broker loses what came after it last saved its sessions")
    assert "autosave_interval" in note
    assert "max_queued_messages" in note
    level, note = promise(broker.port, version="4", MQTT_Retained="deliver")
    assert (level, "retained messages again" in note) == (Guarantee.AT_LEAST_ONCE, True)
    assert promise(broker.port, MQTT_Retained="deliver")[0] == best
    assert promise(broker.port, "$share/g/t")[0] == best
    assert promise(broker.port, MQTT_Qos="0")[0] == Guarantee.AT_MOST_ONCE
    with Mosquitto(config=("sys_interval 0",)) as other:
        level, note = promise(other.port)
        assert level == Guarantee.AT_LEAST_ONCE
        assert "$SYS/broker/version does not name Mosquitto" in note
        assert "MQTT_CyclicPacketIds" in note
        declared = {"MQTT_CyclicPacketIds": "TRUE"}
        assert promise(other.port, options=declared)[0] == best
        level, note = promise(other.port, "$share/g/t", declared)
        assert (level, "another member" in note) == (Guarantee.AT_LEAST_ONCE, True)


@VERSIONS
def test_nothing_is_suppressed_where_packet_ids_may_not_be_cyclic(version: int) -> None:
    with Mosquitto(config=("sys_interval 0",)) as other:
        pair = pair_of("t")
        link = link_to(other.port, version)
        reader = KeepingReader(link, use_of(pair.source)).connect()
        with writing(link, pair) as writer:
            writer.deliver(*numbered(5))
        for batch in reader.batches(5, settle=False):
            reader.commit_only(batch)
        assert reader.positions.keys() == {"held"}, "that there is a session, and nothing of its messages"
        reader.reconnect()
        again = reader.collect(5)
        assert [body_bytes(d.message) for d in again] == numbers(5)
        assert not any(d.duplicate for d in again)
        reader.source.close()


# -- the agent, killed ----------------------------------------------------------------------------------------------


class Agent:
    """``mgw run``, which may be killed and started again, behind a wire whose acknowledgements die with it."""

    def __init__(self, url: str, folder: Path, proxy: TcpProxy) -> None:
        self.kills = 0
        self._proxy = proxy
        self.log = folder / "agent.log"
        self._folder = folder
        self._environment = {**os.environ, "MGW_HUB": url}
        self._process: OwnedProcess | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "mgw.gateway", "run"]
        self._process = OwnedProcess(command, environment=self._environment, log=self.log, folder=self._folder)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._proxy.cut()
            self.kills += 1
            self._process = None

    def text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""


@contextmanager
def inbound_job(
    broker: Mosquitto, folder: Path, version: int, batch_size: int, delay: float
) -> Iterator[tuple[Gateway, Agent, str]]:
    """A job whose agent is ``delay`` seconds away from the broker, each way."""
    topic = unique("plant")
    with gateway_on(f"sqlite:///{folder}/hub.db") as gateway, TcpProxy(broker.host, broker.port) as proxy:
        proxy.delay(delay)
        gateway.queue("DATA")
        attributes = {"hostname": proxy.host, "port": proxy.port, "protocol_version": version}
        gateway.admin.create_msgsystem_link("plant", "mqtt", attributes)
        gateway.admin.register_foreign_queue("T", "plant", topic)
        agent = Agent(gateway.url, folder, proxy)
        try:
            gateway.admin.create_job("mq", "INBOUND", "T@plant", "DATA", options={"MsgBatchSize": batch_size})
            agent.start()
            eventually(lambda: gateway.job("mq")["ACTIVITY"] == "IDLE", deadline=60, what="job connected")
            yield gateway, agent, topic
        finally:
            agent.kill()


def arrived(gateway: Gateway) -> int:
    """Messages stored so far."""
    with gateway.hub.read() as conn:
        return int(conn.execute(sa.text("SELECT PROPAGATED_TOTAL FROM MGW_JOBS")).scalar_one())


def stored_bodies(gateway: Gateway) -> list[bytes]:
    """Bodies in the hub's queue in order."""
    found = gateway.browse("DATA")
    return [body_bytes(message) or b"" for message in found]


def kill_often(
    gateway: Gateway,
    agent: Agent,
    sent: list[bytes],
    rng: random.Random,
    stride: int,
    *,
    kills: int,
    more: Callable[[], list[bytes]],
) -> None:
    """SIGKILL the agent ``kills`` times, each time when it has stored 1 to ``stride`` more messages; then let it end.

    ``sent`` grows by what ``more`` publishes whenever the next kill could find nothing to do.
    """
    goal = agent.kills + kills
    while agent.kills < goal:
        stored = arrived(gateway)
        while len(sent) - stored < 2 * stride:
            sent += more()
        target = stored + rng.randint(1, stride)
        eventually(lambda goal=target: arrived(gateway) >= goal, deadline=180, what=agent.text()[-2000:])  # type: ignore[misc]
        agent.kill()
        agent.start()
    total = len(sent)
    eventually(lambda: arrived(gateway) >= total, deadline=300, what=f"{total} messages\n{agent.text()[-2000:]}")
    eventually(lambda: gateway.job("mq")["ACTIVITY"] == "IDLE", deadline=60, what="job idle")


def judge(gateway: Gateway, sent: list[bytes]) -> None:
    """Every message once, none altered, in the order they were published."""
    found = stored_bodies(gateway)
    counts, expected = Counter(found), Counter(sent)
    lost, doubled = expected - counts, counts - expected
    assert (sum(lost.values()), sum(doubled.values())) == (0, 0)
    assert found == sent


@pytest.mark.matrix  # the fault tests of every run kill such jobs at every step and at random
@VERSIONS
def test_equal_messages_arrive_exactly_once_however_often_the_agent_is_killed(
    broker: Mosquitto, tmp_path: Path, version: int
) -> None:
    rng = random.Random(version)
    sent: list[bytes] = []
    with inbound_job(broker, tmp_path, version, 10, delay=0.02) as (gateway, agent, topic):

        def more() -> list[bytes]:
            bodies = [rng.choice((b"a", b"b")) for _ in range(900)]
            publish(broker, topic, bodies)
            return bodies

        for _ in range(5):
            kill_often(gateway, agent, sent, rng, 300, kills=2, more=more)
            job = gateway.job("mq")
            assert job["GUARANTEE"] == "exact-unless-broker-crash"
            judge(gateway, sent)
            if job["SUPPRESSED_TOTAL"] > 0:
                break
        assert job["SUPPRESSED_TOTAL"] > 0, "no kill came between a commit and its acknowledgement"


def publish(broker: Mosquitto, topic: str, bodies: list[bytes]) -> None:
    """At QoS 1 with somebody else's client; returns when the broker has confirmed everything."""
    client = Client(CallbackAPIVersion.VERSION2)
    client.max_inflight_messages_set(1000)
    client.connect(broker.host, broker.port)
    client.loop_start()
    for begin in range(0, len(bodies), 10_000):  # the client holds 65,535 at most
        for confirmation in [client.publish(topic, body, qos=1) for body in bodies[begin : begin + 10_000]]:
            confirmation.wait_for_publish(60)
            assert confirmation.is_published()
    client.disconnect()
    client.loop_stop()


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("version", "count", "stride"), [(5, 70_000, 800), (4, 35_000, 120)], ids=["5", "3.1.1"])
def test_a_hundred_thousand_messages_and_two_hundred_kills(
    broker: Mosquitto, tmp_path: Path, version: int, count: int, stride: int
) -> None:
    """Also more messages than packet ids; half of them have one of two bodies, the others are all different."""
    kills = int(os.environ.get("MGW_KILLS") or 200)
    rng = random.Random(version)
    sent: list[bytes] = []
    with inbound_job(broker, tmp_path, version, 30, delay=0.005) as (gateway, agent, topic):

        def more(number: int = 20 * stride) -> list[bytes]:
            start = len(sent)
            bodies = [rng.choice((b"a", b"b", *[b"%d" % place] * 2)) for place in range(start, start + number)]
            publish(broker, topic, bodies)
            return bodies

        agent.kill()
        sent += more(count)
        agent.start()
        idle_kills = agent.kills
        kill_often(gateway, agent, sent, rng, stride, kills=kills, more=more)
        suppressed = gateway.job("mq")["SUPPRESSED_TOTAL"]
        judge(gateway, sent)
        done = agent.kills - idle_kills
    print(f"MQTT {version}: {done} kills, {len(sent)} messages, 0 lost, 0 doubled, {suppressed} suppressed")
    assert done >= kills
    assert len(sent) >= count
    assert suppressed > 0
