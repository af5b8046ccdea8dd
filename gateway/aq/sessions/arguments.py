"""What the calls of a session are given: of the right type, or refused in words that say what to give."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mgw.transforms.errors import ArgumentInvalid
from mgw.transforms.message import Message

__all__ = ["check_messages", "check_options_type", "no_message"]

_SHORT = 30  # characters that an error repeats


def check_options_type(options: object, kind: type) -> None:
    """The options of a call are those of this call.

    Raises:
        ArgumentInvalid: they are something else.
    """
    if not isinstance(options, kind):
        raise ArgumentInvalid(
            f"options are {kind.__name__}, not {_shown(options)}",
            cause="enqueue takes EnqueueOptions, dequeue DequeueOptions",
            cure=f"pass mgw.gateway.aq.model.{kind.__name__}(...), or leave them out",
        )


def check_messages(messages: Iterable[Message]) -> Sequence[Message]:
    """The messages of an array, as a sequence.

    Raises:
        ArgumentInvalid: it is not one, or something in it is not a message.
    """
    if isinstance(messages, Message | str | bytes | bytearray | dict) or not isinstance(messages, Iterable):
        raise ArgumentInvalid(
            f"enqueue_array takes a list of messages, not {_shown(messages)}",
            cause="it stores several messages at once",
            cure="pass [Message(...), ...], or use enqueue for one message",
        )
    found = messages if isinstance(messages, list | tuple) else list(messages)
    for index, message in enumerate(found):
        if not isinstance(message, Message):
            raise no_message(message, f" (index {index} of the array)")
    return found


def no_message(given: object, where: str = "") -> ArgumentInvalid:
    """The refusal of something that is not a message."""
    if isinstance(given, Sequence) and not isinstance(given, str | bytes | bytearray):
        cure = "use enqueue_array for several messages"
    else:
        cure = 'pass mgw.transforms.message.Message("the body", ...); its body may be a text, bytes or fields'
    return ArgumentInvalid(
        f"only a Message can be enqueued, not {_shown(given)}{where}",
        cause="body, headers and properties of a message are passed in an object of class Message",
        cure=cure,
    )


def _shown(given: object) -> str:
    """A value for people: its type, and what it is where that is short."""
    if given is None:
        return "None"
    kind = type(given).__name__
    short = isinstance(given, int) or (isinstance(given, str | bytes) and len(given) <= _SHORT)
    return f"the {kind} {given!r}" if short else f"a value of type {kind}"
