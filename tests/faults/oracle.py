"""Judges whether messages survived: what was acknowledged to the publisher against what came out at the other end.

The oracle publishes numbered messages and keeps a ledger of which of them somebody durable took over (the broker's own
confirmation, or the hub's commit). It knows nothing of the gateway: both ends are third-party clients
(:mod:`tests.faults.ends`).
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from tests.support.waiting import eventually

__all__ = [
    "IDENTITY",
    "LANES",
    "Copy",
    "Feed",
    "Numbered",
    "Oracle",
    "Outlet",
    "Publisher",
    "Verdict",
    "identity_in",
    "judge",
]

IDENTITY = "oracle_id"  # name of the header, user property or record header that repeats the number
LANES = 3  # sources whose order is watched: partitions, topics, or just a part of the numbers in one queue
BACKLOG = 2500  # messages; enough that something moves at every moment, not so much that the end is far away
_SHOWN = 8


class Numbered(NamedTuple):
    """A message to publish. ``lane`` is the source whose order must be kept."""

    number: int
    lane: int
    body: bytes

    @property
    def identity(self) -> str:
        """The number as the text that travels as a property."""
        return str(self.number)


class Copy(NamedTuple):
    """A message as it came out. ``repeated``: the observer's own broker says that it handed this copy out before."""

    body: bytes
    identity: str | None
    repeated: bool = False


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


@dataclass(slots=True)
class Ledger:
    """What was published. ``doubtful``: the wire broke before the answer, so it may or may not have arrived."""

    bodies: dict[int, Numbered] = field(default_factory=dict)
    acknowledged: set[int] = field(default_factory=set)
    doubtful: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of the messages."""

    scenario: str
    seed: int
    published: int
    acknowledged: int
    doubtful: int
    received: int
    missing: tuple[int, ...]
    invented: tuple[str, ...]
    altered: tuple[int, ...]
    disordered: tuple[tuple[int, int], ...]
    duplicated: int
    faults: tuple[tuple[str, int], ...] = ()
    levels: tuple[str, ...] = ()  # what each job on the way promised

    @property
    def good(self) -> bool:
        """At least once, nothing else than what was published, order of first copies kept per source."""
        return not (self.missing or self.invented or self.altered or self.disordered)

    def __str__(self) -> str:
        faults = ", ".join(f"{count} x {name}" for name, count in self.faults) or "no fault"
        return (
            f"{self.scenario}: {self.published} published, {self.acknowledged} acknowledged, {len(self.missing)} lost, "
            f"{self.duplicated} duplicated, {len(self.disordered)} out of order "
            f"({faults}; {', '.join(self.levels) or 'no job'}; seed {self.seed})"
        )

    def explain(self) -> str:
        """Everything that is wrong, with examples and how to see it again."""
        lines = [str(self)]
        if self.missing:
            lines.append(f"acknowledged to the publisher and lost: {_some(self.missing)}")
        if self.invented:
            lines.append(f"came out and was never published: {_some(self.invented)}")
        if self.altered:
            lines.append(f"came out with another body or another {IDENTITY}: {_some(self.altered)}")
        if self.disordered:
            pairs = [f"{later} before {earlier}" for earlier, later in self.disordered]
            lines.append(f"first copies out of order within one source: {_some(pairs)}")
        lines.append(f"again: MGW_FAULT_SEED={self.seed} pytest -k '{self.scenario}' tests/faults")
        return "\n".join(lines)


def _some(items: Sequence[object]) -> str:
    shown = ", ".join(str(item) for item in items[:_SHOWN])
    return f"{shown} and {len(items) - _SHOWN} more" if len(items) > _SHOWN else shown


def judge(
    scenario: str, seed: int, ledger: Ledger, copies: Sequence[Copy], faults: Sequence[tuple[str, int]] = ()
) -> Verdict:
    """Compare what was published with what came out."""
    invented: list[str] = []
    altered: list[int] = []
    disordered: list[tuple[int, int]] = []
    seen: Counter[int] = Counter()
    highest: dict[int, int] = {}
    for body, identity, repeated in copies:
        number = number_of(body)
        original = ledger.bodies.get(number) if number is not None else None
        if number is None or original is None:
            invented.append(repr(body[:60]))
            continue
        if original.body != body or identity != original.identity:
            altered.append(number)
        if number not in seen:
            before = highest.get(original.lane, -1)
            if before > number:
                disordered.append((number, before))
            highest[original.lane] = max(before, number)
            seen[number] += 1
        elif not repeated:
            seen[number] += 1
    return Verdict(
        scenario=scenario,
        seed=seed,
        published=len(ledger.bodies),
        acknowledged=len(ledger.acknowledged),
        doubtful=len(ledger.doubtful),
        received=len(copies),
        missing=tuple(sorted(ledger.acknowledged - seen.keys())),
        invented=tuple(invented),
        altered=tuple(altered),
        disordered=tuple(disordered),
        duplicated=sum(seen.values()) - len(seen),
        faults=tuple(faults),
    )


def identity_in(headers: Iterable[tuple[str, object]]) -> str | None:
    """The identity among named values; a gateway may have put its prefix for foreign headers before the name."""
    for name, value in headers:
        if name == IDENTITY or name.endswith(f"_{IDENTITY}"):
            return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return None


def number_of(body: bytes) -> int | None:
    """The number in a body that the oracle made, or None."""
    head = body.split(b"|", 1)[0]
    return int(head) if head.isdigit() else None


def numbered(rng: random.Random) -> Iterator[Numbered]:
    """Endless messages of 60 to 600 bytes; every bit of them follows from ``rng``."""
    number = 0
    while True:
        filler = rng.randbytes(rng.randint(25, 295)).hex()
        yield Numbered(number, rng.randrange(LANES), f"{number}|{filler}".encode())
        number += 1


class Publisher:
    """Publishes on a thread of its own at a steady rate, through every failure, until it is told to end."""

    def __init__(
        self, feed: Feed, rng: random.Random, carried: Callable[[], int], *, rate: float = 2500, batch: int = 100
    ) -> None:
        """``rate``: messages a second at most; ``batch``: messages that are confirmed together; ``carried``: how many
        are through, so that no more than BACKLOG wait."""
        self._carried = carried
        self.ledger = Ledger()
        self.problem: BaseException | None = None
        self._feed = feed
        self._messages = numbered(rng)
        self._pause = batch / rate
        self._batch = batch
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

    def one(self) -> Numbered:
        """Publish one more message, after :meth:`finish`, until it is acknowledged."""
        while True:
            (message,) = self._publish(1)
            if message.number in self.ledger.acknowledged:
                return message

    def _run(self) -> None:
        try:
            while not self._end.is_set() or len(self.ledger.acknowledged) < self._minimum:
                began = time.monotonic()
                if len(self.ledger.acknowledged) - self._carried() < BACKLOG or self._end.is_set():
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
        self, scenario: str, seed: int, feed: Feed, outlet: Outlet, carried: Callable[[], int], *, rate: float = 2500
    ) -> None:
        self._scenario = scenario
        self._seed = seed
        self._feed = feed
        self._outlet = outlet
        self.publisher = Publisher(feed, random.Random(f"{seed}:{scenario}:messages"), carried, rate=rate)

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
        copies: list[Copy] = []
        self.publisher.start()
        faults = None
        try:
            faults = injure()
        finally:
            self.publisher.finish(messages if faults is not None else 0, deadline)
        recover()
        self.publisher.one()
        wanted = self.publisher.ledger.acknowledged
        seen: set[int | None] = set()
        end = time.monotonic() + deadline
        while not wanted <= seen and time.monotonic() < end:
            recover()
            fresh = self._outlet.collect()
            copies.extend(fresh)
            seen.update(number_of(copy.body) for copy in fresh)
        while fresh := self._outlet.collect():  # copies behind the last message are duplicates: count them too
            copies.extend(fresh)
        return judge(self._scenario, self._seed, self.publisher.ledger, copies, faults)

    def close(self) -> None:
        """Disconnect both ends."""
        self._feed.close()
        self._outlet.close()
