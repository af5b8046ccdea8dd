"""Messages of exception queues with the changes that somebody makes, and a mark that tells of them."""

from __future__ import annotations

from dataclasses import replace

from mgw.gateway.services.exceptions.contract import Change, DeskRefused
from mgw.transforms.errors import ConversionFailure
from mgw.transforms.message import Header, Message, ValueType, check_headers

__all__ = ["edited_message", "marked_message"]


def edited_message(message: Message, change: Change, told: str) -> Message:
    """The message with the changes and their mark.

    Raises:
        DeskRefused: it cannot be stored.
    """
    edited = marked_message(change.apply(message), told)
    try:
        check_headers(edited.headers)
    except ConversionFailure as error:
        raise DeskRefused(
            error.what, cause=error.cause, cure="give less, or remove headers in the same edit (--header NAME=)"
        ) from error
    return edited


def marked_message(message: Message, what: str) -> Message:
    """The message with a header that says what was edited last."""
    name = "MGW_error_edited"
    headers = tuple(header for header in message.headers if header.name != name)
    return replace(message, headers=(*headers, Header(name, ValueType.TEXT, what[:4000])))
