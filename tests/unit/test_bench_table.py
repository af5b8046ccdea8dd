"""The table of the benchmarks: what falls short of its goal comes first, and README.md shows what was recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.goals import GOALS, Goal
from benchmarks.recorded import KEPT, Figure, Part, Recorder, read
from benchmarks.table import BEGIN, END, README, goal_table, section, standings, told, written


def part(*figures: Figure, left_out: tuple[str, ...] = ()) -> Part:
    machine = {"cores": 2, "processor": "any", "memory_gib": 24, "system": "Linux"}
    circumstances = {"command": "python -m any", "date": "2026-11-24 22:00 UTC", "commit": "0" * 7, "machine": machine}
    return Part("peers", **circumstances, load=0.1, sync_ms=0.2, figures=figures, left_out=left_out)


def figure(mover: str, *values: float, measure: str = "rate") -> Figure:
    return Figure("a to b", mover, measure, values)


LEAST = Goal("peers", "a to b", "ours", "rate", 1.2, "theirs")
MOST = Goal("peers", "a to b", "ours", "cpu", 35.0, most=True, unit="us a message")


def test_ratio_is_the_median_of_the_ratios_of_the_rounds() -> None:
    figures = figure("ours", 100, 300, 240), figure("theirs", 100, 100, 200)
    (found,), _ = standings({"peers": part(*figures)}, [LEAST])
    assert (found.low, found.middle, found.high) == (1.0, 1.2, 3.0)
    assert found.reach == pytest.approx(1.0)


def test_furthest_from_its_goal_comes_first_whether_at_least_or_at_most() -> None:
    figures = figure("ours", 110), figure("theirs", 100), figure("ours", 70, measure="cpu")
    found, missing = standings({"peers": part(*figures)}, [LEAST, MOST])
    assert [each.goal for each in found] == [MOST, LEAST]
    assert [each.reach for each in found] == pytest.approx([0.5, 1.1 / 1.2])
    assert missing == []


def test_goal_for_which_nothing_was_measured_is_named() -> None:
    figures = {"peers": part(figure("ours", 110))}
    assert standings(figures, [LEAST, MOST]) == ([], [LEAST, MOST])
    assert "Not measured, latency: " in goal_table(figures)


def test_what_was_left_out_is_told_in_one_line() -> None:
    lines = told({"peers": part(left_out=("Bento: no binary",))}, {"hub": "not over after 6 minutes"}).splitlines()
    assert "Left out, peers: Bento: no binary" in lines
    assert any(line.startswith("Left out, hub: not over after 6 minutes") for line in lines)


def test_figures_are_read_as_they_were_written(tmp_path: Path) -> None:
    recorder = Recorder("any", rounds=2)
    recorder.add("a to b", "ours", "rate", 12345.678)
    recorder.add("a to b", "ours", "rate", 2)
    recorder.leave_out("one line")
    recorder.leave_out("one line")
    made = recorder.part()
    file = made.write(tmp_path)
    assert read([tmp_path]) == {"any": made}
    assert made.values("a to b", "ours", "rate") == (12350.0, 2.0)
    assert made.left_out == ("one line",)
    assert {"date", "commit", "command", "load", "sync_ms", "versions", "machine"} <= json.loads(
        file.read_text()
    ).keys()


def test_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="has no lines"):
        written("a page", {})


def test_section_is_put_between_the_marks() -> None:
    page = written(f"before\n{BEGIN}\nold\n{END}\nafter\n", {"peers": part()})
    assert page.startswith(f"before\n{BEGIN}\n")
    assert page.endswith(f"{END}\nafter\n")
    assert "old" not in page


def test_page_shows_what_was_recorded() -> None:
    page = README.read_text()
    assert page == written(page, read([KEPT])), "run: python -m benchmarks.table --write"
    assert section(read([KEPT])) in page


def test_no_path_of_a_machine_is_recorded() -> None:
    for file in KEPT.glob("*.json"):
        text = file.read_text()
        assert not any(folder in text for folder in ("/home/", "/root/", "/tmp/", "/work/")), file


def test_goals_are_different_ones() -> None:
    assert len(set(GOALS)) == len(GOALS)
