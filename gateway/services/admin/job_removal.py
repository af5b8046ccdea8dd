"""Removal of jobs, with what waits for them (AQ guide 12.2 §19.5)."""

from __future__ import annotations

import logging
from collections.abc import Callable

import sqlalchemy as sa

from mgw.gateway.aq import Held, QueueAdmin, QueueRef, Removal, record
from mgw.gateway.definitions.objects import Activity, JobDef, JobStatus
from mgw.gateway.services.admin import subscribers
from mgw.gateway.services.admin.base import Administration, Ora
from mgw.gateway.services.admin.job_checks import collected, forget
from mgw.gateway.services.admin.job_ends import foreign_end, open_end
from mgw.gateway.services.admin.recorded import changes, look
from mgw.gateway.state import catalog, run_state
from mgw.links.contract import Collects, Direction
from mgw.transforms.errors import AdminError, GatewayError

__all__ = ["FORCE", "NO_FORCE", "JobRemoval"]

_LOGGER = logging.getLogger("mgw.admin")

_ACTIONS = {JobStatus.DELETE_PENDING: "remove job", JobStatus.SUBSCRIBER_DELETE_PENDING: "remove subscriber"}

FORCE = True
NO_FORCE = False


class JobRemoval(Administration):
    """Remove jobs."""

    def remove_job(
        self,
        job_name: str,
        force: bool = NO_FORCE,
        *,
        move_to: str | None = None,
        drop_messages: bool = False,
    ) -> bool:
        """Remove a job, and the subscription the gateway made for it.

        A job for which messages wait in a multi-consumer queue of the hub is removed only if it is said what becomes of
        them: ``force`` and ``drop_messages`` delete them, ``move_to`` moves them. Its subscription ends at once.

        While the agent runs, the agent removes the job after its work in flight. While it is down, what the job left in
        foreign systems (its subscription, its records in log queues) is removed here; if one cannot be reached, the job
        waits, DELETE_PENDING, for the agent. ``force`` removes the definition at once and leaves the foreign
        subscription, which keeps collecting.

        Args:
            move_to: a queue of the hub that the messages go to first, in the same transaction.
            drop_messages: delete the messages, and remove the foreign subscription all the same.

        Returns:
            True when the job is gone, False when it is DELETE_PENDING.

        Raises:
            AdminError: ORA-32855; ORA-32801 messages wait for it, or a schedule of DBMS_HQADM made it.
        """
        return self._take_away(
            lambda conn: _of_no_schedule(self.need_job(conn, job_name)),
            JobStatus.DELETE_PENDING,
            force=force,
            move_to=move_to,
            drop_messages=drop_messages,
        )

    def _take_away(
        self,
        find: Callable[[sa.Connection], JobDef],
        mark: JobStatus,
        *,
        force: bool,
        move_to: str | None,
        drop_messages: bool,
        also: Callable[[sa.Connection, JobDef], None] | None = None,
    ) -> bool:
        """Remove a job, or (``mark`` SUBSCRIBER_DELETE_PENDING) the subscriber alone: its schedule stays.

        ``also``: what else is removed, in the transaction that ends its subscription.
        """
        with self.hub.read() as conn:
            job = find(conn)
        there = Held(0) if force or job.status.leaving else self._collected(job)
        if there.messages and not drop_messages:
            raise AdminError(
                f"job {job.name} cannot be removed",
                number=Ora.INVALID_VALUE,
                cause=f"its subscription to {job.source} holds {there.told(self.clock.now())}; they would be deleted "
                "with it",
                cure="let the job carry them; or --drop-messages (in Python drop_messages), which deletes them; or "
                "--force (in Python force), which removes the job and leaves the subscription there",
            )
        with self.change() as conn:  # it keeps its removal in the audit by itself, with what became of messages
            job = find(conn)
            if not job.status.leaving or force:
                self._end_subscription(conn, job, there, mark, force=force or drop_messages, move_to=move_to)
                if also is not None:
                    also(conn, job)
            if force:
                self._remove(conn, job, mark)
                return True
            catalog.set_job_status(conn, job.id, mark)
            state = catalog.agent_state(conn, job.agent)
            if state is not None and state.alive(self.clock.now()):
                return False
        try:
            self.finish_remove_job(job.name)
        except GatewayError as error:
            _LOGGER.warning("job %s is marked for removal, the agent removes it: %s", job.name, error)
            return False
        return True

    def held_for_job(self, job_name: str) -> Held:
        """The messages that would be deleted with a job: those that wait for its subscription in the hub, or, where it
        reads a topic of a link, in its subscription there.

        Raises:
            AdminError: ORA-32855.
        """
        with self.hub.read() as conn:
            job = catalog.get_subscriber(conn, job_name) or self.need_job(conn, job_name)
            queue = subscribers.source_queue(conn, job)
            if queue is not None:
                return subscribers.held(self.hub, conn, queue, job) if queue.multiple_consumers else Held(0)
        return self._collected(job)

    def _collected(self, job: JobDef) -> Held:
        """What its subscription to a topic of a link holds; where that system does not tell now, at the last look."""
        with self.hub.read() as conn:
            foreign = foreign_end(self, conn, job.source) if job.propagation_type.from_link else None
            sample = run_state.backlog(conn, job.id)
        if foreign is None or not foreign.is_topic or not isinstance(open_end(foreign), Collects):
            return Held(0)
        found = collected(job, foreign, self.hub)
        if found is not None:
            return Held(found)
        return Held(sample.messages, sample.oldest) if sample is not None else Held(0)

    def _end_subscription(
        self, conn: sa.Connection, job: JobDef, there: Held, mark: JobStatus, *, force: bool, move_to: str | None
    ) -> None:
        """Nothing waits for the job any more when this is over; what is on its way stays with its plans.

        ``there``: what goes with its subscription in a foreign system.
        """
        kind = "job" if mark is JobStatus.DELETE_PENDING else "subscriber"
        kind = kind if job.outbound is None else "outbound schedule"
        seen = look(conn, kind, job.name, self.secrets)
        queue = subscribers.source_queue(conn, job)
        held = there
        if queue is not None and queue.multiple_consumers:
            if move_to is not None:
                self._take_plans_back(conn, job, queue)
            held = subscribers.remove(self.hub, conn, queue, job, force=force, move_to=move_to)
        where = job.source if queue is None else queue.full_name
        name = f"{job.name}, which reads {where}"
        moved_to = move_to if queue is not None and held.messages else None
        before, _ = changes(seen, None)
        version = catalog.change_version(conn) + 1  # which this transaction makes of it
        removal = Removal(f"remove {kind}", name, held, moved_to, kind, before)
        record(QueueAdmin(self.hub, conn), conn, removal, version=version)

    def _take_plans_back(self, conn: sa.Connection, job: JobDef, queue: QueueRef) -> None:
        """What a job has planned waits again, so that it can be moved.

        Raises:
            AdminError: the job is at work, and may be sending it.
        """
        state = catalog.agent_state(conn, job.agent)
        busy = run_state.activity(conn, job.id) is not Activity.STOPPED
        if state is not None and state.alive(self.clock.now()) and busy:
            raise AdminError(
                f"messages of job {job.name} cannot be moved now",
                number=Ora.INVALID_VALUE,
                cause="it is running",
                cure=f"disable it first: mgw jobs disable {job.name}; then remove it",
            )
        claimed = catalog.take_plans(conn, job.id)
        if claimed:
            subscribers.release(conn, queue, job, claimed)

    def finish_remove_job(self, job_name: str) -> None:
        """Remove a job or subscriber that is marked for removal and no longer works: what it left in foreign systems,
        then its definition.

        Messages of plans left over are READY again, in their place; the hub's subscriber of the job is removed. A job
        that is gone already, or not marked for removal, is left alone, and so is another one that has its name by now.

        Raises:
            GatewayError: a foreign system cannot be reached, or what is known of it cannot be read; it stays marked for
                removal.
        """
        with self.hub.read() as conn:
            job = self._leaving(conn, job_name)
        if job is None:
            return
        failure = None
        for name, direction in _foreign_names(job):
            try:
                with self.hub.read() as conn:
                    if self._leaving(conn, job_name, job.id) is None:  # it was removed with force meanwhile
                        return
                    foreign = foreign_end(self, conn, name)
                forget(job, foreign, self.hub, direction)
            except GatewayError as error:
                failure = failure or error  # the other end is cleaned all the same
        if failure is not None:
            raise failure
        with self.change() as conn:
            found = self._leaving(conn, job_name, job.id)
            if found is not None:
                self._remove(conn, found, found.status)

    @staticmethod
    def _leaving(conn: sa.Connection, name: str, job_id: int | None = None) -> JobDef | None:
        """The job or subscriber of that name, and that id, if it is marked for removal."""
        job = catalog.get_subscriber(conn, name)
        return job if job is not None and job.status.leaving and job_id in {None, job.id} else None

    def _remove(self, conn: sa.Connection, job: JobDef, mark: JobStatus) -> None:
        claimed = catalog.take_plans(conn, job.id)
        queue = subscribers.source_queue(conn, job)
        if queue is not None and claimed:  # the subscription ended when the job was marked, its consumer is still there
            subscribers.release(conn, queue, job, claimed)
        if queue is not None and queue.multiple_consumers:  # it was marked by an earlier release
            held = subscribers.remove(self.hub, conn, queue, job, force=True)
            if held.messages:
                name = f"{job.name}, which reads {queue.full_name}"
                record(QueueAdmin(self.hub, conn), conn, Removal(_ACTIONS[mark], name, held))
        if mark is JobStatus.SUBSCRIBER_DELETE_PENDING:
            catalog.release_schedule(conn, job)
        catalog.delete_job(conn, job.id)


def _foreign_names(job: JobDef) -> list[tuple[str, Direction]]:
    """Where it may have left something: a subscription, records in a log queue."""
    kind = job.propagation_type
    ends = [(job.source, Direction.INBOUND)] if kind.from_link else []
    return [*ends, (job.destination, Direction.OUTBOUND)] if kind.to_link else ends


def _of_no_schedule(job: JobDef) -> JobDef:
    """A job that goes alone: that of a schedule of DBMS_HQADM goes with it, and with its exception queue.

    Raises:
        AdminError: ORA-32801.
    """
    if job.outbound is None:
        return job
    raise AdminError(
        f"job {job.name} cannot be removed",
        number=Ora.INVALID_VALUE,
        cause="a schedule of DBMS_HQADM made it, and removes it",
        cure=f"{job.outbound.removal(job.source, job.destination)} (hq_unschedule_propagation)",
    )
