"""Procedures on propagation jobs (AQ guide 12.2 §19.5); the rules they check are in :mod:`admin.job_checks`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from mgw.gateway.definitions.objects import DEFAULT_AGENT, JobDef, JobStatus, Propagation
from mgw.gateway.services.admin import subscribers
from mgw.gateway.services.admin.base import (
    NO_CHANGE,
    NoChange,
    OptionalText,
    Ora,
    check_identifier,
    check_text,
)
from mgw.gateway.services.admin.job_checks import (
    check_connections,
    check_exception_queue,
    check_guarantee,
    check_options,
    check_parking,
    check_rule,
    check_schedules,
    check_sharing,
    check_transformation,
)
from mgw.gateway.services.admin.job_ends import JobEnds, resolve_ends
from mgw.gateway.services.admin.job_options import check_poll_interval, job_options
from mgw.gateway.services.admin.job_removal import JobRemoval
from mgw.gateway.state import catalog, run_state
from mgw.links.contract import Direction, Guarantee, LinkSpec
from mgw.transforms.errors import AdminError

__all__ = ["JobProcedures", "check_name_length", "texts"]

_LOGGER = logging.getLogger("mgw.admin")


class JobProcedures(JobRemoval):
    """Create, alter, enable, disable, reset and remove jobs."""

    def get_job(self, job_name: str) -> JobDef | None:
        """The job, or None."""
        with self.hub.read() as conn:
            return catalog.get_job(conn, job_name)

    def list_jobs(self) -> list[JobDef]:
        """All jobs, by name."""
        with self.hub.read() as conn:
            return catalog.list_jobs(conn)

    def create_job(  # noqa: PLR0917  the documented parameters in their documented order
        self,
        job_name: str,
        propagation_type: Propagation | Direction | str,
        source: str,
        destination: str,
        rule: str | None = None,
        transformation: str | None = None,
        exception_queue: str | None = None,
        poll_interval: float | None = None,
        options: Mapping[str, Any] | None = None,
        enabled: bool = True,
        comments: str | None = None,
        *,
        require_guarantee: Guarantee | str | None = None,
    ) -> JobDef:
        """Define a job; for a multi-consumer source its subscriber ``MGW_<job>`` collects from now on.

        Args:
            propagation_type: INBOUND (link to hub), OUTBOUND (hub to link), THROUGH (link to link, with no queue of the
                hub between), LOCAL (hub to hub, in one transaction).
            source, destination: ``[schema.]queue`` in the hub or ``queue@link``, as the type says. Both links of a
                THROUGH job belong to one agent; DEFAULT_AGENT runs LOCAL jobs.
            rule: which messages; from the hub: the subscriber's; from a link: the gateway selects, counting the others.
            poll_interval: seconds, 0.1..60; None: 5.
            options: see :data:`mgw.gateway.services.admin.JOB_OPTIONS`, and the job options of the link's type.
            require_guarantee: refuse to run with less. Checked now if the messaging system answers, else at activation.

        Raises:
            AdminError: ORA-32854 exists; ORA-32823, ORA-32824 source and destination are taken; ORA-32810, ORA-32818 an
                end is missing; ORA-32819 to 32821 exception queue; ORA-32801, ORA-32802, ORA-32840 to 32843 a value.
        """
        check_identifier("job", job_name)
        check_name_length("job", job_name)
        draft = JobDef(
            id=0,
            name=job_name,
            agent="",
            link="",
            propagation_type=_propagation(job_name, propagation_type),
            source=source,
            destination=destination,
            rule=rule or None,
            transformation=transformation or None,
            exception_queue=exception_queue or None,
            poll_interval=check_poll_interval(job_name, poll_interval),
            require_guarantee=_guarantee(job_name, require_guarantee),
            enabled=bool(enabled),
            comments=check_text(f"comment of job {job_name}", comments),
        )
        with self.hub.read() as conn:
            self._check_new(conn, draft)
            job, ends = self._checked(conn, draft, options or {})
        if job.require_guarantee is not None:
            check_guarantee(self, job, ends)  # asks the messaging system: outside of any transaction
        with self.change("job", job_name) as conn:
            self._check_new(conn, draft)
            job, ends = self._checked(conn, draft, options or {})
            check_schedules(conn, job, ends)
            return self._store(conn, job, ends)

    def _store(self, conn: sa.Connection, job: JobDef, ends: JobEnds) -> JobDef:
        """Keep a new job or subscriber; from now on its subscription collects."""
        keys = {"source_key": ends.source_key, "destination_key": ends.destination_key}
        stored = catalog.insert_job(conn, job, **keys, now=self.clock.now())
        if ends.subscribed is not None:
            subscribers.add(self.hub, conn, ends.subscribed, stored)
        return stored

    def alter_job(  # noqa: PLR0917  the documented parameters in their documented order
        self,
        job_name: str,
        rule: OptionalText = NO_CHANGE,
        transformation: OptionalText = NO_CHANGE,
        exception_queue: OptionalText = NO_CHANGE,
        poll_interval: float | None = 0,
        options: Mapping[str, Any] | None = None,
        comments: OptionalText = NO_CHANGE,
        *,
        require_guarantee: Guarantee | str | NoChange | None = NO_CHANGE,
    ) -> JobDef:
        """Alter a job, whether the agent runs or not; takes effect at once.

        Args:
            poll_interval: seconds; 0 keeps it, None goes back to the default.
            options: merged element by element, a value of None removes one; None as a whole keeps all.
            require_guarantee: as in :meth:`create_job`. Another exception queue, or other options, with which the job
                promises less than it requires, and less than before, are refused, too.

        Raises:
            AdminError: ORA-32855; ORA-32822 marked for removal; ORA-32842 option not alterable; as :meth:`create_job`.
        """
        changes = texts(rule, transformation, exception_queue)
        if comments is not NO_CHANGE:
            changes["comments"] = check_text(f"comment of job {job_name}", comments)
        if poll_interval != 0:
            changes["poll_interval"] = check_poll_interval(job_name, poll_interval)
        if not isinstance(require_guarantee, NoChange):
            changes["require_guarantee"] = _guarantee(job_name, require_guarantee)
        self._check_promise(lambda conn: self._usable(conn, job_name), changes, options)
        with self.change("job", job_name) as conn:
            return self._alter(conn, self._usable(conn, job_name), changes, options)

    def _check_promise(
        self,
        find: Callable[[sa.Connection], JobDef],
        changes: Mapping[str, Any],
        options: Mapping[str, Any] | None,
    ) -> None:
        """Refuse to alter a job so that it promises less than it requires. Connects: never call it in a transaction."""
        with self.hub.read() as conn:
            old = find(conn)
            if changes.get("require_guarantee", old.require_guarantee) is None:
                return
            new, ends = self._altered(conn, old, changes, options)
        if "require_guarantee" in changes:
            check_guarantee(self, new, ends)
        elif (new.exception_queue, new.options) != (old.exception_queue, old.options):
            check_guarantee(self, new, ends, old)

    def _alter(
        self, conn: sa.Connection, old: JobDef, changes: Mapping[str, Any], options: Mapping[str, Any] | None
    ) -> JobDef:
        new, ends = self._altered(conn, old, changes, options)
        catalog.update_job(conn, new)
        if ends.subscribed is None or self._subscribed_again(conn, new):
            return new
        if new.rule != old.rule:
            subscribers.alter(self.hub, conn, ends.subscribed, new)
        return new

    def _altered(
        self, conn: sa.Connection, old: JobDef, changes: Mapping[str, Any], options: Mapping[str, Any] | None
    ) -> tuple[JobDef, JobEnds]:
        """The job as it is to be, checked."""
        new = replace(old, **changes)
        _check_scheduled(old, new)
        ends = resolve_ends(self, conn, new)
        new = replace(new, options=job_options(new, _specs(ends), options, old.options))
        check_options(new, ends)
        check_rule(conn, new, ends)
        check_parking(conn, new, old)
        check_transformation(conn, new)
        check_exception_queue(self, conn, new, ends)
        return new, ends

    def _subscribed_again(self, conn: sa.Connection, job: JobDef) -> bool:
        """Whether the job had lost its subscription to its source, and has it again: from now on it collects, and the
        job is tried again. An event says what it means."""
        queue = subscribers.source_queue(conn, job)
        if queue is None or not queue.multiple_consumers or not subscribers.is_missing(self.hub, conn, queue, job):
            return False
        subscribers.add(self.hub, conn, queue, job)
        catalog.reset_job(conn, job.id)
        text = (
            f"job {job.name} is subscribed to queue {queue.full_name} again as {job.subscriber}: that subscription was "
            "gone; the job does not get messages that were enqueued meanwhile, or went with the queue"
        )
        _LOGGER.warning("%s", text)
        now = self.hub.clock.now()
        run_state.add_event(
            conn,
            agent_name=job.agent,
            level="WARNING",
            name="SubscribedAgain",
            object_name=job.name,
            text=text,
            now=now,
        )
        return True

    def enable_job(self, job_name: str) -> None:
        """Let a job move messages; idempotent. A subscription of the job that is gone with its queue is made again.

        Raises:
            AdminError: ORA-32855; ORA-32822 marked for removal.
        """
        self._set_enabled(job_name, enabled=True)

    def disable_job(self, job_name: str) -> None:
        """Stop a job; its subscription keeps collecting. Idempotent.

        Raises:
            AdminError: ORA-32855; ORA-32822 marked for removal.
        """
        self._set_enabled(job_name, enabled=False)

    def reset_job(self, job_name: str) -> None:
        """READY with no failures; tried again at once. A job that is connected drains and reconnects. A subscription of
        the job that is gone with its queue is made again.

        Raises:
            AdminError: ORA-32855; ORA-32822 marked for removal.
        """
        with self.change("job", job_name, "reset", deed=True) as conn:
            job = self._usable(conn, job_name)
            if not self._subscribed_again(conn, job):
                catalog.reset_job(conn, job.id)

    @staticmethod
    def _check_new(conn: sa.Connection, draft: JobDef) -> None:
        """The name of a job is that of its subscriber and of its schedule (AQ guide 12.2 §19.6.1)."""
        found = catalog.get_subscriber(conn, draft.name)
        cause = None
        if found is not None:
            cause = "a job has that name" if found.schedule is not None else "a subscriber has that name"
        elif catalog.get_schedule(conn, draft.name) or catalog.job_of_schedule(conn, draft.name):
            cause = "a schedule has that name"
        if cause is not None:
            raise AdminError(
                f"job {draft.name} already exists",
                number=Ora.JOB_EXISTS,
                cause=cause,
                cure="alter it, or choose another name",
            )

    def _checked(self, conn: sa.Connection, draft: JobDef, options: Mapping[str, Any]) -> tuple[JobDef, JobEnds]:
        ends = resolve_ends(self, conn, draft)
        link = next((end.link for end in ends.foreign), None)
        job = replace(draft, agent=link.agent if link else DEFAULT_AGENT, link=link.name if link else "")
        job = replace(job, options=job_options(job, _specs(ends), options, {}))
        check_sharing(conn, job, ends)
        check_connections(job, ends)
        check_options(job, ends)
        check_rule(conn, job, ends)
        check_parking(conn, job)
        check_transformation(conn, job)
        check_exception_queue(self, conn, job, ends)
        return job, ends

    def _usable(self, conn: sa.Connection, job_name: str) -> JobDef:
        job = self.need_job(conn, job_name)
        if job.status.leaving:
            called = "remove_job" if job.status is JobStatus.DELETE_PENDING else "remove_subscriber"
            raise AdminError(
                f"job {job.name} is marked for removal",
                number=Ora.MARKED_FOR_REMOVAL,
                cause=f"{called} was called and its cleanup is not complete",
                cure=f"start the agent, which completes it, or: mgw jobs remove {job.name} --force",
            )
        return job

    def _set_enabled(self, job_name: str, *, enabled: bool) -> None:
        with self.change("job", job_name, "enable" if enabled else "disable") as conn:
            job = replace(self._usable(conn, job_name), enabled=enabled)
            catalog.update_job(conn, job)
            if enabled:
                self._subscribed_again(conn, job)


def _check_scheduled(old: JobDef, new: JobDef) -> None:
    """What belongs to a schedule of DBMS_HQADM stays as that made it.

    Raises:
        AdminError: ORA-32803.
    """
    kept = [name for name in ("exception_queue", "poll_interval") if getattr(old, name) != getattr(new, name)]
    if old.outbound is not None and kept:
        raise AdminError(
            f"job {old.name}: {kept[0]} cannot be altered",
            number=Ora.NOT_ALTERABLE,
            cause="a schedule of DBMS_HQADM made the job, and it belongs to the schedule",
            cure="remove the schedule (mgw outbound-schedules remove), and create it again",
        )


def check_name_length(kind: str, name: str) -> None:
    """The name of a job or subscriber fits into that of its subscriber in the hub.

    Raises:
        AdminError: ORA-32805.
    """
    if len(name.encode()) > subscribers.MAX_JOB_NAME:
        raise AdminError(
            f"{kind} name {name[:40]!r}... has {len(name.encode())} bytes",
            number=Ora.IDENTIFIER_TOO_LONG,
            cause=f"its subscriber MGW_<{kind}> holds at most {subscribers.MAX_JOB_NAME} of them",
            cure="choose a shorter name",
        )


def texts(rule: OptionalText, transformation: OptionalText, exception_queue: OptionalText) -> dict[str, Any]:
    """Those of the three that are to be changed."""
    given = {"rule": rule, "transformation": transformation, "exception_queue": exception_queue}
    return {name: value or None for name, value in given.items() if value is not NO_CHANGE}


def _specs(ends: JobEnds) -> list[LinkSpec]:
    return [end.spec for end in ends.foreign]


def _propagation(job_name: str, given: Propagation | Direction | str) -> Propagation:
    text = str(given).upper().removesuffix("_PROPAGATION")
    try:
        return Propagation(text)
    except ValueError:
        raise AdminError(
            f"job {job_name}: propagation type {given!r} is unknown",
            number=Ora.VALUE_MUST_BE,
            cause="it is INBOUND, OUTBOUND, THROUGH or LOCAL",
            cure="correct it",
        ) from None


def _guarantee(job_name: str, given: Guarantee | str | None) -> Guarantee | None:
    if given is None:
        return None
    try:
        return Guarantee(str(given).lower())
    except ValueError:
        raise AdminError(
            f"job {job_name}: guarantee {given!r} is unknown",
            number=Ora.VALUE_MUST_BE,
            cause=f"it is one of {', '.join(Guarantee)}",
            cure="correct it, or leave it out",
        ) from None
