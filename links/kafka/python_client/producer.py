"""A producer of kafka-python, and batches under way in it.

It gives up no record by time; it buffers without limit, so its owner limits what is under way. Records are handed over
many at a time, see :mod:`mgw.links.kafka.python_client.accumulator`; for each one the client would ask the partitioner
and make a future.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final

from kafka import KafkaProducer, TopicPartition, errors
from kafka.record.default_records import DefaultRecordBatchBuilder

from mgw.links.contract import JobUse
from mgw.links.kafka.client import Asked, Flight, Sendable
from mgw.links.kafka.python_client.accumulator import Accumulator
from mgw.links.kafka.python_client.connection import build, close_producer
from mgw.links.kafka.python_client.errors import is_answer
from mgw.links.kafka.python_client.partitions import spread
from mgw.links.kafka.python_client.record_batch import record_content
from mgw.links.kafka.python_client.sent import Sent, coordinates
from mgw.links.kafka.settings import Settings
from mgw.links.kafka.target import BATCH_OVERHEAD
from mgw.links.placement import Placement, placed
from mgw.transforms.kafka import Record

__all__ = ["Producer", "PythonFlight", "producer_of", "telling"]

_NEVER: Final = 2**31 - 1  # milliseconds; the client's own time limit for a record, 24 days
_OVERHEAD: Final = BATCH_OVERHEAD + DefaultRecordBatchBuilder.MAX_RECORD_OVERHEAD
_DETAIL = 0.5  # seconds within which the client hands out why each record of one batch failed


def producer_of(settings: Settings, use: JobUse, limit: int, **options: Any) -> Producer:
    """See :meth:`mgw.links.kafka.client.Client.producer`."""
    request = options.pop("max_request_size", limit + BATCH_OVERHEAD)
    return build(
        Producer,
        settings,
        "connect",
        **{**settings.producer, "batch_size": min(settings.producer["batch_size"], limit)},
        client_id=settings.client_id(use.job),
        acks="all",
        enable_idempotence=True,
        max_request_size=request,
        max_block_ms=settings.common["request_timeout_ms"],
        delivery_timeout_ms=_NEVER,
        allow_auto_create_topics=False,
        metrics_enabled=False,
        **options,
    )


class PythonFlight:
    """See :class:`mgw.links.kafka.client.Flight`."""

    __slots__ = ("_coordinates", "_done", "broken", "count", "futures", "looked", "sequence", "size", "watched")

    def __init__(self, sequence: int, count: int, size: int) -> None:
        self.sequence = sequence
        self.count = count
        self.size = size
        self.futures: list[Sent] = []
        self.looked = 0  # records of those futures that have succeeded
        self._done = 0  # futures before this one
        self._coordinates: tuple[list[str], list[int]] | None = None
        self.broken: BaseException | None = None  # why the client did not take the rest
        self.watched: Any = None  # future that signals its outcome

    def look(self) -> None:
        """See :meth:`mgw.links.kafka.client.Flight.look`."""
        if self.broken is not None:
            raise telling(self.futures, self.broken)
        for future in islice(self.futures, self._done, None):
            if not future.is_done:
                break
            if future.exception is not None:
                raise telling(self.futures, future.exception)
            self._done += 1
            self.looked += future.count

    @property
    def undecided(self) -> Sent | None:
        """The first whose outcome was not looked at yet."""
        return self.futures[self._done] if self._done < len(self.futures) else None

    def refusal(self) -> BaseException | None:
        """See :meth:`mgw.links.kafka.client.Flight.refusal`."""
        return _answered(self.futures)

    def stored(self, seconds: float) -> Sequence[int]:
        """See :meth:`mgw.links.kafka.client.Flight.stored`."""
        deadline = time.monotonic() + seconds
        for future in self.futures:
            while not future.is_done and time.monotonic() < deadline:
                time.sleep(0.005)
        return [index for future in self.futures for index in future.stored()]

    def placement(self, start: int, stop: int) -> Placement | None:
        """See :meth:`mgw.links.kafka.client.Flight.placement`."""
        if start == stop:
            return None
        if len(self.futures) == 1 and len(self.futures[0].runs) == 1 and stop - start == self.futures[0].count:
            (run,), (topic, partition) = self.futures[0].runs, self.futures[0].topic_partition  # as most are
            return Placement([f"{topic}/{partition}@"], [[run.offset, stop - start]])
        if self._coordinates is None:
            self._coordinates = coordinates(self.futures, sum(future.count for future in self.futures))
        beginnings = self._coordinates[0][start:stop]
        return placed(beginnings, self._coordinates[1][start:stop], {each: each for each in set(beginnings)})


class Producer(KafkaProducer):  # type: ignore[misc]
    """See :class:`mgw.links.kafka.client.Producer`."""

    def __init__(self, **configs: Any) -> None:
        super().__init__(**configs)
        self._accumulator.__class__ = Accumulator
        self._progress = threading.Event()

    def known(self, topic: str) -> None:
        """See :meth:`mgw.links.kafka.client.Producer.known`."""
        self.partitions_for(topic)

    def partitions(self, topic: str) -> set[int] | None:
        """See :meth:`mgw.links.kafka.client.Producer.partitions`."""
        return self._metadata.partitions_for_topic(topic)  # type: ignore[no-any-return]

    def send_all(self, topic: str, records: Sequence[Record], sent: list[Sent], first: int = 0) -> None:
        """Publish records, all of them or, where it fails on the way, some; ``sent`` gets what becomes of them.

        They are published as number ``first`` and so on. Records of a partition stay in order, in this call and behind
        those of earlier calls.

        Raises:
            KafkaError: the topic is not known, a record is too large, the transaction or the producer has failed.
            ValueError: a record names a partition that the topic does not have.
        """
        if not records:
            return
        if self._closed:
            raise errors.IllegalStateError("KafkaProducer already closed!")
        if self._metadata.partitions_for_topic(topic) is None:
            self._wait_on_metadata(topic, self.config["max_block_ms"])
        limit = self.config["max_request_size"] - _OVERHEAD
        now = int(time.time() * 1000)
        written: list[tuple[int, bytes]] = []
        for value, key, headers, _, timestamp in records:
            content = record_content(value, key, headers)
            if len(content) > limit:
                self._ensure_valid_record_size(len(content) + _OVERHEAD)
            written.append((now if timestamp is None else timestamp, content))
        accumulator: Any = self._accumulator
        transactional = self._transaction_manager and self._transaction_manager.is_transactional()
        look = False
        accumulator._appends_in_progress.increment()
        try:
            for partition, places in spread(records, topic, self._metadata).items():
                place = TopicPartition(topic, partition)
                if transactional:
                    self._transaction_manager.maybe_add_partition_to_transaction(place)
                own = written if len(places) == len(written) else [written[index] for index in places]
                numbers = places if not first else [first + index for index in places]
                look |= accumulator.append_all(place, own, numbers, sent)
        finally:
            accumulator._appends_in_progress.decrement()
            if look:
                self._sender.wakeup()

    def hand_over(self, flight: PythonFlight, topic: str, messages: Iterable[Sendable], first: int = 0) -> int:
        """Add records to a flight, as number ``first`` and so on; returns how many."""
        records = [record for record, _ in messages]
        self.send_all(topic, records, flight.futures, first)
        return len(records)

    def publish(self, topic: str, sequence: int, messages: Sequence[Sendable], size: int) -> PythonFlight:
        """See :meth:`mgw.links.kafka.client.Producer.publish`."""
        flight = PythonFlight(sequence, len(messages), size)
        idle = not self._accumulator.has_incomplete
        try:
            self.hand_over(flight, topic, messages)
        except Exception as error:  # some may arrive
            flight.broken = error
        if idle:
            self._send_now()
        return flight

    def _send_now(self) -> None:
        """Send what waits for more records: where nothing is under way, few are to come, and these would wait in vain.

        What comes while it is under way is collected as KAFKA_Linger_ms says.
        """
        accumulator = self._accumulator
        for place, batches in list(accumulator._batches.items()):
            with accumulator._tp_lock(place):
                for batch in batches:
                    if not batch.attempts:
                        batch.last_attempt = -math.inf  # even a machine that has just started has waited for long
        self._sender.wakeup()

    def wait(self, seconds: float, flight: Flight | None) -> None:
        """See :meth:`mgw.links.kafka.client.Producer.wait`."""
        future = flight.undecided if isinstance(flight, PythonFlight) else None
        if isinstance(flight, PythonFlight) and future is not None:
            if flight.watched is not future:
                flight.watched = future
                future.add_both(self._signal)
            elif future.is_done:
                return
        self._progress.wait(seconds)
        self._progress.clear()

    def _signal(self, _: object) -> None:
        self._progress.set()

    def wake(self) -> None:
        """See :meth:`mgw.links.kafka.client.Producer.wake`."""
        self._progress.set()

    def ask(self, topic: str) -> Asked:  # noqa: ARG002
        """See :meth:`mgw.links.kafka.client.Producer.ask`."""
        return self._metadata.request_update()  # type: ignore[no-any-return]

    def throttled(self) -> bool:
        """See :meth:`mgw.links.kafka.client.Producer.throttled`."""
        now = time.monotonic()
        return any(connection._throttle_time > now for connection in list(self._metadata._manager._conns.values()))

    def heard(self) -> float | None:
        """See :meth:`mgw.links.kafka.client.Producer.heard`."""
        if not any(connection.connected for connection in list(self._metadata._manager._conns.values())):
            return None
        return time.monotonic() - self._metadata._last_successful_refresh_ms / 1000  # type: ignore[no-any-return]

    def close(self, timeout: float | None = None, null_logger: bool = False) -> None:  # noqa: ARG002
        """Without a timeout as in :meth:`mgw.links.kafka.client.Producer.close`, else as in the client.

        ``null_logger`` is ignored: it silences the log of the client's module for the whole process.
        """
        if timeout is None:
            close_producer(self)
        else:
            super().close(timeout=timeout, null_logger=False)


def _answered(futures: Sequence[Any]) -> BaseException | None:
    for future in futures:
        if future.is_done and is_answer(future.exception):
            return future.exception  # type: ignore[no-any-return]
    return None


def telling(futures: Sequence[Any], error: BaseException) -> BaseException:
    """Why records failed, of which the client says ``error``: what a server answered, if there is such an answer.

    Records that were refused only for the company they were in, or not sent because of others, get errors that say
    nothing more. The client hands them out one after the other.
    """
    deadline = time.monotonic() + _DETAIL
    while (found := _answered(futures)) is None and type(error) is errors.KafkaError and time.monotonic() < deadline:
        time.sleep(0.001)
    return error if found is None else found
