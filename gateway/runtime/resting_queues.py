"""Which queues of the hub have nothing to take, asked once for all jobs of an agent that wait for messages.

A job is woken by the commit that brings messages. It looks by itself all the same, as a wake-up may be lost. Hundreds
of jobs that look in transactions of their own would make up much of what an idle agent costs.
"""

from __future__ import annotations

import threading

from mgw.gateway.aq import Hub, transfer
from mgw.transforms.clock import Clock

__all__ = ["RestingQueues"]

_PATIENCE = 1.0  # seconds


class RestingQueues:
    """Used by any thread."""

    def __init__(self, hub: Hub, clock: Clock) -> None:
        self._hub = hub
        self._clock = clock
        self._mutex = threading.Lock()
        self._asked_at = float("-inf")
        self._resting: frozenset[int] = frozenset()

    def has(self, queue: int, age: float) -> bool:
        """Whether a queue had nothing to take at most ``age`` seconds ago, as far as is known: nobody waits here for a
        hub that does not answer another one.

        Raises:
            HubError: it could not be found out.
        """
        if not self._mutex.acquire(timeout=_PATIENCE):
            return False
        try:
            now = self._clock.monotonic()
            if now - self._asked_at > age:
                with self._hub.read() as conn:
                    self._resting = transfer.at_rest(conn)
                self._asked_at = now
            return queue in self._resting
        finally:
            self._mutex.release()
