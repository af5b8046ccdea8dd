"""How the hub speaks SQL: one template per statement, two databases, plain tuples.

A template is SQL with ``?`` for parameters and these words:

=============  ==========================================  ==============================
word           SQLite                                      PostgreSQL
=============  ==========================================  ==============================
``{ids}``      ``IN (SELECT value FROM json_each(?))``     ``= ANY(?::bigint[])``
``{texts}``    ``IN (SELECT value FROM json_each(?))``     ``= ANY(?::text[])``
``{lock}``     nothing: there is one writer                ``FOR UPDATE SKIP LOCKED``
``{lock_e}``   nothing                                     ``FOR UPDATE OF e SKIP LOCKED``
``{like}``     ``GLOB ?``                                  ``LIKE ? ESCAPE ''``
``{channel}``  -                                           name of the hub's channel
=============  ==========================================  ==============================

On PostgreSQL the hub's tables get their schema, see :mod:`mgw.gateway.aq.store.namespace_sql`.

Statements run on the driver's own cursor (prepared by the driver, no expression building): on the path of every message
that is worth a factor of two.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Protocol

import sqlalchemy as sa

from mgw.gateway.aq.store.connection_state import ConnectionState
from mgw.gateway.aq.store.insert_sql import FEW, insertion, insertions
from mgw.gateway.aq.store.namespace_sql import Namespace
from mgw.gateway.aq.store.pg_pipeline import Check, Pipeline
from mgw.gateway.aq.store.queue_settings import SettingsAhead
from mgw.gateway.aq.store.tables import COMMIT_COUNTER, MESSAGE_COUNTER
from mgw.transforms.errors import AqError

__all__ = ["Db", "Row"]

Row = tuple[Any, ...]

_NOTIFIED = 350  # queues in one notice: PostgreSQL takes less than 8000 bytes
_TEMPLATES = 2048  # statements known; conditions of callers are part of some
_ANYWHERE = Namespace(None)
_IDS = "SELECT nextval('aq_message_id') FROM generate_series(1, ?::int)"
_IDS_AND_NOTICE = "SELECT nextval('aq_message_id') FROM pg_notify({channel}, ?) CROSS JOIN generate_series(1, ?::int)"
_NOTICE = "SELECT pg_notify({channel}, ?)"
_COPY_FROM = 20  # rows; below that COPY costs PostgreSQL more than it saves


class _Connection(Protocol):
    def execute(self, sql: str, params: Sequence[Any] = ...) -> Any: ...

    def cursor(self, **options: Any) -> Any: ...


@lru_cache(maxsize=_TEMPLATES)
def _sqlite(template: str) -> str:
    return (
        template.replace("{ids}", "IN (SELECT value FROM json_each(?))")
        .replace("{texts}", "IN (SELECT value FROM json_each(?))")
        .replace("{lock}", "")
        .replace("{lock_e}", "")
        .replace("{like}", "GLOB ?")
    )


class Db:
    """The driver's connection under a SQLAlchemy connection, inside its transaction (begun here if need be).

    Args:
        namespace: of the hub, for a connection of other people (PostgreSQL).

    Attributes:
        tally: what the transaction does, to be counted when it has committed; None on a connection of other people.
        settings: of a queue, read with it for the next call that asks for them.
        settled: whether the connection prefers plans that follow an index (every connection of a hub does).
    """

    __slots__ = (
        "_cursor",
        "_pipeline",
        "_raw",
        "_sql",
        "_told",
        "connection",
        "postgresql",
        "settings",
        "settled",
        "state",
        "tally",
    )

    def __init__(self, conn: sa.Connection, namespace: Namespace | None = None) -> None:
        if not conn.in_transaction():
            conn.begin()
        self.connection = conn
        self.postgresql = conn.dialect.name == "postgresql"
        driver: Any = conn.connection.driver_connection
        self._raw: _Connection = driver
        state: ConnectionState | None = getattr(driver, "hub_state", None)
        self.state = state
        self.settled = state is not None
        self.tally: list[Any] | None = None
        self._cursor: Any = None
        self._pipeline: Pipeline | None = None
        known = namespace or _ANYWHERE
        if state is not None:
            self.tally, self._pipeline = state.tally, state.pipeline
            known = namespace or state.namespace or _ANYWHERE
        self._sql: Callable[[str], str] = known.sql if self.postgresql else _sqlite
        self._told: int | None = None
        self.settings: SettingsAhead | None = None

    @classmethod
    def within(cls, writer: tuple[sa.Connection, Any, ConnectionState], *, postgresql: bool) -> Db:
        """For a connection of the hub's own, its driver's connection and its state, in a transaction already."""
        db = cls.__new__(cls)
        db.connection, db._raw, state = writer
        db.postgresql = postgresql
        db.state = state
        db.tally = state.tally
        db._cursor = None
        db._pipeline = state.pipeline
        db._sql = state.namespace.sql if state.namespace is not None else _sqlite
        db.settled = True
        db.settings = db._told = None
        return db

    @property
    def raw(self) -> _Connection:
        """The driver's connection; what :meth:`later` was given is executed first."""
        if self._pipeline is not None:
            self._pipeline.flush()
        return self._raw

    def later(self, template: str, params: Sequence[Any] = (), check: Check | None = None) -> None:
        """A statement whose result nobody needs at once: on PostgreSQL it goes out with the next one, or the commit.

        ``check`` is given the number of rows that it changed, or returned, and raises where the transaction must not
        go on. On PostgreSQL the next statement raises that, or the commit.
        """
        if self._pipeline is not None:
            self._pipeline.later(self._sql(template), params, check)
            return
        if check is None:
            self.run(template, params)
        elif self.postgresql or not template.startswith("SELECT"):
            check(self.run(template, params))
        else:
            check(len(self.rows(template, params)))

    def rows(self, template: str, params: Sequence[Any] = ()) -> list[Row]:
        """Every row of a query."""
        if self._pipeline is not None:
            return self._pipeline.rows(self._sql(template), params)
        if self.postgresql:
            with self._raw.cursor(binary=True) as cursor:
                cursor.execute(self._sql(template), params)
                return cursor.fetchall()  # type: ignore[no-any-return]
        return self._raw.execute(self._sql(template), params).fetchall()  # type: ignore[no-any-return]

    @property
    def pipelined(self) -> bool:
        """Whether :meth:`together` saves round trips."""
        return self._pipeline is not None

    def together(self, *queries: tuple[str, Sequence[Any]]) -> list[list[Row]]:
        """The rows of some queries, executed in this order; on PostgreSQL in one round trip."""
        if self._pipeline is not None:
            return self._pipeline.together([(self._sql(template), params) for template, params in queries])
        return [self.rows(template, params) for template, params in queries]

    def found(self, template: str, params: Sequence[Any]) -> list[Row]:
        """Every row of a search in a queue, planned for the queue as it is: it may have been empty a moment ago."""
        if self.settled or not self.postgresql:
            return self.rows(template, params)
        with self._raw.cursor(binary=True) as cursor:
            cursor.execute(self._sql(template), params, prepare=False)
            return cursor.fetchall()  # type: ignore[no-any-return]

    def row(self, template: str, params: Sequence[Any] = ()) -> Row | None:
        """The first row of a query that returns few, or None."""
        found = self._few(template, params)
        return found[0] if found else None

    def scalar(self, template: str, params: Sequence[Any] = ()) -> Any:
        """The value of a query that asks for one, or None without a row."""
        found = self._few(template, params)
        if not found:
            return None
        (value,) = found[0]
        return value

    def column(self, template: str, params: Sequence[Any] = ()) -> list[Any]:
        """The values of a query that asks for one column, of every row."""
        return [value for (value,) in self.rows(template, params)]

    def _few(self, template: str, params: Sequence[Any]) -> list[Row]:
        """:meth:`rows` of a query whose result need not be given up at once: on PostgreSQL, a cursor is made once."""
        if self._pipeline is not None:
            return self._pipeline.rows(self._sql(template), params)
        if not self.postgresql:
            return self._raw.execute(self._sql(template), params).fetchall()  # type: ignore[no-any-return]
        if self._cursor is None:
            self._cursor = self._raw.cursor(binary=True)
        self._cursor.execute(self._sql(template), params)
        return self._cursor.fetchall()  # type: ignore[no-any-return]

    def run(self, template: str, params: Sequence[Any] = ()) -> int:
        """Number of rows a statement changed."""
        if self._pipeline is not None:
            return self._pipeline.run(self._sql(template), params)
        if self.postgresql:
            if self._cursor is None:
                self._cursor = self._raw.cursor(binary=True)
            number: int = self._cursor.execute(self._sql(template), params).rowcount
            return number
        cursor = self._raw.execute(self._sql(template), params)
        count: int = cursor.rowcount
        cursor.close()
        return count

    def many(self, template: str, rows: Iterable[Row]) -> None:
        """One statement for many rows."""
        if self._pipeline is not None:
            self.many_later(template, rows)
            self._pipeline.flush()
            return
        cursor = self.raw.cursor()
        try:
            cursor.executemany(self._sql(template), rows)
        finally:
            cursor.close()

    def many_later(self, template: str, rows: Iterable[Row]) -> None:
        """:meth:`later` for many rows."""
        if self._pipeline is None:
            self.many(template, rows)
            return
        sql = self._sql(template)
        for row in rows:
            self._pipeline.later(sql, row)

    def insert(self, table: str, columns: Sequence[str], types: Sequence[str], rows: Sequence[Row]) -> None:
        """Insert rows; large batches go to PostgreSQL by COPY (``types`` are its type names)."""
        if self.postgresql and len(rows) >= _COPY_FROM:
            copied = self._sql(f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)").replace("%%", "%")
            with self.raw.cursor() as cursor, cursor.copy(copied) as copy:
                copy.set_types(types)
                for row in rows:
                    copy.write_row(row)
        elif len(rows) == 1:  # to prepare for many costs more than it saves
            self.run(insertion(table, tuple(columns)), rows[0])
        elif self.postgresql or len(rows) < FEW:
            self.many(insertion(table, tuple(columns)), rows)
        else:
            for statement, parameters in insertions(table, columns, rows):
                self.many(statement, parameters)

    @contextmanager
    def undone_on_error(self) -> Iterator[None]:
        """Undo what the body did, its row locks too, when it is refused; the transaction continues (PostgreSQL
        only)."""
        if not self.postgresql:
            yield
            return
        self.raw.execute("SAVEPOINT mgw_undo").close()
        try:
            yield
        except AqError:
            self.raw.execute("ROLLBACK TO SAVEPOINT mgw_undo").close()
            raise
        self.raw.execute("RELEASE SAVEPOINT mgw_undo").close()

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Undo what the body did when it is refused; the transaction, maybe the application's, goes on."""
        if not self.postgresql:  # a savepoint that comes before the first change would end the transaction with itself
            self.run("DELETE FROM aq_queue_table WHERE id IS NULL")
        self.raw.execute("SAVEPOINT mgw_whole").close()
        try:
            yield
        except AqError:
            self.raw.execute("ROLLBACK TO SAVEPOINT mgw_whole").close()
            self.raw.execute("RELEASE SAVEPOINT mgw_whole").close()
            raise
        self.raw.execute("RELEASE SAVEPOINT mgw_whole").close()

    def ids(self, ids: Iterable[int]) -> Any:
        """Parameter for ``{ids}``."""
        return list(ids) if self.postgresql else "[" + ",".join(map(str, ids)) + "]"

    def texts(self, texts: Iterable[str]) -> Any:
        """Parameter for ``{texts}``."""
        return list(texts) if self.postgresql else json.dumps(list(texts))

    def pattern(self, pattern: str) -> str:
        """Parameter for ``{like}``: a pattern with ``%`` and ``_``, compared case-sensitively."""
        if self.postgresql:
            return pattern
        table = {ord("%"): "*", ord("_"): "?", ord("*"): "[*]", ord("?"): "[?]", ord("["): "[[]"}
        return pattern.translate(table)

    def message_ids(self, count: int, queue_id: int | None = None) -> Sequence[int]:
        """``count`` fresh message ids, ascending; in the same statement what :meth:`notify` tells of one queue."""
        if self.postgresql:
            return [number for (number,) in self._few(*self.message_ids_query(count, queue_id))]
        last = self.next_value(MESSAGE_COUNTER, count)
        return range(last - count + 1, last + 1)

    def message_ids_query(self, count: int, queue_id: int | None = None) -> tuple[str, Sequence[Any]]:
        """The query of :meth:`message_ids` on PostgreSQL, which is going to be executed."""
        if queue_id is None:
            return _IDS, (count,)
        self._told = queue_id
        return _IDS_AND_NOTICE, (str(queue_id), count)

    def last_message_id(self) -> int:
        """The highest message id handed out so far."""
        if self.postgresql:
            found = self.scalar("SELECT last_value FROM aq_message_id")
        else:
            found = self.scalar("SELECT value FROM aq_counter WHERE name = ?", (MESSAGE_COUNTER,))
        return int(found or 0)

    def last_commit_number(self) -> int:
        """The highest place in the order of commits handed out so far."""
        if self.postgresql:
            found = self.scalar("SELECT last_value FROM aq_commit_number")
        else:
            found = self.scalar("SELECT value FROM aq_counter WHERE name = ?", (COMMIT_COUNTER,))
        return int(found or 0)

    def next_value(self, counter: str, count: int = 1) -> int:
        """Raise a counter by ``count`` and return it."""
        statement = "UPDATE aq_counter SET value = value + ? WHERE name = ? RETURNING value"
        return int(self.scalar(statement, (count, counter)))

    def savepoint(self, number: int) -> None:
        """Mark a place in the transaction."""
        self.raw.execute(f"SAVEPOINT mgw_{number}").close()

    def rollback_to(self, number: int) -> None:
        """Undo what the transaction did after a savepoint."""
        self.raw.execute(f"ROLLBACK TO SAVEPOINT mgw_{number}").close()

    def release(self, number: int) -> None:
        """Forget a savepoint and those after it."""
        self.raw.execute(f"RELEASE SAVEPOINT mgw_{number}").close()

    def notify(self, queue_ids: Iterable[int]) -> None:
        """Tell listeners of other processes at commit that these queues got messages (PostgreSQL; else nothing)."""
        if self.postgresql:
            queue_ids = [number for number in queue_ids if number != self._told]
            for start in range(0, len(queue_ids), _NOTIFIED):
                told = ",".join(map(str, queue_ids[start : start + _NOTIFIED]))
                self.raw.execute(self._sql(_NOTICE), (told,)).close()
