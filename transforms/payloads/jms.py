"""JMS messages of hub queues as links carry them, and back (AQ guide 12.2 §17.4, §11.2).

A JMS message in the hub is ANYDATA of one of five types, or has no body at all; its properties are headers with their
types. Over a link it is text, bytes or fields as JSON like any other message, and headers say what it was:

======================  ===============================================================================================
``MGW_JMS_kind``        TEXT, BYTES, MAP, STREAM, OBJECT or MESSAGE (no body)
``JMSType``             as in the hub; RabbitMQ has it in the property type, too
``JMSReplyTo``          as in the hub; the reply-to or response topic of the broker is filled from it, and fills it
``JMSPriority``         0 to 9, larger is more important: the opposite of the priority in the hub
``JMSDeliveryMode``     1 not persistent, 2 persistent
======================  ===============================================================================================

The body of a MAP is a JSON object, that of a STREAM a JSON array of name, type and value, both with
``MGW_FIELD_types`` (:mod:`mgw.transforms.payloads.fields`). The body of an OBJECT is bytes that nobody looks into: it
is never unpickled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from mgw.transforms.errors import ConversionFailure
from mgw.transforms.message import Body, Header, HeaderValue, Message, PayloadKind, ValueType, find_header
from mgw.transforms.objects import AnyData
from mgw.transforms.payloads.fields import FIELD_TYPES_HEADER, fields_to_json, json_to_fields, misfit

__all__ = [
    "JMS_ANY",
    "JMS_KINDS",
    "JMS_NAMES",
    "KIND_HEADER",
    "ORIGINAL_ID",
    "aq_priority",
    "from_jms",
    "is_jms",
    "jms_priority",
    "to_jms",
]

#: The payload type that takes any JMS message.
JMS_ANY: Final = "SYS.AQ$_JMS_MESSAGE"
#: The kinds of JMS messages with a body, and their payload types.
JMS_KINDS: Final = MappingProxyType(
    {kind: f"SYS.AQ$_JMS_{kind}_MESSAGE" for kind in ("TEXT", "BYTES", "MAP", "STREAM", "OBJECT")}
)
_KINDS: Final = {name: kind for kind, name in JMS_KINDS.items()}
JMS_NAMES: Final = frozenset((*_KINDS, JMS_ANY))
_MESSAGE: Final = "MESSAGE"
KIND_HEADER: Final = "MGW_JMS_kind"
#: Header with the id in the system where a message came from (AQ guide 12.2 §19.7.4): option PreserveMessageID.
ORIGINAL_ID: Final = "OracleMGW_OriginalMessageID"
_TEXT, _INTEGER = ValueType.TEXT, ValueType.INTEGER
_TYPE, _REPLY_TO, _PRIORITY, _MODE = "JMSType", "JMSReplyTo", "JMSPriority", "JMSDeliveryMode"
_TOP: Final = 9
#: Headers of brokers that become a JMS header where the message has none, and those that are filled from it.
_READ: Final = {
    _TYPE: ("MGW_AMQP_type",),
    _REPLY_TO: ("MGW_AMQP_replyTo", "MGW_MQTT_responseTopic", "reply-to"),
    _MODE: ("MGW_AMQP_deliveryMode",),
}
_FILLED: Final = {_TYPE: "MGW_AMQP_type", _REPLY_TO: "MGW_AMQP_replyTo"}
#: What tells the id of a message, the first that it has.
_IDENTITIES: Final = ("MGW_AMQP_messageId", "MGW_AQ_messageID", "message-id")
_CONVERSION: Final = frozenset((KIND_HEADER, _PRIORITY, FIELD_TYPES_HEADER))


def is_jms(value: object) -> bool:
    """Whether a body is a JMS message of the hub."""
    return isinstance(value, AnyData) and value.type_name in _KINDS


def jms_priority(priority: int) -> int:
    """JMSPriority (0 to 9, larger is more important) of a priority of the hub (smaller is more important)."""
    return min(_TOP, max(0, _TOP - priority))


def aq_priority(priority: int) -> int:
    """Priority in the hub of a JMSPriority."""
    return _TOP - priority


# -- out ---------------------------------------------------------------------------------------------------------------


def from_jms(message: Message, payload_type: str = JMS_ANY, *, preserve: bool = False) -> Message:
    """A JMS message of the hub as links carry it.

    Args:
        payload_type: of its queue, which tells what a message without body is.
        preserve: job option PreserveMessageID: the id in the hub travels as ``OracleMGW_OriginalMessageID``.

    Raises:
        ConversionFailure: [720] a value of a map or stream has no form in JSON.
    """
    body: Any = message.body
    kind = _KINDS.get(payload_type, _MESSAGE) if body is None else _KINDS[body.type_name]
    value: Body = None if body is None else body.value
    headers = [header for header in message.headers if header.name not in _CONVERSION]
    names = {header.name for header in headers}
    headers.append(Header(KIND_HEADER, _TEXT, kind))
    if isinstance(value, tuple):
        value, types = fields_to_json(value, array=kind == "STREAM")
        if types is not None:
            headers.append(types)
    headers.append(Header(_PRIORITY, _INTEGER, jms_priority(message.priority)))
    if _MODE not in names:
        headers.append(Header(_MODE, _INTEGER, 2))
    for name, field in _FILLED.items():
        found = find_header(message.headers, name)
        if found is not None and found.type is _TEXT and found.value and field not in names:
            headers.append(Header(field, _TEXT, found.value))
    if preserve and message.msgid is not None and ORIGINAL_ID not in names:
        headers.append(Header(ORIGINAL_ID, _TEXT, f"ID:{message.msgid.hex().upper()}"))
    return replace(message, body=value, kind=PayloadKind.BASIC, headers=tuple(headers))


# -- in ----------------------------------------------------------------------------------------------------------------


def to_jms(message: Message, payload_type: str, *, preserve: bool = False) -> Message:
    """A message as a queue of a JMS payload type holds it.

    Without ``MGW_JMS_kind`` the queue says what it is; one of any JMS messages takes text as TEXT, bytes as BYTES,
    fields as MAP.

    Args:
        preserve: job option PreserveMessageID: the id that it came with becomes ``OracleMGW_OriginalMessageID``.

    Raises:
        ConversionFailure: [724] it is another kind of JMS message, or its body cannot be of that kind.
    """
    body = message.body
    if body is None and payload_type != JMS_ANY and _told(message) in {None, _KINDS[payload_type]}:
        return _restored(message, None, preserve=preserve)
    if isinstance(body, AnyData):
        if body.type_name not in _KINDS or payload_type not in {JMS_ANY, body.type_name}:
            raise misfit(payload_type, f"it is {body.type_name}")
        return message if message.kind is PayloadKind.ANYDATA else replace(message, kind=PayloadKind.ANYDATA)
    kind = _told(message) or _KINDS.get(payload_type) or _natural(payload_type, body)
    if payload_type not in {JMS_ANY, JMS_KINDS.get(kind)}:
        raise misfit(payload_type, f"it is a JMS message of kind {kind}")
    if kind == _MESSAGE or body is None:
        if body:
            raise misfit(payload_type, f"{KIND_HEADER} says that it has no body, and it has one")
        return _restored(message, None, preserve=preserve)
    return _restored(message, AnyData(JMS_KINDS[kind], _READERS[kind](payload_type, message)), preserve=preserve)


def _told(message: Message) -> str | None:
    """What the message says it is."""
    found = find_header(message.headers, KIND_HEADER)
    if found is None:
        return None
    if found.value not in JMS_KINDS and found.value != _MESSAGE:
        raise ConversionFailure(
            f"header {KIND_HEADER} is {str(found.value)[:60]!r}",
            cause=f"the kinds of JMS messages are {', '.join(JMS_KINDS)} and {_MESSAGE}",
            cure="correct it at the sender or in a transformation, or leave it out",
            number=724,
        )
    return str(found.value)


def _natural(payload_type: str, body: Body) -> str:
    if body is None:
        return _MESSAGE
    for of_body, kind in ((str, "TEXT"), (bytes, "BYTES"), (tuple, "MAP")):
        if isinstance(body, of_body):
            return kind
    raise misfit(payload_type, "it is an object")


def _text(payload_type: str, message: Message) -> str:
    body = message.body
    try:
        if isinstance(body, (str, bytes)):
            return body if isinstance(body, str) else body.decode()
    except UnicodeDecodeError as error:
        raise misfit(payload_type, f"it is not text (byte {error.start} is not UTF-8)") from None
    raise misfit(payload_type, "it is a message of named fields, or an object")


def _bytes(payload_type: str, message: Message) -> bytes:
    if isinstance(message.body, bytes):
        return message.body
    raise misfit(payload_type, "it is not bytes")


def _fields(payload_type: str, message: Message) -> tuple[Header, ...]:
    body = message.body
    if isinstance(body, tuple):
        return body
    types = find_header(message.headers, FIELD_TYPES_HEADER)
    try:
        return json_to_fields(_text(payload_type, message), str(types.value) if types else None)
    except ConversionFailure as error:
        raise misfit(payload_type, error.cause) from None


_READERS: Final[dict[str, Callable[[str, Message], Any]]] = {
    "TEXT": _text,
    "BYTES": _bytes,
    "OBJECT": _bytes,
    "MAP": _fields,
    "STREAM": _fields,
}


def _restored(message: Message, body: AnyData | None, *, preserve: bool) -> Message:
    headers = [header for header in message.headers if header.name not in _CONVERSION]
    names = {header.name for header in headers}
    for name, fields in _READ.items():
        found = next((each for field in fields if (each := find_header(message.headers, field))), None)
        if name not in names and found is not None and found.type in {_TEXT, _INTEGER}:
            headers.append(Header(name, found.type, found.value))
    if preserve and ORIGINAL_ID not in names and (identity := _identity(message)):
        headers.append(Header(ORIGINAL_ID, _TEXT, identity))
    priority = message.priority
    told = find_header(message.headers, _PRIORITY)
    if told is not None:
        priority = aq_priority(_checked_priority(told))
    return replace(message, body=body, kind=PayloadKind.ANYDATA, headers=tuple(headers), priority=priority)


def _checked_priority(header: Header) -> int:
    value: HeaderValue = header.value
    try:
        number = int(value) if header.type is _TEXT else value  # a program without types wrote it
    except ValueError:
        number = -1
    if type(number) is not int or not 0 <= number <= _TOP:
        raise ConversionFailure(
            f"header {_PRIORITY} is {str(value)[:40]!r}",
            cause=f"it is a whole number from 0 to {_TOP}",
            cure="correct it at the sender or in a transformation",
            number=724,
        )
    return number


def _identity(message: Message) -> str:
    """The id that a message came with: that of its sender, of the hub that sent it, or its place in Kafka."""
    for name in _IDENTITIES:
        value = message.header(name)
        if value:
            text = value.hex().upper() if isinstance(value, bytes) else str(value).removeprefix("AQMSGID:")
            return f"ID:{text}"
    place = [message.header(f"MGW_KAFKA_{part}") for part in ("topic", "partition", "offset")]
    return "" if None in place else f"ID:{place[0]!s}/{place[1]!s}@{place[2]!s}"
