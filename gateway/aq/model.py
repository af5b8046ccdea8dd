"""What the hub's calls take and give: frozen records and enumerations, names as in DBMS_AQ and DBMS_AQADM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, Literal, NamedTuple

from mgw.gateway.aq.names import QualifiedName
from mgw.transforms.message import Message

__all__ = [
    "FOREVER",
    "INFINITE",
    "NO_WAIT",
    "Agent",
    "Claimed",
    "Counts",
    "DeliveryMode",
    "DequeueMode",
    "DequeueOptions",
    "Dequeued",
    "Durability",
    "EnqueueOptions",
    "Navigation",
    "PayloadType",
    "PutResult",
    "QueueInfo",
    "QueueRef",
    "QueueTableInfo",
    "QueueType",
    "SequenceDeviation",
    "SortList",
    "State",
    "SubscriberInfo",
    "TransformationInfo",
    "TypeInfo",
    "Visibility",
]

FOREVER: float = float("inf")
NO_WAIT: float = 0
INFINITE: float = -1  # retention_time


class State(IntEnum):
    """State of a message (single-consumer queue) or of one consumer's entry (AQ guide 12.2 §2.15, §9.10).

    READY to EXPIRED have the documented numbers. UNDELIVERABLE is an entry over its retry limit whose message is still
    there for others; CLAIMED: held by a session or by a job's durable plan; SPLIT is the message row of a
    multi-consumer message, whose entries carry the states.
    """

    READY = 0
    WAITING = 1
    PROCESSED = 2
    EXPIRED = 3
    UNDELIVERABLE = 4
    CLAIMED = 8
    SPLIT = 9


class PayloadType(StrEnum):
    """What the messages of a queue table hold (AQ guide 12.2 §2.2; BASIC and FIELDS: §20.1)."""

    RAW = "RAW"
    BASIC = "BASIC"
    FIELDS = "FIELDS"
    TEXT = "TEXT"
    JSON = "JSON"
    XMLTYPE = "XMLTYPE"
    ANYDATA = "ANYDATA"
    OBJECT = "OBJECT"  # of the object type that the queue table names


class SortList(StrEnum):
    """Order of dequeue, ascending (AQ guide 12.2 §8.1.1)."""

    ENQ_TIME = "ENQ_TIME"
    ENQ_TIME_PRIORITY = "ENQ_TIME,PRIORITY"
    PRIORITY = "PRIORITY"
    PRIORITY_ENQ_TIME = "PRIORITY,ENQ_TIME"
    PRIORITY_COMMIT_TIME = "PRIORITY,COMMIT_TIME"
    COMMIT_TIME = "COMMIT_TIME"


class QueueType(StrEnum):
    """AQ guide 12.2 §2.14."""

    NORMAL = "NORMAL_QUEUE"
    EXCEPTION = "EXCEPTION_QUEUE"


class Visibility(StrEnum):
    """Whether a call belongs to the session's transaction or is one of its own (AQ guide 12.2 §10.2, §10.5)."""

    ON_COMMIT = "ON_COMMIT"
    IMMEDIATE = "IMMEDIATE"


class DeliveryMode(StrEnum):
    """AQ guide 12.2 §10.2."""

    PERSISTENT = "PERSISTENT"
    BUFFERED = "BUFFERED"
    PERSISTENT_OR_BUFFERED = "PERSISTENT_OR_BUFFERED"


class DequeueMode(StrEnum):
    """AQ guide 12.2 §1.7, §10.5."""

    REMOVE = "REMOVE"
    BROWSE = "BROWSE"
    LOCKED = "LOCKED"
    REMOVE_NODATA = "REMOVE_NODATA"


class Navigation(StrEnum):
    """Where a dequeue looks (AQ guide 12.2 §1.7, §10.5, §10.6).

    NEXT_TRANSACTION, and the four with GROUP in their names (arrays only), are for queues with transaction groups.
    """

    NEXT_MESSAGE = "NEXT_MESSAGE"
    FIRST_MESSAGE = "FIRST_MESSAGE"
    NEXT_TRANSACTION = "NEXT_TRANSACTION"
    NEXT_MESSAGE_ONE_GROUP = "NEXT_MESSAGE_ONE_GROUP"
    FIRST_MESSAGE_ONE_GROUP = "FIRST_MESSAGE_ONE_GROUP"
    NEXT_MESSAGE_MULTI_GROUP = "NEXT_MESSAGE_MULTI_GROUP"
    FIRST_MESSAGE_MULTI_GROUP = "FIRST_MESSAGE_MULTI_GROUP"


class SequenceDeviation(StrEnum):
    """Where a message goes instead of behind the others (AQ guide 12.2 §10.2; deprecated there)."""

    BEFORE = "BEFORE"
    TOP = "TOP"


@dataclass(frozen=True, slots=True)
class EnqueueOptions:
    """AQ guide 12.2 §10.2. Enumerations may be given as text, in either case.

    Attributes:
        visibility: ON_COMMIT: with the session's transaction; IMMEDIATE: at once, in a transaction of its own.
        relative_msgid: the message to go before (16 bytes); ignored unless ``sequence_deviation`` is BEFORE.
        sequence_deviation: BEFORE: directly ahead of ``relative_msgid``; TOP: ahead of all messages; None: in order.
            The message must not have a longer delay nor a larger priority number than the message it goes before.
        transformation: applied to every message before it is stored: rules and recipients see the result.
        delivery_mode: PERSISTENT. Buffered messages are refused.
    """

    visibility: Visibility | str = Visibility.ON_COMMIT
    relative_msgid: bytes | None = None
    sequence_deviation: SequenceDeviation | str | None = None
    transformation: str | None = None
    delivery_mode: DeliveryMode | str = DeliveryMode.PERSISTENT


@dataclass(frozen=True, slots=True)
class DequeueOptions:
    """AQ guide 12.2 §10.5.

    Attributes:
        consumer_name: required on multi-consumer queues, None on others and on exception queues.
        dequeue_mode: REMOVE, BROWSE, LOCKED or REMOVE_NODATA.
        navigation: where the search starts, see AQ guide 12.2 §1.7.
        visibility: ignored for BROWSE.
        wait: seconds, :data:`FOREVER` (default) or :data:`NO_WAIT`; used only when nothing matches.
        msgid: exactly this message (16 bytes), also while it waits for its delay.
        correlation: exact, or a pattern with ``%`` and ``_``.
        deq_condition: a Boolean expression over the message, at most 4000 characters.
        transformation: applied to every message before it is returned, in place of the one of the subscriber; what is
            stored stays as it is.
        delivery_mode: PERSISTENT; or PERSISTENT_OR_BUFFERED, which needs visibility IMMEDIATE and finds the persistent
            messages. Buffered messages alone are refused.
    """

    consumer_name: str | None = None
    dequeue_mode: DequeueMode = DequeueMode.REMOVE
    navigation: Navigation = Navigation.NEXT_MESSAGE
    visibility: Visibility = Visibility.ON_COMMIT
    wait: float = FOREVER
    msgid: bytes | None = None
    correlation: str | None = None
    deq_condition: str | None = None
    transformation: str | None = None
    delivery_mode: DeliveryMode | str = DeliveryMode.PERSISTENT


class Agent(NamedTuple):
    """Producer or consumer (AQ guide 12.2 §2.3). ``address`` None: a consumer of the queue itself."""

    name: str | None
    address: str | None = None
    protocol: int = 0


class Dequeued(NamedTuple):
    """A message handed out by a session (AQ guide 12.2 §10.5, §10.2).

    ``state`` is the one it had; ``transaction_group`` shows which messages of an array were enqueued together (None:
    the queue has no transaction groups, or one message was asked for). ``delivery_mode`` is PERSISTENT.
    """

    msgid: bytes
    message: Message
    state: State
    transaction_group: str | None = None
    delivery_mode: DeliveryMode = DeliveryMode.PERSISTENT


class Claimed(NamedTuple):
    """A message taken by a job's plan; ``id`` is what complete, release and load take."""

    id: int
    message: Message


class PutResult(NamedTuple):
    """What :func:`mgw.gateway.aq.queues.transfer.put` stored.

    ``msgids`` has one entry per message given, None where the message had no recipient and was left out;
    ``discarded`` lists the indexes of those.
    """

    msgids: list[bytes | None]
    discarded: list[int]


@dataclass(frozen=True, slots=True)
class QueueRef:
    """A queue as the data path needs it. Enabled flags and retry settings are read fresh by every verb."""

    id: int
    name: str
    schema: str
    queue_type: QueueType
    queue_table: str
    queue_table_id: int
    payload_type: PayloadType
    sort_list: SortList
    multiple_consumers: bool
    secure: bool
    max_payload: int
    hub_id: bytes
    grouped: bool = False  # the messages of a transaction are one group
    object_type: str | None = None  # SCHEMA.NAME
    type_id: int | None = None
    jms_types: bool = False

    def __hash__(self) -> int:
        return self.id  # what differs has, but for an altered queue, another id; sixteen fields cost more than a look

    @property
    def by_commit(self) -> bool:
        """Whether messages are ordered by the commit of the transaction that enqueued them."""
        return self.sort_list in (SortList.COMMIT_TIME, SortList.PRIORITY_COMMIT_TIME)

    @property
    def full_name(self) -> str:
        """The plain name in the default schema, else ``schema.name``."""
        return QualifiedName(self.schema, self.name).shown


@dataclass(frozen=True, slots=True)
class QueueTableInfo:
    """One row of DBA_QUEUE_TABLES; sizes in bytes; instance 0 = any."""

    id: int
    schema: str
    name: str
    payload_type: PayloadType
    sort_list: SortList
    multiple_consumers: bool
    message_grouping: str
    compatible: str
    secure: bool
    max_payload: int
    comment: str | None
    storage_clause: str | None
    primary_instance: int
    secondary_instance: int
    object_type: str | None = None
    type_id: int | None = None
    jms_types: bool = False
    options: Mapping[str, str] = field(default_factory=dict)  # mgw.gateway.aq.options.QUEUE_TABLE_OPTIONS

    @property
    def full_name(self) -> str:
        """The plain name in the default schema, else ``schema.name``."""
        return QualifiedName(self.schema, self.name).shown


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """One row of DBA_QUEUES; times in seconds, ``retention_time`` -1 = forever.

    A direction that is being stopped, or whose stop was cut off, is not enabled; ``start_queue`` enables it again.
    """

    id: int
    schema: str
    name: str
    queue_table: str
    queue_type: QueueType
    max_retries: int
    retry_delay: float
    retention_time: float
    enqueue_enabled: bool
    dequeue_enabled: bool
    comment: str | None
    payload_type: PayloadType
    multiple_consumers: bool
    object_type: str | None = None

    @property
    def full_name(self) -> str:
        """The plain name in the default schema, else ``schema.name``."""
        return QualifiedName(self.schema, self.name).shown


@dataclass(frozen=True, slots=True)
class RuleFunction:
    """A Python function that rules of the hub call by ``name``: ``function`` is ``package.module:function``."""

    name: str
    function: str


@dataclass(frozen=True, slots=True)
class TypeInfo:
    """An object type.

    Attributes:
        attributes: declared type by attribute name, in order; empty for an array type.
        array: ``VARRAY(n) OF type`` of an array type, else None.
        shape: digest of names and types of the attributes; equal exactly for identical types.
        created: epoch seconds.
    """

    schema: str
    name: str
    attributes: Mapping[str, str]
    array: str | None
    shape: str
    created: float

    @property
    def full_name(self) -> str:
        """The plain name in the default schema, else ``schema.name``."""
        return QualifiedName(self.schema, self.name).shown


@dataclass(frozen=True, slots=True)
class TransformationInfo:
    """A registered transformation (AQ guide 12.2 §8.4).

    Attributes:
        from_type, to_type: payload types it takes and gives: ``RAW``, ``BASIC``..., ``SCHEMA.NAME`` of an object type.
        definition: what it does, as :mod:`mgw.transforms.steps.registry` reads it; None where it has expressions.
        expressions: expression by attribute number of the type it gives; 0 is the whole.
        created: epoch seconds.
        id, version: the hub's own; the version changes with every change.
    """

    schema: str
    name: str
    from_type: str
    to_type: str
    definition: Mapping[str, Any] | None = None
    expressions: Mapping[int, str] = field(default_factory=dict)
    comment: str | None = None
    created: float = 0
    id: int = 0
    version: int = 0

    @property
    def full_name(self) -> str:
        """The plain name in the default schema, else ``schema.name``."""
        return QualifiedName(self.schema, self.name).shown


@dataclass(frozen=True, slots=True)
class SubscriberInfo:
    """One row of DBA_QUEUE_SUBSCRIBERS."""

    id: int
    queue: str
    name: str | None
    address: str | None
    protocol: int
    rule: str | None
    transformation: str | None
    delivery_mode: DeliveryMode
    queue_to_queue: bool
    options: Mapping[str, str] = field(default_factory=dict)  # mgw.gateway.aq.options.SUBSCRIBER_OPTIONS


@dataclass(frozen=True, slots=True)
class Counts:
    """Messages of a queue, or of one of its consumers, by state.

    Attributes:
        ready: can be taken; for a multi-consumer queue as a whole: not yet consumed by everybody.
        waiting: their delay or retry delay is not over.
        claimed: held by sessions and jobs.
        expired: in this exception queue (always 0 for a consumer).
        oldest: enqueue time of the READY one that comes next, epoch seconds.
    """

    ready: int
    waiting: int
    claimed: int
    expired: int
    oldest: float | None


#: ``full``: a commit survives power loss. ``fast``: the last commits may be lost then.
Durability = Literal["full", "fast"]


DEFAULT_MAX_RETRIES = 5  # AQ guide 12.2 §1.7, §11.7.5
