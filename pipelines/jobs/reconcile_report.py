"""What a reconciliation found, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING, Any

from mgw.pipelines.jobs.reconcile_compare import IN_FLIGHT

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["Report", "render"]

_WIDTH = 150  # room for a message id, two places and a detail


@dataclass(frozen=True, slots=True)
class Report:
    """A reconciliation.

    Attributes:
        source: messages (copies) at the source, destination: at the destination.
        equal: copies with the same id and content on both sides.
        counts: messages by (kind, side) of the findings, with those in flight.
        shown: some of the findings, in order.
        written: where all of them are, or None.
        seconds: how long it took.
        at_least: messages the source must have.
    """

    source: int
    destination: int
    equal: int
    counts: Mapping[tuple[str, str], int]
    shown: Sequence[Mapping[str, Any]]
    written: str | None
    seconds: float
    at_least: int = 1

    @property
    def found(self) -> int:
        """Findings, without what is in flight."""
        return sum(count for (kind, _), count in self.counts.items() if kind != IN_FLIGHT)

    @property
    def enough(self) -> bool:
        """Whether the source had what it must have at least."""
        return self.source >= self.at_least

    @property
    def clean(self) -> bool:
        """Whether nothing was found among enough messages."""
        return self.enough and not self.found


def render(report: Report, name: str, settings: Any) -> str:
    """The report as text."""
    from rich.console import Console

    out = StringIO()
    console = Console(file=out, width=_WIDTH, highlight=False, markup=False)
    console.print(f"{name}: {_end(settings.source)} -> {_end(settings.destination)}", soft_wrap=True)
    totals = _table({"SOURCE": "right", "DESTINATION": "right", "EQUAL": "right", "FOUND": "right", "TIME": "right"})
    numbers = (report.source, report.destination, report.equal, report.found)
    totals.add_row(*(f"{number:,}" for number in numbers), f"{report.seconds:.1f} s")
    console.print(totals)
    if report.counts:
        kinds = _table({"FINDING": "left", "AT": "left", "MESSAGES": "right"})
        for (kind, side), count in sorted(report.counts.items()):
            kinds.add_row(kind, side, f"{count:,}")
        console.print(kinds)
    if report.shown:
        console.print(_details(report.shown))
        if report.found > sum(row["messages"] for row in report.shown):
            console.print(
                f"the first {len(report.shown)} are shown; all are in the report" if report.written else "..."
            )
    if report.written:
        console.print(f"findings are in {report.written}", soft_wrap=True)
    console.print(_verdict(report))
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())


def _verdict(report: Report) -> str:
    if not report.enough:
        return f"nothing is proved: the source has {report.source:,} messages, expected are {report.at_least:,} or more"
    if report.found:
        return f"{report.found:,} findings"
    return "nothing is missing, doubled, altered or reordered"


def _details(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = _table({"FINDING": "left", "ID": "left", "SOURCE": "left", "DESTINATION": "left", "DETAIL": "left"})
    for row in rows:
        at_source = " (source)" if row["side"] == "source" else ""
        table.add_row(
            f"{row['kind']}{at_source}",
            row["id"] or f"sha256 {(row['source_digest'] or row['destination_digest'] or '?')[:16]}...",
            row["source_place"] or "",
            row["destination_place"] or "",
            _detail(row),
        )
    return table


def _detail(row: Mapping[str, Any]) -> str:
    if row["detail"]:
        return str(row["detail"])
    if row["kind"] == "altered":
        return f"sha256 {row['source_digest'][:12]} became {row['destination_digest'][:12]}"
    if row["source_copies"] > 1 or row["destination_copies"] > 1:
        return f"{row['source_copies']} copies there, {row['destination_copies']} here"
    return ""


def _end(side: Any) -> str:
    """A side in few words."""
    what = {"hub": "queue", "kafka": "topic", "archive": "path", "files": "path", "ledger": "job"}[side.read]
    names = {"hub": "hub queue", "kafka": "Kafka topic", "archive": "archive", "files": "files", "ledger": "ledger of"}
    return f"{names[side.read]} {getattr(side, what)}"


def _table(columns: Mapping[str, str]) -> Table:
    from mgw.gateway.cli.common import table

    return table(columns)
