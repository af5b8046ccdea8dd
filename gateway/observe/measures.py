"""What the jobs of a process measured since its agent started, for metrics: sizes and durations of batches.

Each count costs one addition a batch, never one a message. A job's numbers are written by the thread that drives its
route, and its durations by the one that stores a batch; what threads share has a lock. Any thread may read.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

__all__ = [
    "BATCH_BOUNDS",
    "SECONDS_BOUNDS",
    "STAGES",
    "TRANSACTIONS",
    "Histogram",
    "JobMeasures",
    "LinkMeasures",
    "Measured",
    "Measures",
    "Told",
    "kept",
    "merged",
]

#: Upper bounds of the buckets for numbers of messages.
BATCH_BOUNDS: Final = (1, 3, 10, 30, 100, 300, 1000, 3000, 10000)
#: Upper bounds of the buckets for seconds.
SECONDS_BOUNDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5, 30, 300)
#: What is timed of a batch; docs/reference/http.md says where each begins and ends.
STAGES: Final = ("read_to_stored", "stored_to_confirmed", "origin_to_confirmed")
#: Kinds of transactions of the hub.
TRANSACTIONS: Final = ("store", "complete", "plan", "lease")

#: Numbers by what was measured (``job 12``, ``link RABBIT``, ``hub store``), each an addition to those of another
#: process: what a worker says to its supervisor.
Told = dict[str, list[float]]

_JOB, _LINK, _HUB = "job ", "link ", "hub "


class Histogram:
    """Counts values by size. One thread writes.

    Attributes:
        bounds: largest value of each bucket; one more bucket has what is larger.
        counts: values in each bucket.
        sum: of all values.
    """

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value; a negative one, from a clock that was set back, as 0."""
        value = max(value, 0.0)
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        """Values in all buckets."""
        return sum(self.counts)

    def told(self) -> list[float]:
        """Counts and sum."""
        return [*self.counts, self.sum]

    def take(self, numbers: Iterator[float]) -> None:
        """Become what was told."""
        self.counts = [int(next(numbers)) for _ in self.counts]
        self.sum = next(numbers)


class JobMeasures:
    """Of one job.

    Attributes:
        bytes: of the bodies of messages that were read or planned.
        resent: messages that were written again.
        batches: numbers of messages of batches that were read or planned.
        stages: seconds that batches took, by stage.
    """

    __slots__ = ("batches", "bytes", "resent", "stages")

    def __init__(self) -> None:
        self.bytes = 0
        self.resent = 0
        self.batches = Histogram(BATCH_BOUNDS)
        self.stages = {stage: Histogram(SECONDS_BOUNDS) for stage in STAGES}

    def came(self, messages: int, weight: int) -> None:
        """A batch was read or planned; ``weight``: bytes of its bodies."""
        if messages:
            self.bytes += weight
            self.batches.observe(messages)

    def took(self, stage: str, begun: float, ended: float) -> None:
        """A batch took from ``begun`` to ``ended`` (epoch seconds); not counted where one of them is 0: not known."""
        if begun > 0 and ended > 0:
            self.stages[stage].observe(ended - begun)

    def told(self) -> list[float]:
        """All numbers, in a fixed order."""
        numbers = [self.bytes, self.resent, *self.batches.told()]
        for histogram in self.stages.values():
            numbers += histogram.told()
        return numbers

    @classmethod
    def of(cls, told: Iterable[float]) -> JobMeasures:
        """What was told."""
        made, numbers = cls(), iter(told)
        made.bytes, made.resent = int(next(numbers)), int(next(numbers))
        for histogram in (made.batches, *made.stages.values()):
            histogram.take(numbers)
        return made


@dataclass(slots=True)
class LinkMeasures:
    """Of one link: how often a job connected to it, and how often one failed at it."""

    connects: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Measured:
    """What an agent measured.

    Attributes:
        jobs: by name and propagation type, in the order of the definitions.
        links: by name.
        transactions: seconds that transactions of the hub took, by kind.
    """

    jobs: Mapping[tuple[str, str], JobMeasures] = field(default_factory=dict)
    links: Mapping[str, LinkMeasures] = field(default_factory=dict)
    transactions: Mapping[str, Histogram] = field(default_factory=dict)

    @classmethod
    def of(cls, told: Told, jobs: Mapping[int, tuple[str, str]], links: Collection[str]) -> Measured:
        """What was told, as far as it is of these jobs (by their ids) and links."""
        names = {f"{_JOB}{job_id}": name for job_id, name in jobs.items()}
        transactions = {kind: Histogram(SECONDS_BOUNDS) for kind in TRANSACTIONS if f"{_HUB}{kind}" in told}
        for kind, histogram in transactions.items():
            histogram.take(iter(told[f"{_HUB}{kind}"]))
        return cls(
            {name: JobMeasures.of(told[what]) for what, name in names.items() if what in told},
            {name: LinkMeasures(*map(int, told[f"{_LINK}{name}"])) for name in links if f"{_LINK}{name}" in told},
            transactions,
        )


class Measures:
    """Of all jobs in a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[int, JobMeasures] = {}
        self._links: dict[str, LinkMeasures] = {}
        self._transactions: dict[str, Histogram] = {}

    def job(self, job_id: int) -> JobMeasures:
        """Those of a job; the same as long as the job exists."""
        with self._lock:
            return self._jobs.setdefault(job_id, JobMeasures())

    def transaction(self, kind: str, seconds: float) -> None:
        """A transaction of the hub took so long, waiting for its turn included."""
        with self._lock:
            if kind not in self._transactions:
                self._transactions[kind] = Histogram(SECONDS_BOUNDS)
            self._transactions[kind].observe(seconds)

    def connected(self, link: str) -> None:
        """A job connected to a link."""
        with self._lock:
            self._links.setdefault(link, LinkMeasures()).connects += 1

    def failed(self, link: str) -> None:
        """A job failed at a link."""
        with self._lock:
            self._links.setdefault(link, LinkMeasures()).failures += 1

    def keep(self, jobs: Collection[int]) -> None:
        """Forget jobs that do not exist any more."""
        with self._lock:
            for job_id in self._jobs.keys() - set(jobs):
                del self._jobs[job_id]

    def told(self) -> Told:
        """All of it."""
        with self._lock:
            found: Told = {f"{_JOB}{job_id}": job.told() for job_id, job in self._jobs.items()}
            found |= {f"{_LINK}{name}": [link.connects, link.failures] for name, link in self._links.items()}
            found |= {f"{_HUB}{kind}": histogram.told() for kind, histogram in self._transactions.items()}
            return found


def kept(told: Told, jobs: Collection[int]) -> Told:
    """What was told, without jobs that do not exist any more."""
    names = {f"{_JOB}{job_id}" for job_id in jobs}
    return {what: numbers for what, numbers in told.items() if what in names or not what.startswith(_JOB)}


def merged(parts: Iterable[Told]) -> Told:
    """What several processes told, added up."""
    found: Told = {}
    for part in parts:
        for what, numbers in part.items():
            before = found.get(what)
            found[what] = [*numbers] if before is None else [a + b for a, b in zip(before, numbers, strict=True)]
    return found
