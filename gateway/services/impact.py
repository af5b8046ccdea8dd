"""What a plan does to jobs that are there: which of them connect again, and how much waits for them meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mgw.gateway.aq import Hub
from mgw.gateway.config.forms import hub_name
from mgw.gateway.config.plan import Action, Verb
from mgw.gateway.definitions.job_options import park_key
from mgw.gateway.definitions.objects import JobDef, key
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.state import status

__all__ = ["Impact", "impact"]

_QUIET = frozenset(("comment",))  # settings that nothing that runs depends on
_FOR_ALL = frozenset(("modules", "rule_functions"))  # every job that calls functions knows all of them


@dataclass(frozen=True, slots=True)
class Impact:
    """A job that drains its batches in flight and goes on with other settings, stops, or is behind one that stops.

    Attributes:
        because: the objects of the plan that it depends on; where it starves, the jobs that stop.
        waiting: messages that wait for it; None: nobody can tell.
        starves: it is left as it is, and gets nothing more from those jobs.
    """

    job: str
    because: tuple[str, ...]
    stops: bool
    waiting: int | None
    starves: bool = False

    def __str__(self) -> str:
        waiting = "an unknown number of messages waits" if self.waiting is None else _waiting(self.waiting)
        if self.starves:
            return f"job {self.job} gets nothing more from {', '.join(self.because)}: {waiting}"
        return f"{'stops' if self.stops else 'restarts'} job {self.job} ({', '.join(self.because)}): {waiting}"


def _waiting(count: int) -> str:
    return f"{count or 'no'} message{' waits' if count <= 1 else 's wait'}"


def impact(hub: Hub, actions: Sequence[Action]) -> list[Impact]:
    """The jobs, by name; those that are disabled already have nothing to lose, and get nothing to do."""
    counting = [action for action in actions if action.changes_hub and _counts(action)]
    if not counting:
        return []
    admin = GatewayAdmin(hub)
    jobs = [job for job in admin.list_jobs() if job.enabled]
    steps = {hub_name(each.name): _steps(each.definition) for each in admin.list_transformations()}
    with hub.read() as conn:
        waiting = {key(row.job_name): row.backlog for row in status.jobs(conn)}
    found = []
    for job in jobs:
        using = [action for action in counting if _uses(job, action, steps)]
        if any(action.verb is Verb.REMOVE and action.section == "jobs" for action in using):
            found.append(Impact(job.name, ("removed",), True, waiting.get(key(job.name))))
        elif using:
            because = tuple(action.object for action in using)
            stops = any(_stops(job, action) for action in using)
            found.append(Impact(job.name, because, stops, waiting.get(key(job.name))))
    told = {each.job: each for each in found}
    ending = [job for job in jobs if job.name in told and told[job.name].stops]
    for job in jobs:
        before = [f"job {each.name}" for each in ending if hub_name(each.destination) == hub_name(job.source)]
        if before and job.name not in told:
            found.append(Impact(job.name, tuple(before), False, waiting.get(key(job.name)), starves=True))
    return sorted(found, key=lambda each: key(each.job))


def _counts(action: Action) -> bool:
    """Whether a step changes what a running job depends on (:class:`mgw.gateway.runtime.job_setup.JobSetup`)."""
    if action.section in _FOR_ALL:
        return True
    if action.verb is Verb.ALTER:
        settings = {change.setting for change in action.changes}
        return "definition" in settings if action.section == "transformations" else bool(settings - _QUIET)
    return action.verb is Verb.REMOVE and action.section == "jobs"  # what else is removed, no job uses


def _stops(job: JobDef, action: Action) -> bool:
    """Whether a job does not go on after that."""
    off = {change.setting for change in action.changes if change.new is False}
    if action.section == "jobs":
        return "enabled" in off
    if action.section != "queues":
        return False
    source, *others = job.hub_queues if not job.propagation_type.from_link else ("", *job.hub_queues)
    reads, writes = hub_name(action.name) == hub_name(source), hub_name(action.name) in map(hub_name, others)
    return (reads and "dequeue" in off) or (writes and "enqueue" in off)


def _uses(job: JobDef, action: Action, steps: Mapping[str, Sequence[str]]) -> bool:
    if action.section == "jobs":
        return key(action.name) == key(job.name)
    if action.section == "links":
        return job.uses_link(action.name)
    if action.section == "queues":
        return _stops(job, action)
    if action.section == "modules":
        return job.transformation is not None
    if action.section == "rule_functions":
        return job.transformation is not None or job.rule is not None or park_key(job.options) is not None
    own = None if job.transformation is None else hub_name(job.transformation)
    chain = () if own is None else (own, *steps.get(own, ()))
    return action.section == "transformations" and hub_name(action.name) in chain


def _steps(definition: Mapping[str, Any]) -> list[str]:
    """The transformations that one is a chain of."""
    steps = definition.get("steps")
    return [hub_name(each) for each in steps if isinstance(each, str)] if isinstance(steps, list | tuple) else []
