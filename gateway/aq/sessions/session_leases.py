"""Sessions that hold messages between calls without holding a lock, and the lease that shows they live (SQLite)."""

from __future__ import annotations

import os
import threading

from mgw.gateway.aq.sessions import sessions_sql
from mgw.gateway.aq.store.ground import Ground
from mgw.gateway.aq.store.processes import session_host
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.aq.store.tables import SESSION_COUNTER
from mgw.transforms.errors import HubError

__all__ = ["LEASE", "SessionRegistry"]

LEASE = 30.0  # seconds a session may be silent before its messages go back


class SessionRegistry:
    """The claiming sessions of this process. One thread renews their leases; it starts with the first session."""

    def __init__(self, hub: Ground) -> None:
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
