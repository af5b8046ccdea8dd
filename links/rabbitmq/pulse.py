"""Signs of life while a job's thread is busy elsewhere, in a hub transaction for example.

A connection shows the broker that it lives only while its thread drives it. Heartbeats that are close enough to notice
a dead host soon would cut off a gateway whose hub is slow; so one thread of the process sends them meanwhile.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from typing import Protocol

__all__ = ["PATIENCE", "Living", "keep_alive"]

PATIENCE = 60.0  # seconds that a thread may stay away from its connection; what is stuck for longer counts as dead
_EVERY = 0.5  # seconds
_LOGGER = logging.getLogger("mgw.rabbitmq")

_living: weakref.WeakSet[Living] = weakref.WeakSet()
_lock = threading.Lock()  # guards both
_thread: threading.Thread | None = None


class Living(Protocol):
    """A connection."""

    def beat(self, now: float) -> bool:
        """Send a sign of life if it is time (``time.monotonic``) and nobody drives the connection; False: it ended."""
        ...


def keep_alive(connection: Living) -> None:
    """Let a connection beat until it ends."""
    global _thread  # noqa: PLW0603  # one for the process
    with _lock:
        _living.add(connection)
        if _thread is None:
            _thread = threading.Thread(target=_run, name="rabbitmq-pulse", daemon=True)
            _thread.start()


def _beaten(connection: Living, now: float) -> bool:
    try:
        return connection.beat(now)
    except Exception as error:
        _LOGGER.debug("no response: %s", error)  # the connection's own thread meets the cause
        return True


def _run() -> None:
    global _thread  # noqa: PLW0603
    while True:
        time.sleep(_EVERY)
        now = time.monotonic()
        with _lock:
            connections = list(_living)
        ended = [connection for connection in connections if not _beaten(connection, now)]
        del connections
        with _lock:
            _living.difference_update(ended)
            if not _living:
                _thread = None
                return
        del ended
