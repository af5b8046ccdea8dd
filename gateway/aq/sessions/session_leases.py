"""Sessions that hold messages between calls without holding a lock, and the lease that shows they live (SQLite)."""

from __future__ import annotations

import os
import socket
import threading
from functools import cache
from typing import TYPE_CHECKING

from gateway.aq import statements_sessions as sessions_sql
from gateway.aq.processes import lives, start_of
from gateway.aq.statements import Db
from gateway.aq.tables import SESSION_COUNTER
from transforms.errors import HubError

if TYPE_CHECKING:
    from gateway.aq.hub import Hub

__all__ = ["LEASE", "SessionRegistry", "host_name", "is_dead", "session_host"]

LEASE = 30.0  # seconds a session may be silent before its messages go back
_START = "#"  # between the host and the start of the process


def host_name() -> str:
    """Names this machine and process namespace: where a process id means something."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return f"{socket.gethostname()}/{space}"


def session_host() -> str:
    """:func:`host_name`, and when this process began: another one may be given its id later."""
    return f"{host_name()}{_START}{_start(os.getpid())}"


def is_dead(host: str, pid: int, lease_until: float, now: float) -> bool:
    """Whether a process is gone: known here at once, elsewhere when its lease runs out.

    Args:
        host: as :func:`host_name` or :func:`session_host` told it there.
    """
    if lease_until <= now:
        return True
    place, _, start = host.partition(_START)
    return place == host_name() and not lives(pid, start)


@cache
def _start(pid: int) -> str:
    return start_of(pid)


class SessionRegistry:
    """The claiming sessions of this process. One thread renews their leases; it starts with the first session."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._mutex = threading.Lock()
        self._numbers: set[int] = set()
        self._renewed = hub.clock.now()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def register(self, db: Db) -> int:
        """Id for a session, stored in the transaction of its first claim."""
        number = db.next_value(SESSION_COUNTER)
        self.register_again(db, number)
        with self._mutex:
            self._numbers.add(number)
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._renew_for_ever, name="mgw-hub-lease", daemon=True)
                self._thread.start()
        return number

    def register_again(self, db: Db, number: int) -> None:
        """Store a session, also one that was removed as dead and is not: nobody would return its claims."""
        now = self._hub.clock.now()
        sessions_sql.insert_session(db, number, host=session_host(), pid=os.getpid(), lease_until=now + LEASE, now=now)

    def forget(self, number: int) -> None:
        """The session ended and holds nothing any more."""
        with self._mutex:
            self._numbers.discard(number)

    def renew(self) -> None:
        """Prolong every lease of this process, if that was not done within the last ten seconds.

        Raises:
            HubError: the hub cannot be written.
        """
        now = self._hub.clock.now()
        with self._mutex:
            numbers = list(self._numbers)
        if numbers and now - self._renewed >= LEASE / 3 - 1:
            with self._hub.write(durable=False) as conn:
                sessions_sql.renew_sessions(Db(conn), numbers, now + LEASE)
            self._renewed = now

    def close(self) -> None:
        """Stop renewing. Idempotent."""
        self._stop.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=5)

    def _renew_for_ever(self) -> None:
        while not self._stop.wait(LEASE / 3):
            try:
                self.renew()
            except HubError:
                continue  # a session whose lease ran out meanwhile learns it at its commit
