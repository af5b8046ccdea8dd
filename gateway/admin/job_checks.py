"""What must be true of a job (AQ guide 12.2 §19.5), checked in the transaction that stores it."""

from __future__ import annotations

import difflib
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from gateway import catalog
from gateway.admin.base import Administration, Ora, refused
from gateway.admin.links import link_config, stored_option
from gateway.aq import transfer
from gateway.aq.hub import Hub
from gateway.aq.model import QueueRef, QueueType
from gateway.aq.rules import compile_rule
from gateway.model import ForeignQueueDef, JobDef, LinkDef, key, split_foreign
from links import registry
from links.contract import Direction, Domain, Field, GuaranteeReport, JobUse, LinkSpec
from links.options import parse_value
from transforms.errors import AdminError, AqError, ConfigInvalid, LinkError

__all__ = [
    "JOB_OPTIONS",
    "MAX_POLL_INTERVAL",
    "MIN_POLL_INTERVAL",
    "JobEnds",
    "check_exception_queue",
    "check_guarantee",
    "check_poll_interval",
    "check_rule",
    "check_sharing",
    "check_transformation",
    "forget",
    "job_options",
    "resolve_ends",
]

MIN_POLL_INTERVAL = 0.1  # seconds
MAX_POLL_INTERVAL = 60.0
VERIFY_SECONDS = 5.0  # how long create_job waits for the messaging system's word on the guarantee

#: Options of every job, beside the job options of its link's type.
JOB_OPTIONS = (
    Field(
        "MsgBatchSize",
        "Messages moved together at most.",
        int,
        30,
        dynamic=True,
        minimum=1,
        maximum=10000,
    ),
    Field(
        "PreserveMessageID",
        "TRUE: the message id of the source travels in a field of the destination.",
        bool,
        False,
        dynamic=True,
    ),
    Field(
        "AQ_MsgProperties",
        "TRUE: AQ message properties without a field of their own travel as headers MGW_AQ_*.",
        bool,
        False,
        dynamic=True,
    ),
    Field(
        "retry_forever",
        "TRUE: the job is never FAILED; after the 15th failure it is tried again every 30 minutes.",
        bool,
        False,
        dynamic=True,
    ),
    Field(
        "discard_unrouted",
        "TRUE: an inbound message that no subscriber wants is dropped and counted; FALSE: it is a failure.",
        bool,
        False,
        dynamic=True,
    ),
)


@dataclass(frozen=True, slots=True)
class JobEnds:
    """The two ends of a job, resolved."""

    queue: QueueRef
    foreign: ForeignQueueDef
    link: LinkDef
    spec: LinkSpec
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
    for end, text, foreign in (
        ("source", job.source, not outbound),
        ("destination", job.destination, outbound),
    ):
        if not isinstance(text, str) or (split_foreign(text) is not None) is not foreign:
            wanted = "a registered foreign queue, queue@link" if foreign else "a queue of the hub, [schema.]queue"
            raise AdminError(
                f"job {job.name}: {end} {text!r} cannot be used",
                number=Ora.WRONG_FORM,
                cause=f"the {end} of an {job.propagation_type.lower()} job is {wanted}",
                cure="correct it, or exchange source and destination",
            )
    queue = _hub_queue(conn, near, job.name)
    registered = admin.need_queue(conn, far)
    link = admin.need_link(conn, registered.link)
    spec = registry.spec(link.type)
    _check_endpoint(job, link, registered, Direction.OUTBOUND if outbound else Direction.INBOUND)
    near_key = key(f"{queue.schema}.{queue.name}")
    far_key = key(f"{registered.name}@{registered.link}")
    return JobEnds(
        queue,
        registered,
        link,
        spec,
        source_key=near_key if outbound else far_key,
        destination_key=far_key if outbound else near_key,
        topic_source=queue.multiple_consumers if outbound else _is_topic(registered, spec),
        outbound=outbound,
    )


def check_sharing(conn: sa.Connection, job: JobDef, ends: JobEnds) -> None:
    """One job per queue source, any number per topic source, one per source and destination.

    Raises:
        AdminError: ORA-32823.
    """
    for name, direction, source, destination in catalog.job_keys(conn):
        if direction is not job.propagation_type or source != ends.source_key:
            continue
        if not ends.topic_source:
            raise AdminError(
                f"job {job.name}: source {job.source} is taken",
                number=Ora.SOURCE_IN_USE,
                cause=f"job {name} reads it, and of a queue only one job may read",
                cure=f"remove job {name}, or read from a topic or multi-consumer queue",
            )
        if destination == ends.destination_key:
            raise AdminError(
                f"job {job.name}: {job.source} is carried to {job.destination} already",
                number=Ora.SOURCE_IN_USE,
                cause=f"job {name} has the same propagation type, source and destination",
                cure=f"alter job {name}, or remove it first",
            )


def check_rule(job: JobDef, ends: JobEnds) -> None:
    """Refuse a rule that cannot be evaluated.

    Raises:
        AdminError: ORA-32801.
    """
    if job.rule is None:
        return
    if ends.outbound and not ends.topic_source:
        raise AdminError(
            f"job {job.name} cannot have a rule",
            number=Ora.INVALID_VALUE,
            cause=f"source {job.source} is a single-consumer queue: every message of it is moved",
            cure="leave the rule out, or use a multi-consumer queue",
        )
    try:
        compile_rule(job.rule)
    except AqError as error:
        raise AdminError(
            f"job {job.name}: {error.what}", number=Ora.INVALID_VALUE, cause=error.cause, cure=error.cure
        ) from error


def check_transformation(conn: sa.Connection, job: JobDef) -> None:
    """Refuse a transformation that is not registered.

    Raises:
        AdminError: ORA-32801.
    """
    if job.transformation is not None and catalog.get_transformation(conn, job.transformation) is None:
        known = ", ".join(item.name for item in catalog.list_transformations(conn)) or "none"
        raise AdminError(
            f"job {job.name}: transformation {job.transformation} does not exist",
            number=Ora.INVALID_VALUE,
            cause=f"the transformations are: {known}",
            cure="create it first, or correct the name",
        )


def check_exception_queue(admin: Administration, conn: sa.Connection, job: JobDef, ends: JobEnds) -> None:
    """The exception queue is another queue on the source's side, and can hold the source's messages.

    Raises:
        AdminError: ORA-32801 it is the source; ORA-32820 other side or other link; ORA-32818 missing; ORA-32819 not a
            normal queue; ORA-32821 another payload type.
    """
    name = job.exception_queue
    if name is None:
        return
    if (split_foreign(name) is None) is not ends.outbound:
        wanted = "a queue of the hub" if ends.outbound else f"a registered queue of link {ends.link.name}"
        raise _bad_exception_queue(
            job, Ora.EXCEPTION_QUEUE_OTHER_SIDE, f"it is on the side of the source, here {wanted}", "name such a queue"
        )
    if ends.outbound:
        queue = _hub_queue(conn, name, job.name)
        exception_key = key(f"{queue.schema}.{queue.name}")
        if queue.payload_type is not ends.queue.payload_type:
            raise _bad_exception_queue(
                job,
                Ora.EXCEPTION_QUEUE_OTHER_TYPE,
                f"it holds {queue.payload_type}, the source holds {ends.queue.payload_type}",
                "use a queue of the same payload type",
            )
    else:
        registered = admin.need_queue(conn, name)
        exception_key = key(f"{registered.name}@{registered.link}")
        if key(registered.link) != key(ends.link.name):
            raise _bad_exception_queue(
                job,
                Ora.EXCEPTION_QUEUE_OTHER_SIDE,
                f"it is on link {registered.link}, the source on link {ends.link.name}",
                "register a queue of the source's link",
            )
        _check_endpoint(job, ends.link, registered, Direction.OUTBOUND)
        same = registered.provider_queue == ends.foreign.provider_queue and registered.domain is ends.foreign.domain
        if same:
            exception_key = ends.source_key
    if exception_key == ends.source_key:
        raise _bad_exception_queue(
            job, Ora.INVALID_VALUE, "it is the source: the message would be read again for ever", "use another queue"
        )


def check_poll_interval(job_name: str, seconds: float | None) -> float | None:
    """The poll interval in seconds, or None for the default.

    Raises:
        AdminError: ORA-32843.
    """
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not _in_range(seconds):
        raise AdminError(
            f"job {job_name}: poll_interval cannot be {seconds!r}",
            number=Ora.OUT_OF_RANGE,
            cause=f"it is {MIN_POLL_INTERVAL:g} to {MAX_POLL_INTERVAL:g} seconds",
            cure="choose a value in that range",
        )
    return float(seconds)


def _in_range(seconds: float) -> bool:
    return MIN_POLL_INTERVAL <= seconds <= MAX_POLL_INTERVAL


def job_options(
    job: JobDef, ends: JobEnds, given: Mapping[str, Any] | None, before: Mapping[str, str]
) -> dict[str, str]:
    """The options to store, names in lower case, values as text: ``given`` merged into ``before``.

    Raises:
        AdminError: ORA-32840 unknown name; ORA-32841 bad value; ORA-32842 not alterable.
    """
    fields = {field.name.lower(): field for field in (*JOB_OPTIONS, *ends.spec.job_options)}
    result = dict(before)
    for name, value in (given or {}).items():
        if name == "*" and value is None:
            result.clear()
            continue
        field = fields.get(name.lower())
        if field is None:
            near = difflib.get_close_matches(name.lower(), fields, n=1)
            hint = f"did you mean {fields[near[0]].name}?" if near else f"use one of {_names(fields)}"
            raise AdminError(
                f"job {job.name}: option {name!r} is unknown",
                number=Ora.OPTION_UNKNOWN,
                cause=f"jobs on a {ends.spec.title} link have no such option",
                cure=hint,
            )
        lower = field.name.lower()
        if value is None:
            result.pop(lower, None)
            continue
        try:
            result[lower] = stored_option(parse_value(field, value, f"job {job.name}"))
        except ConfigInvalid as error:
            raise refused(error, Ora.OPTION_INVALID) from error
    if job.id:
        for lower, field in fields.items():
            if not field.alterable and result.get(lower) != before.get(lower):
                raise AdminError(
                    f"job {job.name}: option {field.name} cannot be altered",
                    number=Ora.OPTION_NOT_ALTERABLE,
                    cause="it is fixed when the job is created",
                    cure="remove the job and create it again",
                )
    return result


def check_guarantee(job: JobDef, ends: JobEnds, hub: Hub) -> None:
    """Refuse a job whose ends promise less than it requires. A messaging system that cannot be asked now is asked at
    activation. Connects: never call it in a transaction.

    Raises:
        AdminError: ORA-32801.
    """
    required = job.require_guarantee
    if required is None:
        return
    direction = Direction.OUTBOUND if ends.outbound else Direction.INBOUND
    reports: list[GuaranteeReport] = []

    def ask() -> None:
        try:
            reports.append(registry.open_link(link_config(ends.link)).verify(_use(job, ends, hub), direction))
        except (LinkError, ConfigInvalid):
            return  # activation tells; the definition itself is sound

    thread = threading.Thread(target=ask, name=f"verify {job.name}", daemon=True)
    thread.start()
    thread.join(VERIFY_SECONDS)
    if reports and reports[0].level.rank > required.rank:
        raise AdminError(
            f"job {job.name} cannot promise {required}",
            number=Ora.INVALID_VALUE,
            cause=f"its ends give {reports[0].level}: {reports[0].note or 'no more is possible'}",
            cure="require less, or change the end",
        )


def forget(job: JobDef, ends: JobEnds, hub: Hub) -> None:
    """Remove the job's subscription in the foreign system. Connects: never call it in a transaction.

    Raises:
        LinkError: it cannot be reached or refuses.
    """
    direction = Direction.OUTBOUND if ends.outbound else Direction.INBOUND
    registry.open_link(link_config(ends.link)).forget(_use(job, ends, hub), direction)


def _use(job: JobDef, ends: JobEnds, hub: Hub) -> JobUse:
    return JobUse(
        ends.foreign.endpoint(),
        job.name,
        ends.link.agent,
        job.options,
        job.batch_size,
        job.rule,
        hub.hub_id.hex(),
        hub.clock,
    )


def _names(fields: Mapping[str, Field]) -> str:
    return ", ".join(field.name for field in fields.values())


def _hub_queue(conn: sa.Connection, name: str, job_name: str) -> QueueRef:
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


def _is_topic(queue: ForeignQueueDef, spec: LinkSpec) -> bool:
    """Whether a registration is a topic; without a domain it is what the type names first."""
    domain = queue.domain if queue.domain is not None else next((item for item in spec.domains if item), None)
    return domain is Domain.TOPIC


def _check_endpoint(job: JobDef, link: LinkDef, queue: ForeignQueueDef, direction: Direction) -> None:
    try:
        registry.open_link(link_config(link)).check_endpoint(queue.endpoint(), direction)
    except (AdminError, ConfigInvalid) as error:
        number = error.number or Ora.INVALID_VALUE
        raise AdminError(f"job {job.name}: {error.what}", number=number, cause=error.cause, cure=error.cure) from error


def _bad_exception_queue(job: JobDef, number: int, cause: str, cure: str) -> AdminError:
    return AdminError(
        f"job {job.name}: exception queue {job.exception_queue} cannot be used", number=number, cause=cause, cure=cure
    )
