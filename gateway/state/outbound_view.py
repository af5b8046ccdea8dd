"""The view of the schedules of the older gateway (DBMS_HQADM)."""

from __future__ import annotations

from dataclasses import dataclass

from mgw.gateway.definitions.outbound import PROTOCOL_NAMES
from mgw.gateway.state.view_dialects import Dialect

__all__ = ["OutboundRow", "outbound_columns"]


@dataclass(frozen=True, slots=True)
class OutboundRow:
    """A schedule of the older gateway, from ``DBA_OUTBOUND_SCHEDULES``."""

    job_name: str
    queue_name: str
    protocol: int
    protocol_name: str
    destination: str
    start_time: str
    duration: float | None  # seconds
    next_time: str | None
    latency: float  # seconds
    window_begin: str
    window_end: str | None
    window_open: str  # Y, N
    disabled: str  # Y, N
    status: str
    activity: str
    transmit_queue: str
    transmit_consumer: str | None
    transmit_msgs: int
    exception_queue: str
    exception_msgs: int
    propagated_msgs: int
    failures: int
    error_time: str | None
    error: str | None
    error_msg: str | None
    last_progress: str | None


_PROTOCOL = " ".join(f"WHEN {number} THEN '{name}'" for name, number in PROTOCOL_NAMES.items())
_STOPPED = "(NOT j.enabled OR s.status NOT IN ('READY', 'RETRY'))"
# ORA-24010: ..., or [415] ...; without a pattern, whose percent sign PostgreSQL's driver would take for a parameter.
_ERROR = """CASE WHEN substr(s.last_error_msg, 1, 4) = 'ORA-' AND substr(s.last_error_msg, 10, 1) = ':'
        THEN substr(s.last_error_msg, 5, 5)
        WHEN substr(s.last_error_msg, 1, 1) = '[' AND substr(s.last_error_msg, 5, 1) = ']'
        THEN substr(s.last_error_msg, 2, 3) END"""


def outbound_columns(d: Dialect, backlog: str) -> dict[str, str]:
    """Columns from ``gw_job j``, ``gw_job_state s`` and ``gw_outbound_schedule o``; ``backlog`` is what waits."""
    end = "o.window_begin + o.duration"
    return {
        "JOB_NAME": "j.name_key",
        "QUEUE_NAME": "j.source_key",
        "PROTOCOL": "o.protocol",
        "PROTOCOL_NAME": f"CASE o.protocol {_PROTOCOL} END",
        "DESTINATION": "j.destination_key",
        "START_TIME": d.moment.format("o.start_time"),
        "DURATION": "o.duration",
        "NEXT_TIME": "o.next_time",
        "LATENCY": "o.latency",
        "WINDOW_BEGIN": d.moment.format("o.window_begin"),
        "WINDOW_END": f"CASE WHEN o.duration IS NOT NULL THEN {d.moment.format(end)} END",
        "WINDOW_OPEN": f"CASE WHEN o.window_begin <= {d.now} AND (o.duration IS NULL OR {d.now} < {end}) "
        "THEN 'Y' ELSE 'N' END",
        "DISABLED": f"CASE WHEN {_STOPPED} THEN 'Y' ELSE 'N' END",
        "STATUS": "s.status",
        "ACTIVITY": "s.activity",
        "TRANSMIT_QUEUE": "j.source_key",
        "TRANSMIT_CONSUMER": "CASE WHEN t.multiple_consumers = 1 THEN 'MGW_' || j.name_key END",
        "TRANSMIT_MSGS": backlog,
        "EXCEPTION_QUEUE": "upper(o.exception_queue)",
        "EXCEPTION_MSGS": "s.exceptioned_total",
        "PROPAGATED_MSGS": "s.propagated_total",
        "FAILURES": "s.failures",
        "ERROR_TIME": d.moment.format("s.last_error_time"),
        "ERROR": _ERROR,
        "ERROR_MSG": "s.last_error_msg",
        "LAST_PROGRESS": d.moment.format("s.last_progress"),
    }
