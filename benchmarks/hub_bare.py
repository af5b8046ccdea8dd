"""The hub's SQL without the hub, sent through the driver's own interface.

Tables, indexes, columns, values and durability are the hub's own. :class:`SessionSQLite` and :class:`SessionPostgreSQL`
send every statement that a session sends, without the checks and conversions between messages and rows.
:class:`BareSQLite` and :class:`BarePostgreSQL` send those on messages alone, one transaction in and one out: a table,
and nothing that makes it a queue (no look at the queue and its settings, no notification of who waits, no claims).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from mgw.gateway.aq.queues import catalog_sql as catalog
from mgw.gateway.aq.queues import messages_sql
from mgw.gateway.aq.store.columns import NEW_MESSAGE, STORED
from mgw.gateway.aq.store.settings_sql import settle

__all__ = ["BarePostgreSQL", "BareSQLite", "SessionPostgreSQL", "SessionSQLite"]

Row = tuple[Any, ...]
_NAMES = ", ".join(NEW_MESSAGE.names)
_SELECT = f"""SELECT {STORED.of("m")} FROM aq_message m
               WHERE m.queue_id = ? AND m.state = 0 ORDER BY m.k1, m.k2, m.k3 LIMIT ?"""
_QUEUE_KEY = "MGW.BENCH"
_COPY_FROM = 20  # rows; below that executemany is faster


class BareSQLite:
    """One connection with the settings of the hub's; each call is a transaction that survives a power failure."""

    def __init__(self, path: str, queue_id: int) -> None:
        self._queue_id = queue_id
        self._raw = sqlite3.connect(path, isolation_level=None)
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=4000", "cache_size=-16000"):
            self._raw.execute(f"PRAGMA {pragma}")
        self._insert = f"INSERT INTO aq_message ({_NAMES}) VALUES ({', '.join('?' * len(NEW_MESSAGE))})"

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


class SessionSQLite(BareSQLite):
    """Every statement of a session of its own on SQLite, which holds no transaction between two calls.

    Ids are taken, and messages claimed, in transactions that need not reach the disk; the commit inserts or deletes.
    Each of the four looks at the queue first.
    """

    def __init__(self, path: str, queue_id: int) -> None:
        super().__init__(path, queue_id)
        self._raw.execute("INSERT INTO aq_session (id, host, pid, lease_until, created) VALUES (1, '', 0, 1e12, 0)")

    def enqueue(self, rows: Sequence[Row]) -> None:
        """Look, take ids; look, insert rows."""
        execute = self._raw.execute
        self._begin("NORMAL")
        execute(catalog._BOTH["enqueue"], (_QUEUE_KEY,)).fetchall()
        execute("UPDATE aq_counter SET value = value + ? WHERE name = 'message' RETURNING value", (len(rows),)).close()
        execute("COMMIT")
        self._begin("FULL")
        execute(catalog._PLAIN, (self._queue_id,)).fetchall()
        self._raw.executemany(self._insert, rows)
        execute("COMMIT")

    def dequeue(self, limit: int) -> list[Row]:
        """Look, select and claim; look, delete."""
        execute = self._raw.execute
        self._begin("NORMAL")
        execute(catalog._BOTH["dequeue"], (_QUEUE_KEY,)).fetchall()
        found = execute(_SELECT, (self._queue_id, limit)).fetchall()
        ids = f"[{','.join([str(row[0]) for row in found])}]"
        execute("UPDATE aq_message SET state = 8, claim = ? WHERE id IN (SELECT value FROM json_each(?))"
                " AND EXISTS (SELECT 1 FROM aq_session WHERE id = ?)", (1, ids, 1))  # fmt: skip
        execute("COMMIT")
        self._begin("FULL")
        execute(catalog._PLAIN, (self._queue_id,)).fetchall()
        execute("DELETE FROM aq_message WHERE queue_id = ? AND id IN (SELECT value FROM json_each(?)) AND state = 8"
                " AND claim = ?", (self._queue_id, ids, 1))  # fmt: skip
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
        settle(self._raw, "on", "public")
        self._insert = f"INSERT INTO aq_message ({_NAMES}) VALUES ({', '.join(['%s'] * len(NEW_MESSAGE))})"
        self._select = f"{_SELECT} FOR UPDATE SKIP LOCKED".replace("?", "%s")

    def enqueue(self, rows: Sequence[Row]) -> None:
        """Take ids and insert rows."""
        with self._raw.cursor(binary=True) as cursor:
            self._ids(cursor, len(rows))
            if len(rows) < _COPY_FROM:
                cursor.executemany(self._insert, rows)
            else:
                with cursor.copy(f"COPY aq_message ({_NAMES}) FROM STDIN (FORMAT BINARY)") as copy:
                    copy.set_types(NEW_MESSAGE.texts)
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

    def _ids(self, cursor: Any, count: int) -> None:
        cursor.execute("SELECT nextval('aq_message_id') FROM generate_series(1, %s::int)", (count,))
        cursor.fetchall()

    def close(self) -> None:
        """Close the connection."""
        self._raw.close()


class SessionPostgreSQL(BarePostgreSQL):
    """Every statement of a session of its own on PostgreSQL: it looks at the queue first, and tells who waits."""

    def __init__(self, url: str, queue_id: int) -> None:
        super().__init__(url, queue_id)
        self._looks = {name: sql.replace("%", "%%").replace("?", "%s") for name, sql in catalog._BOTH_HELD.items()}
        self._store_one = messages_sql._STORE_ONE[False, True].replace("?", "%s")
        chosen = self._select.partition(" FROM ")[2]
        self._remove = (
            f"DELETE FROM aq_message m WHERE m.id = ANY(ARRAY(SELECT m.id FROM {chosen})) RETURNING {messages_sql._M}"
        )

    def enqueue(self, rows: Sequence[Row]) -> None:
        """Look, take ids and notify, insert rows; a single row in one statement."""
        with self._raw.cursor(binary=True) as cursor:
            cursor.execute(self._looks["enqueue"], (_QUEUE_KEY,)).fetchall()
            if len(rows) == 1:
                values = [value for place, value in enumerate(rows[0]) if place not in messages_sql._NUMBERS]
                cursor.execute(self._store_one, (*values, str(self._queue_id))).fetchall()
                self._raw.commit()
                return
        super().enqueue(rows)

    def dequeue(self, limit: int) -> list[Row]:
        """Look, then select and delete in one statement."""
        with self._raw.cursor(binary=True) as cursor:
            cursor.execute(self._looks["dequeue"], (_QUEUE_KEY,)).fetchall()
            found = cursor.execute(self._remove, (self._queue_id, limit)).fetchall()
        self._raw.commit()
        return found

    def _ids(self, cursor: Any, count: int) -> None:
        cursor.execute(
            "SELECT nextval('aq_message_id') FROM pg_notify('mgw_hub', %s) CROSS JOIN generate_series(1, %s::int)",
            (str(self._queue_id), count),
        )
        cursor.fetchall()
