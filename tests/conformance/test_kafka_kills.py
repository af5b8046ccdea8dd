"""The agent is killed again and again while it carries messages to and from Kafka: each arrives once, in order.

Outbound: the job writes with transactions and a log topic. Inbound: positions and messages are stored together. The
messages are told apart by ids that the test knows; many have one of two equal bodies.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from kafka import TopicPartition

from mgw.transforms.message import Message
from tests.conformance.link_suite import unique
from tests.support.brokers import Kafka
from tests.support.gateways import Gateway
from tests.support.kafka_clients import KafkaAdminClient, KafkaConsumer, KafkaProducer
from tests.support.ready_made import Process, start_module
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

_TWINS = (b"left", b"right")
_CONFIGURATION = """
version: 1
links:
  kf:
    type: kafka
    bootstrap_servers: {bootstrap}
    client: {client}
    outbound_log_queue: {log}
foreign_queues:
  T@kf: {{provider_queue: {topic}, options: {{KAFKA_StartAt: earliest}}}}
queues:
  H: {{max_retries: 1000}}
jobs:
  J: {{type: {kind}, source: {source}, destination: {destination}, batch_size: 30, require_guarantee: {level}}}
"""


@dataclass
class Figures:
    """What a run was worth."""

    kills: int = 0
    kills_with_plans: int = 0
    messages: int = 0
    lost: int = 0
    doubled: int = 0
    disordered: int = 0
    suppressed: int = 0


class Stage:
    """A hub, a topic and a log topic, and a process that is killed."""

    def __init__(self, broker: Kafka, folder: Path, kind: str, client: str = "kafka-python") -> None:
        self.broker = broker
        self.topic, self.log_topic = unique("kills"), unique("killslog")
        broker.create_topic(self.topic)
        broker.create_topic(self.log_topic, 2, {"cleanup.policy": "compact"})
        self.url = f"sqlite:///{folder}/hub.db"
        self.gateway = Gateway(self.url)
        ends = {"source": "H", "destination": "T@kf"} if kind == "outbound" else {"source": "T@kf", "destination": "H"}
        self.file = folder / "mgw.yaml"
        text = _CONFIGURATION.format(
            bootstrap=broker.bootstrap,
            log=self.log_topic,
            topic=self.topic,
            kind=kind,
            client=client,
            level="exact" if client == "kafka-python" or kind == "inbound" else "exact-unless-broker-crash",
            **ends,
        )
        self.file.write_text(text)
        self._log = folder / "agent.log"
        self._mgw("apply", str(self.file))
        self.figures = Figures()
        self.consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=None)
        self.place = TopicPartition(self.topic, 0)

    def close(self) -> None:
        self.consumer.close()
        self.gateway.close()

    def _mgw(self, *arguments: str) -> None:
        assert self._begin(*arguments).wait(60) == 0, self._log.read_text()

    def start(self, *, program: str | None = None) -> Process:
        if program is None:
            return self._begin("run")
        with self._log.open("ab") as sink:
            command = [sys.executable, "-c", program, "--hub", self.url, "run"]
            return subprocess.Popen(command, stdout=sink, stderr=sink)

    def _begin(self, *arguments: str) -> Process:
        return start_module("mgw.gateway", "--hub", self.url, *arguments, log=self._log, environment=os.environ)

    def end(self) -> int:
        """End of the topic, of open transactions, too."""
        end: int = self.consumer.end_offsets([self.place])[self.place]
        return end

    def total(self) -> int:
        with self.gateway.hub.read() as conn:
            return int(conn.scalar(sa.text("SELECT sum(propagated_total) FROM gw_job_state")) or 0)

    def kill_in_the_middle(self, progress: Callable[[], int], dice: random.Random) -> None:
        """Start the agent and kill it: soon after something moved, or at any moment of its start."""
        before = progress()
        process = self.start()
        try:
            if dice.random() < 0.2:
                deadline = time.monotonic() + dice.uniform(0.3, 1.6)
                while time.monotonic() < deadline and process.poll() is None:
                    time.sleep(0.01)
            else:
                eventually(lambda: progress() > before or process.poll() is not None, deadline=60, what="progress")
                time.sleep(dice.uniform(0, 0.15))
            assert process.poll() is None, self._log.read_text()[-2000:]
        finally:
            process.kill()
            process.wait()
        self.figures.kills += 1
        self.figures.kills_with_plans += bool(self.gateway.plans("J"))

    def drain(self, done: Callable[[], bool]) -> None:
        process = self.start()
        try:
            eventually(lambda: self._running(process.pid), deadline=60, what="an agent that runs")
            eventually(done, deadline=120, what="everything carried")
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0, self._log.read_text()[-2000:]
        finally:
            process.kill()
            process.wait()
        self.figures.suppressed = int(self.gateway.job("J")["SUPPRESSED_TOTAL"] or 0)

    def _running(self, pid: int) -> bool:
        with self.gateway.hub.read() as conn:
            row = conn.execute(sa.text("SELECT * FROM MGW_GATEWAY")).mappings().one()
        return (row["AGENT_STATUS"], row["AGENT_PID"]) == ("RUNNING", pid)

    def judge(self, sent: Sequence[Any], arrived: Sequence[Any]) -> None:
        figures = self.figures
        counts = Counter(arrived)
        figures.messages = len(sent)
        figures.lost = len(set(sent) - set(counts))
        figures.doubled = sum(count - 1 for count in counts.values())
        figures.disordered = sum(one != two for one, two in zip(sent, arrived, strict=False))
        print(json.dumps(vars(figures)))
        assert (figures.lost, figures.doubled, figures.disordered) == (0, 0, 0), figures
        assert list(arrived) == list(sent)


def body(number: int) -> bytes:
    """Two of three messages have one of two bodies."""
    return _TWINS[number % 2] if number % 3 else b"%d" % number


def read_topic(stage: Stage) -> list[tuple[bytes, bytes]]:
    """Message id and body of everything that was committed."""
    consumer = KafkaConsumer(
        bootstrap_servers=stage.broker.bootstrap,
        group_id=None,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    try:
        consumer.assign([stage.place])
        consumer.seek_to_beginning(stage.place)
        end = stage.end()
        found: list[tuple[bytes, bytes]] = []
        deadline = time.monotonic() + 120
        while consumer.position(stage.place) < end:
            assert time.monotonic() < deadline, "a transaction stays open"
            records = consumer.poll(timeout_ms=200).get(stage.place, ())
            found += [(dict(record.headers)["MGW_AQ_messageID"], record.value) for record in records]
        return found
    finally:
        consumer.close()


def carry_out_under_kills(stage: Stage, kills: int, messages: int, seed: int) -> None:
    dice = random.Random(seed)
    sent: list[tuple[bytes, bytes]] = []
    each = -(-messages // kills)
    for _ in range(kills):
        bodies = [body(number) for number in range(len(sent), len(sent) + each)]
        ids = stage.gateway.enqueue("H", [Message(body=each_body) for each_body in bodies])
        sent += zip(ids, bodies, strict=True)
        stage.kill_in_the_middle(stage.end, dice)
    stage.drain(lambda: not stage.gateway.plans("J") and not stage.gateway.browse("H"))
    stage.judge(sent, read_topic(stage))


def carry_in_under_kills(stage: Stage, kills: int, messages: int, seed: int) -> None:
    dice = random.Random(seed)
    each = -(-messages // kills)
    sent: list[tuple[int, bytes]] = []
    producer = KafkaProducer(bootstrap_servers=stage.broker.bootstrap)
    try:
        for _ in range(kills):
            futures = [
                (producer.send(stage.topic, value=body(number), partition=0), body(number))
                for number in range(len(sent), len(sent) + each)
            ]
            sent += [(future.get(timeout=30).offset, each_body) for future, each_body in futures]
            stage.kill_in_the_middle(stage.total, dice)
    finally:
        producer.close()
    stage.drain(lambda: stage.total() >= len(sent))
    arrived = [(message.header("MGW_KAFKA_offset"), message.body) for message in stage.gateway.browse("H")]
    stage.judge(sent, arrived)


@pytest.fixture
def client() -> str:
    return "kafka-python"


@pytest.fixture
def outbound(kafka: Kafka, tmp_path: Path, client: str) -> Iterator[Stage]:
    stage = Stage(kafka, tmp_path, "outbound", client)
    yield stage
    stage.close()


@pytest.fixture
def inbound(kafka: Kafka, tmp_path: Path, client: str) -> Iterator[Stage]:
    stage = Stage(kafka, tmp_path, "inbound", client)
    yield stage
    stage.close()


@pytest.mark.matrix  # the fault tests of every run kill it too, at every step and at random
@pytest.mark.parametrize("client", ["kafka-python", "confluent"])
def test_outbound_messages_arrive_once_however_often_the_agent_is_killed(outbound: Stage) -> None:
    carry_out_under_kills(outbound, kills=6, messages=3000, seed=random.randrange(10**6))


@pytest.mark.matrix
@pytest.mark.parametrize("client", ["kafka-python", "confluent"])
def test_inbound_messages_arrive_once_however_often_the_agent_is_killed(inbound: Stage) -> None:
    carry_in_under_kills(inbound, kills=5, messages=3000, seed=random.randrange(10**6))


_CLASSES = {
    "kafka-python": "mgw.links.kafka.python_client.transaction import Transactions",
    "confluent": "mgw.links.kafka.confluent_client.transaction import ConfluentTransactions as Transactions",
}
_DYING = """
import os, signal, sys
from mgw.gateway.cli.main import main
from %s

def dying(name):
    step = getattr(Transactions, name)

    def run(self, *arguments):
        if name == "_check_epoch":
            step(self, *arguments)
            if self.producer._transaction_manager._partitions_in_transaction & {place}:
                os.kill(os.getpid(), signal.SIGKILL)
        else:
            step(self, *arguments)
            if arguments[-1] == "topic %s":
                os.kill(os.getpid(), signal.SIGKILL)

    setattr(Transactions, name, run)

from kafka import TopicPartition
place = TopicPartition("%s", 0)
dying("%s")
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("client", "step", "stored"),
    [
        ("kafka-python", "_check_epoch", False),
        ("kafka-python", "_finish", False),
        ("kafka-python", "_commit", True),
        pytest.param("confluent", "_finish", False, marks=pytest.mark.matrix),
        ("confluent", "_commit", True),
    ],
)
def test_a_batch_is_sent_again_exactly_when_the_log_has_it_not(
    outbound: Stage, client: str, step: str, stored: bool
) -> None:
    """SIGKILL between publishing and commit, and between commit and completion in the hub."""
    stage = outbound
    bodies = [body(number) for number in range(100)]
    ids = stage.gateway.enqueue("H", [Message(body=each_body) for each_body in bodies])
    process = stage.start(program=_DYING % (_CLASSES[client], stage.topic, stage.topic, step))
    assert process.wait(60) == -signal.SIGKILL
    assert stage.gateway.plans("J"), "nothing was completed"
    assert stage.end() > 0, "something was sent"
    stage.drain(lambda: not stage.gateway.plans("J") and not stage.gateway.browse("H"))
    assert (stage.figures.suppressed > 0) is stored
    assert any("already at the destination" in text for text in stage.gateway.events()) is stored
    stage.judge(list(zip(ids, bodies, strict=True)), read_topic(stage))


def carry(stage: Stage, count: int) -> list[tuple[bytes, bytes]]:
    """Messages through an agent inside the test."""
    bodies = [body(number) for number in range(count)]
    ids = stage.gateway.enqueue("H", [Message(body=each_body) for each_body in bodies])
    with stage.gateway.run():
        eventually(lambda: not stage.gateway.plans("J") and not stage.gateway.browse("H"), what="all carried")
    return list(zip(ids, bodies, strict=True))


def refused(stage: Stage, number: int) -> None:
    """The job ends FAILED with that error and sends nothing."""
    end = stage.end()
    stage.gateway.enqueue("H", [Message(body=b"after")])
    with stage.gateway.run():
        eventually(lambda: stage.gateway.job("J")["STATUS"] == "FAILED", what="a job that gave up")
        assert f"[{number}]" in stage.gateway.job("J")["LAST_ERROR_MSG"]
    assert stage.end() == end
    assert [message.body for message in stage.gateway.browse("H")] == [b"after"]


def test_a_restored_hub_behind_its_log_stops_the_job_before_anything_is_sent(outbound: Stage, tmp_path: Path) -> None:
    stage = outbound
    sent = carry(stage, 100)
    stage.gateway.close()
    saved = {path: path.read_bytes() for path in tmp_path.glob("hub.db*")}
    stage.gateway = Gateway(stage.url)
    sent += carry(stage, 100)
    stage.gateway.close()
    for path in tmp_path.glob("hub.db*"):
        path.unlink()
    for path, content in saved.items():
        path.write_bytes(content)
    stage.gateway = Gateway(stage.url)
    refused(stage, 416)
    assert read_topic(stage) == sent


def test_a_log_that_was_purged_stops_the_job_before_anything_is_sent(outbound: Stage) -> None:
    stage = outbound
    sent = carry(stage, 100)
    admin = KafkaAdminClient(bootstrap_servers=stage.broker.bootstrap)
    try:
        admin.delete_topics([stage.log_topic])
        eventually(lambda: stage.log_topic not in admin.list_topics(), what="the log topic deleted")
    finally:
        admin.close()
    stage.broker.create_topic(stage.log_topic, 2, {"cleanup.policy": "compact"})
    refused(stage, 417)
    assert read_topic(stage) == sent


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("client", ["kafka-python", "confluent"])
def test_outbound_messages_arrive_once_through_200_kills(outbound: Stage) -> None:
    carry_out_under_kills(outbound, kills=200, messages=100_000, seed=20_261_120)
    assert outbound.figures.suppressed > 0, "the sending log spared messages from being sent again"


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("client", ["kafka-python", "confluent"])
def test_inbound_messages_arrive_once_through_200_kills(inbound: Stage) -> None:
    carry_in_under_kills(inbound, kills=200, messages=100_000, seed=20_261_120)
