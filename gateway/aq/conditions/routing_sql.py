"""Subscriber rules as PostgreSQL evaluates them when SQL enqueues: the text stored next to the rule.

It stands on the row ``m`` of the message and on its delay ``d.delay``; it is true, false, or NULL where only Python can
tell whether the rule holds. Then the SQL functions refuse the message: they route as Python does, or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from typing import Any

from mgw.gateway.aq.conditions.sql.values import Piece
from mgw.gateway.aq.model import PayloadType
from mgw.gateway.aq.store.statements import Db
from mgw.transforms.errors import ExpressionInvalid

__all__ = ["qualified", "schema_of_tables", "translate"]

_MAX_SQL = 100_000  # characters; a longer one is left to Python
_RULES = """
    SELECT c.id, c.rule, t.payload_type, h.hub_id FROM aq_consumer c JOIN aq_queue q ON q.id = c.queue_id
      JOIN aq_queue_table t ON t.id = q.queue_table_id CROSS JOIN aq_hub h WHERE c.rule IS NOT NULL"""
_SCHEMA = """
    SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = 'aq_hub'::regclass"""
_STORE = "UPDATE aq_consumer SET rule_sql = ? WHERE id = ?"


@cache
def _columns(hub_id: bytes) -> Mapping[str, Piece]:
    """Properties of a message that is being enqueued: it has no id and no enqueue time yet."""
    from mgw.gateway.aq.conditions.sql.columns import message_columns

    nothing = Piece("0::bigint", (), "integer", low=0, high=0)
    return {
        **message_columns(hub_id, postgresql=True, entries=False),
        "msgid": Piece("NULL::text", (), "text"),
        "enq_time": Piece("NULL::float8", (), "float"),
        "delay": Piece("coalesce(d.delay, 0)", (), "float", low=0, high=2.0**40),
        "retry_count": nothing,
        "attempts": nothing,
    }


def translate(db: Db, consumer: int | None = None) -> None:
    """Store the rule of one consumer, or of all, as this release puts it in SQL; nothing on SQLite."""
    if not db.postgresql:
        return
    which, params = ("", ()) if consumer is None else (" AND c.id = ?", (consumer,))
    schema = schema_of_tables(db)
    for number, rule, payload_type, hub_id in db.rows(_RULES + which, params):
        sql = _translated(rule, payload_type, bytes(hub_id), schema)
        db.run(_STORE, (sql, number))


def schema_of_tables(db: Db) -> str:
    """The schema that has the hub's tables (PostgreSQL)."""
    return db.scalar(_SCHEMA) or "public"


def qualified(sql: str, schema: str) -> str:
    """SQL in which the names of the hub's tables, sequences and functions have their schema."""
    quoted = '"' + schema.replace('"', '""').replace("'", "''") + '"'
    return re.sub(r"\baq_[a-z_]+\b", lambda found: f"{quoted}.{found[0]}", sql)


def _translated(rule: str, payload_type: str, hub_id: bytes, schema: str) -> str | None:
    """The rule in SQL; None where the database can never tell."""
    from mgw.gateway.aq.conditions.sql.payload import Payload
    from mgw.gateway.aq.conditions.sql.rules import answer
    from mgw.transforms.language.compiler import analyse

    payload = Payload(postgresql=True, fields=payload_type == PayloadType.FIELDS)
    try:
        found = answer(analyse(rule), _columns(hub_id), payload)
    except ExpressionInvalid:  # for this release, or without a function that is registered elsewhere
        return None
    if found is None:
        return None
    truth = _with_values(qualified(found.sql, schema), found.params)
    known = _with_values(qualified(found.known, schema), found.known_params)
    if truth is None or known is None:
        return None
    sql = f"CASE WHEN {known} THEN ({truth}) IS TRUE END"
    return sql if len(sql) <= _MAX_SQL else None


def _with_values(sql: str, params: tuple[Any, ...]) -> str | None:
    """The template with its parameters written out."""
    values = iter(params)
    if sql.count("?") != len(params) or len(re.findall(r"\?::\w", sql)) != len(params):
        return None
    return re.sub(r"\?", lambda _: _literal(next(values)), sql)


def _literal(value: Any) -> str:
    """A literal that means the same whatever ``standard_conforming_strings`` is; a cast stands behind it."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    text = format(value, "f") if isinstance(value, Decimal) else value if isinstance(value, str) else repr(value)
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
