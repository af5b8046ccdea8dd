"""What a link owes the gateway, and what the gateway owes a link.

A link module (one per messaging system, the only importer of that system's client) offers a :class:`LinkSpec` named
``SPEC`` and a function ``open_link(config) -> Link``. Everything else goes through the protocols of this module.

Who calls what
--------------
* One thread drives one source or one destination from ``connect`` to ``close``; only ``interrupt`` may be called from
  another thread. A link object itself may be used by several threads (``test``, ``verify``, ``open_*``).
* ``connect`` before anything else, again after any :class:`~mgw.transforms.errors.LinkError` (the engine always calls
  ``close`` first). ``close`` may be called at any time, twice, and without ``connect``; it never raises and never waits
  longer than a few seconds. What was read and not settled comes back after the next ``connect``.
* Every client error leaves a link as a :class:`~transforms.errors.LinkError` (translated in one place per link, ``raise
  ... from``). Nothing else may escape, whatever the broker sends.
* A link never retries, sleeps or reconnects on its own account; waiting and back-off belong to the engine.
* A link never creates or alters anything in the foreign system, except the subscription of a topic job (RabbitMQ: the
  durable queue ``MGW_<job>`` bound to the exchange; MQTT: the persistent session; Kafka: nothing) and, when an operator
  asks for it, its logs (:mod:`mgw.links.log_preparation`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from operator import eq
from typing import Any, NamedTuple, Protocol, runtime_checkable

from mgw.links.attempt import Attempt
from mgw.links.placement import Placement
from mgw.links.skeleton import Skeleton
from mgw.transforms.clock import SYSTEM_CLOCK, Clock
from mgw.transforms.errors import ConversionFailure
from mgw.transforms.gap import Gap
from mgw.transforms.message import Message

__all__ = [
    "BATCH_BYTES",
    "EMPTY_BATCH",
    "RESUME",
    "AnswersSettled",
    "Backlog",
    "Batch",
    "Bounded",
    "Capability",
    "Check",
    "Collects",
    "Delivery",
    "Destination",
    "Direction",
    "Domain",
    "Encoded",
    "Endpoint",
    "Field",
    "Guarantee",
    "GuaranteeReport",
    "JobUse",
    "Limited",
    "Link",
    "LinkConfig",
    "LinkSpec",
    "Mark",
    "Position",
    "Recovered",
    "Source",
    "weakest",
]


class Direction(StrEnum):
    """Which way a link is used: a job reads from it (into the gateway), or writes to it."""

    INBOUND = "INBOUND"
    OUTBOUND = "OUTBOUND"


class Domain(StrEnum):
    """Kind of a foreign queue; None where the messaging system decides."""

    QUEUE = "QUEUE"
    TOPIC = "TOPIC"


class Guarantee(StrEnum):
    """What a job promises, strongest first."""

    EXACT = "exact"
    EXACT_UNLESS_BROKER_CRASH = "exact-unless-broker-crash"
    AT_LEAST_ONCE = "at-least-once"
    AT_MOST_ONCE = "at-most-once"

    @property
    def rank(self) -> int:
        """0 for the strongest; larger is weaker."""
        return list(Guarantee).index(self)


@dataclass(frozen=True, slots=True)
class GuaranteeReport:
    """Level of a job and, unless it is ``exact``, the first condition that failed, in plain words."""

    level: Guarantee
    note: str = ""


def weakest(reports: Sequence[GuaranteeReport]) -> GuaranteeReport:
    """What several ends promise together: no more than the weakest of them; nothing can go wrong between none."""
    return max(reports, key=lambda report: report.level.rank, default=GuaranteeReport(Guarantee.EXACT))


class Capability(Enum):
    """What the conformance suite may ask of a link; a link lists what it has, its docstring says why not the rest."""

    REDELIVERY = "unacknowledged messages are redelivered after close and connect"
    PUSH = "a waiting read returns as soon as a message arrives"
    TYPED_HEADERS = "bool, int, float, text, bytes and date headers come back with their type"
    TEXT_HEADERS = "text headers come back"
    RAW_HEADERS = "bytes headers come back"
    REPEATED_HEADERS = "a header name may occur more than once, order is kept"
    PRIORITY = "AQ priority is carried in a field of the broker"
    CORRELATION = "correlation is carried in a field of the broker"
    EXPIRATION = "expiration is carried in a field of the broker"
    MESSAGE_ID = "the hub's message id is carried in a field of the broker"
    TEXT_BODY = "text and raw bodies are distinguished"
    NULL_BODY = "no body and an empty body are distinguished"
    POSITIONS = "the source has positions that the hub stores (see Position)"
    BACKLOG = "the source can say how many messages wait"
    WILDCARD_SOURCE = "a source may be a pattern over several topics"
    TOPIC_DOMAIN = "foreign queues of domain TOPIC"
    QUEUE_DOMAIN = "foreign queues of domain QUEUE"


@dataclass(frozen=True, slots=True)
class Field:
    """One setting: the only place where its name, default, range and meaning are written down.

    The reference pages, the JSON Schema, the linter and the hiding of secrets are all made from it. ``type`` is one of
    ``str int float bool``; ``choices`` narrows a str. ``alterable`` may change after creation; ``dynamic`` takes effect
    at once, otherwise when the agent reconnects. ``shown``: an attribute of a link that is a column of the SQL view of
    its type, ``MGW_<type>_LINKS``. ``instead``: another field that may be set in the place of a required one.
    """

    name: str
    description: str
    type: type = str
    default: Any = None
    required: bool = False
    secret: bool = False
    alterable: bool = True
    dynamic: bool = False
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    shown: bool = False
    instead: str = ""


@dataclass(frozen=True, slots=True)
class LinkSpec:
    """A messaging system as the gateway knows it. Attribute, option and job option names compare case-insensitively.

    ``mapping`` names what has the table of headers and properties, for the reference: a module with the table in its
    docstring, or a package with ``ROWS`` and ``NOTES`` in its module ``table``.
    """

    type: str
    title: str
    description: str
    attributes: tuple[Field, ...]
    options: tuple[Field, ...] = ()
    queue_options: tuple[Field, ...] = ()
    job_options: tuple[Field, ...] = ()
    domains: tuple[Domain | None, ...] = (None,)
    capabilities: frozenset[Capability] = frozenset()
    extra: str = ""  # pip extra that brings the client
    mapping: str = ""
    #: Names that ``mgw links prepare`` gives to the logs of a link that names none; empty: such jobs need no log.
    inbound_log: str = ""
    outbound_log: str = ""
    skeleton: Skeleton | None = None  # None: ``mgw init`` makes no file for links of this type
    #: Whether a source with the first provider queue reads what is written to the second, at the same system.
    covers: Callable[[str, str], bool] = eq


@dataclass(frozen=True, slots=True)
class LinkConfig:
    """One configured link. ``password`` is clear text in memory only; repr never shows it."""

    name: str
    type: str
    attributes: Mapping[str, Any]
    options: Mapping[str, str] = field(default_factory=dict)
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    client_name: str = "mgw"  # shown by the broker as the connection's name / client id prefix
    inbound_log_queue: str | None = None  # where the link keeps what jobs that read from it need for exactly once
    outbound_log_queue: str | None = None  # where the link keeps the sending log of jobs that write to it


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A registered foreign queue: ``name@link``. ``provider_queue`` is its name in the foreign system.

    RabbitMQ TOPIC: ``exchange/routing.pattern`` as source, ``exchange`` or ``exchange/routing.key`` as destination
    (the empty exchange name is the default exchange).
    """

    name: str
    link: str
    provider_queue: str
    domain: Domain | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        """``name@link``."""
        return f"{self.name}@{self.link}"


@dataclass(frozen=True, slots=True)
class JobUse:
    """An endpoint of one job."""

    endpoint: Endpoint
    job: str
    agent: str = "DEFAULT_AGENT"
    options: Mapping[str, str] = field(default_factory=dict)  # job options, names in lower case
    batch_size: int = 30  # MsgBatchSize
    batch_limit: int = 0  # to which batches grow under load; at most batch_size: they do not
    through: bool = False  # the other end of the job is a link, too: what is on its way to it is not settled yet
    rule: str | None = None
    hub_id: str = ""  # hex; makes names unique where several hubs share a broker
    clock: Clock = SYSTEM_CLOCK
    logged: bool = True  # False for an exception queue: what is written there has no part in the job's sending log
    located: bool = False  # the destination keeps where it put messages, until it is asked (Destination.located)
    attempt: Attempt = field(default_factory=Attempt, repr=False, compare=False)  # of the job, the one under way

    @property
    def largest_batch(self) -> int:
        """Messages that a batch may have; what is read ahead and may be in flight should not be less than two."""
        return max(self.batch_size, self.batch_limit)


class Delivery(NamedTuple):
    """One message read from a source, already in canonical form.

    When the link could not convert it, ``failure`` says why and ``message`` carries the untouched body bytes and
    whatever headers could be read, good enough for an exception queue.
    """

    message: Message
    failure: ConversionFailure | None = None
    redelivered: bool = False
    #: Source coordinates: "commands/0@4711". "@" comes before a position that names this message forever, "#" before a
    #: number that means something within one connection only ("orders#815").
    origin: str = ""
    duplicate: bool = False  # the receiving log proves that the hub has it: it is settled, counted and not stored again


class Position(NamedTuple):
    """Progress of a source in one partition: the hub stores ``after`` in the transaction that stores the messages, and
    only if it still holds ``before`` (None: nothing stored yet). Texts, opaque to the hub: the receiving log."""

    partition: str
    before: str | None
    after: str


class Mark(NamedTuple):
    """An entry of the receiving log that is written without a condition, in the transaction that stores the messages;
    ``value`` None removes it. Marks share their names with the partitions of positions."""

    partition: str
    value: str | None


class Batch(NamedTuple):
    """Messages read together, in source order, with the receiving-log entries that go with them. May hold positions or
    marks and no deliveries (only skipped records were read): they are stored all the same.

    ``gaps``: what the source found missing at this connect and does not stop for, as nothing can be given up there.
    ``ids``: one entry per delivery, a key that the source's publishers make unique, or None. The hub stores every key
    in the same transaction and drops the messages whose key it has already.
    """

    deliveries: Sequence[Delivery]
    positions: Sequence[Position] = ()
    token: Any = None  # the link's own, for settle
    marks: Sequence[Mark] = ()
    ids: Sequence[str | None] = ()
    alone: bool = False  # its entries replace those of older batches: stored only when every batch before it is settled
    gaps: Sequence[Gap] = ()


EMPTY_BATCH = Batch(())

#: Bytes of bodies that a batch should have at most, unless one message has more: sources stop reading there.
BATCH_BYTES = 8 << 20

#: Entry of the receiving log handed to ``Source.connect`` after an operator gave missing messages up: a source with
#: positions begins at the first message that exists. The engine removes it with the first batch that is stored.
RESUME = "!resume"


class Recovered(NamedTuple):
    """What the sending log at the destination proves after a connect: the highest sequence that is stored there, all
    before it included; None: the log is there and holds no record of this job. ``sure`` False: the system was restarted
    since, which may have cost messages of the last records, so what is planned is sent again."""

    sequence: int | None
    sure: bool = True


class Backlog(NamedTuple):
    """Messages waiting at the source (ready, not yet read by us); ``oldest`` epoch seconds of the first, if known."""

    messages: int
    oldest: float | None = None


class Check(NamedTuple):
    """One line of ``mgw links test``."""

    name: str
    ok: bool
    detail: str
    cure: str = ""


Encoded = Any  # a message in the form the destination sends, opaque to the gateway


class Source(Protocol):
    """Where an inbound job reads."""

    def connect(self, positions: Mapping[str, str]) -> None:
        """Connect and subscribe, from the stored receiving log: ``positions`` (partition -> ``Position.after`` or
        ``Mark.value``), empty at first."""
        ...

    def read(self, max_messages: int, wait: float) -> Batch:
        """Up to ``max_messages`` that are there now, in source order; waits at most ``wait`` seconds for the first and
        returns :data:`EMPTY_BATCH` after that. Does not wait to fill the batch, and ends it at about
        :data:`BATCH_BYTES`. Keeps reading ahead (prefetch) between calls, and keeps the connection alive (heartbeats)
        while waiting."""
        ...

    def settle(self, batch: Batch) -> None:
        """Acknowledge a batch; called in the order the batches were read, after the hub has them durably."""
        ...

    def backlog(self) -> Backlog | None:
        """How much waits, or None where the system cannot tell. Cheap enough for every five seconds; called by the
        driving thread."""
        ...

    def interrupt(self) -> None:
        """From any thread: make a waiting ``read`` return now; with nobody waiting, the next wait returns at once."""
        ...

    def close(self) -> None:
        """Disconnect. Idempotent, never raises."""
        ...


class Destination(Protocol):
    """Where an outbound job writes (and where an inbound job's exception messages go)."""

    def connect(self) -> None:
        """Connect and check that the target is there and writable. With a sending log: fence every earlier publisher of
        this job first, then read the log; what it says stays true from then on."""
        ...

    def recovered(self) -> Recovered | None:
        """What the sending log proves, as read by ``connect``; None: this destination keeps no sending log, and what
        was planned and not confirmed is sent again."""
        ...

    def encode(self, message: Message) -> Encoded:
        """The message in sendable form. Pure, no I/O.

        Raises:
            ConversionFailure: this message can never be sent there (header, size, type).
        """
        ...

    def publish(self, sequence: int, messages: Sequence[Encoded]) -> None:
        """Start sending a batch; returns before it is confirmed. Sequences increase by calls, not always by one. May
        wait for room in the broker's or the socket's buffers, up to a timeout of its own (LinkTimeout). With a sending
        log, the record of the sequence becomes durable together with the messages, or neither does."""
        ...

    def confirmed(self, wait: float) -> int | None:
        """The highest sequence of which, and of all published before it, every message is stored safely by the broker;
        None before the first. Waits at most ``wait`` seconds for progress beyond what it last returned (at once if
        nothing is in flight and ``wait`` is 0), and keeps the connection alive while waiting.

        Raises:
            DeliveryRejected: the system refused a batch; ``blame`` says whether the others would be taken.
            LinkError: a publish failed; whatever is not confirmed has an unknown outcome.
        """
        ...

    def stored(self, sequence: int, count: int) -> Collection[int]:
        """After ``publish`` or ``confirmed`` raised and before ``close``: which of the ``count`` messages of a batch
        (indexes in it) the system has for certain. Of the others nothing is known. May wait a few seconds for the
        outcome of what is under way. Empty where the sending log says it after the next ``connect``."""
        ...

    def located(self, sequence: int) -> Placement | None:
        """Where the messages of a confirmed batch are. Told once per sequence and connection; None for one that is not
        known, and always None unless the job's use asks for it (``JobUse.located``)."""
        ...

    def interrupt(self) -> None:
        """From any thread: make a waiting ``confirmed`` return now; with nobody waiting, the next wait does."""
        ...

    def close(self) -> None:
        """Disconnect; what is in flight has an unknown outcome. Idempotent, never raises."""
        ...


class Link(Protocol):
    """One configured messaging system; makes connections, holds none open itself.

    A link lives as long as its definition in the agent: the threads of all its jobs share it, over all their attempts.
    What must be asked again at each attempt of a job is kept in ``JobUse.attempt``. Certificates and other files are
    read again for each source, destination and question.
    """

    config: LinkConfig

    def test(self) -> Sequence[Check]:
        """Try name resolution, port, TLS, credentials, permissions, limits; says what is wrong in plain words. Never
        raises; the first failed check ends the list."""
        ...

    def listening(self) -> frozenset[str]:
        """Those of its addresses, as ``host:port``, where connections are accepted now; never raises. Asked about every
        second while jobs wait for the system: no handshake, no login, about a second at most. A system that has no
        address always answers with nothing; its jobs try again after their delays only."""
        ...

    def verify(self, use: JobUse, direction: Direction) -> GuaranteeReport:
        """Check on the live system that the endpoint exists and can be used in this direction, and what the job can
        promise. Run at job activation, and again after every reconnect.

        Raises:
            LinkError: QueueMissing, LinkRefused, LinkUnavailable.
        """
        ...

    def check_endpoint(self, endpoint: Endpoint, direction: Direction | None) -> None:
        """Refuse, without a connection, what can never work (wildcard destination, unknown option, bad value).

        Raises:
            AdminError: with the reason; ``direction`` None means: at registration, use not known yet.
        """
        ...

    def source(self, use: JobUse) -> Source:
        """A source for the job, not yet connected."""
        ...

    def destination(self, use: JobUse) -> Destination:
        """A destination for the job, not yet connected."""
        ...

    def forget(self, use: JobUse, direction: Direction) -> None:
        """Remove what the job left in the foreign system (its subscription). Missing is fine."""
        ...


@runtime_checkable
class Collects(Protocol):
    """A link that can tell what the subscription of a job which reads a topic has collected: it is deleted with it."""

    def collected(self, use: JobUse) -> int:
        """Messages in the subscription; 0 where there is none. Connects.

        Raises:
            LinkError: the messaging system does not answer or refuses.
        """
        ...


@runtime_checkable
class AnswersSettled(Protocol):
    """A source that can find out whether its system has taken what was settled."""

    def await_settled(self, seconds: float) -> None:
        """Wait until the system has taken every batch that was settled, for ``seconds`` at most; an interruption does
        not end the wait. Called by the driving thread when a job ends in good order, before ``close``.

        Raises:
            LinkError: the connection ended, or the system did not answer.
        """
        ...


@runtime_checkable
class Limited(Protocol):
    """A destination that knows when a limit of its system keeps messages back."""

    @property
    def limit(self) -> str:
        """The limit that is in force now, in words; empty: none is known. From any thread, at once."""
        ...


@runtime_checkable
class Bounded(Protocol):
    """A destination whose sending log has room for so many messages. Batches grow no further; MsgBatchSize may be more
    all the same. Asked after ``connect``."""

    @property
    def largest_batch(self) -> int | None:
        """Messages in a batch; None: there is no such limit."""
        ...
