"""Transformation functions as a user would write them, good and bad ones."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from typing import Annotated, Any

from mgw.transforms.message import Header, Message, PayloadKind, ValueType


def shout(message: Message, *, mark: str = "!", times: int = 1) -> Message:
    """Text with exclamation marks."""
    return replace(message, body=f"{message.body!s}{mark * times}")


def only_urgent(message: Message) -> Message | None:
    """Filter: None drops the message on purpose."""
    return message if message.priority < 3 else None


def twice(message: Message) -> list[Message]:
    """Two messages for one."""
    return [message, replace(message, correlation="second")]


def nothing(message: Message) -> list[Message]:
    """No message at all."""
    return []


def returns_text(message: Message) -> Any:
    """Wrong: no message."""
    return "text"


def returns_mixed(message: Message) -> Any:
    """Wrong: not only messages."""
    return [message, "text"]


def raises(message: Message) -> Message:
    """Wrong input for this function."""
    raise KeyError(message.correlation)


def exits(message: Message) -> Message:
    """Wrong: ends the process."""
    sys.exit(3)


def runs_forever_down(message: Message) -> Message:
    """Wrong: never ends."""
    return runs_forever_down(message)


def changes_msgid(message: Message) -> Message:
    """Wrong: the message id is the hub's."""
    return replace(message, msgid=b"x" * 16)


def body_of_wrong_type(message: Message) -> Message:
    """Wrong: a dict is no body."""
    return replace(message, body={"a": 1})  # type: ignore[arg-type]


def half_a_character(message: Message) -> Message:
    """Wrong: half of a surrogate pair."""
    return replace(message, body="\ud800")


def list_of_headers(message: Message) -> Message:
    """Wrong: headers are a tuple."""
    return replace(message, headers=[])  # type: ignore[arg-type]


def header_of_wrong_type(message: Message) -> Message:
    """Wrong: the value does not go with the type."""
    return replace(message, headers=(Header("a", ValueType.INTEGER, "5"),))


def plain_tuple_as_header(message: Message) -> Message:
    """Wrong: no Header."""
    return replace(message, headers=(("a", 1, "5"),))  # type: ignore[arg-type]


def huge_header(message: Message) -> Message:
    """Wrong: more than a header holds."""
    return replace(message, headers=(Header("a", ValueType.TEXT, "x" * 4001),))


def long_correlation(message: Message) -> Message:
    """Wrong: more than 128 characters."""
    return replace(message, correlation="x" * 129)


NOT_A_FUNCTION = 5


def plus_ten(message: Message) -> list[Message]:
    """Two messages for one, the second with ten more."""
    number = int(json.loads(str(message.body))["n"])
    return [message, replace(message, body=json.dumps({"n": number + 10}))]


def slow(message: Message, *, seconds: float) -> Message:
    """Takes its time."""
    time.sleep(seconds)
    return message


def decoded(message: Annotated[Message, PayloadKind.RAW]) -> Annotated[Message, PayloadKind.BASIC]:
    """Bytes become text; both types are declared."""
    return replace(message, body=message.body.decode())  # type: ignore[union-attr]


def one_field(message: Annotated[Message, PayloadKind.BASIC]) -> Annotated[Message, PayloadKind.FIELDS]:
    """Wrong: it declares fields, and gives what it got, unless that is ``good``."""
    if message.body == "good":
        return replace(message, body=(Header("a", ValueType.TEXT, "good"),), kind=PayloadKind.FIELDS)
    return message


def several_fields(
    message: Message,
) -> list[Annotated[Message, PayloadKind.FIELDS]] | Annotated[Message, PayloadKind.FIELDS] | None:
    """Wrong for text: the second of the list is not of the declared type. No body is filtered."""
    if message.body is None:
        return None
    return [one_field(replace(message, body="good")), message]
