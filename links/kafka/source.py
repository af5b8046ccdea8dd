"""Kafka topic as a source: partitions assigned by hand, positions kept by the hub.

No consumer group: the hub stores the next offset of every partition in the transaction that stores the messages, and
the source starts there. The position names cluster and topic by their ids, so that a topic that was deleted and created
again under its name is noticed: its offsets mean other messages. Offsets have gaps (aborted transactions, control
records, compaction), which is normal. A job that has no positions yet begins at the end of the log (queue option
KAFKA_StartAt: latest) or at its beginning (earliest); the first batch is empty and fixes that. Partitions added later
are read from 0.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from mgw.links.contract import EMPTY_BATCH, RESUME, Backlog, Batch, Delivery, Direction, JobUse, Position
from mgw.links.kafka.client import Consumer, Topic
from mgw.links.kafka.connection import describe
from mgw.links.kafka.errors import translate
from mgw.links.kafka.gaps import ADDED_LATER, gaps_of, lost, position_text, stored_offsets
from mgw.links.kafka.settings import Settings
from mgw.transforms.errors import LinkError, LinkUnavailable
from mgw.transforms.kafka import Received, Rules, from_record, origin_headers
from mgw.transforms.message import Header

__all__ = ["KafkaSource"]

_SLICE = 5.0  # seconds between two looks at the topic
_FIRST_WAIT = 1.0  # seconds; the start of a new job must not stay unstored for long
_PROBE = 5.0  # seconds without a record after which the cluster is asked whether it is still there

#: Seconds without a record after which a request under way shows that there is none: twice what a server that just gave
#: records may wait.
_QUIET = 2.0


class KafkaSource:
    """See :class:`mgw.links.contract.Source`."""

    def __init__(self, settings: Settings, use: JobUse, rules: Rules, *, from_start: bool) -> None:
        self._settings = settings
        self._use = use
        self._rules = rules
        self._from_start = from_start
        self._name = use.endpoint.provider_queue
        self._wake = threading.Event()
        self._consumer: Consumer | None = None
        self._topic: Topic | None = None
        self._begun_in = ""  # topic id
        self._begun: dict[int, int] = {}  # partition -> offset where this source began, if it was new
        self._forget_progress()

    def _forget_progress(self) -> None:
        self._next: dict[int, int] = {}  # partition -> offset to be read next
        self._stored: dict[int, str | None] = {}  # partition -> position as last handed out
        self._origins: dict[int, tuple[Header, Header]] = {}
        self._initial: tuple[Position, ...] = ()
        self._probe_at = 0.0
        self._came_at = 0.0  # the last record, or the beginning

    def connect(self, positions: Mapping[str, str]) -> None:
        """See :meth:`mgw.links.contract.Source.connect`.

        Raises:
            PositionLost: stored offsets are not in the log any more, or the topic was created again; with all gaps.
            QueueMissing, LinkRefused, LinkUnavailable, LinkTimeout.
        """
        self._forget_progress()
        topic = describe(self._settings, self._name, "connect", Direction.INBOUND)
        consumer = self._settings.client.consumer(self._settings, self._use)
        self._consumer, self._topic = consumer, topic
        try:
            self._start(consumer, topic, positions)
        except LinkError:
            raise
        except Exception as error:
            raise self._error(error, "connect") from error

    def _start(self, consumer: Consumer, topic: Topic, positions: Mapping[str, str]) -> None:
        ranges = consumer.ranges(topic.partitions)
        resumed = RESUME in positions
        stored = stored_offsets(positions, topic)
        anew = set(topic.partitions) - set(stored) if resumed or not stored else set()
        later = {number: ADDED_LATER for number in topic.partitions if number not in stored and number not in anew}
        if found := gaps_of(topic, stored | later, ranges):
            raise lost(self._settings, topic, self._use.job, found)
        for number in topic.partitions:
            first, last = ranges[number]
            self._stored[number] = positions.get(str(number))
            if number in anew:
                offset = self._begin(topic, number, first if self._from_start or resumed else last)
                self._initial += (Position(str(number), None, self._text(offset)),)
            else:
                offset = stored.get(number, ADDED_LATER).offset or 0
            self._next[number] = offset
        consumer.start(self._next)
        self._came_at = self._use.clock.monotonic()
        self._probe_at = self._came_at + _PROBE

    def read(self, max_messages: int, wait: float) -> Batch:
        """See :meth:`mgw.links.contract.Source.read`."""
        consumer = self._connected("read")
        monotonic = self._use.clock.monotonic
        deadline = monotonic() + (min(wait, _FIRST_WAIT) if self._initial else wait)
        try:
            while True:
                left = deadline - monotonic()
                polled = consumer.poll(max(0.0, min(left, _SLICE)), max_messages)
                # First the batch: a partition that is added seeks all of them to where this source has come.
                batch = self._batch(polled) if polled else None
                self._check_topic(consumer)
                if batch is not None:
                    return batch
                self._probe(consumer)
                if left <= 0 or self._wake.is_set():
                    return self._skipped(consumer)
        except LinkError:
            raise
        except Exception as error:
            raise self._error(error, "read") from error
        finally:
            self._wake.clear()

    def _batch(self, polled: Mapping[int, Sequence[Received]]) -> Batch:
        now = self._use.clock.now()
        self._came_at = self._use.clock.monotonic()
        self._probe_at = self._came_at + _PROBE
        deliveries: list[Delivery] = []
        positions: list[Position] = []
        rules, new = self._rules, tuple.__new__  # faster than to call the class of a named tuple
        for number, records in polled.items():
            origin = self._origins.get(number)
            if origin is None:
                origin = self._origins[number] = origin_headers(self._name, number)
            where = f"{self._name}/{number}@"
            for record in records:
                message, failure = from_record(record, origin, rules, now)
                deliveries.append(new(Delivery, (message, failure, False, f"{where}{record.offset}", False)))
            positions.append(self._advance(number, records[-1].offset + 1))
        return Batch(deliveries, self._with_start(positions))

    def _with_start(self, positions: list[Position]) -> tuple[Position, ...]:
        """Add where a new job starts in the partitions that gave nothing yet."""
        if self._initial:
            moved = {position.partition for position in positions}
            for position in self._initial:
                if position.partition not in moved:
                    positions.append(position)
                    self._stored[int(position.partition)] = position.after
            self._initial = ()
        return tuple(positions)

    def _skipped(self, consumer: Consumer) -> Batch:
        """Positions of partitions where only records were passed that nobody gets (aborted, control)."""
        moved: list[tuple[int, int]] = []
        for number, offset in self._next.items():
            position = consumer.position(number)
            if position is not None and position > offset:
                moved.append((number, position))
        if not moved and not self._initial:
            return EMPTY_BATCH
        return Batch((), self._with_start([self._advance(*step) for step in moved]))

    def _begin(self, topic: Topic, number: int, offset: int) -> int:
        """Where a new job begins: the same place as before the first reconnect, if the hub did not store it yet."""
        if self._begun_in != topic.topic_id:
            self._begun_in, self._begun = topic.topic_id, {}
        return self._begun.setdefault(number, offset)

    def _advance(self, number: int, offset: int) -> Position:
        after = self._text(offset)
        before = self._stored.get(number)
        self._next[number] = offset
        self._stored[number] = after
        return Position(str(number), before, after)

    def _text(self, offset: int) -> str:
        topic = self._topic
        assert topic is not None  # noqa: S101 - set by connect, before anything is read
        return position_text(topic, offset)

    def settle(self, batch: Batch) -> None:
        """Nothing to do: the position that the hub stored is the acknowledgement."""

    def backlog(self) -> Backlog | None:
        """Records between our position and the end of the committed log; an upper bound, as offsets have gaps."""
        consumer = self._connected("read")
        # A request that was sent just now tells nothing yet: behind what came there may be more.
        if self._use.clock.monotonic() - self._came_at >= _QUIET and self._reads_on(consumer):
            return Backlog(0)
        ends = self._ends(consumer)
        waiting = sum(max(0, end - self._next.get(number, 0)) for number, end in ends.items())
        return Backlog(waiting)

    def interrupt(self) -> None:
        """See :meth:`mgw.links.contract.Source.interrupt`; works within a tenth of a second, or at an answer."""
        self._wake.set()
        consumer = self._consumer
        if consumer is not None:
            consumer.wake()

    def close(self) -> None:
        """See :meth:`mgw.links.contract.Source.close`."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()
        self._forget_progress()

    def _connected(self, operation: str) -> Consumer:
        if self._consumer is None:
            raise LinkUnavailable(
                f"link {self._settings.link}: topic {self._name} is not connected",
                link=self._settings.link,
                operation=operation,
                cause="connect was not called, or failed",
                cure="connect first",
            )
        return self._consumer

    def _probe(self, consumer: Consumer) -> None:
        """The client retries forever without reporting it, so a silent cluster is asked for a sign of life."""
        if self._use.clock.monotonic() < self._probe_at:
            return
        if self._reads_on(consumer):
            self._probe_at = self._use.clock.monotonic() + _PROBE
        else:
            self._ends(consumer)

    def _reads_on(self, consumer: Consumer) -> bool:
        """Whether servers are asked for records and wait for some, as their last answers show: so nothing is there.

        Raises:
            LinkUnavailable: they do not answer any more.
        """
        overdue = consumer.overdue()
        if overdue is None:
            return False
        if overdue > self._settings.timeout:
            raise self._unanswered(f"the answer to a request for records is {overdue:.0f} s overdue")
        return True

    def _unanswered(self, cause: str) -> LinkUnavailable:
        return LinkUnavailable(
            f"link {self._settings.link}: the servers of topic {self._name} do not answer",
            link=self._settings.link,
            operation="read",
            cause=cause,
            cure="check that the cluster is up and that all its servers can be reached from here",
        )

    def _ends(self, consumer: Consumer) -> Mapping[int, int]:
        try:
            ends = consumer.ends(tuple(self._next))
        except TimeoutError as error:
            self._check_topic(consumer)
            raise self._unanswered(str(error)) from error
        except Exception as error:
            raise self._error(error, "read") from error
        self._probe_at = self._use.clock.monotonic() + _PROBE
        return ends

    def _check_topic(self, consumer: Consumer) -> None:
        """Compare what the client knows of the topic by now with what we started from; costs no request.

        Raises:
            QueueMissing: it was deleted.
            LinkError: it was deleted and created again; the next connect tells what is missing.
        """
        topic, numbers = self._topic, consumer.partitions()
        if topic is None or numbers is None:  # deleted, or without a leader for the moment
            describe(self._settings, self._name, "read", Direction.INBOUND)
            return
        known = consumer.topic_id()
        if topic.topic_id and known and known != topic.topic_id:
            raise self._look_again(f"the topic was deleted and created again (id {known})")
        if len(numbers) > len(self._next):
            self._add_partitions(consumer, sorted(numbers - set(self._next)))

    def _add_partitions(self, consumer: Consumer, numbers: list[int]) -> None:
        for number in numbers:
            self._next[number] = 0
            self._stored.setdefault(number, None)
        consumer.start(self._next)

    def _look_again(self, cause: str) -> LinkError:
        """Something is missing. What was read may not be stored yet, so only what the hub has when the job connects
        again tells which range that is."""
        return LinkError(
            f"link {self._settings.link}: topic {self._name} lacks messages that are to be read next",
            link=self._settings.link,
            operation="read",
            cause=cause,
            cure="the job connects again, and says then which messages are missing",
        )

    def _error(self, error: BaseException, operation: str) -> LinkError:
        place = self._settings.client.failure(error).lost
        if place is not None:
            return self._look_again(f"partition {place[0]} no longer holds offset {place[1]}")
        return translate(error, self._settings, operation, f"topic {self._name}")
