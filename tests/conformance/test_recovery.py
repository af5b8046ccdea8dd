"""What ends a job when its logs and its queues do not match, and what lets it go on; with real brokers."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
import pytest
import sqlalchemy as sa

from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.message import Message
from tests.conformance.link_suite import unique
from tests.support.brokers import RabbitMQ
from tests.support.gateways import Gateway, gateway_on
from tests.support.rabbitmq_kills import LOG_ARGUMENTS
from tests.support.waiting import eventually

_PATIENCE = 60.0


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        gateway.queue("H")
        yield gateway


# ---------------------------------------------------------------------------------------------- connections of a link


def test_a_job_waits_until_its_link_has_a_connection_free(gateway: Gateway) -> None:
    broker = MemoryBroker.get(uuid.uuid4().hex)
    try:
        gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name}, max_connections=1)
        for name in ("A", "B"):
            broker.queue(name)
            gateway.admin.register_foreign_queue(name, "mem")
            gateway.admin.create_job(name, "INBOUND", f"{name}@mem", "H", enabled=name == "A", poll_interval=0.2)
            broker.put(name, Message(body=name))
        with gateway.run():
            eventually(lambda: [message.body for message in gateway.browse("H")] == ["A"], what="job A carries")
            gateway.admin.enable_job("B")
            eventually(lambda: "[421]" in (gateway.job("B")["LAST_ERROR_MSG"] or ""), what="job B waits")
            row = gateway.job("B")
            assert (row["STATUS"], row["FAILURES"] or 0) == ("RETRY", 0)
            assert "max_connections" in row["LAST_ERROR_MSG"]
            assert gateway.job("A")["STATUS"] == "READY"
            gateway.admin.disable_job("A")
            eventually(lambda: gateway.job("A")["ACTIVITY"] == "STOPPED", what="job A stopped")
            gateway.admin.reset_job("B")
            eventually(lambda: [m.body for m in gateway.browse("H")] == ["A", "B"], what="job B carries")
            eventually(lambda: gateway.job("B")["STATUS"] == "READY", what="job B is well")
    finally:
        MemoryBroker.drop(broker.name)


def test_a_job_that_is_altered_while_it_waits_for_a_connection_is_well_when_it_carries(gateway: Gateway) -> None:
    broker = MemoryBroker.get(uuid.uuid4().hex)
    try:
        gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name}, max_connections=1)
        for name in ("A", "B"):
            broker.queue(name)
            gateway.admin.register_foreign_queue(name, "mem")
            gateway.admin.create_job(name, "INBOUND", f"{name}@mem", "H", enabled=name == "A", poll_interval=0.2)
            broker.put(name, Message(body=name))
        with gateway.run():
            eventually(lambda: [message.body for message in gateway.browse("H")] == ["A"], what="job A carries")
            gateway.admin.enable_job("B")
            eventually(lambda: "[421]" in (gateway.job("B")["LAST_ERROR_MSG"] or ""), what="job B waits")
            gateway.admin.disable_job("A")
            eventually(lambda: gateway.job("A")["ACTIVITY"] == "STOPPED", what="job A stopped")
            gateway.admin.alter_job("B", poll_interval=0.3)  # a new thread, which connects at its first attempt
            eventually(lambda: [m.body for m in gateway.browse("H")] == ["A", "B"], what="job B carries", deadline=60)
            eventually(lambda: gateway.job("B")["STATUS"] == "READY", what="job B is well")
            assert gateway.job("B")["NOT_WORKING_SINCE"] is None
    finally:
        MemoryBroker.drop(broker.name)


# ----------------------------------------------------------------------------------------------------- RabbitMQ's logs


class Stage:
    """A hub whose job J reads from, or writes to, a queue of RabbitMQ with a log queue; the hub can be put back."""

    def __init__(self, server: RabbitMQ, folder: Path, direction: str) -> None:
        self.folder, self.direction = folder, direction
        self.queue, self.log = unique("recovered"), unique("mgw.log")
        self.connection = pika.BlockingConnection(pika.ConnectionParameters(server.host, server.port, heartbeat=0))
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()
        self.channel.queue_declare(self.queue, durable=True)
        self.channel.queue_declare(self.log, durable=True, arguments=LOG_ARGUMENTS)
        self.url = f"sqlite:///{folder}/hub.db"
        self.gateway = Gateway(self.url)
        self.gateway.queue("H")
        key = "inbound_log_queue" if direction == "INBOUND" else "outbound_log_queue"
        properties: dict[str, Any] = {"hostname": server.host, "port": server.port, key: self.log}
        properties |= {"username": server.username, "password": server.password}
        admin = self.gateway.admin
        admin.create_msgsystem_link("rmq", "RABBITMQ", properties, options={"AMQP_AnswerTimeout": "3"})
        admin.register_foreign_queue("Q", "rmq", self.queue)
        ends = ("Q@rmq", "H") if direction == "INBOUND" else ("H", "Q@rmq")
        admin.create_job("J", direction, *ends, poll_interval=0.2)

    def put(self, *bodies: bytes) -> None:
        """Into the queue that the job reads."""
        if self.direction == "OUTBOUND":
            self.gateway.enqueue("H", [Message(body=body) for body in bodies])
            return
        for body in bodies:
            self.channel.basic_publish("", self.queue, body, pika.BasicProperties(delivery_mode=2))

    def arrived(self) -> list[Any]:
        """What is in the queue that the job writes to."""
        if self.direction == "INBOUND":
            return [message.body for message in self.gateway.browse("H")]
        found, tag = [], 0
        while (got := self.channel.basic_get(self.queue))[0] is not None:
            found.append(got[2])
            tag = got[0].delivery_tag
        if tag:
            self.channel.basic_nack(tag, multiple=True, requeue=True)
        return found

    def count(self, queue: str) -> int:
        count: int = self.channel.queue_declare(queue, passive=True).method.message_count
        return count

    def carry(self, *bodies: bytes) -> None:
        """Carry them from end to end."""
        already = len(self.arrived())
        self.put(*bodies)
        with self.gateway.run():
            eventually(
                lambda: len(self.arrived()) == already + len(bodies), deadline=_PATIENCE, what="everything carried"
            )
            eventually(lambda: not self.gateway.plans("J"), deadline=_PATIENCE, what="everything completed")

    def _files(self) -> list[Path]:
        return [path for path in self.folder.glob("hub.db*") if path.is_file() and path.suffix != ".key"]

    def backup(self) -> dict[Path, bytes]:
        self.gateway.close()
        saved = {path: path.read_bytes() for path in self._files()}
        self.gateway = Gateway(self.url)
        return saved

    def restore(self, saved: dict[Path, bytes]) -> None:
        self.gateway.close()
        for path in self._files():
            path.unlink()
        for path, content in saved.items():
            path.write_bytes(content)
        self.gateway = Gateway(self.url)

    def refused(self, number: int) -> None:
        """The job ends FAILED with that error, at once, and moves nothing; an operator lets it go on."""
        before = self.arrived()
        self.put(b"after")
        with self.gateway.run():
            eventually(lambda: self.gateway.job("J")["STATUS"] == "FAILED", deadline=_PATIENCE, what="a job that ended")
            row = self.gateway.job("J")
            assert f"[{number}]" in row["LAST_ERROR_MSG"], row
            assert row["FAILURES"] == 1
            assert self.arrived() == before
            action = "RESET_SUB_MISSING_MESSAGE" if number == 415 else "RESET_SUB_MISSING_LOG_REC"
            assert action in row["LAST_ERROR_MSG"]
            self.gateway.admin.cleanup_gateway(action, "J")
            eventually(lambda: b"after" in self.arrived(), deadline=_PATIENCE, what="a job that goes on")


@pytest.fixture(params=["INBOUND", "OUTBOUND"])
def stage(rabbitmq: RabbitMQ, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stage]:
    with staged(rabbitmq, tmp_path, request.param) as stage:
        yield stage


@contextmanager
def staged(server: RabbitMQ, folder: Path, direction: str) -> Iterator[Stage]:
    stage = Stage(server, folder, direction)
    try:
        yield stage
    finally:
        stage.gateway.close()
        stage.connection.close()


def bodies(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


def test_a_hub_put_back_from_a_backup_is_behind_its_log(stage: Stage) -> None:
    stage.carry(*bodies(100))
    saved = stage.backup()
    stage.carry(*bodies(100, 100))
    stage.restore(saved)
    stage.refused(416)


def test_a_log_queue_that_was_purged_lacks_records(stage: Stage) -> None:
    stage.carry(*bodies(100))
    stage.channel.queue_purge(stage.log)
    stage.refused(417)


def test_a_log_queue_that_was_made_anew_lacks_records(stage: Stage) -> None:
    stage.carry(*bodies(100))
    stage.channel.queue_delete(stage.log)
    stage.channel.queue_declare(stage.log, durable=True, arguments=LOG_ARGUMENTS)
    stage.refused(417)


def test_a_stream_that_was_made_anew_lacks_messages(rabbitmq: RabbitMQ, tmp_path: Path) -> None:
    with staged(rabbitmq, tmp_path, "INBOUND") as stage:
        stream = {"x-queue-type": "stream"}

        def anew() -> None:
            stage.channel.queue_delete(stage.queue)
            stage.channel.queue_declare(stage.queue, durable=True, arguments=stream)

        anew()
        stage.put(*bodies(20))
        with stage.gateway.run():
            eventually(lambda: stage.arrived() == bodies(20), deadline=_PATIENCE, what="everything carried")
        anew()
        stage.put(*bodies(30, 100))
        stage.refused(415)
        assert stage.arrived() == [*bodies(20), *bodies(30, 100), b"after"]


def test_a_record_that_cannot_be_read_ends_the_job_until_it_is_cleaned(stage: Stage) -> None:
    stage.carry(*bodies(20))
    stage.channel.basic_publish("", stage.log, b"hello", pika.BasicProperties(delivery_mode=2))
    stage.put(b"after")
    with stage.gateway.run():
        eventually(lambda: stage.gateway.job("J")["STATUS"] == "FAILED", deadline=_PATIENCE, what="a job that ended")
        error = stage.gateway.job("J")["LAST_ERROR_MSG"]
        assert "[417]" in error
        assert "CLEAN_LOG_QUEUES" in error
        stage.gateway.admin.cleanup_gateway("CLEAN_LOG_QUEUES")
        assert stage.count(stage.log) == 0
        stage.gateway.admin.cleanup_gateway("RESET_SUB_MISSING_LOG_REC", "J")
        eventually(lambda: b"after" in stage.arrived(), deadline=_PATIENCE, what="a job that goes on")
    assert stage.arrived() == [*bodies(20), b"after"]


def test_the_record_of_a_job_that_does_not_exist_any_more_is_removed_at_the_start(stage: Stage) -> None:
    """Removed by force while its broker was away, for example."""
    hub = stage.gateway.hub.hub_id.hex()
    record = json.dumps({"hub": hub, "job": "REMOVED", "sequence": 7, "time": 0}).encode()
    for mode in (2, 1):
        stage.channel.basic_publish("", stage.log, record, pika.BasicProperties(delivery_mode=mode))
    with stage.gateway.run():
        eventually(lambda: stage.count(stage.log) == 0 or not stage.gateway.job("J")["FAILURES"], deadline=_PATIENCE)
        stage.put(b"first")
        stage.gateway.admin.reset_job("J")
        eventually(lambda: stage.arrived() == [b"first"], deadline=_PATIENCE, what="a job that has its log queue")


def test_a_job_that_lacks_a_definition_keeps_no_log_from_being_cleaned(rabbitmq: RabbitMQ, tmp_path: Path) -> None:
    with staged(rabbitmq, tmp_path, "OUTBOUND") as stage:
        stage.gateway.admin.create_job("A", "INBOUND", unregistered(stage), "H", enabled=False)
        record = json.dumps(
            {"hub": stage.gateway.hub.hub_id.hex(), "job": "REMOVED", "sequence": 7, "time": 0}
        ).encode()
        for mode in (2, 1):
            stage.channel.basic_publish("", stage.log, record, pika.BasicProperties(delivery_mode=mode))
        with stage.gateway.hub.write() as conn:
            conn.execute(sa.text("DELETE FROM gw_foreign_queue WHERE name = 'GONE'"))
        with stage.gateway.run():
            stage.gateway.admin.cleanup_gateway("CLEAN_LOG_QUEUES")
            stage.gateway.admin.reset_job("J")
            stage.put(b"first")
            eventually(lambda: stage.arrived() == [b"first"], deadline=_PATIENCE, what="a job that has its log queue")


def unregistered(stage: Stage) -> str:
    """A queue whose registration is about to vanish."""
    name = unique("gone")
    stage.channel.queue_declare(name, durable=True)
    stage.gateway.admin.register_foreign_queue("GONE", "rmq", name)
    return "GONE@rmq"


def test_the_record_of_another_hub_is_left_alone(stage: Stage) -> None:
    record = json.dumps({"hub": "0123456789abcdef", "job": "J", "sequence": 7, "time": 0}).encode()
    for mode in (2, 1):
        stage.channel.basic_publish("", stage.log, record, pika.BasicProperties(delivery_mode=mode))
    with stage.gateway.run():
        eventually(lambda: "of hub 0123456789abcdef" in (stage.gateway.job("J")["LAST_ERROR_MSG"] or ""))
        stage.gateway.admin.cleanup_gateway("CLEAN_LOG_QUEUES")
        assert stage.count(stage.log) == 2
