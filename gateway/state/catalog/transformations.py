"""The gateway's look at the hub's catalogue of transformations, the only one there is."""

from __future__ import annotations

from dataclasses import replace

import sqlalchemy as sa

from mgw.gateway.aq import Db, TransformationInfo, as_definition, hub_clock, qualified
from mgw.gateway.aq import transformation_catalog as transformations_sql
from mgw.gateway.definitions.objects import TransformationDef
from mgw.transforms.errors import AqError

__all__ = [
    "altered_transformation",
    "get_transformation",
    "insert_transformation",
    "list_transformations",
    "update_transformation",
]


def get_transformation(conn: sa.Connection, name: str) -> TransformationDef | None:
    """The transformation of that name, or None."""
    db = Db(conn)
    found = _find(db, name)
    return None if found is None else _shown(db, found)


def list_transformations(conn: sa.Connection) -> list[TransformationDef]:
    """All transformations, by name."""
    db = Db(conn)
    return [_shown(db, found) for found in transformations_sql.list_transformations(db)]


def insert_transformation(conn: sa.Connection, item: TransformationDef) -> None:
    """Store a new transformation.

    Raises:
        AqError: the name is not valid.
    """
    name = qualified(item.name, what="transformation")
    transformations_sql.insert_transformation(
        Db(conn),
        TransformationInfo(
            name.schema,
            name.name,
            item.from_type,
            item.to_type,
            dict(item.definition),
            comment=item.comments,
            created=hub_clock(conn).now(),
        ),
    )


def altered_transformation(conn: sa.Connection, item: TransformationDef, *, redefined: bool) -> TransformationInfo:
    """A transformation that exists, altered; what it does is kept as it was written unless it is ``redefined``."""
    found = _find(Db(conn), item.name)
    assert found is not None  # noqa: S101  # the caller has it from here
    return replace(
        found,
        from_type=item.from_type,
        to_type=item.to_type,
        definition=dict(item.definition) if redefined else found.definition,
        expressions={} if redefined else found.expressions,
        comment=item.comments,
    )


def update_transformation(conn: sa.Connection, item: TransformationInfo) -> None:
    """Store a transformation again."""
    transformations_sql.update_transformation(Db(conn), item)


def _find(db: Db, name: str) -> TransformationInfo | None:
    try:
        return transformations_sql.find_transformation(db, qualified(name, what="transformation").key)
    except AqError:
        return None  # nothing has such a name


def _shown(db: Db, found: TransformationInfo) -> TransformationDef:
    return TransformationDef(found.full_name, found.from_type, found.to_type, as_definition(db, found), found.comment)
