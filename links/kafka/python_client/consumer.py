"""Consumers of kafka-python: of a topic, and of the sending log."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition, errors
from kafka.protocol.consumer.offsets import OffsetSpec

from mgw.links.contract import JobUse
from mgw.links.kafka.client import Place
from mgw.links.kafka.python_client import records
from mgw.links.kafka.python_client.connection import build, consumer_of, quietly
from mgw.links.kafka.settings import Settings
from mgw.transforms.kafka import Received

__all__ = ["PythonConsumer", "PythonLogReader"]

_NOTHING_ASKED = 0.1  # seconds between two looks while no request for records is under way
_LOG_MS = 500  # that a server may wait for records of a log, which is read to its end
_BUSY_MS = 1000  # that a server may wait for records where some came just now


class PythonConsumer:
    """See :class:`mgw.links.kafka.client.Consumer`."""

    def __init__(self, settings: Settings, use: JobUse) -> None:
        self._topic = use.endpoint.provider_queue
        self._timeout = settings.timeout * 1000
        self._longest = settings.consumer["fetch_max_wait_ms"]
        self._consumer: KafkaConsumer = consumer_of(settings, use, wait=self._longest)
        self._event = threading.Event()  # something came, or we were woken
        self._woken = False
        self._watched: Any = None  # the last request whose answer sets it
        records.install(self._consumer)
        self._answered: float = self._consumer._fetcher.answered
        self._let_wait(_BUSY_MS)

    def _let_wait(self, milliseconds: int) -> None:
        """How long a server may wait for records from the next request on.

        Where several servers have the partitions, a second at most: one that waits answers nothing else, and a question
        to all of them must not keep what the others have from being read.
        """
        cluster = self._consumer._cluster
        several = len({cluster.leader_for_partition(place) for place in self._consumer.assignment()}) > 1
        self._consumer._fetcher.config["fetch_max_wait_ms"] = min(
            milliseconds, self._longest, _BUSY_MS if several else self._longest
        )

    def _places(self, numbers: Sequence[int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic, number) for number in numbers]

    def ranges(self, numbers: Sequence[int]) -> Mapping[int, tuple[int, int]]:
        """See :meth:`mgw.links.kafka.client.Consumer.ranges`."""
        places = self._places(numbers)
        self._consumer.assign(places)
        first = self._consumer.beginning_offsets(places, timeout_ms=self._timeout)
        last = self._consumer.end_offsets(places, timeout_ms=self._timeout)
        return {place.partition: (first[place], last[place]) for place in places}

    def ends(self, numbers: Sequence[int]) -> Mapping[int, int]:
        """See :meth:`mgw.links.kafka.client.Consumer.ends`."""
        try:
            # A server that waits for records answers only then.
            ends = self._consumer.end_offsets(self._places(numbers), timeout_ms=self._timeout + self._longest)
        except errors.KafkaTimeoutError as error:
            raise TimeoutError(str(error)) from error
        return {place.partition: end for place, end in ends.items()}

    def start(self, offsets: Mapping[int, int]) -> None:
        """See :meth:`mgw.links.kafka.client.Consumer.start`."""
        self._consumer.assign(self._places(tuple(offsets)))
        for number, offset in offsets.items():
            self._consumer.seek(TopicPartition(self._topic, number), offset)

    def poll(self, seconds: float, most: int) -> Mapping[int, Sequence[Received]]:
        """See :meth:`mgw.links.kafka.client.Consumer.poll`.

        The client's own poll cannot be woken, and asks its other thread several times whatever there is. So what is
        waited for are the answers to the requests for records that are under way, and nothing else is done until one
        comes. A server that has nothing may wait twice as long the next time: that is nearly all that an idle topic
        costs. One with records may not, as it looks at one request of ours at a time, also for other partitions.
        """
        self._event.clear()
        fetcher = self._consumer._fetcher
        polled: Mapping[TopicPartition, Sequence[Received]] = {}
        if not self._all_asked():
            polled = self._polled(0.0, most)
        if not polled and seconds > 0 and not self._woken:
            asked = list(fetcher._fetch_futures)  # also what was answered just now: it wakes at once
            if asked:
                if self._watched is not asked[-1]:
                    self._watched = asked[-1]
                    for future in asked:
                        future.add_both(self._came)
                if not fetcher._completed_fetches:  # else the client has seen an answer, and forgotten its future
                    self._event.wait(seconds)
                seconds = 0.0
            if not self._all_asked():
                polled = self._polled(min(seconds, _NOTHING_ASKED), most)
        self._woken = False
        return {place.partition: found for place, found in polled.items()}

    def _polled(self, seconds: float, most: int) -> Mapping[TopicPartition, Sequence[Received]]:
        fetcher = self._consumer._fetcher
        if fetcher._completed_fetches or fetcher._next_partition_records:
            self._let_wait(_BUSY_MS)
        elif fetcher.answered != self._answered:  # and nothing came
            self._let_wait(2 * fetcher.config["fetch_max_wait_ms"])
        self._answered = fetcher.answered
        return self._consumer.poll(timeout_ms=seconds * 1000, max_records=most)  # type: ignore[no-any-return]

    def _all_asked(self) -> bool:
        """Whether a request is under way for every partition, and nothing that came waits to be handed out."""
        fetcher = self._consumer._fetcher
        if fetcher._completed_fetches or fetcher._next_partition_records:
            return False
        under_way = fetcher._nodes_with_pending_fetch_requests
        if not under_way or any(future.is_done for future in list(fetcher._fetch_futures)):
            return False
        return all(fetcher._select_read_replica(place) in under_way for place in self._consumer.assignment())

    def overdue(self) -> float | None:
        """See :meth:`mgw.links.kafka.client.Consumer.overdue`."""
        if not self._all_asked():
            return None
        due: float = min(self._consumer._fetcher.due.copy().values(), default=float("inf"))
        return max(0.0, time.monotonic() - due)

    def _came(self, _: object) -> None:
        self._event.set()

    def wake(self) -> None:
        """See :meth:`mgw.links.kafka.client.Consumer.wake`."""
        self._woken = True
        self._event.set()

    def position(self, number: int) -> int | None:
        """See :meth:`mgw.links.kafka.client.Consumer.position`."""
        return self._consumer.position(TopicPartition(self._topic, number), timeout_ms=0)  # type: ignore[no-any-return]

    def partitions(self) -> set[int] | None:
        """See :meth:`mgw.links.kafka.client.Consumer.partitions`."""
        return self._consumer._cluster.partitions_for_topic(self._topic)  # type: ignore[no-any-return]

    def topic_id(self) -> str:
        """See :meth:`mgw.links.kafka.client.Consumer.topic_id`."""
        return str(self._consumer._cluster.topic_id(self._topic) or "")

    def close(self) -> None:
        """See :meth:`mgw.links.kafka.client.Consumer.close`."""
        quietly(lambda: self._consumer.close(autocommit=False, timeout_ms=1000))


class PythonLogReader:
    """See :class:`mgw.links.kafka.client.LogReader`.

    Attributes:
        admin: the client's own, for questions about transactions.
    """

    def __init__(self, settings: Settings, use: JobUse) -> None:
        self.admin: Any = build(KafkaAdminClient, settings, "connect")
        try:
            self._consumer: KafkaConsumer = consumer_of(settings, use, wait=_LOG_MS)
        except BaseException:
            quietly(self.admin.close)
            raise
        records.install(self._consumer)
        self._place: TopicPartition | None = None

    def range(self, place: Place) -> tuple[int, int]:
        """See :meth:`mgw.links.kafka.client.LogReader.range`."""
        part = TopicPartition(*place)
        end = self.admin.list_partition_offsets({part: OffsetSpec.LATEST})[part].offset
        return self.admin.list_partition_offsets({part: OffsetSpec.EARLIEST})[part].offset, end

    def start(self, place: Place, offset: int) -> None:
        """See :meth:`mgw.links.kafka.client.LogReader.start`."""
        part = TopicPartition(*place)
        if part != self._place:
            self._consumer.assign([part])
            self._place = part
        self._consumer.seek(part, offset)

    def poll(self, seconds: float) -> Sequence[Received]:
        """See :meth:`mgw.links.kafka.client.LogReader.poll`."""
        found: Sequence[Received] = self._consumer.poll(timeout_ms=int(seconds * 1000)).get(self._place, ())
        return found

    def position(self) -> int:
        """See :meth:`mgw.links.kafka.client.LogReader.position`."""
        return self._consumer.position(self._place)  # type: ignore[no-any-return]

    def close(self) -> None:
        """See :meth:`mgw.links.kafka.client.LogReader.close`."""
        quietly(self._consumer.close)
        quietly(self.admin.close)
