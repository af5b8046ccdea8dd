"""What the job ``flow`` measured: a table for the terminal, and a chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

__all__ = ["Measured", "Windows", "draw", "measured", "read_windows"]

#: Windows by job, in order of time.
Windows = Mapping[str, Sequence[Mapping[str, Any]]]

_COLOURS = ("#1f6fb4", "#d1691e", "#2a8a57", "#8a4fa3")
_INK, _FAINT = "#333333", "#dddddd"


@dataclass(frozen=True, slots=True)
class Measured:
    """A job in numbers; latencies in seconds."""

    job: str
    direction: str
    messages: int
    rate: float  # messages per second from its first window to its last
    best: float  # of its best window
    typical: float  # median latency of the window in the middle
    slow: float  # 99 of 100 arrived within it, in the worst window
    late: int


def read_windows(folder: Path) -> Windows:
    """The windows that ``flow`` wrote to Parquet, each as it was written last."""
    import pyarrow.parquet as pq

    last: dict[tuple[str, datetime], Mapping[str, Any]] = {}
    for path in folder.rglob("*.parquet"):
        for row in pq.read_table(path, partitioning=None).to_pylist():
            key = row["job"], row["window_start"]
            if key not in last or row["written"] >= last[key]["written"]:
                last[key] = row
    found: dict[str, list[Mapping[str, Any]]] = {}
    for (job, _), row in sorted(last.items()):
        found.setdefault(job, []).append(row)
    return found


def measured(windows: Windows) -> list[Measured]:
    """A line for each job."""
    result = []
    for job, rows in windows.items():
        seconds = (rows[-1]["window_end"] - rows[0]["window_start"]).total_seconds()
        messages = sum(row["messages"] for row in rows)
        medians = sorted(row["latency_p50"] for row in rows if row["latency_p50"] is not None)
        slow = max((row["latency_p99"] for row in rows if row["latency_p99"] is not None), default=0.0)
        typical = medians[len(medians) // 2] if medians else 0.0
        best = max(_rate(row) for row in rows)
        late = sum(row["late"] for row in rows)
        result.append(Measured(job, rows[0]["direction"], messages, messages / seconds, best, typical, slow, late))
    return result


def draw(windows: Windows, path: Path) -> Path:
    """The chart as a PNG: messages per second above, latency below, both over time."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import FuncFormatter

    start = min(rows[0]["window_start"] for rows in windows.values())
    figure, (rates, latencies) = plt.subplots(2, 1, figsize=(10, 7), sharex=True, layout="constrained")
    for (job, rows), colour in zip(windows.items(), _COLOURS * len(windows), strict=False):
        label = f"{job.lower()} ({'into the hub' if rows[0]['direction'] == 'INBOUND' else 'out of the hub'})"
        middle = [(row["window_start"] - start).total_seconds() + _length(row) / 2 for row in rows]
        rates.plot(*_whole(rows, middle), color=colour, label=label, linewidth=2)
        known = [(at, row) for at, row in zip(middle, rows, strict=True) if row["latency_p50"] is not None]
        times = [at for at, _ in known]
        latencies.plot(times, [row["latency_p50"] * 1000 for _, row in known], color=colour, linewidth=2)
        slow = [row["latency_p99"] * 1000 for _, row in known]
        latencies.plot(times, slow, color=colour, linewidth=1, linestyle=(0, (2, 2)))
    rates.set_title("Messages per second, mean of ten seconds", loc="left", color=_INK)
    rates.set_ylim(bottom=0)
    rates.legend(frameon=False, fontsize=9, ncols=2, loc="upper center", bbox_to_anchor=(0.5, 1.0))
    rates.set_ylim(top=rates.get_ylim()[1] * 1.2)  # room for the legend
    rates.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    latencies.set_title(
        "Latency in milliseconds: median (solid), 99 of 100 messages are faster than the dotted line",
        loc="left",
        color=_INK,
    )
    latencies.set_yscale("log")
    latencies.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    latencies.set_xlabel(f"seconds since {start:%Y-%m-%d %H:%M:%S} UTC", color=_INK)
    for axes in (rates, latencies):
        axes.grid(axis="y", color=_FAINT, linewidth=0.8)
        axes.tick_params(which="both", colors=_INK, length=0)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path.resolve()


def _whole(rows: Sequence[Mapping[str, Any]], middle: Sequence[float]) -> tuple[list[float], list[float]]:
    """Times and rates of all windows from the first to the last, each rate the mean of five windows around it.

    There is no row for a window in which nothing arrived.
    """
    known = dict(zip(middle, rows, strict=True))
    length = _length(rows[0])
    times = [middle[0] + length * at for at in range(round((middle[-1] - middle[0]) / length) + 1)]
    rates = [_rate(known[at]) if at in known else 0.0 for at in times]
    around = [rates[max(0, at - 2) : at + 3] for at in range(len(rates))]
    return times, [sum(each) / len(each) for each in around]


def _length(row: Mapping[str, Any]) -> float:
    seconds: float = (row["window_end"] - row["window_start"]).total_seconds()
    return seconds


def _rate(row: Mapping[str, Any]) -> float:
    return float(row["messages"] / _length(row))
