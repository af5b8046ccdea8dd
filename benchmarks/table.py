"""The figures of all parts against the goals: ``python -m benchmarks.table [--recorded | --record | --write]``.

Printed are the ratios of the last runs here (.cache/bench/*.json), what falls short first. ``--recorded`` prints the
section of README.md, made of benchmarks/results/*.json; ``--record`` keeps the last runs there and writes the section,
``--write`` only writes it.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.goals import GOALS, ROUTES, Goal
from benchmarks.recorded import FOLDER, KEPT, Part, read

__all__ = ["Standing", "goal_table", "route_tables", "section", "standings", "told", "written"]

README = Path(__file__).with_name("README.md")
BEGIN, END = "<!-- begin: python -m benchmarks.table --record -->", "<!-- end -->"


@dataclass(frozen=True, slots=True)
class Standing:
    """A goal and what was measured."""

    goal: Goal
    middle: float
    low: float
    high: float

    @property
    def reach(self) -> float:
        """1 and more: the goal is reached."""
        if self.middle <= 0:
            return 0.0 if not self.goal.most else float("inf")
        return self.goal.bound / self.middle if self.goal.most else self.middle / self.goal.bound


def standings(parts: Mapping[str, Part], goals: Iterable[Goal] = GOALS) -> tuple[list[Standing], list[Goal]]:
    """What was measured, the furthest from its goal first; and the goals for which nothing was measured."""
    found, missing = [], []
    for goal in goals:
        values = _values(parts.get(goal.part), goal)
        if values:
            found.append(Standing(goal, statistics.median(values), min(values), max(values)))
        else:
            missing.append(goal)
    return sorted(found, key=lambda each: each.reach), missing


def _values(part: Part | None, goal: Goal) -> list[float]:
    if part is None:
        return []
    ours = part.values(goal.route, goal.mover, goal.measure)
    if not goal.peer:
        return list(ours)
    theirs = part.values(goal.route, goal.peer, goal.measure)
    return [one / other for one, other in zip(ours, theirs, strict=False) if other]


def goal_table(parts: Mapping[str, Part]) -> str:
    """One line for each goal that was measured, and one for those that were not."""
    found, missing = standings(parts)
    lines = ["| What | measured (lowest to highest) | goal | reached |", "|---|---|---|---|"]
    for each in found:
        goal = each.goal
        unit = f" of {goal.peer}" if goal.peer else f" {goal.unit}"
        measured = f"{_number(each.middle)} ({_number(each.low)} to {_number(each.high)})"
        bound = f"{'at most' if goal.most else 'at least'} {_number(goal.bound)}{unit}"
        share = "yes" if each.reach >= 1 else f"**{each.reach:.2f} of it**"
        lines.append(f"| {goal.title} | {measured} | {bound} | {share} |")
    short = sum(each.reach < 1 for each in found)
    lines += ["", f"{len(found)} goals were measured, {len(found) - short} are reached, {short} are not."]
    for name in dict.fromkeys(goal.part for goal in missing):
        lines.append(
            f"Not measured, {name}: {_absent(parts.get(name), [goal for goal in missing if goal.part == name])}."
        )
    return "\n".join(lines)


def _absent(part: Part | None, goals: Sequence[Goal]) -> str:
    """How many goals, and which movers have no figure at all, or which routes."""
    told = f"{len(goals)} goals"
    if part is None:
        return told
    there = {each.mover for each in part.figures}
    absent = dict.fromkeys(name for goal in goals for name in (goal.mover, goal.peer) if name and name not in there)
    routes = dict.fromkeys(goal.route for goal in goals if {goal.mover, goal.peer or goal.mover} <= there)
    return f"{told} ({'; '.join([*absent, *routes])})"


def route_tables(part: Part) -> str:
    """Rates and costs of the movers, one line for each on each route."""
    lines = [
        "| Route | Mover | messages/s | CPU, us/message | CPU with brokers | our defaults of it |",
        "|---|---|---|---|---|---|",
    ]
    for route in ROUTES:
        movers = dict.fromkeys(each.mover for each in part.figures if each.route == route)
        ours = part.values(route, next(iter(movers), ""), "rate")
        for mover in movers:
            rates = part.values(route, mover, "rate")
            ratios = [one / other for one, other in zip(ours, rates, strict=False)]
            cells = (
                _range(rates),
                _range(part.values(route, mover, "cpu")),
                _range(part.values(route, mover, "cpu with brokers")),
                f"**{statistics.median(ratios):.2f}**" if ratios and rates is not ours else "",
            )
            lines.append(f"| {route} | {mover} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _range(values: Sequence[float]) -> str:
    if not values:
        return ""
    middle, low, high = statistics.median(values), min(values), max(values)
    if len(values) == 1:
        return _number(middle)
    return f"{_number(middle)} ({_number(low)} to {_number(high)})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _circumstances(part: Part) -> str:
    machine, sizes = part.machine, part.sizes
    versions = ", ".join(f"{name} {version}" for name, version in part.versions.items())
    text = (
        f"* `{part.command}`: {part.date}, commit {part.commit}, {machine['cores']} cores ({machine['processor']}), "
        f"{machine['memory_gib']} GiB, {machine['system']}, load {part.load} before the start, one sync of the disk "
        f"{part.sync_ms} ms; {', '.join(f'{name} {value:,}' for name, value in sizes.items())}; {versions}."
    )
    return "\n".join([text, *(f"  Left out: {what}." for what in part.left_out)])


def section(parts: Mapping[str, Part]) -> str:
    """What README.md shows between its two marks."""
    lines = [*(_circumstances(part) for part in parts.values()), "", goal_table(parts)]
    if "peers" in parts:
        lines += ["", route_tables(parts["peers"])]
    return "\n".join(lines)


def written(page: str, parts: Mapping[str, Part]) -> str:
    """The page with the section between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"README.md has no lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{section(parts)}\n\n{END}{after}"


def told(parts: Mapping[str, Part], failed: Mapping[str, str]) -> str:
    """The table of the goals, and a line for everything that was left out."""
    lines = [goal_table(parts)]
    lines += [f"Left out, {name}: {what}" for name, part in parts.items() for what in part.left_out]
    lines += [
        f"Left out, {name}: {why}; its figures are those before, or of an earlier run" for name, why in failed.items()
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print or keep the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--recorded", action="store_true", help="the section of README.md, of benchmarks/results")
    which.add_argument("--record", action="store_true", help="keep the last runs there and write README.md")
    which.add_argument("--write", action="store_true", help="write README.md of what is there")
    chosen = parser.parse_args(arguments)
    if chosen.record:
        KEPT.mkdir(exist_ok=True)
        for file in FOLDER.glob("*.json"):
            shutil.copy(file, KEPT)
    if chosen.record or chosen.write:
        README.write_text(written(README.read_text(), read([KEPT])))
    print(section(read([KEPT])) if chosen.recorded else told(read([FOLDER]), {}))


if __name__ == "__main__":
    main()
