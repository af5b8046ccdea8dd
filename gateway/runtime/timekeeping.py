"""Passes of the time manager, and what is reported of messages that expire in them, or wait for too long."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Final

from mgw.gateway.aq import (
    QUEUE_TABLE_OPTIONS,
    SUBSCRIBER_OPTIONS,
    Hub,
    QueueAdmin,
    QueueType,
    TimeManagerReport,
    number_of,
    time_manager,
    transfer,
)
from mgw.gateway.observe.events import EventStore, Journalist, MessagesExpired, MessagesWait, MessagesWaitNoLonger
from mgw.gateway.state import run_state
from mgw.transforms.clock import Clock

__all__ = ["Timekeeper", "events_of", "watched"]

AGE_WARNING: Final = "age_warning"
LOOK_SECONDS: Final = 10.0  # between two looks for messages that wait for too long
PAUSE_SECONDS: Final = 60.0  # between two events on one queue: messages may expire every second for days


def events_of(hub: Hub, agent: str | None, clock: Clock) -> EventStore:
    """Where a journalist keeps the events of an agent; None: of no agent, but of a command."""

    def store(level: str, name: str, object_name: str, text: str) -> None:
        with hub.write() as conn:
            run_state.add_event(
                conn, agent_name=agent, level=level, name=name, object_name=object_name, text=text, now=clock.now()
            )

    return store


class Timekeeper:
    """Lets the time manager pass. The first messages of a queue that expire are reported at once, others are
    gathered."""

    def __init__(self, hub: Hub, journalist: Journalist, clock: Clock) -> None:
        self._hub = hub
        self._journalist = journalist
        self._clock = clock
        self._untold: Counter[tuple[str, str]] = Counter()
        self._told: dict[tuple[str, str], float] = {}
        self._looked = -LOOK_SECONDS
        self._waiting: dict[str, float] = {}  # what was warned of, with its limit

    def run(self, stop: threading.Event | None = None) -> TimeManagerReport:
        """One pass; ``stop`` ends it between two transactions.

        Raises:
            HubError: the database refused.
        """
        report = time_manager.run_once(self._hub, stop=stop)
        for queue, exception_queue, number in report.expirations:
            self._untold[queue, exception_queue] += number
        now = self._clock.monotonic()
        for names in list(self._untold):
            if now - self._told.get(names, -PAUSE_SECONDS) >= PAUSE_SECONDS:
                self._told[names] = now
                self._tell(names)
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            self._warn()
        return report

    def _warn(self) -> None:
        """Warn of messages that wait for too long, once until they wait no longer (option ``age_warning``)."""
        waiting: dict[str, float] = {}
        with self._hub.read() as conn:
            now = self._hub.clock.now()
            for queue, consumer, limit in watched(QueueAdmin(self._hub, conn)):
                oldest = transfer.backlog(conn, transfer.resolve(conn, queue), consumer).oldest
                if oldest is None or now - oldest <= limit:
                    continue
                name = f"queue {queue}" if consumer is None else f"subscriber {consumer} of queue {queue}"
                waiting[name] = limit
                if name not in self._waiting:
                    self._journalist.tell(MessagesWait(name, now - oldest, limit))
        for name in self._waiting.keys() - waiting.keys():
            self._journalist.tell(MessagesWaitNoLonger(name, self._waiting[name]))
        self._waiting = waiting

    def close(self) -> None:
        """Report what was gathered."""
        for names in list(self._untold):
            self._tell(names)

    def _tell(self, names: tuple[str, str]) -> None:
        queue, exception_queue = names
        self._journalist.tell(MessagesExpired(queue, self._untold.pop(names), exception_queue))


def watched(admin: QueueAdmin) -> Iterator[tuple[str, str | None, float]]:
    """Queues and subscribers with an ``age_warning``: their names and its seconds."""
    limits = {
        each.full_name: number_of(QUEUE_TABLE_OPTIONS, each.options, AGE_WARNING) for each in admin.queue_tables()
    }
    subscribers = admin.queue_subscribers()
    if not any(limits.values()) and not any(each.options for each in subscribers):
        return
    for queue in admin.queues():
        if queue.queue_type is not QueueType.NORMAL:
            continue
        name, limit = queue.full_name, limits.get(queue.queue_table)
        if not queue.multiple_consumers and limit is not None:
            yield name, None, limit
        for each in subscribers:
            own = number_of(SUBSCRIBER_OPTIONS, each.options, AGE_WARNING)
            if each.queue == queue.full_name and each.name and (found := limit if own is None else own) is not None:
                yield name, each.name, found
