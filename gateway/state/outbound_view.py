"""The view of the schedules of the older gateway (DBMS_HQADM)."""

from __future__ import annotations

from mgw.gateway.definitions.outbound import PROTOCOL_TYPES, protocol_name
from mgw.gateway.state.view_dialects import Dialect

__all__ = ["outbound_columns"]

_PROTOCOL = " ".join(f"WHEN {number} THEN '{protocol_name(number)}'" for number in PROTOCOL_TYPES)
_STOPPED = "(NOT j.enabled OR s.status NOT IN ('READY', 'RETRY'))"
_ERROR = """CASE WHEN s.last_error_msg LIKE 'ORA-_____:%' THEN substr(s.last_error_msg, 5, 5)
        WHEN s.last_error_msg LIKE '[___]%' THEN substr(s.last_error_msg, 2, 3) END"""


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
