"""What was published, what came out, and the comparison of the two."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = [
    "IDENTITY",
    "LANES",
    "TWINS",
    "Arrived",
    "Copy",
    "Ledger",
    "Numbered",
    "Verdict",
    "identity_in",
    "judge",
    "number_of",
    "numbered",
]

IDENTITY = "oracle_id"  # name of the header, user property or record header that repeats the number
LANES = 3  # sources whose order is watched: partitions, topics, or just a part of the numbers in one queue
TWINS = (b"left", b"right")  # bodies of messages that nothing tells apart
_SHOWN = 8


class Numbered(NamedTuple):
    """A message to publish.

    ``lane`` is the source whose order must be kept. ``identity`` is the number as the text that travels as a property,
    None where there is none: then the body alone says which message it is.
    """

    number: int
    lane: int
    body: bytes
    identity: str | None

    @property
    def twin(self) -> bool:
        """Whether others look the same, so that only their count can be judged."""
        return self.body in TWINS


class Copy(NamedTuple):
    """A message as it came out. ``repeated``: the observer's own broker says that it handed this copy out before."""

    body: bytes
    identity: str | None
    repeated: bool = False


@dataclass(slots=True)
class Ledger:
    """What was published. ``doubtful``: the wire broke before the answer, so it may or may not have arrived, or arrive
    later than what was published after it (a node of a cluster that was frozen takes it when it goes on)."""

    bodies: dict[int, Numbered] = field(default_factory=dict)
    acknowledged: set[int] = field(default_factory=set)
    doubtful: set[int] = field(default_factory=set)

    def twins(self, numbers: Iterable[int]) -> Counter[bytes]:
        """How many of those look like the one and the other twin."""
        return Counter(self.bodies[number].body for number in numbers if self.bodies[number].twin)


class Arrived:
    """What came out so far: numbers, and how many of each twin."""

    def __init__(self) -> None:
        self._numbers: set[int | None] = set()
        self._twins: Counter[bytes] = Counter()

    def add(self, copies: Iterable[Copy]) -> None:
        """These came out, too."""
        for copy in copies:
            if copy.body in TWINS:
                self._twins[copy.body] += not copy.repeated
            else:
                self._numbers.add(number_of(copy.body))

    def has_all(self, ledger: Ledger) -> bool:
        """Whether everything acknowledged is among it."""
        alone = {number for number in ledger.acknowledged if not ledger.bodies[number].twin}
        return alone <= self._numbers and ledger.twins(ledger.acknowledged) <= self._twins


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
    lost_twins: int = 0  # messages with equal bodies that are missing: which ones, nobody can say
    faults: tuple[tuple[str, int], ...] = ()
    levels: tuple[str, ...] = ()  # what each job on the way promised
    twice: tuple[int, ...] = ()  # numbers of the duplicated, where they can be told apart
    suppressed: int = 0  # what came again, or would have been sent again, and was recognised by the gateway

    @property
    def lost(self) -> int:
        """Messages acknowledged to the publisher that did not come out."""
        return len(self.missing) + self.lost_twins

    @property
    def good(self) -> bool:
        """At least once, nothing else than what was published, order of first copies kept per source."""
        return not (self.lost or self.invented or self.altered or self.disordered)

    def __str__(self) -> str:
        faults = ", ".join(f"{count} x {name}" for name, count in self.faults) or "no fault"
        return (
            f"{self.scenario}: {self.published} published, {self.acknowledged} acknowledged, {self.lost} lost, "
            f"{self.duplicated} duplicated, {len(self.disordered)} out of order, {self.suppressed} recognised "
            f"({faults}; {', '.join(self.levels) or 'no job'}; seed {self.seed})"
        )

    def explain(self) -> str:
        """Everything that is wrong, with examples and how to see it again."""
        lines = [str(self)]
        if self.missing:
            lines.append(f"acknowledged to the publisher and lost: {_some(self.missing)}")
        if self.lost_twins:
            lines.append(f"acknowledged to the publisher and lost among equal messages: {self.lost_twins}")
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
    twins: Counter[bytes] = Counter()
    highest: dict[int, int] = {}
    for body, identity, repeated in copies:
        if body in TWINS:
            twins[body] += not repeated
            if identity is not None:
                invented.append(f"{body!r} with {IDENTITY} {identity}")
            continue
        number = number_of(body)
        original = ledger.bodies.get(number) if number is not None else None
        if number is None or original is None:
            invented.append(repr(body[:60]))
            continue
        if original.body != body or identity != original.identity:
            altered.append(number)
        if number not in seen:
            before = highest.get(original.lane, -1)
            if before > number and number not in ledger.doubtful:
                disordered.append((number, before))
            highest[original.lane] = max(before, number)
            seen[number] += 1
        elif not repeated:
            seen[number] += 1
    lost_twins, doubled_twins = _judge_twins(ledger, twins)
    alone = {number for number in ledger.acknowledged if not ledger.bodies[number].twin}
    return Verdict(
        scenario=scenario,
        seed=seed,
        published=len(ledger.bodies),
        acknowledged=len(ledger.acknowledged),
        doubtful=len(ledger.doubtful),
        received=len(copies),
        missing=tuple(sorted(alone - seen.keys())),
        lost_twins=lost_twins,
        invented=tuple(invented),
        altered=tuple(altered),
        disordered=tuple(disordered),
        duplicated=sum(seen.values()) - len(seen) + doubled_twins,
        twice=tuple(sorted(number for number, count in seen.items() if count > 1)),
        faults=tuple(faults),
    )


def _judge_twins(ledger: Ledger, came: Mapping[bytes, int]) -> tuple[int, int]:
    """(lost, doubled) of messages that only their number can be judged by; a doubtful one may have come or not."""
    wanted, doubtful = ledger.twins(ledger.acknowledged), ledger.twins(ledger.doubtful)
    lost = sum(max(0, wanted[body] - came.get(body, 0)) for body in TWINS)
    doubled = sum(max(0, came.get(body, 0) - wanted[body] - doubtful[body]) for body in TWINS)
    return lost, doubled


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


def numbered(rng: random.Random, *, twins: bool = False, identified: bool = True) -> Iterator[Numbered]:
    """Endless messages of 60 to 600 bytes; every bit of them follows from ``rng``.

    Args:
        twins: two of three messages have one of two bodies and no identity.
        identified: False where the way carries no properties.
    """
    number = 0
    while True:
        filler = rng.randbytes(rng.randint(25, 295)).hex()
        lane = rng.randrange(LANES)
        if twins and number % 3:
            yield Numbered(number, lane, rng.choice(TWINS), None)
        else:
            yield Numbered(number, lane, f"{number}|{filler}".encode(), str(number) if identified else None)
        number += 1
