"""Consumers of librdkafka: of a topic, and of the sending log.

Partitions are assigned by hand. The library wants the name of a group; nothing is stored under it.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer as Instance
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import OffsetSpec

from mgw.links.contract import JobUse
from mgw.links.kafka.bad_names import BadName
from mgw.links.kafka.client import Kind, Place
from mgw.links.kafka.confluent_client.connection import Admin, Watch, configuration
from mgw.links.kafka.confluent_client.errors import OffsetLost, failure_of
from mgw.links.kafka.confluent_client.topics import topic_id_of
from mgw.links.kafka.errors import translate
from mgw.links.kafka.settings import Settings
from mgw.transforms.kafka import Received

__all__ = ["ConfluentConsumer", "ConfluentLogReader"]

_PIECE: Final = 0.1  # seconds
_WAITING: Final = 10_000  # records that are read ahead, at least, where they fit in:
_WAITING_KB: Final = 16_384
_LONGEST: Final = 1000  # milliseconds that a server may wait for records
#: The same where the end is waited for; only an answer without a record tells that the end is reached.
_AT_ONCE: Final = 5
_UNREACHED: Final = (Kind.TIMEOUT, Kind.UNREACHABLE)
#: What concerns a consumer that has nothing to do with groups.
_SERIOUS: Final = (Kind.LOST, Kind.MISSING, Kind.OTHER, Kind.REJECTED, Kind.VERSION)


class _Read(NamedTuple):
    """See :class:`mgw.transforms.kafka.Received`."""

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


def _instance(settings: Settings, use: JobUse, isolation: str = "read_committed", wait: int | None = None) -> Instance:
    consumer = settings.consumer
    largest = max(consumer["max_partition_fetch_bytes"], 1000)
    try:
        return Instance(
            configuration(
                settings,
                Watch(),
                settings.client_id(use.job),
                group_id=settings.client_id(use.job),
                enable_auto_commit=False,
                enable_auto_offset_store=False,
                auto_offset_reset="error",
                isolation_level=isolation,
                enable_partition_eof=True,
                fetch_max_bytes=max(consumer["fetch_max_bytes"], largest),
                fetch_message_max_bytes=largest,
                receive_message_max_bytes=max(consumer["fetch_max_bytes"], largest) + 1_048_576,
                fetch_wait_max_ms=min(_LONGEST, consumer["fetch_max_wait_ms"] // 2) if wait is None else wait,
                fetch_error_backoff_ms=100,
                fetch_queue_backoff_ms=2,
                queued_min_messages=_WAITING,
                queued_max_messages_kbytes=max(_WAITING_KB, largest // 1024),
            )
        )
    except Exception as error:
        raise translate(error, settings, "connect", "the cluster") from error


def _headers(message: Any) -> Sequence[tuple[str, bytes | None]]:
    """The headers of a record, also where a name is not UTF-8.

    The library then has a hole in the place of that name, which nobody may look at, and leaves an error pending, which
    this or some later call meets. Counting what the headers refer to finds the hole; a call of Python's own interface
    meets the error.
    """
    pending: BaseException | None = None
    try:
        found = message.headers()
        if not found:
            return ()
        if len(gc.get_referents(*found)) == 2 * len(found):
            return found  # type: ignore[no-any-return]
        ctypes.pythonapi.Py_IsInitialized()
    except (SystemError, UnicodeDecodeError) as error:
        pending = error if isinstance(error, UnicodeDecodeError) else error.__cause__
    bad = BadName(bytes(pending.object) if isinstance(pending, UnicodeDecodeError) else b"\xff")
    try:
        parts = [gc.get_referents(header) for header in message.headers()]
    except UnicodeDecodeError:  # a release that hands out nothing
        return [(bad, b"")]
    return [(each[1], each[0]) if len(each) == 2 else (bad, each[0]) for each in parts]


class _Reading:
    """What both consumers share: reading, and how far they have come."""

    def __init__(self, consumer: Instance) -> None:
        self.consumer = consumer
        self.next: dict[int, int] = {}  # partition -> the offset that comes next
        self._failed: KafkaException | None = None

    def assign(self, topic: str, offsets: Mapping[int, int]) -> None:
        self.next = dict(offsets)
        self._failed = None
        self.consumer.assign([TopicPartition(topic, number, offset) for number, offset in offsets.items()])

    def read(self, seconds: float, most: int) -> Mapping[int, Sequence[Received]]:
        """Records that are there, by partition; the first is waited for.

        Raises:
            KafkaException: reading failed, for good.
        """
        if self._failed is not None:
            failed, self._failed = self._failed, None
            raise failed
        deadline = time.monotonic() + seconds
        consumer = self.consumer
        while True:
            found = self._sorted(consumer.consume(most, 0))
            if found or self._failed is not None:
                break
            left = deadline - time.monotonic()
            if left <= 0:
                break
            message = consumer.poll(left)
            if message is None:
                break
            messages = [message]
            if most > 1:
                messages += consumer.consume(most - 1, 0)
            found = self._sorted(messages)
            if found or self._failed is not None:
                break
        if not found and self._failed is not None:
            failed, self._failed = self._failed, None
            raise failed
        return found

    def _sorted(self, messages: Sequence[Any]) -> dict[int, list[Received]]:
        found: dict[int, list[Received]] = {}
        for message in messages:
            number = message.partition()
            if message.error() is not None:
                self._note(message)
                continue
            kind, timestamp = message.timestamp()
            record = _Read(
                message.offset(), timestamp if kind else -1, kind - 1, message.key(), message.value(), _headers(message)
            )
            if number in found:
                found[number].append(record)
            else:
                found[number] = [record]
        for number, records in found.items():
            self.next[number] = max(self.next.get(number, 0), records[-1].offset + 1)
        return found

    def _note(self, message: Any) -> None:
        error = message.error()
        if error.code() == KafkaError._PARTITION_EOF:
            number = message.partition()
            self.next[number] = max(self.next.get(number, 0), message.offset())
            return
        failed = KafkaException(error)
        kind = failure_of(failed).kind
        if kind is Kind.LOST:
            failed = OffsetLost(error, message.partition(), self.next.get(message.partition(), message.offset()))
        elif kind is Kind.FORBIDDEN and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return
        elif kind not in _SERIOUS and kind is not Kind.FORBIDDEN:
            return  # it tries again
        self._failed = failed

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.consumer.close()


class ConfluentConsumer:
    """See :class:`mgw.links.kafka.client.Consumer`."""

    def __init__(self, settings: Settings, use: JobUse) -> None:
        self._settings = settings
        self._use = use
        self._topic = use.endpoint.provider_queue
        self._timeout = settings.timeout
        self._reading = _Reading(_instance(settings, use))
        self._looked = False  # for records, in vain, since the ends were asked for
        self._behind: tuple[float, dict[int, int]] | None = None  # since when the records after these were not read
        self._age = settings.common["metadata_max_age_ms"] / 1000
        self._known: set[int] | None = set()
        self._topic_id = ""
        self._admin: Admin | None = None
        self._asked: Any = None
        self._asked_at = time.monotonic()

    def ranges(self, numbers: Sequence[int]) -> Mapping[int, tuple[int, int]]:
        """See :meth:`mgw.links.kafka.client.Consumer.ranges`."""
        self._known = set(numbers)
        if self._admin is None:
            self._admin = Admin(self._settings, "connect")
        places = [Place(self._topic, number) for number in numbers]
        first = self._admin.offsets(places, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED)
        end = self._admin.offsets(places, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
        return {place.partition: (first[place], end[place]) for place in places}

    def ends(self, numbers: Sequence[int]) -> Mapping[int, int]:
        """See :meth:`mgw.links.kafka.client.Consumer.ends`."""
        if self._admin is None:
            self._admin = Admin(self._settings, "read")
        # Over a connection of its own: a server answers there at once, here only when the fetch before is answered.
        asked = self._admin.client.list_offsets(
            {TopicPartition(self._topic, number): OffsetSpec.latest() for number in numbers},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=self._timeout,
        )
        try:
            ends = {place.partition: int(future.result().offset) for place, future in asked.items()}
        except KafkaException as error:
            if failure_of(error).kind in _UNREACHED:
                self._admin = self._asked = None  # see Admin: it may ask nobody any more
                raise TimeoutError(failure_of(error).cause) from error
            raise
        if self._is_deaf(ends):
            offsets = dict(self._reading.next)
            self._reading.close()
            self._reading = _Reading(_instance(self._settings, self._use))
            self._reading.assign(self._topic, offsets)
        return ends

    def _is_deaf(self, ends: Mapping[int, int]) -> bool:
        """Whether records have been there for longer than an answer with them may take, and none was read.

        librdkafka gives up all servers where one lists none, as the only one of a cluster does for a moment after a
        pause. Mostly it begins again at the bootstrap servers. Else it has "no usable brokers" from then on, says so to
        nobody, and no setting helps.
        """
        if not self._looked:  # a job that waits for its destination reads nothing either
            return False
        self._looked = False
        now, offsets = time.monotonic(), self._reading.next
        if all(offsets.get(number, end) >= end for number, end in ends.items()):
            self._behind = None
        elif self._behind is None or self._behind[1] != offsets:
            self._behind = now, dict(offsets)
        elif now - self._behind[0] > self._timeout + _LONGEST / 1000:
            self._behind = None
            return True
        return False

    def start(self, offsets: Mapping[int, int]) -> None:
        """See :meth:`mgw.links.kafka.client.Consumer.start`."""
        self._known = set(offsets)
        self._reading.assign(self._topic, offsets)

    def poll(self, seconds: float, most: int) -> Mapping[int, Sequence[Received]]:
        """See :meth:`mgw.links.kafka.client.Consumer.poll`; nothing wakes the library, so it waits in short pieces."""
        found = self._reading.read(min(seconds, _PIECE), most)
        self._looked = not found
        return found

    def overdue(self) -> float | None:
        """See :meth:`mgw.links.kafka.client.Consumer.overdue`; the library does not tell."""
        return None

    def wake(self) -> None:
        """See :meth:`mgw.links.kafka.client.Consumer.wake`."""

    def position(self, number: int) -> int | None:
        """See :meth:`mgw.links.kafka.client.Consumer.position`."""
        return self._reading.next.get(number)

    def partitions(self) -> set[int] | None:
        """See :meth:`mgw.links.kafka.client.Consumer.partitions`; asks again from time to time, and looks later."""
        if self._asked is not None:
            if self._asked.done():
                asked, self._asked = self._asked, None
                self._learn(asked)
        elif time.monotonic() - self._asked_at >= self._age:
            self._asked_at = time.monotonic()
            if self._admin is None:
                self._admin = Admin(self._settings, "read")
            topics = TopicCollection([self._topic])
            self._asked = self._admin.client.describe_topics(topics, request_timeout=self._timeout)[self._topic]
        return self._known

    def _learn(self, asked: Any) -> None:
        self._asked_at = time.monotonic()
        error = asked.exception()
        if error is None:
            found = asked.result()
            self._known = {part.id for part in found.partitions}
            self._topic_id = topic_id_of(found)
        elif failure_of(error).kind is Kind.MISSING:
            self._known = None
        elif failure_of(error).kind in _UNREACHED:
            self._admin = None

    def topic_id(self) -> str:
        """See :meth:`mgw.links.kafka.client.Consumer.topic_id`."""
        return self._topic_id

    def close(self) -> None:
        """See :meth:`mgw.links.kafka.client.Consumer.close`."""
        self._reading.close()
        self._admin = self._asked = None


class ConfluentLogReader:
    """See :class:`mgw.links.kafka.client.LogReader`.

    Attributes:
        admin: for questions about the ends of partitions.
    """

    def __init__(self, settings: Settings, use: JobUse) -> None:
        self.admin = Admin(settings, "connect")
        self._settings = settings
        self._use = use
        self._reading = _Reading(_instance(settings, use, wait=_AT_ONCE))
        self._number = -1

    def end(self, place: Place, level: IsolationLevel) -> int:
        """The offset after the last record that such readers get."""
        return self._ask(place, OffsetSpec.latest(), level)

    def _ask(self, place: Place, spec: OffsetSpec, level: IsolationLevel) -> int:
        return self.admin.offsets([place], spec, level)[place]

    def range(self, place: Place) -> tuple[int, int]:
        """See :meth:`mgw.links.kafka.client.LogReader.range`."""
        level = IsolationLevel.READ_UNCOMMITTED
        end = self._ask(place, OffsetSpec.latest(), level)
        return self._ask(place, OffsetSpec.earliest(), level), end

    def open_records(self, place: Place, start: int, stop: int, seconds: float) -> Sequence[Received]:
        """Records between these offsets, also those of open transactions."""
        reading = _Reading(_instance(self._settings, self._use, "read_uncommitted", _AT_ONCE))
        found: list[Received] = []
        deadline = time.monotonic() + seconds
        try:
            reading.assign(place.topic, {place.partition: start})
            while reading.next[place.partition] < stop and time.monotonic() < deadline:
                found += reading.read(0.1, 500).get(place.partition, ())
        finally:
            reading.close()
        return found

    def start(self, place: Place, offset: int) -> None:
        """See :meth:`mgw.links.kafka.client.LogReader.start`."""
        self._number = place.partition
        self._reading.assign(place.topic, {place.partition: offset})

    def poll(self, seconds: float) -> Sequence[Received]:
        """See :meth:`mgw.links.kafka.client.LogReader.poll`."""
        return self._reading.read(seconds, 500).get(self._number, ())

    def position(self) -> int:
        """See :meth:`mgw.links.kafka.client.LogReader.position`."""
        return self._reading.next[self._number]

    def close(self) -> None:
        """See :meth:`mgw.links.kafka.client.LogReader.close`."""
        self._reading.close()
        self.admin.close()
