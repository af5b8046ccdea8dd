"""Kafka topic as a destination: an idempotent producer, all replicas, every record's outcome looked at.

Order: the client repeats a request until it succeeds, and the server takes those of a partition in the order of their
sequence numbers, so within one producer records of a partition stay in order. A producer never gives up single records
by time (that would let later ones overtake them); when nothing moves for KAFKA_Delivery_timeout_ms the whole
destination gives up, and after any failure a new producer starts with what is not confirmed.

The client buffers without limit, so the number of records and bytes under way is limited here.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Sequence

from mgw.links.contract import Direction, Encoded, JobUse, Recovered
from mgw.links.kafka.client import Flight, Producer
from mgw.links.kafka.connection import describe
from mgw.links.kafka.errors import translate
from mgw.links.kafka.pulse import Pulse
from mgw.links.kafka.settings import Settings
from mgw.links.kafka.target import Target
from mgw.links.placement import Placement
from mgw.transforms.errors import LinkError, LinkTimeout, LinkUnavailable
from mgw.transforms.kafka import Rules
from mgw.transforms.message import Message

__all__ = ["QUOTA", "KafkaDestination"]

MAX_RECORDS = 20_000  # under way at a time
MAX_BYTES = 64 * 1024 * 1024
QUOTA = "quota of the Kafka cluster: it throttles this client"
_OUTCOMES = 2.0  # seconds that the outcome of what is under way is waited for after a failure


class KafkaDestination:
    """See :class:`links.contract.Destination`; at least once, see :mod:`links.kafka.logged_destination` for more."""

    def __init__(self, settings: Settings, use: JobUse, rules: Rules) -> None:
        self._settings = settings
        self._use = use
        self._target = Target(settings, use, rules)
        self._target.known_partitions = self._known_partitions
        self._name = use.endpoint.provider_queue
        self._pulse = Pulse(settings, use)
        self._producer: Producer | None = None
        self._reset()

    def _reset(self) -> None:
        self._pulse.felt()
        self._flights: deque[Flight] = deque()
        self._stored: dict[int, Flight] = {}  # confirmed batches, until their places are asked for
        self._records = 0
        self._bytes = 0
        self._confirmed: int | None = None
        self._reported: int | None = None
        self._moved_at = 0.0
        self._failed_at = 0.0
        self._interrupted = False

    def connect(self) -> None:
        """See :meth:`mgw.links.contract.Destination.connect`."""
        self._reset()
        topic = describe(self._settings, self._name, "connect", Direction.OUTBOUND)
        self._target.learn(topic)
        settings = self._settings
        self._producer = settings.client.producer(settings, self._use, self._target.limit)
        try:
            self._producer.known(self._name)
        except Exception as error:
            raise translate(error, settings, "connect", f"topic {self._name}") from error

    def recovered(self) -> Recovered | None:
        """See :meth:`mgw.links.contract.Destination.recovered`."""
        return None

    def encode(self, message: Message) -> Encoded:
        """See :meth:`mgw.links.contract.Destination.encode`."""
        return self._target.encode(message)

    def _known_partitions(self) -> set[int]:
        return self._producer.partitions(self._name) or set() if self._producer else set()

    def publish(self, sequence: int, messages: Sequence[Encoded]) -> None:
        """See :meth:`mgw.links.contract.Destination.publish`."""
        producer = self._connected()
        size = sum(message.size for message in messages)
        self._make_room(len(messages), size)
        if not self._flights:
            self._moved_at = self._use.clock.monotonic()
        self._flights.append(producer.publish(self._name, sequence, messages, size))
        self._records += len(messages)
        self._bytes += size

    def _make_room(self, records: int, size: int) -> None:
        """Wait until a batch fits under the limits, or nothing else is under way."""
        while self._flights and (self._records + records > MAX_RECORDS or self._bytes + size > MAX_BYTES):
            if not self._advance():
                self._connected().wait(self._settings.delivery_timeout, self._flights[0])
                self._check_stuck()

    def confirmed(self, wait: float) -> int | None:
        """See :meth:`mgw.links.contract.Destination.confirmed`."""
        producer = self._connected()
        clock = self._use.clock
        deadline = clock.monotonic() + wait
        while True:
            self._advance()
            if self._flights:
                self._pulse.felt()
            else:
                self._pulse.feel(producer)
            if self._confirmed != self._reported:
                self._reported = self._confirmed
                return self._confirmed
            self._check_stuck()
            left = deadline - clock.monotonic()
            if left <= 0 or self._interrupted:
                self._interrupted = False
                return self._confirmed
            producer.wait(min(left, self._settings.delivery_timeout), self._flights[0] if self._flights else None)

    def _advance(self) -> bool:
        """Look at the outcome of records in order; True if there was progress.

        Raises:
            LinkError: one failed.
        """
        moved = False
        while self._flights:
            flight = self._flights[0]
            looked = flight.looked
            try:
                flight.look()
            except Exception as error:
                raise self._error(error) from error
            moved |= flight.looked > looked
            if flight.looked < flight.count:
                break
            self._confirmed = flight.sequence
            self._records -= flight.count
            self._bytes -= flight.size
            self._flights.popleft()
            if self._use.located:
                self._stored[flight.sequence] = flight
            moved = True
        if moved:
            self._target.accepted()
            self._moved_at = self._use.clock.monotonic()
        return moved

    def stored(self, sequence: int, count: int) -> Collection[int]:
        """See :meth:`mgw.links.contract.Destination.stored`."""
        if self._confirmed is not None and sequence <= self._confirmed:
            return range(count)
        for flight in self._flights:
            if flight.sequence == sequence:
                return flight.stored(self._failed_at + _OUTCOMES - time.monotonic())
        return ()

    def located(self, sequence: int) -> Placement | None:
        """See :meth:`mgw.links.contract.Destination.located`."""
        flight = self._stored.pop(sequence, None)
        return None if flight is None else flight.placement(0, flight.count)

    def _check_stuck(self) -> None:
        limit = self._settings.delivery_timeout
        if self._flights and self._use.clock.monotonic() - self._moved_at >= limit:
            raise LinkTimeout(
                f"link {self._settings.link}: topic {self._name} has confirmed nothing for {limit:g} s",
                link=self._settings.link,
                operation="publish",
                cause=f"{self._records} records are in flight; a server is down, or too few replicas are in sync",
                cure="check that the cluster is up and that all its servers can be reached from here",
            )

    def _error(self, error: BaseException) -> LinkError:
        self._failed_at = time.monotonic()
        return self._target.error(error)

    @property
    def limit(self) -> str:
        """See :class:`mgw.links.contract.Limited`: a quota of the cluster."""
        producer = self._producer
        return QUOTA if producer is not None and producer.throttled() else ""

    def interrupt(self) -> None:
        """See :meth:`mgw.links.contract.Destination.interrupt`."""
        self._interrupted = True
        producer = self._producer
        if producer is not None:
            producer.wake()

    def close(self) -> None:
        """See :meth:`mgw.links.contract.Destination.close`; what is not confirmed is given up."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()
        self._reset()

    def _connected(self) -> Producer:
        if self._producer is None:
            raise LinkUnavailable(
                f"link {self._settings.link}: topic {self._name} is not connected",
                link=self._settings.link,
                operation="publish",
                cause="connect was not called, or failed",
                cure="connect first",
            )
        return self._producer
