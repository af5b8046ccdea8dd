"""What must be done to a hub so that it holds what a configuration says. Pure comparison of two documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gateway.config.checks import folded, hub_name, inline_table
from gateway.config.models import (
    NOUNS,
    SECTIONS,
    Document,
    ForeignQueueModel,
    JobModel,
    LinkModel,
    QueueModel,
    QueueTableModel,
    Strict,
    TransformationModel,
)
from gateway.model import DEFAULT_AGENT, key
from links import options as settings
from links import registry
from links.contract import Field
from transforms.errors import ConfigInvalid

__all__ = ["Action", "Change", "Verb", "compare"]

DEFAULT_MAX_RETRIES = 5  # AQ guide 12.2 §11.7.5
_NAMES = frozenset(("agent", "source", "destination", "exception_queue", "transformation", "queue_table"))


class Verb(StrEnum):
    """What happens to one object."""

    CREATE = "create"
    ALTER = "alter"
    REMOVE = "remove"
    NONE = "none"  # is as the file says
    LEAVE = "leave"  # exists, and is not in the file


@dataclass(frozen=True, slots=True)
class Change:
    """One setting that differs; ``secret`` values are never shown."""

    setting: str
    old: Any
    new: Any
    secret: bool = False

    def __str__(self) -> str:
        if self.secret:
            return f"{self.setting}: *** -> ***" if self.old else f"{self.setting}: set"
        return f"{self.setting}: {_shown(self.old)} -> {_shown(self.new)}"


@dataclass(frozen=True, slots=True)
class Action:
    """One step of a plan, one transaction when it is applied."""

    verb: Verb
    section: str
    name: str
    changes: tuple[Change, ...] = ()

    @property
    def object(self) -> str:
        """``link rabbit``."""
        return f"{NOUNS[self.section]} {self.name}"

    def __str__(self) -> str:
        text = f"{self.verb:<6} {self.object}"
        if self.verb is Verb.ALTER:
            text += f" ({', '.join(str(change) for change in self.changes)})"
        return text

    def as_json(self) -> dict[str, Any]:
        """For machines: verb, kind, name, changes with secrets as ``***``."""
        changes = [
            {
                "setting": change.setting,
                "old": ("***" if change.old else None) if change.secret else change.old,
                "new": ("***" if change.new else None) if change.secret else change.new,
            }
            for change in self.changes
        ]
        return {"verb": str(self.verb), "kind": NOUNS[self.section], "name": self.name, "changes": changes}


def compare(desired: Document, running: Document, *, prune: bool = False) -> list[Action]:
    """The steps from ``running`` to ``desired`` in an order in which every step finds what it needs.

    Objects that are not in ``desired`` are left alone (``Verb.LEAVE``), or removed with ``prune``, after everything
    else, users before what they use; only jobs go first.

    Raises:
        ConfigInvalid: a setting differs that cannot be changed after creation.
    """
    steps: list[Action] = []
    removals: list[Action] = []
    for section in SECTIONS:
        wanted, held = getattr(desired, section), getattr(running, section)
        fold: Callable[[str], str] = hub_name if section in ("queues", "queue_tables") else key
        by_key = {fold(name): (name, model) for name, model in held.items()}
        for name, model in wanted.items():
            known = by_key.pop(fold(name), None)
            if known is None:
                steps.append(Action(Verb.CREATE, section, name))
                continue
            changes = _changes(section, known[0], _flat(name, model, desired), _flat(*known, running))
            steps.append(Action(Verb.ALTER if changes else Verb.NONE, section, known[0], changes))
        left = [name for fold_name, (name, _) in by_key.items() if fold_name != DEFAULT_AGENT or section != "agents"]
        removals += [Action(Verb.REMOVE if prune else Verb.LEAVE, section, name) for name in left]
    order = list(SECTIONS)
    removals.sort(key=lambda action: -order.index(action.section))
    # A job that goes frees its source for one that comes; everything else may still be in use until it was altered.
    jobs = [action for action in removals if action.section == "jobs"]
    return jobs + steps + [action for action in removals if action.section != "jobs"]


_Flat = tuple[dict[str, Any], set[str], set[str]]


def _changes(section: str, name: str, new: _Flat, old: _Flat) -> tuple[Change, ...]:
    """What differs; settings in their comparable form (see :func:`_flat`)."""
    wanted, secrets, fixed = new
    held = old[0]
    changes = []
    for setting in {**held, **wanted}:
        before, after = held.get(setting), wanted.get(setting)
        if setting in secrets and after is None:  # a missing key keeps the stored secret
            continue
        if section in ("queues", "queue_tables") and setting in ("compatible", "max_payload") and after is None:
            continue  # the hub's default, whatever it was when the queue table was made
        if not _same(setting, before, after) and (setting != "comment" or (before or None) != after):
            changes.append(Change(setting, before, after, setting in secrets))
    _refuse_fixed(section, name, [change for change in changes if change.setting in fixed])
    return tuple(changes)


def _refuse_fixed(section: str, name: str, changes: list[Change]) -> None:
    if not changes:
        return
    user = {"links": "its foreign queues and jobs", "foreign_queues": "the jobs that use it"}.get(section, "it")
    raise ConfigInvalid(
        f"{NOUNS[section]} {name} cannot be altered: {'; '.join(str(change) for change in changes)}",
        cause="this is fixed when the object is created",
        cure=f"remove {user} and create it again, or create another one under a new name",
    )


def _same(setting: str, old: Any, new: Any) -> bool:
    if setting in _NAMES and isinstance(old, str) and isinstance(new, str):
        return hub_name(old) == hub_name(new)
    return bool(old == new)


def _shown(value: Any) -> str:
    if value is None or value == "":
        return "none"
    return repr(value) if isinstance(value, str) and (" " in value or "," in value) else str(value)


def _flat(name: str, model: Strict, document: Document) -> _Flat:  # noqa: PLR0911  one per kind of object
    """Settings of an object in comparable form; which of them are secret; which cannot be altered."""
    if isinstance(model, LinkModel):
        return _flat_link(name, model)
    if isinstance(model, ForeignQueueModel):
        values = {
            "provider_queue": model.provider_queue or name.rpartition("@")[0],
            "domain": model.domain,
            "comment": model.comment,
        } | _options(model.options)
        return values, set(), set(values)
    if isinstance(model, QueueModel):
        return _flat_queue(model, document)
    if isinstance(model, QueueTableModel):
        values = _table(model) | {"comment": model.comment}
        return values, set(), set(values)
    if isinstance(model, JobModel):
        return _flat_job(model)
    if isinstance(model, TransformationModel):
        return model.model_dump(), set(), set()
    values = model.model_dump(exclude={"options", "password_file"})
    values |= _options(getattr(model, "options", {}))
    return values, {"password"}, set()


def _flat_link(name: str, link: LinkModel) -> _Flat:
    spec = registry.spec(link.type)
    attributes = settings.parse(spec.attributes, link.attributes, f"link {name}")
    values = {each.name: attributes[each.name.lower()] for each in spec.attributes}
    for each in spec.attributes:
        if each.secret and each.name not in link.attributes:
            values[each.name] = None
    values |= link.model_dump(exclude={"attributes", "options", "password_file"}) | _options(link.options, spec.options)
    named = [(each.name, each) for each in spec.attributes] + [(_option(each.name), each) for each in spec.options]
    secrets = {"password"} | {setting for setting, each in named if each.secret}
    return values, secrets, {"type", "agent"} | {setting for setting, each in named if not each.alterable}


def _flat_queue(queue: QueueModel, document: Document) -> _Flat:
    tables = {hub_name(table): model for table, model in document.queue_tables.items()}
    table = tables.get(hub_name(queue.queue_table)) if queue.queue_table else None
    shape = _table(table or inline_table(queue))
    values: dict[str, Any] = {
        "type": queue.type,
        "enqueue": queue.enqueue and queue.type == "NORMAL",
        "dequeue": queue.dequeue,
        "comment": queue.comment,
    }
    if queue.type == "NORMAL":
        values["max_retries"] = DEFAULT_MAX_RETRIES if queue.max_retries is None else queue.max_retries
        values |= {"retry_delay": queue.retry_delay, "retention_time": queue.retention_time}
    if table is None:
        return values | shape, set(), {"type", *shape}
    return values | {"queue_table": queue.queue_table}, set(), {"type", "queue_table"}


def _flat_job(job: JobModel) -> _Flat:
    values = job.model_dump(exclude={"options", "batch_size"}) | _options(job.options)
    if job.batch_size is not None:
        values[_option("msgbatchsize")] = str(job.batch_size)
    return values, set(), {"type", "source", "destination"}


def _table(table: QueueTableModel) -> dict[str, Any]:
    return table.model_dump(exclude={"comment"}) | {"sort_list": table.sort_list or "ENQ_TIME"}


def _option(name: str) -> str:
    return f"options.{name.lower()}"


def _options(options: Mapping[str, str | None], fields: tuple[Field, ...] = ()) -> dict[str, Any]:
    """Options that are set, under comparable names and in comparable spelling."""
    known = folded({each.name: each for each in fields})
    result = {}
    for name, value in options.items():
        if value is not None:
            field = known.get(key(name))
            flag = value.upper() if value.upper() in ("TRUE", "FALSE") else value
            result[_option(name)] = flag if field is None or field.type is not str else value
    return result
