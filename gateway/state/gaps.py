"""What a job misses, kept beside its positions until somebody gives it up or it is found again.

Entries of the receiving log that no source sees, one for each partition with a gap: they outlive the agent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import sqlalchemy as sa

from mgw.gateway.state import run_state
from mgw.links.contract import RESUME, Mark
from mgw.transforms.gap import Gap, from_text, to_text

__all__ = ["keep_gaps", "kept_gaps", "names_of_gaps", "pass_gaps"]

_GAP = run_state.HIDDEN + "gap:"  # and the partition


def names_of_gaps(entries: Iterable[str]) -> list[str]:
    """Those of the entries of a receiving log that are gaps."""
    return [name for name in entries if name.startswith(_GAP)]


def kept_gaps(conn: sa.Connection, job_id: int) -> tuple[Gap, ...]:
    """What the job misses since it stopped, by partition; empty if nothing, or if another release wrote it."""
    entries = run_state.load_entries(conn, job_id)
    try:
        return tuple(from_text(entries[name]) for name in names_of_gaps(sorted(entries)))
    except (ValueError, TypeError):
        return ()


def keep_gaps(conn: sa.Connection, job_id: int, gaps: Sequence[Gap], *, now: float) -> bool:
    """Keep these, and no others; whether that is news."""
    entries = run_state.load_entries(conn, job_id)
    wanted = {_GAP + gap.partition: to_text(gap) for gap in gaps}
    known = names_of_gaps(entries)
    news = any(entries.get(name) != text for name, text in wanted.items())
    marks = [Mark(name, None) for name in known if name not in wanted]
    run_state.write_marks(conn, job_id, [*marks, *(Mark(name, text) for name, text in wanted.items())], now=now)
    return news


def pass_gaps(conn: sa.Connection, job_id: int, gaps: Sequence[Gap], *, now: float) -> None:
    """Let the job go on behind the gaps. Partitions without one stay exactly where they are.

    A partition whose log cannot be continued loses its position, and RESUME lets its source begin at the oldest message
    that is left.
    """
    marks = [Mark(gap.partition, gap.position) for gap in gaps]
    if any(gap.position is None for gap in gaps):
        marks.append(Mark(RESUME, "earliest"))
    run_state.write_marks(conn, job_id, marks, now=now)
    keep_gaps(conn, job_id, (), now=now)
