"""Dequeue: messages are taken with one request, and acknowledged or released with another."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from mgw.gateway.http.access import Operator
from mgw.gateway.http.rest.answers import HubOf, StrictModel
from mgw.gateway.http.rest.exact import exactly
from mgw.gateway.http.rest.given import QueuePath, Word, message_id
from mgw.gateway.http.rest.message_models import MessageModel, message_model
from mgw.gateway.http.rest.moments import moment
from mgw.gateway.services.takings import SECONDS, Asked, Taking, Takings

__all__ = ["router"]

router = APIRouter(prefix="/queues/{queue}", tags=["messages"])

_LOOK_SECONDS = 1.0  # a waiting request looks that often, should a wake-up get lost
_WHOLE = 1 << 62  # bytes of a body: it is not cut


class Wanted(StrictModel):
    """What is to be dequeued."""

    consumer: Word | None = Field(default=None, max_length=128, description="Subscriber (multi-consumer queues).")
    count: int = Field(default=1, ge=1, le=1000, description="Maximum number of messages.")
    wait: float = Field(default=0, ge=0, le=10, description="Seconds to wait for the first message.")
    correlation: Word | None = Field(
        default=None, max_length=128, description="Only this correlation; `%` and `_` are wildcards."
    )
    condition: Word | None = Field(default=None, description="Only messages for which this is true (rule language).")
    id: str | None = Field(
        default=None, pattern="^(AQMSGID:)?[0-9A-Fa-f]{32}$", description="This message; needed on exception queues."
    )
    mode: Literal["remove", "browse"] = Field(default="remove", description="`browse`: they stay where they are.")
    acknowledge: bool = Field(
        default=False,
        description="The messages are removed before they are answered with. That is at most once: if the answer is "
        "lost on its way, so are they. Without it they are removed by the second request, `/acknowledge`.",
    )


class TakenMessages(BaseModel):
    """Messages that were dequeued."""

    messages: list[MessageModel] = Field(description="Empty: there was none.")
    token: str | None = Field(
        description="To be sent to `/acknowledge` or `/release`; null where there is nothing to end. It is of use to "
        "the user who dequeued, on this queue, once."
    )
    until: datetime | None = Field(description="When the messages are given back by themselves.")

    def model_dump(self, **_: Any) -> dict[str, Any]:
        """With the names of the interface."""
        shown = [each.model_dump() for each in self.messages]
        return {"messages": shown, "token": self.token, "until": self.until}


class TokenGiven(StrictModel):
    """The token of messages that were dequeued."""

    token: str = Field(min_length=1, max_length=200, pattern="^[A-Za-z0-9_-]+$", description="As `/dequeue` gave it.")


class Ended(BaseModel):
    """How many messages a token stood for."""

    messages: int = Field(description="How many they were.")


@router.post("/dequeue", response_model=TakenMessages)
async def dequeue_messages(queue: QueuePath, given: Wanted, hub: HubOf, who: Operator, request: Request) -> Response:
    """Take messages. They are nobody else's until the token is acknowledged, which removes them, or released; after
    60 s without either, or when the process of the gateway ends, they are given back. Each time messages come back
    counts as a failed attempt of theirs; after `max_retries` of the queue they move to its exception queue.

    While it waits for a message, the request holds no thread of the server."""
    takings: Takings = request.app.state.takings
    asked = Asked(
        count=given.count,
        consumer=given.consumer,
        correlation=given.correlation,
        condition=given.condition,
        msgid=None if given.id is None else message_id(given.id),
        keep=not given.acknowledge,
        browse=given.mode == "browse",
    )
    with takings.room(who.name, asked):
        taking = await _taken(takings, who.name, queue, asked, given.wait, request)
    found = () if taking is None else taking.messages
    token = None if taking is None else taking.token or None
    return exactly(
        TakenMessages(
            messages=[message_model(each.msgid, each.message, each.state.name, _WHOLE) for each in found],
            token=token,
            until=None if token is None else moment(hub.clock.now() + SECONDS),
        )
    )


async def _taken(  # noqa: PLR0917
    takings: Takings, who: str, queue: str, asked: Asked, wait: float, request: Request
) -> Taking | None:
    """What is there within ``wait`` seconds."""
    taking = await run_in_threadpool(takings.take, who, queue, asked)
    if taking is not None or not wait:
        return taking
    loop, woken = asyncio.get_running_loop(), asyncio.Event()
    end = loop.time() + wait

    def wake() -> None:
        loop.call_soon_threadsafe(woken.set)

    unsubscribe = await run_in_threadpool(takings.watch, queue, wake)
    try:
        while not await request.is_disconnected():
            woken.clear()
            taking = await run_in_threadpool(takings.take, who, queue, asked)
            left = end - loop.time()
            if taking is not None or left <= 0:
                return taking
            try:
                async with asyncio.timeout(min(left, _LOOK_SECONDS)):
                    await woken.wait()
            except TimeoutError:
                pass
        return None
    finally:
        unsubscribe()


@router.post("/acknowledge")
def acknowledge_messages(queue: QueuePath, given: TokenGiven, _: HubOf, who: Operator, request: Request) -> Ended:
    """Remove messages that were dequeued, for good. 409: the token was used, or its time is over."""
    takings: Takings = request.app.state.takings
    return Ended(messages=takings.acknowledge(who.name, queue, given.token))


@router.post("/release")
def release_messages(queue: QueuePath, given: TokenGiven, _: HubOf, who: Operator, request: Request) -> Ended:
    """Give messages that were dequeued back to their queue. Each counts a failed attempt."""
    takings: Takings = request.app.state.takings
    return Ended(messages=takings.release(who.name, queue, given.token))
