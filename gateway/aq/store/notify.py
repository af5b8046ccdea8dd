"""Who waits for messages is woken at the commit that brings them.

In this process by :meth:`Notifier.committed`; across processes by LISTEN/NOTIFY (PostgreSQL) or by watching the
database's change counter (SQLite, every 25 ms, only while somebody waits). A wake-up is a hint: a waiter that is woken
looks.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from mgw.gateway.aq.store.files import existing

__all__ = ["Notifier"]

_SQLITE_POLL = 0.025
_DOUBT = 1.0  # seconds; a sync takes less, and jobs that wait also look by themselves
_RECONNECT = 1.0

Callback = Callable[[], None]


class Notifier:
    """Wakes waiters. No thread runs until somebody subscribes.

    Args:
        target: the database.
        options: of a connection to PostgreSQL.
        channel: on which PostgreSQL tells of messages.
        with_messages: statement that asks SQLite, with ids of queues as JSON, which of them have something to take.
    """

    def __init__(self, target: str, options: Mapping[str, Any], *, channel: str = "", with_messages: str = "") -> None:
        self._target = target
        self._channel = channel
        self._with_something = with_messages
        self._options = options
        self._mutex = threading.Lock()
        self._wanted = threading.Condition(self._mutex)
        self._callbacks: dict[int, dict[int, Callback]] = {}  # queue id -> subscription -> callback
        self._next = 0
        self._count = 0
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self.relay: Callable[[tuple[int, ...]], None] | None = None  # tells other processes what is committed here

    @property
    def waiting(self) -> int:
        """Subscriptions that have not ended."""
        return self._count

    def committed(self, queue_ids: Iterable[int]) -> None:
        """Messages became ready in these queues and the transaction that brought them is committed."""
        relay = self.relay
        if relay is not None:
            queue_ids = tuple(queue_ids)
            relay(queue_ids)
        self.wake(queue_ids)

    def wake(self, queue_ids: Iterable[int]) -> None:
        """Call those in this process who wait for messages of these queues."""
        if not self._callbacks:
            return
        with self._mutex:
            called = {n: call for queue in queue_ids for n, call in self._callbacks.get(queue, {}).items()}
        for call in called.values():
            call()

    def subscribe(self, queue_ids: Iterable[int], callback: Callback) -> Callable[[], None]:
        """Have ``callback`` called, from any thread, whenever one of the queues may have got messages.

        The callback must be quick and must not raise. Returns the function that ends the subscription.
        """
        queues = tuple(queue_ids)
        with self._mutex:
            self._next += 1
            number = self._next
            self._count += 1
            for queue in queues:
                self._callbacks.setdefault(queue, {})[number] = callback
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._watch, name="mgw-hub-watch", daemon=True)
                self._thread.start()
            self._wanted.notify_all()
        ended = False

        def unsubscribe() -> None:
            nonlocal ended
            with self._mutex:
                if ended:
                    return
                ended = True
                self._count -= 1
                for queue in queues:
                    waiting = self._callbacks.get(queue)
                    if waiting is not None:
                        waiting.pop(number, None)
                        if not waiting:
                            del self._callbacks[queue]

        return unsubscribe

    def close(self) -> None:
        """End the watching thread and wake everybody. Idempotent."""
        with self._mutex:
            self._stop.set()
            self._wanted.notify_all()
            thread = self._thread
        self.wake(self._queues())
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=5)

    # -- across processes ------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        while not self._stop.is_set():
            with suppress(Exception):  # the database may be away; whoever waits also looks by itself
                if self._target.startswith("sqlite:"):
                    self._watch_sqlite(self._target.removeprefix("sqlite:"))
                else:
                    self._watch_postgresql()
            self._stop.wait(_RECONNECT)

    def _queues(self) -> list[int]:
        with self._mutex:
            return list(self._callbacks)

    def _someone_waits(self) -> bool:
        """Wait until somebody subscribes; False when the notifier is closed."""
        with self._mutex:
            while not self._count and not self._stop.is_set():
                self._wanted.wait()
        return not self._stop.is_set()

    def _watch_sqlite(self, path: str) -> None:
        connection = sqlite3.connect(existing(path), uri=True, timeout=1, isolation_level=None)
        try:
            last, written, doubtful = None, (0, 0), 0.0
            while self._someone_waits():
                # To ask SQLite costs ten times as much as to look when its log was written. A commit shows there before
                # SQLite tells of it, by a sync of the disk, so it is asked for a while.
                now = _written(f"{path}-wal")
                if now is None or now != written:
                    written, doubtful = now or (0, 0), time.monotonic() + _DOUBT
                if time.monotonic() < doubtful:
                    (version,) = connection.execute("PRAGMA data_version").fetchone()
                    if version != last:
                        last = version
                        self.wake(self._with_messages(connection))
                self._stop.wait(_SQLITE_POLL)
        finally:
            connection.close()

    def _with_messages(self, connection: sqlite3.Connection) -> list[int]:
        """The watched queues that have something to take: one statement, as hundreds may be watched."""
        return [queue for (queue,) in connection.execute(self._with_something, (json.dumps(self._queues()),))]

    def _watch_postgresql(self) -> None:
        import psycopg

        with psycopg.connect(self._target, autocommit=True, **self._options) as connection:
            name = self._channel.replace('"', '""')
            connection.execute(f'LISTEN "{name}"')
            self.wake(self._queues())  # whatever came while nobody listened
            while not self._stop.is_set():
                for notice in connection.notifies(timeout=0.5, stop_after=1):
                    self.wake(_queue_ids(notice))


def _written(file: str) -> tuple[int, int] | None:
    """When a file was written last, and its size; None where there is none."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _queue_ids(notice: Any) -> list[int]:
    return [int(part) for part in str(notice.payload).split(",") if part.isdigit()]
