"""How much processor time the threads of this process take: those that answer over HTTP, and those of its jobs."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ProcessorTime", "Used"]

_NANOSECONDS = 1e-9
_WEB = ("http", "AnyIO worker thread")  # the event loop, and the threads that answer
_TASKS = Path("/proc/self/task")


@dataclass(frozen=True, slots=True)
class Used:
    """Seconds since the last look.

    Attributes:
        web: of a processor, for requests.
        others: of a processor, for everything else: the jobs.
        waited: for which the others were ready to run and had no processor.
    """

    web: float = 0.0
    others: float = 0.0
    waited: float = 0.0


class ProcessorTime:
    """Looks at the threads of this process; a call says what they used since the last one, which is zero at first."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[float, float]] = {}
        self._first = True

    def __call__(self) -> Used:
        """What was used since the last call; by the thread of the event loop."""
        web_threads = {thread.native_id for thread in threading.enumerate() if thread.name.startswith(_WEB)}
        now = _of_threads() or _of_two(threading.get_native_id())
        before, self._seen = self._seen, now
        if self._first:
            self._first = False
            return Used()
        web = others = waited = 0.0
        for thread, (ran, ready) in now.items():
            ran_before, ready_before = before.get(thread, (0.0, 0.0))
            if thread in web_threads:
                web += max(0.0, ran - ran_before)
            else:
                others += max(0.0, ran - ran_before)
                waited += max(0.0, ready - ready_before)
        return Used(web, others, waited)


def _of_threads() -> dict[int, tuple[float, float]]:
    """Seconds that each thread ran, and was ready to run; empty where the system does not say it."""
    found: dict[int, tuple[float, float]] = {}
    if sys.platform != "linux":
        return found
    try:
        for task in _TASKS.iterdir():
            try:
                ran, ready, _ = (task / "schedstat").read_bytes().split()
            except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile
                continue
            found[int(task.name)] = (int(ran) * _NANOSECONDS, int(ready) * _NANOSECONDS)
    except (OSError, ValueError):
        return {}
    return found


def _of_two(web: int) -> dict[int, tuple[float, float]]:
    """The same of this thread, and of all others together, of which it is taken that they wait for a processor."""
    mine = time.thread_time()
    others = time.process_time() - mine
    return {web: (mine, 0.0), -1: (others, others)}
