"""What would stop a plan halfway, and can be seen before its first step: users of what it removes that no step removes,
because no configuration has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mgw.gateway.aq import Hub
from mgw.gateway.config.forms import fold_of, hub_name
from mgw.gateway.config.plan import Action, Verb
from mgw.gateway.definitions.objects import key
from mgw.gateway.services.admin import GatewayAdmin
from mgw.transforms.errors import GatewayError

__all__ = ["WouldStop", "refuse_obstacles"]


class WouldStop(GatewayError):
    """A plan would be refused halfway."""


@dataclass(frozen=True, slots=True)
class _User:
    """What uses objects of a plan, and is left as it is.

    Attributes:
        cure: how it goes.
        ends: foreign queues and queues of the hub, as they are written.
    """

    told: str
    cure: str
    ends: Sequence[str]
    transformation: str | None = None

    def uses(self, action: Action) -> bool:
        """Whether it needs the object of a step."""
        wanted = fold_of(action.section)(action.name)
        if action.section == "links":
            return wanted in {key(end.rpartition("@")[2]) for end in self.ends if "@" in end}
        if action.section == "transformations":
            return self.transformation is not None and wanted == hub_name(self.transformation)
        return action.section in {"foreign_queues", "queues"} and wanted in map(hub_name, self.ends)


def refuse_obstacles(hub: Hub, actions: Sequence[Action]) -> None:
    """Refuse a plan that removes what something uses that it leaves: schedules of DBMS_HQADM with their jobs, and
    subscribers and schedules of the old style that are no jobs.

    Raises:
        WouldStop: it does; nothing was changed.
    """
    removals = [action for action in actions if action.verb is Verb.REMOVE and action.section != "jobs"]
    if not removals:
        return
    used = [(user, [each.object for each in removals if user.uses(each)]) for user in _left(GatewayAdmin(hub))]
    causes = [f"{user.told} uses {', '.join(objects)}" for user, objects in used if objects]
    if causes:
        cures = [user.cure for user, objects in used if objects]
        raise WouldStop(
            "nothing was applied: what would be removed is in use",
            cause="; ".join(causes),
            cure=f"do first: {'; '.join(cures)}; then try again",
        )


def _left(admin: GatewayAdmin) -> Iterator[_User]:
    """The users that no configuration has."""
    for job in admin.list_subscribers():
        ends = [end for end in (job.source, job.destination, job.exception_queue) if end is not None]
        if job.outbound is not None:
            told = f"schedule of DBMS_HQADM of job {job.name}"
            yield _User(told, job.outbound.removal(job.source, job.destination), ends, job.transformation)
        elif job.schedule is None and not job.status.leaving:
            told = f"subscriber {job.name}"
            yield _User(told, f"mgw subscribers remove {job.name}", ends, job.transformation)
    parts = {key(job.schedule) for job in admin.list_jobs() if job.schedule is not None}
    for schedule in admin.list_schedules():
        if key(schedule.name) not in parts:
            told = f"schedule {schedule.name}"
            yield _User(told, f"mgw schedules remove {schedule.name}", [schedule.source, schedule.destination])
