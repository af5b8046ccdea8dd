"""Headers ``MGW_AQ_*`` of an AMQP message as properties of the message (job option AQ_MsgProperties)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from mgw.transforms.errors import ConversionFailure
from mgw.transforms.message import MAX_CORRELATION, MAX_SECONDS, Message, ValueType

__all__ = ["with_aq_properties"]

_TEXT = ValueType.TEXT
_WHOLE = frozenset(
    (
        *(ValueType.BYTE, ValueType.SHORT, ValueType.INTEGER, ValueType.LONG),
        *(ValueType.UBYTE, ValueType.USHORT, ValueType.UINT),
    )
)
_NUMBERS = _WHOLE | {ValueType.FLOAT, ValueType.DOUBLE}
#: Field and type by name. Seconds may be any number: messages that came over Kafka or MQTT have them with fractions.
_AQ_FIELDS: dict[str, tuple[str, ValueType]] = {
    "MGW_AQ_priority": ("priority", ValueType.INTEGER),
    "MGW_AQ_expiration": ("expiration", ValueType.DOUBLE),
    "MGW_AQ_delay": ("delay", ValueType.DOUBLE),
    "MGW_AQ_correlation": ("correlation", ValueType.TEXT),
    "MGW_AQ_exception_queue": ("exception_queue", ValueType.TEXT),
}
_ALSO: dict[ValueType, frozenset[ValueType]] = {ValueType.INTEGER: _WHOLE, ValueType.DOUBLE: _NUMBERS}


def with_aq_properties(message: Message, *, expires: bool) -> Message:
    """AQ properties from reserved headers (job option AQ_MsgProperties): the first of a name wins.

    ``expires``: the moment of expiry is known, and says more than the time that was left when the message was sent.

    Raises:
        ConversionFailure: a header is of another type than its name says, or holds what the property cannot.
    """
    changes: dict[str, Any] = {}
    for name, kind, value in message.headers:
        field = _AQ_FIELDS.get(name)
        if field is None or field[0] in changes or (expires and name == "MGW_AQ_expiration"):
            continue
        if kind is not field[1] and kind not in _ALSO.get(field[1], ()):
            raise ConversionFailure(
                f"header {name!r} is {kind.name}",
                cause=f"with AQ_MsgProperties it must be {'a number' if field[1] is not _TEXT else field[1].name}",
                cure="correct the sender or set AQ_MsgProperties to FALSE",
            )
        if name == "MGW_AQ_expiration":
            value = value if 0 <= value < MAX_SECONDS else None  # type: ignore[operator,assignment]  # noqa: PLW2901
        elif name == "MGW_AQ_delay" and not math.isfinite(value):  # type: ignore[arg-type]
            raise ConversionFailure(
                f"header {name!r} is {value!r}",
                cause="with AQ_MsgProperties it must be a number of seconds",
                cure="correct the sender or set AQ_MsgProperties to FALSE",
            )
        changes[field[0]] = value
    correlation = changes.get("correlation")
    if correlation is not None and len(correlation) > MAX_CORRELATION:
        raise ConversionFailure(
            f"header 'MGW_AQ_correlation' has {len(correlation)} characters",
            cause=f"a correlation holds at most {MAX_CORRELATION}",
            cure="correct the sender or set AQ_MsgProperties to FALSE",
        )
    return replace(message, **changes) if changes else message
