"""Chains: transformations whose definition names others, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from mgw.gateway.aq.errors import TransformationInvalid
from mgw.gateway.aq.model import TransformationInfo
from mgw.gateway.aq.names import shown_key
from mgw.gateway.aq.payloads import transformations_sql
from mgw.gateway.aq.store.statements import Db

__all__ = ["chains_with", "check_steps", "steps_of"]


def steps_of(item: TransformationInfo) -> Sequence[str]:
    """Names of the transformations that one is a chain of, as they are written; empty: it is none."""
    steps = (item.definition or {}).get("steps")
    return [each for each in steps if isinstance(each, str)] if isinstance(steps, (list, tuple)) else ()


def chains_with(db: Db, key: str) -> list[TransformationInfo]:
    """The chains of which the transformation with this name key is a step, by name."""
    every = transformations_sql.list_transformations(db)
    return [item for item in every if key in map(shown_key, steps_of(item))]


def check_steps(db: Db, item: TransformationInfo, altered: TransformationInfo | None = None) -> None:
    """Refuse a chain of which a step is missing or a chain itself, or does not take what the one before it gives.

    Args:
        altered: a step, as it is to become.

    Raises:
        TransformationInvalid: 24095.
    """
    given, before = item.from_type, f"transformation {item.full_name} takes"
    step = item.full_name
    for step in steps_of(item):
        is_altered = altered is not None and shown_key(altered.full_name) == shown_key(step)
        found = altered if is_altered else transformations_sql.find_transformation(db, shown_key(step))
        if found is None:
            raise _invalid(item, f"its step {step} does not exist", "create it, or correct the name")
        if steps_of(found):
            raise _invalid(item, f"its step {step} has steps itself", f"name the steps of {step} here")
        if found.from_type != given:
            cure = "put a step between them, or correct from_type and to_type"
            raise _invalid(item, f"its step {step} takes {found.from_type}, {before} {given}", cure)
        given, before = found.to_type, f"step {step} before it gives"
    if given != item.to_type:
        cause = f"its last step {step} gives {given}, it gives {item.to_type}"
        raise _invalid(item, cause, f"give it to_type {given}, or another last step")


def _invalid(item: TransformationInfo, cause: str, cure: str) -> TransformationInvalid:
    return TransformationInvalid(f"transformation {item.full_name} cannot be used", cause=cause, cure=cure)
