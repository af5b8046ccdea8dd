"""Judges whether messages survived: what was acknowledged to the publisher against what came out at the other end.

The oracle publishes numbered messages and keeps a ledger of which of them somebody durable took over (the broker's own
confirmation, or the hub's commit). It knows nothing of the gateway: both ends are third-party clients
(:mod:`tests.faults.ends`).
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from tests.faults.verdict import Arrived, Copy, Ledger, Numbered, Verdict, judge, numbered
from tests.support.waiting import eventually

__all__ = ["Feed", "Oracle", "Outlet", "Publisher"]

BACKLOG = 2500  # messages; enough that something moves at every moment, not so much that the end is far away


class Feed(Protocol):
    """Where messages are put in, with a client that is not ours."""

    def publish(self, messages: Sequence[Numbered]) -> set[int]:
        """Publish; returns the numbers of those that were durably taken over, fewer than all when the wire broke."""

    def reopen(self) -> bool:
        """Connect again; False when the other side is not there yet."""

    def close(self) -> None:
        """Disconnect."""


class Outlet(Protocol):
    """Where messages come out, watched with a client that is not ours."""

    def collect(self) -> Sequence[Copy]:
        """What came out since the last call, in order; waits a moment, not for ever."""

    def close(self) -> None:
        """Disconnect."""


class Publisher:
    """Publishes on a thread of its own at a steady rate, through every failure, until it is told to end."""

    def __init__(
        self,
        feed: Feed,
        messages: Iterator[Numbered],
        carried: Callable[[], int],
        *,
        rate: float = 2500,
        batch: int = 100,
        backlog: float = BACKLOG,
    ) -> None:
        """``rate``: messages a second at most; ``batch``: messages that are confirmed together; ``carried``: how many
        are through, so that no more than ``backlog`` wait."""
        self._carried = carried
        self.ledger = Ledger()
        self.problem: BaseException | None = None
        self._feed = feed
        self._messages = messages
        self._batch = batch
        self._backlog = backlog
        self._pause = self._batch / rate
        self._end = threading.Event()
        self._going = threading.Lock()  # held while a batch is on its way
        self._minimum = 0
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def finish(self, minimum: int, deadline: float) -> None:
        """End when ``minimum`` messages are acknowledged; raises what the thread raised."""
        self._minimum = minimum
        self._end.set()
        self._thread.join(deadline)
        if self.problem is not None:
            raise self.problem
        assert not self._thread.is_alive(), f"the publisher did not get {minimum} messages out within {deadline:g} s"

    def paused(self) -> AbstractContextManager[object]:
        """While the context lasts nothing is published, and everything published before is acknowledged or doubtful."""
        return self._going

    def some(self, count: int) -> None:
        """Publish ``count`` messages, when the thread does not run, until they are acknowledged."""
        wanted = len(self.ledger.acknowledged) + count
        while (left := wanted - len(self.ledger.acknowledged)) > 0:
            self._publish(left)

    def _run(self) -> None:
        try:
            while not self._end.is_set() or len(self.ledger.acknowledged) < self._minimum:
                began = time.monotonic()
                if len(self.ledger.acknowledged) - self._carried() < self._backlog or self._end.is_set():
                    with self._going:
                        self._publish(self._batch)
                self._end.wait(max(0.0, self._pause - (time.monotonic() - began)))
        except BaseException as error:
            self.problem = error

    def _publish(self, count: int) -> list[Numbered]:
        ledger = self.ledger
        messages = [next(self._messages) for _ in range(count)]
        ledger.bodies.update((message.number, message) for message in messages)
        taken = self._feed.publish(messages)
        ledger.acknowledged |= taken
        if len(taken) < count:
            ledger.doubtful.update(message.number for message in messages if message.number not in taken)
            eventually(self._feed.reopen, deadline=90, what="the publisher's own connection")
        return messages


class Oracle:
    """Publishes into ``feed`` while faults happen, reads ``outlet`` dry afterwards, and judges."""

    def __init__(
        self,
        scenario: str,
        seed: int,
        feed: Feed,
        outlet: Outlet,
        carried: Callable[[], int],
        *,
        rate: float = 2500,
        twins: bool = False,
        identified: bool = True,
        batch: int = 100,
        backlog: float = BACKLOG,
    ) -> None:
        """``twins``, ``identified``: see :func:`tests.faults.verdict.numbered`; the rest: see :class:`Publisher`."""
        self._scenario = scenario
        self._seed = seed
        self._outlet = outlet
        messages = numbered(random.Random(f"{seed}:{scenario}:messages"), twins=twins, identified=identified)
        self.publisher = Publisher(feed, messages, carried, rate=rate, batch=batch, backlog=backlog)

    def run(
        self,
        injure: Callable[[], Sequence[tuple[str, int]]],
        recover: Callable[[], None],
        *,
        messages: int,
        deadline: float = 90.0,
    ) -> Verdict:
        """Publish while ``injure`` works, and at least ``messages``; then wait until everything acknowledged is out.

        Args:
            injure: injects the faults and says which and how often; messages move meanwhile.
            recover: called again and again after the faults, to put the gateway right as an operator would.
            deadline: seconds to wait for what is still on its way after the faults.

        Returns:
            The verdict; what is missing after ``deadline`` counts as lost. A fresh message published after the faults
            is among those that must arrive.
        """
        self.publisher.start()
        faults = None
        try:
            faults = injure()
        finally:
            self.publisher.finish(messages if faults is not None else 0, deadline)
        return self.conclude(faults, recover, deadline=deadline)

    def conclude(
        self, faults: Sequence[tuple[str, int]], recover: Callable[[], None], *, deadline: float = 90.0
    ) -> Verdict:
        """Publish a fresh message, wait until everything acknowledged is out, and judge."""
        recover()
        self.publisher.some(1)
        copies: list[Copy] = []
        arrived = Arrived()
        end = time.monotonic() + deadline
        while not arrived.has_all(self.publisher.ledger) and time.monotonic() < end:
            recover()
            fresh = self._outlet.collect()
            copies.extend(fresh)
            arrived.add(fresh)
        while fresh := self._outlet.collect():  # copies behind the last message are duplicates: count them too
            copies.extend(fresh)
        return judge(self._scenario, self._seed, self.publisher.ledger, copies, faults)
