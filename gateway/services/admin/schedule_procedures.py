"""Procedures on schedules of the old style (AQ guide 12.2 §19.6).

A schedule without a subscriber of the same propagation type, source and destination moves nothing; it is in
``MGW_SCHEDULES``, not in ``MGW_JOBS``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from mgw.gateway.definitions.objects import JobDef, Propagation, ScheduleDef
from mgw.gateway.services.admin.base import Administration, Ora, check_identifier
from mgw.gateway.services.admin.job_ends import resolve_ends
from mgw.gateway.services.admin.job_options import check_poll_interval
from mgw.gateway.services.admin.old_style import called, check_not_removed, check_old_style, old_style_type
from mgw.gateway.state import catalog
from mgw.links.contract import Direction
from mgw.transforms.errors import AdminError

__all__ = ["ScheduleProcedures"]

_KIND = "schedule"


class ScheduleProcedures(Administration):
    """Schedule and unschedule propagation, alter, enable and disable schedules."""

    def list_schedules(self) -> list[ScheduleDef]:
        """The schedule of every job, and those without a subscriber, by name."""
        with self.hub.read() as conn:
            return catalog.list_schedules(conn)

    def schedule_propagation(  # noqa: PLR0917  the documented parameters in their documented order
        self,
        schedule_id: str,
        propagation_type: Propagation | Direction | str,
        source: str,
        destination: str,
        start_time: Any = None,  # noqa: ARG002
        duration: float | None = None,  # noqa: ARG002
        next_time: str | None = None,  # noqa: ARG002
        latency: float | None = None,
    ) -> ScheduleDef:
        """Add the second half of a job of the old style, enabled: messages move from now on if its subscriber is there.

        Args:
            propagation_type: INBOUND or OUTBOUND.
            source, destination: those of the subscriber; ``[schema.]queue`` in the hub or ``queue@link``.
            start_time, duration, next_time: reserved; have no effect.
            latency: poll interval, seconds, 0.1..60; None: the default.

        Raises:
            AdminError: ORA-32813 exists; ORA-32824 source and destination are scheduled; ORA-32810, ORA-32818 an end is
                missing; ORA-32801, ORA-32802, ORA-32804, ORA-32843 a bad value.
        """
        check_identifier(_KIND, schedule_id)
        kind = old_style_type(_KIND, schedule_id, propagation_type)
        draft = JobDef(0, schedule_id, "", "", kind, source, destination)
        with called(_KIND, schedule_id), self.change(_KIND, schedule_id) as conn:
            interval = check_poll_interval(schedule_id, latency)
            if catalog.get_schedule(conn, schedule_id) or catalog.job_of_schedule(conn, schedule_id):
                raise AdminError(
                    f"{_KIND} {schedule_id} already exists",
                    number=Ora.SCHEDULE_EXISTS,
                    cause="a schedule or a job has that name",
                    cure="alter it, or choose another name",
                )
            ends = resolve_ends(self, conn, draft)
            triplet = (kind, ends.source_key, ends.destination_key)
            job, other = catalog.subscriber_of_triplet(conn, *triplet), catalog.schedule_of_triplet(conn, *triplet)
            if other is not None or (job is not None and job.schedule is not None):
                raise AdminError(
                    f"{_KIND} {schedule_id}: {source} is already scheduled to {destination}",
                    number=Ora.SCHEDULED,
                    cause=f"schedule {other.name if other else job.schedule if job else ''} has the same propagation "
                    "type, source and destination",
                    cure="alter that schedule, or remove it first",
                )
            made = ScheduleDef(schedule_id, ends.foreign[0].link.name, kind, source, destination, interval)
            if job is None:
                keys = {"source_key": ends.source_key, "destination_key": ends.destination_key}
                catalog.insert_schedule(conn, made, **keys)
            else:
                catalog.set_job_schedule(conn, replace(job, schedule=made.name, poll_interval=interval, enabled=True))
            return made

    def unschedule_propagation(self, schedule_id: str) -> None:
        """Remove a schedule of the old style at once. Its subscriber stays, and collects; the two are no job any more.

        Raises:
            AdminError: ORA-32814 unknown; ORA-32822 remove_job was called; ORA-32856 it belongs to a job of the new
                style.
        """
        with self.change(_KIND, schedule_id) as conn:
            job = self._job_of(conn, schedule_id)
            if job is None:
                catalog.delete_schedule(conn, schedule_id)
            else:
                catalog.set_job_schedule(conn, replace(job, schedule=None, poll_interval=None, enabled=False))

    def alter_propagation_schedule(
        self,
        schedule_id: str,
        duration: float | None = None,  # noqa: ARG002
        next_time: str | None = None,  # noqa: ARG002
        latency: float | None = None,
    ) -> None:
        """Set the poll interval of a schedule of the old style; takes effect at once.

        Args:
            duration, next_time: reserved; have no effect.
            latency: seconds, 0.1..60. It always overwrites: None restores the default.

        Raises:
            AdminError: ORA-32814 unknown; ORA-32822 remove_job was called; ORA-32843 out of range; ORA-32856 it belongs
                to a job of the new style.
        """
        with called(_KIND, schedule_id):
            interval = check_poll_interval(schedule_id, latency)
        self._alter_schedule(
            schedule_id, lambda job: replace(job, poll_interval=interval), lambda each: replace(each, latency=interval)
        )

    def enable_propagation_schedule(self, schedule_id: str) -> None:
        """Let the job of a schedule of the old style move messages; idempotent.

        Raises:
            AdminError: ORA-32814 unknown; ORA-32822 remove_job was called; ORA-32856 it belongs to a job of the new
                style.
        """
        self._alter_schedule(
            schedule_id,
            lambda job: replace(job, enabled=True),
            lambda each: replace(each, enabled=True),
            "enable",
        )

    def disable_propagation_schedule(self, schedule_id: str) -> None:
        """Stop the job of a schedule of the old style; its subscription keeps collecting. Idempotent.

        Raises:
            AdminError: as :meth:`enable_propagation_schedule`.
        """
        self._alter_schedule(
            schedule_id,
            lambda job: replace(job, enabled=False),
            lambda each: replace(each, enabled=False),
            "disable",
        )

    def _alter_schedule(
        self,
        name: str,
        job_with: Callable[[JobDef], JobDef],
        schedule_with: Callable[[ScheduleDef], ScheduleDef],
        verb: str = "",
    ) -> None:
        with self.change(_KIND, name, verb) as conn:
            job = self._job_of(conn, name)
            if job is not None:
                catalog.update_job(conn, job_with(job))
            elif (alone := catalog.get_schedule(conn, name)) is not None:
                catalog.update_schedule(conn, schedule_with(alone))

    @staticmethod
    def _job_of(conn: sa.Connection, name: str) -> JobDef | None:
        """The job of a schedule that may be used; None: the schedule has no subscriber."""
        job = catalog.job_of_schedule(conn, name)
        if job is not None:
            check_old_style(_KIND, name, job)
            check_not_removed(_KIND, name, job)
        elif catalog.get_schedule(conn, name) is None:
            raise AdminError(
                f"{_KIND} {name} does not exist",
                number=Ora.SCHEDULE_MISSING,
                cause="no schedule has that name",
                cure="mgw schedules list shows the names (view MGW_SCHEDULES)",
            )
        return job
