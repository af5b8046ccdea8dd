"""Kafka topic as a destination that has every message exactly once, for readers that read what is committed.

The messages of one or several batches and the record of the last one's sequence in the link's log topic are one
transaction. A thread of the destination runs one transaction after the other; what is published meanwhile is collected
for the next. After any failure the engine connects again: a new producer with the same transactional id shuts the old
one out, and the log says what was committed.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Sequence
from itertools import chain

from mgw.links.contract import Direction, Encoded, JobUse, Recovered
from mgw.links.kafka.client import Flight, Sendable, Transactions
from mgw.links.kafka.connection import describe
from mgw.links.kafka.destination import QUOTA
from mgw.links.kafka.left_open import end_as_decided
from mgw.links.kafka.pulse import Pulse
from mgw.links.kafka.sending_log import SendingLog
from mgw.links.kafka.settings import Settings
from mgw.links.kafka.target import BATCH_OVERHEAD, Target
from mgw.links.placement import Placement
from mgw.transforms.errors import LinkError, LinkTimeout, LinkUnavailable
from mgw.transforms.kafka import Rules
from mgw.transforms.message import Message

__all__ = ["KafkaExactDestination"]

MAX_RECORDS = 20_000  # published and not confirmed
MAX_BYTES = 64 * 1024 * 1024
TRANSACTION_RECORDS = 10_000  # in one transaction, unless one batch has more
TRANSACTION_BYTES = 16 * 1024 * 1024
_CLOSE = 5.0  # seconds a running transaction has to end
_MIN_REQUEST = 16_384  # bytes; the log record must fit, whatever the topic takes

_Waiting = tuple[int, Sequence[Sendable], int]  # sequence, messages, bytes


class KafkaExactDestination:
    """See :class:`mgw.links.contract.Destination`."""

    def __init__(self, settings: Settings, use: JobUse, rules: Rules) -> None:
        self._settings = settings
        self._use = use
        self._name = use.endpoint.provider_queue
        self._target = Target(settings, use, rules)
        self._target.known_partitions = self._known_partitions
        self._log = SendingLog(settings, use)
        self._pulse = Pulse(settings, use)
        self._condition = threading.Condition()
        self._transactions: Transactions | None = None
        self._thread: threading.Thread | None = None
        self._recovered: int | None = None
        self._reset()

    def _reset(self) -> None:
        self._pulse.felt()
        self._waiting: deque[_Waiting] = deque()
        self._stored: dict[int, tuple[Flight, int, int]] = {}  # where committed batches are, until that is asked for
        self._records = 0
        self._bytes = 0
        self._confirmed: int | None = None
        self._reported: int | None = None
        self._error: LinkError | None = None
        self._stopping = False
        self._interrupted = False

    def connect(self) -> None:
        """See :meth:`mgw.links.contract.Destination.connect`.

        Raises:
            QueueMissing: the topic or the log topic does not exist.
            LinkRefused: not allowed, or the log topic has no partition for this job.
            LinkUnavailable, LinkTimeout.
        """
        self.close()
        topic = describe(self._settings, self._name, "connect", Direction.OUTBOUND)
        self._target.learn(topic)
        size = max(_MIN_REQUEST, self._target.limit + BATCH_OVERHEAD)
        if not self._settings.client.asks_for_transactions:
            end_as_decided(self._settings, self._use, topic, size)
        self._transactions = transactions = self._settings.client.transactions(self._settings, self._use, size)
        self._recovered = self._log.find(transactions, topic)
        self._thread = threading.Thread(
            target=self._run, args=(transactions,), name=f"kafka-{self._use.job}", daemon=True
        )
        self._thread.start()

    def recovered(self) -> Recovered | None:
        """See :meth:`mgw.links.contract.Destination.recovered`."""
        return Recovered(self._recovered)

    def encode(self, message: Message) -> Encoded:
        """See :meth:`mgw.links.contract.Destination.encode`."""
        return self._target.encode(message)

    def _known_partitions(self) -> set[int]:
        if self._transactions is None:
            return set()
        return self._transactions.partitions(self._name) or set()

    def publish(self, sequence: int, messages: Sequence[Encoded]) -> None:
        """See :meth:`mgw.links.contract.Destination.publish`."""
        size = sum(message.size for message in messages)
        clock = self._use.clock
        with self._condition:
            deadline = clock.monotonic() + 2 * self._settings.delivery_timeout
            while True:
                self._check()
                if not self._records:
                    break
                if self._records + len(messages) <= MAX_RECORDS and self._bytes + size <= MAX_BYTES:
                    break
                left = deadline - clock.monotonic()
                if left <= 0:
                    raise self._stuck()
                self._condition.wait(left)
            self._waiting.append((sequence, messages, size))
            self._records += len(messages)
            self._bytes += size
            self._condition.notify_all()

    def confirmed(self, wait: float) -> int | None:
        """See :meth:`mgw.links.contract.Destination.confirmed`."""
        clock = self._use.clock
        deadline = clock.monotonic() + wait
        self._feel_pulse()  # may ask the cluster and wait; whoever interrupts must not wait, too
        with self._condition:
            while True:
                if self._confirmed != self._reported:
                    self._reported = self._confirmed
                    return self._confirmed
                self._check()
                left = deadline - clock.monotonic()
                if left <= 0 or self._interrupted:
                    self._interrupted = False
                    return self._confirmed
                self._condition.wait(left)

    def _feel_pulse(self) -> None:
        if self._records or self._transactions is None:
            self._pulse.felt()
        else:
            self._pulse.feel(self._transactions)

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        if self._thread is None:
            raise LinkUnavailable(
                f"link {self._settings.link}: topic {self._name} is not connected",
                link=self._settings.link,
                operation="publish",
                cause="connect was not called, or failed",
                cure="connect first",
            )

    def _stuck(self) -> LinkTimeout:
        return LinkTimeout(
            f"link {self._settings.link}: topic {self._name} accepts no more messages",
            link=self._settings.link,
            operation="publish",
            cause=f"{self._records} records wait for the commit of their transaction",
            cure="check that the cluster is up and that all its servers can be reached from here",
        )

    def _run(self, transactions: Transactions) -> None:
        """The thread: one transaction after the other, until one fails."""
        condition = self._condition
        while True:
            with condition:
                condition.wait_for(lambda: self._waiting or self._stopping)
                if self._stopping:
                    return
                group = self._next_group()
            error: LinkError | None = None
            count = sum(len(messages) for _, messages, _ in group)
            record = self._log.record(group[-1][0], count)
            try:
                together = chain.from_iterable(messages for _, messages, _ in group)
                transactions.run(self._name, together, record, f"topic {self._name}")
            except LinkError as failure:
                error = failure
            except BaseException as failure:
                error = self._target.error(failure)
            flight = transactions.flight
            refusal = flight.refusal() if error is not None and flight is not None else None
            with condition:
                if error is not None:
                    cause = refusal or error.__cause__
                    self._error = self._target.error(cause) if isinstance(cause, Exception) else error
                else:
                    self._target.accepted()
                    self._confirmed = group[-1][0]
                    if self._use.located and flight is not None:
                        self._keep(group, flight)
                    self._records -= count
                    self._bytes -= sum(size for _, _, size in group)
                condition.notify_all()
                if error is not None:
                    return

    def _keep(self, group: Sequence[_Waiting], flight: Flight) -> None:
        start = 0
        for sequence, messages, _ in group:
            self._stored[sequence] = (flight, start, start + len(messages))
            start += len(messages)

    def stored(self, sequence: int, count: int) -> Collection[int]:  # noqa: ARG002
        """See :meth:`mgw.links.contract.Destination.stored`; the log says it."""
        return ()

    def located(self, sequence: int) -> Placement | None:
        """See :meth:`mgw.links.contract.Destination.located`."""
        with self._condition:
            found = self._stored.pop(sequence, None)
        return None if found is None else found[0].placement(found[1], found[2])

    def _next_group(self) -> list[_Waiting]:
        group: list[_Waiting] = []
        records = size = 0
        while self._waiting:
            _, messages, more = self._waiting[0]
            if group and (records + len(messages) > TRANSACTION_RECORDS or size + more > TRANSACTION_BYTES):
                break
            group.append(self._waiting.popleft())
            records += len(messages)
            size += more
        return group

    @property
    def limit(self) -> str:
        """See :class:`mgw.links.contract.Limited`: a quota of the cluster."""
        transactions = self._transactions
        return QUOTA if transactions is not None and transactions.throttled() else ""

    def interrupt(self) -> None:
        """See :meth:`mgw.links.contract.Destination.interrupt`."""
        with self._condition:
            self._interrupted = True
            self._condition.notify_all()

    def close(self) -> None:
        """See :meth:`mgw.links.contract.Destination.close`; an open transaction is aborted."""
        transactions, self._transactions = self._transactions, None
        thread, self._thread = self._thread, None
        with self._condition:
            self._stopping = True
            self._condition.notify_all()
        if transactions is not None:
            transactions.stop()
        if thread is not None:
            thread.join(_CLOSE)
        if transactions is not None:
            transactions.close()
        self._reset()
