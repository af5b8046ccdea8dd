"""The upgrade of a hub on SQLite: of a copy, which replaces the file when it is complete and on disk.

A kill at any moment leaves the old file or the new one. While the upgrade runs it has the old file for itself: SQLite's
own locks keep every other program out, and one that has it open, even idle, has the upgrade refused. What began to wait
for the old file meanwhile never gets to work on it: SQLite sees that it was moved, and so does the hub
(:mod:`mgw.gateway.aq.store.files`).
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from mgw.gateway.aq.schema import schema_sql as schema
from mgw.gateway.aq.schema.upgrade import Told, refuse_at_work, run, worth
from mgw.gateway.aq.store.database import Address
from mgw.gateway.aq.store.database_errors import translated
from mgw.gateway.aq.store.files import existing
from mgw.gateway.aq.store.migrations.plan import PartPlan
from mgw.gateway.aq.store.schema_part import SchemaPart
from mgw.transforms.clock import Clock
from mgw.transforms.errors import HubError, HubUnavailable

__all__ = ["COPY", "PART", "copied", "is_of_the_place", "look", "remove", "save", "upgrade"]

#: What follows the name of the hub's file in that of the copy. One that a killed upgrade left is removed by the next.
COPY = "-upgrade"
#: What follows the name of a backup that is not complete.
PART = "-part"
_OF_THE_PLACE = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
_PATIENCE = 5.0  # seconds for which programs that look into the file, or end, are waited for
_PAUSE = 0.05
_PROCESSES = Path("/proc")
_OURS = re.compile(r"(aq|gw|pl)_|sqlite_")


def look(address: Address, parts: Sequence[SchemaPart]) -> list[PartPlan]:
    """What is to be done; nothing is changed."""
    where = address.shown
    return worth(schema.inspect_sqlite(address.url.database or "", where), parts, where)


def upgrade(
    address: Address, parts: Sequence[SchemaPart], clock: Clock, told: Told, backup: str | None = None
) -> list[PartPlan]:
    """Upgrade the hub; what was done.

    Args:
        backup: where a copy of the hub as it was is made; nothing may be there.

    Raises:
        HubVersionMismatch: it is not a hub, or of a newer release.
        HubUnavailable: it is in use, or cannot be read.
        HubFull: there is no room for the copy.
        HubError: it cannot be upgraded as it is; the backup cannot be created.
    """
    where = address.shown
    plans = look(address, parts)
    if not any(entry.steps for entry in plans):
        return plans
    path = os.path.realpath(address.url.database or "")
    _require_one_name(path, where)
    with translated(where, path), _alone(path, where) as old:
        remove(path + COPY)
        plans = worth(schema.inspect_opened(old), parts, where)
        if not any(entry.steps for entry in plans):  # somebody was faster
            return plans
        if backup is not None:
            _keep(old, path, backup, where)
        try:
            copied(old, path, path + COPY)
            _change(path + COPY, plans, where, clock, told)
            save(path + COPY)
            os.rename(path + COPY, path)
        except BaseException:
            remove(path + COPY)
            raise
        save(os.path.dirname(path))
    return plans


@contextmanager
def _alone(path: str, where: str) -> Iterator[sqlite3.Connection]:
    """The file with everybody else kept out, and all of its write-ahead log in it."""
    end = time.monotonic() + _PATIENCE
    with closing(sqlite3.connect(existing(path), uri=True, timeout=_PAUSE, isolation_level=None)) as old:
        while not _taken(old):
            if time.monotonic() >= end:
                users = _users(path)
                raise HubUnavailable(
                    f"hub {where} is in use and was not upgraded",
                    cause=f"it is open in {', '.join(users) or 'another program'}",
                    cure="stop agents, applications and Spark jobs that use it, then upgrade",
                )
            time.sleep(_PAUSE)
        yield old


def _taken(old: sqlite3.Connection) -> bool:
    """Leaving the journal mode WAL succeeds where no other connection is open; then the file itself can be locked."""
    try:
        old.execute("PRAGMA locking_mode=NORMAL").fetchall()
        old.execute("PRAGMA journal_mode=DELETE").fetchall()
        old.execute("PRAGMA locking_mode=EXCLUSIVE").fetchall()
        old.execute("BEGIN EXCLUSIVE")
        old.execute("COMMIT")  # the lock stays
        (mode,) = old.execute("PRAGMA journal_mode").fetchone()
        return bool(mode == "delete")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise
        return False


def _users(path: str) -> list[str]:
    """Processes that have the file open, as far as this user may see."""
    found = []
    for folder in _PROCESSES.glob("[0-9]*"):
        if int(folder.name) == os.getpid():
            continue
        with suppress(OSError):
            names = {os.readlink(each) for each in (folder / "fd").iterdir()}
            if path in names:
                words = (folder / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
                found.append(f"process {folder.name} ({' '.join(words).strip()[:80]})")
    return found


def _require_one_name(path: str, where: str) -> None:
    if os.stat(path).st_nlink > 1:
        raise HubError(
            f"hub {where} cannot be upgraded",
            cause="its file has a second name (a hard link), which would still name the old file",
            cure="remove the other name, or copy the file to another place",
        )


def remove(path: str) -> None:
    """Remove the file of a database, and what SQLite puts beside it."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):
            os.unlink(f"{path}{suffix}")


def _keep(old: sqlite3.Connection, path: str, backup: str, where: str) -> None:
    if os.path.exists(backup):
        raise HubError(
            f"hub {where} was not upgraded",
            cause=f"the backup {backup} already exists",
            cure="choose another file, or remove that one",
        )
    part = backup + PART  # of the same name: one that a killed upgrade left
    try:
        remove(part)
        copied(old, path, part)
        save(part)
        os.rename(part, backup)
        save(os.path.dirname(os.path.abspath(backup)))
    except (OSError, sqlite3.Error) as error:
        remove(part)
        if not is_of_the_place(error):
            raise
        raise HubError(
            f"hub {where} was not upgraded",
            cause=f"the backup {backup} cannot be created: {error.strerror if isinstance(error, OSError) else error}",
            cure="choose a place that can be written to, with room for the whole hub",
        ) from error


def is_of_the_place(error: OSError | sqlite3.Error) -> bool:
    """Whether a copy failed for the place that it is written to. The hub itself is only read."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is None or code & 0xFF in _OF_THE_PLACE


def copied(old: sqlite3.Connection, path: str, target: str) -> None:
    """Make a copy with the permissions, and as far as possible the owner, of the file."""
    known = os.stat(path)
    os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    if (known.st_uid, known.st_gid) != (os.geteuid(), os.getegid()):
        with suppress(PermissionError):
            os.chown(target, known.st_uid, known.st_gid)
    os.chmod(target, stat.S_IMODE(known.st_mode))
    with closing(sqlite3.connect(existing(target), uri=True, isolation_level=None)) as new:
        for pragma in ("journal_mode=OFF", "synchronous=OFF"):
            new.execute(f"PRAGMA {pragma}").fetchall()
        old.backup(new)


def _change(path: str, plans: Sequence[PartPlan], where: str, clock: Clock, told: Told) -> None:
    """Run the steps on the copy. It needs no journal: it is thrown away where anything fails.

    The file keeps the journal mode WAL, also for an application that opens it without the hub.
    """
    engine = sa.create_engine(f"sqlite:///{path}", poolclass=sa.pool.NullPool)

    @sa.event.listens_for(engine, "connect")
    def _settings(connection: Any, _: object) -> None:
        connection.isolation_level = None
        for pragma in (
            "journal_mode=OFF",
            "synchronous=OFF",
            "locking_mode=EXCLUSIVE",
            "foreign_keys=OFF",  # tables are dropped and made again
            "legacy_alter_table=ON",  # and renamed, while others name them
            "cache_size=-65536",  # KiB
            "temp_store=FILE",
        ):
            connection.execute(f"PRAGMA {pragma}").fetchall()

    @sa.event.listens_for(engine, "begin")
    def _begin(conn: sa.Connection) -> None:
        conn.exec_driver_sql("BEGIN")

    try:
        with engine.connect() as conn:
            with conn.begin():
                refuse_at_work(conn, plans, where, clock.now())
                run(conn, plans, where, now=clock.now(), told=told)
            driver: Any = conn.connection.driver_connection
            names = schema.inspect_opened(driver).tables
            own = sorted(name for name in names if _OURS.match(name))
            _check(driver, own, where)
            if len(own) == len(names):  # rows of others may be known by numbers that VACUUM changes
                _shrink(driver)
            driver.execute("PRAGMA locking_mode=NORMAL").fetchall()
            driver.execute("PRAGMA journal_mode=WAL").fetchall()
    finally:
        engine.dispose()


def _check(copy: sqlite3.Connection, tables: Sequence[str], where: str) -> None:
    """What replaces the hub is sound; the tables of others are none of its business.

    Raises:
        HubError: it is not.
    """
    for table in tables:
        lost = copy.execute(f"PRAGMA foreign_key_check({table})").fetchone()
        (wrong,) = copy.execute(f"PRAGMA quick_check({table})").fetchone()
        if lost is not None or wrong != "ok":
            what = wrong
            if lost is not None:
                where_it_is, _, other, _ = lost
                what = f"a row of {where_it_is} refers to one of {other} that is not there"
            raise HubError(
                f"hub {where} cannot be upgraded",
                cause=f"its copy is damaged: {what}",
                cure="check the old hub with PRAGMA integrity_check; nothing was changed",
            )


def _shrink(copy: sqlite3.Connection) -> None:
    """Release the space of tables that were recreated."""
    (free,), (pages,) = (copy.execute(f"PRAGMA {name}").fetchone() for name in ("freelist_count", "page_count"))
    if free * 4 > pages:
        copy.execute("VACUUM")


def save(path: str) -> None:
    """Have the system write a file or folder to the disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
