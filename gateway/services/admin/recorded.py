"""Objects as the audit keeps them: their definition, with the names of their secrets in the place of these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from mgw.gateway.definitions.objects import split_foreign
from mgw.gateway.state import catalog
from mgw.gateway.state.catalog.text import ENCRYPTED
from mgw.gateway.state.secrets import Secrets
from mgw.transforms.errors import ConfigInvalid

__all__ = ["OF_A_SCHEDULE", "RENEWED", "SECRETS", "Seen", "changes", "look"]

#: Keys of an entry: which secrets the object has, and which of them are others than before.
SECRETS, RENEWED = "secrets", "renewed"
#: Key of a job: a schedule of DBMS_HQADM made it, with which it comes and goes.
OF_A_SCHEDULE = "of_a_schedule"
#: Of a job: not what somebody defined, or only for one of the old style.
_RUN_STATE = ("id", "status", "resets", "agent", "link", "old_style", "schedule", "outbound")
_OF_SCHEDULE = ("enabled", "poll_interval", "require_guarantee", "comments")  # not of a subscriber


@dataclass(frozen=True, slots=True)
class Seen:
    """An object at one moment.

    Attributes:
        values: its settings, as the audit shows them.
        secrets: in clear text by the key that they have; never shown, they only tell whether one was changed.
    """

    values: Mapping[str, Any]
    secrets: Mapping[str, str | None] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """As it was defined."""
        return str(self.values["name"])


def look(conn: sa.Connection, kind: str, name: str, secrets: Secrets) -> Seen | None:
    """An object as it is now; None: there is none, or its removal was asked for.

    Args:
        kind: ``agent``, ``link``, ``foreign queue``, ``transformation``, ``job``, ``subscriber``, ``schedule``,
            ``outbound schedule``; of others there is nothing to see.
    """
    seen = _LOOKS.get(kind)
    return None if seen is None else seen(conn, name, secrets)


def changes(before: Seen | None, after: Seen | None) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
    """What the audit keeps of an object before and after a change."""
    old, new = (None if each is None else _shown(each) for each in (before, after))
    if before is not None and after is not None and new is not None:
        renewed = sorted(name for name in after.secrets if after.secrets[name] != before.secrets.get(name))
        if renewed:
            new = {**new, RENEWED: renewed}
    return old, new


def _shown(seen: Seen) -> dict[str, Any]:
    shown = {name: value for name, value in seen.values.items() if value is not None and value != {}}
    return {**shown, SECRETS: sorted(seen.secrets)} if seen.secrets else shown


def _agent(conn: sa.Connection, name: str, secrets: Secrets) -> Seen | None:
    agent = catalog.get_agent(conn, name)
    if agent is None:
        return None
    options = catalog.list_agent_options(conn, name, None)
    found: dict[str, str | None] = {}
    try:
        password = catalog.agent_password(conn, name, secrets)
        clear = {each.name: each.value for each in catalog.list_agent_options(conn, name, secrets)}
    except ConfigInvalid:  # a key is lost: whether it was changed is not known
        password, clear = None, {}
    if password is not None:
        found["password"] = password
    found |= {f"options.{each.name}": clear.get(each.name) for each in options if each.encrypted}
    plain = {each.name: each.value for each in options if not each.encrypted}
    return Seen(asdict(agent) | {"options": plain}, found)


def _link(conn: sa.Connection, name: str, secrets: Secrets) -> Seen | None:
    link = catalog.get_link(conn, name)
    if link is None:
        return None
    try:
        clear = catalog.get_link(conn, name, secrets) or link
    except ConfigInvalid:
        clear = link
    values = asdict(link)
    found: dict[str, str | None] = {} if clear.password is None else {"password": clear.password}
    del values["password"]
    for part in ("attributes", "options"):
        for key, value in list(values[part].items()):
            if value == ENCRYPTED:
                del values[part][key]
                found[f"{part}.{key}"] = str(getattr(clear, part)[key])
    return Seen(values, found)


def _foreign_queue(conn: sa.Connection, name: str, _: Secrets) -> Seen | None:
    parts = split_foreign(name)
    queue = None if parts is None else catalog.get_foreign_queue(conn, *parts)
    return None if queue is None else Seen(asdict(queue) | {"name": f"{queue.name}@{queue.link}"})


def _transformation(conn: sa.Connection, name: str, _: Secrets) -> Seen | None:
    found = catalog.get_transformation(conn, name)
    return None if found is None else Seen(asdict(found))


def _job(conn: sa.Connection, name: str, _: Secrets) -> Seen | None:
    job = catalog.get_job(conn, name)
    if job is None or job.status.leaving:
        return None
    values = {name: value for name, value in asdict(job).items() if name not in _RUN_STATE}
    if job.outbound is not None:
        return Seen(values | {OF_A_SCHEDULE: True})
    return Seen(values | ({"old_style": True, "schedule": job.schedule} if job.old_style else {}))


def _subscriber(conn: sa.Connection, name: str, _: Secrets) -> Seen | None:
    job = catalog.get_subscriber(conn, name)
    if job is None or job.status.leaving:
        return None
    return Seen({name: value for name, value in asdict(job).items() if name not in (*_RUN_STATE, *_OF_SCHEDULE)})


def _schedule(conn: sa.Connection, name: str, _: Secrets) -> Seen | None:
    schedule = catalog.find_schedule(conn, name)
    return None if schedule is None else Seen(asdict(schedule))


def _outbound_schedule(conn: sa.Connection, name: str, _: Secrets) -> Seen | None:
    job = catalog.get_job(conn, name)
    if job is None or job.status.leaving or job.outbound is None:
        return None
    values = {each: value for each, value in asdict(job.outbound).items() if each != "window"}
    values["start_time"] = f"{datetime.fromtimestamp(job.outbound.start_time, UTC):%Y-%m-%dT%H:%M:%SZ}"
    return Seen({"name": job.name, "queue_name": job.source, "destination": job.destination} | values)


_LOOKS: dict[str, Callable[[sa.Connection, str, Secrets], Seen | None]] = {
    "agent": _agent,
    "link": _link,
    "foreign queue": _foreign_queue,
    "transformation": _transformation,
    "job": _job,
    "subscriber": _subscriber,
    "schedule": _schedule,
    "outbound schedule": _outbound_schedule,
}
