"""The exception desk: what failed and why, one message and its edit, replay and discard."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from mgw.gateway.http.access import Operator, Viewer
from mgw.gateway.http.problems import Problem
from mgw.gateway.http.rest.answers import AdminOf, HubOf
from mgw.gateway.http.web.forms import Form, done, said
from mgw.gateway.http.web.rendering import BoardOf, address, name_in_path, page, wants_page
from mgw.gateway.services import lookup
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.bodies import body_view
from mgw.gateway.services.exceptions import (
    LONGEST_PLACE,
    Change,
    Desk,
    DeskRefused,
    Entry,
    NoSuchPlace,
    Outcome,
    Pace,
    Page,
    Which,
    consumers_of,
    desk_of,
    desk_states,
    patterns,
)
from mgw.gateway.services.messages import body_bytes
from mgw.transforms.errors import GatewayError, HubError
from mgw.transforms.message import Header, ValueType

__all__ = ["router"]

router = APIRouter()

_SHOWN = 200  # messages of a job in a list
_LOOKED = 5000  # messages of a job that are looked at for a page
_PIECE = 100  # messages that one request replays or discards

Text = Annotated[str, Query(max_length=4000)]


@router.get("/exceptions")
def exceptions_page(request: Request, admin: AdminOf, who: Viewer, board: BoardOf) -> Response:
    """The exception queue of every job. No messaging system is asked for it."""
    jobs = {job.name: job for job in board.latest().jobs}
    states = [(state, jobs.get(state.job.upper())) for state in desk_states(admin)]
    return page(request, "exceptions.html", who, {"desks": states})


@router.get("/exceptions/{job}")
def desk_page(  # noqa: PLR0917
    request: Request,
    job: str,
    admin: AdminOf,
    hub: HubOf,
    who: Viewer,
    reason: Text = "",
    consumer: Text = "",
    after: Annotated[str, Query(max_length=LONGEST_PLACE)] = "",
) -> Response:
    """Messages that a job could not deliver, by reason."""
    name = lookup.job(admin, job).name
    refused, queue, found = "", "", Page([])
    consumers = consumers_of(admin, name)
    consumer = consumer or next(iter(consumers), "")
    try:
        desk = desk_of(admin, name, consumer=consumer or None)
        queue = desk.queue
        look = 0 if after else _LOOKED
        found = desk.page(Which(reason=reason or None), _SHOWN, after=after or None, look=look)
    except NoSuchPlace:
        raise Problem(422, "there is no such place in the list", "begin at its first page") from None
    except HubError:
        raise
    except GatewayError as error:
        refused = "; ".join(filter(None, (error.what, error.cause, error.cure)))
    looked = [*found.entries, *found.beyond]
    values = {
        "job": name,
        "queue": queue,
        "refused": refused,
        "groups": [] if after else patterns(looked),
        "entries": found.entries,
        "more": found.more,
        "next": found.next,
        "after": after,
        "found": len(looked),
        "looked": _LOOKED,
        "reason": reason,
        "consumer": consumer,
        "consumers": consumers,
        "now": hub.clock.now(),
        "said": said(request.query_params.get("said", "")),
    }
    return page(request, "desk.html", who, values)


@router.get("/exceptions/{job}/replay")
@router.get("/exceptions/{job}/discard")
def preview_page(  # noqa: PLR0917
    request: Request,
    job: str,
    admin: AdminOf,
    who: Operator,
    reason: Text = "",
    consumer: Text = "",
    id: Text = "",  # noqa: A002
) -> Response:
    """What a replay, or a discard, would do."""
    verb = request.url.path.rpartition("/")[2]
    name = lookup.job(admin, job).name
    desk = desk_of(admin, name, consumer=consumer or None)
    outcome = _act(desk, verb, _which(reason, id), by=who.name, limit=None, dry=True)
    values = {
        "job": name,
        "verb": verb,
        "desk": desk,
        "outcome": outcome,
        "reason": reason,
        "consumer": consumer,
        "id": id,
        "piece": _PIECE,
    }
    return page(request, "desk-verb.html", who, values)


@router.post("/exceptions/{job}/replay")
@router.post("/exceptions/{job}/discard")
def do_page(request: Request, job: str, given: Form, admin: AdminOf, who: Operator) -> Response:
    """Replay or discard a piece of what is meant; a page asks again until nothing is left."""
    verb = request.url.path.rpartition("/")[2]
    name = lookup.job(admin, job).name
    which = _which(given.get("reason", ""), given.get("id", ""))
    consumer = given.get("consumer", "")
    desk = desk_of(admin, name, consumer=consumer or None)
    outcome = _act(desk, verb, which, by=who.name, limit=_PIECE, dry=False)
    if wants_page(request):
        reason = "" if given.get("id") else given.get("reason", "")
        return done(address(f"/exceptions/{name_in_path(name)}", reason=reason, consumer=consumer))
    return JSONResponse({**outcome.numbers, "stopped": outcome.stopped})


@router.get("/exceptions/{job}/{message}")
def entry_page(  # noqa: PLR0917
    request: Request,
    job: str,
    message: str,
    admin: AdminOf,
    hub: HubOf,
    who: Viewer,
    form: Annotated[str, Query(max_length=10)] = "",
    consumer: Text = "",
) -> Response:
    """A message with its reason."""
    name = lookup.job(admin, job).name
    entry = _entry(admin, name, message, consumer)
    return page(
        request,
        "exception.html",
        who,
        _of(entry, hub.clock.now(), form)
        | {
            "job": name,
            "consumer": consumer,
            "said": said(request.query_params.get("said", "")),
        },
    )


@router.post("/exceptions/{job}/{message}/compare")
def compare_page(  # noqa: PLR0917
    request: Request, job: str, message: str, given: Form, admin: AdminOf, hub: HubOf, who: Operator
) -> Response:
    """What an edit would change, before it is made."""
    name = lookup.job(admin, job).name
    entry = _entry(admin, name, message, given.get("consumer", ""))
    change = _change(entry, given)
    before, after = _lines(body_bytes(entry.message.body)), _lines(body_bytes(change.apply(entry.message).body))
    values = {
        "job": name,
        "entry": entry,
        "consumer": given.get("consumer", ""),
        "told": change.told(),
        "lines": list(_differences(before, after)),
    }
    return page(request, "exception-compare.html", who, values | {"given": given, "now": hub.clock.now()})


@router.post("/exceptions/{job}/{message}/edit")
def edit(job: str, message: str, given: Form, admin: AdminOf, who: Operator) -> Response:
    """Change a message."""
    name = lookup.job(admin, job).name
    consumer = given.get("consumer", "")
    entry = _entry(admin, name, message, consumer)
    edited = desk_of(admin, name, consumer=consumer or None).edit(message, _change(entry, given), by=who.name)
    more = {"consumer": consumer} if consumer else {}
    return done(f"/exceptions/{name_in_path(name)}/{name_in_path(edited.id)}", "edited", **more)


def _which(reason: str, entry_id: str) -> Which:
    return Which(ids=(entry_id,) if entry_id else (), reason=reason or None)


def _act(desk: Desk, verb: str, which: Which, *, by: str, limit: int | None, dry: bool) -> Outcome:
    act = desk.replay if verb == "replay" else desk.discard
    return act(which, by=by, limit=limit, pace=Pace(None), dry=dry)


def _entry(admin: GatewayAdmin, job: str, message: str, consumer: str) -> Entry:
    found = next(iter(desk_of(admin, job, consumer=consumer or None).entries(Which(ids=(message,)), 1)), None)
    if found is None:
        raise Problem(
            404,
            f"message {message!r:.80} is not in the exception queue of job {job}",
            "see which are there",
            cause="somebody replayed, edited or discarded it",
        )
    return found


def _of(entry: Entry, now: float, form: str) -> dict[str, Any]:
    view = body_view(entry.message.body)
    shown = [header for header in entry.message.headers if not header.name.startswith("MGW_error")]
    chosen = form if form in view.forms else view.forms[0]
    editable = view.text is not None and not view.cut and isinstance(entry.message.body, str | bytes)
    return {"entry": entry, "view": view, "form": chosen, "headers": shown, "editable": editable, "now": now}


def _change(entry: Entry, given: Mapping[str, str]) -> Change:
    """What the form asks for: only what differs from the message.

    Raises:
        DeskRefused: nothing differs.
    """
    old = body_bytes(entry.message.body)
    body: bytes | None = None
    if "body" in given:
        text = given["body"].replace("\r\n", "\n")
        if b"\r\n" in old:  # a form has line ends of its own; the message keeps what it has
            text = text.replace("\n", "\r\n")
        body = text.encode("utf-8", "surrogatepass")
    put: list[Header] = []
    remove: list[str] = []
    if given.get("header"):
        name, value = given["header"], given.get("value", "")
        put = [Header(name, ValueType.TEXT, value)] if value else []
        remove = [] if value else [name]
    correlation = given.get("correlation")
    if correlation == (entry.message.correlation or ""):
        correlation = None
    change = Change(None if body == old else body, put, remove, correlation)
    if change == Change():
        raise DeskRefused(
            "nothing is changed", cause="the form is as the message was", cure="change the body or a header"
        )
    return change


def _lines(body: bytes) -> list[str]:
    return body.decode("utf-8", "backslashreplace").splitlines()


def _differences(before: list[str], after: list[str]) -> Iterator[tuple[str, str]]:
    kinds = {"-": "gone", "+": "come", " ": "same"}
    if len(before) + len(after) > 4000:  # comparing takes the square of that
        yield "same", f"{len(before)} lines before, {len(after)} lines after"
        return
    for line in difflib.ndiff(before, after):
        if line[0] in kinds:
            yield kinds[line[0]], line[2:]
