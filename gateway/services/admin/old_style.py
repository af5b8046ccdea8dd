"""What the procedures on subscribers and on schedules share (AQ guide 12.2 §19.6)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mgw.gateway.definitions.objects import JobDef, JobStatus, Propagation
from mgw.gateway.services.admin.base import Ora
from mgw.links.contract import Direction
from mgw.transforms.errors import AdminError

__all__ = ["called", "check_not_removed", "check_old_style", "old_style_type"]


@contextmanager
def called(kind: str, name: str) -> Iterator[None]:
    """Refusals of what is checked for jobs, told of the subscriber or schedule that was given."""
    try:
        yield
    except AdminError as error:
        text = error.what.replace(f"job {name}", f"{kind} {name}", 1)
        raise AdminError(text, number=error.number, cause=error.cause, cure=error.cure) from error


def old_style_type(kind: str, name: str, given: Propagation | Direction | str) -> Propagation:
    """INBOUND or OUTBOUND: the old style knows no others.

    Raises:
        AdminError: ORA-32802.
    """
    text = str(given).upper().removesuffix("_PROPAGATION")
    if text not in {Propagation.INBOUND, Propagation.OUTBOUND}:
        raise AdminError(
            f"{kind} {name}: propagation type {given!r} cannot be used",
            number=Ora.VALUE_MUST_BE,
            cause="that of subscribers and schedules is INBOUND or OUTBOUND",
            cure="correct it; for THROUGH and LOCAL create a job",
        )
    return Propagation(text)


def check_old_style(kind: str, name: str, job: JobDef) -> None:
    """Subscriber and schedule of a new-style job belong to it.

    Raises:
        AdminError: ORA-32856.
    """
    if not job.old_style:
        raise AdminError(
            f"{kind} {name} belongs to job {job.name}",
            number=Ora.NEW_STYLE,
            cause="the job was made by create_job, and only the procedures on jobs may be used for it"
            if job.outbound is None
            else "a schedule of DBMS_HQADM made the job",
            cure="use those: alter_job, enable_job, disable_job, reset_job, remove_job (mgw jobs)"
            if job.outbound is None
            else "use mgw outbound-schedules, or the procedures on jobs (mgw jobs)",
        )


def check_not_removed(kind: str, name: str, job: JobDef) -> None:
    """After remove_job subscriber and schedule go together.

    Raises:
        AdminError: ORA-32822.
    """
    if job.status is JobStatus.DELETE_PENDING:
        raise AdminError(
            f"{kind} {name} is marked for removal",
            number=Ora.MARKED_FOR_REMOVAL,
            cause=f"remove_job was called for its job {job.name} and the cleanup is not complete",
            cure=f"start the agent, which completes it, or: mgw jobs remove {job.name} --force",
        )
