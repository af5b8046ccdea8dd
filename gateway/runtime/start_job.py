"""The scheduler job ``MGW_JOB_<agent>``, which starts an agent that is to run (AQ guide 12.2 §19.2).

STARTUP creates it, SHUTDOWN removes it. It runs at once, and again every minute as long as the agent is not running.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from mgw.gateway.definitions.objects import key
from mgw.gateway.runtime.chores import Chores

__all__ = ["REPEAT_SECONDS", "StartJob", "job_name"]

REPEAT_SECONDS = 60.0  # the documented repeat interval


def job_name(agent: str) -> str:
    """Name of the scheduler job of an agent."""
    return f"MGW_JOB_{key(agent)}"


class StartJob:
    """Says when the agent is to be started; the main loop starts it.

    Args:
        nudge: called when it is due.
    """

    def __init__(self, agent: str, nudge: Callable[[], object]) -> None:
        self.name = job_name(agent)
        self._nudge = nudge
        self._due = threading.Event()
        self._chores: Chores | None = None
        self._exists = False

    def begin(self, chores: Chores) -> None:
        """From now on it is kept by this scheduler."""
        self._chores, self._exists = chores, False

    def follow(self, wanted: bool) -> None:
        """Create it, due at once, or remove it."""
        if self._chores is None or wanted is self._exists:
            return
        self._exists = wanted
        self._due.clear()
        if wanted:
            self._chores.add(self.name, self._run, REPEAT_SECONDS, at_once=True)
        else:
            self._chores.remove(self.name)

    def again(self) -> None:
        """Due at once: what kept the agent from starting may have passed."""
        self._due.set()

    def taken(self) -> bool:
        """Whether it was due since the last call."""
        was_due = self._due.is_set()
        self._due.clear()
        return was_due

    @property
    def state(self) -> str:
        """A line for the log."""
        return f"scheduler job {self.name}: {f'every {REPEAT_SECONDS:.0f} s' if self._exists else 'none'}"

    def _run(self) -> None:
        self._due.set()
        self._nudge()
