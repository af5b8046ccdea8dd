"""make bench goes on where a part fails, and is over within an hour."""

from __future__ import annotations

import pytest

import benchmarks.__main__ as everything


def test_part_that_fails_or_is_not_over_in_time_is_told_and_the_others_count(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = {
        "whole": everything.Short(("this",), 1),
        "failing": everything.Short(("no_such_module",), 1),
        "slow": everything.Short(("http.server", "--bind", "127.0.0.1", "0"), 0.02),
    }
    monkeypatch.setattr(everything, "PARTS", parts)
    monkeypatch.setattr(everything.recorded, "read", dict)
    everything.main([])
    printed = capsys.readouterr().out
    assert "Left out, whole" not in printed
    assert "Left out, failing: it ended with status 1, see above" in printed
    assert "Left out, slow: not over after 0.02 minutes" in printed


def test_all_parts_take_at_most_an_hour() -> None:
    assert sum(short.minutes for short in everything.PARTS.values()) < 60
