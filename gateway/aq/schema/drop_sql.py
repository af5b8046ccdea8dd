"""What a hub's removal takes out of a database, and nothing else.

What is the hub's is known by name: the names that this release makes are made in memory, those of the views of queue
tables and queues are in the hub. Nothing is dropped that something of the application's needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from graphlib import TopologicalSorter
from typing import NamedTuple

import sqlalchemy as sa

from mgw.gateway.aq.functions import functions_sql as functions
from mgw.gateway.aq.schema.schema_sql import QUEUES_PART
from mgw.gateway.aq.store.namespace_sql import Namespace, quoted
from mgw.gateway.aq.store.schema_part import SchemaPart
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.aq.store.tables import State, states
from mgw.transforms.errors import HubError

__all__ = ["Waiting", "drop_postgresql", "drop_sqlite", "names_of", "waiting"]

_MADE = """
    SELECT name FROM sqlite_master
     WHERE type IN ('table', 'view', 'trigger') AND name NOT LIKE 'sqlite@_%' ESCAPE '@'"""
_OBJECT_VIEWS = "SELECT name FROM aq_view"
_WAITING = f"""
    SELECT COUNT(*), MIN(m.enq_time) FROM aq_message m
     WHERE m.state NOT IN {states(State.PROCESSED, State.SPLIT)}
        OR (m.state = {State.SPLIT}
            AND EXISTS (SELECT 1 FROM aq_entry e WHERE e.message_id = m.id AND e.state <> {State.PROCESSED}))"""
_RELATIONS = """
    SELECT c.relname, c.relkind::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = ? AND c.relkind IN ('r', 'v', 'S') ORDER BY c.relname"""
_SEQUENCES = ("aq_message_id", "aq_commit_number")  # those of columns go with their tables
# Functions of triggers on the hub's tables, and those that conditions on payloads call.
_ROUTINES = """
    SELECT DISTINCT p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
     WHERE n.nspname = ? AND (p.proname IN ('aq_text', 'aq_json') OR EXISTS (
           SELECT FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
            WHERE t.tgfoid = p.oid AND c.relnamespace = n.oid AND c.relname = ANY(?::text[])
              AND p.proname ~ '^(aq|gw|pl)_'))"""
_SQL_FUNCTIONS = """
    SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = ?"""
_EMPTY = """
    SELECT NOT EXISTS (SELECT FROM pg_class WHERE relnamespace = n.oid)
           AND NOT EXISTS (SELECT FROM pg_proc WHERE pronamespace = n.oid)
           AND NOT EXISTS (SELECT FROM pg_type WHERE typnamespace = n.oid)
           AND pg_get_userbyid(n.nspowner) = current_user
      FROM pg_namespace n WHERE n.nspname = ?"""
_OBJECTS = "SELECT type, name, coalesce(sql, '') FROM sqlite_master WHERE type IN ('table', 'view', 'trigger')"

_REFERENCES = """
    SELECT m.name, f."table" FROM sqlite_master m JOIN pragma_foreign_key_list(m.name) f
     WHERE m.type = 'table'"""


class Waiting(NamedTuple):
    """Messages that nobody has consumed yet: how many, and when the oldest was enqueued (epoch seconds)."""

    messages: int
    since: float | None


def names_of(parts: Sequence[SchemaPart]) -> frozenset[str]:
    """The tables, views and triggers that these parts and the queues make, in lower case."""
    engine = sa.create_engine("sqlite://")
    try:
        with engine.begin() as conn:
            for part in (QUEUES_PART, *parts):
                part.create(conn)
                part.make_derived(conn)
            return frozenset(name.lower() for (name,) in conn.exec_driver_sql(_MADE))
    finally:
        engine.dispose()


def waiting(db: Db) -> Waiting:
    """What would be lost with the hub."""
    number, since = db.row(_WAITING) or (0, None)
    return Waiting(int(number), since)


def drop_postgresql(
    db: Db, hub_id: bytes, namespace: Namespace, names: frozenset[str], where: str, *, parts: Sequence[SchemaPart]
) -> int:
    """Drop the hub's tables, views, sequences and functions, and its schemas if nothing else is in them.

    Returns:
        How many tables and views it had.

    Raises:
        HubError: something of the application's needs them.
    """
    schema = namespace.schema or ""
    views = {name for (name,) in db.rows(_OBJECT_VIEWS)}
    found = db.rows(_RELATIONS, (schema,))
    mine = {kind: [name for name, its in found if its == kind and _is_mine(name, names, views)] for kind in "rv"}
    sequences = [name for name, kind in found if kind == "S" and name in _SEQUENCES]
    routines = [signature for (signature,) in db.rows(_ROUTINES, (schema, mine["r"]))]
    with _dependents_named(where):
        _drop_functions(db, hub_id, parts)
        for kind, dropped in (("VIEW", mine["v"]), ("TABLE", mine["r"]), ("SEQUENCE", sequences)):
            if dropped:
                _run(db, f"DROP {kind} {', '.join(f'{quoted(schema)}.{quoted(name)}' for name in dropped)}")
        if routines:
            _run(db, f"DROP FUNCTION {', '.join(routines)}")
        _drop_schema(db, schema)
    return len(mine["v"]) + len(mine["r"])


def _is_mine(name: str, names: frozenset[str], views: set[str]) -> bool:
    return name in views or name.lower() in names


def _drop_functions(db: Db, hub_id: bytes, parts: Sequence[SchemaPart]) -> None:
    for home in (functions.HOME, *(part.functions.home for part in parts if part.functions)):
        found = home.found(db, hub_id)
        if found is None:
            continue
        name = found.schema
        signatures = [signature for (signature,) in db.rows(_SQL_FUNCTIONS, (name,))]
        if signatures:
            _run(db, f"DROP FUNCTION {', '.join(signatures)}")
        _run(db, f"DROP TYPE IF EXISTS {quoted(name)}.message")
        _drop_schema(db, name)


def _drop_schema(db: Db, name: str) -> None:
    if db.scalar(_EMPTY, (name,)) and name != "public":
        _run(db, f"DROP SCHEMA {quoted(name)}")


def _run(db: Db, sql: str) -> None:
    db.raw.execute(sql).close()  # names in it may hold any character


@contextmanager
def _dependents_named(where: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if getattr(error, "sqlstate", None) != "2BP01":
            raise
        detail = getattr(getattr(error, "diag", None), "message_detail", None) or str(error)
        raise _needed(where, "; ".join(detail.splitlines())) from error


def _needed(where: str, cause: str) -> HubError:
    return HubError(
        f"hub {where} was not dropped",
        cause=cause,
        cure="drop what needs it first, or leave the hub; nothing was changed",
    )


def _referring_first(db: Db, tables: Sequence[str]) -> Iterable[str]:
    """The tables in an order in which no row that goes is one that another table still refers to."""
    known = set(tables)
    order: TopologicalSorter[str] = TopologicalSorter(dict.fromkeys(tables, ()))
    for referring, referred in db.rows(_REFERENCES):
        if referring != referred and {referring, referred} <= known:
            order.add(referred, referring)
    return order.static_order()


def drop_sqlite(db: Db, names: frozenset[str], where: str) -> int:
    """Drop the hub's tables and views, with their indexes and triggers.

    Returns:
        How many there were.

    Raises:
        HubError: something of the application's names them.
    """
    views = {name for (name,) in db.rows(_OBJECT_VIEWS)}
    objects = db.rows(_OBJECTS)
    mine = {name: kind for kind, name, _ in objects if _is_mine(name, names, views)}
    named = re.compile(rf"(?i)(?<![\w$])({'|'.join(map(re.escape, sorted(mine, key=len, reverse=True)))})(?![\w$])")
    for kind, name, sql in objects:
        if name not in mine and (found := named.search(sql)):
            raise _needed(where, f"{kind} {name} of the application uses {found[1]}")
    views_first = [("view", name) for name, kind in mine.items() if kind == "view"]
    tables = [name for name, kind in mine.items() if kind == "table"]
    for kind, name in (*views_first, *(("table", name) for name in _referring_first(db, tables))):
        db.raw.execute(f"DROP {kind} {quoted(name)}").close()
    return sum(kind != "trigger" for kind in mine.values())
