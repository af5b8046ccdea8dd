"""Subscribers and schedules of the old style (AQ guide 12.2 §19.6): two halves of a job, each made by itself."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from mgw.gateway.http.access import Administrator, Operator, Viewer
from mgw.gateway.http.rest.answers import AdminOf, HubOf, StrictModel
from mgw.gateway.http.rest.given import Word
from mgw.gateway.http.rest.old_style_models import Removed, ScheduleModel, SubscriberHalf
from mgw.gateway.http.slashes import NAME
from mgw.gateway.services import old_style
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.attributes import JOB_ATTRIBUTES, meaning

__all__ = ["schedules", "subscribers"]

subscribers = APIRouter(prefix="/subscribers", tags=["subscribers and schedules"])
schedules = APIRouter(prefix="/schedules", tags=["subscribers and schedules"])

Name = Annotated[Word, Field(min_length=1, max_length=128, description="Its name.")]
Type = Annotated[
    Literal["INBOUND", "OUTBOUND", "inbound", "outbound"],
    Field(description="From a messaging system into the hub, or from the hub to a messaging system."),
]
Latency = Annotated[float | None, Field(ge=0.1, le=60, description=meaning(JOB_ATTRIBUTES["poll_interval"]))]


def _text(attribute: str) -> Any:
    return Field(default=None, description=meaning(JOB_ATTRIBUTES[attribute]))


def _end(attribute: str) -> Any:
    return Field(min_length=1, max_length=1024, description=meaning(JOB_ATTRIBUTES[attribute]))


class SubscriberChange(StrictModel):
    """What may be altered of a subscriber: a member that is left out stays, null removes it."""

    rule: Word | None = _text("rule")
    transformation: Word | None = _text("transformation")
    exception_queue: Word | None = _text("exception_queue")
    options: dict[Word, Word | None] | None = Field(
        default=None, max_length=100, description="Options of its job, merged one by one; null removes one."
    )


class NewSubscriberHalf(SubscriberChange):
    """A subscriber that is to be made."""

    name: Name
    type: Type
    source: Word = _end("source")
    destination: Word = _end("destination")


class NewSchedule(StrictModel):
    """A schedule that is to be made."""

    name: Name
    type: Type
    source: Word = _end("source")
    destination: Word = _end("destination")
    latency: Latency = None


class ScheduleChange(StrictModel):
    """What is altered of a schedule: the latency. Left out, it is the default again, as with the procedure."""

    latency: Latency = None


def _subscriber(admin: GatewayAdmin, name: str) -> SubscriberHalf:
    name = old_style.subscriber(admin, name)
    types = admin.link_types()
    row = old_style.subscriber_row(admin.hub, name)
    return SubscriberHalf.of(row, old_style.options_of(row, types))


def _schedule(admin: GatewayAdmin, name: str) -> ScheduleModel:
    name = old_style.schedule(admin, name)
    return ScheduleModel.of(old_style.schedule_row(admin.hub, name))


@subscribers.get("")
def list_job_subscribers(admin: AdminOf, _: Viewer) -> list[SubscriberHalf]:
    """The subscriber of every job, and those without a schedule, by name."""
    types = admin.link_types()
    return [SubscriberHalf.of(row, old_style.options_of(row, types)) for row in old_style.subscribers(admin.hub)]


@subscribers.post("", status_code=201)
def add_job_subscriber(given: NewSubscriberHalf, admin: AdminOf, _: Administrator) -> SubscriberHalf:
    """Add a subscriber, which collects from now on. With a schedule of the same type, source and destination it is a
    job."""
    admin.add_subscriber(
        given.name,
        given.type,
        given.source,
        given.destination,
        given.rule,
        given.transformation,
        given.exception_queue,
        given.options,
    )
    return _subscriber(admin, given.name)


@subscribers.get(f"/{NAME}")
def show_job_subscriber(name: str, admin: AdminOf, _: Viewer) -> SubscriberHalf:
    """One subscriber."""
    return _subscriber(admin, name)


@subscribers.patch(f"/{NAME}")
def alter_job_subscriber(name: str, given: SubscriberChange, admin: AdminOf, _: Administrator) -> SubscriberHalf:
    """Alter a subscriber of the old style, at once. 409: it belongs to a job of the new style."""
    found = old_style.subscriber(admin, name)
    texts = {each: getattr(given, each) for each in given.model_fields_set - {"options"}}
    admin.alter_subscriber(found, options=given.options, **texts)
    return _subscriber(admin, found)


@subscribers.post(f"/{NAME}/reset", status_code=202)
def reset_job_subscriber(name: str, admin: AdminOf, _: Operator) -> SubscriberHalf:
    """Forget the failures of a subscriber, and have its job tried at once."""
    found = old_style.subscriber(admin, name)
    admin.reset_subscriber(found)
    return _subscriber(admin, found)


@subscribers.delete(f"/{NAME}")
def remove_job_subscriber(
    name: str,
    admin: AdminOf,
    _: Administrator,
    force: Annotated[bool, Query(description="At once, with its messages in the hub.")] = False,
    move_to: Annotated[str | None, Query(max_length=300, description="Queue that its messages go to first.")] = None,
) -> Removed:
    """Remove a subscriber of the old style; its schedule stays. 409: messages wait for it."""
    gone = admin.remove_subscriber(old_style.subscriber(admin, name), force, move_to=move_to)
    return Removed(removed=gone)


@schedules.get("")
def list_schedules(hub: HubOf, _: Viewer) -> list[ScheduleModel]:
    """The schedule of every job, and those without a subscriber, by name."""
    return [ScheduleModel.of(row) for row in old_style.schedules(hub)]


@schedules.post("", status_code=201)
def add_schedule(given: NewSchedule, admin: AdminOf, _: Administrator) -> ScheduleModel:
    """Schedule propagation: messages move from now on if there is a subscriber of the same type, source and
    destination."""
    admin.schedule_propagation(given.name, given.type, given.source, given.destination, latency=given.latency)
    return _schedule(admin, given.name)


@schedules.get(f"/{NAME}")
def show_schedule(name: str, admin: AdminOf, _: Viewer) -> ScheduleModel:
    """One schedule."""
    return _schedule(admin, name)


@schedules.patch(f"/{NAME}")
def alter_schedule(name: str, given: ScheduleChange, admin: AdminOf, _: Administrator) -> ScheduleModel:
    """Set the latency of a schedule of the old style, at once. 409: it belongs to a job of the new style."""
    found = old_style.schedule(admin, name)
    admin.alter_propagation_schedule(found, latency=given.latency)
    return _schedule(admin, found)


@schedules.post(f"/{NAME}/enable", status_code=202)
def enable_schedule(name: str, admin: AdminOf, _: Operator) -> ScheduleModel:
    """Let the job of a schedule move messages."""
    found = old_style.schedule(admin, name)
    admin.enable_propagation_schedule(found)
    return _schedule(admin, found)


@schedules.post(f"/{NAME}/disable", status_code=202)
def disable_schedule(name: str, admin: AdminOf, _: Operator) -> ScheduleModel:
    """Stop the job of a schedule; its subscription keeps collecting."""
    found = old_style.schedule(admin, name)
    admin.disable_propagation_schedule(found)
    return _schedule(admin, found)


@schedules.delete(f"/{NAME}", status_code=204)
def remove_schedule(name: str, admin: AdminOf, _: Administrator) -> None:
    """Remove a schedule of the old style at once; its subscriber stays and collects."""
    admin.unschedule_propagation(old_style.schedule(admin, name))
