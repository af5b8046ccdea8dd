"""Edits of messages in exception queues as JSON has them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mgw.gateway.services.exceptions.contract import Change, Desk, DeskRefused, Entry, Which
from mgw.gateway.services.lookup import MessageNotFound
from mgw.gateway.services.message_json import Malformed, checked_text, headers_of, json_text

__all__ = ["Edit", "edit", "entry_of", "require_choice"]


@dataclass(frozen=True, slots=True)
class Edit:
    """What is to be changed; None leaves it as it is.

    Attributes:
        text, json, base64: the new body, in the form that the body has: text (JSON is text), or bytes.
        headers: by name as :func:`mgw.gateway.services.message_json.headers_of` reads them; None removes one.
        correlation: empty removes it.
    """

    text: str | None = None
    json: Any = None
    has_json: bool = False
    base64: str | None = None
    headers: Any = None
    correlation: str | None = None


def entry_of(desk: Desk, job: str, entry_id: str) -> Entry:
    """A message of an exception queue.

    Raises:
        MessageNotFound: it is not there.
        GatewayError: the queue cannot be read.
    """
    found = next(desk.entries(Which(ids=(entry_id,)), 1), None)
    if found is None:
        raise MessageNotFound(entry_id, f"the exception queue of job {job}")
    return found


def edit(desk: Desk, job: str, entry_id: str, given: Edit, *, by: str) -> Entry:
    """Change a message; what it is now.

    Raises:
        MessageNotFound: it is not there.
        Malformed: a header or the body is none, or the body has another form.
        DeskRefused: it cannot be changed so.
    """
    before = entry_of(desk, job, entry_id)
    headers = {} if given.headers is None else given.headers
    if not isinstance(headers, Mapping):
        raise Malformed("the headers are no object", cure='send {"name": value}, and null to remove one')
    put = list(headers_of("header", {name: value for name, value in headers.items() if value is not None}))
    change = Change(
        body=_body(before, given),
        put=put,
        remove=[name for name, value in headers.items() if value is None],
        correlation=given.correlation,
    )
    try:
        edited = desk.edit(before.id, change, by=by)
    except DeskRefused:
        entry_of(desk, job, entry_id)  # somebody took it meanwhile
        raise
    return next(desk.entries(Which(ids=(edited.id,)), 1), edited)


def _body(before: Entry, given: Edit) -> bytes | None:
    forms = [given.text is not None, given.has_json, given.base64 is not None]
    if not any(forms):
        return None
    if sum(forms) > 1:
        raise Malformed("the message would have several bodies", cure="give one of text, json and base64")
    is_bytes = isinstance(before.message.body, bytes)
    if is_bytes is not (given.base64 is not None):
        held, form = ("bytes", "base64") if is_bytes else ("text", "text or json")
        raise Malformed(
            f"the body of message {before.id} cannot be changed so", cause=f"it is {held}", cure=f"send it as {form}"
        )
    if given.base64 is not None:
        try:
            return base64.b64decode(given.base64, validate=True)
        except (binascii.Error, ValueError) as error:
            raise Malformed("base64 is not base64", cause=str(error)[:200], cure="send bytes as base64") from None
    return (json_text(given.json) if given.has_json else checked_text("text", given.text or "")).encode()


def require_choice(*, named: bool, everything: bool) -> None:
    """Refuse work on messages that nobody chose, or chose twice.

    Raises:
        Malformed: neither some nor all are named, or both.
    """
    if named is everything:
        raise Malformed("it is not said which are meant", cure="give ids, filters or keys, or all: true")
