"""Forms that a page sends, and where a browser goes afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated
from urllib.parse import parse_qsl, urlencode

from fastapi import Depends, Request
from fastapi.responses import RedirectResponse, Response

from mgw.gateway.http.problems import Problem

__all__ = ["SAID", "Form", "done", "said"]

_MOST = 200  # fields

#: What a page says after something was done; an address names one of these, and never the words.
SAID: Mapping[str, str] = {
    "paused": "Paused. What comes meanwhile waits.",
    "resumed": "Resumed: it goes on as soon as its agent has seen it.",
    "restarted": "It drains its batches in flight, and connects again.",
    "reset": "Its failures are forgotten, and it is tried at once.",
    "drained": "Drained: nothing waited for it any more, and it is paused.",
    "drained-some": "Paused, and not all of what waited is through: see how many still wait.",
    "released": "The first message of each key is tried now.",
    "given-up": "The first message of the key goes to the exception queue; those behind it follow.",
    "edited": "The message was changed. It has another id now.",
    "enqueued": "The message is in the queue.",
    "made": "It is in force: agents see it within a second.",
    "removed": "It is removed.",
    "rolled-back": "Everything is as it was then: agents see it within a second.",
    "removing": "It is marked for removal, and goes as soon as its agent has finished what is in flight.",
    "reconnected": "Its jobs drain, and connect again.",
}


async def _form(request: Request) -> Mapping[str, str]:
    """The fields of a form.

    Raises:
        Problem: it is not the form of a page.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in ("", "application/x-www-form-urlencoded"):
        raise Problem(400, "the body is not a form", "use the page")
    try:
        pairs = parse_qsl(
            (await request.body()).decode(), keep_blank_values=True, max_num_fields=_MOST, errors="strict"
        )
    except ValueError as error:
        raise Problem(400, "the form cannot be read", "use the page", cause=str(error)[:200]) from None
    return dict(pairs)


Form = Annotated[Mapping[str, str], Depends(_form)]


def done(path: str, word: str = "", **more: str) -> Response:
    """Go to a page that tells what was done."""
    values = ({"said": word} if word else {}) | more
    return RedirectResponse(f"{path}?{urlencode(values)}" if values else path, 303)


def said(word: str) -> str:
    """The words for what was done; nothing for what an address only claims."""
    return SAID.get(word, "")
