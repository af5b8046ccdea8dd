"""Which messages of an exception queue a filter means, and what a pace takes."""

from __future__ import annotations

import math

import pytest

from mgw.gateway.services.exceptions import DeskRefused, Entry, Pace, Which
from mgw.transforms.message import Message
from mgw.transforms.payloads.exception_message import Reason


@pytest.mark.parametrize(
    ("wanted", "meant"),
    [
        ("[722]", True),
        ("[722]*", True),
        ("[722] no such field 'a[?]'", True),
        ("*A[0]*", True),
        ("?722? no*", True),
        ("[7]*", False),
        ("722*", False),
        ("*a[!1]*", False),
    ],
)
def test_brackets_in_the_text_of_an_error_mean_themselves(wanted: str, meant: bool) -> None:
    entry = Entry("00", "out", "BAD", Reason("[722] no such field 'a[0]'", "out"), Message())
    assert Which(reason=wanted).has(entry) is meant


RATE = r"rate .* cannot be used; it is messages a second; give a number from 0\.001 on"


@pytest.mark.parametrize("rate", [0, -1, 1e-300, math.nan, math.inf, -math.inf])
def test_a_rate_is_above_zero_and_finite_so_that_it_can_be_waited_for(rate: float) -> None:
    with pytest.raises(DeskRefused, match=RATE):
        Pace(rate)
