"""What a hub held at an earlier generation: the present, with every later change undone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mgw.gateway.aq import Hub
from mgw.gateway.config.fields import Strict
from mgw.gateway.config.forms import fold_of
from mgw.gateway.config.models import AgentModel, Document, ForeignQueueModel, JobModel, LinkModel, TransformationModel
from mgw.gateway.config.running import read_running
from mgw.gateway.services.admin.recorded import RENEWED, SECRETS
from mgw.gateway.state import happened
from mgw.gateway.state.happened import Audited
from mgw.transforms.errors import GatewayError

__all__ = ["UnknownGeneration", "document_at"]

_ATTEMPTS = 5
_PIECE = 1000  # entries at a time
_STORED = "a secret that the hub may hold"  # stands for one in a document; no text of a document shows it
_OTHERS = ("name", SECRETS, RENEWED)


class UnknownGeneration(GatewayError):
    """No such generation is kept."""

    def __init__(self, number: int) -> None:
        super().__init__(
            f"generation {number} is not known",
            cause="it never was, or is older than what is kept (agent option audit_retention)",
            cure="see those that there are: mgw generations list",
        )


def document_at(hub: Hub, number: int) -> Document:
    """What the hub held when a generation was complete, apart from what is not kept: secrets are those of today.

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
        if _latest(hub) == before:
            return _undone(document, later(hub, number, before))
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


def _undone(document: Document, entries: Iterator[Audited]) -> Document:
    sections: dict[str, dict[str, Any]] = {}
    for each in entries:
        if each.kind not in _MODELS or (each.before_change is None and each.after_change is None):
            continue
        section, model = _MODELS[each.kind]
        objects = sections.setdefault(section, dict(getattr(document, section)))
        fold = fold_of(section)
        name = str((each.before_change or each.after_change or {})["name"])
        known = next((held for held in objects if fold(held) == fold(name)), name)
        if each.before_change is None:
            objects.pop(known, None)
        else:
            objects[known] = model(each.before_change)
    return document.model_copy(update=sections)


def _settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as models call them."""
    return {"comment" if name == "comments" else name: value for name, value in values.items() if name not in _OTHERS}


def _with_secrets(values: Mapping[str, Any]) -> dict[str, Any]:
    settings = {name: dict(each) if isinstance(each, dict) else each for name, each in _settings(values).items()}
    for secret in values.get(SECRETS, ()):
        part, _, name = str(secret).partition(".")
        if name:
            settings.setdefault(part, {})[name] = _STORED
        else:
            settings[part] = _STORED
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
