"""Actions for a job that cannot continue: try it again, or give up what it waits for.

Messages in exception queues are shown, edited, replayed and discarded with :mod:`mgw.gateway.services.exceptions`.
"""

from __future__ import annotations

from mgw.gateway.services import lookup
from mgw.gateway.services.admin import GatewayAdmin
from mgw.transforms.errors import GatewayError

__all__ = ["NotFailed", "give_up", "retry"]


class NotFailed(GatewayError):
    """The job is not FAILED, so nothing of it is accepted as lost."""

    def __str__(self) -> str:
        return f"{self.what}; {self.cause}"


def retry(admin: GatewayAdmin, name: str) -> str:
    """Forget the failures of a job and have it tried at once; its name as it was defined.

    Raises:
        NotFound: there is not a job of that name.
        AdminError: the job is marked for removal.
    """
    job = lookup.job(admin, name).name
    admin.reset_job(job)
    return job


def give_up(admin: GatewayAdmin, action: str, job_name: str | None, agent_name: str) -> str | None:
    """Let a FAILED job continue without the messages or log records that it misses; the job's name, None where none
    was given.

    Args:
        action: RESET_SUB_MISSING_MESSAGE, RESET_SUB_MISSING_LOG_REC, CLEAN_LOG_QUEUES or CLEAN_STARTUP_STATE.

    Raises:
        NotFound: there is not a job, or no agent, of that name.
        NotFailed: the job is in another state.
        AdminError: as :meth:`mgw.gateway.services.admin.GatewayAdmin.cleanup_gateway`.
    """
    job = None
    if job_name is not None:
        found = lookup.job(admin, job_name)
        job = found.name
        if found.status != "FAILED":
            raise NotFailed(f"job {job} is {found.status}", cause="only a FAILED job is cleaned up")
    agent = lookup.agent(admin, agent_name).name
    admin.cleanup_gateway(action, job, agent_name=agent)
    return job
