"""What the Kafka link needs of a client library: the seam between the link and kafka-python or librdkafka.

The link decides what is read, sent, refused and reported. A client connects, reads records, sends them, runs
transactions and answers questions about the cluster. Errors of a library leave it as they are; :meth:`Client.failure`
says what they mean, and :func:`mgw.links.kafka.errors.translate` makes the gateway's errors of that. Only what a client
has to say of a topic or a transaction itself it raises as a :class:`~mgw.transforms.errors.LinkError`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, NamedTuple, Protocol

from mgw.links.contract import JobUse
from mgw.links.kafka.oauth import Tokens
from mgw.links.placement import Placement
from mgw.links.tls import Tls
from mgw.transforms.kafka import Received, Record

__all__ = [
    "Asked",
    "Client",
    "Cluster",
    "Consumer",
    "Described",
    "Failure",
    "Flight",
    "Kind",
    "LogReader",
    "LogRecord",
    "Place",
    "Producer",
    "Sendable",
    "Server",
    "Settings",
    "Topic",
    "Transactions",
]


class Kind(Enum):
    """What an error of a client library is about."""

    FENCED = auto()  # another producer with the same transactional id came later
    LOGIN = auto()
    MECHANISM = auto()  # the listener does not offer this way to log in
    FORBIDDEN = auto()
    TLS = auto()  # the handshake failed
    LOST = auto()  # an offset that the log does not hold
    MISSING = auto()  # there is no such topic or partition
    TOO_LARGE = auto()
    TIMESTAMP = auto()
    REJECTED = auto()
    REPLICAS = auto()
    TIMEOUT = auto()
    CODEC = auto()  # the compression is not installed
    UNREACHABLE = auto()
    VERSION = auto()  # the server is too old
    EXISTS = auto()  # the topic is there already
    PASSING = auto()  # the client calls it retriable
    OTHER = auto()


class Failure(NamedTuple):
    """An error of a client library.

    ``cause`` is its name and text. ``final``: a server refused what it was sent, for good. ``message``: the message is
    to blame for that. ``lost``: partition and offset that the log does not hold.
    """

    kind: Kind
    name: str
    cause: str
    final: bool = False
    message: bool = False
    lost: tuple[int, int] | None = None


class Place(NamedTuple):
    """A partition."""

    topic: str
    partition: int


class Sendable(NamedTuple):
    """A record and its size in bytes."""

    record: Record
    size: int


class Server(NamedTuple):
    """A server, under the address that it announces."""

    number: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Cluster:
    """What the cluster says about itself."""

    cluster_id: str
    servers: Sequence[Server]
    release: str  # the oldest that it can be; "" where the client does not tell


@dataclass(frozen=True, slots=True)
class Topic:
    """What the cluster says about a topic."""

    name: str
    cluster_id: str
    topic_id: str  # "" where the cluster is too old to have one
    partitions: tuple[int, ...]
    config: Mapping[str, str] | None  # None where we may not read it
    replicas: int = 1  # of the partition that has the fewest


@dataclass(frozen=True, slots=True)
class Settings:
    """Attributes and options of a link in the form the client takes them."""

    link: str
    client: Client = field(repr=False)
    servers: tuple[str, ...]
    common: Mapping[str, Any] = field(repr=False)  # every client; holds the password
    consumer: Mapping[str, Any]
    producer: Mapping[str, Any]
    max_request_size: int | None  # bytes; None: what the topic takes
    delivery_timeout: float  # seconds without any progress after which a destination gives up
    tls: Tls = field(default_factory=lambda: Tls("", on=False))
    tokens: Tokens | None = None  # where the login OAUTHBEARER gets its token
    log_topic: str | None = None  # the link's outbound_log_queue

    def client_id(self, job: str) -> str:
        """How the cluster sees a job's connections."""
        return f"{self.common['client_id']}-{job}"

    @property
    def timeout(self) -> float:
        """Seconds to wait for the answer to one request."""
        return float(self.common["request_timeout_ms"]) / 1000


class Described(NamedTuple):
    """A topic, and what the user may do with it; empty where the cluster does not say it."""

    topic: Topic
    allowed: Sequence[str]


class Consumer(Protocol):
    """Reads what is committed in one topic, from offsets that the link names; one thread drives it."""

    def ranges(self, numbers: Sequence[int]) -> Mapping[int, tuple[int, int]]:
        """First offset of each partition, and the one after the last that is committed."""
        ...

    def ends(self, numbers: Sequence[int]) -> Mapping[int, int]:
        """The offset after the last committed record of each partition.

        Raises:
            TimeoutError: the servers do not answer within KAFKA_Request_timeout_ms.
        """
        ...

    def start(self, offsets: Mapping[int, int]) -> None:
        """Read these partitions, and no others, from there."""
        ...

    def poll(self, seconds: float, most: int) -> Mapping[int, Sequence[Received]]:
        """Records that are there, by partition; waits about so long for the first, or less: ask again."""
        ...

    def overdue(self) -> float | None:
        """Seconds that an answer is late while every server is asked for records and nothing waits here; 0 while they
        may wait for some. None: not all are asked, or it is not known."""
        ...

    def wake(self) -> None:
        """From any thread: make a waiting :meth:`poll` return soon, or the next one not wait."""
        ...

    def position(self, number: int) -> int | None:
        """The offset that comes next, also behind records that nobody gets; None: not known."""
        ...

    def partitions(self) -> set[int] | None:
        """The partitions as the client knows them by now, without a request; None: the topic is not there."""
        ...

    def topic_id(self) -> str:
        """The id of the topic as the client knows it by now; "" for none."""
        ...

    def close(self) -> None:
        """Never raises, ends within a second or two."""
        ...


class Flight(Protocol):
    """A batch under way."""

    sequence: int
    size: int
    count: int
    looked: int  # records before this one are stored

    def look(self) -> None:
        """Count what has been stored, in order.

        Raises:
            Exception: of a record that failed, the one that tells most.
        """
        ...

    def refusal(self) -> BaseException | None:
        """The first answer of a server that refused a record for good; None if there is none."""
        ...

    def stored(self, seconds: float) -> Sequence[int]:
        """Which records are known to be stored; waits so long for the outcome of those that have none."""
        ...

    def placement(self, start: int, stop: int) -> Placement | None:
        """Where records of it are, all of them stored; None for no records."""
        ...


class Asked(Protocol):
    """A question to the cluster, to be looked at again and again."""

    @property
    def is_done(self) -> bool:
        """Whether it was answered, or failed."""
        ...

    def succeeded(self) -> bool:
        """Whether it was answered."""
        ...


class Producer(Protocol):
    """Sends records and gives none up by itself; one thread drives it, any may call :meth:`wake`."""

    def known(self, topic: str) -> None:
        """Find out who leads the topic's partitions.

        Raises:
            Exception: it could not.
        """
        ...

    def partitions(self, topic: str) -> set[int] | None:
        """The partitions as the client knows them by now, without a request; None: the topic is not there."""
        ...

    def publish(self, topic: str, sequence: int, messages: Sequence[Sendable], size: int) -> Flight:
        """Hand records over. Where that fails in the middle, the flight says so at the next look at it."""
        ...

    def wait(self, seconds: float, flight: Flight | None) -> None:
        """Wait for progress of a flight, or for :meth:`wake`."""
        ...

    def wake(self) -> None:
        """End the wait, or the next one."""
        ...

    def ask(self, topic: str) -> Asked:
        """Ask for the topic over a connection that is there, without waiting long."""
        ...

    def throttled(self) -> bool:
        """Whether a quota of the cluster holds requests back now, as far as the client tells; from any thread."""
        ...

    def heard(self) -> float | None:
        """Seconds since a server told of topics, which the client asks for by itself; None: no connection, or not
        known."""
        ...

    def close(self) -> None:
        """End within a few seconds; what was not sent is dropped."""
        ...


class LogRecord(NamedTuple):
    """A record of the sending log that goes with a transaction."""

    place: Place
    key: bytes
    value: bytes | None


class Transactions(Protocol):
    """The only producer of a job; one thread runs transactions, any thread may call :meth:`stop`."""

    def partitions(self, topic: str) -> set[int] | None:
        """See :meth:`Producer.partitions`."""
        ...

    def ask(self, topic: str) -> Asked:
        """See :meth:`Producer.ask`."""
        ...

    def throttled(self) -> bool:
        """See :meth:`Producer.throttled`."""
        ...

    def heard(self) -> float | None:
        """See :meth:`Producer.heard`."""
        ...

    @property
    def flight(self) -> Flight | None:
        """What the last transaction sent."""
        ...

    def run(self, topic: str, messages: Iterable[Sendable], record: LogRecord, what: str) -> None:
        """One transaction: records for a topic, and one of the sending log.

        Raises:
            LinkTimeout: the outcome is unknown; only the sending log can tell.
            LinkError: nothing was stored, or the outcome is unknown. In any case this object is of no use any more.
        """
        ...

    def end_open(self, reader: LogReader, log: Sequence[Place], others: Sequence[Place], key: bytes, what: str) -> None:
        """End what earlier producers of the job left open and no server has marked.

        As was decided; where nobody knows that, it stands if its record in the log does. ``key``: of these records.

        Raises:
            LinkError: it is not sure that it was done. This object is of no use any more.
        """
        ...

    def stop(self) -> None:
        """Let a running transaction end soon, aborted unless its commit was under way."""
        ...

    def close(self) -> None:
        """Give the producer up; no transaction may be running in another thread."""
        ...


class LogReader(Protocol):
    """Reads partitions of the sending log, one after the other, as far as they are committed."""

    def range(self, place: Place) -> tuple[int, int]:
        """First offset, and the one after the last, of open transactions, too."""
        ...

    def start(self, place: Place, offset: int) -> None:
        """Read that partition from there."""
        ...

    def poll(self, seconds: float) -> Sequence[Received]:
        """Records of it, and waits so long for the first."""
        ...

    def position(self) -> int:
        """The offset that comes next."""
        ...

    def close(self) -> None:
        """Never raises."""
        ...


class Client(Protocol):
    """A client library."""

    name: str
    asks_for_transactions: bool  # whether it can ask a server what it knows of a transaction
    takes_server_name: bool  # whether another name than the host can be looked for in the certificate of a server

    def failure(self, error: BaseException) -> Failure:
        """What an error of the library means."""
        ...

    def check_compression(self, link: str, compression: str) -> None:
        """Refuse a compression that cannot be used.

        Raises:
            ConfigInvalid: the package is not installed.
        """
        ...

    def describe(self, settings: Settings, name: str, operation: str) -> Described:
        """Ask for a topic without ever creating it. Raises LinkError, or what the library raises."""
        ...

    def cluster(self, settings: Settings, operation: str) -> Cluster:
        """Who serves the cluster.

        Raises:
            LinkError: nobody answers, or the login is refused.
        """
        ...

    def create_topic(self, settings: Settings, name: str, partitions: int, replicas: int, config: Any) -> None:
        """Create a topic and wait until it is known. Raises LinkError, or what the library raises."""
        ...

    def extend_topic(self, settings: Settings, name: str, partitions: int) -> None:
        """Give a topic more partitions. Raises LinkError, or what the library raises."""
        ...

    def consumer(self, settings: Settings, use: JobUse) -> Consumer:
        """A connected consumer. Raises LinkError."""
        ...

    def producer(self, settings: Settings, use: JobUse, limit: int) -> Producer:
        """A connected producer of messages of at most so many bytes. Raises LinkError."""
        ...

    def may_be_left_open(self, settings: Settings, topics: Sequence[Topic]) -> bool:
        """Whether these topics hold records of transactions that have not ended, and the client could not end them as a
        server had decided. Raises LinkError, or what the library raises."""
        ...

    def transactions(self, settings: Settings, use: JobUse, limit: int) -> Transactions:
        """The only producer of the job; earlier ones are shut out, and their transaction is ended. Raises LinkError."""
        ...

    def log_reader(self, settings: Settings, use: JobUse) -> LogReader:
        """A connected reader of the sending log. Raises LinkError."""
        ...
