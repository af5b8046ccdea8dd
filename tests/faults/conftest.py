"""Brokers for the fault tests (they are killed, so nobody else may use them), seeds, and the table of verdicts."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.injuries import Fault, Injuries
from tests.faults.oracle import Oracle, Verdict
from tests.faults.stage import Brokers, Stage

Trial = Callable[..., Verdict]

_verdicts: list[Verdict] = []
SEED = int(os.environ.get("MGW_FAULT_SEED") or random.SystemRandom().randrange(1_000_000))


@pytest.fixture(scope="session")
def brokers() -> Iterator[Brokers]:
    """Servers of the fault tests alone."""
    made = Brokers()
    yield made
    made.close()


@pytest.fixture
def trial(request: pytest.FixtureRequest, brokers: Brokers, tmp_path: Path) -> Trial:
    """Runs a scenario and returns its verdict: ``trial("classic", "hub", "kill_agent", times=3, messages=2000)``."""

    def run(
        source: str,
        target: str,
        *faults: Fault,
        times: int = 1,
        messages: int = 2000,
        url: str | None = None,
        rate: float = 2500,
    ) -> Verdict:
        scenario = request.node.name.partition("[")[2].rstrip("]") or request.node.name
        rng = random.Random(f"{SEED}:{scenario}:faults")
        address = url or f"sqlite:///{tmp_path}/hub.db"
        with Stage(address, tmp_path / "stage", brokers, batch_size=rng.choice((10, 30, 200))) as stage:
            way = stage.way(source, target)
            stage.start()
            oracle = Oracle(scenario, SEED, way.feed, way.outlet, stage.carried, rate=rate)
            injuries = Injuries(stage, way, oracle.publisher, rng)
            verdict = oracle.run(injuries.plan(*faults, times=times), stage.recover, messages=messages)
            verdict = replace(verdict, levels=tuple(stage.guarantees()[job] for job in way.jobs))
            _verdicts.append(verdict)
            print(verdict)
            assert verdict.good, f"{verdict.explain()}\n{stage.agent.tail()}"
            broken = [line for line in stage.agent.text().splitlines() if "Traceback" in line or "internal" in line]
            assert not broken, stage.agent.text()
            _check_levels(stage.guarantees(), verdict)
            return verdict

    return run


def _check_levels(levels: Mapping[str, str], verdict: Verdict) -> None:
    """Where every job on the way promises more than at least once, nothing may come twice."""
    broker_hurt = any("broker" in name for name, _ in verdict.faults)
    exact = {"exact"} if broker_hurt else {"exact", "exact-unless-broker-crash"}
    if set(levels.values()) <= exact:
        assert verdict.duplicated == 0, f"{levels}: {verdict.explain()}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The long form only on request."""
    if "long" in (config.option.markexpr or ""):
        return
    left_out = [item for item in items if item.get_closest_marker("long") and "faults" in item.nodeid]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was proven, for the record."""
    if not _verdicts:
        return
    terminalreporter.section(f"fault verdicts, MGW_FAULT_SEED={SEED}")
    for verdict in _verdicts:
        terminalreporter.write_line(str(verdict))
    faults = sum(count for verdict in _verdicts for _, count in verdict.faults)
    acknowledged = sum(verdict.acknowledged for verdict in _verdicts)
    lost = sum(len(verdict.missing) for verdict in _verdicts)
    duplicated = sum(verdict.duplicated for verdict in _verdicts)
    terminalreporter.write_line(
        f"total: {faults} faults, {acknowledged} messages, {lost} lost, {duplicated} duplicated"
    )
