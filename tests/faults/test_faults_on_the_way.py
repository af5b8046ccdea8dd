"""Whatever is killed, cut or restarted while messages move: nothing is lost, and the order of each source is kept.

``make test`` plays each fault at each broker and in each direction, ``make test-all`` every way listed here, and
``make test-faults`` the long form, which kills MGW_FAULT_ROUNDS times in each scenario.
"""

from __future__ import annotations

import os

import pytest

from tests.faults.conftest import Trial
from tests.faults.stage import THROUGH

# Every end in the direction where it promises something, two at a time.
ONCE = [
    ("ids", "logged"),
    ("logged", "kafkalog"),
    ("stream", "kafkalog"),
    ("kafka", "kafkalog"),
    ("confluent", "confluentlog"),
    ("mqtt", "logged"),
    ("mqtt311", "hub"),
]
AT_LEAST_ONCE = [("classic", "kafka"), ("kafka", "mqtt"), ("mqtt", "quorum"), ("quorum", "mqtt311")]
BOTH_WAYS = [
    ("classic", "quorum"),
    ("kafka", "kafka"),
    ("confluent", "confluent"),
    ("mqtt", "mqtt"),
]  # one fault hits both directions of a link
BOTH_WAYS_ONCE = [("logged", "logged"), ("kafka", "kafkalog"), ("confluent", "confluentlog"), ("mqtt", "mqtt")]
#: Ways whose two ends are killed in other tests of every run: here with each other, or at every step of a batch.
MATRIX = {
    "kill-agent": {("logged", "kafkalog"), ("stream", "kafkalog"), ("mqtt", "logged"), *AT_LEAST_ONCE[2:]},
    "kill-broker": {("ids", "quorum"), ("confluent", "confluentlog")},
    "drain-agent": {("confluent", "confluent")},
    "wire": {("confluent", "confluent")},
    "half-wire": {("confluent", "confluentlog")},
    "restart-broker": {("confluent", "confluent")},
}

_SOURCES = ("classic", "quorum", "stream", "ids", "logged", "kafka", "confluent", "mqtt", "mqtt311")
_TARGETS = ("classic", "quorum", "logged", "kafka", "kafkalog", "confluent", "confluentlog", "mqtt", "mqtt311")
INBOUND = [(end, "hub") for end in _SOURCES]
OUTBOUND = [("hub", end) for end in _TARGETS]

ROUNDS = int(os.environ.get("MGW_FAULT_ROUNDS") or 15)


#: From link to link in one job: what is promised once, and what at least once.
THROUGH_ONCE = [
    ("kafka", "kafkalog"),
    ("confluent", "confluentlog"),
    ("logged", "logged"),
    ("ids", "kafkalog"),
    ("mqtt", "logged"),
    ("stream", "kafkalog"),
]
# Not MQTT to Kafka: its messages have no key, and order is kept within a partition only.
THROUGH_AGAIN = [("classic", "mqtt"), ("kafka", "quorum"), ("mqtt", "quorum"), ("mqtt", "mqtt")]
_QUICK = {("kafka", "kafkalog"), ("classic", "mqtt")}


def _through(fault: str, ways: list[tuple[str, str]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("source", "target"),
        [
            pytest.param(
                *way, id=f"{fault}-{way[0]}-through-{way[1]}", marks=[] if way in _QUICK else [pytest.mark.matrix]
            )
            for way in ways
        ],
    )


def _named(fault: str, ways: list[tuple[str, str]]) -> pytest.MarkDecorator:
    rare = MATRIX.get(fault, ())
    parameters = [
        pytest.param(*way, id=f"{fault}-{way[0]}-to-{way[1]}", marks=[pytest.mark.matrix] if way in rare else [])
        for way in ways
    ]
    return pytest.mark.parametrize(("source", "target"), parameters)


@_named("kill-agent", ONCE + AT_LEAST_ONCE)
def test_killing_the_agent_loses_nothing(trial: Trial, source: str, target: str) -> None:
    trial(source, target, "kill_agent", times=3, messages=3000)


@_named("drain-agent", BOTH_WAYS)
def test_an_agent_that_was_asked_to_end_leaves_nothing_to_repeat(trial: Trial, source: str, target: str) -> None:
    verdict = trial(source, target, "terminate_agent", messages=2000)
    assert verdict.duplicated == 0, verdict.explain()


@_named("wire", [("kafka", "kafka"), ("confluent", "confluent"), ("classic", "hub")])
def test_cutting_and_stalling_the_wire_loses_nothing(trial: Trial, source: str, target: str) -> None:
    trial(source, target, "cut_wire", "cut_wire", "stall_wire", messages=2000)


@_named("half-wire", BOTH_WAYS_ONCE)
def test_a_wire_open_in_one_direction_only_loses_nothing(trial: Trial, source: str, target: str) -> None:
    trial(source, target, "cut_wire", "half_open_wire", "deaf_wire", messages=2000)


@_named("restart-broker", BOTH_WAYS)
def test_restarting_the_broker_loses_nothing(trial: Trial, source: str, target: str) -> None:
    trial(source, target, "restart_broker", messages=2000)


@_named("kill-broker", [*BOTH_WAYS_ONCE, ("ids", "quorum")])
def test_killing_the_broker_loses_nothing(trial: Trial, source: str, target: str) -> None:
    trial(source, target, "kill_broker", messages=2000)


@_through("kill-agent", THROUGH_ONCE + THROUGH_AGAIN)
def test_killing_the_agent_of_a_job_from_link_to_link_loses_nothing(trial: Trial, source: str, target: str) -> None:
    trial(THROUGH + source, target, "kill_agent", times=3, messages=3000)


@_through("kill-broker", THROUGH_ONCE + THROUGH_AGAIN)
def test_killing_the_broker_of_a_job_from_link_to_link_loses_nothing(trial: Trial, source: str, target: str) -> None:
    trial(THROUGH + source, target, "kill_broker", messages=2000)


@_through("wire", THROUGH_ONCE + THROUGH_AGAIN)
def test_cutting_the_wire_of_a_job_from_link_to_link_loses_nothing(trial: Trial, source: str, target: str) -> None:
    trial(THROUGH + source, target, "cut_wire", "cut_wire", "stall_wire", messages=2000)


@_through("drain-agent", [("classic", "mqtt"), ("mqtt", "quorum")])
def test_a_job_from_link_to_link_that_was_asked_to_end_leaves_nothing_to_repeat(
    trial: Trial, source: str, target: str
) -> None:
    verdict = trial(THROUGH + source, target, "terminate_agent", messages=2000)
    assert verdict.duplicated == 0, verdict.explain()


@pytest.mark.long
@pytest.mark.timeout(7200)
@_named("long-kill-agent", INBOUND + OUTBOUND + AT_LEAST_ONCE + ONCE)
def test_killing_the_agent_many_times_loses_nothing(trial: Trial, source: str, target: str) -> None:
    trial(source, target, "kill_agent", times=ROUNDS, messages=10_000, rate=4000)


@pytest.mark.long
@pytest.mark.timeout(7200)
@_named("long-wire", INBOUND + OUTBOUND)
def test_cutting_and_stalling_the_wire_many_times_loses_nothing(trial: Trial, source: str, target: str) -> None:
    trial(
        source,
        target,
        *["cut_wire"] * 6,
        "stall_wire",
        "half_open_wire",
        "deaf_wire",
        times=max(1, ROUNDS // 8),
        messages=10_000,
        rate=4000,
    )


@pytest.mark.long
@pytest.mark.timeout(7200)
@_named("long-broker", [*INBOUND, *OUTBOUND])
def test_restarting_and_killing_the_broker_many_times_loses_nothing(trial: Trial, source: str, target: str) -> None:
    trial(source, target, "restart_broker", "kill_broker", times=max(1, ROUNDS // 8), messages=5000)
