"""What became of records that were published together: one future for many records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kafka import TopicPartition, errors
from kafka.producer.future import FutureProduceResult

__all__ = ["Run", "Sent", "Stored", "coordinates"]


class Stored(NamedTuple):
    """Where a record is."""

    topic_partition: TopicPartition
    offset: int


class Run(NamedTuple):
    """Records that were published together and are neighbours in a record batch."""

    future: FutureProduceResult  # of the record batch
    first: int  # place of the first one in the record batch
    places: Sequence[int]  # what was published as number ... is the next record

    def failures(self) -> list[BaseException | None]:
        """Why each record was not stored; empty where all were. The record batch is done."""
        if self.future.exception is not None:
            return [self.future.exception] * len(self.places)
        _, _, failure_of = self.future.value
        if failure_of is None:
            return []
        return [failure_of(place) for place in range(self.first, self.first + len(self.places))]

    @property
    def offset(self) -> int:
        """Of the first record, which was stored; -1 where the server did not say it."""
        base: int = self.future.value[0]
        return base if base < 0 else base + self.first

    def part(self, first: int, end: int, start: int, future: FutureProduceResult) -> Run:
        """The records of this run that another record batch has now, which took ``first`` to ``end`` of the old one.

        ``start``: place of ``first`` in the other batch.
        """
        low, high = max(first, self.first), min(end, self.first + len(self.places))
        return Run(future, start + low - first, self.places[low - self.first : max(low, high) - self.first])


class Sent:
    """What became of records that were published together and went to one record batch. Like a future of the client.

    The client may divide a batch that the server found too large; then there are several runs.
    """

    __slots__ = ("_exception", "_watchers", "count", "runs", "topic_partition")

    def __init__(self, topic_partition: TopicPartition, run: Run) -> None:
        self.topic_partition = topic_partition
        self.runs = [run]
        self.count = len(run.places)
        self._watchers: list[Callable[[object], object]] = []
        self._exception: BaseException | None = None

    @property
    def is_done(self) -> bool:
        """Whether all of it is decided."""
        return all(run.future.is_done for run in self.runs)

    @property
    def exception(self) -> BaseException | None:
        """Why a record was not stored, if one was not: the first reason that says more than that another was refused.

        None as long as it is not decided.
        """
        if self._exception is None and self.is_done:
            failures = [failure for run in self.runs for failure in run.failures() if failure is not None]
            telling = (failure for failure in failures if type(failure) is not errors.KafkaError)
            self._exception = next(telling, failures[0] if failures else None)
        return self._exception

    @property
    def value(self) -> Stored:
        """Where the last record is; all are stored."""
        run = self.runs[-1]
        offset = run.offset
        return Stored(self.topic_partition, offset if offset < 0 else offset + len(run.places) - 1)

    def stored(self) -> list[int]:
        """The numbers under which those were published that are stored for sure by now."""
        found: list[int] = []
        for run in self.runs:
            if run.future.is_done:
                failures = run.failures() or [None] * len(run.places)
                found += [place for place, failure in zip(run.places, failures, strict=True) if failure is None]
        return found

    def add_both(self, watcher: Callable[[object], object]) -> None:
        """Call ``watcher`` once when all of it is decided."""
        self._watchers.append(watcher)
        self._watch(self.runs)

    def divide(self, run: Run, parts: Sequence[Run]) -> None:
        """These runs take the place of one."""
        self.runs = [each for one in self.runs for each in (parts if one is run else (one,))]
        if self._watchers:
            self._watch(parts)

    def _watch(self, runs: Sequence[Run]) -> None:
        for run in runs:
            run.future.add_both(self._look)

    def _look(self, _: object) -> None:
        if self.is_done:
            watchers, self._watchers = self._watchers, []
            for watcher in watchers:
                watcher(self)


def coordinates(sent: Sequence[Sent], count: int) -> tuple[list[str], list[int]]:
    """Where ``count`` records are that were all stored: what their coordinates begin with, and their offsets."""
    beginnings, offsets = [""] * count, [-1] * count
    for each in sent:
        beginning = f"{each.topic_partition.topic}/{each.topic_partition.partition}@"
        for run in each.runs:
            first = run.offset
            for step, place in enumerate(run.places):
                beginnings[place] = beginning
                if first >= 0:
                    offsets[place] = first + step
    return beginnings, offsets
