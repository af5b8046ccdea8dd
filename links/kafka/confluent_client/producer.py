"""A producer of librdkafka, and batches under way in it.

librdkafka takes a record, hands it over to a thread of its own and reports each outcome in a call of ``poll``. The
thread that drives the destination polls, so no other thread of Python wakes up for a record.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Producer as Instance

from mgw.links.contract import JobUse
from mgw.links.kafka.client import Asked, Flight, Sendable
from mgw.links.kafka.confluent_client.connection import Watch, configuration
from mgw.links.kafka.confluent_client.errors import is_answer
from mgw.links.kafka.errors import translate
from mgw.links.kafka.settings import Settings
from mgw.links.kafka.target import BATCH_OVERHEAD
from mgw.links.placement import Placement, placed

__all__ = ["ConfluentFlight", "ConfluentProducer", "instance_of"]

_SHORT: Final = 0.005  # seconds; a wait for an outcome looks so often whether it was interrupted, soon more seldom
_LONG: Final = 0.05
_ASK: Final = 0.25  # seconds that a question may hold up the destination
_MIN_REQUEST: Final = 1000  # bytes; librdkafka takes no smaller message.max.bytes


def instance_of(settings: Settings, use: JobUse, request: int, **options: Any) -> Instance:
    """A producer of librdkafka that gives no record up by itself.

    Raises:
        LinkError: the settings do not fit together.
    """
    producer = settings.producer
    size = max(_MIN_REQUEST, request)
    try:
        return Instance(
            configuration(
                settings,
                Watch(),
                settings.client_id(use.job),
                acks="all",
                enable_idempotence=True,
                message_max_bytes=size,
                batch_size=min(producer["batch_size"], size),
                linger_ms=producer["linger_ms"],
                compression_type=producer["compression_type"] or "none",
                request_timeout_ms=settings.common["request_timeout_ms"],
                partitioner="murmur2_random",  # as Kafka's own clients place a key
                **options,
            )
        )
    except Exception as error:
        raise translate(error, settings, "connect", "the cluster") from error


class ConfluentFlight:
    """See :class:`mgw.links.kafka.client.Flight`."""

    __slots__ = (
        "_by_index",
        "_located",
        "_producer",
        "_topic",
        "broken",
        "count",
        "failed",
        "looked",
        "ok",
        "places",
        "sequence",
        "size",
    )

    def __init__(
        self, producer: Instance, topic: str, *, located: bool, sequence: int = 0, count: int = 0, size: int = 0
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._located = located
        self.sequence = sequence
        self.count = count
        self.size = size
        self.looked = 0  # stored
        self.ok: list[int] = []  # indices of what is stored, in the order of the outcomes
        self.places: list[tuple[int, int]] = []  # partition and offset of these, where they are asked for
        self.failed: list[KafkaException] = []
        self._by_index: dict[int, tuple[int, int]] = {}
        self.broken: BaseException | None = None  # why the client did not take the rest

    def outcome(self, index: int, error: KafkaError | None, message: Any) -> None:
        """What librdkafka calls in ``poll`` for each record."""
        if error is None:
            self.ok.append(index)
            if self._located:
                self.places.append((message.partition(), message.offset()))
        else:
            self.failed.append(KafkaException(error))

    def hand_over(self, messages: Iterable[Sendable]) -> int:
        """Give records to librdkafka; how many they were."""
        produce, topic, outcome = self._producer.produce, self._topic, self.outcome
        index = -1
        for index, ((value, key, headers, partition, timestamp), _) in enumerate(messages):
            produce(
                topic,
                value,
                key,
                -1 if partition is None else partition,
                partial(outcome, index),
                None,
                0 if timestamp is None else timestamp or 1,  # it takes 0 for now
                headers,
            )
        return index + 1

    def look(self) -> None:
        """See :meth:`mgw.links.kafka.client.Flight.look`."""
        self._producer.poll(0)
        self.looked = len(self.ok)
        if self.broken is not None or self.failed:
            raise self.refusal() or self.broken or self.failed[0]

    def refusal(self) -> BaseException | None:
        """See :meth:`mgw.links.kafka.client.Flight.refusal`."""
        return next((error for error in self.failed if is_answer(error)), None)

    @property
    def settled(self) -> int:
        """Records whose outcome is known."""
        return len(self.ok) + len(self.failed)

    def stored(self, seconds: float) -> Sequence[int]:
        """See :meth:`mgw.links.kafka.client.Flight.stored`."""
        deadline = time.monotonic() + seconds
        while self.settled < self.count and (left := deadline - time.monotonic()) > 0:
            self._producer.poll(min(left, _LONG))
        return sorted(self.ok)

    def placement(self, start: int, stop: int) -> Placement | None:
        """See :meth:`mgw.links.kafka.client.Flight.placement`."""
        if start == stop or not self.places:
            return None
        if not self._by_index:
            self._by_index = dict(zip(self.ok, self.places, strict=True))
        found = [self._by_index[index] for index in range(start, stop)]
        names = {partition: f"{self._topic}/{partition}@" for partition in {each[0] for each in found}}
        return placed([each[0] for each in found], [each[1] for each in found], names)


class _Answered:
    """See :class:`mgw.links.kafka.client.Asked`; it was waited for."""

    is_done = True

    def __init__(self, success: bool) -> None:
        self._success = success

    def succeeded(self) -> bool:
        return self._success


class Known:
    """What a producer knows of the partitions of a topic, asked for again when it is old."""

    def __init__(self, settings: Settings, producer: Instance) -> None:
        self._producer = producer
        self._age = settings.common["metadata_max_age_ms"] / 1000
        self._timeout = settings.timeout
        self._known: set[int] | None = None
        self._asked_at = 0.0

    def ask(self, topic: str, seconds: float | None = None) -> None:
        """Ask the cluster.

        Raises:
            KafkaException: no answer.
        """
        found = self._producer.list_topics(topic, timeout=self._timeout if seconds is None else seconds).topics[topic]
        self._asked_at = time.monotonic()
        gone = found.error is not None and not found.partitions
        self._known = None if gone else set(found.partitions)

    def partitions(self, topic: str) -> set[int] | None:
        """See :meth:`mgw.links.kafka.client.Producer.partitions`."""
        if time.monotonic() - self._asked_at >= self._age:
            with contextlib.suppress(KafkaException):
                self.ask(topic, _ASK)
        return self._known

    def answer(self, topic: str) -> Asked:
        """See :meth:`mgw.links.kafka.client.Producer.ask`."""
        try:
            self.ask(topic, _ASK)
        except KafkaException:
            return _Answered(success=False)
        return _Answered(success=True)


class ConfluentProducer:
    """See :class:`mgw.links.kafka.client.Producer`."""

    def __init__(self, settings: Settings, use: JobUse, limit: int) -> None:
        # Without a limit by time: a record that is given up would be overtaken by those after it.
        self._producer = instance_of(settings, use, limit + BATCH_OVERHEAD, message_timeout_ms=0)
        self._located = use.located
        self._known = Known(settings, self._producer)
        self._woken = threading.Event()

    def known(self, topic: str) -> None:
        """See :meth:`mgw.links.kafka.client.Producer.known`."""
        self._known.ask(topic)

    def partitions(self, topic: str) -> set[int] | None:
        """See :meth:`mgw.links.kafka.client.Producer.partitions`."""
        return self._known.partitions(topic)

    def publish(self, topic: str, sequence: int, messages: Sequence[Sendable], size: int) -> ConfluentFlight:
        """See :meth:`mgw.links.kafka.client.Producer.publish`."""
        flight = ConfluentFlight(
            self._producer, topic, located=self._located, sequence=sequence, count=len(messages), size=size
        )
        try:
            flight.hand_over(messages)
        except Exception as error:  # some may arrive
            flight.broken = error
        return flight

    def wait(self, seconds: float, flight: Flight | None) -> None:
        """See :meth:`mgw.links.kafka.client.Producer.wait`."""
        woken = self._woken
        if isinstance(flight, ConfluentFlight):
            poll, before, pause = self._producer.poll, flight.settled, _SHORT
            deadline = time.monotonic() + seconds
            while not woken.is_set() and flight.settled == before and flight.broken is None:
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                poll(min(left, pause))
                pause = min(2 * pause, _LONG)
        else:
            woken.wait(seconds)
        woken.clear()

    def wake(self) -> None:
        """See :meth:`mgw.links.kafka.client.Producer.wake`."""
        self._woken.set()

    def ask(self, topic: str) -> Asked:
        """See :meth:`mgw.links.kafka.client.Producer.ask`."""
        return self._known.answer(topic)

    def throttled(self) -> bool:
        """See :meth:`mgw.links.kafka.client.Producer.throttled`; the library holds requests back without a word."""
        return False

    def heard(self) -> float | None:
        """See :meth:`mgw.links.kafka.client.Producer.heard`; the library does not tell."""
        return None

    def close(self) -> None:
        """See :meth:`mgw.links.kafka.client.Producer.close`."""
        with contextlib.suppress(Exception):
            self._producer.purge(blocking=False)
            self._producer.poll(0)
