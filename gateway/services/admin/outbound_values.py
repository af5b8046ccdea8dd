"""What a schedule of the older gateway (DBMS_HQADM) is given: protocol, destination, windows and latency."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from mgw.gateway.aq import shown_key
from mgw.gateway.definitions.objects import split_foreign
from mgw.gateway.definitions.outbound import (
    LAST_MOMENT,
    MAX_SECONDS,
    PROTOCOL_NAMES,
    PROTOCOL_TYPES,
    OutboundSchedule,
)
from mgw.gateway.services.admin.base import Ora
from mgw.gateway.services.admin.job_options import MIN_POLL_INTERVAL
from mgw.transforms.errors import AdminError, ExpressionInvalid

__all__ = ["address", "begun", "duration", "latency", "moment", "protocol", "schema_of"]


def schema_of(queue_name: str) -> str:
    """The schema of a queue that is named ``[schema.]queue``."""
    return shown_key(queue_name).rpartition(".")[0].strip('"')


def protocol(given: int | str) -> int:
    """The number of a protocol.

    Raises:
        AdminError: ORA-32802.
    """
    text = str(given).strip().upper()
    number = PROTOCOL_NAMES.get(text.removeprefix("DBMS_HQADM."), int(text) if text.isdecimal() else None)
    if number is None or number not in PROTOCOL_TYPES:
        raise AdminError(
            f"protocol {given!r} cannot be used",
            number=Ora.VALUE_MUST_BE,
            cause=f"it is one of {', '.join(f'{name} ({value})' for name, value in PROTOCOL_NAMES.items())}",
            cure="correct it; to a queue of the hub create a job (create_job, mgw jobs create)",
        )
    return number


def address(destination: object) -> str:
    """A destination, if it is one.

    Raises:
        AdminError: ORA-20001.
    """
    if not isinstance(destination, str) or split_foreign(destination) is None:
        raise AdminError(
            f"destination {destination!r} cannot be used",
            number=Ora.HQ_ADDRESS,
            cause="it is of the form queue@link, and never left out",
            cure="write queue@link; mgw queues list shows them",
        )
    return destination


def _bad_value(what: str, given: object, wanted: str) -> AdminError:
    return AdminError(
        f"{what} {given!r} cannot be used",
        number=Ora.INVALID_VALUE,
        cause=f"it is {wanted}",
        cure="correct it, or leave it out",
    )


def moment(given: Any, now: float) -> float:
    """When the first window opens, in epoch seconds.

    Raises:
        AdminError: ORA-32801.
    """
    if given is None:
        return now
    try:
        start = datetime.fromisoformat(given.strip()) if isinstance(given, str) else given
        if isinstance(start, datetime):
            return (start if start.tzinfo is not None else start.replace(tzinfo=UTC)).timestamp()
        if isinstance(start, (int, float)) and not isinstance(start, bool):
            return datetime.fromtimestamp(start, UTC).timestamp()
    except (ValueError, OverflowError, OSError):
        pass
    raise _bad_value("start time", given, "a date and time, such as 2026-01-31T22:00:00 (UTC)")


def _seconds(what: str, given: object, wanted: str, *, least: float) -> float:
    number = isinstance(given, (int, float)) and not isinstance(given, bool)
    if not number or not least <= given <= MAX_SECONDS:  # type: ignore[operator]
        raise _bad_value(what, given, wanted)
    return float(given)  # type: ignore[arg-type]


def latency(given: object) -> float:
    """Seconds for which nothing is sent after the queue was found empty.

    Raises:
        AdminError: ORA-32801.
    """
    wanted = f"0, or {MIN_POLL_INTERVAL:g} to {MAX_SECONDS:.0f} seconds"
    return 0.0 if given == 0 and given is not False else _seconds("latency", given, wanted, least=MIN_POLL_INTERVAL)


def duration(given: object, begin: float) -> float | None:
    """Seconds that a window is open, the first of which opens at ``begin``.

    Raises:
        AdminError: ORA-32801.
    """
    if given is None:
        return None
    wanted = f"1 to {MAX_SECONDS:.0f} seconds, and no window ends after the year 9999; without it the window stays open"
    seconds = _seconds("duration", given, wanted, least=1.0)
    if begin + seconds > LAST_MOMENT:
        raise _bad_value("duration", given, wanted)
    return seconds


def begun(schedule: OutboundSchedule, now: float) -> OutboundSchedule:
    """With the window that is open or opens next, where the first one has ended. None opens before one closes.

    Raises:
        AdminError: ORA-32801.
    """
    if schedule.next_time is None:
        return schedule
    try:
        end = schedule.end if schedule.end is not None else schedule.window
        following = replace(schedule, duration=end - schedule.window).following()
        if following is None or schedule.end is None or following >= schedule.end:
            return schedule.moved(now)
    except ExpressionInvalid as error:
        raise AdminError(error.what, number=Ora.INVALID_VALUE, cause=error.cause, cure=error.cure) from error
    raise AdminError(
        f"next_time {schedule.next_time!r} cannot be used",
        number=Ora.INVALID_VALUE,
        cause="the next window would open before the first one closes; SYSDATE is the end of the window there",
        cure="give a later date, such as SYSDATE + 1/24",
    )
