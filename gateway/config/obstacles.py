"""What would stop a plan halfway, and can be seen before its first step: above all what no configuration has, so that
no step removes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mgw.gateway.aq import Hub
from mgw.gateway.config.forms import fold_of, hub_name
from mgw.gateway.config.models import Document, JobModel
from mgw.gateway.config.plan import Action, Verb
from mgw.gateway.definitions.objects import AgentStatus, JobDef, Propagation, key
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.admin.job_ends import resolve_ends
from mgw.transforms.errors import GatewayError

__all__ = ["WouldStop", "refuse_obstacles"]


class WouldStop(GatewayError):
    """A plan would be refused halfway."""


@dataclass(frozen=True, slots=True)
class _User:
    """What uses objects of a plan, and is left as it is.

    Attributes:
        cure: how it goes.
        ends: source, destination and any exception queue, as they are written.
        alone: nothing else may read its source.
    """

    told: str
    cure: str
    kind: Propagation
    ends: Sequence[str]
    transformation: str | None = None
    alone: bool = False

    def uses(self, action: Action) -> bool:
        """Whether it needs the object of a step."""
        wanted = fold_of(action.section)(action.name)
        if action.section == "links":
            return wanted in {key(end.rpartition("@")[2]) for end in self.ends if "@" in end}
        if action.section == "transformations":
            return self.transformation is not None and wanted == hub_name(self.transformation)
        return action.section in {"foreign_queues", "queues"} and wanted in map(hub_name, self.ends)

    def excludes(self, job: JobModel) -> bool:
        """Whether a job cannot be made next to it."""
        ends = zip(self.ends, (job.source, job.destination), strict=False)
        source, destination = (hub_name(own) == hub_name(other) for own, other in ends)
        return source and (self.alone or (destination and job.type == self.kind.value))


def refuse_obstacles(hub: Hub, document: Document, actions: Sequence[Action]) -> None:
    """Refuse a plan that removes what something uses that it leaves, or makes a job next to it: schedules of DBMS_HQADM
    with their jobs, and subscribers and schedules of the old style that are no jobs. Also refused is one that removes
    an agent that is not shut down.

    Raises:
        WouldStop: it would stop halfway; nothing was changed.
    """
    removals = [action for action in actions if action.verb is Verb.REMOVE and action.section != "jobs"]
    jobs = [action for action in actions if (action.verb, action.section) == (Verb.CREATE, "jobs")]
    if not removals and not jobs:
        return
    admin = GatewayAdmin(hub)
    found = [*_started(admin, removals)]
    for user in _left(admin):
        if used := [each.object for each in removals if user.uses(each)]:
            found.append((f"{user.told} uses {', '.join(used)}", user.cure))
        elif excluded := [each.object for each in jobs if user.excludes(document.jobs[each.given])]:
            found.append((f"{user.told} has the source of {', '.join(excluded)}", user.cure))
    if found:
        raise WouldStop(
            "nothing was applied: it would stop halfway",
            cause="; ".join(cause for cause, _ in found),
            cure=f"do first: {'; '.join(cure for _, cure in found)}; then try again",
        )


def _started(admin: GatewayAdmin, removals: Sequence[Action]) -> Iterator[tuple[str, str]]:
    """The agents that are to be removed and are not shut down, with the cure."""
    for action in removals:
        if action.section == "agents" and admin.get_agent(action.name) is not None:
            status = admin.agent_state(action.name).status
            if status is not AgentStatus.NOT_STARTED:
                verb = "clean" if status is AgentStatus.BROKEN else "shutdown"
                yield f"{action.object} is {status}", f"mgw agents {verb} {action.name}"


def _left(admin: GatewayAdmin) -> Iterator[_User]:
    """What no configuration has."""
    for job in admin.list_subscribers():
        if job.outbound is not None:
            told = f"schedule of DBMS_HQADM of job {job.name}"
            yield _user(admin, job, told, job.outbound.removal(job.source, job.destination))
        elif job.schedule is None and not job.status.leaving:
            yield _user(admin, job, f"subscriber {job.name}", f"mgw subscribers remove {job.name}")
    parts = {key(job.schedule) for job in admin.list_jobs() if job.schedule is not None}
    for each in admin.list_schedules():
        if key(each.name) not in parts:
            cure = f"mgw schedules remove {each.name}"
            yield _User(f"schedule {each.name}", cure, each.propagation_type, (each.source, each.destination))


def _user(admin: GatewayAdmin, job: JobDef, told: str, cure: str) -> _User:
    ends = [job.source, job.destination, *([job.exception_queue] if job.exception_queue is not None else [])]
    try:
        with admin.hub.read() as conn:
            alone = not resolve_ends(admin, conn, job).topic_source
    except GatewayError:  # it could not be made today
        alone = False
    return _User(told, cure, job.propagation_type, ends, job.transformation, alone)
