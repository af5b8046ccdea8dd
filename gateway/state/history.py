"""Statements on the history of jobs: what happened in each interval, in three grains, so that it stays small.

A row covers the time from ``begun`` to ``ended``; what no row covers, nobody knows: no agent ran. A job with nothing
new gets one row for minutes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import sqlalchemy as sa

from mgw.gateway.aq import Db

__all__ = ["Interval", "Sample", "add", "between", "coarsen", "finer", "mean_of", "prune", "samples"]


@dataclass(frozen=True, slots=True)
class Sample:
    """What the hub says of a job at one moment."""

    id: int
    name_key: str
    propagation_type: str
    enabled: bool
    status: str
    activity: str
    failures: int
    backlog: int | None  # of jobs that read from a link
    oldest: float | None  # epoch seconds; of jobs that read from a link
    propagated_total: int
    exceptioned_total: int
    filtered_total: int
    discarded_total: int


@dataclass(frozen=True, slots=True)
class Interval:
    """What a job did in an interval, and how it was at its end. Times are epoch seconds, durations seconds.

    Attributes:
        grain: seconds that rows of this kind cover at most, about.
        failures: attempts that failed.
        batches: that were read or planned.
        bytes: of their bodies.
        stored, confirmed, origin: how long a batch took on average from the read until it was stored, from there until
            it was confirmed, and from the birth of its first message until it was confirmed; None: none did.
        backlog: messages that waited at the end; None: not known.
        oldest: for which the oldest of them had waited.
    """

    job_id: int
    begun: float
    ended: float
    grain: int
    moved: int
    exceptioned: int
    filtered: int
    discarded: int
    failures: int
    batches: int
    bytes: int
    stored: float | None
    confirmed: float | None
    origin: float | None
    backlog: int | None
    oldest: float | None
    enabled: bool
    status: str
    activity: str

    @property
    def seconds(self) -> float:
        """How long it is."""
        return max(0.0, self.ended - self.begun)


_Kind = TypeVar("_Kind", Sample, Interval)

_SAMPLE = ", ".join(field.name for field in fields(Sample))
_SAMPLES = f"SELECT {_SAMPLE} FROM gw_job j JOIN gw_job_state s ON s.job_id = j.id WHERE j.agent_key = ?"
_COLUMNS = tuple(field.name for field in fields(Interval))
_NAMES = ", ".join(_COLUMNS)
_JOBS = "SELECT id FROM gw_job"
_ADD = (
    f"INSERT INTO gw_job_history ({_NAMES}) VALUES ({', '.join('?' * len(_COLUMNS))}) "
    "ON CONFLICT (job_id, begun) DO NOTHING"
)
_BETWEEN = f"""SELECT {_NAMES} FROM gw_job_history WHERE job_id = (SELECT id FROM gw_job WHERE name_key = ?)
    AND ended > ? AND begun < ? ORDER BY begun"""
_FINER = f"""SELECT {", ".join(f"h.{name}" for name in _COLUMNS)} FROM gw_job_history h
     JOIN gw_job j ON j.id = h.job_id
    WHERE j.agent_key = ? AND h.grain < ? AND h.begun < ? ORDER BY h.job_id, h.begun LIMIT ?"""
_DELETE = "DELETE FROM gw_job_history WHERE job_id = ? AND begun = ?"
_PRUNE = """DELETE FROM gw_job_history WHERE (job_id, begun) IN (SELECT h.job_id, h.begun FROM gw_job_history h
     JOIN gw_job j ON j.id = h.job_id WHERE j.agent_key = ? AND h.ended < ? LIMIT ?)"""


def mean_of(rows: Iterable[Interval], name: str) -> float | None:
    """The mean of ``stored``, ``confirmed`` or ``origin``, in which each row counts for its batches; None: none is
    known."""
    known = [(value, max(1, row.batches)) for row in rows if (value := getattr(row, name)) is not None]
    return sum(value * weight for value, weight in known) / sum(weight for _, weight in known) if known else None


def samples(conn: sa.Connection, agent_key: str) -> list[Sample]:
    """The jobs of an agent as they are now."""
    return [_read(Sample, row) for row in Db(conn).rows(_SAMPLES, (agent_key,))]


def _read(kind: type[_Kind], row: Iterable[Any]) -> _Kind:
    """A row of this kind; a flag is a number in one of the databases."""
    values = dict(zip((each.name for each in fields(kind)), row, strict=True))
    return kind(**values | {"enabled": bool(values["enabled"])})


def add(conn: sa.Connection, intervals: Iterable[Interval]) -> None:
    """Write intervals; those of jobs that do not exist any more are left out."""
    db = Db(conn)
    known = {job_id for (job_id,) in db.rows(_JOBS)}
    for each in intervals:
        if each.job_id in known:
            _add(db, each)


def _add(db: Db, interval: Interval) -> None:
    db.run(_ADD, tuple(_stored(getattr(interval, name)) for name in _COLUMNS))


def _stored(value: object) -> object:
    return int(value) if isinstance(value, bool) else value


def between(conn: sa.Connection, name_key: str, since: float, until: float) -> list[Interval]:
    """The intervals of a job that have a part of this time, in order."""
    return [_read(Interval, row) for row in Db(conn).rows(_BETWEEN, (name_key, since, until))]


def finer(conn: sa.Connection, agent_key: str, grain: int, before: float, limit: int) -> list[Interval]:
    """Intervals of an agent's jobs of a finer grain that began before a moment, by job and in order."""
    return [_read(Interval, row) for row in Db(conn).rows(_FINER, (agent_key, grain, before, limit))]


def coarsen(conn: sa.Connection, old: Sequence[Interval], new: Interval) -> None:
    """Put one interval in the place of several."""
    db = Db(conn)
    for each in old:
        db.run(_DELETE, (each.job_id, each.begun))
    _add(db, new)


def prune(conn: sa.Connection, agent_key: str, *, before: float, limit: int) -> int:
    """Delete what ended before a moment; how many rows."""
    return Db(conn).run(_PRUNE, (agent_key, before, limit))
