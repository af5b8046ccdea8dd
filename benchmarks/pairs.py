"""Variants of one job, measured in turns: what one costs beside another on a machine that others use, too.

Every round runs each variant once, in an order that changes from round to round. A ratio is taken within a round and
the median of the rounds is told, so that a disturbance of seconds or a slow drift of the machine hardly shows. Beside
the rate stands the CPU time of the agent process for a message, which other processes disturb least.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from subprocess import Popen

from benchmarks.processes import Trees

__all__ = ["Measured", "Result", "Watched", "compared", "told"]

HEAD_SHARE = 0.1  # start-up and connecting are not part of a rate


@dataclass(frozen=True, slots=True)
class Measured:
    """One run: messages per second, microseconds of CPU of the agent for a message, what the job promised."""

    rate: float
    cpu: float
    guarantee: str


@dataclass(frozen=True, slots=True)
class Result:
    """A variant: medians of its runs, and of its ratios to the first variant (above 1: faster, cheaper)."""

    name: str
    rate: float
    cpu: float
    rate_ratio: float
    cpu_ratio: float
    spread: tuple[float, float]  # smallest and largest ratio of rates
    guarantee: str


class Watched:
    """Messages and CPU time of an agent and its processes, between the first tenth of the messages and the last."""

    def __init__(self, count: Callable[[], int], total: int, process: Popen[bytes]) -> None:
        self._count = count
        self._total = total
        self._pid = process.pid

    def run(self, deadline: float = 180.0) -> tuple[float, float]:
        """Wait for the messages; messages per second and microseconds of CPU for a message.

        Raises:
            TimeoutError: they do not all come.
        """
        end = time.monotonic() + deadline
        trees = Trees([self._pid])
        start: tuple[float, int, float] | None = None
        while True:
            now, cpu, seen = time.monotonic(), trees.cpu(), self._count()
            if start is None and not seen:
                trees = Trees([self._pid])  # it is still starting
            if start is None and seen >= self._total * HEAD_SHARE:
                start = (now, seen, cpu)
            if seen >= self._total:
                begun, head, before = start or (now, 0, 0.0)
                moved = max(self._total - head, 1)
                return moved / max(now - begun, 1e-9), (cpu - before) / moved * 1e6
            if now > end:
                raise TimeoutError(f"{seen} of {self._total} messages arrived within {deadline:.0f} s")
            time.sleep(0.02)


def compared(variants: Mapping[str, Callable[[], Measured]], rounds: int) -> list[Result]:
    """Run the variants in turns; ratios are to the first one."""
    names = list(variants)
    runs: dict[str, list[Measured]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            runs[name].append(variants[name]())
    base = runs[names[0]]
    return [_result(name, runs[name], base) for name in names]


def _result(name: str, runs: Sequence[Measured], base: Sequence[Measured]) -> Result:
    rates = [run.rate / other.rate for run, other in zip(runs, base, strict=True)]
    costs = [other.cpu / run.cpu for run, other in zip(runs, base, strict=True)]
    return Result(
        name,
        statistics.median(run.rate for run in runs),
        statistics.median(run.cpu for run in runs),
        statistics.median(rates),
        statistics.median(costs),
        (min(rates), max(rates)),
        " / ".join(sorted({run.guarantee for run in runs})),
    )


def told(title: str, results: Sequence[Result]) -> None:
    """Print a table in Markdown."""
    print(f"\n{title}\n")
    print("| Variant | messages/s | ratio (lowest to highest) | agent CPU us/message | ratio | promised |")
    print("|---|---|---|---|---|---|")
    for result in results:
        low, high = result.spread
        print(
            f"| {result.name} | {result.rate:,.0f} | {result.rate_ratio:.2f} ({low:.2f} to {high:.2f}) "
            f"| {result.cpu:.1f} | {result.cpu_ratio:.2f} | {result.guarantee} |",
            flush=True,
        )
