"""Procedures on subscribers of the old style (AQ guide 12.2 §19.6).

A subscriber and a schedule with the same propagation type, source and destination are a job. A subscriber without one
collects and moves nothing; it is in ``MGW_SUBSCRIBERS``, not in ``MGW_JOBS``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from mgw.gateway.definitions.objects import JobDef, JobStatus, Propagation
from mgw.gateway.services.admin.base import NO_CHANGE, OptionalText, Ora, check_identifier
from mgw.gateway.services.admin.job_removal import NO_FORCE
from mgw.gateway.services.admin.jobs import JobProcedures, check_name_length, texts
from mgw.gateway.services.admin.old_style import called, check_not_removed, check_old_style, old_style_type
from mgw.gateway.state import catalog
from mgw.links.contract import Direction
from mgw.transforms.errors import AdminError

__all__ = ["SubscriberProcedures"]

_KIND = "subscriber"


class SubscriberProcedures(JobProcedures):
    """Add, alter, reset and remove subscribers."""

    def list_subscribers(self) -> list[JobDef]:
        """The subscriber of every job, and those without a schedule (``schedule`` is None), by name."""
        with self.hub.read() as conn:
            return catalog.list_subscribers(conn)

    def add_subscriber(  # noqa: PLR0917  the documented parameters in their documented order
        self,
        subscriber_id: str,
        propagation_type: Propagation | Direction | str,
        queue_name: str,
        destination: str,
        rule: str | None = None,
        transformation: str | None = None,
        exception_queue: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> JobDef:
        """Add the first half of a job of the old style; its subscription collects from now on.

        It is a job, and moves messages, as soon as :meth:`schedule_propagation` gives it a schedule of the same type,
        source and destination, or at once if that is there. The job's name is ``subscriber_id``.

        Args:
            propagation_type: INBOUND or OUTBOUND.
            queue_name: the source: ``[schema.]queue`` with several consumers (OUTBOUND), or ``queue@link``.
            rule, transformation, exception_queue, options: as in :meth:`create_job`.

        Raises:
            AdminError: ORA-32811 exists; ORA-32823 source and destination are taken; ORA-32801 the source is a
                single-consumer queue of the hub; otherwise as :meth:`create_job`.
        """
        check_identifier(_KIND, subscriber_id)
        check_name_length(_KIND, subscriber_id)
        draft = JobDef(
            id=0,
            name=subscriber_id,
            agent="",
            link="",
            propagation_type=old_style_type(_KIND, subscriber_id, propagation_type),
            source=queue_name,
            destination=destination,
            rule=rule or None,
            transformation=transformation or None,
            exception_queue=exception_queue or None,
            enabled=False,
            old_style=True,
        )
        with called(_KIND, subscriber_id), self.change(_KIND, subscriber_id) as conn:
            if catalog.get_subscriber(conn, subscriber_id) is not None:
                raise AdminError(
                    f"{_KIND} {subscriber_id} already exists",
                    number=Ora.SUBSCRIBER_EXISTS,
                    cause="a subscriber or a job has that name",
                    cure="alter it, or choose another name",
                )
            job, ends = self._checked(conn, draft, options or {})
            if ends.hub_source is not None and ends.subscribed is None:
                raise AdminError(
                    f"{_KIND} {subscriber_id}: source {queue_name} cannot be used",
                    number=Ora.INVALID_VALUE,
                    cause="it is a single-consumer queue, which has no subscribers",
                    cure="use a multi-consumer queue, or create a job (create_job, mgw jobs create)",
                )
            found = catalog.schedule_of_triplet(conn, job.propagation_type, ends.source_key, ends.destination_key)
            if found is not None:
                catalog.delete_schedule(conn, found.name)
                job = replace(job, schedule=found.name, poll_interval=found.latency, enabled=found.enabled)
            return self._store(conn, job, ends)

    def alter_subscriber(
        self,
        subscriber_id: str,
        rule: OptionalText = NO_CHANGE,
        transformation: OptionalText = NO_CHANGE,
        exception_queue: OptionalText = NO_CHANGE,
        options: Mapping[str, Any] | None = None,
    ) -> JobDef:
        """Alter a subscriber of the old style; takes effect at once.

        Args:
            options: merged element by element, a value of None removes one; None as a whole keeps all.

        Raises:
            AdminError: ORA-32812 unknown; ORA-32822 marked for removal; ORA-32856 it belongs to a job of the new style;
                otherwise as :meth:`alter_job`.
        """
        changes = texts(rule, transformation, exception_queue)
        with called(_KIND, subscriber_id):
            self._check_promise(lambda conn: self._usable_subscriber(conn, subscriber_id), changes, options)
            with self.change(_KIND, subscriber_id) as conn:
                return self._alter(conn, self._usable_subscriber(conn, subscriber_id), changes, options)

    def reset_subscriber(self, subscriber_id: str) -> None:
        """No failures, tried again at once. A job that is connected drains and reconnects. A subscription that is gone
        with its queue is made again.

        Raises:
            AdminError: ORA-32812 unknown; ORA-32822 marked for removal; ORA-32856 it belongs to a job of the new style.
        """
        with self.change(_KIND, subscriber_id, "reset", deed=True) as conn:
            job = self._usable_subscriber(conn, subscriber_id)
            if not self._subscribed_again(conn, job):
                catalog.reset_job(conn, job.id)

    def remove_subscriber(
        self,
        subscriber_id: str,
        force: bool = NO_FORCE,
        *,
        move_to: str | None = None,
        drop_messages: bool = False,
    ) -> bool:
        """Remove a subscriber of the old style, and the subscription the gateway made for it; its schedule stays.

        As :meth:`remove_job`: a subscriber for which messages wait is removed only if it is said what becomes of them,
        and while its agent runs or the foreign system cannot be reached, its removal is pending: its job is
        SUBSCRIBER_DELETE_PENDING. ``force`` removes it at once and leaves the foreign subscription.

        Args:
            move_to: a queue of the hub that the messages go to first, in the same transaction.
            drop_messages: delete the messages, and remove the foreign subscription all the same.

        Returns:
            True when it is gone, False when its removal is pending.

        Raises:
            AdminError: ORA-32812 unknown; ORA-32822 remove_job was called; ORA-32856 it belongs to a job of the new
                style; ORA-32801 messages wait for it.
        """

        def find(conn: sa.Connection) -> JobDef:
            job = self._need_subscriber(conn, subscriber_id)
            check_not_removed(_KIND, job.name, job)
            return job

        with called(_KIND, subscriber_id):
            return self._take_away(
                find,
                JobStatus.SUBSCRIBER_DELETE_PENDING,
                force=force,
                move_to=move_to,
                drop_messages=drop_messages,
            )

    def _need_subscriber(self, conn: sa.Connection, name: str) -> JobDef:
        job = catalog.get_subscriber(conn, name)
        if job is None:
            raise AdminError(
                f"{_KIND} {name} does not exist",
                number=Ora.SUBSCRIBER_MISSING,
                cause="no subscriber has that name",
                cure="mgw subscribers list shows the names (view MGW_SUBSCRIBERS)",
            )
        check_old_style(_KIND, name, job)
        return job

    def _usable_subscriber(self, conn: sa.Connection, name: str) -> JobDef:
        job = self._need_subscriber(conn, name)
        check_not_removed(_KIND, job.name, job)
        if job.status.leaving:
            raise AdminError(
                f"{_KIND} {job.name} is marked for removal",
                number=Ora.MARKED_FOR_REMOVAL,
                cause="remove_subscriber was called and its cleanup is not complete",
                cure=f"start the agent, which completes it, or: mgw subscribers remove {job.name} --force",
            )
        return job
