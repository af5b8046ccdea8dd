"""One job for somebody who asks what it does, and why it does not: settings with their meaning, batches, events."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mgw.gateway.definitions.job_options import JOB_OPTIONS
from mgw.gateway.definitions.objects import JobDef, LinkDef
from mgw.gateway.services import lookup
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.attributes import JOB_ATTRIBUTES, LINK_ATTRIBUTES, Attribute, meaning
from mgw.gateway.services.exceptions.parked import Waiting, parked_keys
from mgw.gateway.services.options import link_settings
from mgw.gateway.state import records, status
from mgw.gateway.state.records import BatchRow
from mgw.gateway.state.status import EventRow
from mgw.links import registry
from mgw.transforms.errors import GatewayError

__all__ = ["BatchRow", "EventRow", "JobStory", "Setting", "Waiting", "job_story", "link_story"]


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting in force.

    Attributes:
        value: as text; empty where there is none.
        chosen: somebody set it; otherwise it is the default.
        meaning: what it does, as the reference says.
    """

    name: str
    value: str
    chosen: bool
    meaning: str


@dataclass(frozen=True, slots=True)
class JobStory:
    """What there is to tell of a job besides its state.

    Attributes:
        batches: the last ones, newest first; empty where the ledger is off.
        events: the last ones, newest first.
        parked: keys whose messages wait behind one that cannot be delivered.
    """

    job: JobDef
    settings: Sequence[Setting]
    batches: Sequence[BatchRow]
    events: Sequence[EventRow]
    parked: Sequence[Waiting]


def job_story(admin: GatewayAdmin, name: str, *, batches: int = 12, events: int = 20) -> JobStory:
    """What there is to tell of a job.

    Raises:
        NotFound: there is no job of that name.
    """
    job = lookup.job(admin, name)
    types = {name.upper(): kind for name, kind in admin.link_types().items()}
    with admin.hub.read() as conn:
        rows = records.batches(conn, job.name, limit=batches)
        told = status.events(conn, limit=events, name=job.name)[::-1]
    return JobStory(job, _job_settings(job, types.get(job.link.upper())), rows, told, parked_keys(admin, job.name))


def link_story(admin: GatewayAdmin, name: str, *, events: int = 20) -> tuple[Sequence[Setting], Sequence[EventRow]]:
    """Settings of a link, secrets hidden, and its last events, newest first.

    Raises:
        NotFound: there is no link of that name.
        ConfigInvalid: its secrets cannot be decrypted.
    """
    link = lookup.link(admin, name)
    with admin.hub.read() as conn:
        told = status.events(conn, limit=events, name=link.name)[::-1]
    return _link_settings(link), told


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _job_settings(job: JobDef, link_type: str | None) -> list[Setting]:
    values: dict[str, Any] = {
        "type": str(job.propagation_type),
        "source": job.source,
        "destination": job.destination,
        "rule": job.rule,
        "transformation": job.transformation,
        "exception_queue": job.exception_queue,
        "poll_interval": job.poll_interval,
        "require_guarantee": job.require_guarantee and str(job.require_guarantee),
        "enabled": job.enabled,
        "comment": job.comments,
    }
    found = [_setting(JOB_ATTRIBUTES[name], value, value is not None) for name, value in values.items()]
    try:
        own = registry.spec(link_type).job_options if link_type else ()
    except GatewayError:  # its client is not installed here
        own = ()
    given = {name.lower(): value for name, value in job.options.items()}
    known = {each.name.lower(): each for each in (*own, *JOB_OPTIONS)}
    found += [_setting(each, given.get(name), name in given) for name, each in known.items()]
    found += [Setting(name, value, True, "") for name, value in given.items() if name not in known]
    return sorted(found, key=lambda each: not each.chosen)


def _setting(described: Attribute, value: Any, chosen: bool) -> Setting:
    return Setting(described.name, _text(value if chosen else described.default), chosen, meaning(described))


def _link_settings(link: LinkDef) -> list[Setting]:
    shown: Mapping[str, Any] = link_settings(link)
    known = dict(LINK_ATTRIBUTES)
    try:
        spec = registry.spec(link.type)
        known |= {each.name: each for each in (*spec.attributes, *spec.options)}
    except GatewayError:  # its client is not installed here
        pass
    values = {name: value for name, value in shown.items() if name not in ("name", "options")} | dict(shown["options"])
    by_name = {name.lower(): each for name, each in known.items()}
    found = []
    for name, value in values.items():
        described = by_name.get(name.lower())
        if value is not None:
            found.append(Setting(name, _text(value), True, meaning(described) if described else ""))
    return found
