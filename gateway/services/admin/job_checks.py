"""What must be true of a job (AQ guide 12.2 §19.5), checked in the transaction that stores it."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace

import sqlalchemy as sa

from mgw.gateway.aq import Db, Hub, QueueRef, compile_rule, payload_name, stored_functions
from mgw.gateway.definitions.job_options import NO_LOCAL, PARK_KEY, UNROUTED, Unrouted, no_local, park_key, unrouted
from mgw.gateway.definitions.objects import JobDef, key, split_foreign
from mgw.gateway.definitions.parking_key import check_park_key
from mgw.gateway.services.admin.base import Administration, Ora
from mgw.gateway.services.admin.job_ends import (
    ForeignEnd,
    JobEnds,
    check_endpoint,
    foreign_end,
    hub_queue,
    job_use,
    open_end,
    open_plain,
)
from mgw.gateway.state import catalog, parked
from mgw.links.contract import Collects, Direction, GuaranteeReport, weakest
from mgw.links.exception_guarantee import with_exceptions
from mgw.links.job_checks import ChecksJobs
from mgw.transforms.errors import AdminError, AqError, ConfigInvalid, GatewayError, LinkError

__all__ = [
    "check_connections",
    "check_exception_queue",
    "check_guarantee",
    "check_options",
    "check_parking",
    "check_rule",
    "check_schedules",
    "check_sharing",
    "check_transformation",
    "collected",
    "forget",
]

VERIFY_SECONDS = 5.0  # how long create_job waits for the messaging system's word on the guarantee


def check_sharing(conn: sa.Connection, job: JobDef, ends: JobEnds) -> None:
    """One job per queue source, any number per topic source, one per source and destination.

    Raises:
        AdminError: ORA-32823.
    """
    for name, destination in catalog.jobs_of_source(conn, ends.source_key):
        if not ends.topic_source:
            raise AdminError(
                f"job {job.name}: source {job.source} is taken",
                number=Ora.SOURCE_IN_USE,
                cause=f"job {name} reads it, and only one job may read from a queue",
                cure=f"remove job {name}, or read from a topic or multi-consumer queue",
            )
        if destination == ends.destination_key:
            raise AdminError(
                f"job {job.name}: {job.source} is already carried to {job.destination}",
                number=Ora.SOURCE_IN_USE,
                cause=f"job {name} has the same propagation type, source and destination",
                cure=f"alter job {name}, or remove it first",
            )


def check_schedules(conn: sa.Connection, job: JobDef, ends: JobEnds) -> None:
    """No schedule without a subscriber has the job's type, source and destination.

    Raises:
        AdminError: ORA-32824.
    """
    found = catalog.schedule_of_triplet(conn, job.propagation_type, ends.source_key, ends.destination_key)
    if found is not None:
        raise AdminError(
            f"job {job.name}: {job.source} is already scheduled to {job.destination}",
            number=Ora.SCHEDULED,
            cause=f"schedule {found.name} has the same propagation type, source and destination",
            cure=f"remove the schedule (mgw schedules remove {found.name}), or add its subscriber "
            "(mgw subscribers create)",
        )


def check_rule(conn: sa.Connection, job: JobDef, ends: JobEnds) -> None:
    """Refuse a rule that cannot be evaluated.

    Raises:
        AdminError: ORA-32801.
    """
    if job.rule is None:
        return
    if ends.hub_source is not None and not ends.topic_source:
        raise AdminError(
            f"job {job.name} cannot have a rule",
            number=Ora.INVALID_VALUE,
            cause=f"source {job.source} is a single-consumer queue: every message in it is moved",
            cure="leave the rule out, or use a multi-consumer queue",
        )
    try:
        compile_rule(job.rule, Db(conn))
    except AqError as error:
        raise AdminError(
            f"job {job.name}: {error.what}", number=Ora.INVALID_VALUE, cause=error.cause, cure=error.cure
        ) from error


def check_parking(conn: sa.Connection, job: JobDef, old: JobDef | None = None) -> None:
    """Refuse a job that cannot park, a key that is no expression, and another key while messages are parked.

    Raises:
        AdminError: ORA-32801.
    """
    key = park_key(job.options)
    if key is None:
        return
    if old is not None and key != (before := park_key(old.options)) and parked.load(conn, job.id):
        raise AdminError(
            f"job {job.name} cannot get another {PARK_KEY.name}",
            number=Ora.INVALID_VALUE,
            cause=f"messages are parked by {before!r}, and others may not find the key they have to wait for",
            cure=f"see mgw exceptions parked {job.name}; or remove the option first, which gives the messages back",
        )
    try:
        check_park_key(job.name, job.propagation_type, key, stored_functions(Db(conn)))
    except GatewayError as error:
        raise AdminError(error.what, number=Ora.INVALID_VALUE, cause=error.cause, cure=error.cure) from error


def check_options(job: JobDef, ends: JobEnds) -> None:
    """Refuse options that an end of the job cannot follow.

    Raises:
        AdminError: ORA-32841.
    """
    if ends.hub_source is not None and no_local(job):
        raise AdminError(
            f"job {job.name} cannot have {NO_LOCAL.name}",
            number=Ora.OPTION_INVALID,
            cause=f"it reads {job.source}, a queue of the hub, where nothing is published over a link",
            cure="leave the option out, or use a rule on a queue with subscribers",
        )
    for end, direction in ((ends.source, Direction.INBOUND), (ends.destination, Direction.OUTBOUND)):
        link = open_end(end) if isinstance(end, ForeignEnd) else None
        if isinstance(end, ForeignEnd) and isinstance(link, ChecksJobs):
            try:
                link.check_job(end.queue.endpoint(), job.options, direction)
            except AdminError as error:
                raise AdminError(
                    f"job {job.name}: {error.what}", number=Ora.OPTION_INVALID, cause=error.cause, cure=error.cure
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
        AdminError: ORA-32801 it is the source, or there is none and ``unrouted`` needs one; ORA-32820 other side or
            other link; ORA-32818 missing; ORA-32819 not a normal queue; ORA-32821 another payload type.
    """
    name, source = job.exception_queue, ends.source
    if name is None:
        if unrouted(job) is Unrouted.EXCEPTION_QUEUE:
            raise AdminError(
                f"job {job.name} cannot have {UNROUTED.name}={unrouted(job)}",
                number=Ora.INVALID_VALUE,
                cause="it has no exception queue",
                cure="give it one (--exception-queue), or choose another value",
            )
        return
    from_link = isinstance(source, ForeignEnd)
    if (split_foreign(name) is not None) is not from_link:
        wanted = (
            f"a registered queue of link {source.link.name}" if isinstance(source, ForeignEnd) else "a queue of the hub"
        )
        raise _bad_exception_queue(
            job, Ora.EXCEPTION_QUEUE_OTHER_SIDE, f"it is on the side of the source, here {wanted}", "name such a queue"
        )
    if isinstance(source, ForeignEnd):
        exception_key = _foreign_exception_queue(admin, conn, job, source, ends)
    else:
        exception_key = _hub_exception_queue(conn, job, source)
    if exception_key == ends.source_key:
        raise _bad_exception_queue(
            job, Ora.INVALID_VALUE, "it is the source: the message would be read again forever", "use another queue"
        )


def _hub_exception_queue(conn: sa.Connection, job: JobDef, source: QueueRef) -> str:
    queue = hub_queue(conn, job.exception_queue or "", job.name)
    has, wanted = payload_name(queue), payload_name(source)
    if has != wanted:
        raise _bad_exception_queue(
            job,
            Ora.EXCEPTION_QUEUE_OTHER_TYPE,
            f"it holds {has}, the source holds {wanted}",
            "use a queue of the same payload type",
        )
    if source.jms_types and not queue.jms_types:
        raise _bad_exception_queue(
            job,
            Ora.EXCEPTION_QUEUE_OTHER_TYPE,
            f"queue table {queue.queue_table} does not accept JMS and XML types, that of the source does",
            f"enable_jms_types for queue table {queue.queue_table}",
        )
    return key(f"{queue.schema}.{queue.name}")


def _foreign_exception_queue(
    admin: Administration, conn: sa.Connection, job: JobDef, source: ForeignEnd, ends: JobEnds
) -> str:
    registered = admin.need_queue(conn, job.exception_queue or "")
    if key(registered.link) != key(source.link.name):
        raise _bad_exception_queue(
            job,
            Ora.EXCEPTION_QUEUE_OTHER_SIDE,
            f"it is on link {registered.link}, the source on link {source.link.name}",
            "register a queue of the source's link",
        )
    check_endpoint(job, source.link, registered, Direction.OUTBOUND)
    needed = ends.connections[source.link.name] + 1
    limit = source.link.max_connections
    if limit is not None and limit < needed:
        more, may = ("a second", "one") if needed == 2 else ("another", str(limit))
        raise _bad_exception_queue(
            job,
            Ora.INVALID_VALUE,
            f"the job needs {more} connection for it, and link {registered.link} may hold {may} (max_connections)",
            f"raise max_connections of the link to {needed} or more",
        )
    if registered.provider_queue == source.queue.provider_queue:
        return ends.source_key
    return key(f"{registered.name}@{registered.link}")


def check_connections(job: JobDef, ends: JobEnds) -> None:
    """A job with both ends on one link holds two of its connections.

    Raises:
        AdminError: ORA-32801.
    """
    for end in ends.foreign:
        needed, limit = ends.connections[end.link.name], end.link.max_connections
        if limit is not None and limit < needed:
            raise AdminError(
                f"job {job.name}: link {end.link.name} may not hold enough connections",
                number=Ora.INVALID_VALUE,
                cause=f"the job reads from it and writes to it, which takes {needed}, and max_connections is {limit}",
                cure=f"raise max_connections of the link to {needed} or more",
            )


def check_guarantee(admin: Administration, job: JobDef, ends: JobEnds, before: JobDef | None = None) -> None:
    """Refuse a job whose ends and exception queue promise less than it requires. A messaging system that cannot be
    asked now is asked at activation. Connects: never call it in a transaction.

    Args:
        before: the job as it was. One that promised no more then may be altered.

    Raises:
        AdminError: ORA-32801; ORA-32810 the exception queue is not registered.
    """
    required = job.require_guarantee
    if required is None:
        return
    report = _asked(admin, job, ends)
    if report is None or report.level.rank <= required.rank:
        return
    was = None if before is None else _asked(admin, before, ends)
    if was is not None and was.level.rank >= report.level.rank:
        return
    raise AdminError(
        f"job {job.name} cannot promise {required}",
        number=Ora.INVALID_VALUE,
        cause=f"it can give {report.level} only: {report.note or 'no more is possible'}",
        cure="require less, or change that",
    )


def _asked(admin: Administration, job: JobDef, ends: JobEnds) -> GuaranteeReport | None:
    """What a job can promise now; None: the messaging system does not answer in time, or refuses.

    Raises:
        AdminError: ORA-32810 the exception queue is not registered.
    """
    with admin.hub.read() as conn:
        exceptions = _exceptions(admin, conn, job, ends)
    reports: list[GuaranteeReport] = []

    def ask() -> None:
        try:
            reports.append(promised(ends, exceptions, job, admin.hub))
        except (LinkError, ConfigInvalid):
            return  # activation tells; the definition itself is sound

    thread = threading.Thread(target=ask, name=f"verify {job.name}", daemon=True)
    thread.start()
    thread.join(VERIFY_SECONDS)
    return reports[0] if reports else None


def _exceptions(admin: Administration, conn: sa.Connection, job: JobDef, ends: JobEnds) -> ForeignEnd | None:
    """The exception queue of a job that reads from a link; None where there is none, or it is to be refused."""
    if not isinstance(ends.source, ForeignEnd) or split_foreign(job.exception_queue or "") is None:
        return None
    return foreign_end(admin, conn, job.exception_queue or "")


def promised(ends: JobEnds, exceptions: ForeignEnd | None, job: JobDef, hub: Hub) -> GuaranteeReport:
    """What both ends can promise now, together with the exception queue if that is on a link.

    Raises:
        LinkError: an end cannot be asked.
    """
    reports = []
    for end, direction in ((ends.source, Direction.INBOUND), (ends.destination, Direction.OUTBOUND)):
        if isinstance(end, ForeignEnd):
            reports.append(open_end(end).verify(job_use(job, end, hub), direction))
    promise = weakest(reports)
    if exceptions is None:
        return promise
    return with_exceptions(promise, open_plain(exceptions), replace(job_use(job, exceptions, hub), logged=False))


def forget(job: JobDef, foreign: ForeignEnd, hub: Hub, direction: Direction) -> None:
    """Remove what the gateway made for the job in a foreign system. Connects: never call it in a transaction.

    Raises:
        LinkError: it cannot be reached or refuses.
    """
    open_end(foreign).forget(job_use(job, foreign, hub), direction)


def collected(job: JobDef, foreign: ForeignEnd, hub: Hub) -> int | None:
    """Messages that go with the subscription of a job to a topic; None: the messaging system does not tell, or not now.

    Connects: never call it in a transaction.
    """
    link = open_end(foreign)
    found: list[int] = []
    if not isinstance(link, Collects):
        return None

    def ask() -> None:
        with suppress(LinkError, ConfigInvalid):
            found.append(link.collected(job_use(job, foreign, hub)))

    thread = threading.Thread(target=ask, name=f"removal {job.name}", daemon=True)
    thread.start()
    thread.join(VERIFY_SECONDS)
    return found[0] if found else None


def _bad_exception_queue(job: JobDef, number: int, cause: str, cure: str) -> AdminError:
    return AdminError(
        f"job {job.name}: exception queue {job.exception_queue} cannot be used", number=number, cause=cause, cure=cure
    )
