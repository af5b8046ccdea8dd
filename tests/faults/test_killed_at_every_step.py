"""The agent is killed at every named step of a route, at a batch that is known beforehand, and started again.

What lies between two steps is a window: at the steps where the hub, or the destination, has a batch that the other side
does not know of, the next process must recognise it, where the job promises more than at least once.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence

import pytest

from tests.faults.conftest import Trial
from tests.faults.launched import INBOUND_STEPS, OUTBOUND_STEPS
from tests.faults.scenes import Scene
from tests.faults.stage import Stage
from tests.faults.verdict import Verdict
from tests.support.waiting import eventually

EACH = 300  # messages published for each step
BATCH = 30

#: Ends whose receiving log lets everything come again and recognises it; positions let nothing come again.
RECOGNISING = {"ids", "logged", "mqtt", "mqtt311"}
AFTER_THE_COMMIT = {"committed", "before-settle"}


def _killed_at(steps: Sequence[str], scene: Scene, recognised: set[str]) -> Verdict:
    """Play it; at the steps in ``recognised`` something must come again, or be about to be sent again, and be known."""
    stage, publisher = scene.stage, scene.oracle.publisher
    before = None  # the step at which the process before this one was killed
    for step in steps:
        known = stage.suppressed()
        stage.agent.start(kill=[step, scene.rng.randint(1, 2)])
        if before is None:
            stage.await_activated()  # a topic job must be subscribed before something is published
        elif before in recognised:
            _await_recognition(stage, known, before)
        publisher.some(EACH)
        eventually(lambda: stage.agent.exit_code is not None, deadline=60, what="an agent that is killed")
        assert stage.agent.exit_code == -signal.SIGKILL, stage.agent.tail()
        before = step
    stage.agent.start()
    return scene.oracle.conclude([(f"kill at {step}", 1) for step in steps], stage.recover)


def _await_recognition(stage: Stage, known: int, step: str) -> None:
    eventually(
        lambda: stage.suppressed() > known or stage.reset_retrying(),
        deadline=60,
        what=f"the batch that was cut off at step {step} coming again and being recognised",
    )


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(end, id=f"steps-{end}-in")
        for end in ("classic", "stream", "ids", "logged", "kafka", "mqtt", "mqtt311")
    ],
)
def test_killed_at_any_step_inbound_nothing_is_lost(trial: Trial, source: str) -> None:
    recognised = AFTER_THE_COMMIT if source in RECOGNISING else set()
    verdict = trial.play(source, "hub", lambda scene: _killed_at(INBOUND_STEPS, scene, recognised), batch_size=BATCH)
    if source == "classic":
        assert verdict.duplicated >= BATCH, "the window of a job without a receiving log was not hit"


@pytest.mark.parametrize(
    "target",
    [
        *(pytest.param(end, id=f"steps-{end}-out") for end in ("logged", "kafkalog", "mqtt")),
        *(pytest.param(end, id=f"steps-{end}-out", marks=pytest.mark.long) for end in ("classic", "kafka")),
    ],
)
def test_killed_at_any_step_outbound_nothing_is_lost(trial: Trial, target: str) -> None:
    logged = target in {"logged", "kafkalog"}
    recognised = {"confirmed", "before-commit"} if logged else set()
    verdict = trial.play("hub", target, lambda scene: _killed_at(OUTBOUND_STEPS, scene, recognised), batch_size=BATCH)
    if not logged:
        assert verdict.duplicated >= BATCH, "the window of a job without a sending log was not hit"
