"""Statements on transformations."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa

from gateway import tables as t
from gateway.catalog.text import compact
from gateway.model import TransformationDef, key

__all__ = [
    "delete_transformation",
    "get_transformation",
    "insert_transformation",
    "list_transformations",
    "update_transformation",
]


def get_transformation(conn: sa.Connection, name: str) -> TransformationDef | None:
    """The transformation of that name, or None."""
    row = conn.execute(sa.select(t.transformation).where(t.transformation.c.name_key == key(name))).one_or_none()
    return _transformation(row) if row is not None else None


def list_transformations(conn: sa.Connection) -> list[TransformationDef]:
    """All transformations, by name."""
    rows = conn.execute(sa.select(t.transformation).order_by(t.transformation.c.name_key))
    return [_transformation(row) for row in rows]


def insert_transformation(conn: sa.Connection, item: TransformationDef) -> None:
    """Store a new transformation."""
    conn.execute(
        sa.insert(t.transformation).values(name_key=key(item.name), name=item.name, **_transformation_values(item))
    )


def update_transformation(conn: sa.Connection, item: TransformationDef) -> None:
    """Store a transformation anew."""
    where = t.transformation.c.name_key == key(item.name)
    conn.execute(sa.update(t.transformation).where(where).values(**_transformation_values(item)))


def delete_transformation(conn: sa.Connection, name: str) -> None:
    """Remove a transformation."""
    conn.execute(sa.delete(t.transformation).where(t.transformation.c.name_key == key(name)))


def _transformation_values(item: TransformationDef) -> dict[str, Any]:
    return {
        "from_type": item.from_type,
        "to_type": item.to_type,
        "definition": compact(dict(item.definition)),
        "comments": item.comments,
    }


def _transformation(row: sa.Row[Any]) -> TransformationDef:
    return TransformationDef(row.name, row.from_type, row.to_type, json.loads(row.definition), row.comments)
