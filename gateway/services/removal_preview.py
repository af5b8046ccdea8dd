"""What hangs on an object that somebody wants to remove: what uses it."""

from __future__ import annotations

from dataclasses import dataclass

from mgw.gateway.aq import Hub, is_of_job
from mgw.gateway.config.forms import hub_name
from mgw.gateway.config.queue_users import QueueUser, users_of_queues
from mgw.gateway.definitions.objects import JobDef, ScheduleDef, key
from mgw.gateway.services.admin import GatewayAdmin

__all__ = ["User", "users_of"]


@dataclass(frozen=True, slots=True)
class User:
    """What uses an object.

    Attributes:
        section: ``foreign_queues``, ``jobs`` or ``subscribers``; of the old style, where the other half of a job is
            missing, ``old_subscribers`` or ``old_schedules``.
        told: how, in words.
        stays: the object cannot go before it.
    """

    section: str
    name: str
    told: str
    stays: bool = True


def users_of(hub: Hub, section: str, name: str) -> list[User]:
    """What uses an object, in the order in which it would have to go."""
    admin = GatewayAdmin(hub)
    if section == "jobs":
        return []
    if section == "links":
        jobs = [job for job in admin.list_subscribers() if job.uses_link(name)]
        queues = [each for each in admin.list_foreign_queues() if each.link.upper() == name.upper()]
        return [
            *(_user(job, "which carries messages over it") for job in jobs),
            *(_alone(each, "of messages over it") for each in _schedules(admin) if key(each.link) == key(name)),
            *(User("foreign_queues", f"{each.name}@{each.link}", "foreign queue at it") for each in queues),
        ]
    if section == "queues":
        with hub.read() as conn:
            used = users_of_queues(conn, [name])
        return [
            *(_of_queue(each) for each in used),
            *(
                User("subscribers", each.name, "subscriber, whose messages go with it", stays=False)
                for each in admin.aq.queue_subscribers(name)
                if each.name and not is_of_job(each.name)
            ),
        ]
    wanted = hub_name(name)
    found = [
        _user(job, f"of which it is the {end.replace('_', ' ')}")
        for job in admin.list_subscribers()
        for end in ("source", "destination", "exception_queue")
        if (place := getattr(job, end)) is not None and hub_name(place) == wanted
    ]
    return found + [
        _alone(schedule, f"of which it is the {end}")
        for schedule in _schedules(admin)
        for end in ("source", "destination")
        if hub_name(getattr(schedule, end)) == wanted
    ]


def _of_queue(user: QueueUser) -> User:
    section = {"subscriber": "old_subscribers", "schedule": "old_schedules"}.get(user.kind, "jobs")
    half = {"subscriber": "subscriber without a schedule", "schedule": "schedule without a subscriber"}
    return User(section, user.name, f"{half.get(user.kind, user.kind)}, of which it is the {user.end}")


def _user(job: JobDef, told: str) -> User:
    if job.schedule is not None:
        return User("jobs", job.name, f"job, {told}")
    return User("old_subscribers", job.name, f"subscriber without a schedule, {told}")


def _schedules(admin: GatewayAdmin) -> list[ScheduleDef]:
    """The schedules without a subscriber; the others are part of jobs."""
    parts = {key(job.schedule) for job in admin.list_jobs() if job.schedule is not None}
    return [each for each in admin.list_schedules() if key(each.name) not in parts]


def _alone(schedule: ScheduleDef, told: str) -> User:
    return User("old_schedules", schedule.name, f"schedule without a subscriber, {told}")
