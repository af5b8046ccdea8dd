"""A message broker inside the process, for tests and examples: queues, logs and topics, and faults on demand.

Brokers have names and live as long as the process; every memory link with the same ``broker`` attribute uses the same
one. Nothing is durable.
"""

from __future__ import annotations

import bisect
import fnmatch
import threading
from collections import deque
from collections.abc import Iterable
from typing import ClassVar

from mgw.transforms.errors import DeliveryRejected, GatewayError
from mgw.transforms.message import Message

__all__ = ["MemoryBroker", "MemoryLog", "MemoryQueue", "Stored"]


class Stored:
    """A message in the broker: its position, when it expires (epoch seconds or None), whether it was read before."""

    __slots__ = ("expires_at", "message", "position", "redelivered")

    def __init__(self, message: Message, position: int, expires_at: float | None) -> None:
        self.message = message
        self.position = position
        self.expires_at = expires_at
        self.redelivered = False


class MemoryQueue:
    """First in, first out; what a reader took and did not settle comes back to its place when the reader goes."""

    def __init__(self, name: str, max_length: int | None = None) -> None:
        self.name = name
        self.max_length = max_length
        self._next = 0
        self._ready: deque[Stored] = deque()
        self._taken: list[Stored] = []

    @property
    def messages(self) -> list[Message]:
        """What the queue holds, oldest first, also what is read and not yet settled."""
        every = sorted((*self._taken, *self._ready), key=_position)
        return [item.message for item in every]

    @property
    def ready(self) -> int:
        """Messages nobody has read."""
        return len(self._ready)

    @property
    def end(self) -> int:
        """Position of the next message."""
        return self._next

    def check_room(self, count: int) -> None:
        """Raise :class:`DeliveryRejected` if ``count`` more messages do not fit."""
        if self.max_length is not None and len(self._ready) + len(self._taken) + count > self.max_length:
            raise DeliveryRejected(
                f"queue {self.name} refused {count} messages",
                cause=f"it holds at most {self.max_length}",
                cure="wait until its consumers catch up, or raise its limit",
            )

    def put(self, messages: Iterable[tuple[Message, float | None]]) -> None:
        """Append messages with their expiry times."""
        for message, expires_at in messages:
            self._ready.append(Stored(message, self._next, expires_at))
            self._next += 1

    def take(self, count: int) -> list[Stored]:
        """Hand out up to ``count`` messages."""
        ready = self._ready
        items = [ready.popleft() for _ in range(min(count, len(ready)))]
        self._taken.extend(items)
        return items

    def settle(self, items: Iterable[Stored]) -> None:
        """Forget messages that were handed out."""
        positions = {item.position for item in items}
        self._taken = [item for item in self._taken if item.position not in positions]

    def give_back(self, items: Iterable[Stored]) -> None:
        """Put unsettled messages back where they came from, marked as redelivered."""
        taken = {item.position for item in self._taken}
        back = sorted((item for item in items if item.position in taken), key=_position)
        self.settle(back)
        for item in back:
            item.redelivered = True
        self._ready = deque(sorted((*back, *self._ready), key=_position))


class MemoryLog:
    """Keeps every message; readers have positions of their own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.first = 0  # position of the first message that is still kept
        self._entries: list[Stored] = []

    @property
    def messages(self) -> list[Message]:
        """What the log keeps, oldest first."""
        return [item.message for item in self._entries]

    @property
    def end(self) -> int:
        """Position after the last message."""
        return self.first + len(self._entries)

    def check_room(self, count: int) -> None:
        """A log has always room."""

    def put(self, messages: Iterable[tuple[Message, float | None]]) -> None:
        """Append messages with their expiry times."""
        self._entries.extend(
            Stored(message, position, expires_at) for position, (message, expires_at) in enumerate(messages, self.end)
        )

    def read(self, position: int, count: int) -> list[Stored]:
        """Up to ``count`` entries from ``position`` on."""
        start = bisect.bisect_left(self._entries, position, key=_position)
        return self._entries[start : start + count]

    def discard_before(self, position: int) -> None:
        """Retention: forget entries before ``position``."""
        self._entries = [item for item in self._entries if item.position >= position]
        self.first = max(self.first, position)


def _position(item: Stored) -> int:
    return item.position


class MemoryTopic:
    """Copies each message to every subscription whose pattern matches the topic."""

    def __init__(self, name: str) -> None:
        self.name = name


class MemoryBroker:
    """One broker. All methods may be called from any thread.

    Attributes:
        refuse_connections: while true, ``connect`` fails as if nothing listened.
        stalled: while true, every operation ends in a timeout and nothing moves.
        hold_confirms: while true, published messages are stored and not confirmed.
        users: name -> password; None lets everybody in.
        sending_logs: records that destinations with an ``outbound_log_queue`` write with every batch.
    """

    _brokers: ClassVar[dict[str, MemoryBroker]] = {}
    _guard: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, name: str) -> None:
        self.name = name
        self.refuse_connections = False
        self.stalled = False
        self.hold_confirms = False
        self.users: dict[str, str] | None = None
        self.epoch = 0  # raised by cut(): connections of an older epoch are dead
        self.changed = threading.Condition(threading.RLock())
        self.sending_logs: dict[str, dict[str, int]] = {}  # log -> job -> last sequence
        self._stores: dict[str, MemoryQueue | MemoryLog] = {}
        self._topics: dict[str, MemoryTopic] = {}
        self._subscriptions: dict[str, tuple[str, MemoryQueue]] = {}
        self._faults: dict[str, deque[GatewayError]] = {}

    @classmethod
    def get(cls, name: str) -> MemoryBroker:
        """The broker called ``name``, made at the first call."""
        with cls._guard:
            return cls._brokers.setdefault(name, cls(name))

    @classmethod
    def drop(cls, name: str) -> None:
        """Forget a broker and everything in it."""
        with cls._guard:
            broker = cls._brokers.pop(name, None)
        if broker is not None:
            broker.refuse_connections = True
            broker.cut()

    # -- queues, logs, topics -----------------------------------------------------------------------------------------

    def queue(self, name: str, *, max_length: int | None = None) -> MemoryQueue:
        """The queue called ``name``, made at the first call; ``max_length`` sets its limit."""
        with self.changed:
            store = self._stores.setdefault(name, MemoryQueue(name, max_length))
            if not isinstance(store, MemoryQueue):
                raise TypeError(f"{name} is not a queue")
            if max_length is not None:
                store.max_length = max_length
            return store

    def log(self, name: str) -> MemoryLog:
        """The log called ``name``, made at the first call."""
        with self.changed:
            store = self._stores.setdefault(name, MemoryLog(name))
            if not isinstance(store, MemoryLog):
                raise TypeError(f"{name} is not a log")
            return store

    def topic(self, name: str) -> MemoryTopic:
        """The topic called ``name``, made at the first call."""
        with self.changed:
            return self._topics.setdefault(name, MemoryTopic(name))

    def delete(self, name: str) -> None:
        """Remove a queue, log or topic with what it holds."""
        with self.changed:
            self._stores.pop(name, None)
            self._topics.pop(name, None)
            self.changed.notify_all()

    def find(self, name: str) -> MemoryQueue | MemoryLog | None:
        """The queue or log of that name, or None."""
        return self._stores.get(name)

    def topics(self, pattern: str) -> list[str]:
        """Topics that match a pattern (``*`` and ``?`` as in file names)."""
        return [name for name in self._topics if fnmatch.fnmatchcase(name, pattern)]

    def subscribe(self, subscription: str, pattern: str) -> MemoryQueue:
        """The durable subscription called ``subscription``, made at the first call; collects while nobody reads."""
        with self.changed:
            known = self._subscriptions.get(subscription)
            if known is None or known[0] != pattern:
                known = self._subscriptions[subscription] = (pattern, MemoryQueue(subscription))
            return known[1]

    def unsubscribe(self, subscription: str) -> None:
        """Remove a subscription with what it collected; missing is fine."""
        with self.changed:
            self._subscriptions.pop(subscription, None)

    def collected(self, subscription: str) -> int:
        """Messages that a subscription has collected."""
        with self.changed:
            known = self._subscriptions.get(subscription)
            return 0 if known is None else len(known[1].messages)

    @property
    def subscriptions(self) -> list[str]:
        """Names of the durable subscriptions."""
        return list(self._subscriptions)

    def targets(self, name: str) -> list[MemoryQueue | MemoryLog]:
        """Where a message for ``name`` is stored: the queue or log, or the matching subscriptions of a topic."""
        store = self._stores.get(name)
        if store is not None:
            return [store]
        return [queue for pattern, queue in self._subscriptions.values() if fnmatch.fnmatchcase(name, pattern)]

    def exists(self, name: str) -> bool:
        """Whether ``name`` is a queue, log or topic."""
        return name in self._stores or name in self._topics

    def put(self, name: str, *messages: Message, expires_at: float | None = None) -> None:
        """What a foreign application does: send messages as they are, unchecked."""
        with self.changed:
            for target in self.targets(name):
                target.put((message, expires_at) for message in messages)
            self.changed.notify_all()

    # -- faults -------------------------------------------------------------------------------------------------------

    def fail_next(self, operation: str, error: GatewayError, times: int = 1) -> None:
        """Let the next ``times`` calls of ``operation`` raise ``error``.

        Operations: ``connect``, ``read``, ``settle``, ``publish`` (nothing of the batch is stored), ``confirm`` (the
        batch is stored, its outcome is not told), ``verify``.
        """
        with self.changed:
            self._faults.setdefault(operation, deque()).extend([error] * times)
            self.changed.notify_all()

    def next_fault(self, operation: str) -> GatewayError | None:
        """Take the error the next call of ``operation`` is to raise, if any."""
        faults = self._faults.get(operation)
        return faults.popleft() if faults else None

    def cut(self) -> None:
        """End every connection."""
        with self.changed:
            self.epoch += 1
            self.changed.notify_all()

    def wake(self) -> None:
        """Let everybody who waits look again (after an attribute changed)."""
        with self.changed:
            self.changed.notify_all()
