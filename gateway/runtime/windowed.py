"""A route from a link into the hub that reads on while the hub commits.

A batch that is full is stored by a second thread; meanwhile the next ones are read and converted. What waits when it
is settled is stored together, in one transaction, and then settled in its order. A batch whose log entries replace
those of older batches (:class:`mgw.links.contract.Batch`, ``alone``) is stored by itself, when the one before it is
settled. At most :data:`AHEAD` batches wait to be stored (:data:`AHEAD_OF_LARGE` of those that may grow beyond
:data:`LARGEST_BATCH`), so what comes again after a failure is at most so many. A batch that is not full is the last one
for now: it is stored at once, without the second thread.

PostgreSQL works on another core while the next batch is read. SQLite works in this process, so there jobs whose batches
may grow beyond :data:`LARGEST_BATCH` have the plain route instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from mgw.gateway.runtime.ends.contract import RefusedByHub
from mgw.gateway.runtime.ends.hub_destination import HubDestination
from mgw.gateway.runtime.ends.link_source import LinkSource, Received
from mgw.gateway.runtime.route import Route, RouteContext
from mgw.gateway.state.run_state import Counts
from mgw.links.contract import Backlog

__all__ = ["AHEAD", "AHEAD_OF_LARGE", "LARGEST_BATCH", "WindowedRoute", "pays"]

AHEAD = 3  # batches that are read and wait to be stored
#: The same where batches may be larger than LARGEST_BATCH: one transaction has no more than a window's messages, as
#: :data:`gateway.runtime.ends.link_destination.WINDOW_MESSAGES` says.
AHEAD_OF_LARGE = 2
#: Messages; a larger batch waits for a commit of SQLite so seldom that a second thread costs more than the waiting.
LARGEST_BATCH = 100
_LOOK_SECONDS = 1.0  # how long the driving thread waits for the hub at a time


def pays(context: RouteContext) -> bool:
    """Whether a job moves more messages if it reads on while the hub commits."""
    return context.hub.postgresql or context.job.batch_limit <= LARGEST_BATCH


class WindowedRoute(Route):
    """See the module."""

    _source: LinkSource

    def __init__(self, context: RouteContext, source: LinkSource, destination: HubDestination) -> None:
        super().__init__(context, source, destination)
        self._source = source
        self._most_ahead = AHEAD if context.job.batch_limit <= LARGEST_BATCH else AHEAD_OF_LARGE
        self._ahead: deque[Received] = deque()
        self._storing: tuple[Sequence[Received], Future[Counts]] | None = None
        self._storer: ThreadPoolExecutor | None = None

    def _carry(self, wait: float, counts: Counts) -> None:
        limit = self._caution.limit()
        idle = self._storing is None and not self._ahead
        taken = self._selected(limit, wait if idle else 0.0) if len(self._ahead) < self._most_ahead else None
        if idle and (taken is None or limit == 1 or taken.size < limit):
            if taken is not None:
                self._settle([taken], 0, counts)
        else:
            if taken is not None:
                self._ahead.append(taken)
            self._go_on(counts, 0.0 if taken is not None else min(wait, _LOOK_SECONDS))
        if counts.total or (taken is None and not self.busy):
            self._caution.passed(counts.total)

    def _selected(self, limit: int, wait: float) -> Received | None:
        batch = self._read_batch(limit, wait)
        return None if batch is None else batch[0]

    def _go_on(self, counts: Counts, wait: float) -> None:
        """Settle what is stored, and have stored what waits."""
        if self._storing is not None:
            batches, future = self._storing
            if not _done(future, wait):
                return
            self._storing = None
            try:
                counts.add(future.result())
            except RefusedByHub as refusal:
                self._source.refuse(refusal)
                self._settle(batches, 0, counts)
            else:
                self._source.settle(batches)
        if self._ahead:
            batches = self._together()
            if batches[0].refused:  # the exception queue belongs to this thread
                self._settle(batches, 0, counts)
            else:
                if self._storer is None:
                    self._storer = ThreadPoolExecutor(1, f"store-{self._context.job.name}")
                self._storing = batches, self._storer.submit(self._store, batches)

    def _together(self) -> Sequence[Received]:
        """The waiting batches that one transaction may store."""
        batches = [self._ahead.popleft()]
        if not _by_itself(batches[0]):
            while self._ahead and not _by_itself(self._ahead[0]):
                batches.append(self._ahead.popleft())
        return batches

    def _store(self, batches: Sequence[Received]) -> Counts:
        """On the second thread: one transaction."""
        counts = Counts()
        with self._context.turns.take():
            self._complete_and_plan(batches, 0, counts)
        return counts

    @property
    def busy(self) -> bool:
        """Whether a batch is read and not settled."""
        return self._storing is not None or bool(self._ahead)

    def state(self) -> list[str]:
        """See :meth:`mgw.gateway.runtime.route.Route.state`."""
        storing, ahead = self._storing, tuple(self._ahead)
        stored = sum(batch.size for batch in storing[0]) if storing is not None else 0
        read = sum(batch.size for batch in ahead)
        window = (
            f"window: {len(ahead)} of {self._most_ahead} batches read ahead ({read} messages), "
            f"{stored} messages being stored"
        )
        return [window, *super().state()]

    def check_stall(self, backlog: Backlog | None) -> None:
        """While the hub stores a batch the source is not to blame."""
        if not self.busy:
            super().check_stall(backlog)

    def drain(self, seconds: float) -> None:
        """Wait up to ``seconds`` for what is being stored, settle it, and wait until the source has taken that; what is
        read ahead comes again."""
        deadline = self._context.clock.monotonic() + seconds
        self._ahead.clear()
        self._go_on(Counts(), seconds)
        self._source.await_settled(deadline - self._context.clock.monotonic())

    def close(self) -> None:
        """Wait for the transaction that is open, if any, and disconnect; what is not settled comes again."""
        if self._storer is not None:
            self._storer.shutdown()
        super().close()


def _by_itself(batch: Received) -> bool:
    return batch.batch.alone or bool(batch.refused)


def _done(future: Future[Any], seconds: float) -> bool:
    return future.done() or (seconds > 0 and future in wait([future], seconds).done)
