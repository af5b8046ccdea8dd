"""Whatever is killed, cut or restarted while messages move: nothing is lost, and the order of each source is kept.

The short form runs with every test; the long one (``make test-faults``) kills MGW_FAULT_ROUNDS times in each scenario.
"""

from __future__ import annotations

import os

import pytest

from tests.faults.conftest import Trial

# Every end in the direction where it promises something, two at a time.
ONCE = [
    ("ids", "logged"),
    ("logged", "kafkalog"),
    ("stream", "kafkalog"),
    ("kafka", "kafkalog"),
    ("mqtt", "logged"),
    ("mqtt311", "hub"),
]
AT_LEAST_ONCE = [("classic", "kafka"), ("kafka", "mqtt"), ("mqtt", "quorum"), ("quorum", "mqtt311")]
BOTH_WAYS = [("classic", "quorum"), ("kafka", "kafka"), ("mqtt", "mqtt")]  # one fault hits both directions of a link
BOTH_WAYS_ONCE = [("logged", "logged"), ("kafka", "kafkalog"), ("mqtt", "mqtt")]

INBOUND = [(end, "hub") for end in ("classic", "quorum", "stream", "ids", "logged", "kafka", "mqtt", "mqtt311")]
OUTBOUND = [("hub", end) for end in ("classic", "quorum", "logged", "kafka", "kafkalog", "mqtt", "mqtt311")]

ROUNDS = int(os.environ.get("MGW_FAULT_ROUNDS") or 15)


def _named(fault: str, ways: list[tuple[str, str]]) -> pytest.MarkDecorator:
    parameters = [pytest.param(*way, id=f"{fault}-{way[0]}-to-{way[1]}") for way in ways]
    return pytest.mark.parametrize(("source", "target"), parameters)


@_named("kill-agent", ONCE + AT_LEAST_ONCE)
def test_killing_the_agent_loses_nothing(trial: Trial, source: str, target: str) -> None:
    trial(source, target, "kill_agent", times=3, messages=3000)


@_named("drain-agent", BOTH_WAYS)
def test_an_agent_that_was_asked_to_end_leaves_nothing_to_repeat(trial: Trial, source: str, target: str) -> None:
    verdict = trial(source, target, "terminate_agent", messages=2000)
    assert verdict.duplicated == 0, verdict.explain()


@_named("wire", [("kafka", "kafka"), ("classic", "hub")])
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
