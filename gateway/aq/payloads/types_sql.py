"""Statements on object types (table ``aq_type``)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from mgw.gateway.aq.grants import TypePrivilege
from mgw.gateway.aq.names import QualifiedName
from mgw.gateway.aq.store.statements import Db, Row
from mgw.transforms.payloads.sql_types import NamedType
from mgw.transforms.payloads.sql_types_parser import from_definition

__all__ = [
    "TypeRecord",
    "delete_grant",
    "drop_type",
    "find_type",
    "find_types",
    "granted_types",
    "insert_grant",
    "insert_type",
    "list_grants",
    "list_types",
    "types_by_id",
    "users_of_type",
]


class TypeRecord(NamedTuple):
    """One row of ``aq_type``. Ids are never given twice: what an id means never changes."""

    id: int
    schema: str
    name: str
    type: NamedType
    shape: str
    created: float

    @property
    def full_name(self) -> str:
        """The plain name in the default schema, else ``schema.name``, in the case it was created with."""
        return QualifiedName(self.schema, self.name).shown


_COLUMNS = "name_key, id, schema, name, definition, shape, created"


def _record(row: Row) -> tuple[str, TypeRecord]:
    key, number, schema, name, definition, shape, created = row
    made = from_definition(json.loads(definition))
    return key, TypeRecord(number, schema, name, made, shape, created)  # type: ignore[arg-type]


def find_type(db: Db, key: str) -> TypeRecord | None:
    """The type with this name key, or None."""
    return find_types(db, (key,)).get(key)


def find_types(db: Db, keys: Iterable[str]) -> dict[str, TypeRecord]:
    """Types by name key; those that do not exist are left out."""
    wanted = tuple(keys)
    if not wanted:
        return {}
    sql = f"SELECT {_COLUMNS} FROM aq_type WHERE dropped IS NULL AND name_key {{texts}}"
    return dict(map(_record, db.rows(sql, (db.texts(wanted),))))


def types_by_id(db: Db, ids: Iterable[int]) -> dict[int, NamedType]:
    """Types by id, dropped ones too: messages may still hold them."""
    rows = db.rows(f"SELECT {_COLUMNS} FROM aq_type WHERE id {{ids}}", (db.ids(ids),))
    return {record.id: record.type for _, record in map(_record, rows)}


def list_types(db: Db) -> list[TypeRecord]:
    """Every type, by name."""
    rows = db.rows(f"SELECT {_COLUMNS} FROM aq_type WHERE dropped IS NULL ORDER BY name_key")
    return [record for _, record in map(_record, rows)]


def insert_type(db: Db, record: TypeRecord) -> None:
    """Store a new type."""
    definition = json.dumps(record.type.definition(), separators=(",", ":"))
    key = QualifiedName(record.schema, record.name).key
    db.run(
        "INSERT INTO aq_type (id, schema, name, name_key, definition, shape, created) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (record.id, record.schema, record.name, key, definition, record.shape, record.created),
    )


def drop_type(db: Db, type_id: int, now: float) -> None:
    """Take a type out of use; its definition stays for the messages that hold it."""
    db.run("DELETE FROM aq_type_privilege WHERE type_id = ?", (type_id,))
    db.run("UPDATE aq_type SET dropped = ? WHERE id = ?", (now, type_id))


def users_of_type(db: Db, record: TypeRecord) -> list[str]:
    """Queue tables and types that are made of a type."""
    tables = db.rows("SELECT schema, name FROM aq_queue_table WHERE type_id = ? ORDER BY name_key", (record.id,))
    users = [f"queue table {QualifiedName(*row).shown}" for row in tables]
    key = QualifiedName(record.schema, record.name).key
    for other in list_types(db):
        made_of = {getattr(part, "name", "") for part in list(other.type.parts())[1:]}
        if key in made_of:
            users.append(f"type {other.full_name}")
    return users


# -- EXECUTE -----------------------------------------------------------------------------------------------------------


def insert_grant(db: Db, type_id: int, grantee: str, grantor: str, now: float) -> int:
    """Store a grant; returns 0 if it is there already."""
    return db.run(
        "INSERT INTO aq_type_privilege (type_id, grantee_key, grantee, grantor, created) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        (type_id, grantee.upper(), grantee, grantor, now),
    )


def delete_grant(db: Db, type_id: int, grantee: str) -> int:
    """Delete a grant; returns 0 if there was none."""
    return db.run("DELETE FROM aq_type_privilege WHERE type_id = ? AND grantee_key = ?", (type_id, grantee.upper()))


def granted_types(db: Db, names: Iterable[str]) -> set[int]:
    """Ids of the types that were granted to any of these names."""
    wanted = tuple(names)
    marks = ", ".join("?" * len(wanted))
    return set(db.column(f"SELECT type_id FROM aq_type_privilege WHERE grantee_key IN ({marks})", wanted))


def list_grants(db: Db) -> list[tuple[str, TypePrivilege]]:
    """(schema of the type, grant) of every grant, by type and grantee."""
    rows = db.rows(
        """SELECT t.schema, t.name, p.grantee, p.grantor FROM aq_type_privilege p JOIN aq_type t ON t.id = p.type_id
            ORDER BY t.name_key, p.grantee_key"""
    )
    return [
        (schema, TypePrivilege(QualifiedName(schema, name).shown, grantee, grantor))
        for schema, name, grantee, grantor in rows
    ]
