"""Schedules of the older gateway (DBMS_HQADM): each makes a job."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import AfterValidator, Field

from mgw.gateway.http.access import Administrator, Viewer
from mgw.gateway.http.rest.answers import AdminOf, HubOf, StrictModel
from mgw.gateway.http.rest.given import Moment, Word, storable
from mgw.gateway.http.rest.old_style_models import OutboundScheduleModel, Removed
from mgw.gateway.services import old_style
from mgw.gateway.services.attributes import OUTBOUND_SCHEDULE_ATTRIBUTES, meaning

__all__ = ["router"]

router = APIRouter(prefix="/outbound-schedules", tags=["outbound schedules"])

MAX_SECONDS = OUTBOUND_SCHEDULE_ATTRIBUTES["duration"].maximum


def _of(attribute: str, **settings: Any) -> Any:
    return Field(description=meaning(OUTBOUND_SCHEDULE_ATTRIBUTES[attribute]), **settings)


Queue = Annotated[
    str,
    Query(max_length=300, description=meaning(OUTBOUND_SCHEDULE_ATTRIBUTES["queue_name"])),
    AfterValidator(storable),
]
Destination = Annotated[
    str,
    Query(max_length=1024, description=meaning(OUTBOUND_SCHEDULE_ATTRIBUTES["destination"])),
    AfterValidator(storable),
]
Protocol = Annotated[
    str,
    Query(max_length=40, description=meaning(OUTBOUND_SCHEDULE_ATTRIBUTES["protocol"])),
    AfterValidator(storable),
]


class NewOutboundSchedule(StrictModel):
    """A schedule that is to be made."""

    queue: Word = _of("queue_name", min_length=1, max_length=300)
    destination: Word = _of("destination", min_length=1, max_length=1024)
    protocol: Word = _of("protocol", max_length=40, default=OUTBOUND_SCHEDULE_ATTRIBUTES["protocol"].default)
    start_time: Moment | None = Field(default=None, description="When the first window opens; null: now.")
    duration: float | None = _of("duration", default=None, ge=1, le=MAX_SECONDS)
    next_time: Word | None = _of("next_time", default=None, max_length=200)
    latency: float = _of("latency", default=OUTBOUND_SCHEDULE_ATTRIBUTES["latency"].default, ge=0, le=MAX_SECONDS)


@router.get("")
def list_outbound_schedules(hub: HubOf, _: Viewer) -> list[OutboundScheduleModel]:
    """The schedules, with their windows and what waits for them."""
    return [OutboundScheduleModel.of(row) for row in old_style.outbound_schedules(hub)]


@router.post("", status_code=201)
def add_outbound_schedule(given: NewOutboundSchedule, admin: AdminOf, _: Administrator) -> OutboundScheduleModel:
    """Schedule propagation: messages of the queue move to the destination, in windows. Makes a job and its exception
    queue."""
    job = admin.hq_schedule_propagation(
        given.queue,
        given.protocol,
        given.destination,
        given.start_time,
        given.duration,
        given.next_time,
        given.latency,
    )
    return OutboundScheduleModel.of(old_style.outbound_schedule_row(admin.hub, job.name))


@router.delete("")
def remove_outbound_schedule(
    admin: AdminOf,
    _: Administrator,
    queue: Queue,
    destination: Destination,
    protocol: Protocol = "MQSERIES_OUTBOUND",
    force: Annotated[
        bool, Query(description="Delete the messages that wait for it, and those in its exception queue.")
    ] = False,
) -> Removed:
    """Remove a schedule with its job and its exception queue. 409: messages are left."""
    return Removed(removed=admin.hq_unschedule_propagation(queue, protocol, destination, force))
