"""A job: what it does, why it does not, and what somebody may do about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from mgw.gateway.http.access import Operator, Viewer
from mgw.gateway.http.problems import Problem
from mgw.gateway.http.rest.answers import AdminOf
from mgw.gateway.http.web.charts import WINDOWS, charts, failures, times
from mgw.gateway.http.web.forms import Form, done, said
from mgw.gateway.http.web.rendering import BoardOf, name_in_path, page
from mgw.gateway.http.web.words import counted
from mgw.gateway.services import job_verbs, lookup
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.board import Board, JobLine
from mgw.gateway.services.exception_desk import retry
from mgw.gateway.services.exceptions import give_up, release
from mgw.gateway.services.job_history import course_of
from mgw.gateway.services.job_story import job_story
from mgw.gateway.services.verdict import LEAVING

__all__ = ["router"]

router = APIRouter()

_DRAIN_SECONDS = 40.0  # a request may take 60


@dataclass(frozen=True, slots=True)
class Verb:
    """What somebody may do with a job.

    Attributes:
        told: what will happen.
        do: does it; the word of :data:`mgw.gateway.http.web.forms.SAID` for what was done.
    """

    word: str
    title: str
    told: str
    do: Callable[[GatewayAdmin, str], str]


def _paused(admin: GatewayAdmin, name: str) -> str:
    job_verbs.pause(admin, name)
    return "paused"


def _resumed(admin: GatewayAdmin, name: str) -> str:
    job_verbs.resume(admin, name)
    return "resumed"


def _restarted(admin: GatewayAdmin, name: str) -> str:
    job_verbs.restart(admin, name)
    return "restarted"


def _reset(admin: GatewayAdmin, name: str) -> str:
    retry(admin, name)
    return "reset"


def _drained(admin: GatewayAdmin, name: str) -> str:
    return "drained" if job_verbs.drain(admin, name, _DRAIN_SECONDS).empty else "drained-some"


VERBS = {
    verb.word: verb
    for verb in (
        Verb(
            "pause", "Pause", "It stops after its current batch. Nothing is lost: what comes meanwhile waits.", _paused
        ),
        Verb("resume", "Resume", "It goes on where it stopped, with everything that waits.", _resumed),
        Verb("restart", "Restart", "It completes the batches in flight, disconnects, and connects again.", _restarted),
        Verb(
            "reset",
            "Try now",
            "Its failures are forgotten, and it is tried at once. No message is skipped or sent twice for it.",
            _reset,
        ),
        Verb(
            "drain",
            "Drain",
            f"It goes on until nothing waits, for at most {_DRAIN_SECONDS:.0f} s, and is paused then in any case.",
            _drained,
        ),
    )
}


@router.get("/jobs/{name}")
def job_page(  # noqa: PLR0917
    request: Request,
    name: str,
    who: Viewer,
    board: BoardOf,
    admin: AdminOf,
    window: Annotated[str, Query(max_length=8)] = "3h",
) -> Response:
    """A job."""
    line = _line(board, admin, name)
    window = window if window in WINDOWS else "3h"
    course = course_of(admin.hub, line.name, WINDOWS[window])
    story = job_story(admin, line.name)
    errors = [event for event in story.events if event.event_level in ("WARNING", "ERROR", "CRITICAL")]
    values = {
        "job": line,
        "row": line.row,
        "story": story,
        "errors": errors,
        "course": course,
        "drawn": charts(course),
        "marks": times(course),
        "wrong": failures(course),
        "window": window,
        "windows": list(WINDOWS),
        "now": board.latest().now,
        "verbs": [VERBS[word] for word in _offered(line)],
        "said": said(request.query_params.get("said", "")),
    }
    return page(request, "job.html", who, values)


@router.get("/jobs/{name}/{verb}")
def confirm_page(  # noqa: PLR0917
    request: Request, name: str, verb: str, who: Operator, board: BoardOf, admin: AdminOf
) -> Response:
    """What a verb will do, before it is done."""
    line = _line(board, admin, name)
    meant = _verb(verb)
    values = {"job": line, "verb": meant, "waits": _waits(line)}
    return page(request, "job-verb.html", who, values)


@router.post("/jobs/{name}/parked")
def parked(name: str, given: Form, who: Operator, admin: AdminOf) -> Response:
    """Have the first message of a parked key tried now, or give it up."""
    key = given.get("key", "")
    if given.get("do") == "give-up":
        give_up(admin, name, [key], by=who.name)
        return done(f"/jobs/{name_in_path(name)}", "given-up")
    release(admin, name, [key], by=who.name)
    return done(f"/jobs/{name_in_path(name)}", "released")


@router.post("/jobs/{name}/{verb}")
def do_verb(name: str, verb: str, _: Operator, admin: AdminOf) -> Response:
    """Do it."""
    return done(f"/jobs/{name_in_path(name)}", _verb(verb).do(admin, name))


def _verb(word: str) -> Verb:
    if word not in VERBS:
        raise Problem(404, "there is no such page", f"a job can {', '.join(VERBS)}")
    return VERBS[word]


def _line(board: Board, admin: GatewayAdmin, name: str) -> JobLine:
    """The job as the board has it, which may be a moment old.

    Raises:
        NotFound: there is no job of that name.
        Problem: it was made a moment ago.
    """
    found = board.latest().job(name)
    if found is None:
        job = lookup.job(admin, name)
        raise Problem(503, f"job {job.name} was made a moment ago", "load the page again", {"Retry-After": "1"})
    return found


def _offered(line: JobLine) -> list[str]:
    if line.state in LEAVING:
        return []
    if line.row.enabled != "TRUE":
        return ["resume"]
    first = "reset" if line.row.status in ("RETRY", "FAILED") else "restart"
    return ["pause", first, "drain"]


def _waits(line: JobLine) -> str:
    if line.row.backlog is None:
        return "How many messages wait for it is not known."
    if not line.row.backlog:
        return "No message waits for it now."
    verb = "waits" if line.row.backlog == 1 else "wait"
    return f"{counted(line.row.backlog, 'message')} {verb} for it now."
