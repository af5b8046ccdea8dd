"""Queues of the hub: what is in them, who reads them, and their messages."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from mgw.gateway.http.access import Operator, Viewer
from mgw.gateway.http.problems import Problem
from mgw.gateway.http.rest.answers import HubOf
from mgw.gateway.http.web.forms import Form, done, said
from mgw.gateway.http.web.rendering import BoardOf, name_in_path, page
from mgw.gateway.services import messages
from mgw.gateway.services.bodies import body_view
from mgw.gateway.services.hubs import Hub
from mgw.gateway.services.lives import life, with_origin
from mgw.gateway.services.messages import Dequeued, body_bytes
from mgw.gateway.services.queue_story import QueueStory, one_message, queue_lines, queue_story, some_messages
from mgw.transforms.errors import AqError, GatewayError

__all__ = ["router"]

router = APIRouter()

_PAGE = 200
_SHOWN = 50  # messages of a queue

Text = Annotated[str, Query(max_length=4000)]


@router.get("/queues")
def queues_page(  # noqa: PLR0917
    request: Request,
    hub: HubOf,
    who: Viewer,
    board: BoardOf,
    q: Text = "",
    at: Annotated[int, Query(ge=1, le=100_000)] = 1,
) -> Response:
    """All queues."""
    wanted = q.strip().casefold()
    found = [line for line in queue_lines(hub) if wanted in line.queue.full_name.casefold()]
    jobs: dict[str, list[str]] = {}
    for job in board.latest().jobs:
        for end in (job.row.source, job.row.destination):
            jobs.setdefault(end, []).append(job.name)
    pages = max(1, -(-len(found) // _PAGE))
    at = min(at, pages)
    shown = found[(at - 1) * _PAGE : at * _PAGE]
    values = {"lines": shown, "found": len(found), "jobs": jobs, "q": q, "at": at, "pages": pages}
    return page(request, "queues.html", who, values)


@router.get("/queues/{name:path}/messages/{msgid}/body")
def body_file(name: str, msgid: str, hub: HubOf, _: Viewer) -> Response:
    """A body byte for byte, as a file."""
    found = _message(hub, queue_story(hub, name), msgid)
    if found is None:
        raise Problem(404, f"message {msgid!r:.80} is not in queue {name}", "its page says where it is")
    headers = {"Content-Disposition": f'attachment; filename="{found.msgid.hex()}"'}
    return Response(body_bytes(found.message.body), media_type="application/octet-stream", headers=headers)


@router.get("/queues/{name:path}/messages/{msgid}")
def message_page(  # noqa: PLR0917
    request: Request,
    name: str,
    msgid: str,
    hub: HubOf,
    who: Viewer,
    form: Annotated[str, Query(max_length=10)] = "",
) -> Response:
    """A message: its body, its headers, its life."""
    story = queue_story(hub, name)
    told = life(hub, msgid)
    found = _message(hub, story, told.message)
    if found is not None and found.message.original_msgid is not None:
        told = with_origin(hub, told, found.message.original_msgid.hex())
    view = body_view(found.message.body) if found is not None else None
    values = {
        "story": story,
        "life": told,
        "found": found,
        "view": view,
        "form": form if view is not None and form in view.forms else view.forms[0] if view is not None else "",
        "now": hub.clock.now(),
        "said": said(request.query_params.get("said", "")),
    }
    return page(request, "message.html", who, values)


@router.get("/messages")
def find_page(request: Request, hub: HubOf, _: Viewer) -> Response:
    """To the page of a message, wherever it is."""
    msgid = request.query_params.get("id", "").strip()
    return RedirectResponse(f"/messages/{name_in_path(life(hub, msgid).message)}", 303)


@router.get("/messages/{msgid}")
def life_page(request: Request, msgid: str, hub: HubOf, who: Viewer) -> Response:
    """The life of a message that may have left the hub."""
    told = life(hub, msgid)
    if told.queue is not None:
        return RedirectResponse(f"/queues/{name_in_path(told.queue)}/messages/{told.message}", 303)
    values = {"story": None, "life": told, "found": None, "view": None, "form": "", "now": hub.clock.now()}
    return page(request, "message.html", who, values)


@router.post("/queues/{name:path}/enqueue")
def enqueue(name: str, given: Form, hub: HubOf, _: Operator) -> Response:
    """Put a test message into a queue."""
    ids = messages.enqueue(
        hub,
        name,
        [given.get("body", "").replace("\r\n", "\n").encode("utf-8", "surrogatepass")],
        correlation=given.get("correlation") or None,
        priority=_priority(given.get("priority") or "1"),
    )
    place = f"/queues/{name_in_path(name)}"
    return done(f"{place}/messages/{ids[0].hex()}" if ids else place, "enqueued")


def _priority(text: str) -> int:
    try:
        return int(text[:12])
    except ValueError:
        raise Problem(422, f"priority {text!r:.40} is not a whole number", "1 is the default") from None


@router.get("/queues/{name:path}")
def queue_page(  # noqa: PLR0917
    request: Request,
    name: str,
    hub: HubOf,
    who: Viewer,
    board: BoardOf,
    consumer: Text = "",
    correlation: Text = "",
    condition: Text = "",
    msgid: Text = "",
) -> Response:
    """A queue."""
    if msgid.strip():
        there = life(hub, msgid.strip()).message
        return RedirectResponse(f"/queues/{name_in_path(name)}/messages/{there}", 303)
    story = queue_story(hub, name)
    shown = _listing(hub, story, consumer, correlation, condition)
    key = f"{story.queue.schema}.{story.queue.name}".upper()
    values = {
        "story": story,
        "queue": story.queue,
        "writers": [job for job in board.latest().jobs if job.row.destination == key],
        "reading": [job for job in board.latest().jobs if job.row.source == key],
        "filters": {"consumer": consumer, "correlation": correlation, "condition": condition},
        "now": hub.clock.now(),
        "most": _SHOWN,
        "said": said(request.query_params.get("said", "")),
        **shown,
    }
    return page(request, "queue.html", who, values)


def _listing(hub: Hub, story: QueueStory, consumer: str, correlation: str, condition: str) -> dict[str, object]:
    """The messages that come next, or why they cannot be shown."""
    chosen = consumer or next(iter(story.consumers), None) if story.queue.multiple_consumers else None
    if story.queue.multiple_consumers and chosen is None:
        return {"messages": [], "whole": True, "chosen": None, "refused": ""}
    try:
        found = some_messages(
            hub,
            story.queue.full_name,
            count=_SHOWN,
            consumer=chosen,
            correlation=correlation or None,
            condition=condition or None,
        )
    except (AqError, GatewayError) as error:
        parts = (error.what, error.cause, error.cure)
        return {"messages": [], "whole": True, "chosen": chosen, "refused": "; ".join(filter(None, parts))}
    return {"messages": found.messages, "whole": found.whole, "chosen": chosen, "refused": ""}


def _message(hub: Hub, story: QueueStory, msgid: str) -> Dequeued | None:
    consumers = story.consumers if story.queue.multiple_consumers else [None]
    return one_message(hub, story.queue.full_name, msgid, consumers)
