"""Records as JSON has them: numbers, truth values and null as such, times as ISO 8601 in UTC.

The views are made for SQL and show moments and truth values as texts, and options as one text of JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mgw.gateway.services.health import JobRow

__all__ = ["job", "moment", "moments", "number", "record", "second", "stamp"]

_MOMENTS = frozenset(
    (
        *("agent_start_time", "not_working_since", "event_time", "last_progress", "next_attempt", "last_time"),
        *("start_time", "window_begin", "window_end", "error_time"),
    )
)
_SIGNS = frozenset(("schedule_disabled", "disabled", "window_open"))  # Y or N
_FLAGS = frozenset(("enabled", "encrypted", "old_style"))


def moment(seconds: float | None) -> str | None:
    """Epoch seconds as ``2026-11-20T10:57:34.250000Z``."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def second(seconds: float | None) -> str | None:
    """Epoch seconds as tables show them: ``2026-11-20 10:57:34``, in UTC."""
    return None if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"


def stamp(text: str | None) -> str | None:
    """A moment of a view, ``2026-11-20 10:57:34`` in UTC, as ``2026-11-20T10:57:34Z``."""
    return None if text is None else f"{text.replace(' ', 'T')}Z"


def moments(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The values, those of these names as moments."""
    return {name: moment(value) if name in names else value for name, value in values.items()}


def number(value: Any) -> Any:
    """A number that JSON has; infinity and what is not a number as text."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def record(row: Any) -> dict[str, Any]:
    """A row of a view; its date and time of an error are one moment, ``last_error_time``."""
    values: dict[str, Any] = row if isinstance(row, dict) else asdict(row)
    result: dict[str, Any] = {}
    for name, value in values.items():
        if name in _MOMENTS:
            result[name] = stamp(value)
        elif name in _FLAGS:
            result[name] = value == "TRUE" if isinstance(value, str) else value
        elif name in _SIGNS:
            result[name] = value == "Y"
        elif name == "last_error_time" and value is not None:
            result[name] = stamp(f"{values['last_error_date']} {value}")
        elif name != "last_error_date":
            result[name] = value
    return result


def job(row: JobRow, link_type: str | None) -> dict[str, Any]:
    """A job, its options under their documented names with the types they have."""
    from mgw.gateway.services.options import job_options

    return record(row) | {"options": job_options(json.loads(row.options), link_type)}
