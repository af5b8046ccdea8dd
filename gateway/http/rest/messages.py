"""Messages of the hub's queues: look at them, and put new ones in."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import BaseModel, Discriminator, Field, Tag

from mgw.gateway.http import limits
from mgw.gateway.http.access import Operator, Viewer
from mgw.gateway.http.rest.answers import HubOf
from mgw.gateway.http.rest.exact import ExactRoute, exactly
from mgw.gateway.http.rest.given import (
    Condition,
    Correlation,
    Cursor,
    Limit,
    MessagePath,
    QueuePath,
    Word,
    cursor_of,
    message_id,
    whence,
)
from mgw.gateway.http.rest.message_models import (
    BODY_LIMIT,
    MessageModel,
    NewMessage,
    ReaderModel,
    StateWord,
    looked_model,
    reader_models,
)
from mgw.gateway.services import messages
from mgw.gateway.services.messages import State

__all__ = ["router"]

router = APIRouter(prefix="/queues/{queue}/messages", tags=["messages"], route_class=ExactRoute)

_LARGEST = 1000  # messages that are enqueued together
_KEYS = 4  # of a message in the order of its queue

BodyBytes = Annotated[int, Query(ge=0, le=limits.BODY_BYTES, description="Longer bodies are cut to so many bytes.")]


class MessagePage(BaseModel):
    """Messages of a queue, in the order of dequeue."""

    messages: list[MessageModel] = Field(description="The messages.")
    next: str | None = Field(description="`cursor` of the next page; null: there is none.")

    def model_dump(self, **_: Any) -> dict[str, Any]:
        """With the names of the interface."""
        return {"messages": [each.model_dump() for each in self.messages], "next": self.next}


class OneMessage(MessageModel):
    """A message, and who it is for."""

    readers: list[ReaderModel] = Field(description="Of a multi-consumer queue: the consumers that it is for.")


def _form(given: Any) -> str:
    return "several" if isinstance(given, list) else "one"


#: So that what is wrong is said of the form that was sent.
NewMessages = Annotated[
    Annotated[NewMessage, Tag("one")]
    | Annotated[list[NewMessage], Field(min_length=1, max_length=_LARGEST), Tag("several")],
    Discriminator(_form),
]


class Enqueued(BaseModel):
    """What was enqueued."""

    ids: list[str] = Field(description="Message ids, in the order of the messages.")


@router.get("", response_model=MessagePage)
def browse_messages(
    queue: QueuePath,
    hub: HubOf,
    _: Viewer,
    *,
    state: Annotated[
        StateWord | None,
        Query(description="Default: what can be dequeued (READY, SPLIT, in an exception queue EXPIRED)."),
    ] = None,
    consumer: Annotated[
        Word | None, Query(max_length=128, description="Those for this consumer (multi-consumer queues).")
    ] = None,
    correlation: Correlation = None,
    condition: Condition = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    body_bytes: BodyBytes = BODY_LIMIT,
) -> Response:
    """Messages of a queue, which stay where they are. On PostgreSQL, what somebody has taken and not committed is shown
    as it was before."""
    found = messages.look(
        hub,
        queue,
        consumer=consumer,
        state=None if state is None else State[state],
        correlation=correlation,
        condition=condition,
        after=whence(cursor, _KEYS),
        limit=limit,
    )
    shown: list[MessageModel] = []
    place: tuple[float, ...] = ()
    for each in found:
        shown.append(looked_model(each, body_bytes))
        place = each.place
    return exactly(MessagePage(messages=shown, next=cursor_of(place) if len(shown) == limit else None))


@router.post("", status_code=201)
def enqueue_messages(queue: QueuePath, given: NewMessages, hub: HubOf, _: Operator) -> Enqueued:
    """Enqueue a message, or an array of messages: all of them or none, in one transaction."""
    several = given if isinstance(given, list) else [given]
    ids = messages.put(hub, queue, [each.given() for each in several])
    return Enqueued(ids=[each.hex().upper() for each in ids])


@router.get("/{message}", response_model=OneMessage)
def show_message(
    queue: QueuePath, message: MessagePath, hub: HubOf, _: Viewer, body_bytes: BodyBytes = limits.BODY_BYTES
) -> Response:
    """A message of a queue, in whatever state it is."""
    found, readers = messages.find(hub, queue, message_id(message))
    shown = looked_model(found, body_bytes)
    return exactly(OneMessage(**dict(shown), readers=reader_models(list(readers))))
