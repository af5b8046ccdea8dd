"""The objects an operator defines, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from mgw.gateway.aq import JOB_SUBSCRIBER, QueueRef, RuleFunction
from mgw.gateway.definitions.job_words import LEAVING
from mgw.gateway.definitions.outbound import OutboundSchedule
from mgw.links.contract import Domain, Endpoint, Guarantee, LinkConfig

__all__ = [
    "DEFAULT_AGENT",
    "DEFAULT_BATCH_LIMIT",
    "DEFAULT_BATCH_SIZE",
    "DEFAULT_POLL_INTERVAL",
    "Activity",
    "AgentDef",
    "AgentStatus",
    "ForeignQueueDef",
    "JobDef",
    "JobStatus",
    "LinkDef",
    "Propagation",
    "ScheduleDef",
    "Snapshot",
    "TransformationDef",
    "key",
    "split_foreign",
]

DEFAULT_AGENT = "DEFAULT_AGENT"
DEFAULT_BATCH_SIZE = 30  # messages, AQ guide 12.2 §18.6
DEFAULT_BATCH_LIMIT = 500  # messages, to which batches grow under load
DEFAULT_POLL_INTERVAL = 5.0  # seconds, AQ guide 12.2 §18.6


def key(name: str) -> str:
    """The form in which names compare."""
    return name.upper()


def split_foreign(name: str) -> tuple[str, str] | None:
    """``queue@link`` as its two parts, or None if the name is not of that form."""
    queue, at, link = name.rpartition("@")
    return (queue, link) if at and queue and link else None


class AgentStatus(StrEnum):
    """AGENT_STATUS (AQ guide 12.2 §21.2)."""

    NOT_STARTED = "NOT_STARTED"
    START_SCHEDULED = "START_SCHEDULED"
    STARTING = "STARTING"
    INITIALIZING = "INITIALIZING"
    RUNNING = "RUNNING"
    SHUTTING_DOWN = "SHUTTING_DOWN"
    BROKEN = "BROKEN"


class Propagation(StrEnum):
    """Propagation type of a job: which of its ends are queues of the hub (AQ guide 12.2 §19.5, the first two)."""

    INBOUND = "INBOUND"  # from a link into the hub
    OUTBOUND = "OUTBOUND"  # from the hub to a link
    THROUGH = "THROUGH"  # from a link to a link, with no queue of the hub between
    LOCAL = "LOCAL"  # from a queue of the hub to another of the same hub

    @property
    def from_link(self) -> bool:
        """Whether the source is a foreign queue."""
        return self in {Propagation.INBOUND, Propagation.THROUGH}

    @property
    def to_link(self) -> bool:
        """Whether the destination is a foreign queue."""
        return self in {Propagation.OUTBOUND, Propagation.THROUGH}


class JobStatus(StrEnum):
    """STATUS of a job (AQ guide 12.2 §21.3)."""

    READY = "READY"
    RETRY = "RETRY"
    FAILED = "FAILED"
    DELETE_PENDING = "DELETE_PENDING"
    SUBSCRIBER_DELETE_PENDING = "SUBSCRIBER_DELETE_PENDING"  # its schedule stays

    @property
    def leaving(self) -> bool:
        """Whether it is marked for removal: it moves nothing any more, and its clean-up is not complete."""
        return self in LEAVING


class Activity(StrEnum):
    """What a job is doing right now; :mod:`mgw.gateway.definitions.job_words` says what each means."""

    STOPPED = "STOPPED"
    CONNECTING = "CONNECTING"
    RUNNING = "RUNNING"
    IDLE = "IDLE"
    BACKOFF = "BACKOFF"
    STUCK = "STUCK"
    BLOCKED = "BLOCKED"
    DRAINING = "DRAINING"


@dataclass(frozen=True, slots=True)
class AgentDef:
    """An agent: one process that runs jobs (AQ guide 12.2 §19.2)."""

    name: str
    max_memory: int = 64  # MB
    max_threads: int = 16  # jobs that may work at the same time, 1..128
    username: str | None = None
    database: str | None = None
    conntype: str = "JDBC_OCI"
    service: str | None = None
    initfile: str | None = None
    comments: str | None = None


@dataclass(frozen=True, slots=True)
class LinkDef:
    """A link as defined; ``password`` is clear text in memory only."""

    name: str
    type: str  # RABBITMQ, KAFKA, MQTT, MEMORY
    agent: str = DEFAULT_AGENT
    attributes: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    max_connections: int | None = None
    inbound_log_queue: str | None = None
    outbound_log_queue: str | None = None
    comments: str | None = None

    def config(self) -> LinkConfig:
        """The definition as the code of the link takes it."""
        return LinkConfig(
            self.name,
            self.type,
            self.attributes,
            self.options,
            self.username,
            self.password,
            inbound_log_queue=self.inbound_log_queue,
            outbound_log_queue=self.outbound_log_queue,
        )


@dataclass(frozen=True, slots=True)
class ForeignQueueDef:
    """A registered foreign queue, ``name@link``."""

    name: str
    link: str
    provider_queue: str
    domain: Domain | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    comments: str | None = None

    def endpoint(self) -> Endpoint:
        """The registration as a link sees it."""
        return Endpoint(self.name, self.link, self.provider_queue, self.domain, self.options)


@dataclass(frozen=True, slots=True)
class TransformationDef:
    """A registered transformation; ``definition`` as :mod:`mgw.transforms.steps.registry` reads it."""

    name: str
    from_type: str
    to_type: str
    definition: Mapping[str, Any] = field(default_factory=dict)
    comments: str | None = None


@dataclass(frozen=True, slots=True)
class JobDef:
    """A propagation job (AQ guide 12.2 §19.5). ``link``: what it reads from, else what it writes to, else empty."""

    id: int
    name: str
    agent: str
    link: str
    propagation_type: Propagation
    source: str
    destination: str
    rule: str | None = None
    transformation: str | None = None
    exception_queue: str | None = None
    poll_interval: float | None = None  # seconds
    options: Mapping[str, str] = field(default_factory=dict)  # names in lower case
    require_guarantee: Guarantee | None = None
    enabled: bool = True
    comments: str | None = None
    status: JobStatus = JobStatus.READY
    resets: int = 0  # how often it was reset; not part of what a running job depends on
    old_style: bool = False  # made by ADD_SUBSCRIBER and SCHEDULE_PROPAGATION (AQ guide 12.2 §19.6)
    schedule: str | None = None  # name of its schedule; None: it has none, is no job and not enabled
    outbound: OutboundSchedule | None = None  # made by the older SCHEDULE_PROPAGATION, of DBMS_HQADM

    @property
    def subscriber(self) -> str:
        """Name of the subscriber that a job has on a multi-consumer queue of the hub."""
        return f"{JOB_SUBSCRIBER}{self.name}"

    @property
    def hub_queues(self) -> tuple[str, ...]:
        """Names of the queues of the hub that it works with: its ends in the hub, and its exception queue there."""
        kind = self.propagation_type
        queues = [] if kind.from_link else [self.source]
        queues += [] if kind.to_link else [self.destination]
        return tuple(queues if kind.from_link or self.exception_queue is None else [*queues, self.exception_queue])

    @property
    def source_link(self) -> str:
        """Name of the link it reads from; empty where the source is in the hub."""
        return self.link if self.propagation_type.from_link else ""

    @property
    def target_link(self) -> str:
        """Name of the link it writes to; empty where the destination is in the hub."""
        if self.propagation_type is not Propagation.THROUGH:
            return self.link if self.propagation_type.to_link else ""
        parts = split_foreign(self.destination)
        return parts[1] if parts else ""

    def uses_link(self, name: str) -> bool:
        """Whether it reads from that link or writes to it."""
        return key(name) in {key(self.source_link), key(self.target_link)}

    def is_due(self, now: float) -> bool:
        """Whether it is to move messages now: it is enabled, and the window of its schedule is open."""
        return self.enabled and (self.outbound is None or self.outbound.is_open(now))

    @property
    def latency(self) -> float:
        """For how many seconds nothing is sent after its source was found empty; 0: a message wakes the job."""
        return 0.0 if self.outbound is None else self.outbound.latency

    @property
    def poll_seconds(self) -> float:
        """Poll interval in force, seconds."""
        return self.poll_interval if self.poll_interval is not None else DEFAULT_POLL_INTERVAL

    @property
    def batch_size(self) -> int:
        """MsgBatchSize in force, 1..10000."""
        return int(self.options.get("msgbatchsize", DEFAULT_BATCH_SIZE))

    @property
    def batch_limit(self) -> int:
        """Messages to which a batch grows under load: max_batch_size in force, at least :attr:`batch_size`."""
        return max(self.batch_size, int(self.options.get("max_batch_size", DEFAULT_BATCH_LIMIT)))

    def flag(self, option: str, default: bool = False) -> bool:
        """A TRUE/FALSE job option."""
        value = self.options.get(option.lower())
        return default if value is None else value.strip().upper() == "TRUE"


@dataclass(frozen=True, slots=True)
class ScheduleDef:
    """A schedule (AQ guide 12.2 §19.6); with the subscriber of the same type, source and destination it is a job."""

    name: str
    link: str
    propagation_type: Propagation
    source: str
    destination: str
    latency: float | None = None  # seconds; None: the default poll interval
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything one agent runs by, at one version of the definitions.

    Keys are upper-case names; those of transformations have their schema in front.
    """

    version: int
    agent: AgentDef
    log_level: int
    links: Mapping[str, LinkDef]
    queues: Mapping[tuple[str, str], ForeignQueueDef]  # (name, link)
    transformations: Mapping[str, TransformationDef]
    jobs: Mapping[int, JobDef]
    agent_options: Mapping[str, str] = field(default_factory=dict)
    hub_queues: Mapping[str, QueueRef] = field(default_factory=dict)  # those that jobs name, as they name them
    modules: tuple[str, ...] = ()  # of Python, whose functions may be called
    functions: tuple[RuleFunction, ...] = ()  # that rules and expressions may call

    def foreign_queue(self, name: str) -> ForeignQueueDef | None:
        """The registration behind ``queue@link``, or None."""
        parts = split_foreign(name)
        return self.queues.get((key(parts[0]), key(parts[1]))) if parts else None
