"""One suite for every link: what the contract promises, checked on a real messaging system.

A driver's test module gives a :class:`LinkTemplate` and a class derived from :class:`LinkSuite` with a fixture
``template``. Tests ask for capabilities of the link (``@requires``), never for its name.
"""

from __future__ import annotations

import functools
import itertools
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, NamedTuple, Protocol

import pytest

from mgw.links.contract import (
    Batch,
    Capability,
    Delivery,
    Destination,
    Direction,
    Endpoint,
    JobUse,
    Link,
    LinkSpec,
    Source,
)
from mgw.links.inspection import FindsQueues, ShowsMessages
from mgw.transforms.errors import AdminError, ConversionFailure, LinkError, LinkRefused, LinkUnavailable, QueueMissing
from mgw.transforms.message import Header, Message, ValueType

SOON = 20.0  # seconds a test waits for what must happen "soon"; a deadline, not a delay
_numbers = itertools.count(1)


class Pair(NamedTuple):
    """Two registrations of one place in the foreign system: messages sent to ``destination`` arrive at ``source``."""

    source: Endpoint
    destination: Endpoint


class Wire(Protocol):
    """The way between a link and its system, to be disturbed."""

    def cut(self) -> None:
        """End the connections there are; new ones are let through."""
        ...

    def stall(self) -> None:
        """Keep connections open and pass nothing on."""
        ...

    def refuse(self) -> None:
        """End the connections there are and refuse new ones."""
        ...

    def resume(self) -> None:
        """Pass everything on again, accept new connections."""
        ...


class LinkTemplate(ABC):
    """What the suite needs to know about a messaging system."""

    spec: ClassVar[LinkSpec]
    #: Header in which the source shows the message id a hub gave to its message.
    message_id_header: ClassVar[str] = ""
    #: Seconds within which a link from :meth:`disturbed` gives up a stalled system.
    patience: ClassVar[float] = SOON
    #: What one hub priority becomes after going out and in again, where that is not itself.
    priorities: ClassVar[dict[int, int]] = {1: 1, 5: 5, 9: 9}
    window: ClassVar[int] = 20  # batches in flight when thousands are published

    @abstractmethod
    def link(self) -> Link:
        """A link that works."""

    @abstractmethod
    def pair(self) -> Pair:
        """A new, empty place in the foreign system, created there by the test and not by the link."""

    def log_pair(self) -> Pair:
        """A place whose source has positions (for POSITIONS)."""
        return self.pair()

    def missing(self) -> Pair | None:
        """A place that does not exist, or None where every place exists."""
        return None

    def pattern(self) -> Endpoint | None:
        """An endpoint with wildcards, or None where there are none."""
        return None

    @abstractmethod
    def disturbed(self) -> AbstractContextManager[tuple[Link, Wire]]:
        """A link with short timeouts that reaches the system through a wire."""

    def wrong_password(self) -> Link | None:
        """A link the system refuses, or None where everybody is let in."""
        return None

    @abstractmethod
    def wrong_port(self) -> Link:
        """A link to a place where nobody listens."""

    @abstractmethod
    def foreign_publish(self, pair: Pair, bodies: Sequence[bytes]) -> None:
        """Send with a client that is not ours."""

    @abstractmethod
    def foreign_read(self, pair: Pair, count: int) -> list[bytes]:
        """Read ``count`` bodies with a client that is not ours. Called after :meth:`prepare_foreign_read`."""

    def prepare_foreign_read(self, pair: Pair) -> None:
        """Called before anything is sent: where a reader must be there first, it starts here."""
        del pair

    def foreign_long_header(self, pair: Pair, name: str, body: bytes) -> bool:
        """Send one message with a header of that name; False where the system does not allow it."""
        return False

    def close(self) -> None:
        """Free what the template holds."""
        return


def requires(*capabilities: Capability) -> Callable[[Any], Any]:
    """Run a test only for links that have all these capabilities."""

    def decorate(test: Any) -> Any:
        @functools.wraps(test)
        def run(self: LinkSuite, template: LinkTemplate, **fixtures: Any) -> None:
            for capability in capabilities:
                if capability not in template.spec.capabilities:
                    pytest.skip(f"{template.spec.title}: not a capability: {capability.value}")
            test(self, template, **fixtures)

        return run

    return decorate


def unique(prefix: str) -> str:
    """A name that no other test and no other run on this machine uses."""
    return f"{prefix}_{os.getpid()}_{next(_numbers)}"


def use_of(endpoint: Endpoint, **settings: Any) -> JobUse:
    """The endpoint in the hands of a job of its own."""
    return JobUse(endpoint, **{"job": unique("JOB"), "agent": "TEST", "batch_size": 50, "hub_id": "00" * 8, **settings})


def wait_until(condition: Callable[[], object], what: str, seconds: float = SOON) -> None:
    """Wait for a condition; fail with ``what`` when it did not come true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.01)


def body_bytes(message: Message) -> bytes | None:
    """The body as bytes (text as UTF-8)."""
    body = message.body
    assert not isinstance(body, tuple)
    return body.encode() if isinstance(body, str) else body


class Reader:
    """A source with what the hub would store for it."""

    def __init__(self, link: Link, use: JobUse) -> None:
        self.source: Source = link.source(use)
        self.positions: dict[str, str] = {}

    def connect(self) -> Reader:
        self.source.connect(dict(self.positions))
        return self

    def reconnect(self, seconds: float = SOON) -> None:
        """Close and connect again, as often as it takes, as the engine does."""
        deadline = time.monotonic() + seconds
        while True:
            self.source.close()
            try:
                self.source.connect(dict(self.positions))
            except LinkError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                return

    def settle(self, batch: Batch) -> None:
        """What the hub and the engine do: positions with compare-and-set, then the acknowledgement."""
        for partition, before, after in batch.positions:
            assert self.positions.get(partition) == before, "a position continues where the last one ended"
            self.positions[partition] = after
        self.source.settle(batch)

    def batches(self, count: int, *, size: int = 100, settle: bool = True, seconds: float = SOON) -> list[Batch]:
        """Read until ``count`` messages are there."""
        found: list[Batch] = []
        deadline = time.monotonic() + seconds
        total = 0
        while total < count:
            assert time.monotonic() < deadline, f"{total} of {count} messages after {seconds:g} s"
            batch = self.source.read(min(size, count - total), 0.5)
            assert len(batch.deliveries) <= size
            total += len(batch.deliveries)
            found.append(batch)
            if settle:
                self.settle(batch)
        return found

    def collect(self, count: int, **how: Any) -> list[Delivery]:
        """Read and settle ``count`` messages."""
        return [delivery for batch in self.batches(count, **how) for delivery in batch.deliveries]

    def one(self) -> Message:
        """Read and settle one message that converted without failure."""
        (delivery,) = self.collect(1)
        assert delivery.failure is None
        return delivery.message

    def bodies(self, count: int, **how: Any) -> list[bytes | None]:
        """Bodies of the next ``count`` messages."""
        return [body_bytes(delivery.message) for delivery in self.collect(count, **how)]


class Writer:
    """A destination that counts its sequences."""

    def __init__(self, link: Link, use: JobUse) -> None:
        self.destination: Destination = link.destination(use)
        self.sequence = 0

    def connect(self) -> Writer:
        self.destination.connect()
        return self

    def reconnect(self, seconds: float = SOON) -> None:
        """Close and connect again, as often as it takes, as the engine does."""
        deadline = time.monotonic() + seconds
        while True:
            self.destination.close()
            try:
                self.destination.connect()
            except LinkError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                return

    def send(self, *messages: Message) -> int:
        """Publish one batch; returns its sequence."""
        self.sequence += 1
        self.destination.publish(self.sequence, [self.destination.encode(message) for message in messages])
        return self.sequence

    def confirm(self, sequence: int | None = None, seconds: float = SOON) -> None:
        """Wait until ``sequence`` (default: the last) is confirmed."""
        wanted = self.sequence if sequence is None else sequence
        deadline = time.monotonic() + seconds
        while (self.destination.confirmed(0.2) or 0) < wanted:
            assert time.monotonic() < deadline, f"sequence {wanted} not confirmed after {seconds:g} s"

    def deliver(self, *messages: Message) -> None:
        """Publish one batch and wait for its confirmation."""
        self.send(*messages)
        self.confirm()


@contextmanager
def reading(link: Link, pair: Pair, **settings: Any) -> Iterator[Reader]:
    """A connected source of the pair."""
    reader = Reader(link, use_of(pair.source, **settings))
    try:
        yield reader.connect()
    finally:
        reader.source.close()


@contextmanager
def writing(link: Link, pair: Pair, **settings: Any) -> Iterator[Writer]:
    """A connected destination of the pair."""
    writer = Writer(link, use_of(pair.destination, **settings))
    try:
        yield writer.connect()
    finally:
        writer.destination.close()


@contextmanager
def both(template: LinkTemplate, pair: Pair | None = None) -> Iterator[tuple[Reader, Writer]]:
    """A connected source and a connected destination of one new place; the source is there first."""
    link, pair = template.link(), pair or template.pair()
    with reading(link, pair) as reader, writing(link, pair) as writer:
        yield reader, writer


def numbered(count: int, start: int = 0) -> list[Message]:
    """Messages whose bodies are their numbers."""
    return [Message(b"%d" % number) for number in range(start, start + count)]


def numbers(count: int, start: int = 0) -> list[bytes]:
    """The bodies of :func:`numbered`."""
    return [b"%d" % number for number in range(start, start + count)]


def first_occurrences(bodies: Sequence[bytes | None]) -> list[bytes | None]:
    """Without repetitions, in the order of the first occurrence."""
    return list(dict.fromkeys(bodies))


def in_thread(action: Callable[[], Any]) -> Callable[[float], Any]:
    """Start an action in a thread; the returned function joins it and returns or raises its outcome."""
    outcome: list[Any] = []
    started = threading.Event()

    def run() -> None:
        started.set()
        try:
            outcome.append((action(), None))
        except BaseException as error:
            outcome.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    started.wait()

    def join(seconds: float) -> Any:
        thread.join(seconds)
        assert not thread.is_alive(), f"still waiting after {seconds:g} s"
        value, error = outcome[0]
        if error is not None:
            raise error
        return value

    return join


class LinkSuite:
    """Every promise of :mod:`mgw.links.contract`."""

    # -- bodies -------------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        "body",
        [b"plain", b"", b"\x00\x01\x00", bytes(range(256)), b"\xff" * 1_000_000],
        ids=["bytes", "empty", "nul", "all", "1MB"],
    )
    def test_raw_body_comes_back(self, template: LinkTemplate, body: bytes) -> None:
        with both(template) as (reader, writer):
            writer.deliver(Message(body))
            message = reader.one()
            if Capability.TEXT_BODY in template.spec.capabilities:
                assert message.body == body
            else:
                assert body_bytes(message) == body

    @pytest.mark.parametrize("body", ["", "text", "Grüße, 世界 \U0001f680", "a\x00b\n"])
    @requires(Capability.TEXT_BODY)
    def test_text_body_comes_back_as_text(self, template: LinkTemplate, body: str) -> None:
        with both(template) as (reader, writer):
            writer.deliver(Message(body))
            assert reader.one().body == body

    @requires(Capability.NULL_BODY)
    def test_no_body_is_not_an_empty_body(self, template: LinkTemplate) -> None:
        with both(template) as (reader, writer):
            writer.deliver(Message(None), Message(b""))
            assert [delivery.message.body for delivery in reader.collect(2)] == [None, b""]

    def test_foreign_message_arrives_with_its_body(self, template: LinkTemplate) -> None:
        pair = template.pair()
        bodies = [b"one", b"two", "drei \u2713".encode()]
        with reading(template.link(), pair) as reader:
            template.foreign_publish(pair, bodies)
            assert reader.bodies(3) == bodies

    def test_foreign_client_reads_what_was_sent(self, template: LinkTemplate) -> None:
        pair = template.pair()
        template.prepare_foreign_read(pair)
        with writing(template.link(), pair) as writer:
            writer.deliver(Message(b"one"), Message("two"))
        assert template.foreign_read(pair, 2) == [b"one", b"two"]

    # -- headers and properties ---------------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        "header",
        [
            Header("h", ValueType.BOOLEAN, True),
            Header("h", ValueType.BOOLEAN, False),
            Header("h", ValueType.BYTE, -128),
            Header("h", ValueType.SHORT, 32767),
            Header("h", ValueType.INTEGER, -(2**31)),
            Header("h", ValueType.LONG, 2**63 - 1),
            Header("h", ValueType.FLOAT, 0.5),
            Header("h", ValueType.DOUBLE, 3.141592653589793),
            Header("h", ValueType.TEXT, "Grüße"),
            Header("h", ValueType.TEXT, ""),
            Header("h", ValueType.RAW, b"\x00\xff"),
            Header("h", ValueType.DATE, 1_700_000_000.0),
        ],
        ids=lambda header: f"{header.type.name}-{header.value!r}",
    )
    @requires(Capability.TYPED_HEADERS)
    def test_header_keeps_its_type(self, template: LinkTemplate, header: Header) -> None:
        with both(template) as (reader, writer):
            writer.deliver(Message(b"x", headers=(header,)))
            assert header._replace(name="h") in reader.one().headers

    @requires(Capability.TEXT_HEADERS)
    def test_text_headers_come_back(self, template: LinkTemplate) -> None:
        headers = (Header("colour", ValueType.TEXT, "rot"), Header("empty", ValueType.TEXT, ""))
        with both(template) as (reader, writer):
            writer.deliver(Message(b"x", headers=headers))
            found = reader.one().headers
        for header in headers:
            assert header._replace(name=header.name) in found

    @requires(Capability.RAW_HEADERS)
    def test_raw_headers_come_back(self, template: LinkTemplate) -> None:
        with both(template) as (reader, writer):
            writer.deliver(Message(b"x", headers=(Header("h", ValueType.RAW, b"\xfe\x00\xff"),)))
            assert Header("h", ValueType.RAW, b"\xfe\x00\xff") in reader.one().headers

    @requires(Capability.TEXT_HEADERS)
    def test_headers_of_another_system_keep_their_names(self, template: LinkTemplate) -> None:
        header = Header("MGW_ELSEWHERE_colour", ValueType.TEXT, "rot")
        with both(template) as (reader, writer):
            writer.deliver(Message(b"x", headers=(header,)))
            assert header in reader.one().headers

    @requires(Capability.REPEATED_HEADERS)
    def test_repeated_headers_keep_their_order(self, template: LinkTemplate) -> None:
        with both(template) as (reader, writer):
            writer.deliver(Message(b"x", headers=tuple(Header("h", ValueType.TEXT, text) for text in "bac")))
            found = [header.value for header in reader.one().headers if header.name == "h"]
            assert found == ["b", "a", "c"]

    @requires(Capability.PRIORITY)
    def test_priority_comes_back(self, template: LinkTemplate) -> None:
        with both(template) as (reader, writer):
            for sent, expected in template.priorities.items():
                writer.deliver(Message(b"x", priority=sent))
                assert reader.one().priority == expected

    @requires(Capability.CORRELATION)
    def test_correlation_comes_back(self, template: LinkTemplate) -> None:
        with both(template) as (reader, writer):
            writer.deliver(Message(b"x", correlation="Auftrag 4711 ✓"), Message(b"y"))
            assert [delivery.message.correlation for delivery in reader.collect(2)] == ["Auftrag 4711 ✓", None]

    @requires(Capability.EXPIRATION)
    def test_expiration_comes_back_as_what_is_left(self, template: LinkTemplate) -> None:
        with both(template) as (reader, writer):
            writer.deliver(Message(b"x", expiration=600), Message(b"y"))
            limited, unlimited = (delivery.message for delivery in reader.collect(2))
            assert limited.expiration is not None
            assert 600 - 2 * SOON < limited.expiration <= 600
            assert unlimited.expiration is None

    @requires(Capability.MESSAGE_ID)
    def test_hub_message_id_travels(self, template: LinkTemplate) -> None:
        with both(template) as (reader, writer):
            writer.deliver(Message(b"x", msgid=bytes(range(16))))
            assert reader.one().header(template.message_id_header) == "AQMSGID:" + bytes(range(16)).hex()

    def test_oversized_header_fails_that_one_message(self, template: LinkTemplate) -> None:
        long_name = Message(b"x", headers=(Header("n" * 300, ValueType.TEXT, "v"),))
        long_text = Message(b"x", headers=(Header("n", ValueType.TEXT, "v" * 4001),))
        with both(template) as (reader, writer):
            for message in (long_name, long_text):
                with pytest.raises(ConversionFailure) as raised:
                    writer.destination.encode(message)
                assert raised.value.cause
            writer.deliver(Message(b"next"))
            assert reader.bodies(1) == [b"next"]

    def test_foreign_header_name_of_300_characters_is_delivered_as_failure(self, template: LinkTemplate) -> None:
        pair = template.pair()
        with reading(template.link(), pair) as reader:
            if not template.foreign_long_header(pair, "n" * 300, b"\x00body"):
                pytest.skip(f"{template.spec.title} does not carry header names of 300 characters")
            (delivery,) = reader.collect(1)
            assert isinstance(delivery.failure, ConversionFailure)
            assert "300" in str(delivery.failure)
            assert body_bytes(delivery.message) == b"\x00body"
            template.foreign_publish(pair, [b"next"])
            assert reader.bodies(1) == [b"next"]

    # -- reading ------------------------------------------------------------------------------------------------------

    def test_read_does_not_wait_to_fill_the_batch(self, template: LinkTemplate) -> None:
        with both(template) as (reader, writer):
            reader.settle(reader.source.read(1, 0))  # a new job's first batch may be empty: it fixes where it begins
            writer.deliver(*numbered(3))
            started = time.monotonic()
            batch = reader.source.read(100, SOON)
            assert time.monotonic() - started < SOON / 2
            assert 1 <= len(batch.deliveries) <= 3
            reader.settle(batch)

    def test_read_hands_out_no_more_than_asked(self, template: LinkTemplate) -> None:
        with both(template) as (reader, writer):
            writer.deliver(*numbered(10))
            assert reader.bodies(10, size=3) == numbers(10)

    def test_empty_read_waits_no_longer_than_asked(self, template: LinkTemplate) -> None:
        with reading(template.link(), template.pair()) as reader:
            reader.source.read(10, 0)
            started = time.monotonic()
            batch = reader.source.read(10, 0.5)
            waited = time.monotonic() - started
            assert not batch.deliveries
            assert 0.3 < waited < 5

    @requires(Capability.PUSH)
    def test_waiting_read_returns_as_soon_as_a_message_arrives(self, template: LinkTemplate) -> None:
        with both(template) as (reader, writer):
            reader.settle(reader.source.read(1, 0))
            waiting = in_thread(lambda: reader.source.read(10, 2 * SOON))
            writer.deliver(Message(b"now"))
            batch = waiting(SOON / 2)
            assert [body_bytes(delivery.message) for delivery in batch.deliveries] == [b"now"]
            reader.settle(batch)

    def test_interrupt_wakes_a_waiting_read(self, template: LinkTemplate) -> None:
        with reading(template.link(), template.pair()) as reader:
            reader.source.read(1, 0)
            waiting = in_thread(lambda: reader.source.read(10, 3 * SOON))
            reader.source.interrupt()
            assert not waiting(SOON / 2).deliveries

    def test_interrupted_source_goes_on_reading(self, template: LinkTemplate) -> None:
        with both(template) as (reader, writer):
            reader.source.interrupt()
            writer.deliver(*numbered(3))
            assert reader.bodies(3) == numbers(3)

    @requires(Capability.BACKLOG)
    def test_backlog_counts_what_is_not_yet_read(self, template: LinkTemplate) -> None:
        with both(template) as (reader, writer):
            writer.deliver(*numbered(10))

            def waiting() -> int:
                backlog = reader.source.backlog()
                assert backlog is not None
                return backlog.messages

            wait_until(lambda: waiting() == 10, "backlog of 10")
            reader.collect(4)
            wait_until(lambda: waiting() == 6, "backlog of 6")
            assert reader.bodies(6) == numbers(6, 4)

    # -- settling -----------------------------------------------------------------------------------------------------

    @requires(Capability.REDELIVERY)
    def test_unsettled_messages_come_back_in_order(self, template: LinkTemplate) -> None:
        with both(template) as (reader, writer):
            writer.deliver(*numbered(30))
            reader.batches(20, settle=False)
            reader.reconnect()
            assert reader.bodies(30) == numbers(30)

    @requires(Capability.REDELIVERY)
    def test_settled_messages_do_not_come_back(self, template: LinkTemplate) -> None:
        with both(template) as (reader, writer):
            writer.deliver(*numbered(30))
            first, second, third = (reader.batches(10, settle=False) for _ in range(3))
            for batch in (*first, *second):
                reader.settle(batch)
            assert third
            reader.reconnect()
            assert reader.bodies(10) == numbers(10, 20)
            assert not reader.source.read(10, 0.3).deliveries

    def test_batches_read_ahead_settle_in_order(self, template: LinkTemplate) -> None:
        with both(template) as (reader, writer):
            writer.deliver(*numbered(100))
            ahead = reader.batches(100, size=10, settle=False)
            for batch in ahead:
                reader.settle(batch)
            writer.deliver(Message(b"last"))
            assert reader.bodies(1) == [b"last"]

    @requires(Capability.POSITIONS)
    def test_positions_continue_after_a_restart(self, template: LinkTemplate) -> None:
        pair = template.log_pair()
        with both(template, pair) as (reader, writer):
            writer.deliver(*numbered(50))
            found = reader.bodies(20, size=7)
            positions = reader.positions
            assert positions
            again = Reader(template.link(), use_of(pair.source))
            again.positions = dict(positions)
            try:
                again.connect()
                assert found + again.bodies(30) == numbers(50)
            finally:
                again.source.close()

    @requires(Capability.POSITIONS)
    def test_positions_that_were_not_stored_are_read_again(self, template: LinkTemplate) -> None:
        with both(template, template.log_pair()) as (reader, writer):
            writer.deliver(*numbered(20))
            assert reader.bodies(10) == numbers(10)
            reader.batches(10, settle=False)
            reader.reconnect()
            assert reader.bodies(10) == numbers(10, 10)

    # -- publishing ---------------------------------------------------------------------------------------------------

    def test_confirmed_never_goes_back_and_covers_everything(self, template: LinkTemplate) -> None:
        with both(template) as (reader, writer):
            assert writer.destination.confirmed(0) is None
            seen: list[int] = []
            for sequence in (3, 4, 10, 11, 500):
                writer.destination.publish(
                    sequence, [writer.destination.encode(m) for m in numbered(20, sequence * 20)]
                )
                seen.append(writer.destination.confirmed(0) or 0)
            deadline = time.monotonic() + SOON
            while seen[-1] != 500:
                seen.append(writer.destination.confirmed(0.2) or 0)
                assert time.monotonic() < deadline
            assert seen == sorted(seen)
            assert set(seen) <= {0, 3, 4, 10, 11, 500}
            assert len(reader.bodies(100)) == 100

    def test_thousands_published_in_a_window_keep_their_order(self, template: LinkTemplate) -> None:
        with both(template) as (reader, writer):
            for start in range(0, 5000, 50):
                writer.send(*numbered(50, start))
                if writer.sequence > template.window:
                    writer.confirm(writer.sequence - template.window)
            writer.confirm()
            assert reader.bodies(5000, size=500, seconds=3 * SOON) == numbers(5000)

    def test_confirmed_with_nothing_in_flight_returns_at_once(self, template: LinkTemplate) -> None:
        with both(template) as (reader, writer):
            writer.deliver(Message(b"x"))
            started = time.monotonic()
            assert writer.destination.confirmed(0) == 1
            assert time.monotonic() - started < 10
            assert reader.bodies(1) == [b"x"]

    def test_interrupt_wakes_a_waiting_confirmed(self, template: LinkTemplate) -> None:
        with both(template) as (_, writer):
            waiting = in_thread(lambda: writer.destination.confirmed(3 * SOON))
            writer.destination.interrupt()
            assert waiting(SOON / 2) is None

    # -- faults -------------------------------------------------------------------------------------------------------

    @requires(Capability.REDELIVERY)
    def test_wire_cut_while_reading_loses_nothing(self, template: LinkTemplate) -> None:
        pair = template.pair()
        with template.disturbed() as (link, wire), reading(link, pair) as reader:
            with writing(template.link(), pair) as writer:
                writer.deliver(*numbered(300))
            found = reader.bodies(40, size=10)
            reader.batches(20, size=10, settle=False)
            wire.cut()
            self._read_until_error(reader, template.patience)
            reader.reconnect()
            found += reader.bodies(300 - 40, size=10)
            while first_occurrences(found) != numbers(300):
                found += reader.bodies(1)
            assert len(found) <= 600

    def test_wire_cut_while_publishing_loses_nothing(self, template: LinkTemplate) -> None:
        pair = template.pair()
        with reading(template.link(), pair) as reader, template.disturbed() as (link, wire):
            with writing(link, pair) as writer:
                writer.deliver(*numbered(10))
                with pytest.raises(LinkError):
                    self._publish_and_cut(writer, wire)
                # The engine's part: close, connect, send again what was not confirmed.
                writer.reconnect()
                writer.send(*numbered(990, 10))
                writer.confirm()
            found: list[bytes | None] = []
            deadline = time.monotonic() + SOON
            while len(set(found)) < 1000:
                assert time.monotonic() < deadline, f"{len(set(found))} of 1000 arrived"
                try:
                    batch = reader.source.read(100, 0.5)
                    reader.settle(batch)
                except LinkError:
                    reader.reconnect()
                else:
                    found += [body_bytes(delivery.message) for delivery in batch.deliveries]
            assert set(found) == set(numbers(1000))

    @staticmethod
    def _publish_and_cut(writer: Writer, wire: Wire) -> None:
        for number in range(1, 1000):
            writer.send(*numbered(10, number * 10))
            if number == 5:
                wire.cut()
            writer.destination.confirmed(0.05 if number > 5 else 0)

    def test_stalled_wire_ends_a_read_with_an_error(self, template: LinkTemplate) -> None:
        with template.disturbed() as (link, wire), reading(link, template.pair()) as reader:
            reader.source.read(1, 0)
            wire.stall()
            self._read_until_error(reader, template.patience)
            wire.resume()

    def test_stalled_wire_ends_a_publish_with_an_error(self, template: LinkTemplate) -> None:
        with template.disturbed() as (link, wire), writing(link, template.pair()) as writer:
            writer.deliver(Message(b"x"))
            wire.stall()
            deadline = time.monotonic() + template.patience

            def publish() -> None:
                writer.send(Message(b"y"))
                while time.monotonic() < deadline:
                    writer.destination.confirmed(0.2)

            with pytest.raises(LinkError):
                publish()
            assert time.monotonic() < deadline + 2
            wire.resume()

    def test_stalled_wire_is_noticed_by_a_destination_that_has_nothing_to_send(self, template: LinkTemplate) -> None:
        with template.disturbed() as (link, wire), writing(link, template.pair()) as writer:
            writer.deliver(Message(b"x"))
            wire.stall()
            deadline = time.monotonic() + template.patience

            def idle() -> None:
                while time.monotonic() < deadline:
                    writer.destination.confirmed(0.2)

            with pytest.raises(LinkError):
                idle()
            wire.resume()

    def test_close_on_a_stalled_wire_returns_soon(self, template: LinkTemplate) -> None:
        pair = template.pair()
        with template.disturbed() as (link, wire), reading(link, pair) as reader, writing(link, pair) as writer:
            wire.stall()
            started = time.monotonic()
            reader.source.close()
            writer.destination.close()
            assert time.monotonic() - started < 10
            wire.resume()

    def test_refused_connection_is_unavailable_and_comes_back(self, template: LinkTemplate) -> None:
        pair = template.pair()
        with template.disturbed() as (link, wire), reading(link, pair) as reader:
            wire.refuse()
            self._read_until_error(reader, template.patience)
            reader.source.close()
            with pytest.raises(LinkError):
                reader.source.connect({})
            wire.resume()
            reader.reconnect()
            template.foreign_publish(pair, [b"back"])
            assert reader.bodies(1) == [b"back"]

    def test_link_says_whether_its_system_accepts_connections(self, template: LinkTemplate) -> None:
        with template.disturbed() as (link, wire):
            assert len(link.listening()) == 1
            wire.refuse()
            assert link.listening() == frozenset()
            wire.resume()
            assert len(link.listening()) == 1

    @staticmethod
    def _read_until_error(reader: Reader, seconds: float) -> None:
        deadline = time.monotonic() + seconds

        def read() -> None:
            while time.monotonic() < deadline:
                reader.source.read(1, 0.2)

        with pytest.raises(LinkError):
            read()

    # -- refusals in plain words --------------------------------------------------------------------------------------

    def test_missing_queue_is_named(self, template: LinkTemplate) -> None:
        pair = template.missing()
        if pair is None:
            pytest.skip(f"{template.spec.title}: every queue exists")
        link = template.link()
        actions: tuple[Callable[[], object], ...] = (
            lambda: link.verify(use_of(pair.source), Direction.INBOUND),
            lambda: link.verify(use_of(pair.destination), Direction.OUTBOUND),
            lambda: link.source(use_of(pair.source)).connect({}),
            lambda: link.destination(use_of(pair.destination)).connect(),
        )
        for action in actions:
            with pytest.raises(QueueMissing) as raised:
                action()
            assert pair.source.provider_queue in str(raised.value) or pair.destination.provider_queue in str(
                raised.value
            )
            assert raised.value.number == 434
        if isinstance(link, FindsQueues):
            for endpoint in (*pair, *pair):  # to look for one does not make it
                found = link.find_queue(endpoint)
                assert not found.exists
                for text in (found.detail, found.made_by):
                    assert endpoint.provider_queue.partition("/")[0] in text

    def test_wrong_password_is_refused_in_plain_words(self, template: LinkTemplate) -> None:
        link = template.wrong_password()
        if link is None:
            pytest.skip(f"{template.spec.title}: everybody is let in")
        pair = template.pair()
        actions: tuple[Callable[[], object], ...] = (
            lambda: link.source(use_of(pair.source)).connect({}),
            lambda: link.destination(use_of(pair.destination)).connect(),
        )
        for action in actions:
            with pytest.raises(LinkRefused) as raised:
                action()
            assert link.config.password
            assert link.config.password not in str(raised.value)
            assert raised.value.cause
            assert raised.value.cure
        checks = link.test()
        assert not checks[-1].ok
        assert checks[-1].cure
        assert all(check.ok for check in checks[:-1])

    def test_wrong_port_is_unavailable(self, template: LinkTemplate) -> None:
        link, pair = template.wrong_port(), template.pair()
        for action in (
            lambda: link.source(use_of(pair.source)).connect({}),
            lambda: link.destination(use_of(pair.destination)).connect(),
            lambda: link.verify(use_of(pair.source), Direction.INBOUND),
        ):
            with pytest.raises(LinkUnavailable) as raised:
                action()
            assert raised.value.cause
        checks = link.test()
        assert not checks[-1].ok
        assert checks[-1].cure

    def test_connection_test_lists_what_was_checked(self, template: LinkTemplate) -> None:
        checks = template.link().test()
        assert checks
        assert [check for check in checks if not check.ok] == []
        assert all(check.detail for check in checks)

    def test_wildcard_destination_is_refused(self, template: LinkTemplate) -> None:
        endpoint = template.pattern()
        if endpoint is None:
            pytest.skip(f"{template.spec.title} has no wildcards")
        with pytest.raises(AdminError) as raised:
            template.link().check_endpoint(endpoint, Direction.OUTBOUND)
        assert endpoint.full_name in str(raised.value)
        template.link().check_endpoint(endpoint, Direction.INBOUND)

    def test_unknown_queue_option_is_refused(self, template: LinkTemplate) -> None:
        source = template.pair().source
        endpoint = Endpoint(source.name, source.link, source.provider_queue, source.domain, {"no_such_option": "1"})
        with pytest.raises(AdminError, match="no_such_option"):
            template.link().check_endpoint(endpoint, None)

    def test_verify_declares_a_guarantee(self, template: LinkTemplate) -> None:
        link, pair = template.link(), template.pair()
        for endpoint, direction in ((pair.source, Direction.INBOUND), (pair.destination, Direction.OUTBOUND)):
            link.check_endpoint(endpoint, direction)
            report = link.verify(use_of(endpoint), direction)
            assert report.note or report.level == "exact"
            if isinstance(link, FindsQueues):
                found = link.find_queue(endpoint)
                assert found.exists
                assert found.needs_none == (template.missing() is None), "what every system has was not looked for"

    def test_the_first_message_is_shown_and_stays_as_it_was(self, template: LinkTemplate) -> None:
        link, pair = template.link(), template.pair()
        if not isinstance(link, ShowsMessages):
            pytest.skip(f"{template.spec.title}: no message is shown")
        with both(template, pair) as (reader, writer):
            reader.settle(reader.source.read(1, 0))
            shown: list[Message] = []
            try:
                assert link.first_message(use_of(pair.source)) is None
                writer.deliver(*numbered(2))
                shown += [found.message for _ in "12" if (found := link.first_message(use_of(pair.source)))]
            except LinkRefused as refusal:
                assert "without taking" in refusal.what  # noqa: PT017
                writer.deliver(*numbered(2))
            first, second = reader.collect(2)
            assert [body_bytes(each.message) for each in (first, second)] == numbers(2)
            assert not first.redelivered
            assert shown in ([], [first.message] * 2)

    # -- life of a connection -----------------------------------------------------------------------------------------

    def test_close_is_harmless_at_any_time(self, template: LinkTemplate) -> None:
        link, pair = template.link(), template.pair()
        source, destination = link.source(use_of(pair.source)), link.destination(use_of(pair.destination))
        source.close()
        destination.close()
        source.connect({})
        destination.connect()
        for end in (source, destination, source, destination):
            end.close()
        source.interrupt()
        destination.interrupt()

    def test_use_after_close_is_a_link_error(self, template: LinkTemplate) -> None:
        with both(template) as (reader, writer):
            writer.deliver(Message(b"x"))
            encoded = writer.destination.encode(Message(b"y"))
            reader.source.close()
            writer.destination.close()
            with pytest.raises(LinkError):
                reader.source.read(1, 0.1)

            def publish() -> None:
                writer.destination.publish(2, [encoded])
                writer.destination.confirmed(0.1)

            with pytest.raises(LinkError):
                publish()

    def test_destination_tells_where_confirmed_messages_are(self, template: LinkTemplate) -> None:
        link, pair = template.link(), template.pair()
        with reading(link, pair) as reader, writing(link, pair, located=True) as writer:
            sent = [writer.send(*numbered(size)) for size in (1, 40, 7)]
            writer.confirm()
            assert reader.bodies(48) == numbers(1) + numbers(40) + numbers(7)
            found = [writer.destination.located(sequence) for sequence in sent]
            places = [place for each in found if each is not None for place in each.coordinates()]
            assert [len(each.coordinates()) for each in found if each is not None] == [1, 40, 7]
            assert len(set(places)) == 48
            assert all(place.startswith(pair.destination.provider_queue) for place in places)
            assert [writer.destination.located(sequence) for sequence in sent] == [None, None, None]

    def test_destination_keeps_no_places_unless_it_is_asked_to(self, template: LinkTemplate) -> None:
        with writing(template.link(), template.pair()) as writer:
            writer.deliver(*numbered(5))
            assert writer.destination.located(1) is None

    def test_forget_removes_what_is_not_there_without_complaint(self, template: LinkTemplate) -> None:
        link, pair = template.link(), template.pair()
        use = use_of(pair.source)
        link.forget(use, Direction.INBOUND)
        link.source(use).close()
        link.forget(use, Direction.INBOUND)
        link.forget(use_of(pair.destination), Direction.OUTBOUND)
