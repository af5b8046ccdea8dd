"""Properties of a message as headers ``MGW_AQ_*`` of a Kafka record, and back (job option AQ_MsgProperties).

Source: AQ guide 12.2 §20.3 (names and types); ``MGW_AQ_expires_at`` (epoch milliseconds) goes with the time left,
because a record may lie in its log for long.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

from mgw.transforms.aq_properties import BY_NAME, property_value
from mgw.transforms.errors import ConversionFailure
from mgw.transforms.kafka.types import RESERVED, number
from mgw.transforms.message import MAX_SECONDS, Header, HeaderValue, Message, ValueType

__all__ = ["checked", "property_headers", "set_properties", "wrong_type"]


def property_headers(
    message: Message, correlation: str | None, now: float, *, all_of_them: bool
) -> list[tuple[str, bytes]]:
    """The ``MGW_AQ_*`` headers of a message, in bytes.

    Args:
        correlation: None where the key carries it.
        now: epoch seconds, for the time left until the message expires.
        all_of_them: False gives the correlation only.
    """
    found: list[tuple[str, bytes]] = []
    if correlation is not None:
        found.append(("MGW_AQ_correlation", correlation.encode()))
    if not all_of_them:
        return found
    found.append(("MGW_AQ_priority", b"%d" % message.priority))
    if message.delay:
        found.append(("MGW_AQ_delay", number(message.delay)))
    remaining = message.remaining(now)
    if remaining is not None:
        found.append(("MGW_AQ_expiration", b"%d" % max(0, math.ceil(remaining))))
        found.append(("MGW_AQ_expires_at", b"%d" % int((now + remaining) * 1000)))
    if message.exception_queue is not None:
        found.append(("MGW_AQ_exception_queue", message.exception_queue.encode()))
    if message.enqueue_time is not None:
        found.append(("MGW_AQ_enqueue_time", number(message.enqueue_time)))
    if message.original_msgid is not None:
        found.append(("MGW_AQ_original_msgid", message.original_msgid))
    sender = {"name": message.sender_name, "address": message.sender_address}
    known = {part: text for part, text in sender.items() if text is not None}
    if known:
        found.append(("MGW_AQ_sender", json.dumps(known).encode()))
    return found


def wrong_type(name: str, value: object, wanted: str) -> ConversionFailure:
    """The failure of a message whose reserved header holds what it must not."""
    return ConversionFailure(
        f"header {name} cannot be {str(value)[:60]!r}",
        cause=f"it is reserved and holds {wanted}",
        cure="correct it at the sender or in the transformation",
    )


#: Types of a number that a message may have from another broker, beside the one that the name says.
_WHOLE: Final = frozenset(
    (
        *(ValueType.BYTE, ValueType.SHORT, ValueType.INTEGER, ValueType.LONG),
        *(ValueType.UBYTE, ValueType.USHORT, ValueType.UINT),
    )
)
_ALSO: Final = {
    ValueType.INTEGER: _WHOLE,
    ValueType.LONG: _WHOLE,
    ValueType.DOUBLE: _WHOLE | {ValueType.FLOAT},
}


def checked(header: Header) -> HeaderValue:
    """Value of a reserved header.

    Raises:
        ConversionFailure: it is not of the type its name says, or a number beyond 64 bits.
    """
    wanted = RESERVED[header.name]
    value = header.value
    if header.name in BY_NAME:
        property_value(header.name, header.type, value)
    odd = isinstance(value, float) and not math.isfinite(value)
    beyond = isinstance(value, int) and not -(2**63) <= value < 2**63
    also = header.name in BY_NAME or header.type in _ALSO.get(wanted, ())
    if (header.type is not wanted and not also) or odd or beyond:
        raise wrong_type(header.name, value, "text" if wanted is ValueType.TEXT else "a number")
    return value


def set_properties(properties: dict[str, HeaderValue], fields: dict[str, Any], appended: int, now: float) -> None:
    """Put the reserved headers read into the arguments of the message.

    Args:
        properties: first value of each reserved name.
        appended: when the broker wrote the record (milliseconds): time left counts from there. Negative where it is
            unknown: a CreateTime is the application's, and says nothing of it.
    """
    for name, value in properties.items():
        known = BY_NAME.get(name)
        if known is not None and known.field != "expiration":
            fields[known.field] = value
    if "MGW_AQ_original_msgid" in properties:
        fields["original_msgid"] = properties["MGW_AQ_original_msgid"]
    _set_expiration(properties, fields, appended, now)
    if len(properties.get("MGW_AQ_original_msgid", b"0" * 16)) != 16:  # type: ignore[arg-type]
        raise wrong_type("MGW_AQ_original_msgid", properties["MGW_AQ_original_msgid"], "16 bytes")
    if "MGW_AQ_sender" in properties:
        _set_sender(str(properties["MGW_AQ_sender"]), fields)


def _set_expiration(properties: dict[str, HeaderValue], fields: dict[str, Any], appended: int, now: float) -> None:
    if "MGW_AQ_expires_at" in properties:
        left = float(properties["MGW_AQ_expires_at"]) / 1000 - now
    elif "MGW_AQ_expiration" in properties:
        passed = max(0.0, now - appended / 1000) if appended >= 0 else 0.0
        left = float(properties["MGW_AQ_expiration"])
        left = math.inf if left < 0 else left - passed  # -1 is never
    else:
        return
    fields["expiration"] = left if left < MAX_SECONDS else None


def _set_sender(text: str, fields: dict[str, Any]) -> None:
    try:
        sender = json.loads(text)
        name, address = sender.get("name"), sender.get("address")
    except (ValueError, AttributeError, RecursionError):
        name, address = text, None  # a plain name, from a program that is not a gateway
    fields["sender_name"] = None if name is None else str(name)
    fields["sender_address"] = None if address is None else str(address)
