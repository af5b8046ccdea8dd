"""Bodies whose form is not known to a model: configurations. What is in them is checked as files are."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request

from mgw.gateway.http.problems import Problem

__all__ = ["JSON_TYPES", "YAML_TYPES", "Body", "Sent", "json_of", "object_of", "text_of", "unsupported"]

JSON_TYPES = ("application/json", "application/merge-patch+json")
YAML_TYPES = ("text/yaml", "application/yaml", "application/x-yaml", "text/x-yaml")


@dataclass(frozen=True, slots=True)
class Sent:
    """What came with a request."""

    kind: str
    data: bytes


async def _sent(request: Request) -> Sent:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return Sent(kind, await request.body())


Body = Annotated[Sent, Depends(_sent)]


def json_of(sent: Sent) -> Any:
    """The JSON of a body.

    Raises:
        Problem: it says that it is something else, or is no JSON.
    """
    if sent.kind not in JSON_TYPES:
        raise unsupported(sent, JSON_TYPES)
    try:
        return json.loads(text_of(sent), parse_constant=_no_constant, object_pairs_hook=_no_double)
    except json.JSONDecodeError as error:
        cause = f"{error.msg} in line {error.lineno}, column {error.colno}"
        raise Problem(400, "the body is no JSON", "correct the JSON", cause=cause) from None
    except RecursionError:
        raise Problem(400, "the body is no JSON", "correct the JSON", cause="it is nested too deeply") from None
    except ValueError as error:
        raise Problem(400, "the body is no JSON", "correct the JSON", cause=str(error)[:200]) from None


def text_of(sent: Sent) -> str:
    """The text of a body.

    Raises:
        Problem: it is not UTF-8.
    """
    try:
        return sent.data.decode()
    except UnicodeDecodeError as error:
        raise Problem(400, "the body is not UTF-8", "send it in UTF-8", cause=f"byte {error.start} is not") from None


def object_of(sent: Sent) -> dict[str, Any]:
    """The JSON object of a body.

    Raises:
        Problem: it is something else.
    """
    value = json_of(sent)
    if not isinstance(value, dict):
        raise Problem(422, "the body is no JSON object", 'write {"key": value, ...}')
    return value


def unsupported(sent: Sent, kinds: tuple[str, ...]) -> Problem:
    """The refusal of a body that is said to be something else."""
    given = f"Content-Type is {sent.kind[:100]!r}" if sent.kind else "Content-Type is missing"
    return Problem(415, given, f"send Content-Type: {kinds[0]}", cause=f"this takes {', '.join(kinds)}")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _no_double(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        double = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"key {double[:100]!r} occurs twice")
    return found
