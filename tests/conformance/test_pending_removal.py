"""What a removed job or subscriber left at a broker goes with it, as soon as the broker is there; FORCE leaves it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from mgw.gateway.definitions.objects import JobStatus, Snapshot
from mgw.gateway.runtime.idle_jobs import REMOVERS
from mgw.gateway.services import health
from mgw.gateway.services.admin import job_removal
from mgw.gateway.state import catalog
from mgw.gateway.state.secrets import Secrets
from mgw.links.contract import Direction
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.errors import ConfigInvalid, HubUnavailable
from mgw.transforms.message import Message
from tests.conformance.link_suite import unique
from tests.conformance.test_mqtt_link import mosquitto_pub
from tests.conformance.test_rabbitmq_link import RabbitTemplate
from tests.support.brokers import Mosquitto, RabbitMQ
from tests.support.gateways import Gateway, gateway_on, supervised
from tests.support.waiting import eventually


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        gateway.queue("H")
        yield gateway


def rows(gateway: Gateway, columns: str, view: str) -> list[tuple[Any, ...]]:
    with gateway.hub.read() as conn:
        return [tuple(row) for row in conn.execute(sa.text(f"SELECT {columns} FROM {view}"))]


class Scene:
    """A subscriber of a topic, whose schedule stays, and what arrives in the hub."""

    def __init__(self, gateway: Gateway, broker: Mosquitto) -> None:
        self.gateway, self.broker = gateway, broker
        gateway.admin.create_msgsystem_link("l", "MQTT", {"hostname": "127.0.0.1", "port": broker.port})
        gateway.admin.register_foreign_queue("NEWS", "l", "news")
        gateway.admin.schedule_propagation("sched", "INBOUND", "NEWS@l", "H")

    def subscribe(self) -> None:
        self.gateway.admin.add_subscriber("sub", "INBOUND", "NEWS@l", "H")
        eventually(lambda: self.gateway.job("sub")["ACTIVITY"] in {"RUNNING", "IDLE"}, what="the subscription")

    def remove_while_the_broker_is_away(self) -> None:
        self.broker.stop()
        assert not self.gateway.admin.remove_subscriber("sub")
        assert rows(self.gateway, "STATUS", "MGW_JOBS") == [("SUBSCRIBER_DELETE_PENDING",)]
        assert rows(self.gateway, "SUBSCRIBER_ID, STATUS", "MGW_SUBSCRIBERS") == [("SUB", "DELETE_PENDING")]

    def await_removal(self) -> None:
        eventually(lambda: rows(self.gateway, "STATUS", "MGW_SUBSCRIBERS") == [], what="the removal", deadline=60)
        assert rows(self.gateway, "SCHEDULE_ID, SUBSCRIBER_ID", "MGW_SCHEDULES") == [("SCHED", None)]

    def arrived(self, number: int) -> list[Any]:
        """What arrives for a subscriber of the same name: "before" only if the broker still knew the subscription."""
        mosquitto_pub(self.broker.port, "news", b"before %d" % number)
        self.subscribe()
        mosquitto_pub(self.broker.port, "news", end := b"after %d" % number)
        eventually(lambda: end in [message.body for message in self.gateway.browse("H")], what="the message")
        bodies = [message.body for message in self.gateway.browse("H") if isinstance(message.body, bytes)]
        return [body for body in bodies if body.endswith(b" %d" % number)]


@pytest.mark.mosquitto
def test_a_subscriber_whose_broker_is_away_is_removed_when_it_is_back(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    with Mosquitto() as broker:
        scene = Scene(gateway, broker)
        with gateway.run():
            scene.subscribe()
            scene.remove_while_the_broker_is_away()
            eventually(lambda: "job sub is still marked for removal" in caplog.text, what="a try in vain")
            broker.restart()
            scene.await_removal()
            assert scene.arrived(1) == [b"after 1"], "the agent removed the subscription"
        scene.remove_while_the_broker_is_away()
        broker.restart()
        with gateway.run():
            scene.await_removal()
            assert scene.arrived(2) == [b"after 2"], "the next agent removed the subscription"
        broker.stop()
        assert gateway.admin.remove_subscriber("sub", force=True)
        scene.await_removal()
        broker.restart()
        with gateway.run():
            assert scene.arrived(3) == [b"before 3", b"after 3"], "FORCE leaves the subscription, which collects"


@pytest.mark.rabbitmq
def test_the_record_in_a_log_queue_goes_with_its_job_and_with_no_other(gateway: Gateway, rabbitmq: RabbitMQ) -> None:
    template = RabbitTemplate(rabbitmq)
    name = unique("removed")
    template.channel.queue_declare(name, durable=True)
    link = {"hostname": rabbitmq.host, "port": rabbitmq.port}
    link |= {"username": rabbitmq.username, "password": rabbitmq.password}
    gateway.admin.create_msgsystem_link("l", "RABBITMQ", link)
    gateway.admin.register_foreign_queue("OUT", "l", name)
    gateway.admin.create_job(name, "OUTBOUND", "H", "OUT@l")
    gateway.admin.prepare_msgsystem_link("l")
    log = f"mgw.sent.{name}"
    gateway.enqueue("H", [Message(b"x")])
    with gateway.run():
        eventually(lambda: gateway.job(name)["PROPAGATED_MSGS"] == 1, what="the message", deadline=30)
    assert template.channel.queue_declare(log, passive=True).method.message_count > 0
    gateway.admin.create_msgsystem_link("shared", "RABBITMQ", link, outbound_log_queue=log)
    gateway.admin.register_foreign_queue("OTHER", "shared", name)
    gateway.queue("G")
    gateway.admin.create_job("other", "OUTBOUND", "G", "OTHER@shared")
    assert gateway.admin.remove_job("other")
    assert template.channel.queue_declare(log, passive=True).method.message_count > 0, "it is of another job"
    assert gateway.admin.remove_job(name)
    assert template.channel.queue_declare(log, passive=True).method.message_count == 0
    for queue in (log, name):
        template.channel.queue_delete(queue)
    template.close()


class MemoryScene:
    """Two brokers in this process, of which one, ``slow``, can stop to answer."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.slow, self.fast = (MemoryBroker.get(unique(name)) for name in ("slow", "fast"))
        for link, broker in (("slow", self.slow), ("fast", self.fast)):
            gateway.admin.create_msgsystem_link(link, "MEMORY", {"broker": broker.name, "timeout": 600})

    def job(self, name: str, link: str, queue: str, to: str = "H") -> None:
        """A job with a subscription."""
        if self.gateway.admin.get_foreign_queue(queue, link) is None:
            self.gateway.admin.register_foreign_queue(queue, link, f"{queue}*")
        self.gateway.admin.create_job(name, "INBOUND" if to == "H" else "THROUGH", f"{queue}@{link}", to)

    def mark(self, *names: str) -> None:
        """What REMOVE_JOB does while the agent runs."""
        with self.gateway.hub.write() as conn:
            for name in names:
                job = catalog.get_job(conn, name)
                assert job is not None
                catalog.set_job_status(conn, job.id, JobStatus.DELETE_PENDING)

    def stall(self, stalled: bool) -> None:
        self.slow.stalled = stalled
        self.slow.wake()

    @property
    def jobs(self) -> set[str]:
        return {name for (name,) in rows(self.gateway, "JOB_NAME", "MGW_JOBS")}


@pytest.fixture
def scene(gateway: Gateway) -> Iterator[MemoryScene]:
    scene = MemoryScene(gateway)
    yield scene
    for broker in (scene.slow, scene.fast):
        MemoryBroker.drop(broker.name)


def removers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("remove-")]


def test_a_stalled_broker_holds_up_no_other_clean_up(
    scene: MemoryScene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    held = [f"HELD{number}" for number in range(REMOVERS + 1)]
    for name in held:
        scene.job(name, "slow", name)
    scene.job("OTHER", "fast", "news")
    scene.mark(*held, "OTHER")
    scene.stall(True)
    calls, unsubscribe = [], scene.fast.unsubscribe

    def fail_once(subscription: str) -> None:
        calls.append(subscription)
        if len(calls) == 1:
            raise ZeroDivisionError("an error that nobody expects")
        unsubscribe(subscription)

    monkeypatch.setattr(scene.fast, "unsubscribe", fail_once)
    with scene.gateway.run():
        eventually(lambda: scene.jobs == set(held), what="the other one's removal")
        eventually(lambda: len(removers()) == 1, what="the end of all but the one for the broker that does not answer")
        assert "job OTHER is still marked for removal, will be tried again: an error that nobody expects" in caplog.text
        scene.stall(False)
        eventually(lambda: not scene.jobs, what="all removals")


def test_links_that_become_free_are_cleaned_up_at_the_same_time(
    scene: MemoryScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.gateway.admin.register_foreign_queue("OUT", "fast", "out")
    scene.job("BOTH", "slow", "a", "OUT@fast")
    scene.job("HELD", "slow", "b")
    scene.job("OTHER", "fast", "c")
    scene.mark("BOTH", "HELD", "OTHER")
    turns = [threading.Event(), threading.Event()]
    waiting, unsubscribe = iter(turns), scene.slow.unsubscribe

    def in_turn(subscription: str) -> None:
        next(waiting).wait(60)
        unsubscribe(subscription)

    monkeypatch.setattr(scene.slow, "unsubscribe", in_turn)
    with scene.gateway.run():
        try:
            eventually(removers, what="the clean-up of BOTH, which holds up the others")
            turns[0].set()
            eventually(lambda: scene.jobs == {"HELD"}, what="the removal of OTHER, while that of HELD is stuck")
        finally:
            turns[1].set()
        eventually(lambda: not scene.jobs, what="all removals")


def test_a_job_waits_until_another_one_of_its_name_is_removed(scene: MemoryScene) -> None:
    scene.job("J", "slow", "news")
    scene.mark("J")
    scene.stall(True)
    admin = scene.gateway.admin
    with scene.gateway.run():
        eventually(removers, what="the clean-up")
        admin.remove_job("J", force=True)
        scene.job("J", "slow", "news")
        scene.job("SIGN", "fast", "news")
        eventually(lambda: scene.gateway.job("SIGN")["ACTIVITY"] in {"RUNNING", "IDLE"}, what="the new definitions")
        row = scene.gateway.job("J")
        said = "it waits until what a removed job of its name left at link SLOW is cleaned up"
        assert (row["ACTIVITY"], row["STATUS"], row["ACTIVITY_REASON"]) == ("STOPPED", "READY", said)
        found = health.assess(scene.gateway.hub)
        assert [each.reason for each in found.jobs if each.name == "J"] == [f"job J is STOPPED: {said}"]
        assert found.healthy
        assert f"job J is STOPPED: {said}" in health.read(scene.gateway.hub).troubles
        admin.disable_job("J")
        scene.stall(False)
        eventually(lambda: scene.gateway.job("J")["ACTIVITY_REASON"] is None, what="the end of the clean-up")
        assert scene.gateway.job("J")["ACTIVITY"] == "STOPPED"
        admin.enable_job("J")
        eventually(lambda: scene.gateway.job("J")["ACTIVITY"] in {"RUNNING", "IDLE"}, what="the new job")
        scene.slow.topic("news1")
        scene.slow.put("news1", Message(b"x"))
        eventually(lambda: [each.body for each in scene.gateway.browse("H")] == [b"x"], what="the message")


def test_a_job_waits_for_no_clean_up_that_was_given_up_before_it_began(scene: MemoryScene) -> None:
    scene.job("HELD", "slow", "held")
    scene.job("J", "slow", "news")
    scene.mark("HELD", "J")
    scene.stall(True)
    admin = scene.gateway.admin
    with scene.gateway.run():
        eventually(removers, what="the clean-up of HELD, which that of J waits for")
        admin.remove_job("J", force=True)
        scene.job("J", "fast", "news")
        eventually(lambda: scene.gateway.job("J")["ACTIVITY"] in {"RUNNING", "IDLE"}, what="the new job")
        assert scene.jobs == {"HELD", "J"}
        scene.stall(False)
        eventually(lambda: scene.jobs == {"J"}, what="the removal of HELD")


def test_a_clean_up_that_is_due_is_tried_although_the_hub_fails_just_then(
    scene: MemoryScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.job("J", "fast", "news")
    scene.mark("J")
    unsubscribe, load = scene.fast.unsubscribe, catalog.load_snapshot
    tries: list[str] = []
    failures: list[HubUnavailable] = []

    def fail_once(subscription: str) -> None:
        tries.append(subscription)
        if len(tries) == 1:
            raise ZeroDivisionError("an error that nobody expects")
        unsubscribe(subscription)

    def lose_the_hub_once(conn: sa.Connection, agent: str, secrets: Secrets) -> Snapshot:
        if tries and not failures and threading.current_thread().name != "clean-logs":
            failures.append(error := HubUnavailable("the hub is away"))
            raise error
        return load(conn, agent, secrets)

    monkeypatch.setattr(scene.fast, "unsubscribe", fail_once)
    monkeypatch.setattr(catalog, "load_snapshot", lose_the_hub_once)
    with supervised(scene.gateway):
        eventually(lambda: failures, what="the round in which the hub fails")
        eventually(lambda: not scene.jobs, what="the removal")


def test_a_clean_up_goes_on_behind_an_end_that_fails_and_stops_at_another_job_of_the_name(
    scene: MemoryScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, ends = scene.gateway.admin, []
    admin.register_foreign_queue("OUT", "fast", "out")
    scene.job("J", "slow", "news", "OUT@fast")

    def forget(_job: object, _end: object, _hub: object, direction: Direction) -> None:
        ends.append(direction)
        if len(ends) == 1:
            raise ConfigInvalid("the password cannot be decrypted")
        if len(ends) == 3:
            assert admin.remove_job("J", force=True)
            scene.job("J", "slow", "news", "OUT@fast")

    monkeypatch.setattr(job_removal, "forget", forget)
    assert not admin.remove_job("J")
    assert ends == [Direction.INBOUND, Direction.OUTBOUND]
    assert rows(scene.gateway, "STATUS", "MGW_JOBS") == [("DELETE_PENDING",)]
    admin.finish_remove_job("J")
    assert ends[2:] == [Direction.INBOUND]
    assert rows(scene.gateway, "STATUS", "MGW_JOBS") == [("READY",)]
