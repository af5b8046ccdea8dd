"""Failed attempts of transactions that were rolled back by the database, or by the application, without the hub.

They are counted in a transaction of their own once the other has ended: at once where that is possible. What cannot
be counted at once waits in ``Attempts.rolled_back`` for the next dequeue, the next pass of the time manager or the end
of the hub, and a thread tries again meanwhile. Only a process that is killed in between forgets it.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from mgw.gateway.aq.model import QueueRef, QueueType
from mgw.gateway.aq.queues import attempts_sql
from mgw.gateway.aq.sessions.savepoints import Held
from mgw.gateway.aq.store.connection_state import BUSY_SECONDS
from mgw.gateway.aq.store.ground import Ground
from mgw.gateway.aq.store.statements import Db
from mgw.transforms.errors import AqError, HubError

__all__ = ["Attempts", "RolledBack", "count_later", "count_rolled_back", "count_soon"]

_log = logging.getLogger(__name__)

RolledBack = deque[tuple[QueueRef, int, list[int]]]
_AT_ONCE = 1.0  # seconds that a rollback waits for SQLite's write lock to count what it gave back
_BESIDE = 0.2  # the same for the thread, behind which other writers of the process wait
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 5.0


class Forgotten(Protocol):
    """What a session leaves behind that nobody closed."""

    def close(self) -> None:
        """Undo what is not committed."""
        ...


def count_later(attempts: Attempts, taken: Held) -> None:
    """Have the failed attempts of these messages counted by the next :func:`count_rolled_back`."""
    attempts.rolled_back.extend((queue, consumer, ids) for (queue, consumer), ids in taken.items() if ids)


def count_soon(attempts: Attempts) -> None:
    """Count what waits, now if that can be done; never raises an error of the hub.

    What is in other hands, or cannot be counted because the hub fails or is locked, is tried again by a thread.
    """
    if not attempts.ground.writes_here():
        with suppress(HubError):
            count_rolled_back(attempts, patience=_AT_ONCE)
    if attempts.rolled_back:
        attempts.wake()


def count_rolled_back(attempts: Attempts, *, patience: float = BUSY_SECONDS) -> None:
    """Count the failed attempts of rolled back transactions that could not be counted at once.

    What is in other hands by now waits for the next call, and so does everything when the hub fails.

    Args:
        patience: how many seconds to wait for another thread that counts, and for SQLite's write lock.

    Raises:
        HubError: the database refused; nothing is forgotten.
    """
    if not attempts.counting.acquire(timeout=patience):
        return
    waiting = attempts.rolled_back
    try:
        for _ in range(len(waiting)):
            queue, consumer, ids = waiting.popleft()
            left = ids
            try:
                left = _count_failure(attempts.ground, queue, consumer, ids, patience)
            except AqError:
                left = []  # the queue is gone, and its messages with it
            finally:
                if left:
                    waiting.append((queue, consumer, left))
    finally:
        attempts.counting.release()


def _count_failure(ground: Ground, queue: QueueRef, consumer: int, ids: Sequence[int], patience: float) -> list[int]:
    """Count an attempt of messages that a rollback gave back; returns those that somebody else has taken since."""
    touched, left = [queue.id], list[int]()
    with ground.write_last(patience=patience) as conn:
        db = Db(conn)
        if queue.queue_type is QueueType.NORMAL:
            left = attempts_sql.in_other_hands(db, queue, consumer, ids)
            free = [number for number in ids if number not in set(left)] if left else ids
            touched = attempts_sql.fail(db, queue, consumer, free, ground.clock.now(), claim=None)
        db.notify(touched)
    ground.notifier.committed(touched)
    return left


class Attempts:
    """The thread of a hub that counts what could not be counted at once; it runs only while there is something.

    Attributes:
        ground: of the hub.
        rolled_back: messages of rolled back transactions whose failed attempt is still to be counted.
        counting: held while attempts are counted; who takes it after that finds everything counted.
    """

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.rolled_back: RolledBack = deque()
        self._mutex = threading.RLock()  # memory is cleaned up, and a session forgotten, also under it
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._forgotten: deque[Forgotten] = deque()
        self.counting = threading.Lock()

    @property
    def pending(self) -> bool:
        """Whether something is to be counted, or being counted by another thread."""
        return bool(self.rolled_back) or self.counting.locked()

    def wake(self) -> None:
        """There is something to count."""
        with self._mutex:
            if self._thread is not None or self._stop.is_set():
                return
            thread = threading.Thread(target=self._run, name="mgw-hub-attempts", daemon=True)
            if self._thread is not None:  # a session was forgotten just now
                return
            self._thread = thread
            try:
                thread.start()
            except RuntimeError:  # the interpreter ends and starts no threads any more: the end of the hub counts
                self._thread = None

    def forgotten(self, work: Forgotten) -> None:
        """A session went without :meth:`Session.close`; called while memory is cleaned up."""
        self._forgotten.append(work)
        self.wake()

    def close(self) -> None:
        """Count what can be counted, and stop trying. Idempotent."""
        with self._mutex:
            self._stop.set()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=5)
        self._end_forgotten()
        if not self.rolled_back:
            return
        try:
            count_rolled_back(self, patience=_AT_ONCE)
            cause = "another session holds the messages"
        except HubError as error:
            cause = str(error)
        number = sum(len(ids) for _, _, ids in self.rolled_back)
        if number:
            _log.warning("failed attempts of %d message(s) of hub %s not counted: %s", number, self.ground.name, cause)

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while not self._stop.wait(pause):
            self._end_forgotten()
            with suppress(HubError):
                count_rolled_back(self, patience=_BESIDE)
            pause = min(2 * pause, _LONGEST_PAUSE)
            with self._mutex:
                if not (self.rolled_back or self._forgotten):
                    self._thread = None
                    return

    def _end_forgotten(self) -> None:
        while self._forgotten:
            with suppress(HubError, IndexError):  # what cannot be undone waits to be counted; or another was faster
                self._forgotten.popleft().close()
