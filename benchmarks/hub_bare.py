"""The hub's SQL without the hub: the statements on messages, sent through the driver's own interface.

Tables, indexes, columns, values and durability are the hub's own. Left out is all that a queue is beside a table: the
look at the queue and its settings, the checks, the notification of who waits, and every conversion between messages and
rows. A batch is one transaction in and one out; only :class:`BareClaims` does what a session on SQLite needs beside.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from gateway.aq.codec import COLUMNS, MESSAGE_COLUMNS, MESSAGE_TYPES
from gateway.aq.statements_schema import settle

__all__ = ["BareClaims", "BarePostgreSQL", "BareSQLite"]

Row = tuple[Any, ...]
_NAMES = ", ".join(MESSAGE_COLUMNS)
_SELECT = f"""SELECT {COLUMNS.format(a="m")} FROM aq_message m
               WHERE m.queue_id = ? AND m.state = 0 ORDER BY m.k1, m.k2, m.k3 LIMIT ?"""
_COPY_FROM = 20  # rows; below that executemany is faster


class BareSQLite:
    """One connection with the settings of the hub's; each call is a transaction that survives a power failure."""

    def __init__(self, path: str, queue_id: int) -> None:
        self._queue_id = queue_id
        self._raw = sqlite3.connect(path, isolation_level=None)
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=4000", "cache_size=-16000"):
            self._raw.execute(f"PRAGMA {pragma}")
        self._insert = f"INSERT INTO aq_message ({_NAMES}) VALUES ({', '.join('?' * len(MESSAGE_COLUMNS))})"

    def enqueue(self, rows: Sequence[Row]) -> None:
        """Take ids and insert rows."""
        execute = self._raw.execute
        execute("BEGIN IMMEDIATE")
        execute("UPDATE aq_counter SET value = value + ? WHERE name = 'message' RETURNING value", (len(rows),)).close()
        self._raw.executemany(self._insert, rows)
        execute("COMMIT")

    def dequeue(self, limit: int) -> list[Row]:
        """Select and delete."""
        execute = self._raw.execute
        execute("BEGIN IMMEDIATE")
        found = execute(_SELECT, (self._queue_id, limit)).fetchall()
        ids = f"[{','.join([str(row[0]) for row in found])}]"
        execute("DELETE FROM aq_message WHERE queue_id = ? AND id IN (SELECT value FROM json_each(?))",
                (self._queue_id, ids))  # fmt: skip
        execute("COMMIT")
        return found

    def close(self) -> None:
        """Close the connection."""
        self._raw.close()


class BareClaims(BareSQLite):
    """The statements of a session of its own on SQLite, which holds no transaction between two calls.

    Ids are taken, and messages claimed, in transactions that need not reach the disk; the commit inserts or deletes.
    """

    def enqueue(self, rows: Sequence[Row]) -> None:
        """Take ids; insert rows."""
        execute = self._raw.execute
        self._begin("NORMAL")
        execute("UPDATE aq_counter SET value = value + ? WHERE name = 'message' RETURNING value", (len(rows),)).close()
        execute("COMMIT")
        self._begin("FULL")
        self._raw.executemany(self._insert, rows)
        execute("COMMIT")

    def dequeue(self, limit: int) -> list[Row]:
        """Select and claim; delete."""
        execute = self._raw.execute
        self._begin("NORMAL")
        found = execute(_SELECT, (self._queue_id, limit)).fetchall()
        ids = f"[{','.join([str(row[0]) for row in found])}]"
        execute("UPDATE aq_message SET state = 8, claim = 1 WHERE id IN (SELECT value FROM json_each(?))", (ids,))
        execute("COMMIT")
        self._begin("FULL")
        execute("DELETE FROM aq_message WHERE queue_id = ? AND id IN (SELECT value FROM json_each(?)) AND claim = 1",
                (self._queue_id, ids))  # fmt: skip
        execute("COMMIT")
        return found

    def _begin(self, synchronous: str) -> None:
        self._raw.execute(f"PRAGMA synchronous={synchronous}")
        self._raw.execute("BEGIN IMMEDIATE")


class BarePostgreSQL:
    """One connection with the settings of the hub's, planner included; the driver prepares what it sends often."""

    def __init__(self, url: str, queue_id: int) -> None:
        import psycopg

        self._queue_id = queue_id
        self._raw = psycopg.connect(url.replace("+psycopg", ""))
        settle(self._raw, "on")
        self._insert = f"INSERT INTO aq_message ({_NAMES}) VALUES ({', '.join(['%s'] * len(MESSAGE_COLUMNS))})"
        self._select = f"{_SELECT} FOR UPDATE SKIP LOCKED".replace("?", "%s")

    def enqueue(self, rows: Sequence[Row]) -> None:
        """Take ids and insert rows."""
        with self._raw.cursor(binary=True) as cursor:
            cursor.execute("SELECT nextval('aq_message_id') FROM generate_series(1, %s::int)", (len(rows),))
            cursor.fetchall()
            if len(rows) < _COPY_FROM:
                cursor.executemany(self._insert, rows)
            else:
                with cursor.copy(f"COPY aq_message ({_NAMES}) FROM STDIN (FORMAT BINARY)") as copy:
                    copy.set_types(MESSAGE_TYPES)
                    for row in rows:
                        copy.write_row(row)
        self._raw.commit()

    def dequeue(self, limit: int) -> list[Row]:
        """Select, skipping what others have locked, and delete."""
        with self._raw.cursor(binary=True) as cursor:
            found = cursor.execute(self._select, (self._queue_id, limit)).fetchall()
            ids = [row[0] for row in found]
            cursor.execute("DELETE FROM aq_message WHERE queue_id = %s AND id = ANY(%s::bigint[])",
                           (self._queue_id, ids))  # fmt: skip
        self._raw.commit()
        return found

    def close(self) -> None:
        """Close the connection."""
        self._raw.close()
