"""An entry of the audit in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mgw.gateway.aq import WAYS
from mgw.gateway.services.admin.recorded import RENEWED, SECRETS
from mgw.gateway.services.happenings import Audited

__all__ = ["THROUGH", "differences", "has_event", "presented", "told", "values_of"]

#: How an actor came to a change, for descriptions.
THROUGH = f"{', '.join(f'`{each}`' for each in WAYS[:-1])} or `{WAYS[-1]}`; null: an earlier release wrote it."


#: Kinds of which a line shows everything: who got what says nothing without.
_SHORT = frozenset(("queue privilege", "system privilege", "type privilege", "role", "user", "parked keys"))

_TOLD_KINDS = frozenset(("user", "exceptions", "parked keys"))
_EXCEPTION_QUEUE = "exception_queue"
_UNTOLD = frozenset((_EXCEPTION_QUEUE, "messages"))
_SEVERAL = ("begin ", "end ")  # of what is done in several batches, each with an event
_TOLD_ACTIONS = frozenset(("purge", "drop queue", "drop queue table", "remove subscriber", "remove job"))


def has_event(each: Audited) -> bool:
    """Whether an event tells of the same: of users, of the exception desk, of what is removed with its messages."""
    return (each.kind in _TOLD_KINDS and not each.action.startswith(_SEVERAL)) or each.action in _TOLD_ACTIONS


def told(each: Audited) -> str:
    """``alter job orders (enabled: True -> False)``; of a removal, what became of its messages."""
    text = f"{each.action} {each.object}".rstrip()
    if each.before_change is not None and each.after_change is not None:
        text += f" ({', '.join(differences(each.before_change, each.after_change))})"
    elif each.kind in _SHORT:
        values = presented(each.after_change or each.before_change) or {}
        text += f" ({', '.join(f'{name}: {value}' for name, value in values.items() if name != SECRETS)})"
    elif each.kind == "exceptions" and each.before_change is not None:
        more = (f"{name}: {value}" for name, value in each.before_change.items() if name not in _UNTOLD)
        text += f" ({', '.join((f'in {each.before_change.get(_EXCEPTION_QUEUE)}', *more))})"
    if each.messages:
        became = "deleted" if each.moved_to is None else f"moved to queue {each.moved_to}"
        text += f": {each.messages} message{'' if each.messages == 1 else 's'} {became}"
    return text if each.result is None else f"{text}: {each.result}"


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """What differs, setting by setting: ``port: 5672 -> 5673``; of a secret, that it does."""
    old, new = dict(_flat(before)), dict(_flat(after))
    for name in {**old, **new}:
        if old.get(name) != new.get(name):
            yield f"{name}: {_shown(old.get(name))} -> {_shown(new.get(name))}"
    held = set(before.get(SECRETS, ()))
    for name in sorted({*held, *after.get(SECRETS, ())}):
        if name not in held:
            yield f"{name}: set"
        elif name not in after.get(SECRETS, ()):
            yield f"{name}: removed"
        elif name in after.get(RENEWED, ()):
            yield f"{name}: *** -> ***"


def values_of(each: Audited, moment: Callable[[float | None], Any]) -> dict[str, Any]:
    """An entry for programs; ``moment``: how a face tells a time."""
    return {
        "id": each.id,
        "time": moment(each.time),
        "actor": each.actor,
        "through": each.through,
        "action": each.action,
        "kind": each.kind,
        "object": each.object,
        "before": presented(each.before_change),
        "after": presented(each.after_change),
        "generation": each.generation,
        "version": each.version,
        "result": each.result,
        "held": each.messages,
        "oldest": moment(each.oldest),
        "moved_to": each.moved_to,
    }


def presented(values: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A definition for programs: options, which are stored as texts, as the numbers and truth values that they are."""
    if values is None:
        return None
    options = values.get("options")
    if not isinstance(options, dict):
        return dict(values)
    return {**values, "options": {name: _typed(value) for name, value in options.items()}}


def _typed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value.lower() in {"true", "false"}:
        return value.lower() == "true"
    for kind in (int, float):
        try:
            number = kind(value)
        except ValueError:
            continue
        if str(number) == value and math.isfinite(number):
            return number
    return value


def _flat(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if name == "attributes" and isinstance(value, dict):
            yield from value.items()
        elif isinstance(value, dict):
            yield from ((f"{name}.{key}", each) for key, each in value.items())
        elif name not in (SECRETS, RENEWED):
            yield name, value


def _shown(value: Any) -> str:
    return "none" if value is None else str(value)
