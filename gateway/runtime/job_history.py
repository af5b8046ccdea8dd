"""Writes the history of an agent's jobs: what each did since the last look, one transaction for all, and only news."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from mgw.gateway.aq import Hub
from mgw.gateway.observe.measures import Histogram, JobMeasures, Measured
from mgw.gateway.state import history, status
from mgw.gateway.state.history import Interval, Sample
from mgw.transforms.clock import Clock

__all__ = ["GRAINS", "LOOK_SECONDS", "JobHistory", "merge_old", "merged"]

LOOK_SECONDS = 15.0  # between two looks: the finest grain
QUIET_SECONDS = 300.0  # what one row of a job covers at most that has nothing new
#: Seconds that a row covers, and the age from which its rows are of that grain.
GRAINS: tuple[tuple[int, float], ...] = ((300, 3 * 3600.0), (3600, 24 * 3600.0))


@dataclass(frozen=True, slots=True)
class _Point:
    """A job at one moment, all that is counted included."""

    time: float
    sample: Sample
    backlog: int | None
    oldest: float | None
    batches: int
    bytes: int
    stages: Mapping[str, tuple[int, float]]  # how many batches, and their seconds together

    def alike(self, other: _Point) -> bool:
        """Whether nothing is new."""
        mine, theirs = (replace(each.sample, oldest=None) for each in (self, other))
        return mine == theirs and (self.backlog, self.batches) == (other.backlog, other.batches)


class JobHistory:
    """Of the jobs of one agent. One thread calls."""

    def __init__(self, hub: Hub, agent_key: str, clock: Clock) -> None:
        self._hub = hub
        self._agent_key = agent_key
        self._clock = clock
        self._points: dict[int, _Point] = {}
        self._covered: dict[int, float] = {}  # until when each job has rows

    def record(self, measured: Measured) -> None:
        """Look at the jobs, and write what has happened since the last look.

        Raises:
            HubError: the hub does not answer; the next look covers this one.
        """
        now = self._clock.now()
        with self._hub.read() as conn:
            samples = history.samples(conn, self._agent_key)
            held = status.held_for_jobs(conn, self._agent_key)
        points = {each.id: _point(each, now, measured, held) for each in samples}
        written: list[Interval] = []
        covered: dict[int, float] = {}
        for job_id, point in points.items():
            before = self._points.get(job_id)
            if before is None or before.time >= now or point.sample.propagated_total < before.sample.propagated_total:
                covered[job_id] = now  # it is new, or the clock was set back
            else:
                rows, covered[job_id] = _since(before, point, self._covered[job_id])
                written += rows
        if written:
            with self._hub.write(durable=False) as conn:
                history.add(conn, written)
        self._points, self._covered = points, covered


def merge_old(conn: sa.Connection, agent_key: str, grain: int, *, before: float, limit: int) -> int:
    """Merge rows of an agent's jobs that began before a moment into rows of a coarser grain; how many were looked at:
    fewer than ``limit``, and no more are left."""
    before = before // grain * grain
    rows = history.finer(conn, agent_key, grain, before, limit)
    groups = _groups(rows, grain)
    if len(rows) == limit and len(groups) > 1:
        groups.pop()  # which may go on
    for group in groups:
        history.coarsen(conn, group, merged(group, grain))
    return len(rows)


def _since(before: _Point, point: _Point, covered: float) -> tuple[list[Interval], float]:
    """The rows for what happened between two looks, and until when the job has rows then."""
    begun = max(before.time, point.time - 2 * LOOK_SECONDS)  # nobody looked at what lies before that
    news = not point.alike(before) or begun > before.time
    rows = []
    if news:
        if before.time > covered:  # nothing new, and not written yet
            rows.append(_interval(before, before, covered))
        rows.append(_interval(before, point, begun))
        return rows, point.time
    if point.time - covered >= QUIET_SECONDS:
        return [_interval(before, point, covered)], point.time
    return [], covered


def _point(sample: Sample, now: float, measured: Measured, held: Mapping[str, tuple[int, float | None]]) -> _Point:
    backlog, oldest = sample.backlog, None if sample.oldest is None else max(0.0, now - sample.oldest)
    if sample.name_key in held:
        backlog, oldest = held[sample.name_key]
    found = measured.jobs.get((sample.name_key, sample.propagation_type.lower()), JobMeasures())
    stages = {name: _sum(stage) for name, stage in found.stages.items()}
    return _Point(now, sample, backlog, oldest, found.batches.count, found.bytes, stages)


def _sum(histogram: Histogram) -> tuple[int, float]:
    return histogram.count, histogram.sum


def _interval(before: _Point, point: _Point, begun: float) -> Interval:
    """What happened between two looks; what was counted since a start of the agent may have begun again at 0."""
    old, new = before.sample, point.sample
    again = point.batches < before.batches
    failures = new.failures - old.failures
    means = (_mean((0, 0.0) if again else before.stages[name], stage) for name, stage in point.stages.items())
    stored, confirmed, origin = means
    return Interval(
        new.id,
        begun,
        point.time,
        round(LOOK_SECONDS),
        max(0, new.propagated_total - old.propagated_total),
        max(0, new.exceptioned_total - old.exceptioned_total),
        max(0, new.filtered_total - old.filtered_total),
        max(0, new.discarded_total - old.discarded_total),
        failures if failures >= 0 else new.failures,  # they begin again after a recovery
        point.batches - (0 if again else before.batches),
        point.bytes - (0 if again else before.bytes),
        stored,
        confirmed,
        origin,
        point.backlog,
        point.oldest,
        new.enabled,
        new.status,
        new.activity,
    )


def _mean(before: tuple[int, float], now: tuple[int, float]) -> float | None:
    count = now[0] - before[0]
    return max(0.0, now[1] - before[1]) / count if count > 0 else None


def _groups(rows: Sequence[Interval], grain: int) -> list[list[Interval]]:
    """The rows that become one each."""
    found: dict[tuple[int, int], list[Interval]] = {}
    for row in rows:
        found.setdefault((row.job_id, int(row.begun // grain)), []).append(row)
    return list(found.values())


def merged(rows: Sequence[Interval], grain: int) -> Interval:
    """Intervals of a job in one; its end is that of the last."""
    return replace(
        rows[-1],
        begun=rows[0].begun,
        grain=grain,
        moved=sum(row.moved for row in rows),
        exceptioned=sum(row.exceptioned for row in rows),
        filtered=sum(row.filtered for row in rows),
        discarded=sum(row.discarded for row in rows),
        failures=sum(row.failures for row in rows),
        batches=sum(row.batches for row in rows),
        bytes=sum(row.bytes for row in rows),
        stored=history.mean_of(rows, "stored"),
        confirmed=history.mean_of(rows, "confirmed"),
        origin=history.mean_of(rows, "origin"),
    )
