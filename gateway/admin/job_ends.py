"""The two ends of a job: a queue of the hub and a registered foreign queue."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from gateway.admin.base import Administration, Ora
from gateway.admin.links import link_config
from gateway.aq import transfer
from gateway.aq.hub import Hub
from gateway.aq.model import QueueRef, QueueType
from gateway.model import ForeignQueueDef, JobDef, LinkDef, key, split_foreign
from links import registry
from links.contract import Direction, Domain, JobUse, Link, LinkSpec
from transforms.errors import AdminError, AqError, ConfigInvalid

__all__ = [
    "ForeignEnd",
    "JobEnds",
    "check_endpoint",
    "foreign_end",
    "hub_queue",
    "job_use",
    "open_end",
    "resolve_ends",
]


@dataclass(frozen=True, slots=True)
class ForeignEnd:
    """The end of a job in the foreign system."""

    queue: ForeignQueueDef
    link: LinkDef
    spec: LinkSpec

    @property
    def is_topic(self) -> bool:
        """Whether it is a topic; without a domain it is what the type names first."""
        domain = self.queue.domain or next((item for item in self.spec.domains if item), None)
        return domain is Domain.TOPIC


@dataclass(frozen=True, slots=True)
class JobEnds:
    """The two ends of a job, resolved."""

    queue: QueueRef
    foreign: ForeignEnd
    source_key: str
    destination_key: str
    topic_source: bool  # any number of jobs may read it, each has a subscription
    outbound: bool

    @property
    def subscribes(self) -> bool:
        """Whether the job is a subscriber of a queue in the hub."""
        return self.outbound and self.topic_source


def resolve_ends(admin: Administration, conn: sa.Connection, job: JobDef) -> JobEnds:
    """Find both ends of a job.

    Raises:
        AdminError: ORA-32804 an end on the wrong side; ORA-32810, ORA-32818 missing; ORA-32819 not a normal queue.
    """
    outbound = job.propagation_type is Direction.OUTBOUND
    near, far = (job.source, job.destination) if outbound else (job.destination, job.source)
    for end, text, is_foreign in (
        ("source", job.source, not outbound),
        ("destination", job.destination, outbound),
    ):
        if not isinstance(text, str) or (split_foreign(text) is not None) is not is_foreign:
            wanted = "a registered foreign queue, queue@link" if is_foreign else "a queue of the hub, [schema.]queue"
            raise AdminError(
                f"job {job.name}: {end} {text!r} cannot be used",
                number=Ora.WRONG_FORM,
                cause=f"the {end} of an {job.propagation_type.lower()} job is {wanted}",
                cure="correct it, or exchange source and destination",
            )
    queue = hub_queue(conn, near, job.name)
    foreign = foreign_end(admin, conn, far)
    check_endpoint(job, foreign.link, foreign.queue, job.propagation_type)
    near_key = key(f"{queue.schema}.{queue.name}")
    far_key = key(f"{foreign.queue.name}@{foreign.queue.link}")
    return JobEnds(
        queue,
        foreign,
        source_key=near_key if outbound else far_key,
        destination_key=far_key if outbound else near_key,
        topic_source=queue.multiple_consumers if outbound else foreign.is_topic,
        outbound=outbound,
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
    return registry.open_link(link_config(foreign.link))


def job_use(job: JobDef, foreign: ForeignEnd, hub: Hub) -> JobUse:
    return JobUse(
        foreign.queue.endpoint(),
        job.name,
        foreign.link.agent,
        job.options,
        job.batch_size,
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
        registry.open_link(link_config(link)).check_endpoint(queue.endpoint(), direction)
    except (AdminError, ConfigInvalid) as error:
        number = error.number or Ora.INVALID_VALUE
        raise AdminError(f"job {job.name}: {error.what}", number=number, cause=error.cause, cure=error.cure) from error
