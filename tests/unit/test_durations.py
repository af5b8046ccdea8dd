"""Durations as people write them."""

from __future__ import annotations

import re

import pytest

from mgw.gateway.services.durations import PATTERN, seconds_of


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90.0), ("15m", 900.0), ("3h", 10_800.0), ("7d", 604_800.0)])
def test_a_duration_has_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds
    assert re.match(PATTERN, text)


@pytest.mark.parametrize("text", ["", "s", "3", "3x", "-1s", "1.5h", "3 h", "٣h", "9" * 8 + "d", "3hh"])
def test_anything_else_is_none(text: str) -> None:
    assert seconds_of(text) is None
    assert not re.match(PATTERN, text)
