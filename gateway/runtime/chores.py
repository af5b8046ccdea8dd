"""The clockwork of the periodic chores of an agent's process. Messages never wait for it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from mgw.gateway.observe.repeated_warning import Complaint
from mgw.links.client_logging import NotedOnly
from mgw.transforms.clock import Clock
from mgw.transforms.errors import HubError

__all__ = ["Chores"]

_LOGGER = logging.getLogger("mgw.engine")

_THREADS = 50  # at most, made when they are needed: chores that wait for a file or a broker must not hold up the lease
CLOCK_STEP_SECONDS = 1.0  # a wall clock put back by more than this has the chores planned again


class Chores:
    """Calls each chore at its interval, on a thread of its own; one that takes longer is not called twice at a time."""

    def __init__(self, clock: Clock) -> None:
        from apscheduler.executors.pool import ThreadPoolExecutor
        from apscheduler.schedulers.background import BackgroundScheduler

        # A chore that takes longer than its interval is left out, which is meant so.
        logging.getLogger("apscheduler.scheduler").addFilter(NotedOnly('Execution of job "%s" skipped'))
        self._clock = clock
        self._ahead = clock.now() - clock.monotonic()
        self._scheduler: Any = BackgroundScheduler(
            executors={"default": ThreadPoolExecutor(_THREADS)},
            timezone="UTC",
            job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1},
        )

    def add(self, name: str, chore: Callable[[], None], seconds: float, *, at_once: bool = False) -> None:
        """Call ``chore`` every so many seconds. A hub that is away is logged once, other errors each time.

        Args:
            at_once: call it for the first time now.
        """
        first = {"next_run_time": datetime.fromtimestamp(self._clock.now(), UTC)} if at_once else {}
        self._scheduler.add_job(self._guarded(chore), "interval", seconds=seconds, id=name, name=name, **first)

    def remove(self, name: str) -> None:
        """Call that chore no more."""
        self._scheduler.remove_job(name)

    def start(self) -> None:
        """Begin."""
        self._scheduler.start()

    def end(self) -> None:
        """Begin no more, and wait for those that were begun."""
        self._scheduler.shutdown(wait=True)

    def follow_clock(self) -> None:
        """The scheduler plans by the wall clock: when that is put back, the chores must not wait until it is as late
        again as it was."""
        before, self._ahead = self._ahead, self._clock.now() - self._clock.monotonic()
        if self._ahead > before - CLOCK_STEP_SECONDS:
            return
        _LOGGER.warning("the wall clock was set back by %.0f s", before - self._ahead)
        for chore in self._scheduler.get_jobs():
            chore.modify(next_run_time=datetime.fromtimestamp(self._clock.now(), UTC))

    def _guarded(self, chore: Callable[[], None]) -> Callable[[], None]:
        trouble = Complaint(self._clock, _LOGGER)

        def run_chore() -> None:
            try:
                chore()
                trouble.over()
            except HubError as error:
                trouble.say(str(error))
            except Exception:
                _LOGGER.exception("chore %s failed", chore.__name__)

        return run_chore
