"""Worker processes of an agent are killed while messages move: others take their place, nothing is lost or doubled."""

from __future__ import annotations

import os
import random
import signal
import uuid

import pytest

from tests.faults.conftest import Trial
from tests.faults.injuries import Injuries
from tests.faults.scenes import Scene
from tests.faults.verdict import Verdict
from tests.support.brokers import PostgreSQL
from tests.support.processes import children_of
from tests.support.waiting import eventually

WORKERS = 2


def kill_worker(injuries: Injuries) -> None:
    """SIGKILL of one of them, whichever lives."""

    def killed() -> bool:
        alive = children_of(injuries.stage.agent.pid or 0)
        if not alive:
            return False
        os.kill(random.choice(alive), signal.SIGKILL)
        return True

    eventually(killed, what="a worker", tolerate=(ProcessLookupError,))


def spread(scene: Scene) -> None:
    """The agent has workers from its next start on."""
    scene.stage.gateway.admin.set_agent_option("DEFAULT_AGENT", "workers", WORKERS)
    scene.stage.start()


def killed(scene: Scene) -> Verdict:
    """Workers are killed, then the whole agent, then a worker again."""
    spread(scene)
    plan = scene.plan(kill_worker, kill_worker, "kill_agent", kill_worker)
    verdict = scene.oracle.run(plan, scene.stage.recover, messages=3000)
    assert scene.stage.said().count("was ended by SIGKILL; another process takes its place") >= 3
    return verdict


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("ids", "kafkalog"),
        pytest.param("kafka", "logged", marks=pytest.mark.matrix),
        pytest.param("mqtt", "mqtt", marks=pytest.mark.matrix),
        pytest.param("classic", "classic", marks=pytest.mark.matrix),
    ],
)
def test_killed_workers_lose_and_double_nothing(trial: Trial, source: str, target: str) -> None:
    trial.play(source, target, killed)


@pytest.mark.matrix  # a test of the workers kills one on PostgreSQL, too
def test_killed_workers_on_postgresql_lose_and_double_nothing(trial: Trial, postgresql_of_our_own: PostgreSQL) -> None:
    trial.play("ids", "logged", killed, url=lambda: postgresql_of_our_own.create_database(f"f{uuid.uuid4().hex[:8]}"))
