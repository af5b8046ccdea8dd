"""Object types, as configurations describe them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

from mgw.gateway.aq import QualifiedName, QueueAdmin, TypeInfo, qualified
from mgw.gateway.config.forms import hub_name
from mgw.gateway.config.models import ObjectTypeModel
from mgw.transforms.errors import AqError, ConfigInvalid
from mgw.transforms.payloads.sql_types import NamedType, ObjectType
from mgw.transforms.payloads.sql_types_parser import DeclarationInvalid, parse_type

__all__ = ["create_type", "in_order", "read_type", "read_types", "type_settings", "types_within"]


def read_types(admin: QueueAdmin) -> dict[str, ObjectTypeModel]:
    """The types of a hub, those that others are made of first."""
    found = {QualifiedName(each.schema, each.name).shown: _model(each) for each in admin.types()}
    return {name: found[name] for name in in_order(found)}


def _model(each: TypeInfo) -> ObjectTypeModel:
    return ObjectTypeModel(attributes=dict(each.attributes), array=each.array)


def read_type(admin: QueueAdmin, name: str) -> ObjectTypeModel | None:
    """One type; None: there is none."""
    found = admin.object_type(name)
    return None if found is None else _model(found)


def create_type(admin: QueueAdmin, name: str, wanted: ObjectTypeModel) -> None:
    """Make a type.

    Raises:
        AqError: refused.
    """
    admin.create_type(name, wanted.array or wanted.attributes)


def type_settings(wanted: ObjectTypeModel) -> dict[str, object]:
    """What a type is made of, in a form that compares: every declared type as the hub writes it, names in order."""
    if wanted.array is not None:
        return {"array": _written(wanted.array)}
    return {
        "attributes": ", ".join(f"{name.upper()} {_written(declared)}" for name, declared in wanted.attributes.items())
    }


def _written(declared: str) -> str:
    try:
        return parse_type(declared, _named).text
    except (DeclarationInvalid, AqError):  # refused when it is created
        return declared


def _named(text: str) -> NamedType:
    return ObjectType(qualified(text, what="type").key, ())


def types_within(wanted: ObjectTypeModel) -> set[str]:
    """Names of the types that a type is made of, as they compare.

    Raises:
        DeclarationInvalid: a declaration is not a type.
        AqError: the name of a type is not valid.
    """
    named: set[str] = set()

    def remember(text: str) -> NamedType:
        found = _named(text)
        named.add(found.text)
        return found

    for declared in (wanted.array,) if wanted.array is not None else wanted.attributes.values():
        parse_type(declared, remember)
    return named


def in_order(types: Mapping[str, ObjectTypeModel]) -> Iterable[str]:
    """Names of types, each behind those that it is made of; else in the order given.

    Raises:
        ConfigInvalid: types are made of each other.
    """
    names = {hub_name(name): name for name in types}
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for folded, name in names.items():
        sorter.add(folded, *(each for each in _within(types[name]) if each in names))
    try:
        return [names[folded] for folded in sorter.static_order()]
    except CycleError as error:
        ring = " -> ".join(names[folded] for folded in error.args[1])
        raise ConfigInvalid(
            f"object types contain each other: {ring}",
            cause="a type must exist before another can contain it",
            cure="remove one of these attributes",
        ) from None


def _within(wanted: ObjectTypeModel) -> list[str]:
    try:
        return sorted(types_within(wanted))
    except (DeclarationInvalid, AqError):  # refused when it is created
        return []
