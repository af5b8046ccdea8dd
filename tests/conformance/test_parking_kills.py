"""The agent is killed again and again while keys are parked: each message arrives once, those of a key in order."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mgw.gateway.services.exceptions import parked_keys, release
from mgw.transforms.message import Message
from tests.conformance.test_kafka_kills import Stage
from tests.support.brokers import Kafka
from tests.support.kafka_clients import KafkaConsumer
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

KEYS, MESSAGES, KILLS = 12, 900, 4


@pytest.fixture
def stage(kafka: Kafka, tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(kafka, tmp_path, "outbound")
    admin = stage.gateway.admin
    admin.create_transformation("strict", "BASIC", "BASIC", {"set": {"header.half": "tab.user_data.n / 2"}})
    admin.alter_job("J", transformation="strict", options={"park_key": "correlation"})
    yield stage
    stage.close()


def _message(number: int, given: random.Random) -> Message:
    bad = given.random() < 0.02
    return Message(
        body=json.dumps({"n": "bad" if bad else number, "number": number}), correlation=f"k{given.randrange(KEYS)}"
    )


def _written(stage: Stage) -> list[tuple[str, int]]:
    """Key and number of all messages in the topic that are committed."""
    found = list[tuple[str, int]]()
    options = {"bootstrap_servers": stage.broker.bootstrap, "group_id": None, "isolation_level": "read_committed"}
    with closing(KafkaConsumer(**options)) as consumer:
        consumer.assign([stage.place])
        consumer.seek_to_beginning(stage.place)
        end = consumer.end_offsets([stage.place])[stage.place]
        while consumer.position(stage.place) < end:
            for records in consumer.poll(500).values():
                found += [(each.key.decode(), json.loads(each.value)["number"]) for each in records]
    return found


def test_parked_messages_arrive_once_and_in_order_however_often_the_agent_is_killed(stage: Stage) -> None:
    given = random.Random(20_261_126)
    messages = [_message(number, given) for number in range(MESSAGES)]
    size = MESSAGES // (KILLS + 1)
    for kill in range(KILLS):
        process = stage.start()
        stage.gateway.enqueue("H", messages[kill * size : (kill + 1) * size])
        eventually(lambda: bool(parked_keys(stage.gateway.admin)), deadline=60, what="a parked key")
        release(stage.gateway.admin, "J", by="me")
        time.sleep(given.uniform(0.0, 0.5))  # the moment of the kill
        process.kill()
        process.wait(30)
    stage.gateway.enqueue("H", messages[KILLS * size :])
    stage.gateway.admin.alter_transformation("strict", definition={"set": {"header.half": "tab.user_data.n"}})
    release(stage.gateway.admin, "J", by="me")
    process = stage.start()
    eventually(lambda: stage.gateway.job("J")["BACKLOG"] == 0, deadline=120, what="nothing left")
    eventually(lambda: parked_keys(stage.gateway.admin) == [], deadline=30, what="no parked key")
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(60) == 0
    written = _written(stage)
    for key in {each.correlation for each in messages}:
        wanted = [number for number, each in enumerate(messages) if each.correlation == key]
        assert [number for found, number in written if found == key] == wanted, key
