"""Rows of the hub's database as Arrow, piece by piece, through the drivers that make Arrow in C.

A piece is bounded in rows and in bytes, so that a queue of any length is read in the same memory. SQLite is read in
windows, each a transaction of its own: a reader that held one for long would let the hub's log grow. The driver brings
its own SQLite, which shares no locks with Python's: a process must not have both open on one file at the same time.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import sqlalchemy as sa

from mgw.gateway.aq import libpq_uri, watchfulness
from mgw.gateway.aq import quoted_name as quoted
from mgw.pipelines.source.statements_read import BY_INDEX, Selection
from mgw.transforms.errors import HubError, HubUnavailable

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["address_of", "is_postgresql", "pieces"]

_PATIENCE = 30_000  # milliseconds to wait for somebody who has the SQLite file for himself
MAX_BYTES = 32 * 1024 * 1024  # of bodies in a piece
_kept: dict[tuple[int, str], Any] = {}  # connection for plans, by process and address


def address_of(url: sa.URL, schema: str | None = None) -> str:
    """What the Arrow driver takes for the address of a hub: libpq's form, or SQLite's for a file that must be there.

    Args:
        url: of the hub's engine.
        schema: of the hub's tables on PostgreSQL.
    """
    if url.get_backend_name() == "postgresql":
        more = {name: str(value) for name, value in watchfulness(url).items()}
        if schema is not None:
            path = quoted(schema).replace("\\", "\\\\").replace(" ", "\\ ")
            more["options"] = f"{url.query.get('options', '')} -csearch_path={path}".strip()
        return libpq_uri(url.update_query_dict(more))
    return f"file:{quote(str(Path(url.database or '').absolute()))}?mode=rw"


def is_postgresql(url: str) -> bool:
    """Whether a SQLAlchemy URL is one of PostgreSQL's."""
    return sa.make_url(url).get_backend_name() == "postgresql"


def pieces(
    address: str, chosen: Selection, reads: Sequence[str], lower: int, upper: int, *, rows: int
) -> Iterator[pa.RecordBatch]:
    """Rows with ``lower < key <= upper``, at most ``rows`` in a piece; no empty pieces.

    Args:
        address: as :func:`address_of` gives it.

    Raises:
        HubUnavailable: the database cannot be reached.
        HubError: it refused the statement.
    """
    if chosen.postgresql:
        with _planned(address) if chosen.planned else _cursor(address, postgresql=True) as cursor:
            cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": str(MAX_BYTES)})
            found = _run(cursor, chosen.rows(reads, lower, upper), cursor.fetch_record_batch)
            for batch in found:
                for start in range(0, batch.num_rows, rows):
                    yield batch.slice(start, rows)
        return
    with _cursor(address, postgresql=False) as cursor:
        _run(cursor, f"PRAGMA busy_timeout={_PATIENCE}", cursor.fetchall)
        cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(rows + 1)})
        limit = rows
        while lower < upper:
            last, count, longest = _run(cursor, chosen.window(lower, upper, limit), cursor.fetchone)
            if not count:
                if not chosen.planned:
                    return
                lower, limit = last, rows  # nothing is left of these places
                continue
            if "body" in reads and count > 1 and (longest or 0) * count > MAX_BYTES:
                limit = max(1, min(count - 1, MAX_BYTES // longest))
                continue
            yield from _windowed(cursor, chosen.rows(reads, lower, last))
            lower, limit = last, rows


def _windowed(cursor: Any, statement: str) -> Iterator[pa.RecordBatch]:
    """The rows of a window without the first one, which only says what types the columns have."""
    begun = False
    for batch in _run(cursor, statement, lambda: list(cursor.fetch_record_batch())):
        found = batch if begun else batch.slice(1)
        begun = True
        if found.num_rows:
            yield found


def _run(cursor: Any, statement: str, fetch: Callable[[], Any]) -> Any:
    import adbc_driver_manager as adbc

    try:
        cursor.execute(statement)
        return fetch()
    except adbc.Error as error:
        raise HubError(
            "a queue cannot be read",
            cause=str(error).partition("\n")[0],
            cure="check whether the hub changed since the query was planned",
        ) from None


@contextmanager
def _cursor(address: str, *, postgresql: bool) -> Iterator[Any]:
    with closing(_connected(address, postgresql=postgresql)) as connection, closing(connection.cursor()) as cursor:
        yield cursor


@contextmanager
def _planned(address: str) -> Iterator[Any]:
    """For plans on PostgreSQL: the connection serves the next task of this process as well, unless this one fails.

    To connect takes the driver longer than most tasks. Spark ends a process that has had no task for a minute.
    """
    me = os.getpid()  # what was kept before a fork belongs to the parent
    connection = _kept.pop((me, address), None)
    if connection is not None:
        try:
            cursor = _by_index(connection)
        except HubError:  # it was lost meanwhile
            connection = None
    if connection is None:
        connection = _connected(address, postgresql=True)
        cursor = _by_index(connection)
    try:
        yield cursor
    except BaseException:
        cursor.close()
        connection.close()
        raise
    cursor.close()
    _close_kept()  # one at most
    _kept[me, address] = connection


@atexit.register
def _close_kept() -> None:
    """Close what this process kept."""
    for process, address in list(_kept):
        connection = _kept.pop((process, address), None)
        if connection is not None and process == os.getpid():
            connection.close()


def _by_index(connection: Any) -> Any:
    """A cursor on a connection that reads a plan by its index; the connection is closed if that fails."""
    cursor = connection.cursor()
    try:
        _run(cursor, BY_INDEX, cursor.fetchall)
    except HubError:
        cursor.close()
        connection.close()
        raise
    return cursor


def _connected(address: str, *, postgresql: bool) -> Any:
    import adbc_driver_manager as adbc

    driver = import_module(f"adbc_driver_{'postgresql' if postgresql else 'sqlite'}.dbapi")
    try:
        return driver.connect(address, autocommit=True)
    except adbc.Error as error:
        raise HubUnavailable(
            "the hub cannot be reached from where Spark reads it",
            cause=str(error).partition("\n")[0],
            cure="let the executors reach the database under the same address as the driver",
        ) from None
