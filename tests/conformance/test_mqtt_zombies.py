"""MQTT jobs whose other side is not what they left: lost sessions, restored hubs, others with our client id."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from mgw.links.contract import Direction, Endpoint, JobUse, Link
from mgw.links.mqtt.connection import client_id_of
from mgw.links.registry import open_link
from mgw.transforms.message import Message
from tests.conformance.link_suite import unique, use_of
from tests.conformance.test_mqtt_echo_kills import Stage, stage_on
from tests.conformance.test_mqtt_exactly_once import KeepingReader, link_to, pair_of
from tests.conformance.test_mqtt_link import mosquitto_pub
from tests.support.brokers import Mosquitto
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually

pytestmark = pytest.mark.mosquitto


@pytest.fixture(scope="module")
def broker() -> Iterator[Mosquitto]:
    config = ("autosave_on_changes false", "autosave_interval 1800", "log_type all")
    with Mosquitto(config=config) as own:
        yield own


# -- outbound, with a sending log -----------------------------------------------------------------------------------


@pytest.fixture
def stage(broker: Mosquitto, tmp_path: Path) -> Iterator[Stage]:
    with stage_on(broker, tmp_path) as made:
        yield made


def carry(stage: Stage, count: int) -> None:
    """Messages through an agent inside the test."""
    stage.put([b"%d" % number for number in range(len(stage.sent), len(stage.sent) + count)])
    with stage.gateway.run():
        eventually(lambda: stage.carried() >= len(stage.sent), what="all carried")
        eventually(lambda: not stage.gateway.plans("J"), what="all completed")
    eventually(lambda: len(stage.subscriber.found) >= len(stage.sent), what="all handed out")


def link_and_use(stage: Stage) -> tuple[Link, JobUse]:
    """The job's own link and use, to speak to the broker in its name."""
    definition = stage.gateway.admin.get_link("plant")
    assert definition is not None
    endpoint = Endpoint("T", "plant", stage.topic)
    return open_link(definition.config()), use_of(endpoint, job="J", hub_id=stage.gateway.hub.hub_id.hex())


def refused(stage: Stage, number: int) -> None:
    """The job ends FAILED with that error and sends nothing."""
    before = list(stage.subscriber.found)
    stage.gateway.enqueue("H", [Message(b"after")])
    with stage.gateway.run():
        eventually(lambda: stage.gateway.job("J")["STATUS"] == "FAILED", what="a job that gave up")
        assert f"[{number}]" in stage.gateway.job("J")["LAST_ERROR_MSG"]
    assert [message.body for message in stage.gateway.browse("H")] == [b"after"]
    assert stage.subscriber.found == before


def goes_on(stage: Stage) -> None:
    """After the operator has decided."""
    gateway = stage.gateway
    with gateway.run():
        # the agent tries once more when it starts, and fails once more
        eventually(lambda: gateway.job("J")["STATUS"] == "FAILED", what="a job that gave up")
        gateway.admin.cleanup_gateway("RESET_SUB_MISSING_LOG_REC", "J")
        eventually(lambda: stage.subscriber.found[-1:] == [b"after"], what="the job going on")
    assert stage.subscriber.found.count(b"after") == 1


def test_lost_echo_stops_the_job_before_anything_is_sent(stage: Stage) -> None:
    carry(stage, 100)
    link, use = link_and_use(stage)
    link.forget(use, Direction.OUTBOUND)
    refused(stage, 417)
    assert stage.subscriber.found == stage.sent
    goes_on(stage)


def test_echo_read_by_somebody_else_stops_the_job_before_anything_is_sent(stage: Stage) -> None:
    """Another client with the id of the echo acknowledges what is in it."""
    carry(stage, 100)
    link, use = link_and_use(stage)
    echo = link._echo(use, link._outbound(use))  # type: ignore[attr-defined]
    with client(stage.broker, echo.client_id) as taken:
        eventually(lambda: len(taken) >= 1, what="the record")
    refused(stage, 417)
    goes_on(stage)


def test_restored_hub_behind_its_echo_stops_the_job_before_anything_is_sent(stage: Stage, tmp_path: Path) -> None:
    carry(stage, 100)
    saved = saved_hub(stage, tmp_path)
    carry(stage, 100)
    restore_hub(stage, tmp_path, saved)
    refused(stage, 416)
    assert stage.subscriber.found == stage.sent
    goes_on(stage)


def test_restored_hub_sends_new_messages_that_have_the_ids_of_lost_ones(stage: Stage, tmp_path: Path) -> None:
    """A batch of the time after the backup is at the broker without its record; the ids in it are given again."""
    carry(stage, 100)
    saved = saved_hub(stage, tmp_path)
    lost = [b"lost with the hub %d" % number for number in range(10)]
    old = stage.gateway.enqueue("H", [Message(body) for body in lost])
    link, use = link_and_use(stage)
    destination = link.destination(use)
    destination.connect()
    destination.publish(1000, [destination.encode(message) for message in stage.gateway.browse("H")])
    eventually(lambda: stage.subscriber.found[100:] == lost, what="the messages at the broker")
    destination.close()
    restore_hub(stage, tmp_path, saved)
    bodies = [b"%d" % number for number in range(10)]
    assert stage.gateway.enqueue("H", [Message(body) for body in bodies]) == old
    with stage.gateway.run():
        eventually(lambda: stage.carried() >= 110 and not stage.gateway.plans("J"), what="all completed")
    eventually(lambda: len(stage.subscriber.found) >= 120, what="all handed out")
    assert stage.subscriber.found[110:] == bodies


def saved_hub(stage: Stage, folder: Path) -> dict[Path, bytes]:
    """A backup."""
    stage.gateway.close()
    saved = {path: path.read_bytes() for path in folder.glob("hub.db*")}
    stage.gateway = Gateway(stage.url)
    return saved


def restore_hub(stage: Stage, folder: Path, saved: dict[Path, bytes]) -> None:
    """Put a backup back."""
    stage.gateway.close()
    for path in folder.glob("hub.db*"):
        path.unlink()
    for path, content in saved.items():
        path.write_bytes(content)
    stage.gateway = Gateway(stage.url)


def test_second_process_with_the_same_publisher_id_neither_loses_nor_doubles(stage: Stage) -> None:
    """The agent is thrown out again and again by another client with its id, and comes back each time."""
    link, use = link_and_use(stage)
    identity: str = link._client_id(use, "out")  # type: ignore[attr-defined]
    with stage.gateway.run():
        for _ in range(5):
            stage.put([b"%d" % number for number in range(len(stage.sent), len(stage.sent) + 300)])
            eventually(lambda: stage.carried() >= len(stage.sent) - 250, deadline=60, what="messages moving")
            with client(stage.broker, identity):
                pass
        eventually(lambda: stage.carried() >= len(stage.sent), deadline=120, what="all carried")
    eventually(lambda: len(stage.subscriber.found) >= len(stage.sent), what="all handed out")
    assert stage.subscriber.found == stage.sent


# -- inbound --------------------------------------------------------------------------------------------------------


@contextmanager
def client(broker: Mosquitto, identity: str) -> Iterator[list[bytes]]:
    """Somebody else's client with an id of ours; acknowledges what it gets."""
    found: list[bytes] = []
    other = Client(CallbackAPIVersion.VERSION2, identity, protocol=MQTTProtocolVersion.MQTTv5)
    other.on_message = lambda _client, _data, message: found.append(message.payload)
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    properties.SessionExpiryInterval = 3600
    connected: list[Any] = []
    other.on_connect = lambda *args: connected.append(args)
    other.connect(broker.host, broker.port, clean_start=False, properties=properties)
    other.loop_start()
    try:
        eventually(lambda: connected, what="the other client connected")
        yield found
    finally:
        other.disconnect()
        other.loop_stop()


@contextmanager
def inbound(broker: Mosquitto, folder: Path) -> Iterator[tuple[Gateway, str, str]]:
    """A job that reads a topic; gateway, topic and client id."""
    topic = unique("in")
    with gateway_on(f"sqlite:///{folder}/hub.db") as gateway:
        gateway.queue("DATA")
        where = {"hostname": broker.host, "port": broker.port}
        gateway.admin.create_msgsystem_link("plant", "mqtt", where)
        gateway.admin.register_foreign_queue("T", "plant", topic)
        gateway.admin.create_job("mq", "INBOUND", "T@plant", "DATA")
        link = link_to(broker.port)
        identity = client_id_of(link._settings, "mq", gateway.hub.hub_id.hex(), "in", topic)  # type: ignore[attr-defined]
        yield gateway, topic, identity


def stored(gateway: Gateway) -> list[Any]:
    return [message.body for message in gateway.browse("DATA")]


def ready(gateway: Gateway) -> None:
    def idle() -> bool:
        return bool(gateway.job("mq")["ACTIVITY"] == "IDLE" and gateway.job("mq")["STATUS"] == "READY")

    eventually(idle, deadline=60, what="the job being connected")


def test_session_lost_at_the_broker_shows_in_the_guarantee_and_the_job_goes_on(
    broker: Mosquitto, tmp_path: Path
) -> None:
    with inbound(broker, tmp_path) as (gateway, topic, identity):
        with gateway.run():
            ready(gateway)
            mosquitto_pub(broker.port, topic, b"1")
            eventually(lambda: stored(gateway) == [b"1"], what="the first message")
        remove = Client(CallbackAPIVersion.VERSION2, identity, protocol=MQTTProtocolVersion.MQTTv5)
        remove.connect(broker.host, broker.port, clean_start=True)
        remove.loop_start()
        eventually(remove.is_connected, what="the session begun anew")
        remove.disconnect()
        remove.loop_stop()
        mosquitto_pub(broker.port, topic, b"lost with the session")
        with gateway.run():
            ready(gateway)
            mosquitto_pub(broker.port, topic, b"2")
            eventually(lambda: stored(gateway) == [b"1", b"2"], what="the job going on")
            note = "the broker lost the job's session"

            def told() -> bool:
                return bool(note in (gateway.job("mq")["GUARANTEE_NOTE"] or ""))

            remake(gateway, broker, identity)
            eventually(told, deadline=60, what="the note")


def remake(gateway: Gateway, broker: Mosquitto, identity: str) -> None:
    """Make the job connect again: its conditions are looked at then."""
    gateway.admin.disable_job("mq")
    eventually(lambda: gateway.job("mq")["ACTIVITY"] == "STOPPED", what="the job stopped")
    gateway.admin.enable_job("mq")


def test_messages_taken_behind_the_agents_back_are_told(broker: Mosquitto, tmp_path: Path) -> None:
    """A second subscriber with our client id: the job says so, comes back, and doubles nothing."""
    with inbound(broker, tmp_path) as (gateway, topic, identity), gateway.run():
        ready(gateway)
        mosquitto_pub(broker.port, topic, b"1")
        eventually(lambda: stored(gateway) == [b"1"], what="the first message")
        acknowledged = f"Received PUBACK from {identity} "
        eventually(lambda: acknowledged in broker.log.read_text(errors="replace"), what="the acknowledgement")
        with client(broker, identity) as taken:

            def told() -> bool:
                return f"a second client with the id {identity}" in (gateway.job("mq")["LAST_ERROR_MSG"] or "")

            eventually(told, deadline=60, what="the error")
        ready(gateway)
        mosquitto_pub(broker.port, topic, b"2")
        eventually(lambda: b"2" in stored(gateway), what="the job going on")
        assert stored(gateway) == [b"1", b"2"]
        assert taken == []


def test_restored_hub_stores_again_what_comes_again(broker: Mosquitto) -> None:
    """Messages of the time after the backup that were not acknowledged are new to the hub, whatever ids they have."""
    pair = pair_of(unique("restored"))
    link = link_to(broker.port)
    reader = KeepingReader(link, use_of(pair.source)).connect()
    for _ in range(10):
        mosquitto_pub(broker.port, pair.source.provider_queue, b"same")
    reader.collect(10)
    backup = dict(reader.positions)
    for _ in range(20):
        mosquitto_pub(broker.port, pair.source.provider_queue, b"same")
    for batch in reader.batches(20, size=5, settle=False):
        reader.commit_only(batch)
    reader.positions = backup
    reader.reconnect()
    again = reader.collect(20)
    assert [(found.redelivered, found.duplicate) for found in again] == [(True, False)] * 20
    reader.source.close()
