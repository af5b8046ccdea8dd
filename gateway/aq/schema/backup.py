"""A copy of a hub on SQLite while others use it: whole, checked, on disk, and under its name only when it is all that.

SQLite copies it in one read transaction, which no writer waits for.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from mgw.gateway.aq.schema import schema_sql as schema
from mgw.gateway.aq.schema.sqlite import PART, copied, is_of_the_place, remove, save
from mgw.gateway.aq.store.database import Address
from mgw.gateway.aq.store.database_errors import translated
from mgw.gateway.aq.store.files import existing
from mgw.transforms.errors import HubError

__all__ = ["Copied", "copy_hub"]

_BUSY_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Copied:
    """What was made.

    Attributes:
        hub: the database as shown to people.
        file: the copy.
        size: of it, in bytes.
    """

    hub: str
    file: str
    size: int


def copy_hub(address: Address, file: str) -> Copied:
    """Copy a hub to a file that is not there yet. The copy has the hub's permissions and owner.

    Raises:
        HubVersionMismatch: it is not a hub.
        HubUnavailable: it cannot be read.
        HubError: it is on PostgreSQL, or there is none; the file exists or cannot be written; the hub is damaged.
    """
    where = address.shown
    if address.postgresql:
        raise HubError(
            f"hub {where} was not copied",
            cause="a copy in a file is for hubs on SQLite",
            cure="use pg_dump, or continuous archiving",
        )
    path = os.path.realpath(address.url.database or "")
    found = schema.inspect_sqlite(path, where)
    if found.hub_id is None:
        schema.judge(found, where, create=False, schemas=())
    target = os.path.abspath(file)
    part = target + PART
    for name in (target, part):
        if os.path.lexists(name):
            raise HubError(
                f"hub {where} was not copied",
                cause=f"{name} exists already",
                cure="choose another name; no file is written over"
                if name == target
                else "wait for the copy that is being made; if it was killed, remove that file",
            )
    with translated(where, path), _room(where, target):
        try:
            with closing(sqlite3.connect(existing(path), uri=True, timeout=_BUSY_SECONDS, isolation_level=None)) as hub:
                copied(hub, path, part)
            _check(part, where)
            save(part)
            os.rename(part, target)
        except BaseException:
            remove(part)
            raise
        save(os.path.dirname(target))
    return Copied(where, target, os.stat(target).st_size)


@contextmanager
def _room(where: str, target: str) -> Iterator[None]:
    """Tell errors of the place of the copy as such."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        if not is_of_the_place(error):
            raise
        raise HubError(
            f"hub {where} was not copied",
            cause=f"{target} cannot be written: {error.strerror if isinstance(error, OSError) else error}",
            cure="choose a place that can be written to, with room for the whole hub",
        ) from error


def _check(part: str, where: str) -> None:
    with closing(sqlite3.connect(existing(part), uri=True, isolation_level=None)) as copy:
        copy.execute("PRAGMA locking_mode=EXCLUSIVE").fetchall()  # needs no index of its log in a file
        (found,) = copy.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        raise HubError(
            f"hub {where} is damaged, and was not copied",
            cause=f"the copy fails SQLite's integrity check: {found}",
            cure="stop the gateway and restore the hub from an earlier copy",
        )
