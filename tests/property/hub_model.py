"""What the queues promise, as a plain Python program without a database: the model that the hub is compared with.

One :class:`Model` is a hub with its queues; a :class:`tests.property.hub_model_client.Client` is a session. A message
is there once for each of its consumers, as an :class:`Entry` (once, on a single-consumer queue). A call either returns
what the hub has to return, or raises :class:`Refused` with the number of the error that the hub has to raise.

Both databases keep the same promises. Where they may differ, because a session on PostgreSQL works in a transaction
with locked rows and a session on SQLite holds claims (and no transaction) between its calls, the model asks one of the
properties of :class:`Database`, and nothing else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from mgw.gateway.aq.model import DequeueMode, Navigation, SortList
from mgw.gateway.aq.store.tables import State

if TYPE_CHECKING:
    from tests.property.hub_model_client import Client

READY, WAITING, PROCESSED, EXPIRED = State.READY, State.WAITING, State.PROCESSED, State.EXPIRED
BLOCKED = State.UNDELIVERABLE  # one consumer failed too often; the others may still take the message
OPEN = (READY, WAITING, BLOCKED)  # an entry that is neither consumed nor given up
NOT_THERE = 25228, 25263  # nothing found; no message of this id


class Refused(Exception):
    """The hub has to raise the error with this number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Database(NamedTuple):
    """The differences between the two databases: all that there may be."""

    postgresql: bool

    @property
    def sees_own_messages(self) -> bool:
        """A session finds what it enqueued before it commits. (SQLite: it is stored by the commit.)"""
        return self.postgresql

    @property
    def counts_late(self) -> bool:
        """A failed attempt is counted after the rollback, by a transaction of its own.

        So it is not counted for a message that the same transaction enqueued, nor for one that another attempt of the
        same transaction took to an exception queue. It waits as long as the message is in somebody's hands: those of
        the next consumer, or those of the session itself, if it rolled back to a savepoint and had locked the message
        before it. (SQLite: it is part of the rollback.)
        """
        return self.postgresql

    @property
    def keeps_names(self) -> bool:
        """Who is named as a recipient is known from then on, even if the call (ON_COMMIT) is refused."""
        return self.postgresql

    @property
    def keeps_states(self) -> bool:
        """A message in hand has the state it had, and gets it back as it was.

        (SQLite: it is shown as READY, to browsers too, and when it is let go its delay may be over: it needs no time
        manager to be READY.
        Of what was locked before a savepoint and removed after it, only READY messages are locked again.)
        """
        return self.postgresql

    @property
    def stamps_each_call(self) -> bool:
        """The time of a removal is that of its call. (SQLite: of the transaction's last call for this consumer.)"""
        return self.postgresql


@dataclass(eq=False)
class Entry:
    """A message for one consumer; ``holder``: the client that has it in hand, ``removed`` or only locked."""

    message: Stored
    consumer: str | None
    state: State
    ready_at: float
    attempts: int = 0
    deq_time: float | None = None
    holder: Client | None = None
    removed: bool = False
    hidden: bool = False  # locked by its id while it was not READY: a search does not find it

    @property
    def locked(self) -> bool:
        """Whether it is in hand, and was not removed."""
        return self.holder is not None and not self.removed


@dataclass(eq=False)
class Stored:
    """A message. ``sender``: who has enqueued and not yet committed it."""

    number: int
    home: Queue  # where it was enqueued
    queue: Queue  # where it is
    body: str
    priority: int
    enq_time: float
    correlation: str | None
    expires_at: float | None
    exception_queue: str | None
    sender: Client | None
    entries: list[Entry] = field(default_factory=list)
    reason: str | None = None  # why it is in an exception queue
    whole: Entry | None = None  # a message of a multi-consumer exception queue is taken once, for everybody
    done: float | None = None  # when the last consumer took it, and the time manager saw that

    def key(self) -> tuple[float, ...]:
        """Its place: the sort list, then the order of the calls."""
        if self.queue.sort in (SortList.PRIORITY, SortList.PRIORITY_ENQ_TIME):
            return (self.priority, self.number)
        if self.queue.sort is SortList.ENQ_TIME_PRIORITY:
            return (int(self.enq_time), self.priority, self.number)
        return (self.number,)


@dataclass(eq=False)
class Consumer:
    """A subscriber, or a name from a recipient list; ``removed_upto``: the newest message when it was removed."""

    subscriber: bool = False
    rule: Callable[[Stored], bool] | None = None
    removed_upto: int = 0


@dataclass(eq=False)
class Queue:
    """``exceptions``: it is an exception queue; ``default``: the exception queue of its table."""

    name: str
    table: str
    multiple: bool = False
    sort: SortList = SortList.ENQ_TIME
    max_retries: int = 5
    retry_delay: float = 0
    retention: float = 0
    exceptions: bool = False
    default: Queue | None = None
    consumers: dict[str, Consumer] = field(default_factory=dict)


class New(NamedTuple):
    """A message as it is enqueued; ``recipients`` replace the subscribers."""

    priority: int = 0
    delay: float = 0
    expiration: float | None = None
    correlation: str | None = None
    exception_queue: str | None = None
    recipients: tuple[str, ...] = ()
    body: str = ""


class Call(NamedTuple):
    """A dequeue. ``search``: what a message must be like; ``criteria`` names it, and the consumer of the search."""

    queue: Queue
    consumer: str | None = None
    mode: DequeueMode = DequeueMode.REMOVE
    navigation: Navigation = Navigation.NEXT_MESSAGE
    size: int = 1
    number: int | None = None
    criteria: str | None = None
    search: Callable[[Entry], bool] = lambda _: True
    immediate: bool = False
    waits: bool = False

    @property
    def browses(self) -> bool:
        """It only looks."""
        return self.mode is DequeueMode.BROWSE

    @property
    def removes(self) -> bool:
        """What it finds is gone with the commit."""
        return self.mode in (DequeueMode.REMOVE, DequeueMode.REMOVE_NODATA)


class Place(NamedTuple):
    """Where NEXT_MESSAGE goes on: behind ``after``, among what was there (``upto``) when the search began."""

    consumer: str | None
    criteria: str | None
    after: tuple[float, ...] | None
    upto: int
    ended: bool = False


class Got(NamedTuple):
    """What a dequeue has to return of a message."""

    number: int
    body: str | None
    attempts: int
    state: State


class Passed(NamedTuple):
    """What a pass of the time manager has to report."""

    made_ready: int
    expired: int
    removed: int


class Row(NamedTuple):
    """A row of ``AQ$<queue table>``."""

    number: int
    consumer: str | None
    queue: str
    state: str
    attempts: int
    reason: str | None
    in_transaction: bool


class Model:
    """A hub: what is stored, and what time and failures do to it."""

    def __init__(self, database: Database, now: float) -> None:
        self.database = database
        self.now = now
        self.last = 0  # number of the newest message
        self.queues: dict[str, Queue] = {}
        self.messages: list[Stored] = []
        self.log: set[Stored] = set()  # multi-consumer messages of which somebody may have been the last to wait
        self.uncounted: deque[list[Entry]] = deque()  # failed attempts that could not be counted yet

    def add_queue(self, queue: Queue) -> None:
        """A queue, or an exception queue."""
        self.queues[queue.name.upper()] = queue

    # -- subscribers -----------------------------------------------------------------------------------------------

    def add_subscriber(self, queue: Queue, name: str, rule: Callable[[Stored], bool] | None) -> None:
        """It gets what is enqueued from now on. What it left behind when it was removed is not there for it."""
        consumer = queue.consumers.setdefault(name, Consumer())
        if consumer.subscriber:
            raise Refused(24034)
        self._drop_left_over(queue, name)
        consumer.subscriber, consumer.rule = True, rule

    def alter_subscriber(self, queue: Queue, name: str, rule: Callable[[Stored], bool] | None) -> None:
        """Messages that are there already stay whose they are."""
        consumer = queue.consumers.get(name)
        if consumer is None or not consumer.subscriber:
            raise Refused(24035)
        consumer.rule = rule

    def remove_subscriber(self, queue: Queue, name: str) -> None:
        """Its backlog goes with it, but not what a transaction has in hand."""
        consumer = queue.consumers.get(name)
        if consumer is None or not consumer.subscriber:
            raise Refused(24035)
        consumer.subscriber, consumer.rule, consumer.removed_upto = False, None, self.last
        for entry in self._entries(queue, name):
            if entry.state in OPEN and entry.holder is None:
                self._drop(entry)

    def _entries(self, queue: Queue, name: str) -> list[Entry]:
        """Committed ones."""
        return [
            entry
            for message in self.messages
            if message.sender is None
            for entry in message.entries
            if entry.consumer == name and message.home is queue
        ]

    def _drop(self, entry: Entry) -> None:
        entry.message.entries.remove(entry)
        entry.holder = None
        self.log.add(entry.message)

    def _left_over(self, entry: Entry, queue: Queue, name: str) -> bool:
        """Whether the consumer has ceased to be a subscriber since the message was enqueued."""
        return entry.message.number <= queue.consumers[name].removed_upto and entry.state in OPEN

    def _drop_left_over(self, queue: Queue, name: str, given_back: Iterable[Entry] = ()) -> None:
        back = set(given_back)
        for entry in self._entries(queue, name):
            if self._left_over(entry, queue, name) and (entry.holder is None or entry in back):
                self._drop(entry)

    # -- failed attempts -------------------------------------------------------------------------------------------

    def fail(self, entries: Sequence[Entry]) -> None:
        """An attempt of each message failed: try again, at once or later, or give up.

        A consumer who has failed too often is blocked; the message is given up when nobody is left who may take it.
        """
        for entry in entries:
            if entry.consumer is not None:
                self._drop_left_over(entry.message.queue, entry.consumer, entries)
        over: list[Stored] = []
        for entry in entries:
            message, queue = entry.message, entry.message.queue
            if entry not in message.entries or entry.state not in OPEN:
                continue
            entry.holder = None
            entry.attempts += 1
            if entry.attempts > queue.max_retries:
                over.append(message)
                entry.state = BLOCKED if queue.multiple else READY
            else:
                entry.state = WAITING if queue.retry_delay else READY
                entry.ready_at = self.now + queue.retry_delay
        for message in over:
            if message.queue.multiple:
                self.log.add(message)
            if not message.queue.multiple or self._given_up(message):
                self._move(message, "MAX_RETRY_EXCEEDED")

    @staticmethod
    def _given_up(message: Stored) -> bool:
        """Everybody who has not consumed it is blocked, and nobody has it in hand."""
        left = [entry for entry in message.entries if entry.state in OPEN]
        return bool(left) and all(entry.state is BLOCKED and entry.holder is None for entry in left)

    def _move(self, message: Stored, reason: str) -> None:
        """To the exception queue that the message names, if there is one of the kind, else to that of the table."""
        named = self.queues.get((message.exception_queue or "").upper())
        if named is None or not named.exceptions or named.multiple != message.queue.multiple:
            named, message.exception_queue = message.queue.default, None
        assert named is not None
        message.reason, message.expires_at = reason, None
        for entry in message.entries:
            if entry.state in OPEN:
                entry.state = EXPIRED
        if message.queue.multiple:
            message.whole = Entry(message, None, EXPIRED, 0)
        message.queue = named

    def count_uncounted(self) -> None:
        """Count failed attempts of earlier rollbacks, but not of what is in hand."""
        for _ in range(len(self.uncounted)):
            group = self.uncounted.popleft()
            if group[0].consumer is not None:
                self._drop_left_over(group[0].message.home, group[0].consumer)
            entries = [entry for entry in group if self._countable(entry)]
            self.fail([entry for entry in entries if entry.holder is None])
            held = [entry for entry in entries if entry.holder is not None]
            if held:
                self.uncounted.append(held)

    def _countable(self, entry: Entry) -> bool:
        message = entry.message
        there = message in self.messages and entry in message.entries and entry.state in OPEN
        return there and message.sender is None

    # -- the time manager ------------------------------------------------------------------------------------------

    def run_time_manager(self) -> Passed:
        """Everything that time does to messages, except to those in hand."""
        self.count_uncounted()
        committed = [message for message in self.messages if message.sender is None]
        left_over = self._somebody_left_something(committed)
        made_ready = self._end_delays(committed)
        expired = self._expire(committed)
        if left_over:
            for message in committed:
                for entry in list(message.entries):
                    queue, name = message.home, entry.consumer
                    if name is not None and entry.holder is None and self._left_over(entry, queue, name):
                        self._drop(entry)
        return Passed(made_ready, expired, self._sweep() + self._end_retention())

    def _somebody_left_something(self, committed: list[Stored]) -> bool:
        for message in committed:
            for entry in message.entries:
                consumer = message.home.consumers.get(entry.consumer or "")
                if consumer is None or consumer.subscriber or message.number > consumer.removed_upto:
                    continue
                if entry.state is READY and (entry.holder is None or self.database.keeps_states):
                    return True
        return False

    def _end_delays(self, committed: list[Stored]) -> int:
        due = [
            entry
            for message in committed
            for entry in message.entries
            if entry.state is WAITING and entry.ready_at <= self.now and entry.holder is None
        ]
        for entry in due:
            entry.state = READY
        return len(due)

    def _expire(self, committed: list[Stored]) -> int:
        """One consumer who has not taken it in time is enough; whoever has it in hand may still take it."""
        number = 0
        for message in committed:
            if message.expires_at is None or message.expires_at > self.now or message.done is not None:
                continue
            left = [entry for entry in message.entries if entry.state in OPEN]
            if left and all(entry.holder is None for entry in left):
                self._move(message, "TIME_EXPIRATION")
                number += 1
        return number

    def _sweep(self) -> int:
        """Multi-consumer messages that everybody has consumed go, or are retained."""
        number = 0
        for message in list(self.log):
            if message.sender is not None:
                continue
            if self._given_up(message) and not message.queue.exceptions:
                self._move(message, "MAX_RETRY_EXCEEDED")
                self.log.discard(message)
                continue
            if any(entry.state is BLOCKED and entry.holder is not None for entry in message.entries):
                continue  # looked at again when it is let go
            self.log.discard(message)
            if message not in self.messages or message.queue.exceptions or message.done is not None:
                continue
            if any(entry.state in OPEN for entry in message.entries):
                continue
            number += 1
            times = [entry.deq_time for entry in message.entries if entry.deq_time is not None]
            if message.queue.retention and times:
                message.done, message.expires_at = max(times), None
            else:
                self.messages.remove(message)
        return number

    def _end_retention(self) -> int:
        number = 0
        for message in list(self.messages):
            retention = message.queue.retention
            if retention >= 0 and message.done is not None and message.done <= self.now - retention:
                self.messages.remove(message)
                number += 1
        return number

    # -- what everybody sees ---------------------------------------------------------------------------------------

    def rows(self, table: str) -> set[Row]:
        """The rows of ``AQ$<table>``: what is committed, and (SQLite) whether it is in somebody's hands."""
        found = set()
        for message in self.messages:
            if message.sender is not None or message.queue.table != table:
                continue
            for entry in message.entries or [None]:
                claimed = not self.database.keeps_states
                held = claimed and entry is not None and entry.holder is not None
                held = held or (claimed and message.whole is not None and message.whole.holder is not None)
                if message.reason is not None:
                    state = EXPIRED
                elif entry is None:  # the last who waited is no subscriber any more
                    state = PROCESSED
                else:
                    state = READY if held else entry.state
                found.add(
                    Row(
                        message.number,
                        entry.consumer if entry is not None else None,
                        message.queue.name.upper(),
                        {WAITING: "WAIT"}.get(state, state.name),
                        entry.attempts if entry is not None else 0,
                        message.reason,
                        held,
                    )
                )
        return found
