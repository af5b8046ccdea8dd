"""Which grants still go back to the owner."""

from __future__ import annotations

from mgw.gateway.aq.grants import Grant, unfounded


def test_what_goes_back_to_the_owner_is_founded() -> None:
    grants = [Grant(1, "O", "A", True), Grant(2, "A", "B", False), Grant(3, "B", "C", True), Grant(4, "C", "B", True)]
    assert unfounded("O", grants) == [3, 4]
    assert unfounded("O", grants[1:]) == [2, 3, 4]
    assert unfounded("O", []) == []
