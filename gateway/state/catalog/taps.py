"""Statements on taps: commands that look at the messages of a job while it carries them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from mgw.gateway.state import tables as t

__all__ = [
    "Tap",
    "delete_tap",
    "delete_taps_before",
    "get_tap",
    "insert_tap",
    "keep_tapped",
    "list_taps",
    "note_tap",
    "prolong_tap",
    "read_tapped",
]


@dataclass(frozen=True, slots=True)
class Tap:
    """A command that looks at a job.

    Attributes:
        until: epoch seconds; it is over then, unless the command says again that it is there.
        remaining: messages that are still to be shown.
        size: characters of a body that are shown.
        began: when the job began to show messages; None: it does not yet.
        missed: messages that were not shown because there were too many.
    """

    id: int
    job_id: int
    until: float
    per_second: int
    remaining: int
    size: int
    began: float | None
    missed: int


def insert_tap(  # noqa: PLR0917
    conn: sa.Connection, job_id: int, until: float, per_second: int, remaining: int, size: int
) -> int:
    """A new tap; its number."""
    values = {"job_id": job_id, "until": until, "per_second": per_second, "remaining": remaining, "size": size}
    return int(conn.execute(sa.insert(t.tap).values(values).returning(t.tap.c.id)).scalar_one())


def list_taps(conn: sa.Connection, now: float) -> list[Tap]:
    """The taps that are not over."""
    rows = conn.execute(sa.select(t.tap).where(t.tap.c.until > now, t.tap.c.remaining > 0).order_by(t.tap.c.id))
    return [Tap(**row._asdict()) for row in rows]


def get_tap(conn: sa.Connection, tap_id: int) -> Tap | None:
    """One tap, None when it was deleted."""
    row = conn.execute(sa.select(t.tap).where(t.tap.c.id == tap_id)).one_or_none()
    return None if row is None else Tap(**row._asdict())


def note_tap(conn: sa.Connection, tap_id: int, began: float) -> None:
    """The job shows its messages from now on."""
    conn.execute(sa.update(t.tap).where(t.tap.c.id == tap_id, t.tap.c.began.is_(None)).values(began=began))


def keep_tapped(conn: sa.Connection, tap_id: int, seen: Sequence[str], missed: int, now: float) -> bool:
    """Keep what was seen for a command; False where it is not there any more."""
    kept = conn.execute(
        sa.update(t.tap)
        .where(t.tap.c.id == tap_id, t.tap.c.until > now)
        .values(remaining=t.tap.c.remaining - len(seen), missed=t.tap.c.missed + missed)
    )
    if not kept.rowcount:
        return False
    if seen:
        conn.execute(sa.insert(t.tapped), [{"tap_id": tap_id, "seen": each} for each in seen])
    return True


def read_tapped(conn: sa.Connection, tap_id: int, after: int) -> list[tuple[int, str]]:
    """What was seen after a number, in order."""
    rows = conn.execute(
        sa.select(t.tapped.c.id, t.tapped.c.seen)
        .where(t.tapped.c.tap_id == tap_id, t.tapped.c.id > after)
        .order_by(t.tapped.c.id)
    )
    return [(int(number), seen) for number, seen in rows]


def prolong_tap(conn: sa.Connection, tap_id: int, until: float, read: int) -> None:
    """The command is there, and has shown all up to a number."""
    conn.execute(sa.update(t.tap).where(t.tap.c.id == tap_id).values(until=until))
    conn.execute(sa.delete(t.tapped).where(t.tapped.c.tap_id == tap_id, t.tapped.c.id <= read))


def delete_tap(conn: sa.Connection, tap_id: int) -> None:
    """Remove a tap and what it saw."""
    conn.execute(sa.delete(t.tapped).where(t.tapped.c.tap_id == tap_id))
    conn.execute(sa.delete(t.tap).where(t.tap.c.id == tap_id))


def delete_taps_before(conn: sa.Connection, moment: float) -> None:
    """Remove the taps of commands that ended without a word."""
    for tap_id in conn.execute(sa.select(t.tap.c.id).where(t.tap.c.until <= moment)).scalars().all():
        delete_tap(conn, tap_id)
