"""What is done with a queue as a whole: its subscribers, purge, start and stop."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import AfterValidator, BaseModel, Field

from mgw.gateway.http.access import Administrator, Operator, Viewer
from mgw.gateway.http.problems import Problem
from mgw.gateway.http.rest.answers import HubOf, StrictModel
from mgw.gateway.http.rest.given import QueuePath, Word, storable
from mgw.gateway.http.rest.moments import moment
from mgw.gateway.services import queues
from mgw.gateway.services.options import subscriber_view
from mgw.gateway.services.queues import Reading

__all__ = ["router"]

router = APIRouter(prefix="/queues/{queue}", tags=["queues"])

SubscriberPath = Annotated[
    str, Path(alias="subscriber", max_length=300, description="Name of a subscriber."), AfterValidator(storable)
]
Wait = Annotated[float, Field(ge=0, le=10, description="Seconds to wait for the transactions that are in the way.")]


class Lag(BaseModel):
    """What waits for a subscriber."""

    ready: int = Field(description="Messages that it can take.")
    waiting: int = Field(description="Messages whose delay is not over.")
    claimed: int = Field(description="Messages that sessions and jobs hold for it.")
    oldest: datetime | None = Field(description="When the message that comes next was enqueued.")


class SubscriberModel(BaseModel):
    """A subscriber of a queue."""

    name: str | None = Field(description="Its name.")
    address: str | None = Field(description="A queue elsewhere that gets the messages; null: a consumer of this queue.")
    rule: str | None = Field(description="It gets the messages for which this is true; null: all.")
    transformation: str | None = Field(description="Its messages go through this one when they are dequeued.")
    options: dict[str, Any] = Field(description="Options of subscribers.")
    lag: Lag | None = Field(description="What waits for it; null where it has an address.")


class NewSubscriber(StrictModel):
    """A subscriber that is to be made."""

    name: Word = Field(min_length=1, max_length=128, description="Its name.")
    rule: Word | None = Field(default=None, description="A condition on the message; default: all messages.")
    transformation: Word | None = Field(
        default=None, max_length=300, description="Its messages go through this one when they are dequeued."
    )
    options: dict[Word, Word] = Field(
        default_factory=dict, max_length=100, description="Options of subscribers: `age_warning`."
    )


class PurgeWanted(StrictModel):
    """Which messages are to be removed."""

    condition: Word | None = Field(
        default=None,
        description="Over the columns of the view `AQ$<queue table>`: `qtview.msg_state = 'EXPIRED' AND "
        "qtview.retry_count > 3`; `qtview.user_data` is the body.",
    )
    all: bool = Field(default=False, description="All messages of the queue; needed where no condition is given.")
    dry_run: bool = Field(default=False, description="Only say how many they are.")
    wait: Wait = 0


class Purged(BaseModel):
    """What was removed, or would be."""

    messages: int = Field(description="Messages that are gone altogether; with a dry run, of which anything would go.")
    entries: int = Field(description="Of multi-consumer messages: one for each consumer that has lost its own.")
    dry_run: bool = Field(description="Nothing was removed.")


class Directions(StrictModel):
    """Which directions of the queue are meant."""

    enqueue: bool = Field(default=True, description="Putting messages into it.")
    dequeue: bool = Field(default=True, description="Taking messages out of it.")


class Stopping(Directions):
    """Which directions of the queue are meant."""

    wait: Wait = 5


class Switched(BaseModel):
    """Whether messages can be put into the queue, and taken out of it."""

    queue: str = Field(description="The queue.")
    enqueue: bool = Field(description="Messages can be put into it.")
    dequeue: bool = Field(description="Messages can be taken out of it.")


class Unsubscribed(BaseModel):
    """What went with a subscriber."""

    messages: int = Field(description="Messages that waited for it.")


def _shown(found: Reading) -> SubscriberModel:
    view = subscriber_view(found.subscriber)
    held = found.held
    lag = None
    if held is not None:
        lag = Lag(ready=held.ready, waiting=held.waiting, claimed=held.claimed, oldest=moment(held.oldest))
    names = ("name", "address", "rule", "transformation", "options")
    return SubscriberModel(**{name: view[name] for name in names}, lag=lag)


@router.get("/subscribers")
def list_subscribers(queue: QueuePath, hub: HubOf, _: Viewer) -> list[SubscriberModel]:
    """The subscribers of a multi-consumer queue, with their rules and what waits for them."""
    return [_shown(each) for each in queues.readers(hub, queue)]


@router.post("/subscribers", status_code=201)
def add_subscriber(queue: QueuePath, given: NewSubscriber, hub: HubOf, _: Administrator) -> SubscriberModel:
    """Subscribe; the subscriber gets what is enqueued from now on."""
    made = queues.add_subscriber(
        hub, queue, given.name, rule=given.rule, transformation=given.transformation, options=given.options
    )
    return _shown(made)


@router.delete("/subscribers/{subscriber}")
def remove_subscriber(
    queue: QueuePath,
    subscriber: SubscriberPath,
    hub: HubOf,
    who: Administrator,
    force: Annotated[bool, Query(description="Also if messages wait for it; they wait for it no more.")] = False,
) -> Unsubscribed:
    """End a subscription. 409: messages wait for it, or it belongs to a job."""
    return Unsubscribed(messages=queues.remove_subscriber(hub, queue, subscriber, force=force, by=who.name).messages)


@router.post("/purge")
def purge_queue(queue: QueuePath, given: PurgeWanted, hub: HubOf, who: Operator) -> Purged:
    """Remove messages for good; the audit keeps who did it and with which condition. 409: others hold some of them."""
    if given.all is (given.condition is not None):
        raise Problem(422, "give either a condition or all: true", "with dry_run: true you see how many they are")
    done = queues.purge_queue(hub, queue, given.condition, dry=given.dry_run, wait=given.wait, by=who.name)
    return Purged(messages=done.messages, entries=done.entries, dry_run=given.dry_run)


@router.post("/start")
def start_queue(queue: QueuePath, hub: HubOf, _: Operator, given: Directions | None = None) -> Switched:
    """Start a queue, in both directions unless it is an exception queue."""
    wanted = given or Directions()
    return _switched(queues.switch_queue(hub, queue, on=True, enqueue=wanted.enqueue, dequeue=wanted.dequeue))


@router.post("/stop")
def stop_queue(queue: QueuePath, hub: HubOf, _: Operator, given: Stopping | None = None) -> Switched:
    """Stop a queue when the transactions on it have ended. 409: they have not in time; nothing is changed."""
    wanted = given or Stopping()
    found = queues.switch_queue(hub, queue, on=False, enqueue=wanted.enqueue, dequeue=wanted.dequeue, wait=wanted.wait)
    return _switched(found)


def _switched(found: queues.QueueInfo) -> Switched:
    return Switched(queue=found.full_name, enqueue=found.enqueue_enabled, dequeue=found.dequeue_enabled)
