"""Statements on the catalogue of transformations (tables ``aq_transformation`` and ``aq_attribute_transformation``)."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from typing import Any, NamedTuple

from mgw.gateway.aq.model import TransformationInfo
from mgw.gateway.aq.names import QualifiedName
from mgw.gateway.aq.store.statements import Db, Row

__all__ = [
    "Using",
    "delete_transformation",
    "find_transformation",
    "find_version",
    "insert_transformation",
    "list_transformations",
    "subscribers_using",
    "transformations_of_type",
    "update_transformation",
]

#: A transformation with its expressions: a row for each, or one where it has none.
_SELECT = """
    SELECT x.id, x.schema, x.name, x.from_type, x.to_type, x.definition, x.comment, x.created, x.version,
           a.attribute_number, a.expression
      FROM aq_transformation x LEFT JOIN aq_attribute_transformation a ON a.transformation_id = x.id"""
_ORDER = "ORDER BY x.name_key, a.attribute_number"


def find_version(db: Db, key: str) -> int | None:
    """What changes with every change of the transformation with this name key; None when there is none."""
    version: int | None = db.scalar("SELECT version FROM aq_transformation WHERE name_key = ?", (key,))
    return version


def find_transformation(db: Db, key: str) -> TransformationInfo | None:
    """The transformation with this name key, or None."""
    return next(iter(_infos(db.rows(f"{_SELECT} WHERE x.name_key = ? {_ORDER}", (key,)))), None)


def list_transformations(db: Db) -> list[TransformationInfo]:
    """Every transformation, by name."""
    return _infos(db.rows(f"{_SELECT} {_ORDER}"))


def transformations_of_type(db: Db, type_name: str) -> list[TransformationInfo]:
    """Transformations from or to a type (``SCHEMA.NAME``)."""
    where = "WHERE x.from_type = ? OR x.to_type = ?"
    return _infos(db.rows(f"{_SELECT} {where} {_ORDER}", (type_name, type_name)))


def _infos(rows: list[Row]) -> list[TransformationInfo]:
    found: dict[int, TransformationInfo] = {}
    expressions: dict[int, dict[int, str]] = {}
    for number, schema, name, from_type, to_type, definition, comment, created, version, attribute, text in rows:
        own = expressions.setdefault(number, {})
        if attribute is not None:
            own[attribute] = text
        found[number] = TransformationInfo(
            id=number,
            schema=schema,
            name=name,
            from_type=from_type,
            to_type=to_type,
            definition=None if definition is None else json.loads(definition),
            expressions=own,
            comment=comment,
            created=created,
            version=version,
        )
    return list(found.values())


def _values(item: TransformationInfo) -> dict[str, Any]:
    definition = item.definition
    return {
        "from_type": item.from_type,
        "to_type": item.to_type,
        "definition": None
        if definition is None
        else json.dumps(definition, separators=(",", ":"), sort_keys=True, ensure_ascii=False),
        "comment": item.comment,
        "version": secrets.randbits(62),
    }


def insert_transformation(db: Db, item: TransformationInfo) -> None:
    """Store a new transformation; ``id`` and ``version`` are given here."""
    number = secrets.randbits(62)
    values = {
        "id": number,
        "schema": item.schema,
        "name": item.name,
        "name_key": QualifiedName(item.schema, item.name).key,
        "created": item.created,
        **_values(item),
    }
    names, marks = ", ".join(values), ", ".join("?" * len(values))
    db.run(f"INSERT INTO aq_transformation ({names}) VALUES ({marks})", tuple(values.values()))
    _store_expressions(db, number, item.expressions.items())


def update_transformation(db: Db, item: TransformationInfo) -> None:
    """Store a transformation again, under its id."""
    values = _values(item)
    assignments = ", ".join(f"{name} = ?" for name in values)
    db.run(f"UPDATE aq_transformation SET {assignments} WHERE id = ?", (*values.values(), item.id))
    db.run("DELETE FROM aq_attribute_transformation WHERE transformation_id = ?", (item.id,))
    _store_expressions(db, item.id, item.expressions.items())


def _store_expressions(db: Db, owner: int, expressions: Iterable[tuple[int, str]]) -> None:
    rows = [(owner, number, text) for number, text in expressions]
    if rows:
        insert = """
            INSERT INTO aq_attribute_transformation (transformation_id, attribute_number, expression) VALUES (?, ?, ?)
        """
        db.many(insert, rows)


def delete_transformation(db: Db, number: int) -> None:
    """Remove a transformation."""
    db.run("DELETE FROM aq_attribute_transformation WHERE transformation_id = ?", (number,))
    db.run("DELETE FROM aq_transformation WHERE id = ?", (number,))


class Using(NamedTuple):
    """A subscriber with a transformation."""

    queue: str  # as it is shown
    holds: str  # payload type of the queue
    subscriber: str
    transformation: str  # as it is shown


def subscribers_using(db: Db) -> list[Using]:
    """Every subscriber with a transformation, by queue."""
    rows = db.rows(
        """SELECT q.schema, q.name, COALESCE(t.object_type, t.payload_type), COALESCE(c.name, c.address),
                  c.transformation
             FROM aq_consumer c
             JOIN aq_queue q ON q.id = c.queue_id
             JOIN aq_queue_table t ON t.id = q.queue_table_id
            WHERE c.is_subscriber = 1 AND c.transformation IS NOT NULL ORDER BY q.name_key, c.name_key"""
    )
    return [Using(QualifiedName(schema, name).shown, *rest) for schema, name, *rest in rows]
