"""Statements on the run state: job state and counters, positions (receiving log), plans (sending log), events.

Every function runs in the caller's transaction. What runs once per batch speaks to the driver directly
(:class:`gateway.aq.store.statements.Db`): building and compiling expressions costs more than the statements themselves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from struct import pack, unpack

import sqlalchemy as sa

from mgw.gateway.aq import Db
from mgw.gateway.definitions.job_words import LEAVING
from mgw.gateway.definitions.objects import Activity, JobStatus
from mgw.gateway.state.tables import event, job_state, plan, position
from mgw.links.contract import RESUME, Backlog, GuaranteeReport, Mark, Position
from mgw.transforms.errors import HubError

__all__ = [
    "HIDDEN",
    "LOG_RESET",
    "Counts",
    "JobRow",
    "Plan",
    "activity",
    "add_event",
    "add_plans",
    "advance_positions",
    "alter_plan",
    "backlog",
    "clear_receiving_log",
    "count",
    "delete_plans",
    "forget_keys",
    "forget_log",
    "job_row",
    "last_error",
    "last_heard",
    "load_entries",
    "load_plans",
    "load_positions",
    "new_keys",
    "prune_events",
    "prune_keys",
    "record_failure",
    "record_recovery",
    "reset_counters",
    "revive",
    "seen_by_source",
    "set_activity",
    "set_backlog",
    "set_guarantee",
    "write_marks",
]

# ------------------------------------------------------------------------------------------------ job state, counters


@dataclass(frozen=True, slots=True)
class JobRow:
    """Run state of a job as stored."""

    status: JobStatus
    failures: int
    plan_sequence: int
    log_sequence: int | None


def job_row(conn: sa.Connection, job_id: int) -> JobRow:
    """Run state of the job."""
    row = conn.execute(
        sa.select(job_state.c.status, job_state.c.failures, job_state.c.plan_sequence, job_state.c.log_sequence).where(
            job_state.c.job_id == job_id
        )
    ).one()
    return JobRow(JobStatus(row.status), row.failures, row.plan_sequence, row.log_sequence)


def last_error(conn: sa.Connection, job_id: int) -> str:
    """The last error of the job; empty if there was none."""
    return conn.execute(sa.select(job_state.c.last_error_msg).where(job_state.c.job_id == job_id)).scalar() or ""


@dataclass(slots=True)
class Counts:
    """Messages of one batch by what happened to them."""

    propagated: int = 0
    exceptioned: int = 0
    filtered: int = 0
    discarded: int = 0
    suppressed: int = 0  # came again and were known: not stored twice
    unrouted: int = 0  # of the discarded: no subscriber of the destination wanted them

    @property
    def total(self) -> int:
        """All of them, each once."""
        return self.propagated + self.exceptioned + self.filtered + self.discarded + self.suppressed

    def add(self, more: Counts) -> None:
        """Count these, too."""
        self.propagated += more.propagated
        self.exceptioned += more.exceptioned
        self.filtered += more.filtered
        self.discarded += more.discarded
        self.suppressed += more.suppressed
        self.unrouted += more.unrouted


_COUNTERS = ("propagated", "exceptioned", "filtered", "discarded", "suppressed")
_COUNT = (
    "UPDATE gw_job_state SET last_progress = ?, log_sequence = coalesce(CAST(? AS bigint), log_sequence), "
    + ", ".join(f"{name} = {name} + ?, {name}_total = {name}_total + ?" for name in _COUNTERS)
    + ", unrouted_total = unrouted_total + ? WHERE job_id = ?"
)


def count(conn: sa.Connection, job_id: int, counts: Counts, *, now: float, log_sequence: int | None = None) -> None:
    """Add a batch to the counters and note the progress, and up to where the sending log must reach from now on."""
    done, exceptioned, filtered = counts.propagated, counts.exceptioned, counts.filtered
    discarded, suppressed = counts.discarded, counts.suppressed
    added = (done, done, exceptioned, exceptioned, filtered, filtered, discarded, discarded, suppressed, suppressed)
    Db(conn).later(_COUNT, (now, log_sequence, *added, counts.unrouted, job_id))


def record_failure(
    conn: sa.Connection,
    job_id: int,
    *,
    status: JobStatus,
    failures: int,
    error: str,
    now: float,
    retry_at: float | None,
    since: float | None = None,
    limit: str = "",
) -> None:
    """Store a failed attempt; a job marked for removal keeps that mark. ``since``: when it began to wait in vain;
    ``limit``: what keeps messages back, where that is why it failed."""
    conn.execute(
        sa.update(job_state)
        .where(job_state.c.job_id == job_id, job_state.c.status.not_in(LEAVING))
        .values(
            status=status,
            failures=failures,
            last_error_msg=error[:4000],
            last_error_time=now,
            next_attempt=retry_at,
            activity=Activity.STOPPED if retry_at is None else Activity.BLOCKED if limit else Activity.BACKOFF,
            activity_reason=limit or None,
            nodes=None,
            not_working_since=sa.func.coalesce(job_state.c.not_working_since, now if since is None else since),
        )
    )


def record_recovery(conn: sa.Connection, job_id: int) -> None:
    """A success after failures: RETRY -> READY. The last error stays readable."""
    conn.execute(
        sa.update(job_state)
        .where(job_state.c.job_id == job_id, job_state.c.status == JobStatus.RETRY)
        .values(status=JobStatus.READY, failures=0, next_attempt=None, not_working_since=None)
    )


def revive(conn: sa.Connection, job_id: int) -> None:
    """FAILED -> READY."""
    conn.execute(
        sa.update(job_state)
        .where(job_state.c.job_id == job_id, job_state.c.status == JobStatus.FAILED)
        .values(status=JobStatus.READY, failures=0, next_attempt=None)
    )


_WORKING = (Activity.RUNNING, Activity.IDLE)


_ENDING = (Activity.STOPPED, Activity.DRAINING)

_UNCONNECTED = (Activity.STOPPED, Activity.CONNECTING)


def set_activity(
    conn: sa.Connection,
    job_id: int,
    activity: Activity,
    *,
    now: float,
    reason: str = "",
    unless_stopped: bool = False,
) -> bool:
    """What the job is doing since ``now``, and why.

    A job works when it is RUNNING or IDLE and has recovered from its failures. One that is stopped, or about to be,
    keeps what is known.

    Args:
        unless_stopped: a job that is STOPPED stays so.

    Returns:
        Whether it was written.
    """
    values: dict[str, object] = {"activity": activity, "activity_reason": reason or None}
    since = job_state.c.not_working_since
    if activity in _WORKING:
        values["not_working_since"] = sa.case((job_state.c.status != JobStatus.READY, since), else_=None)
    elif activity not in _ENDING:
        values["not_working_since"] = sa.func.coalesce(since, now)
    if activity in _UNCONNECTED:
        values["nodes"] = None
    update = sa.update(job_state).where(job_state.c.job_id == job_id)
    if unless_stopped:
        update = update.where(job_state.c.activity != Activity.STOPPED)
    return conn.execute(update.values(**values)).rowcount > 0


def set_stop_reason(conn: sa.Connection, job_id: int, reason: str) -> None:
    """Why a job that is STOPPED does not run; empty: nothing is in its way. One that runs is left as it is."""
    stopped = job_state.c.job_id == job_id, job_state.c.activity == Activity.STOPPED
    conn.execute(sa.update(job_state).where(*stopped).values(activity_reason=reason or None))


def activity(conn: sa.Connection, job_id: int) -> Activity:
    """What the job was doing when its agent last told."""
    query = sa.select(job_state.c.activity).where(job_state.c.job_id == job_id)
    return Activity(conn.execute(query).scalar_one())


def backlog(conn: sa.Connection, job_id: int) -> Backlog | None:
    """The last sample of what waits at the source of an inbound job; None: the system does not tell."""
    query = sa.select(job_state.c.backlog, job_state.c.oldest).where(job_state.c.job_id == job_id)
    row = conn.execute(query).one()
    return None if row.backlog is None else Backlog(row.backlog, row.oldest)


def set_guarantee(conn: sa.Connection, job_id: int, report: GuaranteeReport, nodes: str | None = None) -> None:
    """What the job promises now; ``nodes``: to which it has just connected, None: no news."""
    values: dict[str, object] = {"guarantee": report.level, "guarantee_note": report.note or None}
    if nodes is not None:
        values["nodes"] = nodes or None
    conn.execute(sa.update(job_state).where(job_state.c.job_id == job_id).values(**values))


def set_backlog(conn: sa.Connection, job_id: int, backlog: Backlog | None, *, now: float) -> None:
    """Store a sample of what waits at the source of an inbound job."""
    conn.execute(
        sa.update(job_state)
        .where(job_state.c.job_id == job_id)
        .values(backlog=backlog.messages if backlog else None, oldest=backlog.oldest if backlog else None, sampled=now)
    )


def reset_counters(conn: sa.Connection, job_ids: Sequence[int]) -> None:
    """Agent start: zero the counters, revive FAILED jobs (AQ guide 12.2 §17.4, §21.3)."""
    conn.execute(
        sa.update(job_state)
        .where(job_state.c.job_id.in_(job_ids))
        .values(
            **dict.fromkeys(_COUNTERS, 0),
            activity=Activity.STOPPED,
            activity_reason=None,
            nodes=None,
            next_attempt=None,
        )
    )
    conn.execute(
        sa.update(job_state)
        .where(job_state.c.job_id.in_(job_ids), job_state.c.status.in_((JobStatus.FAILED, JobStatus.RETRY)))
        .values(status=JobStatus.READY, failures=0)
    )


#: ``log_sequence`` of a job whose sending log is taken as it is at the next connect.
LOG_RESET = -1

# ----------------------------------------------------------------------------------------------------- receiving log

#: Names of entries that no source sees begin so; RESUME alone is for the source.
HIDDEN = "!"

_POSITION_SET = "UPDATE gw_position SET value = ?, updated = ? WHERE job_id = ? AND part = ? AND value = ?"


def load_positions(conn: sa.Connection, job_id: int) -> dict[str, str]:
    """Stored positions of the job's source: partition -> value."""
    return seen_by_source(load_entries(conn, job_id))


def last_heard(conn: sa.Connection, job_id: int) -> float | None:
    """When the hub last stored something that came from the source of a job (epoch seconds); None: never."""
    progress = sa.select(job_state.c.last_progress).where(job_state.c.job_id == job_id).scalar_subquery()
    known = sa.select(sa.func.max(position.c.updated), progress).where(
        position.c.job_id == job_id, position.c.part.not_like(f"{HIDDEN}%")
    )
    return max((moment for moment in conn.execute(known).one() if moment), default=None)


def seen_by_source(entries: Mapping[str, str]) -> dict[str, str]:
    """Those entries of a receiving log that are for the source."""
    return {part: value for part, value in entries.items() if not part.startswith(HIDDEN) or part == RESUME}


def load_entries(conn: sa.Connection, job_id: int) -> dict[str, str]:
    """All of the receiving log, with what the gateway itself keeps there (names that begin with HIDDEN)."""
    rows = conn.execute(sa.select(position.c.part, position.c.value).where(position.c.job_id == job_id))
    return {row.part: row.value for row in rows}


def advance_positions(conn: sa.Connection, job_id: int, moves: Sequence[Position], *, now: float) -> None:
    """Compare-and-set every position: the guard against a second reader.

    Raises:
        HubError: a position is not where this reader left it; somebody else moved it.
    """
    for move in moves:
        if move.before is None:
            known = conn.execute(
                sa.select(position.c.value).where(position.c.job_id == job_id, position.c.part == move.partition)
            ).scalar()
            _require_moved(move, int(known is None))
            conn.execute(sa.insert(position).values(job_id=job_id, part=move.partition, value=move.after, updated=now))
        else:
            moved = (move.after, now, job_id, move.partition, move.before)
            Db(conn).later(_POSITION_SET, moved, partial(_require_moved, move))


def _require_moved(move: Position, moved: int) -> None:
    if moved != 1:
        raise HubError(
            f"position of partition {move.partition} was changed by another process",
            cause=f"expected {move.before or 'none'}; another process reads for this job",
            cure="make sure that one agent process runs this job; nothing was stored",
        )


def clear_receiving_log(conn: sa.Connection, job_id: int) -> None:
    """Forget every position and mark that the source of the job has where it is now."""
    write_marks(conn, job_id, [Mark(name, None) for name in load_positions(conn, job_id)], now=0)


_MARK_SET = (
    "INSERT INTO gw_position (job_id, part, value, updated) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (job_id, part) DO UPDATE SET value = excluded.value, updated = excluded.updated"
)
_MARK_REMOVE = "DELETE FROM gw_position WHERE job_id = ? AND part = ?"


def write_marks(conn: sa.Connection, job_id: int, marks: Sequence[Mark], *, now: float) -> None:
    """Write the unconditional entries of the receiving log: one statement for those kept, one for those removed."""
    kept = [(job_id, mark.partition, mark.value, now) for mark in marks if mark.value is not None]
    if kept:
        Db(conn).many_later(_MARK_SET, kept)
    removed = [(job_id, mark.partition) for mark in marks if mark.value is None]
    if removed:
        Db(conn).many_later(_MARK_REMOVE, removed)


def new_keys(conn: sa.Connection, job_id: int, keys: Sequence[str], *, now: float) -> set[str]:
    """Store the keys of received messages and return those that were not there: the dedupe primitive.

    A key that occurs twice in ``keys`` counts once.
    """
    if not keys:
        return set()
    db = Db(conn)
    if db.postgresql:
        return {key for (key,) in db.rows(_KEYS_POSTGRESQL, (job_id, now, list(keys)))}
    return {key for (key,) in db.rows(_KEYS_SQLITE, (job_id, now, json.dumps(list(keys))))}


_KEYS_SQLITE = (
    "INSERT INTO gw_received (job_id, message_key, received) SELECT ?, value, ? FROM json_each(?) WHERE true "
    "ON CONFLICT DO NOTHING RETURNING message_key"
)
_KEYS_POSTGRESQL = (
    "INSERT INTO gw_received (job_id, message_key, received) SELECT ?::bigint, k, ?::double precision "
    "FROM unnest(?::text[]) k ON CONFLICT DO NOTHING RETURNING message_key"
)


def forget_keys(conn: sa.Connection, job_id: int, keys: Sequence[str]) -> None:
    """Messages with these keys were not received after all."""
    if keys:
        Db(conn).many("DELETE FROM gw_received WHERE job_id = ? AND message_key = ?", [(job_id, key) for key in keys])


def prune_keys(conn: sa.Connection, *, before: float, limit: int) -> int:
    """Forget at most ``limit`` keys received before ``before``; a message that comes again later is stored again."""
    return conn.execute(_KEYS_PRUNE, {"before": before, "rows": limit}).rowcount


_KEYS_PRUNE = sa.text(
    "DELETE FROM gw_received WHERE (job_id, message_key) IN (SELECT job_id, message_key FROM gw_received "
    "WHERE received < :before ORDER BY received LIMIT :rows)"
)


# ------------------------------------------------------------------------------------------------------- sending log


@dataclass(frozen=True, slots=True)
class Plan:
    """A batch that will be, or was, sent exactly as listed."""

    sequence: int
    ids: tuple[int, ...]
    detail: bytes | None = None  # of a batch that was read from a link


_PLAN_ADD = "INSERT INTO gw_plan (job_id, sequence, token, message_ids, created, detail) VALUES (?, ?, ?, ?, ?, ?)"
_PLAN_SEQUENCE = "UPDATE gw_job_state SET plan_sequence = ? WHERE job_id = ?"
_PLAN_DELETE = "DELETE FROM gw_plan WHERE job_id = ? AND sequence {ids}"


def load_plans(conn: sa.Connection, job_id: int) -> list[Plan]:
    """Plans that were made and not completed, in order; not what is parked (:mod:`mgw.gateway.state.parked`)."""
    rows = conn.execute(
        sa.select(plan.c.sequence, plan.c.message_ids, plan.c.detail)
        .where(plan.c.job_id == job_id, plan.c.sequence > 0)
        .order_by(plan.c.sequence)
    )
    return [Plan(row.sequence, unpack(f">{len(row.message_ids) // 8}q", row.message_ids), row.detail) for row in rows]


def add_plans(conn: sa.Connection, job_id: int, plans: Sequence[Plan], *, token: int, now: float) -> None:
    """Make plans durable, before the first byte of them is sent."""
    db = Db(conn)
    rows = [
        (job_id, entry.sequence, token, pack(f">{len(entry.ids)}q", *entry.ids), now, entry.detail) for entry in plans
    ]
    db.many_later(_PLAN_ADD, rows)
    db.later(_PLAN_SEQUENCE, (plans[-1].sequence, job_id))


def forget_log(conn: sa.Connection, job_id: int, *, reset: bool = False) -> None:
    """The destination keeps no sending log any more; ``reset``: it is taken as it is at the next connect."""
    value = LOG_RESET if reset else None
    conn.execute(sa.update(job_state).where(job_state.c.job_id == job_id).values(log_sequence=value))


def alter_plan(conn: sa.Connection, job_id: int, changed: Plan) -> None:
    """Give a plan other messages."""
    conn.execute(
        sa.update(plan)
        .where(plan.c.job_id == job_id, plan.c.sequence == changed.sequence)
        .values(message_ids=pack(f">{len(changed.ids)}q", *changed.ids))
    )


def delete_plans(conn: sa.Connection, job_id: int, sequences: Sequence[int]) -> None:
    """Forget plans that are completed or taken back."""
    if sequences:
        db = Db(conn)
        db.later(_PLAN_DELETE, (job_id, db.ids(sequences)))


# ------------------------------------------------------------------------------------------------------------ events


def add_event(
    conn: sa.Connection, *, agent_name: str | None, level: str, name: str, object_name: str, text: str, now: float
) -> None:
    """Keep an event for ``MGW_EVENTS``."""
    values: Mapping[str, object] = {
        "time": now,
        "level": level,
        "name": name,
        "agent": agent_name,
        "object": object_name,
        "text": text,
    }
    conn.execute(sa.insert(event), values)


def prune_events(conn: sa.Connection, *, before: float) -> int:
    """Delete events older than ``before``."""
    return conn.execute(sa.delete(event).where(event.c.time < before)).rowcount
