"""Statements on the ledger, for reading it in pieces side by side."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from gateway.ledger_record import Record, decode
from gateway.tables import ledger

__all__ = ["extent", "records"]

_FETCHED = 100  # rows; each may name thousands of messages


def extent(conn: sa.Connection, job_id: int) -> tuple[int, int] | None:
    """Numbers of the first and the last row of a job; None when there is none."""
    numbers = sa.select(sa.func.min(ledger.c.number), sa.func.max(ledger.c.number)).where(ledger.c.job_id == job_id)
    first, last = conn.execute(numbers).one()
    return None if first is None else (first, last)


def records(conn: sa.Connection, job_id: int, first: int, last: int) -> Iterator[Record]:
    """Rows ``first`` to ``last`` of a job, decoded, in order."""
    chosen = sa.select(ledger).where(ledger.c.job_id == job_id, ledger.c.number.between(first, last))
    for row in conn.execution_options(yield_per=_FETCHED).execute(chosen.order_by(ledger.c.number)):
        yield decode(row)
