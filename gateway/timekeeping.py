"""Passes of the time manager, and what is told of the messages that expire in them."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Final

from gateway import journal
from gateway.aq import monitor
from gateway.aq.hub import Hub
from gateway.aq.monitor import TimeManagerReport
from gateway.events import EventStore, Journalist, MessagesExpired
from transforms.clock import Clock

__all__ = ["Timekeeper", "events_of"]

PAUSE_SECONDS: Final = 60.0  # between two events on one queue: messages may expire every second for days


def events_of(hub: Hub, agent: str | None, clock: Clock) -> EventStore:
    """Where a journalist keeps the events of an agent; None: of no agent, but of a command."""

    def store(level: str, name: str, object_name: str, text: str) -> None:
        with hub.write() as conn:
            journal.add_event(
                conn, agent_name=agent, level=level, name=name, object_name=object_name, text=text, now=clock.now()
            )

    return store


class Timekeeper:
    """Lets the time manager pass. The first messages of a queue that expire are told at once, others are gathered."""

    def __init__(self, hub: Hub, journalist: Journalist, clock: Clock) -> None:
        self._hub = hub
        self._journalist = journalist
        self._clock = clock
        self._untold: Counter[tuple[str, str]] = Counter()
        self._told: dict[tuple[str, str], float] = {}

    def run(self, stop: threading.Event | None = None) -> TimeManagerReport:
        """One pass; ``stop`` ends it between two transactions.

        Raises:
            HubError: the database refused.
        """
        report = monitor.run_once(self._hub, stop=stop)
        for queue, exception_queue, number in report.expirations:
            self._untold[queue, exception_queue] += number
        now = self._clock.monotonic()
        for names in list(self._untold):
            if now - self._told.get(names, -PAUSE_SECONDS) >= PAUSE_SECONDS:
                self._told[names] = now
                self._tell(names)
        return report

    def close(self) -> None:
        """Tell what was gathered."""
        for names in list(self._untold):
            self._tell(names)

    def _tell(self, names: tuple[str, str]) -> None:
        queue, exception_queue = names
        self._journalist.tell(MessagesExpired(queue, self._untold.pop(names), exception_queue))
