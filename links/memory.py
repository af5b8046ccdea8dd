"""The link to the broker inside the process (:mod:`links.memory_broker`): for tests and examples, nothing is durable.

It has every capability, so the conformance suite is proven on it first. Queues hand out each message once and take back
what was not settled; logs keep every message and have positions; topics copy to the subscriptions of their jobs.
A provider queue is the name of a queue, a log or a topic; as a source a topic may be a pattern with ``*`` and ``?``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from links.contract import (
    EMPTY_BATCH,
    Backlog,
    Batch,
    Capability,
    Check,
    Delivery,
    Destination,
    Direction,
    Domain,
    Encoded,
    Endpoint,
    Field,
    Guarantee,
    GuaranteeReport,
    JobUse,
    LinkConfig,
    LinkSpec,
    Position,
    Recovered,
    Source,
)
from links.memory_broker import MemoryBroker, MemoryLog, MemoryQueue, Stored
from links.options import parse
from links.placement import NOWHERE, Placement
from transforms.errors import (
    AdminError,
    ConfigInvalid,
    ConversionFailure,
    LinkError,
    LinkRefused,
    LinkTimeout,
    LinkUnavailable,
    PositionLost,
    QueueMissing,
)
from transforms.message import Header, Message, ValueType, check_headers

__all__ = ["SPEC", "MemoryBroker", "MemoryLink", "open_link"]

#: Header that carries the message id of the sending hub, as text: ``AQMSGID:`` and 32 hexadecimal digits.
MESSAGE_ID = "MGW_MEMORY_messageId"

SPEC = LinkSpec(
    type="MEMORY",
    title="Memory",
    description="Queues inside the process, for tests and examples. Nothing is durable.",
    attributes=(
        Field("broker", "Name of the broker in this process; links with the same name share it.", default="default"),
        Field(
            "timeout",
            "Seconds after which a broker that does not answer is given up.",
            float,
            5.0,
            minimum=0.01,
            maximum=600,
        ),
    ),
    queue_options=(
        Field("MEMORY_UniqueIds", "The correlation of every message is unique: what repeats is dropped.", bool, False),
    ),
    domains=(None, Domain.QUEUE, Domain.TOPIC),
    capabilities=frozenset(Capability),
)


def open_link(config: LinkConfig) -> MemoryLink:
    """A memory link; raises ConfigInvalid for a bad attribute."""
    return MemoryLink(config)


class MemoryLink:
    """One configured memory link."""

    def __init__(self, config: LinkConfig) -> None:
        self.config = config
        values = parse(SPEC.attributes, config.attributes, f"link {config.name}")
        parse(SPEC.options, config.options, f"link {config.name}")
        self.broker = MemoryBroker.get(values["broker"])
        self.timeout: float = values["timeout"]

    def test(self) -> Sequence[Check]:
        """See :meth:`links.contract.Link.test`."""
        checks = []
        for name, run in (("connection", self.check_connection), ("credentials", self.check_login)):
            try:
                run("test")
            except LinkError as error:
                checks.append(Check(name, False, error.cause or error.what, error.cure))
                break
            checks.append(Check(name, True, f"broker {self.broker.name} in this process"))
        return checks

    def check_connection(self, operation: str) -> None:
        """Raise LinkUnavailable while the broker refuses connections, LinkTimeout while it is stalled."""
        if self.broker.refuse_connections:
            raise LinkUnavailable(
                f"link {self.config.name}: broker {self.broker.name} cannot be reached",
                link=self.config.name,
                operation=operation,
                cause="it refuses connections",
                cure="start it",
            )
        self.wait_while_stalled(operation, 0.0)

    def check_login(self, operation: str) -> None:
        """Raise LinkRefused if the broker has users and ours is not one of them."""
        users = self.broker.users
        if users is not None and users.get(self.config.username or "") != self.config.password:
            raise LinkRefused(
                f"link {self.config.name}: broker {self.broker.name} refused user {self.config.username!r}",
                link=self.config.name,
                operation=operation,
                cause="user name or password is wrong",
                cure="set the link's username and password",
            )

    def wait_while_stalled(self, operation: str, waited: float) -> None:
        """Wait for a stalled broker, at most until the timeout; raises LinkTimeout then."""
        broker = self.broker
        with broker.changed:
            if not broker.changed.wait_for(lambda: not broker.stalled, max(0.0, self.timeout - waited)):
                raise LinkTimeout(
                    f"link {self.config.name}: broker {broker.name} did not answer within {self.timeout:g} s",
                    link=self.config.name,
                    operation=operation,
                    cause="it is stalled",
                    cure="look at the broker",
                )

    def listening(self) -> frozenset[str]:
        """See :meth:`links.contract.Link.listening`."""
        return frozenset() if self.broker.refuse_connections else frozenset({self.broker.name})

    def verify(self, use: JobUse, direction: Direction) -> GuaranteeReport:
        """See :meth:`links.contract.Link.verify`."""
        self.check_connection("verify")
        self.check_login("verify")
        fault = self.broker.next_fault("verify")
        if fault is not None:
            raise fault
        self.find(use.endpoint, direction)
        if direction is Direction.INBOUND:
            store = self.broker.find(use.endpoint.provider_queue)
            if store is None:
                self.broker.subscribe(subscription_name(use), use.endpoint.provider_queue)
            elif isinstance(store, MemoryLog):
                return GuaranteeReport(Guarantee.EXACT)
        return GuaranteeReport(Guarantee.AT_LEAST_ONCE, "a memory queue lives only as long as the process")

    def find(self, endpoint: Endpoint, direction: Direction) -> None:
        """Raise QueueMissing unless the endpoint's queue, log or topic exists (for a pattern: is well-formed)."""
        name = endpoint.provider_queue
        if direction is Direction.INBOUND and _is_pattern(name):
            return
        if not self.broker.exists(name):
            raise QueueMissing(
                f"foreign queue {endpoint.full_name}: {name!r} does not exist at broker {self.broker.name}",
                link=self.config.name,
                cause="nobody created it there",
                cure="create it or correct the registration",
            )

    def check_endpoint(self, endpoint: Endpoint, direction: Direction | None) -> None:
        """See :meth:`links.contract.Link.check_endpoint`."""
        try:
            parse(SPEC.queue_options, endpoint.options, f"foreign queue {endpoint.full_name}")
        except ConfigInvalid as error:
            raise AdminError(error.what, cause=error.cause, cure=error.cure) from error
        if direction is Direction.OUTBOUND and _is_pattern(endpoint.provider_queue):
            raise AdminError(
                f"foreign queue {endpoint.full_name} cannot be a destination",
                cause=f"{endpoint.provider_queue!r} is a pattern",
                cure="register the one topic to send to",
            )

    def source(self, use: JobUse) -> Source:
        """See :meth:`links.contract.Link.source`."""
        return MemorySource(self, use)

    def destination(self, use: JobUse) -> Destination:
        """See :meth:`links.contract.Link.destination`."""
        return MemoryDestination(self, use)

    def forget(self, use: JobUse, direction: Direction) -> None:
        """See :meth:`links.contract.Link.forget`."""
        self.check_connection("forget")
        if direction is Direction.INBOUND:
            self.broker.unsubscribe(subscription_name(use))


def subscription_name(use: JobUse) -> str:
    """Name of the durable subscription of a topic job."""
    return f"MGW_{use.job}"


def _is_pattern(name: str) -> bool:
    return "*" in name or "?" in name


class _Connection:
    """What source and destination share: being connected, cut, stalled, interrupted."""

    def __init__(self, link: MemoryLink, use: JobUse) -> None:
        self.link = link
        self.use = use
        self.broker = link.broker
        self._epoch: int | None = None
        self._interrupted = False

    def _open(self, direction: Direction) -> None:
        self.link.check_connection("connect")
        self.link.check_login("connect")
        self._raise_fault("connect")
        self.link.find(self.use.endpoint, direction)
        self._interrupted = False
        self._epoch = self.broker.epoch

    def _check(self, operation: str) -> None:
        if self._epoch != self.broker.epoch:
            raise LinkUnavailable(
                f"link {self.link.config.name}: not connected to broker {self.broker.name}",
                link=self.link.config.name,
                operation=operation,
                cause="the connection was lost" if self._epoch is not None else "connect was not called",
            )
        if self.broker.stalled:
            self.link.wait_while_stalled(operation, 0.0)

    def _raise_fault(self, operation: str) -> None:
        fault = self.broker.next_fault(operation)
        if fault is not None:
            raise fault

    def interrupt(self) -> None:
        """See :meth:`links.contract.Source.interrupt`."""
        with self.broker.changed:
            self._interrupted = True
            self.broker.changed.notify_all()


class MemorySource(_Connection):
    """Reads a queue, a log or a topic's subscription."""

    def __init__(self, link: MemoryLink, use: JobUse) -> None:
        super().__init__(link, use)
        self._queue: MemoryQueue | None = None
        self._log: MemoryLog | None = None
        self._unsettled: list[Stored] = []
        self._unique = flag(use.endpoint.options, "MEMORY_UniqueIds")
        self._stored: int | None = None  # the log position the hub holds
        self._next = 0

    def connect(self, positions: Mapping[str, str]) -> None:
        """See :meth:`links.contract.Source.connect`."""
        with self.broker.changed:
            self._open(Direction.INBOUND)
            name = self.use.endpoint.provider_queue
            store = self.broker.find(name)
            if isinstance(store, MemoryLog):
                self._log = store
                self._stored = int(positions["0"]) if "0" in positions else None
                self._next = store.first if self._stored is None else self._stored + 1
                if self._next < store.first or self._next > store.end:
                    raise PositionLost(
                        f"foreign queue {self.use.endpoint.full_name}: position {self._next} is gone",
                        link=self.link.config.name,
                        operation="connect",
                        cause=f"log {name} holds {store.first} to {store.end - 1}",
                        cure=f"if the gap is acceptable: mgw agents cleanup RESET_SUB_MISSING_MESSAGE {self.use.job}",
                    )
            else:
                self._queue = store or self.broker.subscribe(subscription_name(self.use), name)

    def read(self, max_messages: int, wait: float) -> Batch:
        """See :meth:`links.contract.Source.read`."""
        changed = self.broker.changed
        with changed:
            self._check("read")
            changed.wait_for(self._readable, wait)
            self._interrupted = False
            self._check("read")
            self._raise_fault("read")
            if self._log is not None:
                return self._read_log(self._log, max_messages)
            assert self._queue is not None  # noqa: S101 - connect sets one of the two
            items = self._queue.take(max_messages)
            if not items:
                return EMPTY_BATCH
            self._unsettled.extend(items)
            ids = [item.message.correlation for item in items] if self._unique else ()
            return Batch([self._deliver(item) for item in items], token=items, ids=ids)

    def _readable(self) -> bool:
        if self._interrupted or self._epoch != self.broker.epoch or self.broker.stalled:
            return True
        if self._log is not None:
            return self._log.end > self._next
        return self._queue is not None and self._queue.ready > 0

    def _read_log(self, log: MemoryLog, max_messages: int) -> Batch:
        items = log.read(self._next, max_messages)
        if not items:
            return EMPTY_BATCH
        before = None if self._stored is None else str(self._stored)
        self._stored = items[-1].position
        self._next = self._stored + 1
        return Batch([self._deliver(item) for item in items], (Position("0", before, str(self._stored)),))

    def _deliver(self, item: Stored) -> Delivery:
        message, failure = item.message, None
        try:
            check_headers(message.headers)
        except ConversionFailure as error:
            failure = error
        if item.expires_at is not None:
            left = item.expires_at - self.use.clock.now()
            message = replace(message, expiration=max(1, math.ceil(left)), expires_at=None)
        return Delivery(message, failure, item.redelivered, f"{self.use.endpoint.provider_queue}@{item.position}")

    def settle(self, batch: Batch) -> None:
        """See :meth:`links.contract.Source.settle`."""
        with self.broker.changed:
            self._check("settle")
            self._raise_fault("settle")
            if self._queue is not None and batch.token:
                self._queue.settle(batch.token)
                gone = {item.position for item in batch.token}
                self._unsettled = [item for item in self._unsettled if item.position not in gone]

    def backlog(self) -> Backlog | None:
        """See :meth:`links.contract.Source.backlog`."""
        with self.broker.changed:
            self._check("backlog")
            if self._log is not None:
                return Backlog(self._log.end - self._next)
            return Backlog(self._queue.ready if self._queue is not None else 0)

    def close(self) -> None:
        """See :meth:`links.contract.Source.close`."""
        with self.broker.changed:
            if self._queue is not None:
                self._queue.give_back(self._unsettled)
            self._unsettled = []
            self._queue = self._log = self._epoch = None
            self.broker.changed.notify_all()


class MemoryDestination(_Connection):
    """Writes to a queue, a log or a topic; the broker stores at once and confirms in order."""

    def __init__(self, link: MemoryLink, use: JobUse) -> None:
        super().__init__(link, use)
        self._confirmed: int | None = None
        self._pending: list[int] = []
        self._located: dict[int, Placement] = {}
        self._recovered: Recovered | None = None

    def connect(self) -> None:
        """See :meth:`links.contract.Destination.connect`."""
        with self.broker.changed:
            self._open(Direction.OUTBOUND)
            self._confirmed = None
            self._pending = []
            self._located = {}
            log = self._log()
            self._recovered = None if log is None else Recovered(log.get(self.use.job))

    def _log(self) -> dict[str, int] | None:
        name = self.link.config.outbound_log_queue
        return None if name is None else self.broker.sending_logs.setdefault(name, {})

    def recovered(self) -> Recovered | None:
        """See :meth:`links.contract.Destination.recovered`."""
        return self._recovered

    def encode(self, message: Message) -> Encoded:
        """See :meth:`links.contract.Destination.encode`."""
        headers = message.headers
        if message.msgid is not None and message.header(MESSAGE_ID) is None:
            headers = (*headers, Header(MESSAGE_ID, ValueType.TEXT, f"AQMSGID:{message.msgid.hex()}"))
        check_headers(headers)
        now = self.use.clock.now()
        remaining = message.remaining(now)
        sent = replace(
            message,
            headers=headers,
            msgid=None,
            enqueue_time=None,
            attempts=0,
            delay=0,
            expiration=None,
            expires_at=None,
        )
        return sent, None if remaining is None else now + remaining

    def publish(self, sequence: int, messages: Sequence[Encoded]) -> None:
        """See :meth:`links.contract.Destination.publish`."""
        with self.broker.changed:
            self._check("publish")
            self._raise_fault("publish")
            name = self.use.endpoint.provider_queue
            self.link.find(self.use.endpoint, Direction.OUTBOUND)
            batch: Any = messages
            targets = self.broker.targets(name)
            for target in targets:
                target.check_room(len(messages))
            if self.use.located:
                one = targets[0] if len(targets) == 1 and self.broker.find(name) else None
                runs = [NOWHERE if one is None else one.end, len(messages)]
                self._located[sequence] = Placement([f"{name}@"], [runs])
            for target in targets:
                target.put(batch)
            log = self._log()
            if log is not None:
                log[self.use.job] = sequence
            self._pending.append(sequence)
            self.broker.changed.notify_all()

    def confirmed(self, wait: float) -> int | None:
        """See :meth:`links.contract.Destination.confirmed`."""
        broker = self.broker
        with broker.changed:
            self._check("confirm")
            if self._pending or wait:
                broker.changed.wait_for(self._progress, wait)
            self._interrupted = False
            self._check("confirm")
            if self._pending and not broker.hold_confirms:
                self._raise_fault("confirm")
                self._confirmed = self._pending[-1]
                self._pending = []
            return self._confirmed

    def stored(self, sequence: int, count: int) -> Collection[int]:
        """See :meth:`links.contract.Destination.stored`; a batch is stored whole and at once, or not at all."""
        known = sequence in self._pending or (self._confirmed is not None and sequence <= self._confirmed)
        return range(count) if known and self._recovered is None else ()

    def located(self, sequence: int) -> Placement | None:
        """See :meth:`links.contract.Destination.located`."""
        return self._located.pop(sequence, None)

    def _progress(self) -> bool:
        if self._interrupted or self._epoch != self.broker.epoch or self.broker.stalled:
            return True
        return bool(self._pending) and not self.broker.hold_confirms

    def close(self) -> None:
        """See :meth:`links.contract.Destination.close`."""
        self._epoch = None
        self._pending = []


def flag(options: Mapping[str, str], name: str) -> bool:
    """A TRUE/FALSE option; names compare case-insensitively."""
    return any(key.lower() == name.lower() and value.upper() == "TRUE" for key, value in options.items())
