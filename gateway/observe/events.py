"""What happens in an agent, one small class per kind; :meth:`Journalist.tell` gives each its log line and its row in
``MGW_EVENTS``. The only place where the log gets its words.

``id`` are the message numbers of the documented log file (AQ guide 12.2 §21.1) where there is one.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar, Protocol

from mgw.gateway.observe.gathered import Gathered
from mgw.transforms.clock import SYSTEM_CLOCK, Clock

__all__ = [
    "AgentRunning",
    "AgentStarting",
    "AgentStopped",
    "AgentStopping",
    "CertificateEnds",
    "ConfigurationChanged",
    "ConfigurationRefused",
    "DestinationMoved",
    "Event",
    "EventStore",
    "GuaranteeChanged",
    "JobActivated",
    "JobFailed",
    "JobRemoved",
    "JobRetrying",
    "JobStopped",
    "JobStuck",
    "Journalist",
    "LinkAdded",
    "LogChanged",
    "MessagesDiscarded",
    "MessagesExceptioned",
    "MessagesExpired",
    "MessagesFiltered",
    "MessagesOverdue",
    "MessagesWait",
    "MessagesWaitNoLonger",
    "ObjectRefused",
    "QueueRegistered",
    "ResendSpared",
    "SourceMoved",
    "WorkerDied",
]

_LOGGER = logging.getLogger("mgw.engine")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to ``object``."""

    id: ClassVar[int | None] = None
    level: ClassVar[int] = logging.INFO
    stored: ClassVar[bool] = True  # also a row in MGW_EVENTS
    gathered: ClassVar[bool] = False  # may come with every batch: told at once, then the sum of each minute

    object: str

    def text(self) -> str:
        """The words for it."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """Name of the kind of event."""
        return type(self).__name__


@dataclass(frozen=True, slots=True)
class AgentStarting(Event):
    """The agent begins to initialize."""

    id: ClassVar[int | None] = 1
    version: str

    def text(self) -> str:
        """The words for it."""
        return f"initializing agent {self.object}, version {self.version}"


@dataclass(frozen=True, slots=True)
class AgentRunning(Event):
    """The agent is up."""

    id: ClassVar[int | None] = 2
    jobs: int

    def text(self) -> str:
        """The words for it."""
        return f"agent {self.object} is up and running, {self.jobs} jobs"


@dataclass(frozen=True, slots=True)
class AgentStopping(Event):
    """The agent drains."""

    id: ClassVar[int | None] = 25

    def text(self) -> str:
        """The words for it."""
        return f"agent {self.object} is shutting down"


@dataclass(frozen=True, slots=True)
class AgentStopped(Event):
    """The agent ended."""

    error: str = ""

    def text(self) -> str:
        """The words for it."""
        return f"agent {self.object} stopped" + (f": {self.error}" if self.error else "")


@dataclass(frozen=True, slots=True)
class WorkerDied(Event):
    """A worker process of the agent has ended, and is replaced."""

    level: ClassVar[int] = logging.ERROR
    number: int
    pid: int
    how: str
    jobs: int
    delay: float

    def text(self) -> str:
        """The words for it."""
        when = f" in {self.delay:.0f} s" if self.delay else ""
        return (
            f"agent {self.object}: worker {self.number}, process {self.pid}, {self.how}; another process takes its "
            f"place{when}, with its {self.jobs} job(s)"
        )


@dataclass(frozen=True, slots=True)
class LinkAdded(Event):
    """A link was loaded."""

    id: ClassVar[int | None] = 4
    stored: ClassVar[bool] = False
    type: str

    def text(self) -> str:
        """The words for it."""
        return f"link {self.object} added ({self.type})"


@dataclass(frozen=True, slots=True)
class QueueRegistered(Event):
    """A foreign queue was loaded."""

    id: ClassVar[int | None] = 7
    stored: ClassVar[bool] = False
    provider_queue: str

    def text(self) -> str:
        """The words for it."""
        return f"queue {self.object} registered; provider queue {self.provider_queue}"


@dataclass(frozen=True, slots=True)
class ConfigurationChanged(Event):
    """Definitions changed while the agent runs."""

    stored: ClassVar[bool] = False
    version: int

    def text(self) -> str:
        """The words for it."""
        return f"agent {self.object} loads changed definitions, version {self.version}"


@dataclass(frozen=True, slots=True)
class ObjectRefused(Event):
    """A configuration file says something of an object that cannot be; the agent runs with what the hub has."""

    level: ClassVar[int] = logging.ERROR
    why: str

    def text(self) -> str:
        """The words for it."""
        return f"{self.object} is not as the configuration says, and stays as it is in the hub: {self.why}"


@dataclass(frozen=True, slots=True)
class ConfigurationRefused(Event):
    """The agent was to read its configuration files again, and they or a step of theirs are refused."""

    level: ClassVar[int] = logging.ERROR
    why: str

    def text(self) -> str:
        """The words for it."""
        return f"configuration not applied: {self.why}"


@dataclass(frozen=True, slots=True)
class JobActivated(Event):
    """A job is connected on both ends."""

    id: ClassVar[int | None] = 19
    source: str
    destination: str
    guarantee: str
    nodes: str = ""  # of clusters, to which it is connected

    def text(self) -> str:
        """The words for it."""
        where = f", at node {self.nodes}" if self.nodes else ""
        return f"job {self.object} activated: {self.source} --> {self.destination}, {self.guarantee}{where}"


@dataclass(frozen=True, slots=True)
class GuaranteeChanged(Event):
    """What a running job can promise is another level than when it was activated; it connects again."""

    level: ClassVar[int] = logging.WARNING
    before: str
    now: str
    note: str

    def text(self) -> str:
        """The words for it."""
        return f"job {self.object} promised {self.before}, now it can promise {self.now}" + (
            f": {self.note}" if self.note else ""
        )


@dataclass(frozen=True, slots=True)
class JobStopped(Event):
    """A job was disabled, altered or its agent stops."""

    def text(self) -> str:
        """The words for it."""
        return f"job {self.object} stopped"


@dataclass(frozen=True, slots=True)
class JobRemoved(Event):
    """A job marked for removal was cleaned up."""

    def text(self) -> str:
        """The words for it."""
        return f"job {self.object} removed"


@dataclass(frozen=True, slots=True)
class JobRetrying(Event):
    """A propagation attempt failed and will be repeated."""

    level: ClassVar[int] = logging.WARNING
    failures: int
    delay: float
    error: str

    def text(self) -> str:
        """The words for it."""
        return f"job {self.object}: failure {self.failures}, next attempt in {self.delay:.1f} s: {self.error}"


@dataclass(frozen=True, slots=True)
class JobFailed(Event):
    """A job gave up."""

    level: ClassVar[int] = logging.ERROR
    failures: int
    error: str

    def text(self) -> str:
        """The words for it."""
        return (
            f"job {self.object} is FAILED after {self.failures} failures: {self.error}; "
            f"cure: remove the cause, then reset the job"
        )


@dataclass(frozen=True, slots=True)
class JobStuck(Event):
    """Messages wait, the job is enabled, and nothing moves."""

    level: ClassVar[int] = logging.ERROR
    seconds: float
    detail: str

    def text(self) -> str:
        """The words for it."""
        return f"job {self.object} has moved nothing for {self.seconds:.0f} s although messages wait: {self.detail}"


@dataclass(frozen=True, slots=True)
class MessagesExceptioned(Event):
    """Messages were moved to the exception queue."""

    level: ClassVar[int] = logging.WARNING
    count: int
    exception_queue: str
    reason: str

    def text(self) -> str:
        """The words for it."""
        return f"job {self.object}: {self.count} message(s) moved to {self.exception_queue}: {self.reason}"


@dataclass(frozen=True, slots=True)
class MessagesDiscarded(Event):
    """Messages were dropped: no subscriber wanted them, or they had expired before they arrived."""

    gathered: ClassVar[bool] = True
    level: ClassVar[int] = logging.WARNING
    count: int
    reason: str

    def text(self) -> str:
        """The words for it."""
        return f"job {self.object}: {self.count} message(s) dropped: {self.reason}"


@dataclass(frozen=True, slots=True)
class MessagesFiltered(Event):
    """Messages were left out on purpose, by the rule or the transformation of the job."""

    gathered: ClassVar[bool] = True
    count: int

    def text(self) -> str:
        """The words for it."""
        return f"job {self.object}: {self.count} message(s) left out by its rule or transformation"


@dataclass(frozen=True, slots=True)
class MessagesWait(Event):
    """The oldest message of a queue, or of one of its subscribers, waits for longer than its ``age_warning``."""

    level: ClassVar[int] = logging.WARNING
    age: float
    limit: float

    def text(self) -> str:
        """The words for it."""
        return f"the oldest message of {self.object} has waited for {self.age:.0f} s (age_warning {self.limit:g} s)"


@dataclass(frozen=True, slots=True)
class MessagesWaitNoLonger(Event):
    """What :class:`MessagesWait` reported is over."""

    limit: float

    def text(self) -> str:
        """The words for it."""
        return f"no message of {self.object} waits for longer than {self.limit:g} s any more"


@dataclass(frozen=True, slots=True)
class MessagesExpired(Event):
    """Nobody took messages of a hub queue in time; the time manager moved them."""

    level: ClassVar[int] = logging.WARNING
    count: int
    exception_queue: str

    def text(self) -> str:
        """The words for it."""
        return (
            f"queue {self.object}: {self.count} message(s) expired because nobody consumed them in time; they are in "
            f"exception queue {self.exception_queue}"
        )


@dataclass(frozen=True, slots=True)
class CertificateEnds(Event):
    """A certificate of a link, or of its broker, ends soon or has ended."""

    level: ClassVar[int] = logging.WARNING
    owner: str  # LINK, BROKER
    place: str
    subject: str
    left: float  # seconds; less than 0: it has ended

    def text(self) -> str:
        """The words for it."""
        when = f"ends in {self.left / 86_400:.1f} days" if self.left >= 0 else "has ended"
        renewed = "renew the file" if self.owner == "LINK" else "have it renewed at the broker"
        return (
            f"link {self.object}: the certificate {self.subject} of {self.place} {when}; cure: {renewed}; the next "
            f"connect uses it, and mgw links reconnect {self.object} asks for that at once"
        )


@dataclass(frozen=True, slots=True)
class MessagesOverdue(Event):
    """Messages of an outbound job had expired when they were to be sent."""

    level: ClassVar[int] = logging.WARNING
    count: int

    def text(self) -> str:
        """The words for it."""
        return (
            f"job {self.object}: {self.count} message(s) not sent because they had expired; they go to the exception "
            "queue of their queue table"
        )


@dataclass(frozen=True, slots=True)
class ResendSpared(Event):
    """The sending log proved that planned messages are at the destination already."""

    count: int
    sequence: int

    def text(self) -> str:
        """The words for it."""
        return (
            f"job {self.object}: {self.count} message(s) up to batch {self.sequence} were already at the destination; "
            "completed without sending them again"
        )


@dataclass(frozen=True, slots=True)
class SourceMoved(Event):
    """The link of a job leads to another messaging system than before: the job reads there from now on."""

    level: ClassVar[int] = logging.WARNING
    queue: str
    before: str
    place: str
    sure: bool  # the messaging systems said which ones they are
    begins: bool  # it was never there, so it begins at the first message

    def text(self) -> str:
        """The words for it."""
        if not self.sure:
            how = "if that is another broker, the session and its messages are still at the first one"
        elif self.begins:
            how = "it starts at the first message there; messages that it did not read stay at the previous place"
        else:
            how = "it continues where it stopped there; messages that it did not read stay at the previous place"
        return f"job {self.object}: its source {self.queue} is now at {self.place}, before at {self.before}: {how}"


@dataclass(frozen=True, slots=True)
class DestinationMoved(Event):
    """The link of a job leads to another messaging system than before: the job writes there from now on."""

    level: ClassVar[int] = logging.WARNING
    queue: str
    before: str
    place: str
    batches: int

    def text(self) -> str:
        """The words for it."""
        how = (
            f"{self.batches} batch(es) that were sent and not confirmed are sent again: they may be at both"
            if self.batches
            else "everything that was sent before is confirmed"
        )
        return f"job {self.object}: its destination {self.queue} is now at {self.place}, before at {self.before}: {how}"


@dataclass(frozen=True, slots=True)
class LogChanged(Event):
    """An end of a job keeps its log elsewhere than before, or none any more."""

    level: ClassVar[int] = logging.WARNING
    queue: str
    before: str
    log: str
    batches: int = 0  # sent, not confirmed, and not in the new log

    def text(self) -> str:
        """The words for it."""
        again = f": {self.batches} batch(es) that were sent and not confirmed are sent again" if self.batches else ""
        return f"job {self.object}: its log for {self.queue} is now {self.log}, before {self.before}{again}"


class EventStore(Protocol):
    """Where events are kept for ``MGW_EVENTS``."""

    def __call__(self, level: str, name: str, object_name: str, text: str) -> None:
        """Store one event; may raise."""
        ...


class Journalist:
    """Writes each event to the log and, best effort, to the hub."""

    def __init__(self, store: EventStore | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        self._store = store
        self._gathered = Gathered(clock)

    def tell(self, event: Event) -> None:
        """Log ``event`` and store it, or keep it for the sum of its minute. Never raises: an event must not stop a
        job."""
        if not event.gathered or self._gathered.take(event):
            self._tell(event)

    def tell_sums(self, name: str, *, all_of_them: bool = False) -> None:
        """Report the sums for the object ``name`` whose minute is over; ``all_of_them``: the others as well."""
        for event in self._gathered.sums(name, all_of_them=all_of_them):
            self._tell(event)

    def _tell(self, event: Event) -> None:
        text = event.text()
        _LOGGER.log(event.level, text, extra={"mgw_id": event.id, "event": event.name, "object": event.object})
        if self._store is None or not event.stored:
            return
        try:
            self._store(logging.getLevelName(event.level), event.name, event.object, text)
        except Exception as exc:
            _LOGGER.warning("event %s not stored: %s", event.name, exc)
