"""Subscribers and schedules of the old style at an earlier moment: what they were then, and what differs today.

Both halves of a job of the old style have names and changes of their own, and a job that is made of them may be altered
as a job as well. So they are gone back to as halves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa

from mgw.gateway.config.forms import hub_name
from mgw.gateway.definitions.objects import key
from mgw.gateway.state import catalog
from mgw.gateway.state.happened import Audited

__all__ = ["HALVES", "Halves", "Misfit"]

#: Their kinds in the audit.
HALVES = frozenset(("subscriber", "schedule"))
_ENDS = ("propagation_type", "source", "destination")
_OF_SUBSCRIBER = (*_ENDS, "rule", "transformation", "exception_queue", "options")
_OF_JOB = ("require_guarantee", "comments")  # what only a job of both has
_OF_SCHEDULE = (*_ENDS, "latency", "enabled")


@dataclass(frozen=True, slots=True)
class Misfit:
    """A subscriber or schedule that was another one then.

    Attributes:
        then, now: its settings; None: it was not there, is not there.
    """

    kind: str
    name: str
    then: Mapping[str, Any] | None
    now: Mapping[str, Any] | None

    @property
    def told(self) -> str:
        """What happened to it."""
        what = f"{self.kind} {self.name}"
        if self.then is None:
            return f"{what} was added"
        if self.now is None:
            return f"{what} was removed"
        return f"{what} was altered ({', '.join(f'{name}: {_text(self.now.get(name))}' for name in self._changed)})"

    @property
    def cure(self) -> str:
        """How it is brought back."""
        command = f"mgw {self.kind}s"
        if self.then is None:
            return f"{command} remove {self.name}"
        given = {name: value for name, value in self.then.items() if name not in _ENDS}
        if self.now is None:
            kind, source, destination = (self.then.get(each) for each in _ENDS)
            ends = f"--type {str(kind).lower()} --source {source} --destination {destination}"
            rest = ", ".join(f"{name} {_text(value)}" for name, value in given.items())
            return f"{command} create {self.name} {ends}" + (f" (with {rest})" if rest else "")
        return f"set {', '.join(f'{name} of it to {_text(self.then.get(name))}' for name in self._changed)} ({command})"

    @property
    def _changed(self) -> list[str]:
        then, now = self.then or {}, self.now or {}
        return sorted(name for name in {**then, **now} if then.get(name) != now.get(name))


class Halves:
    """The subscribers and schedules of the old style, which go back change by change.

    Attributes:
        jobs_now: the subscribers of today, with or without a schedule, by the names that compare.
        of_schedules: the jobs that schedules of DBMS_HQADM made: they come and go with these.
    """

    def __init__(self, conn: sa.Connection) -> None:
        self._now: dict[tuple[str, str], dict[str, Any]] = {}
        self._names: dict[str, str] = {}
        for job in catalog.list_subscribers(conn):
            if job.old_style and not job.status.leaving:
                self._now["subscriber", key(job.name)] = _known(asdict(job), (*_OF_SUBSCRIBER, *_OF_JOB))
                self._names[key(job.name)] = job.name
        self.jobs_now = frozenset(name for _, name in self._now)
        self.of_schedules = frozenset(key(job.name) for job in catalog.list_jobs(conn) if job.outbound is not None)
        parts = {key(job.schedule) for job in catalog.list_jobs(conn) if job.schedule is not None and not job.old_style}
        for schedule in catalog.list_schedules(conn):
            if key(schedule.name) not in parts:
                self._now["schedule", key(schedule.name)] = _known(asdict(schedule), _OF_SCHEDULE)
                self._names.setdefault(key(schedule.name), schedule.name)
        self._then = dict(self._now)

    def undo(self, each: Audited) -> bool:
        """Go back over one change; whether it was one of these."""
        before, after = each.before_change, each.after_change
        if each.kind in HALVES and each.version is not None:
            self._set(str(each.kind), str((before or after or {}).get("name", each.object)), before)
            return True
        old = before if before is not None else after or {}
        if each.kind != "job" or not old.get("old_style"):
            return False
        name = str(old["name"])
        self._set("subscriber", name, before)
        self._set(
            "schedule",
            str(old["schedule"]),
            None if before is None else {**before, "latency": before.get("poll_interval")},
        )
        if before is not None:
            then = self._then["subscriber", key(name)]
            self._then["subscriber", key(name)] = _known(then, _OF_SUBSCRIBER) | _known(before, _OF_JOB)
        return True

    def misfits(self) -> Iterator[Misfit]:
        """Those that are not now what they were then."""
        for place in sorted({**self._then, **self._now}):
            then, now = self._then.get(place), self._now.get(place)
            if then != now:
                yield Misfit(place[0], self._names.get(place[1], place[1]), then, now)

    def jobs(self) -> dict[str, dict[str, Any]]:
        """The jobs that they made together then, by the name of the subscriber, as :class:`JobModel` takes them."""
        schedules = {_triplet(values): values for (kind, _), values in self._then.items() if kind == "schedule"}
        return {
            self._names.get(name, name): _job(values, schedules[_triplet(values)])
            for (kind, name), values in self._then.items()
            if kind == "subscriber" and _triplet(values) in schedules
        }

    def _set(self, kind: str, name: str, values: Mapping[str, Any] | None) -> None:
        self._names[key(name)] = name
        if values is None:
            self._then.pop((kind, key(name)), None)
            return
        kept = _known(self._then.get((kind, key(name)), {}), _OF_JOB)
        self._then[kind, key(name)] = kept | _known(values, _OF_SUBSCRIBER if kind == "subscriber" else _OF_SCHEDULE)


def _known(values: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Some settings, without what has no value; as the audit has them."""
    found = {name: values.get(name) for name in names}
    return {name: _plain(value) for name, value in found.items() if value is not None and value != {}}


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, str) else dict(value) if isinstance(value, Mapping) else value


def _triplet(values: Mapping[str, Any]) -> tuple[str, ...]:
    return str(values["propagation_type"]), hub_name(values["source"]), hub_name(values["destination"])


def _job(subscriber: Mapping[str, Any], schedule: Mapping[str, Any]) -> dict[str, Any]:
    values = {name: value for name, value in subscriber.items() if name not in ("propagation_type", "comments")}
    return values | {
        "type": subscriber["propagation_type"],
        "comment": subscriber.get("comments"),
        "poll_interval": schedule.get("latency"),
        "enabled": schedule.get("enabled", True),
    }


def _text(value: Any) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
