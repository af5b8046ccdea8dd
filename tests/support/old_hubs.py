"""Hubs of older releases, as their own code made them (``tests/fixtures/hubs``), and what they must hold."""

from __future__ import annotations

import json
import lzma
import shutil
import subprocess
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy as sa

from tests.support.brokers import PostgreSQL

__all__ = ["FIRST", "differences", "load_postgresql", "load_sqlite", "manifest", "shown"]

FOLDER = Path(__file__).resolve().parents[1] / "fixtures" / "hubs"
#: The hub of the commit before upgrades existed.
FIRST = "20be300"
ROLE = "hub_reader"  # of PostgreSQL, with grants on views and functions of the hub


def load_sqlite(path: Path, release: str = FIRST) -> str:
    """Put the hub into a file, its key next to it; the address."""
    path.write_bytes(lzma.decompress((FOLDER / f"{release}.sqlite.xz").read_bytes()))
    key = path.with_name(f"{path.name}.key")
    shutil.copy(FOLDER / f"{release}.key", key)
    key.chmod(0o600)
    return f"sqlite:///{path}"


def load_postgresql(server: PostgreSQL, name: str, release: str = FIRST) -> str:
    """Put the hub into a new database; the address."""
    url = server.create_database(name)
    plain = url.replace("postgresql+psycopg://", "postgresql://")
    with psycopg.connect(plain, autocommit=True) as connection:
        if connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (ROLE,)).fetchone() is None:
            connection.execute(f"CREATE ROLE {ROLE}")
    text = lzma.decompress((FOLDER / f"{release}.postgresql.sql.xz").read_bytes())
    program = shutil.which("psql")
    assert program is not None
    subprocess.run(
        [program, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", plain], input=text, check=True, stdout=subprocess.DEVNULL
    )
    return url


def manifest(kind: str, release: str = FIRST) -> Any:
    """What the hub held when it was made: rows of its tables, messages of its queues, its secrets in clear text."""
    return json.loads(lzma.decompress((FOLDER / f"{release}.{kind}.json.xz").read_bytes()))


def differences(conn: sa.Connection, tables: Any) -> list[str]:
    """What the tables of a hub lack of those in a manifest; columns that were added count for nothing."""
    found = []
    for name, known in tables.items():
        columns = ", ".join(f'"{column}"' for column in known["columns"])
        rows = conn.exec_driver_sql(f'SELECT {columns} FROM "{name}"').all()
        there = sorted(([shown(value) for value in row] for row in rows), key=repr)
        if there != known["rows"]:
            lost = [row for row in known["rows"] if row not in there]
            more = [row for row in there if row not in known["rows"]]
            found.append(f"{name}: lost {lost}, more {more}")
    return found


def shown(value: Any) -> Any:
    """A value as the manifest has it."""
    if isinstance(value, (bytes, memoryview)):
        return {"hex": bytes(value).hex()}
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return {"float": str(value)}
    if isinstance(value, (datetime, Decimal)):
        return str(value)
    return value
