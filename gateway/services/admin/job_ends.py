"""The two ends of a job: each a queue of the hub or a registered foreign queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import sqlalchemy as sa

from mgw.gateway.aq import Hub, QueueRef, QueueType, transfer
from mgw.gateway.definitions.foreign_end import ForeignEnd
from mgw.gateway.definitions.objects import ForeignQueueDef, JobDef, LinkDef, Propagation, key, split_foreign
from mgw.gateway.services.admin.base import Administration, Ora
from mgw.links import registry
from mgw.links.contract import Direction, JobUse, Link
from mgw.transforms.errors import AdminError, AqError, ConfigInvalid

__all__ = [
    "ForeignEnd",
    "JobEnds",
    "article",
    "check_endpoint",
    "foreign_end",
    "hub_queue",
    "job_use",
    "open_end",
    "open_plain",
    "resolve_ends",
]


@dataclass(frozen=True, slots=True)
class JobEnds:
    """The two ends of a job, resolved: a queue of the hub, or a foreign queue."""

    kind: Propagation
    source: QueueRef | ForeignEnd
    destination: QueueRef | ForeignEnd

    @property
    def foreign(self) -> tuple[ForeignEnd, ...]:
        """The ends that are foreign queues, the source first."""
        return tuple(end for end in (self.source, self.destination) if isinstance(end, ForeignEnd))

    @property
    def source_key(self) -> str:
        """The source in the form that compares."""
        return _key_of(self.source)

    @property
    def destination_key(self) -> str:
        """The destination in the form that compares."""
        return _key_of(self.destination)

    @property
    def topic_source(self) -> bool:
        """Whether any number of jobs may read the source, each with a subscription."""
        return self.source.is_topic if isinstance(self.source, ForeignEnd) else self.source.multiple_consumers

    @property
    def hub_source(self) -> QueueRef | None:
        """The queue of the hub that the job reads."""
        return self.source if isinstance(self.source, QueueRef) else None

    @property
    def subscribed(self) -> QueueRef | None:
        """The queue of the hub on which the job is a subscriber."""
        queue = self.hub_source
        return queue if queue is not None and queue.multiple_consumers else None

    @property
    def connections(self) -> Mapping[str, int]:
        """How many connections the job holds of each link, without one for its exception queue."""
        return Counter(end.link.name for end in self.foreign)


def _key_of(end: QueueRef | ForeignEnd) -> str:
    if isinstance(end, ForeignEnd):
        return key(f"{end.queue.name}@{end.queue.link}")
    return key(f"{end.schema}.{end.name}")


def resolve_ends(admin: Administration, conn: sa.Connection, job: JobDef) -> JobEnds:
    """Find both ends of a job.

    Raises:
        AdminError: ORA-32804 an end on the wrong side; ORA-32810, ORA-32818 missing; ORA-32819 not a normal queue;
            ORA-32801 the job would read what it writes, or its links belong to different agents.
    """
    kind = job.propagation_type
    for end, text, is_foreign in (
        ("source", job.source, kind.from_link),
        ("destination", job.destination, kind.to_link),
    ):
        if not isinstance(text, str) or (split_foreign(text) is not None) is not is_foreign:
            wanted = "a registered foreign queue, queue@link" if is_foreign else "a queue of the hub, [schema.]queue"
            raise AdminError(
                f"job {job.name}: {end} {text!r} cannot be used",
                number=Ora.WRONG_FORM,
                cause=f"the {end} of {article(kind)} job is {wanted}",
                cure="correct it, or exchange source and destination"
                if kind.from_link != kind.to_link
                else "correct it",
            )
    ends = JobEnds(
        kind,
        _end(admin, conn, job, job.source, Direction.INBOUND if kind.from_link else None),
        _end(admin, conn, job, job.destination, Direction.OUTBOUND if kind.to_link else None),
    )
    _check_pair(job, ends)
    return ends


def article(kind: Propagation) -> str:
    """``an inbound``, ``a through``."""
    return f"{'a' if kind in {Propagation.THROUGH, Propagation.LOCAL} else 'an'} {kind.lower()}"


def _end(
    admin: Administration, conn: sa.Connection, job: JobDef, name: str, direction: Direction | None
) -> QueueRef | ForeignEnd:
    if direction is None:
        return hub_queue(conn, name, job.name)
    end = foreign_end(admin, conn, name)
    check_endpoint(job, end.link, end.queue, direction)
    return end


def _check_pair(job: JobDef, ends: JobEnds) -> None:
    """What two ends on the same side must not be: the same place, or of different agents."""
    source, destination = ends.source, ends.destination
    if isinstance(source, ForeignEnd) and isinstance(destination, ForeignEnd):
        looped = _same_system(source.link, destination.link) and source.spec.covers(
            source.queue.provider_queue, destination.queue.provider_queue
        )
        if key(source.link.agent) != key(destination.link.agent):
            raise AdminError(
                f"job {job.name}: its links belong to different agents",
                number=Ora.INVALID_VALUE,
                cause=f"agent {source.link.agent} runs link {source.link.name}, agent {destination.link.agent} runs "
                f"link {destination.link.name}, and one agent runs a job",
                cure="create one of the links for the agent of the other",
            )
    else:
        looped = ends.source_key == ends.destination_key
    if looped:
        raise AdminError(
            f"job {job.name}: source {job.source} and destination {job.destination} are the same place",
            number=Ora.INVALID_VALUE,
            cause="the job would read what it writes, again and again",
            cure="use another destination",
        )


def _same_system(one: LinkDef, other: LinkDef) -> bool:
    return key(one.name) == key(other.name) or (
        one.type == other.type and dict(one.attributes) == dict(other.attributes)
    )


def foreign_end(admin: Administration, conn: sa.Connection, name: str) -> ForeignEnd:
    """What ``queue@link`` stands for.

    Raises:
        AdminError: ORA-32804, ORA-32810.
    """
    queue = admin.need_queue(conn, name)
    link = admin.need_link(conn, queue.link)
    return ForeignEnd(queue, link, registry.spec(link.type))


def open_end(foreign: ForeignEnd) -> Link:
    return registry.open_link(foreign.link.config())


def open_plain(foreign: ForeignEnd) -> Link:
    """The link for messages that have no part in the logs of jobs, such as those in exception queues."""
    return registry.open_link(replace(foreign.link.config(), inbound_log_queue=None, outbound_log_queue=None))


def job_use(job: JobDef, foreign: ForeignEnd, hub: Hub) -> JobUse:
    return JobUse(
        foreign.queue.endpoint(),
        job.name,
        foreign.link.agent,
        job.options,
        job.batch_size,
        job.batch_limit,
        job.propagation_type.from_link and job.propagation_type.to_link,
        job.rule,
        hub.hub_id.hex(),
        hub.clock,
    )


def hub_queue(conn: sa.Connection, name: str, job_name: str) -> QueueRef:
    try:
        queue = transfer.resolve(conn, name)
    except AqError as error:
        raise AdminError(
            f"job {job_name}: queue {name} does not exist",
            number=Ora.AQ_QUEUE_MISSING,
            cause=error.cause or error.what,
            cure="create the queue first, or correct the name",
        ) from error
    if queue.queue_type is not QueueType.NORMAL:
        raise AdminError(
            f"job {job_name}: queue {name} cannot be used",
            number=Ora.AQ_QUEUE_NOT_NORMAL,
            cause="it is an exception queue of the hub",
            cure="use a normal queue",
        )
    return queue


def check_endpoint(job: JobDef, link: LinkDef, queue: ForeignQueueDef, direction: Direction) -> None:
    try:
        registry.open_link(link.config()).check_endpoint(queue.endpoint(), direction)
    except (AdminError, ConfigInvalid) as error:
        number = error.number or Ora.INVALID_VALUE
        raise AdminError(f"job {job.name}: {error.what}", number=number, cause=error.cause, cure=error.cure) from error
