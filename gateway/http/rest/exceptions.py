"""The exception desk: messages that jobs could not deliver are looked at, edited, replayed and discarded."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from mgw.gateway.http.access import Operator, Viewer
from mgw.gateway.http.problems import Problem
from mgw.gateway.http.rest.answers import AdminOf, StrictModel
from mgw.gateway.http.rest.exact import ExactRoute, exactly
from mgw.gateway.http.rest.exception_models import (
    EditWanted,
    EntryModel,
    ExceptionModel,
    OutcomeModel,
    Selection,
    edit_of,
    entry_model,
    exception_model,
    outcome_model,
)
from mgw.gateway.http.rest.given import EntryPath, JobPath, Limit, Moment, Word, seconds
from mgw.gateway.http.rest.moments import moment
from mgw.gateway.http.rest.paging import Cursor, cursor_of, place_of
from mgw.gateway.http.rest.tasks import TaskModel, task_model
from mgw.gateway.services import exceptions
from mgw.gateway.services.exceptions import NoSuchPlace, Outcome, Pace, Which, desk_of
from mgw.gateway.services.tasks import Tasks

__all__ = ["router"]

router = APIRouter(prefix="/exceptions", tags=["exceptions"], route_class=ExactRoute)

Consumer = Annotated[
    Word | None,
    Query(max_length=128, description="Subscriber, where the exception queue is a multi-consumer queue."),
]


class GroupModel(BaseModel):
    """Messages of a job that failed for the same reason."""

    job: str = Field(description="The job that could not deliver them.")
    queue: str = Field(description="The exception queue.")
    number: int | None = Field(description="Of the error.")
    reason: str = Field(description="Without the cause, which may differ.")
    messages: int = Field(description="How many there are.")
    first: datetime | None = Field(description="When the first of them failed.")
    last: datetime | None = Field(description="When the last of them failed.")
    sample: str = Field(description="Id of the first.")


class LeftOut(BaseModel):
    """A job whose exception queue could not be read."""

    job: str = Field(description="The job.")
    reason: str = Field(description="Why.")


class GroupsModel(BaseModel):
    """The messages of all exception queues."""

    groups: list[GroupModel] = Field(description="By job, the largest first.")
    left_out: list[LeftOut] = Field(description="Jobs whose exception queue could not be read.")
    unfinished: list[str] = Field(
        description=f"Jobs with more than {exceptions.MOST} messages, of which only so many are counted."
    )


class EntryPage(BaseModel):
    """Messages of an exception queue, in the order in which they are replayed."""

    messages: list[EntryModel] = Field(description="The messages.")
    more: bool = Field(description="There are more than `limit`.")
    next: str | None = Field(
        description="`cursor` of the next page; null at the end, and where a topic has too many partitions for one."
    )


class ParkedModel(BaseModel):
    """A parked key: messages that wait behind one that cannot be delivered."""

    job: str = Field(description="The job.")
    key: str = Field(description="The value of its `park_key`.")
    state: str = Field(description="PARKED: it waits for the next attempt. TRYING: it is tried now.")
    messages: int = Field(description="How many wait, the first one included.")
    first: str = Field(description="Id of the message that cannot be delivered.")
    attempts: int = Field(description="How often it was tried.")
    number: int | None = Field(description="Of the last error.")
    reason: str = Field(description="The last error.")
    since: datetime | None = Field(description="When the key was parked.")
    next_attempt: datetime | None = Field(description="When it is tried again.")


class Keys(StrictModel):
    """Parked keys."""

    keys: list[Word] = Field(default_factory=list, max_length=1000, description="As `/parked` shows them.")
    all: bool = Field(default=False, description="All of the job; needed where no key is given.")


class SomeKeys(StrictModel):
    """Parked keys."""

    keys: list[Word] = Field(min_length=1, max_length=1000, description="As `/parked` shows them.")


class Changed(BaseModel):
    """The keys for which something was done."""

    keys: list[str] = Field(description="The keys.")


@router.get("")
def list_groups(admin: AdminOf, _: Viewer) -> GroupsModel:
    """Messages of all exception queues by job, queue and reason, with their numbers. Those on links are read there."""
    found = exceptions.grouped(admin)
    return GroupsModel(
        groups=[
            GroupModel(
                job=each.job,
                queue=each.queue,
                number=each.number,
                reason=each.reason,
                messages=each.messages,
                first=moment(each.first),
                last=moment(each.last),
                sample=each.sample,
            )
            for each in found.groups
        ],
        left_out=[LeftOut(job=job, reason=reason) for job, reason in found.left_out.items()],
        unfinished=found.unfinished,
    )


@router.get("/{job}")
def list_exceptions(
    job: JobPath,
    admin: AdminOf,
    _: Viewer,
    *,
    number: Annotated[int | None, Query(ge=-(2**31), lt=2**31, description="Only errors with this number.")] = None,
    reason: Annotated[
        Word | None, Query(description="Only errors whose text contains this; `*` and `?` are wildcards.")
    ] = None,
    since: Annotated[Moment | None, Query(description="Only failures from this moment on.")] = None,
    before: Annotated[Moment | None, Query(description="Only failures before this moment.")] = None,
    consumer: Consumer = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> EntryPage:
    """The messages in the exception queue of a job, without bodies and headers, in the order of a replay: the oldest
    failure first; in a queue of a link, the order of the queue. What is replayed, discarded or edited between two pages
    leaves no other message out; of a queue of a link some may be told again."""
    which = Which((), number, reason, seconds(since), seconds(before))
    desk = desk_of(admin, job, consumer=consumer)
    try:
        page = desk.page(which, limit, after=place_of(cursor))
    except NoSuchPlace:
        raise Problem(422, "the cursor is none of this list", "begin without a cursor") from None
    messages = [entry_model(each) for each in page.entries]
    return EntryPage(messages=messages, more=page.more, next=cursor_of(page.next))


@router.get("/{job}/parked")
def list_parked(job: JobPath, admin: AdminOf, _: Viewer) -> list[ParkedModel]:
    """The parked keys of a job: what waits behind a message that cannot be delivered, and why. The oldest first."""
    return [
        ParkedModel(
            job=each.job,
            key=each.entry.key,
            state=each.entry.state,
            messages=each.messages,
            first=each.first.upper(),
            attempts=each.entry.attempts,
            number=each.entry.error_number,
            reason=each.entry.reason,
            since=moment(each.entry.since),
            next_attempt=moment(each.entry.next_attempt),
        )
        for each in exceptions.parked_keys(admin, job)
    ]


@router.post("/{job}/parked/release")
def release_parked(job: JobPath, given: Keys, admin: AdminOf, who: Operator) -> Changed:
    """Try the first message of parked keys now; when it is delivered, those behind it follow in order."""
    exceptions.require_choice(named=bool(given.keys), everything=given.all)
    return Changed(keys=exceptions.release(admin, job, given.keys, by=who.name))


@router.post("/{job}/parked/give-up")
def give_up_parked(job: JobPath, given: SomeKeys, admin: AdminOf, who: Operator) -> Changed:
    """Move the first message of parked keys to the exception queue; those behind it follow in order."""
    return Changed(keys=exceptions.give_up(admin, job, given.keys, by=who.name))


@router.get("/{job}/{entry}", response_model=ExceptionModel)
def show_exception(job: JobPath, entry: EntryPath, admin: AdminOf, _: Viewer, consumer: Consumer = None) -> Response:
    """A message of an exception queue: reason, origin, headers and body."""
    return exactly(exception_model(exceptions.entry_of(desk_of(admin, job, consumer=consumer), job, entry)))


@router.patch("/{job}/{entry}", response_model=ExceptionModel)
def edit_exception(
    job: JobPath, entry: EntryPath, given: EditWanted, admin: AdminOf, who: Operator, *, consumer: Consumer = None
) -> Response:
    """Change a message in an exception queue before it is replayed. It gets another id. What is not named stays."""
    desk = desk_of(admin, job, consumer=consumer)
    edited = exceptions.edit(desk, job, entry, edit_of(given), by=who.name)
    return exactly(exception_model(edited))


_TASK: dict[int | str, dict[str, Any]] = {
    202: {"model": TaskModel, "description": "With a `rate`, or `task: true`: it goes on, see `/tasks/{task}`."}
}


@router.post("/{job}/replay", responses=_TASK, response_model=OutcomeModel)
def replay(job: JobPath, given: Selection, admin: AdminOf, who: Operator, request: Request) -> OutcomeModel | Response:
    """Put messages back to where they came from, oldest failure first."""
    desk = desk_of(admin, job, consumer=given.consumer, to=given.to)

    def work(pace: Pace) -> Outcome:
        return desk.replay(given.which(), by=who.name, limit=given.limit, pace=pace, dry=given.dry_run)

    return _done("replay", job, given, work, who.name, request)


@router.post("/{job}/discard", responses=_TASK, response_model=OutcomeModel)
def discard(job: JobPath, given: Selection, admin: AdminOf, who: Operator, request: Request) -> OutcomeModel | Response:
    """Remove messages for good. The audit keeps who did it and which they were."""
    desk = desk_of(admin, job, consumer=given.consumer, to=given.to)

    def work(pace: Pace) -> Outcome:
        return desk.discard(given.which(), by=who.name, limit=given.limit, pace=pace, dry=given.dry_run)

    return _done("discard", job, given, work, who.name, request)


def _done(  # noqa: PLR0917
    kind: str, job: str, given: Selection, work: Any, who: str, request: Request
) -> OutcomeModel | Response:
    exceptions.require_choice(named=not given.which().everything, everything=given.all)
    if given.dry_run or not (given.task or given.rate is not None):
        return outcome_model(work(Pace(given.rate)))
    tasks: Tasks = request.app.state.tasks
    return exactly(task_model(tasks.start(kind, job, who, given.rate, work)), 202)
