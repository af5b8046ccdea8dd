"""A scene: one way through a gateway, an oracle on it and a dice, everything of them from one seed; and kept seeds."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.injuries import Fault, Injuries
from tests.faults.oracle import Oracle
from tests.faults.stage import Brokers

__all__ = ["Fault", "Plot", "Scene", "keep_seed", "kept_seeds"]

_KEPT = Path(__file__).with_name("seeds.txt")


@dataclass(frozen=True, slots=True)
class Plot:
    """What is played: a scenario with a seed, on a hub, from source to target (see :mod:`tests.faults.ways`).

    ``rate``: messages a second at most. ``batch_size`` of the jobs, None: drawn. ``faults``: inside every agent
    process, see :mod:`tests.faults.launched`.
    """

    scenario: str
    seed: int
    source: str
    target: str
    url: str
    rate: float = 2500
    batch_size: int | None = None
    faults: Mapping[str, object] = field(default_factory=dict)


class Scene:
    """A plot on a stage; a context manager."""

    def __init__(self, plot: Plot, folder: Path, brokers: Brokers) -> None:
        self.plot = plot
        self.folder = folder
        self.rng = random.Random(f"{plot.seed}:{plot.scenario}:faults")
        drawn = self.rng.choice((10, 30, 200))
        batch_size = plot.batch_size or drawn
        stage = self.stage = brokers.stage(plot.url, folder / "stage", batch_size=batch_size, faults=plot.faults)
        try:
            way = self.way = stage.way(plot.source, plot.target)
        except BaseException:
            stage.close()
            raise
        self.oracle = Oracle(
            plot.scenario,
            plot.seed,
            way.feed,
            way.outlet,
            stage.carried,
            rate=plot.rate,
            twins=way.twins,
            identified=way.identified,
        )

    def __enter__(self) -> Scene:
        return self

    def __exit__(self, *_: object) -> None:
        self.stage.close()

    def plan(self, *faults: Fault, times: int = 1) -> Callable[[], Sequence[tuple[str, int]]]:
        """See :meth:`tests.faults.injuries.Injuries.plan`."""
        return Injuries(self.stage, self.way, self.oracle.publisher, self.rng).plan(*faults, times=times)


def kept_seeds(scenario: str) -> list[int]:
    """Seeds with which the scenario failed once."""
    found = []
    for line in _KEPT.read_text().splitlines():
        seed, _, name = line.partition("#")[0].strip().partition(" ")
        if name.strip() == scenario:
            found.append(int(seed))
    return found


def keep_seed(scenario: str, seed: int) -> None:
    """Write down that the scenario failed with the seed."""
    if seed not in kept_seeds(scenario):
        with _KEPT.open("a") as file:
            file.write(f"{seed} {scenario}\n")
