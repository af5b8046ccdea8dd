"""What a hub held at an earlier generation: the present, with every later change undone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from mgw.gateway.aq import Hub
from mgw.gateway.config.fields import Strict
from mgw.gateway.config.forms import fold_of, spec_of
from mgw.gateway.config.models import AgentModel, Document, ForeignQueueModel, JobModel, LinkModel, TransformationModel
from mgw.gateway.config.old_style_history import Halves, Misfit
from mgw.gateway.config.running import read_running
from mgw.gateway.definitions.objects import key
from mgw.gateway.services.admin.recorded import OF_A_SCHEDULE, RENEWED, SECRETS
from mgw.gateway.state import catalog, happened
from mgw.gateway.state.happened import Audited
from mgw.transforms.errors import GatewayError

__all__ = ["RESTORED", "Then", "UnknownGeneration", "then_at"]

_ATTEMPTS = 5
_PIECE = 1000  # entries at a time
_STORED = "a secret that the hub may hold"  # stands for one in a document; no text of a document shows it
_OTHERS = ("name", SECRETS, RENEWED, "old_style", "schedule")
_OPTIONS = "options."


class UnknownGeneration(GatewayError):
    """No such generation is kept."""

    def __init__(self, number: int) -> None:
        super().__init__(
            f"generation {number} is not known",
            cause="it never was, or is older than what is kept (agent option audit_retention)",
            cure="see those that there are: mgw generations list",
        )


@dataclass(frozen=True, slots=True)
class Then:
    """What a hub held when a generation was complete, apart from what is not kept.

    Attributes:
        document: secrets are those of today; so are encrypted options of agents, which are in no document.
        lost: agents with the names of options that were encrypted then, and are not today.
        misfits: subscribers and schedules of the old style that were others then.
    """

    document: Document
    lost: Mapping[str, frozenset[str]]
    misfits: tuple[Misfit, ...]


def then_at(hub: Hub, number: int) -> Then:
    """What the hub held when a generation was complete.

    Args:
        number: 0: what it held before the oldest change that is kept.

    Raises:
        UnknownGeneration: there is none of that number.
        ConfigInvalid: a stored secret cannot be decrypted.
        GatewayError: the definitions change all the time.
    """
    for _ in range(_ATTEMPTS):
        before = _latest(hub)
        document = read_running(hub)
        with hub.read() as conn:
            halves, encrypted = Halves(conn), _encrypted(conn)
        if _latest(hub) == before:
            return _undone(document, halves, encrypted, later(hub, number, before))
    raise GatewayError("the definitions change all the time", cure="try again")


def later(hub: Hub, number: int, upto: int | None = None) -> Iterator[Audited]:
    """The changes of definitions after a generation, the latest first; those up to an entry.

    Raises:
        UnknownGeneration: there is none of that number.
    """
    with hub.read() as conn:
        last = happened.last_of(conn, number) if number else 0
    if last is None:
        raise UnknownGeneration(number)
    before = None if upto is None else upto + 1
    while True:
        with hub.read() as conn:
            found = happened.audit(conn, after=last, before=before, definitions=True, limit=_PIECE)
        yield from found
        if len(found) < _PIECE:
            return
        before = found[-1].id


def _latest(hub: Hub) -> int:
    with hub.read() as conn:
        return next((each.id for each in happened.audit(conn, limit=1)), 0)


def _encrypted(conn: sa.Connection) -> dict[str, frozenset[str]]:
    """The options of each agent that are encrypted, in lower case."""
    agents = [agent.name for agent in catalog.list_agents(conn)]
    return {
        key(agent): frozenset(
            each.name.lower() for each in catalog.list_agent_options(conn, agent, None) if each.encrypted
        )
        for agent in agents
    }


def _undone(
    document: Document, halves: Halves, encrypted: Mapping[str, frozenset[str]], entries: Iterator[Audited]
) -> Then:
    new_style = {name: job for name, job in document.jobs.items() if key(name) not in halves.jobs_now}
    sections: dict[str, dict[str, Any]] = {"jobs": new_style}
    then = dict(encrypted)
    for each in entries:
        if (each.before_change is None and each.after_change is None) or halves.undo(each) or each.kind not in _MODELS:
            continue
        if (each.before_change or each.after_change or {}).get(OF_A_SCHEDULE):
            continue  # no document has it, not even after its schedule was removed
        section, model = _MODELS[each.kind]
        objects = sections.setdefault(section, dict(getattr(document, section)))
        fold = fold_of(section)
        name = str((each.before_change or each.after_change or {})["name"])
        if section == "jobs" and key(name) in halves.of_schedules:
            continue
        known = next((held for held in objects if fold(held) == fold(name)), name)
        if each.before_change is None:
            objects.pop(known, None)
        else:
            objects[known] = model(each.before_change)
        if section == "agents":
            then[key(name)] = _secret_options(each.before_change or {})
    misfits = tuple(halves.misfits())
    if misfits:
        sections["jobs"] |= {name: JobModel.model_validate(values) for name, values in halves.jobs().items()}
    else:
        sections["jobs"] |= {name: job for name, job in document.jobs.items() if key(name) in halves.jobs_now}
    undone = document.model_copy(update=sections)
    lost = {
        name: frozenset(gone)
        for name in undone.agents
        if (gone := then.get(key(name), frozenset()) - encrypted.get(key(name), frozenset()))
    }
    agents = {name: _without(agent, encrypted.get(key(name), frozenset())) for name, agent in undone.agents.items()}
    return Then(undone.model_copy(update={"agents": agents}), lost, misfits)


def _without(agent: AgentModel, encrypted: frozenset[str]) -> AgentModel:
    """An agent as it may be made of one whose options are encrypted by now: a secret of today stays."""
    if not encrypted & {name.lower() for name in agent.options}:
        return agent
    return agent.model_copy(
        update={"options": {name: value for name, value in agent.options.items() if name.lower() not in encrypted}}
    )


def _secret_options(values: Mapping[str, Any]) -> frozenset[str]:
    found = map(str, values.get(SECRETS, ()))
    return frozenset(each.removeprefix(_OPTIONS).lower() for each in found if each.startswith(_OPTIONS))


def _settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as models call them."""
    return {"comment" if name == "comments" else name: value for name, value in values.items() if name not in _OTHERS}


def _with_secrets(values: Mapping[str, Any]) -> dict[str, Any]:
    settings = {name: dict(each) if isinstance(each, dict) else each for name, each in _settings(values).items()}
    spec = spec_of(str(values["type"]))
    hidden = {each.name.lower() for each in (*spec.attributes, *spec.options) if each.secret} if spec else set()
    for secret in values.get(SECRETS, ()):
        part, _, name = str(secret).partition(".")
        if not name:
            settings[part] = _STORED
        elif name.lower() in hidden:  # what is a secret no more would be shown: nothing stands for it
            settings.setdefault(part, {})[name] = _STORED
    return settings


def _agent(values: Mapping[str, Any]) -> Strict:
    settings = _settings(values)  # its options that are encrypted are in no file
    return AgentModel(**settings, password=_STORED if "password" in values.get(SECRETS, ()) else None)


def _link(values: Mapping[str, Any]) -> Strict:
    return LinkModel(**_with_secrets(values))


def _foreign_queue(values: Mapping[str, Any]) -> Strict:
    return ForeignQueueModel(**{name: value for name, value in _settings(values).items() if name != "link"})


def _transformation(values: Mapping[str, Any]) -> Strict:
    return TransformationModel.model_validate(_settings(values))


def _job(values: Mapping[str, Any]) -> Strict:
    settings = _settings(values)
    return JobModel.model_validate({"type": settings.pop("propagation_type"), **settings})


_MODELS: dict[str, tuple[str, Callable[[Mapping[str, Any]], Strict]]] = {
    "agent": ("agents", _agent),
    "link": ("links", _link),
    "foreign queue": ("foreign_queues", _foreign_queue),
    "transformation": ("transformations", _transformation),
    "job": ("jobs", _job),
}

#: The sections of a document that a rollback brings back.
RESTORED = tuple(section for section, _ in _MODELS.values())
