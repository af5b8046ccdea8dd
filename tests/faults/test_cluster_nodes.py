"""A node of a cluster is killed, frozen or parted from the others while messages move: messages pass without it, none
is lost, and none comes twice where that is promised.

``make test-all`` plays each of the three once, ``make test-faults`` every way listed here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.faults.clusters import ClusterBrokers, freeze_broker_node, kill_broker_node, part_broker_node
from tests.faults.conftest import Trial
from tests.faults.stage import THROUGH

FAULTS = (kill_broker_node, freeze_broker_node, part_broker_node)
WAYS = [
    ("quorum", "hub"),
    ("quorumids", "hub"),
    ("stream", "hub"),
    ("kafka", "hub"),
    ("hub", "quorum"),
    ("hub", "kafka"),
    ("hub", "kafkalog"),
    ("hub", "confluentlog"),
    ("quorumids", "kafkalog"),
    ("stream", "kafkalog"),
    ("kafka", "quorum"),
    ("kafka", "kafkalog"),
    (f"{THROUGH}stream", "kafkalog"),
]
RATE = 600  # messages a second: a fault lasts ten seconds and more, and messages that pass meanwhile show nothing new
ROUNDS = max(1, int(os.environ.get("MGW_FAULT_ROUNDS") or 15) // 5)


@pytest.fixture(scope="module")
def brokers() -> Iterator[ClusterBrokers]:
    made = ClusterBrokers()
    yield made
    made.close()


@pytest.mark.matrix
def test_each_harm_to_a_node_between_two_clusters_loses_and_doubles_nothing(trial: Trial) -> None:
    trial("quorumids", "kafkalog", *FAULTS, messages=1500, rate=RATE)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_killing_the_node_of_a_stream_loses_and_doubles_nothing(trial: Trial) -> None:
    trial("stream", "quorum", kill_broker_node, messages=1500, rate=RATE)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("source", "target"), [pytest.param(*way, id=f"cluster {way[0]}-{way[1]}") for way in WAYS])
def test_harm_to_nodes_many_times_loses_nothing(trial: Trial, source: str, target: str) -> None:
    trial(source, target, *FAULTS, times=ROUNDS, messages=5000, rate=RATE)
