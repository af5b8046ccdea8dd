"""Procedures of the older gateway, DBMS_HQADM (MQSeries gateway guide 9.2 ch. 11).

A schedule makes a job, which is in ``MGW_JOBS`` as every job, and the exception queue of that job. What is its own
(latency, window, protocol) is in ``DBA_OUTBOUND_SCHEDULES``. docs/decisions/0036-schedules-of-the-older-gateway.md
says why there is no queue between.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from functools import partial

import sqlalchemy as sa

from mgw.gateway.aq import Held, QueueAdmin, QueueInfo, QueueInUse, payload_name, shown_key
from mgw.gateway.definitions.objects import JobDef, JobStatus, Propagation, key
from mgw.gateway.definitions.outbound import (
    DEFAULT_LATENCY,
    PROTOCOL_TYPES,
    OutboundSchedule,
    protocol_name,
)
from mgw.gateway.services.admin import outbound_values as values
from mgw.gateway.services.admin import subscribers
from mgw.gateway.services.admin.base import Ora
from mgw.gateway.services.admin.job_checks import check_schedules
from mgw.gateway.services.admin.job_ends import JobEnds, open_end, resolve_ends
from mgw.gateway.services.admin.job_options import MAX_POLL_INTERVAL, MIN_POLL_INTERVAL
from mgw.gateway.services.admin.jobs import JobProcedures
from mgw.gateway.services.admin.old_style import called
from mgw.gateway.state import catalog
from mgw.transforms.errors import AdminError, GatewayError, HubError

__all__ = ["OutboundProcedures"]

_KIND = "outbound schedule"
STOP_SECONDS = 5.0  # for the transactions on an exception queue to end; administration waits meanwhile


class OutboundProcedures(JobProcedures):
    """Schedule and unschedule propagation as DBMS_HQADM does."""

    def list_outbound_schedules(self) -> list[JobDef]:
        """The jobs that schedules of the older gateway made, by name; ``outbound`` is the schedule of each."""
        return [job for job in self.list_jobs() if job.outbound is not None]

    def hq_schedule_propagation(  # noqa: PLR0917  the documented parameters in their documented order
        self,
        queue_name: str,
        protocol: int | str,
        destination: str,
        start_time: datetime | str | float | None = None,
        duration: float | None = None,
        next_time: str | None = None,
        latency: float = DEFAULT_LATENCY,
    ) -> JobDef:
        """Propagate what is in a RAW queue of the hub to a foreign queue, in windows: SCHEDULE_PROPAGATION of
        DBMS_HQADM.

        It makes a job ``HQ$_<number>`` and its exception queue ``HQ$_<number>_E``. A multi-consumer queue gets the
        subscriber ``MGW_HQ$_<number>``, which collects from now on, in a window or not.

        Args:
            queue_name: ``[schema.]queue``.
            protocol: MQSERIES_OUTBOUND (128: whatever the link is), RABBITMQ_OUTBOUND, KAFKA_OUTBOUND, MQTT_OUTBOUND;
                a number or a name.
            destination: a registered foreign queue, ``queue@link``.
            start_time: when the first window opens: a ``datetime``, ISO 8601 text or epoch seconds, UTC where no zone
                is told; None: now.
            duration: seconds that a window is open, 1 or more; None: it stays open.
            next_time: date expression that is reckoned at the end of a window and says when the next one opens, such as
                ``SYSDATE + 1 - 600/86400``; None: there is no other.
            latency: seconds for which nothing is sent after the queue was found empty, 0.1 or more; 0: a message is
                sent as soon as it is there.

        Raises:
            AdminError: ORA-20001 the destination is not queue@link; ORA-20002 the queue is not of type RAW; ORA-20003
                the link cannot be used; ORA-32824 it is scheduled; ORA-32810, ORA-32818 an end is missing; ORA-32802
                protocol; ORA-32801 a bad value; otherwise as :meth:`create_job`.
        """
        number = values.protocol(protocol)
        values.address(destination)
        now = self.clock.now()
        begin = values.moment(start_time, now)
        open_for, waits = values.duration(duration, begin), values.latency(latency)
        schedule = OutboundSchedule(number, waits, begin, open_for, next_time or None, "", window=begin)
        schedule = values.begun(schedule, now)
        while True:
            name = self._new_name(queue_name)
            with called(_KIND, name), self.change(_KIND, name) as conn:
                if _is_free(conn, name):
                    return self._schedule(conn, _job(name, queue_name, destination, schedule))

    def hq_unschedule_propagation(
        self, queue_name: str, protocol: int | str, destination: str | None = None, force: bool = False
    ) -> bool:
        """Remove a schedule with its job and its exception queue: UNSCHEDULE_PROPAGATION of DBMS_HQADM.

        Args:
            destination: of the schedule; None is refused, as there.
            force: delete the messages that wait for the schedule, and those in its exception queue. Messages in a
                single-consumer queue stay there in any case.

        Returns:
            True when the job is gone, False when the agent removes it after its work in flight.

        Raises:
            AdminError: ORA-20001 the destination is not queue@link; ORA-20004 messages are left, transactions work on
                its exception queue, or the queue table of that has another queue; ORA-32814 unknown; ORA-32802
                protocol.
        """
        number, wanted = values.protocol(protocol), key(values.address(destination))

        def find(conn: sa.Connection) -> JobDef:
            source = shown_key(queue_name)
            job = catalog.subscriber_of_triplet(conn, Propagation.OUTBOUND, source, wanted)
            if job is None or job.outbound is None or job.outbound.protocol != number:
                raise AdminError(
                    f"{_KIND} of {queue_name} to {destination} does not exist",
                    number=Ora.SCHEDULE_MISSING,
                    cause=f"no schedule of protocol {protocol_name(number)} has that queue and that destination",
                    cure="mgw outbound-schedules list shows them (view DBA_OUTBOUND_SCHEDULES)",
                )
            if not force:
                self._check_empty(conn, job, job.outbound)
            return job

        return self._take_away(
            find,
            JobStatus.DELETE_PENDING,
            force=False,
            move_to=None,
            drop_messages=force,
            also=partial(self._unschedule, force=force),
        )

    def _new_name(self, queue_name: str) -> str:
        """Name of a new job, free as a name of a queue table in the schema of its source, and of a schedule, too."""
        schema = values.schema_of(queue_name)
        with self.hub.read() as conn:
            number = catalog.last_outbound_number(conn) + 1
            admin = QueueAdmin(self.hub, conn)
            while True:
                name = f"{catalog.OUTBOUND_PREFIX}{number}"
                table = admin.queue_table(f'"{schema}"."{name}"')  # there if somebody removed a job with SQL
                if table is None and admin.queue(f'"{schema}"."{name}_E"') is None and _is_free(conn, name):
                    return name
                number += 1

    def _schedule(self, conn: sa.Connection, draft: JobDef) -> JobDef:
        ends = resolve_ends(self, conn, draft)
        self._check_ends(conn, draft, ends)
        check_schedules(conn, draft, ends)
        assert draft.outbound is not None  # noqa: S101  it is the draft of a schedule
        assert ends.hub_source is not None  # noqa: S101  it is outbound
        made = self._exception_queue(conn, ends.hub_source.schema, draft)
        schedule = replace(draft.outbound, exception_queue=made)
        job, ends = self._checked(conn, replace(draft, exception_queue=made, outbound=schedule), {})
        stored = self._store(conn, job, ends)
        catalog.insert_outbound_schedule(conn, stored.id, schedule)
        return stored

    def _exception_queue(self, conn: sa.Connection, schema: str, draft: JobDef) -> str:
        """Make the exception queue of a schedule, in a queue table of its own; its name."""
        admin, table = QueueAdmin(self.hub, conn), f'"{schema}"."{draft.name}"'
        comment = f"exceptions of {draft.source} to {draft.destination}"
        admin.create_queue_table(table, "RAW", comment=comment)
        made = admin.create_queue(f'"{schema}"."{draft.name}_E"', table, comment=comment)
        admin.start_queue(made.full_name)
        return made.full_name

    @staticmethod
    def _check_ends(conn: sa.Connection, draft: JobDef, ends: JobEnds) -> None:
        source, (target,) = ends.hub_source, ends.foreign
        assert source is not None  # noqa: S101  resolve_ends gives an outbound job one
        if payload_name(source) != "RAW":
            raise AdminError(
                f"{_KIND} {draft.name}: queue {draft.source} cannot be used",
                number=Ora.HQ_NOT_RAW,
                cause=f"it holds {payload_name(source)}, and schedules of DBMS_HQADM propagate RAW queues",
                cure="use a RAW queue, or create a job (create_job, mgw jobs create)",
            )
        protocol = draft.outbound.protocol if draft.outbound is not None else 0
        if PROTOCOL_TYPES[protocol] not in {None, target.link.type}:
            raise AdminError(
                f"{_KIND} {draft.name}: protocol {protocol_name(protocol)} cannot be used",
                number=Ora.VALUE_MUST_BE,
                cause=f"link {target.link.name} is of type {target.link.type}",
                cure="give the protocol of the link, or MQSERIES_OUTBOUND, which goes with every link",
            )
        taken = catalog.subscriber_of_triplet(conn, ends.kind, ends.source_key, ends.destination_key)
        if taken is not None:
            raise AdminError(
                f"{_KIND} {draft.name}: {draft.source} is already scheduled to {draft.destination}",
                number=Ora.SCHEDULED,
                cause=f"job {taken.name} has that source and that destination",
                cure="remove it first",
            )
        try:
            open_end(target)
        except (AdminError, HubError):
            raise
        except GatewayError as error:
            raise AdminError(
                f"{_KIND} {draft.name}: link {target.link.name} cannot be used: {error.what}",
                number=Ora.HQ_INTERFACE,
                cause=error.cause or "its definition is not complete",
                cure=error.cure or "correct the link",
            ) from error

    def _check_empty(self, conn: sa.Connection, job: JobDef, schedule: OutboundSchedule) -> None:
        """Nothing is left of a schedule that is to be removed without force.

        Raises:
            AdminError: ORA-20004.
        """
        admin = QueueAdmin(self.hub, conn)
        queue = subscribers.source_queue(conn, job)
        collected = queue is not None and queue.multiple_consumers
        waiting = subscribers.held(self.hub, conn, queue, job) if queue is not None and collected else Held(0)
        exceptions = admin.queue(schedule.exception_queue)
        failed = [] if exceptions is None else _held(admin, _goes_with(admin, job, exceptions))
        self._refuse_held(job, [(f"queue {job.source}", waiting), *failed])

    def _refuse_held(self, job: JobDef, places: Iterable[tuple[str, Held]]) -> None:
        left = [f"{place} holds {held.told(self.clock.now())}" for place, held in places if held.messages]
        if left:
            raise _in_progress(
                job,
                " and ".join(left),
                "wait until the messages are propagated and take those of the exception queue, or delete them "
                "(--force, in Python force)",
            )

    def _unschedule(self, conn: sa.Connection, job: JobDef, *, force: bool) -> None:
        """The schedule and its exception queue are gone; what the job has in flight is finished.

        Messages are counted once more when nobody can put one in any more.

        Raises:
            AdminError: ORA-20004.
        """
        if job.outbound is None:
            return
        admin = QueueAdmin(self.hub, conn)
        exceptions = admin.queue(job.outbound.exception_queue)
        catalog.delete_outbound_schedule(conn, job.id)
        catalog.update_job(conn, replace(job, exception_queue=None))
        if exceptions is None:
            return
        queues = _goes_with(admin, job, exceptions)
        for each in queues:
            try:
                admin.stop_queue(each.full_name, wait=STOP_SECONDS)
            except QueueInUse as error:
                cause = f"queue {each.full_name} cannot be stopped: {error.cause}"
                raise _in_progress(job, cause, "try again when those have ended") from error
        if not force:
            self._refuse_held(job, _held(admin, queues))
        admin.drop_queue_table(exceptions.queue_table, force=True)


def _goes_with(admin: QueueAdmin, job: JobDef, exceptions: QueueInfo) -> list[QueueInfo]:
    """The exception queue of a schedule, then that of its queue table: messages move in that order.

    Raises:
        AdminError: ORA-20004 somebody put another queue into the queue table.
    """
    queues = admin.queues(exceptions.queue_table)
    others = [each.full_name for each in queues if each.id != exceptions.id and not _of_table(each)]
    if others:
        raise _in_progress(
            job,
            f"queue table {exceptions.queue_table}, which goes with it, also has queue {', '.join(others[:5])}",
            f"stop and drop that queue first: mgw aq stop {others[0]}, mgw aq drop {others[0]}",
        )
    return sorted(queues, key=_of_table)


def _held(admin: QueueAdmin, queues: Iterable[QueueInfo]) -> list[tuple[str, Held]]:
    """What they hold."""
    names = [(f"{'' if _of_table(each) else 'exception '}queue {each.full_name}", each.full_name) for each in queues]
    return [(place, admin.held_by_queue(name)) for place, name in names]


def _of_table(queue: QueueInfo) -> bool:
    """Whether it is the exception queue that a queue table has by itself."""
    return queue.name.upper().startswith("AQ$_")


def _in_progress(job: JobDef, cause: str, cure: str) -> AdminError:
    return AdminError(
        f"{_KIND} {job.name} cannot be removed: propagation is still in progress",
        number=Ora.HQ_IN_PROGRESS,
        cause=cause,
        cure=cure,
    )


def _is_free(conn: sa.Connection, name: str) -> bool:
    """Whether no job, subscriber or schedule of the old style has a name."""
    return catalog.get_subscriber(conn, name) is None and catalog.find_schedule(conn, name) is None


def _job(name: str, queue_name: str, destination: str, schedule: OutboundSchedule) -> JobDef:
    latency = schedule.latency
    interval = min(latency, MAX_POLL_INTERVAL) if latency >= MIN_POLL_INTERVAL else None
    return JobDef(
        id=0,
        name=name,
        agent="",
        link="",
        propagation_type=Propagation.OUTBOUND,
        source=queue_name,
        destination=destination,
        poll_interval=interval,
        outbound=schedule,
    )
