"""What hangs on an object that somebody wants to remove: what uses it."""

from __future__ import annotations

from dataclasses import dataclass

from mgw.gateway.aq import Hub
from mgw.gateway.config.forms import hub_name
from mgw.gateway.services.admin import GatewayAdmin

__all__ = ["User", "users_of"]


@dataclass(frozen=True, slots=True)
class User:
    """What uses an object: ``link``, ``foreign_queues``, ``jobs`` or ``subscribers``.

    Attributes:
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
        jobs = [job for job in admin.list_jobs() if job.uses_link(name)]
        queues = [each for each in admin.list_foreign_queues() if each.link.upper() == name.upper()]
        return [
            *(User("jobs", job.name, "job, which carries messages over it") for job in jobs),
            *(User("foreign_queues", f"{each.name}@{each.link}", "foreign queue at it") for each in queues),
        ]
    wanted = hub_name(name)
    found = [
        User("jobs", job.name, f"job, of which it is the {end.replace('_', ' ')}")
        for job in admin.list_jobs()
        for end in ("source", "destination", "exception_queue")
        if (place := getattr(job, end)) is not None and hub_name(place) == wanted
    ]
    if section == "queues":
        found += [
            User("subscribers", each.name, "subscriber, whose messages go with it", stays=False)
            for each in admin.aq.queue_subscribers(name)
            if each.name and not each.name.upper().startswith("MGW_")
        ]
    return found
