"""The write-ahead log of an SQLite hub: it starts again when all of it is in the database and nobody reads it.

While any program keeps a transaction open in which it has read, SQLite must keep what was written since: the file
``<database>-wal`` grows until that transaction ends, and the hub can do nothing but say so. When it has ended, the hub
gives the space back.
"""

from __future__ import annotations

import logging
import os
import sqlite3

from mgw.gateway.aq.store.files import existing
from mgw.gateway.aq.store.ground import Ground
from mgw.gateway.aq.store.write_lock import writer_lock

__all__ = ["KEPT_BYTES", "shorten"]

_log = logging.getLogger(__name__)

KEPT_BYTES = 64 << 20  # of a log that starts again; what is beyond is given back to the file system
_LONG = 256 << 20  # bytes that the log does not have unless somebody reads for long
_PATIENCE = 1.0  # seconds; writers wait meanwhile


def shorten(hub: Ground, long: int = _LONG) -> bool:
    """Begin the log again if it is long; whether that was done. Where somebody still reads it, the log says so.

    The warning comes again when the file has doubled.
    """
    if hub.path is None:
        return False
    size = _size(hub.path)
    if size < long:
        hub.log_warned = 0
        return False
    lock = writer_lock(os.path.realpath(hub.path))
    if lock.held_here() or not lock.acquire(_PATIENCE):
        return False
    try:
        connection = sqlite3.connect(existing(hub.path), uri=True, timeout=0, isolation_level=None)
        try:
            (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            connection.close()
    except sqlite3.Error:
        busy = True
    finally:
        lock.release()
    if busy and size >= 2 * hub.log_warned:
        hub.log_warned = size
        _log.warning(
            "the write-ahead log of hub %s has %d MB and grows: another program keeps a read transaction open on this "
            "database; end it",
            hub.name,
            size >> 20,
        )
    return not busy


def _size(path: str) -> int:
    try:
        return os.path.getsize(f"{path}-wal")
    except OSError:
        return 0
