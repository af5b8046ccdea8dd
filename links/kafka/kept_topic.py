"""Looking through a topic from its beginning to the end that it has at first; nothing is stored of it, no group joined.

Records of transactions that were aborted, or have not ended, are not seen. What failed earlier comes earlier, whatever
partition it is in: messages of one partition of the source may be in several here. Within a partition records keep
their order.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import NamedTuple

from mgw.links.contract import BATCH_BYTES, Direction, JobUse
from mgw.links.kafka.client import Consumer, Sendable, Topic
from mgw.links.kafka.connection import describe
from mgw.links.kafka.errors import translate
from mgw.links.kafka.settings import Settings
from mgw.links.reading_back import Held, LogPlace
from mgw.transforms.errors import LinkError, LinkTimeout
from mgw.transforms.kafka import Received, Rules, from_record, origin_headers
from mgw.transforms.kafka.common import OFFSET, PARTITION, TIMESTAMP, TIMESTAMP_TYPE, TOPIC
from mgw.transforms.message import Message
from mgw.transforms.payloads.exception_message import reason_of

__all__ = ["KeptTopic", "without_origin"]

_SLICE = 0.5  # seconds
_WAIT_MS = 10  # that a server may wait for records
_READ_AHEAD = 1000  # records of all partitions together
_FEW = 10  # of one of them
_HOP = frozenset((TOPIC, PARTITION, OFFSET, TIMESTAMP, TIMESTAMP_TYPE))


class _Written(NamedTuple):
    """A record before it is sent, in the form in which one comes."""

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


_Order = tuple[float, str, int]  # time of the failure, where the message was, at which offset there


@dataclass(slots=True)
class _Part:
    """A partition: from which offset on it is to be read, to which one, and what was read already."""

    number: int
    next: int
    end: int
    waiting: deque[tuple[_Order, Held]] = field(default_factory=deque)


class KeptTopic:
    """See :class:`mgw.links.reading_back.KeptLog`.

    Attributes:
        topic: as the cluster described it.
    """

    def __init__(self, settings: Settings, use: JobUse, rules: Rules) -> None:
        settings = self._settings = _impatient(settings)
        self._use = use
        self._rules = rules
        self._name = use.endpoint.provider_queue
        self.topic: Topic = describe(settings, self._name, "read", Direction.INBOUND)
        self.identity = f"cluster {self.topic.cluster_id}, topic {self.topic.topic_id}"
        self._parts: list[_Part] = []
        self._ends: dict[int, int] = {}
        self._consumer: Consumer = settings.client.consumer(settings, use)
        try:
            ranges = self._ranges()
        except BaseException:
            self.close()
            raise
        self.begins: Mapping[int, int] = {number: begin for number, (begin, _) in ranges.items()}
        self._look_at(ranges)

    def _ranges(self) -> Mapping[int, tuple[int, int]]:
        try:
            return self._consumer.ranges(self.topic.partitions)
        except Exception as error:
            raise self._error(error) from error

    def _look_at(self, ranges: Mapping[int, tuple[int, int]]) -> None:
        self._parts = [_Part(number, *ranges[number]) for number in sorted(ranges)]
        self._ends = {part.number: part.end for part in self._parts}

    def seek(self, offsets: Mapping[int, int]) -> None:
        """See :meth:`mgw.links.reading_back.KeptLog.seek`."""
        for part in self._parts:
            if part.next < offsets.get(part.number, 0) <= part.end:
                part.next = offsets[part.number]

    def read_on(self) -> None:
        """See :meth:`mgw.links.reading_back.KeptLog.read_on`."""
        before = self._ends
        self._look_at({number: (before.get(number, begin), end) for number, (begin, end) in self._ranges().items()})

    def read(self, most: int) -> Sequence[Held]:
        """See :meth:`mgw.links.reading_back.ReadQueue.read`."""
        found: list[Held] = []
        size = 0
        try:
            while len(found) < most and size < BATCH_BYTES:
                for part in self._parts:
                    if not part.waiting:
                        self._fill(part)
                self._parts = [part for part in self._parts if part.waiting]
                if not self._parts:
                    break
                first = min(self._parts, key=_order)
                found.append(first.waiting.popleft()[1])
                size += found[-1].size
        except LinkError:
            raise
        except Exception as error:
            raise self._error(error) from error
        return found

    def _fill(self, part: _Part) -> None:
        """Read the next records of a partition; none at its end."""
        if part.next >= part.end:
            return
        self._consumer.start({part.number: part.next})
        clock, timeout = self._use.clock, self._settings.timeout
        deadline = clock.monotonic() + timeout
        most = max(_FEW, _READ_AHEAD // len(self._parts))
        while part.next < part.end and not part.waiting:
            records = self._consumer.poll(_SLICE, most).get(part.number, ())
            self._take(part, records)
            if not records and (position := self._consumer.position(part.number) or 0) > part.next:
                part.next = position  # behind records that nobody gets
                deadline = clock.monotonic() + timeout
            if clock.monotonic() > deadline:
                raise self._silent(part)

    def _take(self, part: _Part, records: Sequence[Received]) -> None:
        """As many as there is room for; the next :meth:`_fill` begins with what is left."""
        size = 0
        for record in records:
            if record.offset >= part.end:
                part.next = part.end
                return
            if size > BATCH_BYTES // len(self._parts):
                return
            held = self._held(part.number, record)
            size += held.size
            part.waiting.append((_when(record, held.message), held))
            part.next = record.offset + 1

    def _silent(self, part: _Part) -> LinkTimeout:
        return LinkTimeout(
            f"link {self._settings.link}: topic {self._name} gave no record for {self._settings.timeout:g} s",
            link=self._settings.link,
            operation="read",
            cause=f"partition {part.number} has records up to offset {part.end}, and was read up to {part.next}",
            cure="check that the cluster is up and that all its servers can be reached from here",
        )

    def _held(self, number: int, record: Received) -> Held:
        place = LogPlace(number, record.offset, _digest(record))
        return Held(None, self._message(number, record), len(record.value or b""), place)

    def _message(self, number: int, record: Received) -> Message:
        message, _ = from_record(record, origin_headers(self._name, number), self._rules, self._use.clock.now())
        return _without_hop(message)

    def stored_form(self, encoded: Sendable) -> Message:
        """See :meth:`mgw.links.reading_back.ReadQueue.stored_form`."""
        value, key, headers, _, timestamp = encoded.record
        return self._message(0, _Written(0, -1 if timestamp is None else timestamp, 0, key, value, headers))

    def keep(self, seconds: float) -> None:
        """See :meth:`mgw.links.reading_back.ReadQueue.keep`; a consumer without a group owes nobody a sign of life."""
        threading.Event().wait(seconds)

    def close(self) -> None:
        """See :meth:`mgw.links.reading_back.ReadQueue.close`."""
        self._consumer.close()

    def _error(self, error: BaseException) -> LinkError:
        if isinstance(error, LinkError):
            return error
        place = self._settings.client.failure(error).lost
        if place is None:
            return translate(error, self._settings, "read", f"topic {self._name}")
        return LinkError(
            f"link {self._settings.link}: topic {self._name} lost messages while they were read",
            link=self._settings.link,
            operation="read",
            cause=f"partition {place[0]} no longer holds offset {place[1]} (retention, or somebody deleted records)",
            cure="give the command again; it reads what is left",
        )


def _impatient(settings: Settings) -> Settings:
    """A server that waits for records answers nothing else meanwhile, and partitions are read one after the other."""
    return replace(settings, consumer={**settings.consumer, "fetch_max_wait_ms": _WAIT_MS})


def _order(part: _Part) -> _Order:
    return part.waiting[0][0]


def _when(record: Received, message: Message) -> _Order:
    reason = reason_of(message)
    if reason is None:
        return record.timestamp / 1000, "", 0
    place, _, offset = reason.origin.rpartition("@")
    at = int(offset) if offset.isdecimal() else 0
    return record.timestamp / 1000 if reason.time is None else reason.time, place, at


def _digest(record: Received) -> str:
    """Of all that both clients tell of a record alike; a name that is not UTF-8 is left out."""
    names = tuple((name if type(name) is str else "", value) for name, value in record.headers)
    content = (record.timestamp, record.key, record.value, names)
    return blake2b(repr(content).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _without_hop(message: Message) -> Message:
    """The message without the headers of its last hop, which come before those of earlier ones."""
    dropped = set(_HOP)
    kept = []
    for place, header in enumerate(message.headers):
        if place < len(_HOP) and header.name in dropped:
            dropped.remove(header.name)
        else:
            kept.append(header)
    return replace(message, headers=tuple(kept))


def without_origin(message: Message) -> Message:
    """The message without what a record cannot be told: where it was. Partition and timestamp stay."""
    gone = (TOPIC, OFFSET, TIMESTAMP_TYPE)
    return replace(message, headers=tuple(header for header in message.headers if header.name not in gone))
