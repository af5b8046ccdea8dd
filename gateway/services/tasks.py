"""Work that takes longer than a request: started here, looked at and stopped later.

A task is a thread of this process, and ends with it. What it works with is transactional by batches, so what it has
not reached stays where it is.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from mgw.gateway.services.authors import same_author
from mgw.gateway.services.busy import Busy
from mgw.gateway.services.exceptions.contract import Outcome, Pace
from mgw.gateway.services.lookup import NotFound
from mgw.transforms.clock import Clock
from mgw.transforms.errors import GatewayError

__all__ = ["AT_ONCE", "Task", "TaskState", "Tasks", "UnknownTask"]

_LOGGER = logging.getLogger("mgw.http")

AT_ONCE = 10  # tasks that run
_REMEMBERED = 100  # tasks that have ended


class TaskState(StrEnum):
    """What a task does."""

    RUNNING = "RUNNING"
    DONE = "DONE"
    STOPPED = "STOPPED"  # by somebody, or after an error when some of it was done
    FAILED = "FAILED"  # nothing was done


class UnknownTask(NotFound):
    """There is no such task in this process."""

    def __init__(self, identity: str) -> None:
        GatewayError.__init__(
            self,
            f"task {identity:.40} does not exist",
            cause="it ended with its process, ended long ago, or never was",
            cure="see which tasks there are",
        )


@dataclass(eq=False)
class Task:
    """Some work on the messages of an exception queue. Times are epoch seconds."""

    id: str
    kind: str
    object: str
    by: str
    started: float
    ended: float | None = None
    state: TaskState = TaskState.RUNNING
    outcome: Outcome = field(default_factory=Outcome)
    error: str = ""
    stopping: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)

    def watch(self, outcome: Outcome) -> None:
        """What was done so far."""
        self.outcome = outcome


class Tasks:
    """The tasks of this process. Any thread may call."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._mutex = threading.Lock()
        self._known: OrderedDict[str, Task] = OrderedDict()

    def start(self, kind: str, object_: str, by: str, rate: float | None, work: Callable[[Pace], Outcome]) -> Task:
        """Begin; ``work`` keeps to the pace that it gets.

        Raises:
            DeskRefused: the rate cannot be used.
            Busy: as many run as may.
        """
        task = Task(secrets.token_hex(8), kind, object_, by, self._clock.now())
        pace = Pace(rate, task.stopping.wait, stopped=task.stopping.is_set, watch=task.watch)
        with self._mutex:
            if sum(each.state is TaskState.RUNNING for each in self._known.values()) >= AT_ONCE:
                raise Busy(f"{AT_ONCE} tasks run", cure="wait until one has ended, or stop one")
            ended = [each.id for each in self._known.values() if each.state is not TaskState.RUNNING]
            for identity in ended[: max(0, len(ended) - _REMEMBERED + 1)]:
                del self._known[identity]
            self._known[task.id] = task
        same_author(self._run, task, pace, work, name=f"task-{task.id}").start()
        return task

    def listed(self) -> list[Task]:
        """All that are known, the latest first."""
        with self._mutex:
            return list(self._known.values())[::-1]

    def get(self, identity: str) -> Task:
        """The task.

        Raises:
            UnknownTask: there is none.
        """
        with self._mutex:
            found = self._known.get(identity)
        if found is None:
            raise UnknownTask(identity)
        return found

    def stop(self, identity: str, wait: float) -> Task:
        """Have a task end after the batch that is under way, and wait for that so many seconds.

        Raises:
            UnknownTask: there is none.
        """
        task = self.get(identity)
        task.stopping.set()
        task.over.wait(wait)
        return task

    def _run(self, task: Task, pace: Pace, work: Callable[[Pace], Outcome]) -> None:
        state = TaskState.FAILED
        try:
            task.outcome = work(pace)
            task.error = task.outcome.stopped
            state = TaskState.STOPPED if task.outcome.stopped else TaskState.DONE
        except GatewayError as error:
            task.error = str(error)
        except Exception:
            _LOGGER.exception("task %s (%s of %s) could not be done", task.id, task.kind, task.object)
            task.error = "this is a bug in mgw; see the log of the agent"
        finally:
            task.ended, task.state = self._clock.now(), state
            task.over.set()
