"""Job threads that have not come round their loop for long, and where they are.

A job that carries messages is shown as STUCK after its ``stuck_after``; any is reported after :data:`STUCK_SECONDS`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping

from mgw.gateway.observe.events import JobStuck, Journalist
from mgw.gateway.runtime.job_runner import JobRunner
from mgw.transforms.errors import HubError, LeaseLost

__all__ = ["STUCK_SECONDS", "StuckWatch", "whereabouts"]

STUCK_SECONDS = 180.0  # a job thread that has not come round its loop for so long is reported

_HUB = "waits for the hub"
_LOGGER = logging.getLogger("mgw.engine")

#: What a thread does, by the beginning of the module of ours that it entered last.
_PLACES = (
    ("mgw.links.", "is blocked in the client library"),
    ("mgw.gateway.runtime.ends.link_", "is blocked in the client library"),  # of a link from another package
    ("mgw.transforms.", "is in a rule or a transformation"),
    ("mgw.gateway.runtime.plan_requests", "waits for the transaction of another job, which plans its messages"),
    ("mgw.gateway.runtime.resting_queues", _HUB),
    ("mgw.gateway.aq.", _HUB),
)


def whereabouts(thread: int | None) -> str:
    """Where a thread is, in words; ``thread``: its identifier."""
    frame = None if thread is None else sys._current_frames().get(thread)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith("mgw."):
            found = (what for beginning, what in _PLACES if module.startswith(beginning))
            return next(found, f"does not come back from {module}")
        frame = frame.f_back
    return "does not come back"


class StuckWatch:
    """Reports each of them once, and again after it worked."""

    def __init__(self, journalist: Journalist) -> None:
        self._journalist = journalist
        self._stuck: set[int] = set()

    def look(self, runners: Mapping[int, JobRunner]) -> None:
        """Look after the threads; a process does that every few seconds.

        Raises:
            LeaseLost: one of them found that another process owns the agent.
            HubError: what was found could not be written.
        """
        for job_id, runner in runners.items():
            if runner.lost is not None:
                raise runner.lost
            if runner.alive and runner.silence > STUCK_SECONDS:
                self._report(job_id, runner)
                continue
            self._stuck.discard(job_id)
            if runner.alive and runner.overdue:
                self._show(runner)

    def _show(self, runner: JobRunner) -> None:
        """Show a job as STUCK; not while it is the hub that does not answer, which would hold up the caller, too."""
        where = whereabouts(runner.thread.ident)
        if where == _HUB:
            return
        try:
            runner.show_stuck(where)
        except LeaseLost:
            raise
        except HubError as error:
            _LOGGER.debug("job %s not shown as stuck: %s", runner.name, error)

    def _report(self, job_id: int, runner: JobRunner) -> None:
        if job_id in self._stuck:
            return
        where = whereabouts(runner.thread.ident)
        runner.interrupt()
        runner.show_stuck(where)
        self._stuck.add(job_id)  # when it is written: a hub that is away now is told in the next round
        self._journalist.tell(JobStuck(runner.name, runner.silence, f"its thread {where}"))
