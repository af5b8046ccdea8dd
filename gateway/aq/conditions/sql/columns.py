"""What the names of the rule language are in the database: properties of messages, columns of ``AQ$<queue table>``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from mgw.gateway.aq.conditions.sql.values import Piece

__all__ = ["message_columns", "view_columns"]

_TEXT = 1024  # characters; no property of a message is longer
_TIMES = 10.0**15  # seconds; no clock of a hub goes that far
_ATTEMPTS = 2**31


def _text(sql: str, postgresql: bool, params: tuple[str, ...] = ()) -> Piece:
    return Piece(f'({sql} COLLATE "C")' if postgresql else sql, params, "text", length=_TEXT)


def _seconds(sql: str) -> Piece:
    return Piece(sql, (), "float", low=-_TIMES, high=_TIMES)


def _integer(sql: str, postgresql: bool, low: int = -(2**63), high: int = 2**63) -> Piece:
    return Piece(f"({sql})::bigint" if postgresql else sql, (), "integer", low=low, high=high)


@cache
def message_columns(hub_id: bytes, *, postgresql: bool, entries: bool) -> Mapping[str, Piece]:
    """The properties of rules (:data:`mgw.transforms.language.expression.PROPERTIES`), from the rows ``m`` and ``e``.

    Args:
        entries: consumers have rows of their own, with the number of failed attempts.
    """
    attempts = _integer("e.attempts" if entries else "m.attempts", postgresql, 0, _ATTEMPTS)
    correlation = _text("m.correlation", postgresql)
    number = "(?::text || upper(lpad(to_hex(m.id), 16, '0')))" if postgresql else "(? || printf('%016X', m.id))"
    original = "upper(encode(m.original_msgid, 'hex'))" if postgresql else _hexadecimal("m.original_msgid")
    return {
        "priority": _integer("m.priority", postgresql),
        "corrid": correlation,
        "correlation": correlation,
        "msgid": _text(number, postgresql, (hub_id.hex().upper(),)),
        "enq_time": _seconds("m.enq_time"),
        "expiration": _seconds("m.expiration"),
        "delay": Piece("0::bigint" if postgresql else "0", (), "integer", low=0, high=0),
        "retry_count": attempts,
        "attempts": attempts,
        "exception_queue": _text("m.exception_queue", postgresql),
        "sender_name": _text("m.sender_name", postgresql),
        "sender_address": _text("m.sender_address", postgresql),
        "original_msgid": _text(original, postgresql),
    }


def _hexadecimal(column: str) -> str:
    return f"CASE WHEN {column} IS NOT NULL THEN hex({column}) END"


#: Kind of the value of each column of ``AQ$<queue table>`` that a purge condition may name (AQ guide 12.2 §9.10).
VIEW_COLUMNS: Mapping[str, str] = {
    "QUEUE": "text",
    "MSG_ID": "text",
    "CORR_ID": "text",
    "MSG_PRIORITY": "integer",
    "MSG_STATE": "text",
    "DELAY": "time",
    "DELAY_TIMESTAMP": "time",
    "EXPIRATION": "float",
    "RETENTION_TIMESTAMP": "time",
    "ENQ_TIME": "time",
    "ENQ_TIMESTAMP": "time",
    "ENQ_USER_ID": "text",
    "ENQ_TXN_ID": "text",
    "DEQ_TIME": "time",
    "DEQ_TIMESTAMP": "time",
    "DEQ_USER_ID": "text",
    "DEQ_TXN_ID": "text",
    "RETRY_COUNT": "integer",
    "EXCEPTION_QUEUE_OWNER": "text",
    "EXCEPTION_QUEUE": "text",
    "SENDER_NAME": "text",
    "SENDER_ADDRESS": "text",
    "SENDER_PROTOCOL": "integer",
    "ORIGINAL_MSGID": "text",
    "CONSUMER_NAME": "text",
    "ADDRESS": "text",
    "PROTOCOL": "integer",
    "PROPAGATED_MSGID": "text",
    "ORIGINAL_QUEUE_NAME": "text",
    "ORIGINAL_QUEUE_OWNER": "text",
    "EXPIRATION_REASON": "text",
}

_ISO = "to_char({} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"
_SECOND = "to_char({} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')"


@cache
def view_columns(*, postgresql: bool) -> Mapping[str, Piece]:
    """The columns of a message view called ``qtview``, by name in lower case."""
    return {name.lower(): _view_column(name, kind, postgresql) for name, kind in VIEW_COLUMNS.items()}


def _view_column(name: str, kind: str, postgresql: bool) -> Piece:
    sql = f'qtview."{name}"'
    if kind == "text":
        return _text(f"({sql})::text" if postgresql else sql, postgresql)
    if kind == "time":
        form = _ISO if name.endswith("_TIMESTAMP") else _SECOND
        return _text(form.format(sql) if postgresql else sql, postgresql)
    if kind == "float":
        return _seconds(sql)
    return _integer(sql, postgresql, *(() if name == "MSG_PRIORITY" else (0, _ATTEMPTS)))
