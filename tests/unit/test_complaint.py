"""A trouble that lasts is said now and then, not twice a second."""

from __future__ import annotations

import logging

import pytest

from mgw.gateway.observe.repeated_warning import Complaint


class Hands:
    """A clock that a test moves."""

    time = 0.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time


def test_a_trouble_that_lasts_is_said_at_growing_intervals(caplog: pytest.LogCaptureFixture) -> None:
    clock = Hands()
    complaint = Complaint(clock, logging.getLogger("mgw.engine"))
    for half_second in range(2 * 3600):
        clock.time = half_second / 2
        complaint.say("the hub is away")
    assert [record.message for record in caplog.records[:3]] == [
        "the hub is away",
        "for 10 s now: the hub is away",
        "for 30 s now: the hub is away",
    ]
    assert len(caplog.records) == 11


def test_a_change_and_the_end_are_said_at_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = Hands()
    complaint = Complaint(clock, logging.getLogger("mgw.engine"))
    complaint.over()
    complaint.say("the hub is away")
    clock.time = 1.0
    complaint.say("the hub is full")
    clock.time = 3.0
    complaint.over()
    complaint.over()
    complaint.say("the hub is full")
    assert [record.message for record in caplog.records] == [
        "the hub is away",
        "the hub is full",
        "over after 3 s: the hub is full",
        "the hub is full",
    ]
