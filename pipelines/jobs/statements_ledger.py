"""Statements on the ledger, for reading it in pieces side by side."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from mgw.gateway.ledger import store as ledger
from mgw.gateway.ledger.record import Record, decode

__all__ = ["extent", "records"]

extent = ledger.extent


def records(conn: sa.Connection, job_id: int, first: int, last: int) -> Iterator[Record]:
    """Rows ``first`` to ``last`` of a job, decoded, in order."""
    return map(decode, ledger.rows(conn, job_id, first, last))
