"""Database errors in the words of the hub: which database, why, what to do. The only place that reads driver errors."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
import sqlalchemy.exc

from mgw.transforms.errors import HubError, HubFull, HubMissing, HubUnavailable
from mgw.transforms.open_files import shortage

__all__ = ["lock_timed_out", "shown_url", "translate", "translated"]

_CONNECTION_FAILED = 241  # number of the documentation (AQ guide 12.2 §21.3)
_ENOSPC_MARGIN = 1 << 20  # bytes; a write that failed with less than this left failed for want of space
_CONNECTION_STATES = (
    "08",
    "25P03",
    "57P",
    "25006",
    "55P",
)  # PostgreSQL: connection lost, transaction idle for too long, operator intervention, standby, lock not available


def shown_url(url: sa.URL) -> str:
    """The database URL for people: never its password."""
    return url.render_as_string(hide_password=True)


def translate(error: BaseException, where: str, path: str | None = None) -> HubError | None:
    """The hub's error for a database error, or None when it is not one.

    Args:
        error: what SQLAlchemy or the driver raised.
        where: the database as shown to people.
        path: the database file, for SQLite.
    """
    original: BaseException = error
    if isinstance(error, sa.exc.DBAPIError) and error.orig is not None:
        original = error.orig
    if isinstance(original, OSError):  # a driver may let it pass
        return _no_file(where, original, guess=False)
    if isinstance(original, sqlite3.Error):
        return _from_sqlite(original, where, path)
    if type(original).__module__.split(".")[0] == "psycopg":
        return _from_postgresql(original, where)
    if isinstance(error, sa.exc.TimeoutError):
        return HubUnavailable(
            f"hub {where} had no free connection in time",
            cause="all pooled connections are in use",
            cure="close sessions that are no longer used",
        )
    if isinstance(error, sa.exc.SQLAlchemyError):
        return HubError(f"hub {where} refused an operation", cause=_first_line(error))
    return None


@contextmanager
def translated(where: str, path: str | None = None) -> Iterator[None]:
    """Let database errors leave as hub errors."""
    try:
        yield
    except Exception as error:
        known = translate(error, where, path)
        if known is None:
            raise
        raise known from error


def lock_timed_out(error: BaseException) -> bool:
    """Whether PostgreSQL gave up waiting for a lock after the ``lock_timeout`` of the transaction."""
    return getattr(error, "sqlstate", None) == "55P03"


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _from_sqlite(error: sqlite3.Error, where: str, path: str | None) -> HubError:
    code = getattr(error, "sqlite_errorcode", 0) or 0
    text = _first_line(error)
    primary = code & 0xFF
    if primary == sqlite3.SQLITE_FULL or (primary == sqlite3.SQLITE_IOERR and _no_space(path)):
        return HubFull(
            f"hub {where} is full",
            cause=text,
            cure="free space on the disk that holds it; nothing was stored, and the operation can be repeated",
        )
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return HubUnavailable(
            f"hub {where} stayed locked",
            cause=f"another process holds the write lock ({text})",
            cure="keep transactions short; look for a process that keeps one open",
            number=_CONNECTION_FAILED,
        )
    if primary in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR):
        return _no_file(where, error) or HubUnavailable(
            f"hub {where} cannot be read or written", cause=text, cure="check the folder, its permissions and the disk"
        )
    if primary in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        return HubError(
            f"hub {where} cannot be written",
            cause=text,
            cure="give this user write permission on the file and its folder",
        )
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return HubError(
            f"hub {where} is damaged", cause=text, cure="stop the gateway and restore the database file from a backup"
        )
    return HubError(f"hub {where} refused an operation", cause=text)


def _no_file(where: str, error: BaseException, *, guess: bool = True) -> HubError | None:
    found = shortage(error, guess=guess)
    if found is None:
        return None
    cause, cure = found
    return HubUnavailable(f"hub {where} cannot be opened another time", cause=cause, cure=cure)


def _no_space(path: str | None) -> bool:
    if path is None:
        return False
    try:
        stat = os.statvfs(os.path.dirname(os.path.abspath(path)))
    except OSError:
        return False
    return stat.f_bavail * stat.f_frsize < _ENOSPC_MARGIN


def _from_postgresql(error: BaseException, where: str) -> HubError:
    state = getattr(error, "sqlstate", None) or ""
    text = _first_line(error)
    if state.startswith("53") and state != "53300":
        return HubFull(f"hub {where} is full", cause=text, cure="free space on the database server; nothing was stored")
    if state in ("28P01", "28000") or "password authentication failed" in text:
        return HubUnavailable(
            f"hub {where} refused the login",
            cause=text,
            cure="check user name and password of the hub",
            number=_CONNECTION_FAILED,
        )
    if state == "3D000" or ("FATAL:  database" in text and "does not exist" in text):  # no state while connecting
        return HubMissing(
            f"hub {where} does not exist", cause=text, cure="create the database (createdb), then mgw apply"
        )
    if (
        type(error).__name__ == "OperationalError"
        or state.startswith(_CONNECTION_STATES)
        or state in ("53300", "40P01")
    ):
        return _no_file(where, error, guess=not state) or HubUnavailable(
            f"hub {where} cannot be reached",
            cause=text,
            cure="check that PostgreSQL runs, and host, port and network",
            number=_CONNECTION_FAILED,
        )
    if state == "42501":
        return HubError(f"hub {where} refused an operation", cause=text, cure="grant the hub's user the right to do it")
    return HubError(f"hub {where} refused an operation", cause=text)
