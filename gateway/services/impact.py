"""What a plan does to jobs that are there: which of them connect again, and how much waits for them meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mgw.gateway.aq import Hub
from mgw.gateway.config.forms import hub_name
from mgw.gateway.config.plan import Action, Verb
from mgw.gateway.definitions.objects import JobDef, key
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.state import status

__all__ = ["Impact", "impact"]

_QUIET = frozenset(("comment",))  # settings that nothing that runs depends on


@dataclass(frozen=True, slots=True)
class Impact:
    """A job that drains its batches in flight and goes on with other settings, or stops.

    Attributes:
        because: the objects of the plan that it depends on.
        waiting: messages that wait for it; None: nobody can tell.
    """

    job: str
    because: tuple[str, ...]
    stops: bool
    waiting: int | None

    def __str__(self) -> str:
        waiting = "an unknown number of messages waits" if self.waiting is None else _waiting(self.waiting)
        return f"{'stops' if self.stops else 'restarts'} job {self.job} ({', '.join(self.because)}): {waiting}"


def _waiting(count: int) -> str:
    return f"{count or 'no'} message{' waits' if count <= 1 else 's wait'}"


def impact(hub: Hub, actions: Sequence[Action]) -> list[Impact]:
    """The jobs, by name; those that are disabled already have nothing to lose."""
    altered = [action for action in actions if action.verb is Verb.ALTER and _counts(action)]
    removed = {key(action.name) for action in actions if action.verb is Verb.REMOVE and action.section == "jobs"}
    if not altered and not removed:
        return []
    jobs = [job for job in GatewayAdmin(hub).list_jobs() if job.enabled]
    with hub.read() as conn:
        waiting = {key(row.job_name): row.backlog for row in status.jobs(conn)}
    found = []
    for job in sorted(jobs, key=lambda job: key(job.name)):
        reasons = tuple(action.object for action in altered if _uses(job, action))
        gone = key(job.name) in removed
        if gone or reasons:
            because = ("removed",) if gone else reasons
            stops = gone or any(_disables(job, action) for action in altered)
            found.append(Impact(job.name, because, stops, waiting.get(key(job.name))))
    return found


def _counts(action: Action) -> bool:
    return any(change.setting not in _QUIET for change in action.changes)


def _disables(job: JobDef, action: Action) -> bool:
    own = action.section == "jobs" and key(action.name) == key(job.name)
    return own and any((change.setting, change.new) == ("enabled", False) for change in action.changes)


def _uses(job: JobDef, action: Action) -> bool:
    if action.section == "jobs":
        return key(action.name) == key(job.name)
    if action.section == "links":
        return job.uses_link(action.name)
    return action.section == "transformations" and any(
        hub_name(action.name) == hub_name(each) for each in _transformations(job)
    )


def _transformations(job: JobDef) -> Iterator[str]:
    if job.transformation is not None:
        yield job.transformation
