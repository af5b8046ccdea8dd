"""Statements that keep the ledger small, a bounded number of rows at a time: small batches merged, old rows deleted.

Records are merged (:mod:`gateway.ledger.merged`) in their order, once: of each job those that are complete groups, so
that a tail of at most :data:`GROUP` small records stays as it was written. Only how far it got is kept in memory: a
process that starts again looks through the ledger again, in the same small pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

import sqlalchemy as sa

from mgw.gateway.aq import Db
from mgw.gateway.ledger.merged import Row, expanded, merged
from mgw.gateway.ledger.record import MERGED, Kind, decode
from mgw.gateway.state.tables import ledger

__all__ = ["GROUP", "SPAN", "ChangedMeanwhile", "Group", "Merging", "agents_jobs", "prune", "store"]

GROUP = 1000  # records in a row at most
MOST = 20_000  # messages in a row at most
SPAN = 3600.0  # seconds between the first and the last record of a row: pruning takes whole rows
SMALL = 100  # messages; batches of so many are dense enough

_SCAN = (
    "SELECT number, kind, messages, finished, CASE WHEN messages < ? THEN substr(detail, 1, 1) END FROM gw_ledger"
    " WHERE job_id = ? AND number > ? ORDER BY number LIMIT ?"
)
_REMOVE = "DELETE FROM gw_ledger WHERE job_id = ? AND number BETWEEN ? AND ? RETURNING digest"
_STORE = f"INSERT INTO gw_ledger ({', '.join(Row._fields)}) VALUES ({', '.join('?' * len(Row._fields))})"


class ChangedMeanwhile(Exception):
    """Records that were to be merged are not what they were; nothing may be written."""


class Group(NamedTuple):
    """Records to be merged: what is stored of them, and the row that takes their place."""

    digests: Sequence[int]
    first: int
    row: Row


class _Seen(NamedTuple):
    """What a record says to whom decides where groups end."""

    number: int
    kind: str
    messages: int
    finished: float
    mark: bytes | None

    @property
    def small(self) -> bool:
        return self.messages < SMALL and self.kind != Kind.BREAK and bytes(self.mark or b"") != MERGED


class Merging:
    """Goes through the ledger of an agent's jobs, and of jobs that are gone.

    Args:
        agent_key: key of the agent.
    """

    def __init__(self, agent_key: str) -> None:
        self._agent = agent_key
        self._reached: dict[int, int] = {}  # job -> last record that needs no second look
        self._waiting: list[int] = []  # jobs that this round has not come to

    def look(self, conn: sa.Connection, *, now: float) -> tuple[Group | None, bool]:
        """The next group, and whether there is more to look at in this round: a bounded number of rows at a time.

        ``now``: epoch seconds. A group that nothing can follow any more, because it began :data:`SPAN` before, is
        complete.
        """
        if not self._waiting:
            self._waiting = agents_jobs(conn, self._agent)
            self._reached = {job: self._reached.get(job, 0) for job in self._waiting}
        if not self._waiting:
            return None, False
        job = self._waiting[-1]
        values = (SMALL, job, self._reached[job], GROUP + 1)
        seen = [_Seen(*row) for row in Db(conn).rows(_SCAN, values)]
        skipped = sum(1 for _ in takewhile(lambda each: not each.small, seen))
        if skipped:
            self._reached[job] = seen[skipped - 1].number
        fitting = _fitting(seen[skipped:])
        ended = len(fitting) < len(seen) - skipped or len(fitting) == GROUP
        cut = len(seen) > GROUP
        if fitting and (ended or (not cut and now - fitting[0].finished > SPAN)):
            self._reached[job] = fitting[-1].number
            return self._group(conn, job, fitting[0].number, fitting[-1].number), True
        if not cut or not skipped:
            self._waiting.pop()
        return None, bool(self._waiting)

    def again(self, group: Group) -> None:
        """The group could not be stored: come back to it."""
        self._reached[group.row.job_id] = group.first - 1

    def _group(self, conn: sa.Connection, job: int, first: int, last: int) -> Group | None:
        """The records as far as they are sound: one that was changed must go on to say so itself."""
        chosen = sa.select(ledger).where(ledger.c.job_id == job, ledger.c.number.between(first, last))
        rows = [Row(*row) for row in conn.execute(chosen.order_by(ledger.c.number))]
        records = [decode(row) for row in rows]
        sound = 0
        while sound < len(rows) and rows[sound].number == first + sound and not records[sound].faults:
            sound += 1
        if sound < len(rows):
            self._reached[job] = rows[sound].number
        if sound < 2:
            return None
        row = merged(rows[:sound])
        if [decode(each) for each in expanded(row)] != records[:sound]:
            raise RuntimeError(f"records {first} to {row.number} of job {job} cannot be read back unchanged")
        return Group([each.digest for each in rows[:sound]], first, row)


def _fitting(seen: Sequence[_Seen]) -> list[_Seen]:
    """The beginning that one row can take."""
    found: list[_Seen] = []
    messages = 0
    for each in seen[:GROUP]:
        messages += each.messages
        if not each.small or messages > MOST:
            break
        if found and (
            each.kind != found[0].kind
            or each.number != found[-1].number + 1
            or abs(each.finished - found[0].finished) > SPAN
        ):
            break
        found.append(each)
    return found


def store(conn: sa.Connection, group: Group) -> None:
    """Put the row of a group in the place of its records, in the transaction of ``conn``.

    Raises:
        ChangedMeanwhile: the records are not what they were; the transaction must not be committed.
    """
    db = Db(conn)
    removed = [digest for (digest,) in db.rows(_REMOVE, (group.row.job_id, group.first, group.row.number))]
    if sorted(removed) != sorted(group.digests):
        raise ChangedMeanwhile
    db.run(_STORE, group.row)


# ------------------------------------------------------------------------------------------------------------- pruning

# Every job in the ledger, by one look-up each: the agent's, and those that are gone.
_PRUNED = (
    "WITH RECURSIVE known(id) AS (SELECT min(job_id) FROM gw_ledger UNION ALL"
    " SELECT (SELECT min(job_id) FROM gw_ledger WHERE job_id > known.id) FROM known WHERE known.id IS NOT NULL)"
    " SELECT known.id FROM known LEFT JOIN gw_job j ON j.id = known.id"
    " WHERE known.id IS NOT NULL AND (j.agent_key IS NULL OR j.agent_key = :agent) ORDER BY known.id"
)
_PRUNE = (
    "DELETE FROM gw_ledger WHERE job_id = :job AND number <= (SELECT max(number) FROM"
    " (SELECT number, finished FROM gw_ledger WHERE job_id = :job ORDER BY number LIMIT :rows) AS oldest"
    " WHERE finished < :before)"
)


def agents_jobs(conn: sa.Connection, agent_key: str) -> list[int]:
    """Jobs in the ledger that are the agent's, and those that are gone."""
    return [job_id for (job_id,) in conn.execute(sa.text(_PRUNED), {"agent": agent_key})]


def prune(conn: sa.Connection, agent_key: str, *, before: float, limit: int) -> int:
    """Delete at most ``limit`` rows finished before ``before``, the oldest first: of the agent's jobs, and of jobs that
    are gone. Returns how many. A row is as old as the oldest after it: where the clock was put back."""
    deleted = 0
    for job_id in agents_jobs(conn, agent_key):
        if deleted == limit:
            break
        values = {"job": job_id, "rows": limit - deleted, "before": before}
        deleted += conn.execute(sa.text(_PRUNE), values).rowcount
    return deleted
