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
    from gateway.status import JobRow
    from links.contract import Field

__all__ = ["job", "moment", "moments", "number", "queue_options", "record", "stamp"]

_MOMENTS = frozenset(("agent_start_time", "event_time", "last_progress", "next_attempt", "last_time"))
_FLAGS = frozenset(("enabled", "encrypted"))


def moment(seconds: float | None) -> str | None:
    """Epoch seconds as ``2026-11-20T10:57:34.250000Z``."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def stamp(text: str | None) -> str | None:
    """A moment of a view, ``2026-11-20 10:57:34`` in UTC, as ``2026-11-20T10:57:34Z``."""
    return None if text is None else f"{text.replace(' ', 'T')}Z"


def moments(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The values, those of these names as moments."""
    return {name: moment(value) if name in names else value for name, value in values.items()}


def number(value: Any) -> Any:
    """A number that JSON has; infinity and what is no number as text."""
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
        elif name == "last_error_time" and value is not None:
            result[name] = stamp(f"{values['last_error_date']} {value}")
        elif name != "last_error_date":
            result[name] = value
    return result


def job(row: JobRow, link_type: str | None) -> dict[str, Any]:
    """A job, its options under their documented names with the types they have."""
    from gateway.admin.job_checks import JOB_OPTIONS
    from links.options import typed

    given: dict[str, str] = json.loads(row.options)
    known = {each.name.lower() for each in JOB_OPTIONS}
    own = () if known.issuperset(name.lower() for name in given) else _fields(link_type, "job_options")
    return record(row) | {"options": typed(given, (*JOB_OPTIONS, *own))}


def queue_options(given: Mapping[str, str], link_type: str | None) -> dict[str, Any]:
    """Options of a foreign queue with the types they have."""
    from links.options import typed

    return typed(given, _fields(link_type, "queue_options")) if given else {}


def _fields(link_type: str | None, kind: str) -> tuple[Field, ...]:
    from links import registry
    from transforms.errors import GatewayError

    try:
        return getattr(registry.spec(link_type), kind) if link_type else ()
    except GatewayError:  # its client is not installed here
        return ()
