"""What happened, what administration changed, and what happens as it happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from mgw.gateway.http.access import Access, Viewer
from mgw.gateway.http.problems import Problem
from mgw.gateway.http.rest.answers import HubOf
from mgw.gateway.http.rest.given import Cursor, Limit, Moment, Word, cursor_of, seconds, whence
from mgw.gateway.http.rest.moments import moment
from mgw.gateway.services import happenings
from mgw.gateway.services.audit_words import THROUGH, values_of
from mgw.gateway.services.feed import Feed, Item, Listener
from mgw.gateway.services.happenings import Asked, Audited, Happened
from mgw.transforms.errors import GatewayError

__all__ = ["AuditModel", "audited", "router"]

router = APIRouter(tags=["events"])

CHECK_SECONDS = 10.0  # between two looks at whether the caller may listen still, and two signs of life
_LARGEST = 2**63 - 1

LevelWord = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]


class EventModel(BaseModel):
    """Something that happened."""

    id: int = Field(description="Grows with every event.")
    time: datetime = Field(description="When it happened.")
    level: LevelWord = Field(description="Its importance.")
    name: str = Field(description="The kind of event.")
    agent: str | None = Field(description="The agent that it happened in; null: in none.")
    object: str | None = Field(description="What it happened to.")
    text: str = Field(description="What happened, in words.")


class EventPage(BaseModel):
    """Events, the latest first."""

    events: list[EventModel] = Field(description="The events.")
    next: str | None = Field(description="`cursor` of the next page, which is of earlier ones; null: there is none.")


class AuditModel(BaseModel):
    """Something that administration changed."""

    id: int = Field(description="Grows with every change.")
    time: datetime = Field(description="When it was changed.")
    actor: str = Field(description="Who did it.")
    through: str | None = Field(description=THROUGH)
    action: str = Field(description="`create link`, `alter job`, `purge`, `drop queue` and others.")
    kind: str | None = Field(description="Kind of the object; null: it has no definition.")
    object: str = Field(description="What was changed.")
    before: dict[str, Any] | None = Field(description="Its definition before; secrets are named, never shown.")
    after: dict[str, Any] | None = Field(description="Its definition after; null: it is removed, or the same.")
    generation: int | None = Field(description="The generation that it is part of; null: no definition was changed.")
    version: int | None = Field(description="`mgw_config_generation` with this change; null: it has no part in that.")
    result: str | None = Field(
        description="Of an apply, rollback, replay or discard of several steps, in its last entry: what it came to."
    )
    held: int = Field(description="Messages that were in what was removed.")
    oldest: datetime | None = Field(description="When the oldest of them was enqueued.")
    moved_to: str | None = Field(description="The queue that got them; null: they were deleted.")


class AuditPage(BaseModel):
    """What administration changed, the latest first."""

    entries: list[AuditModel] = Field(description="The changes.")
    next: str | None = Field(description="`cursor` of the next page, which is of earlier ones; null: there is none.")


def _event(each: Happened) -> EventModel:
    return EventModel(
        id=each.id,
        time=moment(each.time),
        level=each.level,  # type: ignore[arg-type]
        name=each.name,
        agent=each.agent,
        object=each.object,
        text=each.text,
    )


def audited(each: Audited) -> AuditModel:
    """An entry of the audit."""
    return AuditModel(**values_of(each, moment))


def _before(cursor: str | None) -> int | None:
    place = whence(cursor, 1)
    return int(place[0]) if place else None


@router.get("/events")
def list_events(
    hub: HubOf,
    _: Viewer,
    *,
    since: Annotated[Moment | None, Query(description="From this moment on.")] = None,
    level: Annotated[LevelWord | None, Query(description="Of this importance at least.")] = None,
    object: Annotated[Word | None, Query(max_length=400, description="Of this object.")] = None,  # noqa: A002
    agent: Annotated[Word | None, Query(max_length=128, description="Of this agent.")] = None,
    name: Annotated[Word | None, Query(max_length=128, description="Of this kind: `JobRetrying`.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> EventPage:
    """What happened, the latest first. Events are kept for 14 days (agent option `event_retention`)."""
    found = happenings.events(hub, Asked(seconds(since), level, object, agent, name, _before(cursor)), limit)
    following = cursor_of([found[-1].id]) if len(found) == limit else None
    return EventPage(events=[_event(each) for each in found], next=following)


@router.get("/audit")
def list_audit(
    hub: HubOf,
    _: Viewer,
    *,
    since: Annotated[Moment | None, Query(description="From this moment on.")] = None,
    object: Annotated[Word | None, Query(max_length=400, description="Of this object.")] = None,  # noqa: A002
    limit: Limit = 100,
    cursor: Cursor = None,
) -> AuditPage:
    """What administration changed: who did it, through what, the definition before and after, and what happened to the
    messages of what was removed. The latest first."""
    found = happenings.audit(hub, limit, since=seconds(since), before=_before(cursor), name=object)
    following = cursor_of([found[-1].id]) if len(found) == limit else None
    return AuditPage(entries=[audited(each) for each in found], next=following)


class _Stream(StreamingResponse):
    """Server-sent events, until the caller goes, is too slow, or may listen no more, or the server ends."""

    media_type = "text/event-stream"

    def __init__(self, feed: Feed, listener: Listener, woken: asyncio.Event, request: Request) -> None:
        self._feed, self._listener, self._woken, self._request = feed, listener, woken, request
        super().__init__(self._told(), headers={"x-accel-buffering": "no"})

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        """See Starlette."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._feed.leave(self._listener)

    async def _told(self) -> AsyncIterator[str]:
        loop = asyncio.get_running_loop()
        checked = loop.time()
        yield "retry: 2000\n\n"
        while not (self._listener.slow or self._listener.ended):
            self._woken.clear()
            items = await self._taken()
            for item in items:
                yield _written(item)
            now = loop.time()
            if now - checked >= CHECK_SECONDS:
                if not await run_in_threadpool(self._allowed):
                    return
                checked = now
                yield ": still here\n\n"
            if items and self._listener.reads_back:
                continue
            try:
                async with asyncio.timeout(max(0.0, checked + CHECK_SECONDS - loop.time())):
                    await self._woken.wait()
            except TimeoutError:
                pass

    async def _taken(self) -> list[Item]:
        try:
            return await run_in_threadpool(self._listener.take) if self._listener.reads_back else self._listener.take()
        except GatewayError:  # the hub is away; it is tried again
            return []

    def _allowed(self) -> bool:
        access: Access = self._request.app.state.access
        try:
            access.identify(self._request)
        except Problem:
            return False
        except GatewayError:  # the hub is away
            return True
        return True


def _written(item: Item) -> str:
    identity = "" if item.id is None else f"id: {item.id}\n"
    return f"event: {item.kind}\n{identity}data: {item.data}\n\n"


@router.get(
    "/events/stream",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Server-sent events: `job` and `link` (their states, at first all, then those that change), "
            "`event` (with an id), `metrics` (counters of all jobs, about every second).",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        }
    },
)
async def stream_events(
    request: Request,
    _: Viewer,
    *,
    type: Annotated[  # noqa: A002
        list[Literal["job", "link", "event", "metrics"]] | None,
        Query(max_length=4, description="Only these; may be repeated."),
    ] = None,
    after: Annotated[
        int | None, Query(ge=0, le=_LARGEST, description="Events after this id, instead of Last-Event-ID.")
    ] = None,
    last_event_id: Annotated[
        str | None, Header(max_length=40, description="The id of the last event that is known: it goes on after it.")
    ] = None,
) -> StreamingResponse:
    """What happens, as it happens. A stream ends when its session or token does, and when it is read too slowly. No
    more than 50 are open at the same time: 503."""
    start = after
    if start is None and last_event_id:
        if not (last_event_id.isascii() and last_event_id.isdigit()) or int(last_event_id) > _LARGEST:
            raise Problem(422, "Last-Event-ID is no id of an event", "leave it out, or send the id of one")
        start = int(last_event_id)
    feed: Feed = request.app.state.feed
    loop, woken = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(woken.set)

    listener = await run_in_threadpool(feed.listen, type or (), wake, after=start)
    return _Stream(feed, listener, woken, request)
