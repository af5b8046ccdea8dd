"""Transactions of one job on librdkafka.

The library counts every record and aborts a transaction of which one failed, ends each call in the time it is given,
and goes on with a commit whose call has run out of time; so it needs none of the guards of the other client. What is
left is the servers': one answers a commit before it has marked the records. A transaction counts here when its record
in the log, whose partition nobody else writes to, is there for readers of what is committed.

The library cannot ask a server for the transactions and producers that it knows. What is open before the producer is
made was ended by :mod:`mgw.links.kafka.left_open`; what is found open in the log even after that is taken away, and
sent again.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Producer as Instance
from confluent_kafka.admin import OffsetSpec

from mgw.links.contract import JobUse
from mgw.links.kafka.client import Asked, Flight, LogReader, LogRecord, Place, Sendable, Topic
from mgw.links.kafka.confluent_client.connection import Admin
from mgw.links.kafka.confluent_client.consumer import ConfluentLogReader
from mgw.links.kafka.confluent_client.errors import code_of, is_answer
from mgw.links.kafka.confluent_client.producer import ConfluentFlight, Known, instance_of
from mgw.links.kafka.errors import translate
from mgw.links.kafka.settings import Settings
from mgw.links.kafka.transactional import MAY_ASK_FOR_ID, closed, silent, transaction_timeout, transactional_id
from mgw.transforms.errors import LinkError, LinkUnavailable
from mgw.transforms.kafka import Record

__all__ = ["ConfluentTransactions", "any_open", "open_transactions"]

_SLICE: Final = 0.25  # seconds; a wait looks so often whether it should end
_ABORT: Final = 2.0  # seconds an abort may take; the next producer of this job aborts, too
_PAUSE: Final = 0.05  # seconds at most between two looks whether a transaction can be read
_SILENCE: Final = 4.0  # seconds after which another instance asks (see Admin); a slow network may need some to connect
_PATIENCE: Final = 1.0  # seconds that partitions of others are waited for, where a foreign transaction may be open
_MARKERS: Final = 2.0  # seconds that the markers of a transaction which was ended may take to appear


def open_transactions(settings: Settings, use: JobUse, request: int) -> ConfluentTransactions:
    """See :meth:`mgw.links.kafka.client.Client.transactions`."""
    identity = transactional_id(settings, use)
    limit = transaction_timeout(settings)
    producer = instance_of(
        settings,
        use,
        request,
        transactional_id=identity,
        transaction_timeout_ms=limit,
        message_timeout_ms=limit,
        retry_backoff_ms=10,  # a server asks for patience while it ends the transaction before
    )
    deadline = time.monotonic() + settings.timeout
    while True:
        try:
            producer.init_transactions(max(_SLICE, deadline - time.monotonic()))
            break
        except Exception as error:
            found = code_of(error)
            if found is not None and found.retriable() and time.monotonic() < deadline:
                time.sleep(_PAUSE)
                continue
            failed = translate(error, settings, "connect", f"the transactional id {identity}")
            if found is not None and found.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                failed.cure = MAY_ASK_FOR_ID
            raise failed from error
    return ConfluentTransactions(producer, settings, use, identity)


def any_open(admin: Admin, topics: Iterable[Topic]) -> bool:
    """Whether a partition of these topics has records that readers of what is committed do not get yet."""
    places = [Place(topic.name, number) for topic in topics for number in topic.partitions]
    stable, last = (
        admin.offsets(places, OffsetSpec.latest(), level)
        for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
    )
    return any(stable[place] < last[place] for place in places)


class ConfluentTransactions:
    """See :class:`mgw.links.kafka.client.Transactions`."""

    def __init__(self, producer: Instance, settings: Settings, use: JobUse, identity: str) -> None:
        self.producer = producer
        self._settings = settings
        self._clock = use.clock
        self._identity = identity
        self._known = Known(settings, producer)
        self._admin: Admin | None = None
        self._flight: ConfluentFlight | None = None
        self._stopped = threading.Event()
        self._broken = False

    @property
    def flight(self) -> Flight | None:
        """See :meth:`mgw.links.kafka.client.Transactions.flight`."""
        return self._flight

    def partitions(self, topic: str) -> set[int] | None:
        """See :meth:`mgw.links.kafka.client.Transactions.partitions`."""
        return self._known.partitions(topic)

    def ask(self, topic: str) -> Asked:
        """See :meth:`mgw.links.kafka.client.Transactions.ask`."""
        return self._known.answer(topic)

    def throttled(self) -> bool:
        """See :meth:`mgw.links.kafka.client.Producer.throttled`."""
        return False

    def heard(self) -> float | None:
        """See :meth:`mgw.links.kafka.client.Transactions.heard`; the library does not tell."""
        return None

    def _begin(self) -> None:
        if self._broken or self._stopped.is_set():
            raise self._unavailable()
        self._broken = True

    def run(self, topic: str, messages: Iterable[Sendable], record: LogRecord, what: str) -> None:
        """See :meth:`mgw.links.kafka.client.Transactions.run`."""
        self._begin()
        try:
            self.producer.begin_transaction()
            self._flight = flight = ConfluentFlight(self.producer, topic, located=True)
            flight.count = flight.hand_over(messages)
            log = self._add(record.place, record.key, record.value)
            self._finish([flight, log], what)
        except LinkError:
            self._abort()
            raise
        except Exception as error:
            self._abort()
            raise translate(error, self._settings, "publish", what) from error
        self._commit(what)
        ends: dict[Place, int] = {}
        for number, offset in flight.places:
            place = Place(topic, number)
            ends[place] = max(offset, ends.get(place, -1))
        self._see(ends, record.place, log.places[0][1], what)
        self._broken = False

    def _add(self, place: Place, key: bytes | None, value: bytes | None) -> ConfluentFlight:
        flight = ConfluentFlight(self.producer, place.topic, count=1, located=True)
        flight.hand_over([Sendable(Record(value, key, [], place.partition, None), 0)])
        return flight

    def _finish(self, flights: Sequence[ConfluentFlight], what: str) -> None:
        """Wait for the outcome of every record.

        Raises:
            LinkTimeout: nothing moved for KAFKA_Delivery_timeout_ms.
            KafkaException: of a record that failed.
        """
        wanted, done, moved_at = sum(flight.count for flight in flights), 0, self._clock.monotonic()
        while done < wanted:
            self.producer.poll(_SLICE)
            before, done = done, sum(flight.settled for flight in flights)
            if any(flight.failed for flight in flights):
                self._drain(flights)
                refused = [flight.refusal() for flight in flights]
                raise next((each for each in refused if each), None) or next(f.failed[0] for f in flights if f.failed)
            now = self._clock.monotonic()
            if done > before:
                moved_at = now
            elif now - moved_at >= self._settings.delivery_timeout:
                raise silent(self._settings, what, f"{wanted - done} records are in flight")
            if self._stopped.is_set() and done < wanted:
                raise self._unavailable()

    def _drain(self, flights: Sequence[ConfluentFlight]) -> None:
        """The outcomes that come together with one: among them may be what a server answered."""
        deadline = self._clock.monotonic() + _SLICE
        while not any(is_answer(error) for flight in flights for error in flight.failed):
            if self._clock.monotonic() >= deadline or not self.producer.poll(0.05):
                return

    def _commit(self, what: str) -> None:
        deadline = self._clock.monotonic() + self._settings.timeout
        while True:
            try:
                self.producer.commit_transaction(_SLICE)
            except Exception as error:
                found = code_of(error)
                if found is not None and found.txn_requires_abort():
                    self._abort()
                    raise translate(error, self._settings, "commit", what) from error
                if found is None or not found.retriable():
                    raise translate(error, self._settings, "commit", what) from error
            else:
                return
            if self._stopped.is_set():
                deadline = min(deadline, self._clock.monotonic() + _ABORT)
            if self._clock.monotonic() >= deadline:
                raise silent(
                    self._settings, what, "the commit of a transaction was not answered; its outcome is unknown"
                )

    def _see(self, ends: dict[Place, int], log: Place, offset: int, what: str) -> None:
        """Wait until the record in the log can be read, and a moment for the others.

        Raises:
            LinkTimeout: the server has said that the transaction is committed, and does not show it.
            LinkError: the server cannot be asked; whether the transaction stands, only the sending log can tell.
        """
        clock = self._clock
        started = clock.monotonic()
        deadline, patience = started + self._settings.timeout, started + _PATIENCE
        waiting = {**ends, log: offset}
        pause, heard = 0.001, started
        while True:
            try:
                found = self._stable(waiting)
                heard = clock.monotonic()
            except KafkaException as error:
                if is_answer(error):
                    raise translate(error, self._settings, "commit", what) from error
                found = {}
                if clock.monotonic() - heard > _SILENCE:
                    self._admin, heard = None, clock.monotonic()
            waiting = {place: last for place, last in waiting.items() if found.get(place, -1) <= last}
            now = clock.monotonic()
            if not waiting or (log not in waiting and now >= patience):
                return
            if self._stopped.is_set():
                deadline = min(deadline, now + _ABORT)
            if now >= deadline:
                raise silent(self._settings, what, "a committed transaction cannot be read; its outcome is unknown")
            time.sleep(pause)
            pause = min(2 * pause, _PAUSE)

    def _stable(self, places: Iterable[Place]) -> dict[Place, int]:
        """Up to where readers of what is committed get the records of partitions."""
        if self._admin is None:
            self._admin = Admin(self._settings, "commit")
        asked = self._admin.client.list_offsets(
            {TopicPartition(*place): OffsetSpec.latest() for place in places},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=1.0,
        )
        return {Place(each.topic, each.partition): int(future.result().offset) for each, future in asked.items()}

    def end_open(self, reader: LogReader, log: Sequence[Place], others: Sequence[Place], key: bytes, what: str) -> None:
        """See :meth:`mgw.links.kafka.client.Transactions.end_open`; what is open in the log is taken away."""
        assert isinstance(reader, ConfluentLogReader)  # noqa: S101 - both come from one client
        deadline = self._clock.monotonic() + _MARKERS
        hung = [*log]
        while hung := [place for place in hung if self._is_open(reader, place)]:
            if self._clock.monotonic() >= deadline:
                break
            time.sleep(_PAUSE)
        hung = [place for place in hung if self._is_ours(reader, place, key)]
        if hung:
            self._take_away([*hung, *(place for place in others if self._is_open(reader, place))], key, what)

    @staticmethod
    def _is_open(reader: ConfluentLogReader, place: Place) -> bool:
        stable = reader.end(place, IsolationLevel.READ_COMMITTED)
        return stable < reader.end(place, IsolationLevel.READ_UNCOMMITTED)

    @staticmethod
    def _is_ours(reader: ConfluentLogReader, place: Place, key: bytes) -> bool:
        start = reader.end(place, IsolationLevel.READ_COMMITTED)
        stop = reader.end(place, IsolationLevel.READ_UNCOMMITTED)
        return any(record.key == key for record in reader.open_records(place, start, stop, _MARKERS))

    def _take_away(self, places: Sequence[Place], key: bytes, what: str) -> None:
        """Abort what is open of ours in these partitions: a transaction that has a record in each, and is aborted."""
        self._begin()
        try:
            self.producer.begin_transaction()
            self._finish([self._add(place, key, None) for place in places], what)
            self._until(self.producer.abort_transaction)
        except LinkError:
            self._abort()
            raise
        except Exception as error:
            self._abort()
            raise translate(error, self._settings, "clear", what) from error
        self._broken = False

    def _until(self, step: Callable[[float], Any]) -> None:
        deadline = self._clock.monotonic() + self._settings.timeout
        while True:
            try:
                step(_SLICE)
            except KafkaException as error:
                found = code_of(error)
                if found is None or not found.retriable() or self._clock.monotonic() >= deadline:
                    raise
            else:
                return

    def _abort(self) -> None:
        with contextlib.suppress(Exception):
            self.producer.abort_transaction(_ABORT)

    def _unavailable(self) -> LinkUnavailable:
        return closed(self._settings, self._identity)

    def stop(self) -> None:
        """See :meth:`mgw.links.kafka.client.Transactions.stop`."""
        self._stopped.set()

    def close(self) -> None:
        """See :meth:`mgw.links.kafka.client.Transactions.close`."""
        self.stop()
        self._admin = None
        with contextlib.suppress(Exception):
            self.producer.purge(blocking=False)
            self.producer.poll(0)
