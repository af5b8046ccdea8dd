"""The messages of a foreign exception queue, as the desk sees them: held ones of a queue, or those of a log.

A queue gives messages up one by one, in which nothing but the queue takes part. A log keeps all of them, so the hub
keeps which are done: in the transaction that stores the event. They are left out from then on.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from itertools import chain, islice, takewhile
from typing import Any, NamedTuple, Protocol

import sqlalchemy as sa

from mgw.gateway.aq import Hub
from mgw.gateway.services.exceptions.contract import LONGEST_PLACE, DeskRefused
from mgw.gateway.services.exceptions.trails import LogMark, Mark, Trail
from mgw.gateway.state import desk_queues
from mgw.links.contract import Encoded
from mgw.links.reading_back import Held, HeldQueue, KeptLog, LogPlace
from mgw.transforms.errors import HubError
from mgw.transforms.message import Message
from mgw.transforms.payloads.exception_message import reason_of

__all__ = ["HeldShelf", "LogShelf", "Shelf", "WatchedShelf", "Where"]


class Where(NamedTuple):
    """An exception queue: the place of its messaging system, what it is called there, and here."""

    place: str
    queue: str
    shown: str


class Shelf(Protocol):
    """What a desk does with messages that it read.

    Attributes:
        held: how many are held by the system at the moment.
    """

    held: int

    def read(self, most: int) -> Sequence[Held]:
        """The next messages that are not done; none at the end."""
        ...

    def name(self, held: Held) -> str:
        """The id of a message that was read."""
        ...

    def behind(self, every: Iterator[Held], place: str) -> Iterator[Held]:
        """Those of all messages, of which none was taken yet, that are behind a place.

        Raises:
            NoSuchPlace: there is no such place.
        """
        ...

    def place_before(self, held: Held) -> str | None:
        """The place before a message that was read, for :meth:`behind` of a later shelf; None: it is too long."""
        ...

    def remaining(self, held: Sequence[Held]) -> Sequence[Held]:
        """Those of the messages with which nobody else has done meanwhile."""
        ...

    def store(self, conn: sa.Connection, done: Sequence[Held]) -> None:
        """Keep, in the transaction of the event, that messages are done."""
        ...

    def remove(self, done: Sequence[Held]) -> None:
        """Remove messages for good, after that transaction."""
        ...

    def appended(self, encoded: Encoded) -> tuple[str, Message]:
        """Id and form of a message that was written to the queue just now."""
        ...

    def keep(self, seconds: float) -> None:
        """Wait, and keep the connection alive."""
        ...

    def close(self) -> None:
        """Give back what is held, and disconnect."""
        ...


class HeldShelf:
    """See :class:`Shelf`: messages of a queue, which are named by their content."""

    def __init__(self, queue: HeldQueue) -> None:
        self._queue = queue
        self._same: Counter[str] = Counter()
        self._names: dict[Any, str] = {}  # by token
        self._ranks: dict[Any, int] = {}  # how many messages are before one, by token
        self._trail = Trail()
        self.held = 0

    def read(self, most: int) -> Sequence[Held]:
        """See :class:`Shelf`."""
        page = self._take(most)
        for held in page:
            digest = _digest(held.message)
            self._ranks[held.token] = len(self._trail)
            self._trail.add(digest, single=_is_single(held.message))
            self._same[digest] += 1
            number = self._same[digest]
            self._names[held.token] = digest if number == 1 else f"{digest}-{number}"
        return page

    def _take(self, most: int) -> Sequence[Held]:
        page = self._queue.read(most)
        self.held += len(page)
        return page

    def name(self, held: Held) -> str:
        """See :class:`Shelf`. Messages with the same content get numbers."""
        return self._names[held.token]

    def behind(self, every: Iterator[Held], place: str) -> Iterator[Held]:
        """See :class:`Shelf`: those that are before the place are held, too."""
        mark = Mark.read(place)
        passed = [_light(held) for held in islice(every, mark.count + 1)]
        return chain(passed[self._trail.begin(mark) :], every)

    def place_before(self, held: Held) -> str:
        """See :class:`Shelf`."""
        return str(self._trail.mark(self._ranks[held.token]))

    def remaining(self, held: Sequence[Held]) -> Sequence[Held]:
        """See :class:`Shelf`; what is held here nobody else has."""
        return held

    def store(self, conn: sa.Connection, done: Sequence[Held]) -> None:
        """See :class:`Shelf`; the queue itself keeps it."""

    def remove(self, done: Sequence[Held]) -> None:
        """See :class:`Shelf`."""
        self._queue.remove(done)
        self.held -= len(done)

    def appended(self, encoded: Encoded) -> tuple[str, Message]:
        """See :class:`Shelf`."""
        message = self._queue.stored_form(encoded)
        return _digest(message), message

    def keep(self, seconds: float) -> None:
        """See :class:`Shelf`."""
        self._queue.keep(seconds)

    def close(self) -> None:
        """See :class:`Shelf`."""
        self._queue.close()


class WatchedShelf(HeldShelf):
    """The same of a queue that drops a message which is given back too often.

    The hub keeps how often its messages may have been handed out. It is told before they are, so that a command that is
    killed counts, too. Whoever else reads the queue may bring a message to the limit: that one becomes the last message
    of the queue, which begins to count again.
    """

    def __init__(self, queue: HeldQueue, hub: Hub, where: Where, append: Callable[[Sequence[Message]], None]) -> None:
        super().__init__(queue)
        self._hub = hub
        self._limit = queue.delivery_limit or 0
        self._append = append
        self._counts: dict[Any, int] = {}  # earlier deliveries of messages that are held, by token
        with hub.write() as conn:
            kept = desk_queues.keep(conn, where.place, where.queue, "")
            self._id, self._known = kept.id, kept.deliveries if queue.waiting else 0
            self._kept = kept.deliveries
        if self._known >= self._limit:
            raise self._refused(where.shown)
        self._keep(self._known + 1)

    def _refused(self, shown: str) -> DeskRefused:
        return DeskRefused(
            f"looking through exception queue {shown} could cost messages",
            cause=f"they may have been handed out {self._known} times, and at the delivery limit, {self._limit}, the "
            "messaging system drops a message that is looked at once more",
            cure="raise the delivery limit, or end it; or read the queue with a job from it into a queue of the hub",
        )

    def _keep(self, deliveries: int) -> None:
        if deliveries != self._kept:
            with self._hub.write() as conn:
                desk_queues.set_deliveries(conn, self._id, deliveries)
            self._kept = deliveries

    def _take(self, most: int) -> Sequence[Held]:
        while page := super()._take(most):
            self._counts |= {held.token: held.deliveries for held in page}
            self._keep(max(self._kept, 1 + max(held.deliveries for held in page)))
            last = [held for held in page if held.deliveries >= self._limit]
            if last:
                self._append([held.message for held in last])
                self.remove(last)
            if len(last) < len(page):
                return [held for held in page if held.deliveries < self._limit]
        return ()

    def remove(self, done: Sequence[Held]) -> None:
        """See :class:`Shelf`."""
        super().remove(done)
        for held in done:
            self._counts.pop(held.token, None)

    def close(self) -> None:
        """See :class:`Shelf`; the hub learns how often the messages were handed out that stay."""
        super().close()
        unread = self._known if self._queue.waiting else 0
        with suppress(HubError):  # what it has is too much rather than too little
            self._keep(max(unread, *(count + 1 for count in self._counts.values()), 0))


class LogShelf:
    """See :class:`Shelf`: messages of a log, which are named by their places."""

    held = 0

    def __init__(self, log: KeptLog, hub: Hub, where: Where) -> None:
        self._log = log
        self._hub = hub
        self._where = where
        self._begun: dict[int, int] = {}  # partition -> offset
        self._passed: list[tuple[int, int]] = []  # partitions and offsets of what was read, in its order

    def read(self, most: int) -> Sequence[Held]:
        """See :class:`Shelf`."""
        while page := self._log.read(most):
            self._passed += [_place(held)[:2] for held in page]
            if left := self.remaining(page):
                return left
        return ()

    def remaining(self, held: Sequence[Held]) -> Sequence[Held]:
        """See :class:`Shelf`."""
        with self._hub.read() as conn:
            kept = desk_queues.find(conn, self._where.place, self._where.queue)
            if kept is None or kept.identity != self._log.identity:
                return held
            offsets: defaultdict[int, list[int]] = defaultdict(list)
            for part, offset, _ in map(_place, held):
                offsets[part].append(offset)
            done = {part: desk_queues.done(conn, kept.id, part, found) for part, found in offsets.items()}
        return [each for each in held if done[_place(each).part].get(_place(each).offset) != _place(each).digest]

    def name(self, held: Held) -> str:
        """See :class:`Shelf`."""
        part, offset, _ = _place(held)
        return f"{part}@{offset}"

    def behind(self, every: Iterator[Held], place: str) -> Iterator[Held]:
        """See :class:`Shelf`: the log is read from there on. One that was made again is read from its beginning."""
        mark = LogMark.read(place)
        if mark.identity == LogMark.named(self._log.identity):
            self._begun = dict(mark.offsets)
            self._log.seek(self._begun)
        return every

    def place_before(self, held: Held) -> str | None:
        """See :class:`Shelf`."""
        offsets = dict(self._begun)
        here = _place(held)[:2]
        for part, offset in takewhile(lambda each: each != here, self._passed):
            offsets[part] = offset + 1
        place = str(LogMark(LogMark.named(self._log.identity), sorted(offsets.items())))
        return place if len(place) <= LONGEST_PLACE else None

    def store(self, conn: sa.Connection, done: Sequence[Held]) -> None:
        """See :class:`Shelf`. What the log no longer holds is forgotten."""
        kept = desk_queues.keep(conn, self._where.place, self._where.queue, self._log.identity)
        desk_queues.prune(conn, kept.id, self._log.begins)
        desk_queues.add_done(conn, kept.id, map(_place, done))

    def remove(self, done: Sequence[Held]) -> None:
        """See :class:`Shelf`; a log removes nothing."""

    def appended(self, encoded: Encoded) -> tuple[str, Message]:
        """See :class:`Shelf`; it is looked for behind what was there before."""
        message = self._log.stored_form(encoded)
        wanted, name = _digest(message), "unknown"
        self._log.read_on()
        while page := self._log.read(100):
            for held in page:
                if _digest(held.message) == wanted:
                    name, message = self.name(held), held.message
        return name, message

    def keep(self, seconds: float) -> None:
        """See :class:`Shelf`."""
        self._log.keep(seconds)

    def close(self) -> None:
        """See :class:`Shelf`."""
        self._log.close()


def _place(held: Held) -> LogPlace:
    assert held.place is not None  # noqa: S101  # every message of a log has one
    return held.place


def _light(held: Held) -> Held:
    return held._replace(message=replace(held.message, body=None))


def _is_single(message: Message) -> bool:
    """Whether the reason says which message it is: no other one failed at that moment at that place."""
    reason = reason_of(message)
    return reason is not None and reason.time is not None and bool(reason.origin or reason.key)


def _digest(message: Message) -> str:
    """Names a message by its content: a queue gives it no name that lasts.

    RabbitMQ sorts the headers of a message when it adds one, such as how often the message was handed out.
    """
    headers = sorted(message.headers, key=repr)
    content = (headers, message.body, message.correlation, message.priority)
    return blake2b(repr(content).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
