"""How much processor time the threads of this process take: those that answer over HTTP, and those of its jobs; and
the processes that it started, such as workers, which have jobs, too.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

__all__ = ["ProcessorTime", "Used"]

_Times: TypeAlias = dict[int, tuple[float, float]]  # of threads: seconds that each ran, and was ready to run

_NANOSECONDS = 1e-9
_WEB = ("http", "AnyIO worker thread")  # the event loop, and the threads that answer
_PROCESSES = Path("/proc")
_TASKS = _PROCESSES / "self" / "task"


@dataclass(frozen=True, slots=True)
class Used:
    """Seconds since the last look.

    Attributes:
        web: of a processor, for requests.
        others: of a processor, for everything else in this process: the jobs.
        waited: for which the others and the children were ready to run and had no processor.
        children: of a processor, in the processes that this one started.
    """

    web: float = 0.0
    others: float = 0.0
    waited: float = 0.0
    children: float = 0.0


class ProcessorTime:
    """Looks at the threads of this process and of its children; a call says what they used since the last one, which is
    zero at first.
    """

    def __init__(self) -> None:
        self._seen: _Times = {}
        self._seen_below: _Times = {}
        self._first = True

    def __call__(self) -> Used:
        """What was used since the last call; by the thread of the event loop."""
        web_threads = {thread.native_id for thread in threading.enumerate() if thread.name.startswith(_WEB)}
        now = _of_threads(_TASKS) or _of_two(threading.get_native_id())
        before, self._seen = self._seen, now
        below = _of_children()
        before_below, self._seen_below = self._seen_below, below
        if self._first:
            self._first = False
            return Used()
        web, _ = _since(before, now, web_threads)
        others, waited = _since(before, now, now.keys() - web_threads)
        children, waited_below = _since(before_below, below, below)
        return Used(web, others, waited + waited_below, children)


def _since(before: _Times, now: _Times, threads: Iterable[int | None]) -> tuple[float, float]:
    """How long some threads ran, and were ready to run, since they were looked at before."""
    ran = waited = 0.0
    for thread in threads:
        if thread in now:
            times, times_before = now[thread], before.get(thread, (0.0, 0.0))
            ran += max(0.0, times[0] - times_before[0])
            waited += max(0.0, times[1] - times_before[1])
    return ran, waited


def _of_children() -> _Times:
    """As :func:`_of_threads`, of all threads of the processes that this one started."""
    found: _Times = {}
    for child in _children():
        found |= _of_threads(_PROCESSES / str(child) / "task")
    return found


def _children() -> list[int]:
    """The processes that threads of this one started; none where the system does not say it."""
    found: list[int] = []
    if sys.platform != "linux":
        return found
    try:
        for task in _TASKS.iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile, or the system does not say it
                found += map(int, (task / "children").read_bytes().split())
    except (OSError, ValueError):
        return []
    return found


def _of_threads(tasks: Path) -> _Times:
    """Seconds that each thread ran, and was ready to run; empty where the system does not say it."""
    found: _Times = {}
    if sys.platform != "linux":
        return found
    try:
        for task in tasks.iterdir():
            try:
                ran, ready, _ = (task / "schedstat").read_bytes().split()
            except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile
                continue
            found[int(task.name)] = (int(ran) * _NANOSECONDS, int(ready) * _NANOSECONDS)
    except (OSError, ValueError):
        return {}
    return found


def _of_two(web: int) -> _Times:
    """The same of this thread, and of all others together, of which it is taken that they wait for a processor."""
    mine = time.thread_time()
    others = time.process_time() - mine
    return {web: (mine, 0.0), -1: (others, others)}
