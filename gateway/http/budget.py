"""The processor time that the requests of an agent's own port may take while its jobs need it.

A bucket: what requests took flows in, :data:`~mgw.gateway.http.limits.SHARE` of one processor flows out. While it is
full and the jobs need the processor, requests wait: callers take turns, and the requests of each keep their order.

Where no job is near, nothing waits; the bucket says when a crowd calls, which shares answers.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable

from mgw.gateway.http import limits
from mgw.gateway.http.problems import Problem
from mgw.gateway.http.processor_time import ProcessorTime, Used

__all__ = ["Budget"]

_LOGGER = logging.getLogger("mgw.http")

_LOOK_SECONDS = 0.25  # between two looks at what was used
_STALE_SECONDS = 2.0  # after which a look says nothing about now
_TURN_SECONDS = 0.05  # between two turns of those who wait
_GUESS = 0.002  # what a request takes, until the next look says it
_BUSY = 0.05  # of one processor: less, and the jobs have nothing to do
_DELAYED = 0.1  # of their processor time: the jobs waited for so long for a processor
_SHARED = 0.5  # of one processor: beyond, the jobs wait for requests, because the interpreter runs one thread at a time
_KEEP_SECONDS = 10.0  # for which the jobs need the processor after they last did
_LOG_SECONDS = 60.0
_PLACES = limits.REQUESTS + limits.STREAMS  # of requests that wait; as many as there are connections


class Budget:
    """Used by the thread of the event loop; ``held`` and ``refused`` may be read by any.

    Args:
        has_jobs: whether this process has any; where not, nothing waits.

    Attributes:
        held: requests that had to wait.
        refused: those of them that were refused, because they waited for too long.
    """

    def __init__(
        self,
        *,
        has_jobs: bool = True,
        clock: Callable[[], float] = time.monotonic,
        used: Callable[[], Used] | None = None,
    ) -> None:
        self.held = self.refused = 0
        self._has_jobs = has_jobs
        self._clock = clock
        self._used = used or ProcessorTime()
        self._level = self._guessed = 0.0
        self._looked = -_STALE_SECONDS
        self._needed_until = self._let = self._logged = float("-inf")
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._places = 0
        self._turns: asyncio.Task[None] | None = None

    @property
    def crowded(self) -> bool:
        """Whether requests have taken more of late than the share that is theirs."""
        self._look()
        return self._level >= limits.SHARE_BURST / 2

    def take(self) -> bool:
        """Whether a request may be answered now; if so, it is counted."""
        self._look()
        now = self._clock()
        if now < self._needed_until and self._level >= limits.SHARE_BURST and now - self._let < 1 / limits.HELD_RATE:
            return False
        self._let = now
        self._level += _GUESS
        self._guessed += _GUESS
        return True

    async def turn(self, caller: str) -> None:
        """Wait until a request may be answered.

        Raises:
            Problem: that took too long.
        """
        if not self._waiting and self.take():
            return
        self.held += 1
        self._tell()
        if self._places >= _PLACES:
            self.refused += 1
            raise _held_back(f"{_PLACES} requests wait already")
        mine = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append(mine)
        self._places += 1
        if self._turns is None or self._turns.done():
            self._turns = asyncio.create_task(self._take_turns())
        try:
            async with asyncio.timeout(limits.HELD_SECONDS):
                await mine
        except TimeoutError:
            self.refused += 1
            raise _held_back(f"it waited for {limits.HELD_SECONDS:g} s") from None
        finally:
            self._places -= 1

    async def _take_turns(self) -> None:
        while self._waiting:
            first = next(iter(self._waiting))
            queue = self._waiting[first]
            if queue[0].done():  # it waits no longer
                queue.popleft()
            elif self.take():
                queue.popleft().set_result(None)
                self._waiting.move_to_end(first)
            else:
                await asyncio.sleep(_TURN_SECONDS)
            if not queue:
                del self._waiting[first]

    def _look(self) -> None:
        now = self._clock()
        passed = now - self._looked
        if passed < _LOOK_SECONDS:
            return
        self._looked = now
        used = self._used()
        level = self._level - self._guessed + used.web - limits.SHARE * passed
        # What is over is forgotten beyond what flows out while a request waits.
        self._level = min(max(0.0, level), limits.SHARE_BURST + limits.SHARE * limits.HELD_SECONDS)
        self._guessed = 0.0
        jobs = used.others + used.children
        delayed = used.waited >= _DELAYED * jobs or used.web + used.others >= _SHARED * passed
        if self._has_jobs and passed < _STALE_SECONDS and jobs >= _BUSY * passed and delayed:
            self._needed_until = now + _KEEP_SECONDS

    def _tell(self) -> None:
        now = self._clock()
        if now - self._logged < _LOG_SECONDS:
            return
        self._logged = now
        _LOGGER.warning(
            "requests over HTTP wait, so that the jobs do not (%d have waited since the start, %d of them were "
            "refused); cause: they take more than %.0f %% of a processor while jobs of this agent need it; "
            "cure: let many callers ask `mgw serve`",
            self.held,
            self.refused,
            100 * limits.SHARE,
        )


def _held_back(why: str) -> Problem:
    return Problem(
        503,
        f"the request was not answered: {why}",
        "ask again later, or ask `mgw serve`, which answers many callers in a process of its own",
        {"Retry-After": f"{limits.HELD_SECONDS:.0f}"},
        cause=f"requests take more than {limits.SHARE:.0%} of a processor that the jobs of the agent need",
    )
