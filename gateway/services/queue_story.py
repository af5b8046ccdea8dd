"""One queue of the hub for somebody who asks what is in it and who reads it, and its messages one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from mgw.gateway.aq import (
    Counts,
    Dequeued,
    DequeueMode,
    DequeueOptions,
    Hub,
    Navigation,
    QueueAdmin,
    QueueInfo,
    SubscriberInfo,
    shown_key,
)
from mgw.gateway.aq import queue_backlog as backlog
from mgw.gateway.aq import resolve_queue as resolve
from mgw.gateway.services import lookup
from mgw.gateway.services.messages import body_bytes
from mgw.gateway.state import records
from mgw.gateway.state.records import QueueLoad
from mgw.transforms.errors import AqError

__all__ = ["Listing", "QueueLine", "QueueStory", "Reader", "one_message", "queue_lines", "queue_story", "some_messages"]

_NONE = frozenset((25228, 25237, 25263))  # no message, no more, none of that id
_MOST_BYTES = 16 << 20  # of bodies in memory for a list


@dataclass(frozen=True, slots=True)
class QueueLine:
    """A queue in a list.

    Attributes:
        key: ``SCHEMA.NAME`` in upper case, as jobs name their ends.
        subscribers: how many it has; 0 of a queue with one consumer.
    """

    queue: QueueInfo
    key: str
    load: QueueLoad
    subscribers: int


@dataclass(frozen=True, slots=True)
class Reader:
    """A subscriber of a queue with what waits for it; ``held`` None: it is of another place, which is not counted."""

    subscriber: SubscriberInfo
    held: Counts | None


@dataclass(frozen=True, slots=True)
class QueueStory:
    """A queue with what lies in it and who reads it."""

    queue: QueueInfo
    held: Counts
    readers: Sequence[Reader]

    @property
    def consumers(self) -> list[str]:
        """Names of the subscribers whose messages can be looked at."""
        return [each.subscriber.name for each in self.readers if each.subscriber.name and each.held is not None]


@dataclass(frozen=True, slots=True)
class Listing:
    """Messages, in the order in which they are dequeued.

    Attributes:
        whole: there are no others.
    """

    messages: Sequence[Dequeued]
    whole: bool


def queue_lines(hub: Hub) -> list[QueueLine]:
    """Every queue with what lies in it, by name; no message is looked at."""
    with hub.read() as conn:
        admin = QueueAdmin(hub, conn)
        loads = {load.name_key: load for load in records.queue_loads(conn)}
        readers = Counter(each.queue for each in admin.queue_subscribers())
        queues = admin.queues()
    found = []
    for queue in queues:
        key = shown_key(queue.full_name)
        if key in loads:
            found.append(QueueLine(queue, key, loads[key], readers[queue.full_name]))
    return found


def queue_story(hub: Hub, name: str) -> QueueStory:
    """A queue, in one transaction.

    Raises:
        NotFound: there is none of that name.
        AqError: it is not a name.
    """
    full = lookup.queue(hub, name)
    with hub.read() as conn:
        admin = QueueAdmin(hub, conn)
        queue = next(each for each in admin.queues() if each.full_name == full)
        ref = resolve(conn, f'"{queue.schema}"."{queue.name}"')
        readers = []
        for each in admin.queue_subscribers(full):
            local = each.name is not None and not each.address
            readers.append(Reader(each, backlog(conn, ref, each.name) if local else None))
        return QueueStory(queue, backlog(conn, ref), readers)


def some_messages(
    hub: Hub,
    queue: str,
    *,
    count: int,
    consumer: str | None = None,
    correlation: str | None = None,
    condition: str | None = None,
) -> Listing:
    """The messages that come next; they stay where they are.

    Args:
        queue: its full name.

    Raises:
        AqError: there is no such queue or consumer, or the condition cannot be used.
    """
    found: list[Dequeued] = []
    size = 0
    navigation = Navigation.FIRST_MESSAGE
    with hub.session() as session:
        while len(found) < count and size < _MOST_BYTES:
            options = DequeueOptions(
                consumer_name=consumer,
                dequeue_mode=DequeueMode.BROWSE,
                navigation=navigation,
                wait=0,
                correlation=correlation,
                deq_condition=condition,
            )
            try:
                taken = session.dequeue(queue, options)
            except AqError as error:
                if error.number in _NONE:
                    return Listing(found, True)
                raise
            found.append(taken)
            size += len(body_bytes(taken.message.body))
            navigation = Navigation.NEXT_MESSAGE
    return Listing(found, False)


def one_message(hub: Hub, queue: str, msgid: str, consumers: Sequence[str | None]) -> Dequeued | None:
    """A message of a queue, which stays there; None: none of these consumers can take it now.

    Args:
        queue: its full name.
        consumers: None of a queue with one consumer.
    """
    try:
        identity = bytes.fromhex(msgid)
    except ValueError:
        return None
    with hub.session() as session:
        for consumer in consumers:
            options = DequeueOptions(consumer_name=consumer, dequeue_mode=DequeueMode.BROWSE, wait=0, msgid=identity)
            try:
                return session.dequeue(queue, options)
            except AqError as error:
                if error.number not in _NONE:
                    raise
    return None
