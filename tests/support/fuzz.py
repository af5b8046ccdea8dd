"""Parsers fed with damaged input for a bounded time: which error escapes is a defect, and its input is kept.

A target is a function of bytes, and inputs that it understands. Each round damages one of them: bits, bytes, lengths,
pieces of other inputs. An input with an outcome that was not seen before is damaged further. ``make fuzz`` runs every
target for a minute; ``MGW_FUZZ_SECONDS`` says how long, ``MGW_FUZZ_SEED`` repeats a run, and a name runs one target:
``.venv/bin/python -m tests.support.fuzz lcr``.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["KEPT", "Crash", "Tally", "Target", "damaged", "fuzz", "keep", "kept", "main"]

#: Inputs that once were a defect, in hex: ``<target>/<digest>.hex``. Every run of the tests looks at them.
KEPT = Path(__file__).resolve().parents[1] / "fixtures/fuzz"
#: Seconds of processor time that an input may take: they are all small.
PATIENCE = 5.0
_MAX_SIZE, _MAX_INPUTS = 1 << 14, 400
_ODD = (0, 1, 0x7F, 0x80, 0xFE, 0xFF)
_ODD_WORDS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


@dataclass(frozen=True, slots=True)
class Target:
    """A parser.

    Attributes:
        parse: raises one of ``allowed`` for what it refuses; anything else is a defect. What it returns tells inputs
            apart, and should be the same for inputs that went the same way.
        inputs: that it understands.
        allowed: errors that it documents.
        tokens: pieces that mean something to it.
    """

    name: str
    parse: Callable[[bytes], object]
    inputs: Sequence[bytes]
    allowed: tuple[type[Exception], ...]
    tokens: Sequence[bytes] = ()


class Crash(AssertionError):
    """An error that a parser does not document, or an input that took too long; ``data`` is the input."""

    def __init__(self, target: str, data: bytes, reason: str) -> None:
        self.target, self.data = target, data
        super().__init__(f"{target}: {reason}\ninput in hex: {data.hex()}")


@dataclass(slots=True)
class Tally:
    """What a run did: inputs, those that were refused, and how many different outcomes there were."""

    runs: int = 0
    refused: int = 0
    outcomes: int = 0


def damaged(data: bytes, others: Sequence[bytes], tokens: Sequence[bytes], chance: random.Random) -> bytes:
    """The input with one to six damages."""
    made = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        _damage(made, others, tokens, chance)
    return bytes(made[:_MAX_SIZE])


def _damage(made: bytearray, others: Sequence[bytes], tokens: Sequence[bytes], chance: random.Random) -> None:
    size = len(made)
    at = chance.randrange(size + 1)
    upto = min(size, at + chance.choice((1, 1, 2, 4, 8, 64)))
    match chance.randrange(9):
        case 0 if at < size:
            made[at] ^= 1 << chance.randrange(8)
        case 1 if at < size:
            made[at] = chance.choice(_ODD) if chance.random() < 0.5 else chance.randrange(256)
        case 2:
            made[at:at] = bytes((chance.choice(_ODD),)) * chance.choice((1, 1, 2, 8))
        case 3:
            del made[at:upto]
        case 4:
            made[at:at] = made[at:upto] * chance.choice((1, 2, 30))
        case 5:
            other = chance.choice(others)
            start = chance.randrange(len(other) + 1)
            made[at:upto] = other[start : start + chance.choice((1, 4, 16, 64))]
        case 6:
            width = chance.choice((2, 4, 8))
            word = chance.choice(_ODD_WORDS) & (1 << 8 * width) - 1
            made[at : at + width] = word.to_bytes(width, chance.choice(("big", "little")))
        case 7 if tokens:
            made[at : chance.choice((at, upto))] = chance.choice(tokens)
        case _:
            del made[at:]


def look(target: Target, data: bytes) -> tuple[object, bool]:
    """What the parser makes of one input, in a word, and whether it was refused.

    Raises:
        Crash: it should have refused it in another way, or sooner.
    """
    started = time.thread_time()
    refused = False
    try:
        outcome: object = target.parse(data)
    except target.allowed as error:
        told = re.sub(r"'[^']*'|[0-9]+", "", str(error))[:80]
        outcome, refused = (type(error).__name__, told), True
    except Exception as error:
        text = "".join(traceback.format_exception(error)[-6:])
        raise Crash(target.name, data, f"{type(error).__name__}: {error}\n{text}") from error
    took = time.thread_time() - started
    if took > PATIENCE:
        raise Crash(target.name, data, f"took {took:.1f} s")
    return outcome, refused


def fuzz(target: Target, seconds: float, seed: int) -> Tally:
    """Look at damaged inputs for so many seconds of processor time.

    Raises:
        Crash: a defect.
    """
    chance = random.Random(f"{seed} {target.name}")
    inputs, seen, tally = list(target.inputs), set[object](), Tally()
    for data in inputs:
        seen.add(look(target, data)[0])
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        data = damaged(chance.choice(inputs), inputs, target.tokens, chance)
        outcome, refused = look(target, data)
        tally.runs += 1
        tally.refused += refused
        if outcome not in seen:
            seen.add(outcome)
            if len(inputs) < _MAX_INPUTS:
                inputs.append(data)
    tally.outcomes = len(seen)
    return tally


def keep(crash: Crash) -> Path:
    """Write the input of a defect where every run of the tests finds it."""
    path = KEPT / crash.target / f"{hashlib.sha256(crash.data).hexdigest()[:16]}.hex"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(crash.data.hex() + "\n")
    return path


def kept(target: str) -> list[bytes]:
    """The inputs that once were a defect of a target."""
    return [bytes.fromhex(path.read_text()) for path in sorted((KEPT / target).glob("*.hex"))]


def main() -> None:
    """Run the targets that the command line names, or all; exit status 1 where one has a defect."""
    from tests.support.fuzz_targets import targets

    seconds = float(os.environ.get("MGW_FUZZ_SECONDS") or 60)
    seed = int(os.environ.get("MGW_FUZZ_SEED") or time.time())
    print(f"fuzz: {seconds:g} s each; repeat it with MGW_FUZZ_SEED={seed}", flush=True)
    failed = False
    for target in targets():
        if sys.argv[1:] and target.name not in sys.argv[1:]:
            continue
        try:
            tally = fuzz(target, seconds, seed)
        except Crash as crash:
            failed = True
            print(f"{crash}\nkept in {keep(crash)}", flush=True)
        else:
            told = f"{tally.runs:,} inputs, {tally.refused:,} refused, {tally.outcomes} outcomes"
            print(f"{target.name}: {told}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
