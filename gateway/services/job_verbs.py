"""What an operator does with jobs that are there: retry, restart, pause, resume, drain; reconnect a link."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from mgw.gateway.services import lookup
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.exception_desk import retry
from mgw.gateway.state import status
from mgw.gateway.state.status import JobRow

__all__ = ["Drained", "drain", "pause", "reconnect", "reset_all", "restart", "resume"]

_LOOK = 0.25  # seconds between two looks at a job that drains
_QUIET = frozenset({"IDLE", "STOPPED"})


@dataclass(frozen=True, slots=True)
class Drained:
    """How a job was when it was paused.

    Attributes:
        job: its name.
        empty: nothing waited for it any more.
        left: messages that waited; None: nobody could tell.
        state: what it was doing, where something was left.
        error: its last error, where something was left.
    """

    job: str
    empty: bool
    left: int | None
    state: str
    error: str | None


def reset_all(admin: GatewayAdmin) -> list[str]:
    """Forget the failures of every job in RETRY or FAILED and have it tried at once; their names."""
    with admin.hub.read() as conn:
        names = [row.job_name for row in status.jobs(conn) if row.status in {"RETRY", "FAILED"}]
    for name in names:
        admin.reset_job(name)
    return names


def restart(admin: GatewayAdmin, name: str) -> str:
    """Have a job drain its batches in flight and reconnect, now; its name as it was defined.

    Raises:
        NotFound: there is not a job of that name.
        AdminError: the job is marked for removal.
    """
    return retry(admin, name)  # a reset of a job that is connected does just that


def reconnect(admin: GatewayAdmin, name: str) -> tuple[str, list[str]]:
    """Have every enabled job of a link drain and reconnect, now; the names of link and jobs.

    Raises:
        NotFound: there is not a link of that name.
    """
    link = lookup.link_name(admin, name)
    names = [job.name for job in admin.list_jobs() if job.enabled and job.uses_link(link)]
    for job in names:
        admin.reset_job(job)
    return link, names


def pause(admin: GatewayAdmin, name: str) -> str:
    """Stop a job after its current batch; what comes meanwhile waits. Its name as it was defined.

    Raises:
        NotFound: there is not a job of that name.
        AdminError: the job is marked for removal.
    """
    job = lookup.job(admin, name).name
    admin.disable_job(job)
    return job


def resume(admin: GatewayAdmin, name: str) -> str:
    """Let a job that was paused continue; its name as it was defined.

    Raises:
        NotFound: there is not a job of that name.
        AdminError: the job is marked for removal.
    """
    job = lookup.job(admin, name).name
    admin.enable_job(job)
    return job


def drain(admin: GatewayAdmin, name: str, timeout: float, given_up: threading.Event | None = None) -> Drained:
    """Wait until nothing waits for a job, for at most ``timeout`` seconds, and pause it then in any case; but not where
    ``given_up`` was set meanwhile.

    Raises:
        NotFound: there is not a job of that name.
        AdminError: the job is marked for removal.
    """
    job = lookup.job(admin, name).name
    end = time.monotonic() + timeout
    given_up = given_up or threading.Event()
    row = _row(admin, job)
    while not _is_empty(row) and time.monotonic() < end and not given_up.wait(_LOOK):
        row = _row(admin, job)
    if not given_up.is_set():
        admin.disable_job(job)
    return Drained(job, _is_empty(row), row.backlog, row.activity, row.last_error_msg)


def _row(admin: GatewayAdmin, job: str) -> JobRow:
    return lookup.job_row(admin.hub, job)


def _is_empty(row: JobRow) -> bool:
    """Nothing waits, as far as anybody can count it, and the job has nothing in flight."""
    return row.status == "READY" and row.activity in _QUIET and not row.backlog
