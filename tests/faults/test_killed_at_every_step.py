"""The agent is killed at every named step of a route, at a batch that is known beforehand, and started again.

What lies between two steps is a window: at the steps where the hub, or the destination, has a batch that the other side
does not know of, the next process must recognise it, where the job promises more than at least once.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from functools import partial

import pytest

from tests.faults.conftest import Trial
from tests.faults.launched import INBOUND_STEPS, OUTBOUND_STEPS, THROUGH_STEPS
from tests.faults.scenes import Scene
from tests.faults.stage import THROUGH, Stage
from tests.faults.verdict import Verdict
from tests.support.waiting import eventually

EACH = 300  # messages published for each step
BATCH = 30

#: Ends whose receiving log lets everything come again and recognises it; positions let nothing come again.
RECOGNISING = {"ids", "logged", "mqtt", "mqtt311"}
AFTER_THE_COMMIT = {"committed", "before-settle"}


def _ends(direction: str, *, short: Sequence[str], long: Sequence[str]) -> pytest.MarkDecorator:
    rare = [pytest.mark.long, pytest.mark.timeout(600)]
    ends = [(end, ()) for end in short] + [(end, rare) for end in long]
    return pytest.mark.parametrize(
        "end", [pytest.param(end, id=f"steps-{end}-{direction}", marks=marks) for end, marks in ends]
    )


def _killed_at(steps: Sequence[str], scene: Scene, recognised: set[str]) -> Verdict:
    """Play it; at the steps in ``recognised`` something must come again, or be about to be sent again, and be known."""
    stage, publisher = scene.stage, scene.oracle.publisher
    owed = ""  # the step at which a batch was cut off that is still to be recognised
    for number, step in enumerate(steps):
        known = stage.suppressed()
        stage.agent.start(kill=[step, scene.rng.randint(1, 2)])
        if number == 0:
            stage.await_activated()  # a topic job must be subscribed before something is published
        elif owed:
            _await_recognition(stage, known, owed)
        publisher.some(EACH)
        eventually(lambda: _killed(scene), deadline=60, what="an agent that is killed")
        assert stage.agent.exit_code == -signal.SIGKILL, stage.agent.tail()
        if stage.suppressed() > known:
            owed = ""
        if step in recognised:
            owed = step
    known = stage.suppressed()
    stage.agent.start()
    if owed:
        _await_recognition(stage, known, owed)
        assert stage.suppressed() > known, stage.agent.tail()
    return scene.oracle.conclude([(f"kill at {step}", 1) for step in steps], stage.recover)


def _killed(scene: Scene) -> bool:
    """Whether it is over; what waits may go at once, so that only what comes later reaches a step a second time."""
    if scene.stage.agent.exit_code is not None:
        return True
    scene.oracle.publisher.some(1)
    return False


def _await_recognition(stage: Stage, known: int, step: str) -> None:
    """Or the end of the process: it may be killed in the midst of the recovery, which the next one has to do then."""
    eventually(
        lambda: stage.suppressed() > known or stage.agent.exit_code is not None or stage.reset_retrying(),
        deadline=60,
        what=f"the batch that was cut off at step {step} coming again and being recognised",
    )


@_ends("in", short=["stream", "ids", "logged", "kafka", "mqtt"], long=["classic", "confluent", "mqtt311"])
def test_killed_at_any_step_inbound_nothing_is_lost(trial: Trial, end: str) -> None:
    recognised = AFTER_THE_COMMIT if end in RECOGNISING else set()
    verdict = trial.play(end, "hub", lambda scene: _killed_at(INBOUND_STEPS, scene, recognised), batch_size=BATCH)
    if end == "classic":
        assert verdict.duplicated >= BATCH, "the window of a job without a receiving log was not hit"


@_ends("out", short=["logged", "kafkalog", "mqtt"], long=["classic", "kafka", "confluent", "confluentlog", "mqtt311"])
def test_killed_at_any_step_outbound_nothing_is_lost(trial: Trial, end: str) -> None:
    logged = end in {"logged", "kafkalog", "confluentlog"}
    recognised = {"confirmed", "before-commit"} if logged else set()
    verdict = trial.play("hub", end, lambda scene: _killed_at(OUTBOUND_STEPS, scene, recognised), batch_size=BATCH)
    if not logged:
        assert verdict.duplicated >= BATCH, "the window of a job without a sending log was not hit"


@pytest.mark.parametrize(
    ("source", "target"),
    [
        pytest.param("kafka", "kafkalog", id="steps-kafka-through-kafkalog"),
        pytest.param("confluent", "confluentlog", id="steps-confluent-through-confluentlog", marks=pytest.mark.matrix),
        pytest.param("logged", "logged", id="steps-logged-through-logged"),
        pytest.param("ids", "kafkalog", id="steps-ids-through-kafkalog", marks=pytest.mark.matrix),
        pytest.param("mqtt", "logged", id="steps-mqtt-through-logged", marks=pytest.mark.matrix),
        pytest.param("stream", "logged", id="steps-stream-through-logged", marks=pytest.mark.matrix),
        pytest.param("kafka", "mqtt", id="steps-kafka-through-mqtt", marks=pytest.mark.matrix),
        pytest.param("classic", "kafka", id="steps-classic-through-kafka", marks=pytest.mark.matrix),
    ],
)
def test_killed_at_any_step_from_link_to_link_nothing_is_lost(trial: Trial, source: str, target: str) -> None:
    logged = target in {"logged", "kafkalog", "confluentlog"}
    recognised = {"confirmed", "before-commit"} if logged else set()
    if source in RECOGNISING:
        recognised |= {"completed", "before-settle"}
    act = partial(_killed_at, THROUGH_STEPS, recognised=recognised)
    verdict = trial.play(THROUGH + source, target, act, batch_size=BATCH)
    if not logged:
        assert verdict.duplicated >= BATCH, "the window of a job without a sending log was not hit"
