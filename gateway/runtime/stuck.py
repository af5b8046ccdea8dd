"""Job threads that have not come round their loop for long, and where they are.

A job that carries messages is shown as STUCK after its ``stuck_after``; any is reported after :data:`STUCK_SECONDS`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from mgw.gateway.observe.events import JobStuck, Journalist
from mgw.gateway.runtime.engine import Engine
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

    def look(self, runners: Mapping[int, JobRunner], engine: Engine) -> None:
        """Look after the threads; a process does that every few seconds.

        What it finds is written in one transaction. While the hub is away, that fails once for all of them, and the
        next round finds them again.

        Raises:
            LeaseLost: another process owns the agent; one of the threads has found that, or the transaction.
        """
        found = [each for job_id, runner in runners.items() if (each := self._find(job_id, runner)) is not None]
        try:
            _show(found, engine)
        except LeaseLost:
            raise
        except HubError as error:
            _LOGGER.debug("jobs not shown as stuck: %s", error)
            return
        for job_id, runner, silence, where in found:
            if STUCK_SECONDS < silence <= runner.silence:
                self._stuck.add(job_id)
                self._journalist.tell(JobStuck(runner.name, silence, f"its thread {where}"))

    def _find(self, job_id: int, runner: JobRunner) -> _Stuck | None:
        """A thread of which something is to be said."""
        if runner.lost is not None:
            raise runner.lost
        silence = runner.silence if runner.alive else 0.0
        silent = silence > STUCK_SECONDS
        if not silent:
            self._stuck.discard(job_id)
        if job_id in self._stuck or not (silent or (runner.alive and runner.overdue)):
            return None
        where = whereabouts(runner.thread.ident)
        if silent:
            runner.interrupt()
        elif where == _HUB:  # which would hold up the caller, too
            return None
        return _Stuck(job_id, runner, silence, where)


class _Stuck(NamedTuple):
    """A thread that does not come back, for how many seconds, and where it is."""

    job_id: int
    runner: JobRunner
    silence: float
    where: str


def _show(found: Iterable[_Stuck], engine: Engine) -> None:
    """Show jobs as STUCK of which the hub does not say so yet."""
    news = [(each, told) for each in found if (told := each.runner.stuck(each.where)) is not None]
    if not news:
        return
    with engine.writing() as conn:
        written = [(each, told) for each, told in news if each.runner.write_stuck(conn, told, each.silence)]
    for each, told in written:
        each.runner.shown(told)
