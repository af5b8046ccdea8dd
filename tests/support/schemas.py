"""The shape of a hub's schema: to compare an upgraded hub with a new one, and to notice a change without a version.

``python -m tests.support.schemas`` records the shape of every part under its version, in
``tests/fixtures/hubs/shapes.json``. A version that was released (``released`` there) keeps its shape: what changes
later needs a step and a version of its own.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy as sa

from mgw.gateway.aq.functions.functions_sql import FUNCTIONS_VERSION
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.schema.schema_sql import QUEUES_PART
from mgw.gateway.aq.store.schema_part import SchemaPart
from mgw.gateway.services.upgrade import parts
from tests.support.brokers import PostgreSQL

__all__ = ["SHAPES", "digests", "recorded", "shape", "versions"]

SHAPES = Path(__file__).resolve().parents[1] / "fixtures" / "hubs" / "shapes.json"

# -- what is in a database -------------------------------------------------------------------------------------------


def shape(conn: sa.Connection) -> dict[str, Any]:
    """Every object of the hub by kind and name, with all that the database knows of it; no rows, and no numbers."""
    return _postgresql(conn) if conn.dialect.name == "postgresql" else _sqlite(conn)


def _sqlite(conn: sa.Connection) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind, name, sql in conn.exec_driver_sql(
        "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL"
    ).all():
        found[f"{kind} {name}"] = _table(sql) if kind == "table" else " ".join(sql.split())
    return found


def _table(sql: str) -> dict[str, Any]:
    """Columns in their order; constraints in none; the table's own options."""
    text = " ".join(sql.split())
    begin, end = text.index("("), text.rindex(")")
    columns, constraints = [], []
    for part in _parts(text[begin + 1 : end]):
        constraint = re.match(r"(CONSTRAINT|PRIMARY KEY|UNIQUE|CHECK|FOREIGN KEY)\b", part)
        (constraints if constraint else columns).append(part)
    return {"columns": columns, "constraints": sorted(constraints), "options": text[end + 1 :].strip()}


def _parts(text: str) -> Iterator[str]:
    """What commas outside of parentheses and quotes divide."""
    depth, quoted, begin = 0, False, 0
    for place, character in enumerate(text):
        quoted ^= character == "'"
        if not quoted:
            depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and not depth and not quoted:
            yield text[begin:place].strip()
            begin = place + 1
    yield text[begin:].strip()


_SCHEMAS = "(SELECT relnamespace FROM pg_class WHERE oid = 'aq_hub'::regclass)"
_OBJECTS = f"""
    SELECT 'column ' || c.relname, jsonb_agg(jsonb_build_array(a.attname, format_type(a.atttypid, a.atttypmod),
           a.attnotnull, pg_get_expr(d.adbin, d.adrelid), a.attidentity, a.attgenerated, a.attcollation::regcollation)
           ORDER BY a.attnum)
      FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
      LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
     WHERE c.relnamespace = {_SCHEMAS} AND c.relkind IN ('r', 'v') AND a.attnum > 0 AND NOT a.attisdropped
     GROUP BY c.relname
    UNION ALL
    SELECT 'constraint ' || c.conrelid::regclass || ' ' || c.conname,
           jsonb_build_array(pg_get_constraintdef(c.oid), c.convalidated, c.condeferrable)
      FROM pg_constraint c WHERE c.connamespace = {_SCHEMAS}
    UNION ALL
    SELECT 'index ' || indexname, to_jsonb(indexdef) FROM pg_indexes
     WHERE schemaname = (SELECT nspname FROM pg_namespace WHERE oid = {_SCHEMAS})
    UNION ALL
    SELECT 'view ' || relname, jsonb_build_array(pg_get_viewdef(oid), reloptions) FROM pg_class
     WHERE relnamespace = {_SCHEMAS} AND relkind = 'v'
    UNION ALL
    SELECT 'function ' || p.oid::regprocedure, to_jsonb(pg_get_functiondef(p.oid)) FROM pg_proc p
     WHERE p.pronamespace IN ({_SCHEMAS}, (SELECT oid FROM pg_namespace WHERE nspname = 'aq'))
    UNION ALL
    SELECT 'trigger ' || t.tgrelid::regclass || ' ' || t.tgname, to_jsonb(pg_get_triggerdef(t.oid)) FROM pg_trigger t
      JOIN pg_class c ON c.oid = t.tgrelid WHERE c.relnamespace = {_SCHEMAS} AND NOT t.tgisinternal
    UNION ALL
    SELECT 'sequence ' || s.seqrelid::regclass, jsonb_build_array(s.seqtypid::regtype, s.seqstart, s.seqincrement,
           s.seqmin, s.seqmax, s.seqcache, s.seqcycle) FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid
     WHERE c.relnamespace = {_SCHEMAS}
    UNION ALL
    SELECT 'type ' || t.typname, (SELECT jsonb_agg(jsonb_build_array(a.attname, format_type(a.atttypid, a.atttypmod))
           ORDER BY a.attnum) FROM pg_attribute a WHERE a.attrelid = t.typrelid)
      FROM pg_type t JOIN pg_class c ON c.oid = t.typrelid
     WHERE t.typnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'aq') AND c.relkind = 'c'
    UNION ALL
    SELECT 'grants ' || c.relname, (SELECT jsonb_agg(a.grantee::regrole || ' ' || a.privilege_type ORDER BY 1)
           FROM aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) a)
      FROM pg_class c WHERE c.relnamespace = {_SCHEMAS} AND c.relkind IN ('r', 'v')
    UNION ALL
    SELECT 'grants ' || p.oid::regprocedure, (SELECT jsonb_agg(a.grantee::regrole || ' ' || a.privilege_type
           ORDER BY a.grantee::regrole || ' ' || a.privilege_type)
           FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a)
      FROM pg_proc p WHERE p.pronamespace IN ({_SCHEMAS}, (SELECT oid FROM pg_namespace WHERE nspname = 'aq'))"""


def _postgresql(conn: sa.Connection) -> dict[str, Any]:
    return dict(map(tuple, conn.exec_driver_sql(_OBJECTS.replace("%", "%%")).all()))


# -- what makes it ---------------------------------------------------------------------------------------------------


def versions() -> dict[str, int]:
    """The version of every part of this release; of the SQL functions, too."""
    found = {part.name: part.version for part in (QUEUES_PART, *parts())}
    return found | {"functions": FUNCTIONS_VERSION}


def digests(server: PostgreSQL) -> dict[str, str]:
    """A digest of every part of the schema: of the statements that make it, in both databases."""
    found: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        _add(found, f"sqlite:///{folder}/hub.db")
    database = "shapes"
    url = server.create_database(database)
    try:
        _add(found, url)
    finally:
        server.drop_database(database)
    return {name: hashlib.sha256("\n".join(sorted(texts)).encode()).hexdigest()[:32] for name, texts in found.items()}


def _add(found: dict[str, list[str]], url: str) -> None:
    made: list[SchemaPart] = []
    before: dict[str, str] = {}
    for part in (QUEUES_PART, *parts()):
        with _statements() as sent:
            schemas = [*made, part] if part is not QUEUES_PART else []
            Hub.open(url, create=True, schemas=schemas).close()
        made += schemas[-1:]
        if url.startswith("sqlite"):
            engine = sa.create_engine(url)
            with engine.connect() as conn:
                there = {name: json.dumps(value) for name, value in _sqlite(conn).items()}
            engine.dispose()
            sent = [f"{name} {there[name]}" for name in sorted(there.keys() - before.keys())]
            before = there
        found.setdefault(part.name, []).extend(text for text in sent if "FUNCTION aq." not in text)
        found.setdefault("functions", []).extend(text for text in sent if "FUNCTION aq." in text)


@contextmanager
def _statements() -> Iterator[list[str]]:
    """Definitions that are sent to PostgreSQL meanwhile."""
    sent: list[str] = []
    execute = psycopg.Cursor.execute

    def noting(self: Any, query: Any, *args: Any, **options: Any) -> Any:
        text = " ".join(str(query).replace("%%", "%").split())
        if re.match(r"(CREATE|ALTER|GRANT|REVOKE)\b", text):
            sent.append(text)
        return execute(self, query, *args, **options)

    psycopg.Cursor.execute = noting  # type: ignore[method-assign]
    try:
        yield sent
    finally:
        psycopg.Cursor.execute = execute  # type: ignore[method-assign]


def recorded() -> Mapping[str, Any]:
    """The contents of :data:`SHAPES`: ``released`` (part: version) and ``shapes`` (part: version: digest)."""
    return json.loads(SHAPES.read_text()) if SHAPES.exists() else {"released": {}, "shapes": {}}


def main() -> int:
    """Record the shapes of this release."""
    known = recorded()
    with PostgreSQL() as server:
        found = digests(server)
    wrong = []
    for name, version in versions().items():
        shapes = known["shapes"].setdefault(name, {})
        if version <= known["released"].get(name, 0) and shapes.get(str(version)) not in (None, found[name]):
            wrong.append(f"{name}: version {version} was released, and its shape has changed: raise it, and add a step")
        else:
            shapes[str(version)] = found[name]
    if wrong:
        sys.stderr.write("\n".join(wrong) + "\n")
        return 1
    SHAPES.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
