"""What must be done to a hub so that it holds what a configuration says. Pure comparison of two documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from mgw.gateway.aq import Held
from mgw.gateway.config.comparable import Comparable, Settings
from mgw.gateway.config.forms import fold_of, hub_name, inline_table, queue_table_of
from mgw.gateway.config.models import NOUNS, PLANNED, Document, QueueTableModel
from mgw.gateway.config.object_types import in_order
from mgw.gateway.definitions.objects import DEFAULT_AGENT
from mgw.transforms.errors import ConfigInvalid, GatewayError

__all__ = ["Action", "Change", "FixedSetting", "Refuse", "Verb", "compare"]

#: Told of an object that is refused, as ``link rabbit``, and why.
Refuse = Callable[[str, GatewayError], object]

_KEPT = frozenset(("compatible", "max_payload", "jms_types"))
_HIDDEN = {(True, True): "*** -> ***", (False, True): "set", (True, False): "removed", (False, False): "none"}
_NAMES = frozenset(("agent", "source", "destination", "exception_queue", "transformation", "queue_table"))


class FixedSetting(ConfigInvalid):
    """A setting differs that cannot be changed after creation."""


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
            return f"{self.setting}: {_HIDDEN[bool(self.old), bool(self.new)]}"
        shown = _subscribers if self.setting == "subscribers" else _shown
        return f"{self.setting}: {shown(self.old)} -> {shown(self.new)}"


@dataclass(frozen=True, slots=True)
class Action:
    """One step of a plan, one transaction when it is applied."""

    verb: Verb
    section: str
    name: str
    changes: tuple[Change, ...] = ()
    given: str = ""  # the name as the file writes it; empty where the file does not have it
    held: Held | None = None  # messages that would be deleted with what is removed
    seen: float = 0.0  # when they were counted, epoch seconds
    before: Any = field(default=None, compare=False, repr=False)  # the object as the plan saw it; None: not there

    @property
    def object(self) -> str:
        """``link rabbit``."""
        return f"{NOUNS[self.section]} {self.name}"

    @property
    def new_values(self) -> dict[str, Any]:
        """What changes, by setting."""
        return {each.setting: each.new for each in self.changes}

    def based_on(self, before: Any) -> Action:
        """The same step, on an object as it was."""
        return replace(self, before=before)

    @property
    def changes_hub(self) -> bool:
        """Whether it does anything."""
        return self.verb in (Verb.CREATE, Verb.ALTER, Verb.REMOVE)

    def __str__(self) -> str:
        text = f"{self.verb:<6} {self.object}"
        if self.verb is Verb.ALTER:
            text += f" ({', '.join(str(change) for change in self.changes)})"
        if self.deletes:
            text += f": deletes {self.held_text}"
        return text

    @property
    def deletes(self) -> bool:
        """Whether messages are deleted by it."""
        return self.held is not None and self.held.messages > 0

    @property
    def held_text(self) -> str:
        """How many messages of what age."""
        return "" if self.held is None else self.held.told(self.seen)

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
        told: dict[str, Any] = {
            "verb": str(self.verb),
            "kind": NOUNS[self.section],
            "name": self.name,
            "changes": changes,
        }
        if self.held is not None:
            oldest = self.held.oldest
            age = None if oldest is None else max(0.0, self.seen - oldest)
            told["deletes"] = {"messages": self.held.messages, "oldest_age": age}
        return told


def compare(desired: Document, running: Document, *, prune: bool = False, refuse: Refuse | None = None) -> list[Action]:
    """The steps from ``running`` to ``desired`` in an order in which every step finds what it needs.

    Objects that are not in ``desired`` are left alone (``Verb.LEAVE``), or removed with ``prune``, after everything
    else, users before what they use; only jobs go first.

    Args:
        refuse: called for each object of which a setting differs that cannot be changed after creation; the object gets
            no step.

    Raises:
        ConfigInvalid: such a setting differs, and there is no ``refuse``.
    """
    flat = Comparable([running, desired])
    steps: list[Action] = []
    removals: list[Action] = []
    for section in PLANNED:
        wanted, held = getattr(desired, section), getattr(running, section)
        fold = fold_of(section)
        by_key = {fold(name): (name, model) for name, model in held.items()}
        if section == "queue_tables":  # one queue may describe its table in place, or the file the table by itself
            named, own, described = {fold(name): name for name in wanted}, _own_tables(running), _own_tables(desired)
            for each in named.keys() & own.keys() - by_key.keys():
                by_key[each] = (named[each], own[each].model_copy(update={"comment": wanted[named[each]].comment}))
            by_key = {each: found for each, found in by_key.items() if each in named or each not in described}
        for name in _in_order(section, wanted):
            model = wanted[name]
            known = by_key.pop(fold(name), None)
            if known is None:
                steps.append(Action(Verb.CREATE, section, name, given=name))
                continue
            try:
                changes = _changes(section, known[0], flat.settings(name, model), flat.settings(*known))
            except ConfigInvalid as error:
                if refuse is None:
                    raise
                refuse(f"{NOUNS[section]} {known[0]}", error)
                continue
            verb = Verb.ALTER if changes else Verb.NONE
            steps.append(Action(verb, section, known[0], changes, name, before=known[1]))
        left = [name for fold_name, (name, _) in by_key.items() if fold_name != DEFAULT_AGENT or section != "agents"]
        if section == "object_types":  # it was read in the order in which they are made of each other
            left.reverse()
        if section == "transformations":
            left = list(reversed([name for name in _in_order(section, held) if name in left]))
        verb = Verb.REMOVE if prune else Verb.LEAVE
        removals += [Action(verb, section, name, before=held[name]) for name in left]
    order = list(PLANNED)
    removals.sort(key=lambda action: -order.index(action.section))
    # A job that goes frees its source for one that comes; everything else may still be in use until it was altered.
    jobs = [action for action in removals if action.section == "jobs"]
    return jobs + steps + [action for action in removals if action.section != "jobs"]


def _own_tables(document: Document) -> dict[str, QueueTableModel]:
    """The queue tables that queues describe in place, by their folded names."""
    return {
        fold_of("queue_tables")(queue_table_of(name, queue)): inline_table(queue)
        for name, queue in document.queues.items()
        if queue.queue_table is None
    }


def _in_order(section: str, wanted: Mapping[str, Any]) -> Iterable[str]:
    """Names of a section, each behind those of the section that it needs."""
    if section == "object_types":
        return in_order(wanted)
    if section == "queues":  # a queue may be stored in the queue table that is made for another
        return sorted(wanted, key=lambda name: wanted[name].queue_table is not None)
    if section == "transformations":  # a step has no steps of its own
        return sorted(wanted, key=lambda name: "steps" in wanted[name].definition)
    return wanted


def _changes(section: str, name: str, new: Settings, old: Settings) -> tuple[Change, ...]:
    changes = []
    for setting in {**old.values, **new.values}:
        before, after = old.values.get(setting), new.values.get(setting)
        secret = setting in new.secret
        if secret and after is None and not _goes(setting, old, new):  # a missing key keeps the stored secret
            continue
        if section in ("queues", "queue_tables") and setting in _KEPT and after is None:
            continue  # the hub's default, whatever it was when the queue table was made
        if section == "queues" and setting == "subscribers" and (after is None or after == (before or {})):
            continue  # a missing key leaves those that there are alone
        if not _same(setting, before, after) and (setting != "comment" or (before or None) != after):
            changes.append(Change(setting, before, after, secret))
    fixed = [each for each in changes if each.setting in new.fixed or (each.setting, each.new) == ("jms_types", False)]
    _refuse_fixed(section, name, fixed)
    return tuple(changes)


def _goes(setting: str, old: Settings, new: Settings) -> bool:
    """Whether a secret goes although no key says so: a password goes with its user name."""
    return setting == "password" and old.values.get("username") is not None and new.values.get("username") is None


def _refuse_fixed(section: str, name: str, changes: list[Change]) -> None:
    if not changes:
        return
    first = {
        "links": "remove its jobs and foreign queues, then the link itself, and create it again",
        "foreign_queues": "remove the jobs that use it, then the registration (mgw queues remove), and create it again",
        "queues": "drop it (mgw aq drop), with what is in it, and create it again",
        "queue_tables": "drop its queues and the table, with what is in them, and create it again",
    }.get(section, "remove it and create it again")
    raise FixedSetting(
        f"{NOUNS[section]} {name} cannot be altered: {'; '.join(str(change) for change in changes)}",
        cause="this is fixed when the object is created",
        cure=f"{first}; or define another one under a new name",
    )


def _same(setting: str, old: Any, new: Any) -> bool:
    if setting in _NAMES and isinstance(old, str) and isinstance(new, str):
        return hub_name(old) == hub_name(new)
    return bool(old == new)


def _shown(value: Any) -> str:
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, str) and (" " in value or "," in value) else str(value)


def _subscribers(value: dict[str, dict[str, Any]] | None) -> str:
    """Names, each with what is not at its default."""
    names = [
        f"{name} ({', '.join(_named(*item) for item in each.items())})" if each else name
        for name, each in (value or {}).items()
    ]
    return ", ".join(names) or "none"


def _named(setting: str, value: Any) -> str:
    """A setting of a subscriber; an option with its name, as its value alone tells little."""
    return f"{setting.removeprefix('options.')} {_shown(value)}" if setting.startswith("options.") else _shown(value)
