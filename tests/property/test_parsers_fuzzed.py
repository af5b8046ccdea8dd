"""Damaged input for every parser that sees bytes of other programs: it is read or refused, and nothing else happens."""

from __future__ import annotations

import pytest

from tests.support.fuzz import KEPT, fuzz, kept, look
from tests.support.fuzz_targets import targets

SEED = 20_261_126
SECONDS = 0.5
NAMES = [target.name for target in targets()]


@pytest.mark.parametrize("target", targets(), ids=NAMES)
def test_damaged_input_is_read_or_refused(target: object) -> None:
    """``make fuzz`` does this for longer, and with another seed each time."""
    tally = fuzz(target, SECONDS, SEED)  # type: ignore[arg-type]
    assert tally.runs > 10
    assert tally.outcomes > 1


@pytest.mark.parametrize("target", targets(), ids=NAMES)
def test_what_once_was_a_defect_is_none(target: object) -> None:
    for data in kept(target.name):  # type: ignore[attr-defined]
        look(target, data)  # type: ignore[arg-type]


def test_every_kept_input_has_a_target() -> None:
    assert {path.name for path in KEPT.glob("*")} <= set(NAMES)
