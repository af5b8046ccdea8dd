"""What the views say, as values: for the command line and all others that show the gateway's state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import sqlalchemy as sa

from mgw.gateway.aq import State
from mgw.gateway.state.outbound_view import OutboundRow
from mgw.gateway.state.views import refused_by_rule

__all__ = [
    "AgentOptionRow",
    "AgentSigns",
    "CertificateSigns",
    "EventRow",
    "ForeignQueueRow",
    "GatewayRow",
    "JobRow",
    "JobSigns",
    "LinkRow",
    "LinkSigns",
    "OutboundRow",
    "ScheduleRow",
    "Signs",
    "SubscriberRow",
    "agent_options",
    "events",
    "foreign_queues",
    "gateway",
    "held_for_jobs",
    "job",
    "jobs",
    "link",
    "links",
    "oldest_ages",
    "outbound_schedules",
    "queue_numbers",
    "schedules",
    "signs",
    "subscribers",
]


@dataclass(frozen=True, slots=True)
class GatewayRow:
    """An agent, from ``MGW_GATEWAY``. Moments are UTC texts."""

    agent_name: str
    agent_status: str
    agent_ping: str | None  # REACHABLE, UNREACHABLE; None where no process is to be expected
    agent_start_time: str | None
    agent_host: str | None
    agent_pid: int | None
    last_error_date: str | None
    last_error_time: str | None
    last_error_msg: str | None
    max_memory: int
    max_threads: int
    log_level: int
    comments: str | None


@dataclass(frozen=True, slots=True)
class LinkRow:
    """A link, from ``MGW_LINKS``."""

    link_name: str
    link_type: str
    agent_name: str
    link_comment: str | None


@dataclass(frozen=True, slots=True)
class AgentOptionRow:
    """An agent option, from ``MGW_AGENT_OPTIONS``."""

    agent_name: str
    name: str
    value: str | None
    encrypted: str


@dataclass(frozen=True, slots=True)
class ForeignQueueRow:
    """A registered foreign queue, from ``MGW_FOREIGN_QUEUES``."""

    name: str
    link_name: str
    provider_queue: str
    domain: str | None
    options: str
    queue_comment: str | None


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job, from ``MGW_JOBS``. Counts are since agent start, ``*_total`` since creation; ages in seconds."""

    job_name: str
    agent_name: str
    link_name: str | None
    propagation_type: str
    source: str
    destination: str
    enabled: str  # TRUE, FALSE
    status: str
    activity: str
    activity_reason: str | None
    nodes: str | None
    failures: int
    propagated_msgs: int
    exceptionq_msgs: int
    filtered_msgs: int
    discarded_msgs: int
    suppressed_msgs: int
    propagated_total: int
    exceptionq_total: int
    filtered_total: int
    discarded_total: int
    left_out_total: int
    backlog: int | None
    oldest_message_age: float | None
    last_progress: str | None
    next_attempt: str | None
    not_working_since: str | None
    guarantee: str | None
    guarantee_note: str | None
    require_guarantee: str | None
    last_error_date: str | None
    last_error_time: str | None
    last_error_msg: str | None
    rule: str | None
    transformation: str | None
    exception_queue: str | None
    poll_interval: float
    options: str
    comments: str | None


@dataclass(frozen=True, slots=True)
class SubscriberRow:
    """The subscriber of a job, or one without a schedule, from ``MGW_SUBSCRIBERS``."""

    subscriber_id: str
    propagation_type: str
    queue_name: str
    destination: str
    schedule_id: str | None
    status: str  # ENABLED, DELETE_PENDING
    old_style: str  # TRUE, FALSE
    backlog: int | None
    failures: int
    propagated_msgs: int
    exceptionq_msgs: int
    rule: str | None
    transformation: str | None
    exception_queue: str | None
    options: str
    last_error_date: str | None
    last_error_time: str | None
    last_error_msg: str | None


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """The schedule of a job, or one without a subscriber, from ``MGW_SCHEDULES``."""

    schedule_id: str
    propagation_type: str
    source: str
    destination: str
    subscriber_id: str | None
    schedule_disabled: str  # Y, N
    old_style: str  # TRUE, FALSE
    latency: float  # seconds


@dataclass(frozen=True, slots=True)
class EventRow:
    """Something that happened, from ``MGW_EVENTS``."""

    event_id: int
    event_time: str
    event_level: str
    event_name: str
    agent_name: str | None
    object_name: str | None
    event_text: str


@dataclass(frozen=True, slots=True)
class AgentSigns:
    """What the health of an agent is judged by. Times are epoch seconds."""

    name_key: str
    status: str
    lease_expires: float | None
    heartbeat: float | None
    start_time: float | None
    stopped: float | None
    last_error_msg: str | None


@dataclass(frozen=True, slots=True)
class LinkSigns:
    """A link and its agent."""

    name_key: str
    agent_key: str
    attributes: str = "{}"  # JSON, secrets left out


@dataclass(frozen=True, slots=True)
class CertificateSigns:
    """A certificate of a link or of its broker, as the agent last saw it. Times are epoch seconds."""

    link_key: str
    owner: str
    place: str
    subject: str
    expires: float


@dataclass(frozen=True, slots=True)
class JobSigns:
    """What the health of a job is judged by, and what it has counted. Times are epoch seconds."""

    name_key: str
    agent_key: str
    link_key: str | None
    propagation_type: str
    source_key: str
    destination_key: str
    options: str  # JSON
    enabled: bool
    status: str
    activity: str
    activity_reason: str | None
    failures: int
    not_working_since: float | None
    last_error_msg: str | None
    last_error_time: float | None
    last_progress: float | None
    guarantee: str | None
    backlog: int | None  # jobs that read from a link only
    oldest: float | None  # jobs that read from a link only
    propagated_total: int
    exceptioned_total: int
    filtered_total: int
    discarded_total: int
    suppressed_total: int
    left_out_total: int

    @property
    def links(self) -> frozenset[str]:
        """Names of the links at its ends."""
        _, at, target = self.destination_key.rpartition("@")
        return frozenset(name for name in (self.link_key, target if at else None) if name)


@dataclass(frozen=True, slots=True)
class Signs:
    """Agents, links and jobs as the hub knows them, by name."""

    agents: Sequence[AgentSigns]
    links: Sequence[LinkSigns]
    jobs: Sequence[JobSigns]
    certificates: Sequence[CertificateSigns] = ()


_Row = TypeVar("_Row")


def gateway(conn: sa.Connection) -> list[GatewayRow]:
    """All agents, by name."""
    return _rows(conn, GatewayRow, "MGW_GATEWAY", "AGENT_NAME")


def links(conn: sa.Connection) -> list[LinkRow]:
    """All links, by name."""
    return _rows(conn, LinkRow, "MGW_LINKS", "LINK_NAME")


def agent_options(conn: sa.Connection) -> list[AgentOptionRow]:
    """All agent options; encrypted values are not shown."""
    return _rows(conn, AgentOptionRow, "MGW_AGENT_OPTIONS", "AGENT_NAME, NAME")


def foreign_queues(conn: sa.Connection) -> list[ForeignQueueRow]:
    """All registered foreign queues, by link and name."""
    return _rows(conn, ForeignQueueRow, "MGW_FOREIGN_QUEUES", "LINK_NAME, NAME")


def jobs(conn: sa.Connection) -> list[JobRow]:
    """All jobs, by name."""
    return _rows(conn, JobRow, "MGW_JOBS", "JOB_NAME")


def job(conn: sa.Connection, name: str) -> JobRow | None:
    """The job of that name, in whatever letter case, or None."""
    return _row(conn, JobRow, "MGW_JOBS", "JOB_NAME", name)


def subscribers(conn: sa.Connection) -> list[SubscriberRow]:
    """All subscribers, by name."""
    return _rows(conn, SubscriberRow, "MGW_SUBSCRIBERS", "SUBSCRIBER_ID")


def schedules(conn: sa.Connection) -> list[ScheduleRow]:
    """All schedules, by name."""
    return _rows(conn, ScheduleRow, "MGW_SCHEDULES", "SCHEDULE_ID")


def outbound_schedules(conn: sa.Connection) -> list[OutboundRow]:
    """All schedules of the older gateway, by the names of their jobs."""
    return _rows(conn, OutboundRow, "DBA_OUTBOUND_SCHEDULES", "JOB_NAME")


def link(conn: sa.Connection, name: str) -> LinkRow | None:
    """The link of that name, in whatever letter case, or None."""
    return _row(conn, LinkRow, "MGW_LINKS", "LINK_NAME", name)


def events(
    conn: sa.Connection,
    *,
    after: int = 0,
    limit: int = 100,
    name: str | None = None,
    since: float | None = None,
    levels: Sequence[str] = (),
) -> list[EventRow]:
    """The last ``limit`` events with an id larger than ``after``, oldest first.

    Args:
        name: of that object alone.
        since: epoch seconds.
        levels: of these alone; none: of all.
    """
    conditions, values = ["EVENT_ID > :after"], dict[str, Any](after=after, limit=limit)
    if name is not None:
        conditions.append("UPPER(OBJECT_NAME) = UPPER(:name)")
        values["name"] = name
    if since is not None:
        conditions.append("EVENT_ID IN (SELECT id FROM gw_event WHERE time >= :since)")
        values["since"] = since
    if levels:
        conditions.append("EVENT_LEVEL IN :levels")
        values["levels"] = list(levels)
    query = _select(EventRow, "MGW_EVENTS", f"WHERE {' AND '.join(conditions)} ORDER BY EVENT_ID DESC LIMIT :limit")
    if levels:
        query = query.bindparams(sa.bindparam("levels", expanding=True))
    return [EventRow(*row) for row in conn.execute(query, values)][::-1]


_LEFT_OUT = f"""(SELECT k.id AS counted_job,
      t.filtered_total + t.unrouted_total + {refused_by_rule("c")} AS left_out_total
      FROM gw_job k JOIN gw_job_state t ON t.job_id = k.id
      LEFT JOIN aq_queue q ON k.propagation_type IN ('OUTBOUND', 'LOCAL') AND q.name_key = k.source_key
      LEFT JOIN aq_consumer c ON c.queue_id = q.id AND c.address = '' AND c.name_key = 'MGW_' || k.name_key)"""
_JOBS_AND_STATES = f"""gw_job j JOIN gw_job_state s ON s.job_id = j.id AND j.schedule IS NOT NULL
      JOIN {_LEFT_OUT} n ON n.counted_job = j.id"""


def signs(conn: sa.Connection) -> Signs:
    """What health is judged by. Reads rows of definitions and run state only: no message is looked at or counted."""
    return Signs(
        _rows(conn, AgentSigns, "gw_agent", "name_key"),
        _rows(conn, LinkSigns, "gw_link", "name_key"),
        _rows(conn, JobSigns, _JOBS_AND_STATES, "name_key"),
        _rows(conn, CertificateSigns, "gw_certificate", "link_key, owner, place"),
    )


_AGES = sa.text("SELECT JOB_NAME, OLDEST_MESSAGE_AGE FROM MGW_JOBS WHERE JOB_NAME IN :names").bindparams(
    sa.bindparam("names", expanding=True)
)


def oldest_ages(conn: sa.Connection, jobs: Sequence[str]) -> dict[str, float]:
    """Seconds for which the oldest message of each of these jobs waits, by job; none for a job without messages."""
    rows = conn.execute(_AGES, {"names": list(jobs)}).all() if jobs else []
    return {name: float(age) for name, age in rows if age is not None}


_QUEUES = """SELECT q.name_key, q.queue_type, n.state, CAST(coalesce(n.messages, 0) AS bigint) FROM aq_queue q
      LEFT JOIN (SELECT a.queue_id, a.state, sum(a.messages) AS messages FROM aq_total a WHERE a.consumer_id = 0
                  GROUP BY a.queue_id, a.state) n ON n.queue_id = q.id
     ORDER BY q.name_key, n.state"""


_WORDS = {int(State.WAITING): "waiting", int(State.EXPIRED): "expired"}  # a message for several consumers is ready


def queue_numbers(conn: sa.Connection) -> dict[tuple[str, str], int]:
    """Messages by queue of the hub and state (ready, waiting; expired in exception queues), from the kept numbers."""
    found: dict[tuple[str, str], int] = {}
    for queue, kind, state, number in conn.execute(sa.text(_QUEUES)):
        exceptions = kind == "EXCEPTION_QUEUE"
        for word in ("expired",) if exceptions else ("ready", "waiting"):
            found.setdefault((queue, word), 0)
        if number:
            word = "expired" if exceptions else _WORDS.get(state, "ready")
            found[queue, word] = found.get((queue, word), 0) + number
    return found


_HELD = sa.text(
    "SELECT JOB_NAME, BACKLOG, OLDEST_MESSAGE_AGE FROM MGW_JOBS "
    "WHERE AGENT_NAME = :agent AND ENABLED = 'TRUE' AND PROPAGATION_TYPE IN ('OUTBOUND', 'LOCAL') ORDER BY JOB_NAME"
)


def held_for_jobs(conn: sa.Connection, agent: str) -> dict[str, tuple[int, float | None]]:
    """Messages that wait for the enabled jobs of an agent that read from a queue of the hub, and for how many seconds
    the oldest has waited (None: none waits), by job. From the kept numbers; the oldest is found by an index."""
    rows = conn.execute(_HELD, {"agent": agent})
    return {job: (int(number), None if age is None else max(0.0, float(age))) for job, number, age in rows}


def _rows(conn: sa.Connection, kind: type[_Row], view: str, order: str) -> list[_Row]:
    return [kind(*row) for row in conn.execute(_select(kind, view, f"ORDER BY {order}"))]


def _row(conn: sa.Connection, kind: type[_Row], view: str, column: str, name: str) -> _Row | None:
    row = conn.execute(_select(kind, view, f"WHERE {column} = :name"), {"name": name.upper()}).one_or_none()
    return None if row is None else kind(*row)


def _select(kind: type[Any], view: str, tail: str) -> sa.TextClause:
    return sa.text(f"SELECT {', '.join(field.name for field in fields(kind))} FROM {view} {tail}")
