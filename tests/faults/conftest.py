"""Brokers for the fault tests (they are killed, so nobody else may use them), seeds, and the table of verdicts."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mgw.links.contract import Guarantee
from tests.faults.scenes import Fault, Plot, Scene, keep_seed, kept_seeds
from tests.faults.stage import Brokers
from tests.faults.verdict import Verdict
from tests.support.brokers import PostgreSQL

#: Each verdict as text, and its faults, acknowledged, lost and duplicated messages.
_told: list[tuple[str, int, int, int, int]] = []
SEED = int(os.environ.get("MGW_FAULT_SEED") or random.SystemRandom().randrange(1_000_000))
os.environ["MGW_FAULT_SEED"] = str(SEED)  # where the processes that share the tests take it from


@pytest.fixture(scope="session")
def brokers() -> Iterator[Brokers]:
    """Servers of the fault tests alone."""
    made = Brokers()
    yield made
    made.close()


@pytest.fixture(scope="session")
def postgresql_of_our_own() -> Iterator[PostgreSQL]:
    """Restarted by the tests, so nobody else may use it."""
    with PostgreSQL() as server:
        yield server


class Trial:
    """Plays a scenario, with the seed of this run and with every seed kept for it, and judges each time.

    ``trial("classic", "hub", "kill_agent", times=3, messages=2000)`` injects faults while messages move;
    ``trial.play(source, target, act)`` leaves to ``act`` what happens.
    """

    def __init__(self, scenario: str, folder: Path, brokers: Brokers) -> None:
        self._scenario = scenario
        self._folder = folder
        self._brokers = brokers

    def __call__(
        self,
        source: str,
        target: str,
        *faults: Fault,
        times: int = 1,
        messages: int = 2000,
        url: Callable[[], str] | None = None,
        rate: float = 2500,
        launched: Callable[[Path], dict[str, object]] | None = None,
    ) -> Verdict:
        def act(scene: Scene) -> Verdict:
            scene.stage.start()
            return scene.oracle.run(scene.plan(*faults, times=times), scene.stage.recover, messages=messages)

        return self.play(source, target, act, url=url, rate=rate, launched=launched)

    def play(
        self,
        source: str,
        target: str,
        act: Callable[[Scene], Verdict],
        *,
        url: Callable[[], str] | None = None,
        rate: float = 2500,
        batch_size: int | None = None,
        launched: Callable[[Path], dict[str, object]] | None = None,
    ) -> Verdict:
        """Play it once for each seed. Returns the verdict on the seed of this run.

        Args:
            source, target: see :mod:`tests.faults.ways`.
            act: what happens.
            url: gives a new hub each time; default: a SQLite file.
            rate: messages a second at most.
            batch_size: of the jobs; default: drawn.
            launched: given a folder, the faults inside every agent process (see :mod:`tests.faults.launched`).
        """
        verdicts = []
        for number, seed in enumerate(dict.fromkeys((SEED, *kept_seeds(self._scenario)))):
            folder = self._folder / f"run{number}"
            folder.mkdir()
            address = url() if url is not None else f"sqlite:///{folder}/hub.db"
            inside = launched(folder) if launched is not None else {}
            plot = Plot(self._scenario, seed, source, target, address, rate, batch_size, inside)
            try:
                verdicts.append(_play(plot, folder, self._brokers, act))
            except Exception:
                keep_seed(self._scenario, seed)
                raise
        return verdicts[0]


def _play(plot: Plot, folder: Path, brokers: Brokers, act: Callable[[Scene], Verdict]) -> Verdict:
    with Scene(plot, folder, brokers) as scene:
        verdict = act(scene)
        levels = scene.stage.guarantees()
        verdict = replace(
            verdict, levels=tuple(levels[job] for job in scene.way.jobs), suppressed=scene.stage.suppressed()
        )
        faults = sum(count for _, count in verdict.faults)
        _told.append((str(verdict), faults, verdict.acknowledged, verdict.lost, verdict.duplicated))
        print(verdict)
        _check(verdict, scene)
        return verdict


def _check(verdict: Verdict, scene: Scene) -> None:
    """Nothing lost, no internal error, the promised levels, and nothing twice where they exclude it."""
    agent = scene.stage.agent
    assert verdict.good, f"{verdict.explain()}\n{agent.tail()}"
    said = scene.stage.said()
    assert not [line for line in said.splitlines() if "Traceback" in line or "internal" in line], said
    assert verdict.levels == tuple(scene.way.levels.values()), f"{verdict.explain()}\n{agent.tail()}"
    broker_hurt = any("broker" in name for name, _ in verdict.faults)
    once = {Guarantee.EXACT} if broker_hurt else {Guarantee.EXACT, Guarantee.EXACT_UNLESS_BROKER_CRASH}
    if set(scene.way.levels.values()) <= once:
        assert verdict.duplicated == 0, f"{verdict.explain()}\n{agent.tail()}"


def scenario_of(item: pytest.Item) -> str:
    """The scenario of a test is named after its parameters."""
    return item.name.partition("[")[2].rstrip("]") or item.name


@pytest.fixture
def trial(request: pytest.FixtureRequest, brokers: Brokers, tmp_path: Path) -> Trial:
    """Plays the scenario of this test."""
    return Trial(scenario_of(request.node), tmp_path, brokers)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The long form only on request; time in proportion where kept seeds are played, too."""
    for item in items:
        if "faults" in item.nodeid and (kept := kept_seeds(scenario_of(item))):
            item.add_marker(pytest.mark.timeout(float(config.getini("timeout")) * (1 + len(kept))))
    if "long" in (config.option.markexpr or ""):
        return
    left_out = [item for item in items if item.get_closest_marker("long") and "faults" in item.nodeid]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A process that played only some of the tests gives what it found to the one that reports."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["verdicts"] = _told


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """What another process found."""
    _told.extend(getattr(node, "workeroutput", {}).get("verdicts", ()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was proven, for the record."""
    if not _told:
        return
    terminalreporter.section(f"fault verdicts, MGW_FAULT_SEED={SEED}")
    for text, *_ in _told:
        terminalreporter.write_line(text)
    faults, acknowledged, lost, duplicated = (sum(each) for each in list(zip(*_told, strict=True))[1:])
    terminalreporter.write_line(
        f"total: {faults} faults, {acknowledged} messages, {lost} lost, {duplicated} duplicated"
    )
