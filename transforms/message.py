"""The canonical message: what every link and the hub translate to and from.

It is shaped like a message with Advanced Queuing properties (AQ guide 12.2 §10.2) and one of the canonical payloads of
the messaging gateway (AQ guide 12.2 §20.1): RAW, BASIC (``MGW_BASIC_MSG_T``: header array and text or raw body) and
FIELDS (``MGW_TIBRV_MSG_T``: typed named fields); or a payload of a declared type that hub queues hold (AQ guide 12.2
§2.2, §22.1): OBJECT and ANYDATA.
"""

from __future__ import annotations

import base64
import json
import math
from dataclasses import dataclass, fields, make_dataclass
from enum import IntEnum, StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

from mgw.transforms.errors import ConversionFailure
from mgw.transforms.objects import AnyData, ObjectValue

__all__ = [
    "MAX_CORRELATION",
    "MAX_HEADERS",
    "MAX_HEADER_NAME",
    "MAX_HEADER_RAW",
    "MAX_HEADER_TEXT",
    "MAX_SECONDS",
    "TRAIL",
    "Body",
    "Header",
    "HeaderValue",
    "Message",
    "MessageDraft",
    "PayloadKind",
    "ValueType",
    "check_fields",
    "check_headers",
    "decode_headers",
    "encode_headers",
    "find_header",
    "new_message",
    "with_headers",
    "with_id",
]

MAX_HEADER_NAME = 250  # characters, MGW_NAME_VALUE_T.name
MAX_HEADER_TEXT = 4000  # characters, MGW_NAME_VALUE_T.text_value
MAX_HEADER_RAW = 2000  # bytes, MGW_NAME_VALUE_T.raw_value
MAX_HEADERS = 1024  # elements, MGW_NAME_VALUE_ARRAY_T
MAX_REMEMBERED = 2048  # characters of a stored header array
MAX_CORRELATION = 128  # characters, AQ guide 12.2 §2.11
TRAIL = "MGW_trail"  # header with the jobs that a message passed (mgw.transforms.trail)
MAX_SECONDS = 2**40  # a delay or an expiration of a queue is shorter; one that is not shorter never ends


class ValueType(IntEnum):
    """The types of a header value and their codes (DBMS_MGWMSG up to DATE; those after it are ours, for AMQP)."""

    TEXT = 1
    RAW = 2
    BOOLEAN = 3
    BYTE = 4
    SHORT = 5
    INTEGER = 6
    LONG = 7
    FLOAT = 8
    DOUBLE = 9
    DATE = 10
    JSON = 11  # JSON text: null, an array or an object (mgw.transforms.amqp.nested)
    DECIMAL = 12  # decimal text
    UBYTE = 13
    USHORT = 14
    UINT = 15


class PayloadKind(StrEnum):
    """The canonical payload types."""

    RAW = "RAW"
    BASIC = "BASIC"
    FIELDS = "FIELDS"
    OBJECT = "OBJECT"
    ANYDATA = "ANYDATA"


#: Value of a header: ``str`` (TEXT, JSON, DECIMAL), ``bytes`` (RAW), ``bool``, ``int``, ``float``; DATE is a float of
#: epoch seconds.
HeaderValue = str | bytes | bool | int | float


class Header(NamedTuple):
    """One typed name-value pair. Names may repeat; order is kept."""

    name: str
    type: ValueType
    value: HeaderValue


#: Body of a message: bytes, text, the fields of a FIELDS message, an object, ANYDATA, or nothing at all (a Kafka
#: tombstone, no body).
Body = bytes | str | tuple[Header, ...] | ObjectValue | AnyData | None


@dataclass(frozen=True, slots=True)
class Message:
    """A message on its way, independent of any broker.

    Attributes:
        body: bytes, text, fields, an object, ANYDATA or None; an empty body (``b""``) is not the same as none.
        headers: the header array in order (``MGW_AMQP_*``, ``MGW_KAFKA_*``, ``MGW_MQTT_*``, ``MGW_AQ_*``, own ones).
        kind: canonical payload type.
        priority: AQ priority, smaller is more important, any integer; default 1.
        correlation: at most 128 characters, or None.
        delay: seconds from enqueue until the message may be dequeued; 0 = none.
        expiration: seconds of availability counted from the moment it is ready; None = never.
        expires_at: epoch seconds at which the message expires, set when a stored message is handed out; None = never.
        msgid: 16 bytes; set by the hub.
        enqueue_time: epoch seconds; set by the hub.
        attempts: failed dequeue attempts so far; set by the hub.
        exception_queue: ``[schema.]queue`` that takes it when it expires or fails too often; None = default.
        sender_name: agent that sent it, or None.
        sender_address: queue it was last propagated from, or None.
        original_msgid: its id in the queue it was propagated from, or None; set by the hub.
        user_property: text that says more about the body, or None; the hub does not interpret it.
        sender_protocol: protocol of the sender's address; 0 = a queue.
    """

    body: Body = None
    headers: tuple[Header, ...] = ()
    kind: PayloadKind = PayloadKind.BASIC
    priority: int = 1
    correlation: str | None = None
    delay: float = 0
    expiration: float | None = None
    expires_at: float | None = None
    msgid: bytes | None = None
    enqueue_time: float | None = None
    attempts: int = 0
    exception_queue: str | None = None
    sender_name: str | None = None
    sender_address: str | None = None
    original_msgid: bytes | None = None
    user_property: str | None = None
    sender_protocol: int = 0

    def remaining(self, now: float) -> float | None:
        """Seconds left until the message expires at time ``now`` (may be negative), or None for never."""
        if self.expires_at is not None:
            return self.expires_at - now
        return self.expiration

    @property
    def type_name(self) -> str | None:
        """``GetTypeName()`` of the payload: ``SCHEMA.TYPE`` or ``SYS.<SCALAR>`` of an object or ANYDATA, else None."""
        body = self.body
        return body.type_name if isinstance(body, (AnyData, ObjectValue)) else None

    def header(self, name: str) -> HeaderValue | None:
        """Value of the first header called ``name`` (case-sensitive), or None."""
        for header in self.headers:
            if header.name == name:
                return header.value
        return None


#: A message that is not complete, for :func:`new_message` and loops that cannot afford the call.
MessageDraft: Any = make_dataclass("MessageDraft", [(field.name, Any) for field in fields(Message)], slots=True)


def new_message(*values: Any) -> Message:
    """A message from the values of all its fields, in order: six times faster than ``Message(...)``, for hot loops.

    A frozen dataclass sets every field through ``object.__setattr__``; its open twin with the same slots does not, and
    becomes a Message when it is complete.
    """
    draft = MessageDraft(*values)
    draft.__class__ = Message
    return draft  # type: ignore[no-any-return]


def with_id(message: Message, msgid: bytes) -> Message:
    """The same message with another id; for loops that cannot afford ``replace``."""
    return new_message(
        message.body,
        message.headers,
        message.kind,
        message.priority,
        message.correlation,
        message.delay,
        message.expiration,
        message.expires_at,
        msgid,
        message.enqueue_time,
        message.attempts,
        message.exception_queue,
        message.sender_name,
        message.sender_address,
        message.original_msgid,
        message.user_property,
        message.sender_protocol,
    )


def with_headers(message: Message, headers: tuple[Header, ...]) -> Message:
    """The same message with other headers; for loops that cannot afford ``replace``."""
    return new_message(
        message.body,
        headers,
        message.kind,
        message.priority,
        message.correlation,
        message.delay,
        message.expiration,
        message.expires_at,
        message.msgid,
        message.enqueue_time,
        message.attempts,
        message.exception_queue,
        message.sender_name,
        message.sender_address,
        message.original_msgid,
        message.user_property,
        message.sender_protocol,
    )


def find_header(headers: tuple[Header, ...], name: str) -> Header | None:
    """The first header called ``name`` (case-sensitive), or None."""
    for header in headers:
        if header.name == name:
            return header
    return None


def check_headers(headers: tuple[Header, ...]) -> None:
    """Refuse a header array that breaks the limits of ``MGW_NAME_VALUE_T``; nothing is ever truncated.

    Raises:
        ConversionFailure: a name over 250 characters, text over 4000, raw over 2000 bytes, more than 1024 elements, a
            mapping, or an element that is no header.
    """
    if isinstance(headers, dict):
        raise ConversionFailure(
            "headers of a message are a mapping",
            cause="a header has a name, a type and a value, and names may repeat",
            cure="give a tuple: headers=(Header('name', ValueType.TEXT, 'value'),)",
        )
    if len(headers) > MAX_HEADERS:
        raise ConversionFailure(
            f"message has {len(headers)} headers",
            cause=f"at most {MAX_HEADERS} are allowed",
            cure="have the sender set fewer headers",
        )
    try:
        for name, code, value in headers:
            kind = type(value)
            if (
                type(name) is not str
                or kind not in _VALUES[code]
                or len(name) > MAX_HEADER_NAME
                or (kind is str and len(value) > MAX_HEADER_TEXT)  # type: ignore[arg-type]
                or (kind is bytes and len(value) > MAX_HEADER_RAW)  # type: ignore[arg-type]
            ):
                break
        else:
            return
    except (TypeError, ValueError, KeyError):  # not three, or no type: the loop below says which
        pass
    _find_wrong_header(headers)


def _find_wrong_header(headers: tuple[Header, ...]) -> None:
    for place, header in enumerate(headers):
        _check_form(place, header)
        name, _, value = header
        if len(name) > MAX_HEADER_NAME:
            raise ConversionFailure(
                f"header name {name[:40]!r}... has {len(name)} characters",
                cause=f"a header name holds at most {MAX_HEADER_NAME}",
                cure="shorten the name at the sender",
            )
        kind = type(value)
        if (kind is str and len(value) > MAX_HEADER_TEXT) or (kind is bytes and len(value) > MAX_HEADER_RAW):  # type: ignore[arg-type]
            limit = f"{MAX_HEADER_TEXT} characters" if kind is str else f"{MAX_HEADER_RAW} bytes"
            raise ConversionFailure(
                f"value of header {name!r} is {len(value)} long",  # type: ignore[arg-type]
                cause=f"a header value holds at most {limit}",
                cure="carry large values in the body",
            )


def check_fields(fields: tuple[Header, ...]) -> None:
    """Refuse a body of fields that is none; names and values may be longer than those of headers.

    Raises:
        ConversionFailure: an element is no field.
    """
    for place, field in enumerate(fields):
        _check_form(place, field, "field")


def _check_form(place: int, header: Any, what: str = "header") -> None:
    """Refuse what the hub could store and nobody could read."""
    cause = ""
    if not isinstance(header, tuple) or len(header) != 3:
        cause = f"{header!r:.60} is not a name, a type and a value"
    elif not isinstance(header[0], str):
        cause = f"its name {header[0]!r:.60} is not text"
    elif not isinstance(header[1], int) or header[1] not in _VALUES:
        cause = f"type {header[1]!r:.60} of {header[0][:60]!r} does not exist"
    elif not isinstance(header[2], _VALUES[header[1]]):
        cause = f"value {header[2]!r:.60} of {header[0][:60]!r} is not {ValueType(header[1]).name}"
    if cause:
        raise ConversionFailure(
            f"{what} {place + 1} of a message is none",
            cause=cause,
            cure="give Header('name', ValueType.TEXT, 'value'), with a value of that type",
        )


#: Types of Python that the value of a header may have, by the code of its type.
_VALUES: dict[int, tuple[type, ...]] = {
    **dict.fromkeys((ValueType.TEXT, ValueType.JSON, ValueType.DECIMAL), (str,)),
    ValueType.RAW: (bytes,),
    ValueType.BOOLEAN: (bool,),
    **dict.fromkeys((ValueType.BYTE, ValueType.SHORT, ValueType.INTEGER, ValueType.LONG), (int,)),
    **dict.fromkeys((ValueType.UBYTE, ValueType.USHORT, ValueType.UINT), (int,)),
    **dict.fromkeys((ValueType.FLOAT, ValueType.DOUBLE, ValueType.DATE), (float, int)),
}


_encoder = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), allow_nan=False)
# Kept instead of made again for every message, as JSONEncoder.encode does; None where Python has no C encoder.
_make: Any = getattr(json.encoder, "c_make_encoder", None)
_chunks: Any = _make and _make(
    None, _encoder.default, json.encoder.encode_basestring_ascii, None, ":", ",", False, False, False
)


def _encode_json(value: Any) -> str:
    return "".join(_chunks(value, 0)) if _chunks else _encoder.encode(value)


def encode_headers(headers: tuple[Header, ...]) -> str | None:
    """Header array as JSON text for storage: ``[[name, type, value], ...]``, None when empty.

    RAW is base64; floats that JSON cannot hold (nan, inf) are text. Exact inverse: :func:`decode_headers`.
    """
    if not headers:
        return None
    try:
        return _encode_json(headers)
    except (TypeError, ValueError):
        return _encode_json([_storable(header) for header in headers])


def _storable(header: Header) -> list[Any]:
    name, kind, value = header
    if isinstance(value, bytes):
        return [name, int(kind), base64.b64encode(value).decode("ascii")]
    if isinstance(value, float) and not math.isfinite(value):
        return [name, int(kind), repr(value)]
    return [name, int(kind), value]


_TYPES = {int(member): member for member in ValueType}
_RAW_CODE = int(ValueType.RAW)
_FIRST_FLOAT_CODE, _LAST_FLOAT_CODE = int(ValueType.FLOAT), int(ValueType.DATE)  # DOUBLE is between them
_scan_json: Any = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
_new_header = tuple.__new__


def decode_headers(text: str | None) -> tuple[Header, ...]:
    """Header array from its stored form (see :func:`encode_headers`)."""
    if not text:
        return ()
    return _remembered(text) if len(text) <= MAX_REMEMBERED else _decoded(text)


def _decoded(text: str) -> tuple[Header, ...]:
    headers: list[Header] = []
    for name, code, value in _scan_json(text, 0)[0]:
        if code == _RAW_CODE:
            value = base64.b64decode(value)  # noqa: PLW2901
        elif _FIRST_FLOAT_CODE <= code <= _LAST_FLOAT_CODE:
            value = float(value)  # noqa: PLW2901
        headers.append(_new_header(Header, (name, _TYPES[code], value)))
    return tuple(headers)


_remembered = lru_cache(maxsize=1024)(_decoded)  # messages of one flow often carry the same headers
