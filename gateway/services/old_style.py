"""Subscribers and schedules of the old style for faces (AQ guide 12.2 §19.6), and schedules of DBMS_HQADM: as the views
show them, and by name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from mgw.gateway.aq import Hub
from mgw.gateway.definitions.objects import key
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.lookup import NotFound
from mgw.gateway.services.options import job_options
from mgw.gateway.state import status
from mgw.gateway.state.status import OutboundRow, ScheduleRow, SubscriberRow

__all__ = [
    "OutboundRow",
    "ScheduleRow",
    "SubscriberRow",
    "options_of",
    "outbound_schedule_row",
    "outbound_schedules",
    "schedule",
    "schedule_row",
    "schedules",
    "subscriber",
    "subscriber_row",
    "subscribers",
    "window_of",
]

_Row = TypeVar("_Row")


def subscribers(hub: Hub) -> list[SubscriberRow]:
    """The rows of MGW_SUBSCRIBERS, by name."""
    with hub.read() as conn:
        return status.subscribers(conn)


def schedules(hub: Hub) -> list[ScheduleRow]:
    """The rows of MGW_SCHEDULES, by name."""
    with hub.read() as conn:
        return status.schedules(conn)


def outbound_schedules(hub: Hub) -> list[OutboundRow]:
    """The rows of DBA_OUTBOUND_SCHEDULES, by the names of their jobs."""
    with hub.read() as conn:
        return status.outbound_schedules(conn)


def subscriber_row(hub: Hub, name: str) -> SubscriberRow:
    """The row of a subscriber.

    Raises:
        NotFound: it is gone.
    """
    return _row("subscriber", name, {row.subscriber_id: row for row in subscribers(hub)})


def schedule_row(hub: Hub, name: str) -> ScheduleRow:
    """The row of a schedule.

    Raises:
        NotFound: it is gone.
    """
    return _row("schedule", name, {row.schedule_id: row for row in schedules(hub)})


def outbound_schedule_row(hub: Hub, job: str) -> OutboundRow:
    """The row of the schedule of DBMS_HQADM that made a job.

    Raises:
        NotFound: it is gone.
    """
    return _row("outbound schedule", job, {row.job_name: row for row in outbound_schedules(hub)})


def window_of(row: OutboundRow, now: float) -> str:
    """The window of a schedule in words: ``open``, ``until`` or ``opens`` and a time in UTC, ``over``."""
    if row.window_open == "Y":
        return "open" if row.window_end is None else f"until {row.window_end}"
    opens = f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M:%S}" <= row.window_begin
    return f"opens {row.window_begin}" if opens else "over"


def subscriber(admin: GatewayAdmin, name: str) -> str:
    """The name of a subscriber as it was given.

    Raises:
        NotFound: there is none of that name.
    """
    known = [each.name for each in admin.list_subscribers()]
    return _known("subscriber", name, known)


def schedule(admin: GatewayAdmin, name: str) -> str:
    """The name of a schedule as it was given.

    Raises:
        NotFound: there is none of that name.
    """
    return _known("schedule", name, [each.name for each in admin.list_schedules()])


def options_of(row: SubscriberRow, link_types: Mapping[str, str]) -> dict[str, Any]:
    """Options of a subscriber under their documented names, as values of their types; ``link_types``: type by link."""
    links = [end.rpartition("@")[2] for end in (row.queue_name, row.destination) if "@" in end]
    return job_options(json.loads(row.options), link_types.get(links[0]) if links else None)


def _row(kind: str, name: str, rows: Mapping[str, _Row]) -> _Row:
    found = rows.get(key(name))
    if found is None:
        raise NotFound(kind, name, list(rows))
    return found


def _known(kind: str, name: str, known: list[str]) -> str:
    for each in known:
        if key(each) == key(name):
            return each
    raise NotFound(kind, name, known)
