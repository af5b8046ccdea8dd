"""A canonical message as an MQTT PUBLISH; see :mod:`mgw.transforms.mqtt` for the map."""

from __future__ import annotations

import math
from typing import Any

from mgw.transforms.aq_properties import MESSAGE_ID, property_headers
from mgw.transforms.errors import ConversionFailure
from mgw.transforms.message import Body, Header, HeaderValue, Message, ValueType, check_headers, encode_headers
from mgw.transforms.mqtt.common import (
    CONTENT,
    CORRELATION,
    FIELDS_CONTENT_TYPE,
    FORMAT,
    NATIVE,
    NO_PROPERTIES,
    RESPONSE,
    RETAIN,
    TOPIC,
    Outbound,
    Properties,
    Publish,
)
from mgw.transforms.mqtt.envelope import CONTENT_TYPE, Envelope, wrap
from mgw.transforms.mqtt.table import HOP, OTHERS
from mgw.transforms.mqtt.topic import check_topic
from mgw.transforms.mqtt.user_properties import NULL_BODY, check_string, refused, user_properties, utf8
from mgw.transforms.objects import AnyData, ObjectValue, plain_body

__all__ = ["borrowed_value", "outbound"]

_TEXT, _RAW, _BOOLEAN, _INTEGER = ValueType.TEXT, ValueType.RAW, ValueType.BOOLEAN, ValueType.INTEGER
_ORIGINAL_ID = "MGW_AQ_original_msgid"
_MAX_INTERVAL = 0xFFFFFFFF  # seconds
_make = tuple.__new__  # a named tuple without the cost of its constructor


def outbound(message: Message, rules: Outbound, now: float) -> Publish:
    """The PUBLISH of a canonical message at time ``now`` (epoch seconds).

    Raises:
        ConversionFailure: the topic cannot be filled in, a reserved header has the wrong type, or something in the
            message can never travel.
    """
    native: dict[str, Any] = {}
    travelling: list[Header] = []
    if message.headers:
        if not rules.original:
            check_headers(message.headers)
        native, travelling, others = _sort_headers(message.headers, hop=rules.original)
        if others and rules.version >= 5 and not (rules.envelope or rules.documented):
            _borrow(native, travelling, others, correlated=message.correlation is not None)
    retain = native.get(RETAIN, rules.retain)
    chosen = native.get(TOPIC) if rules.topic_from_header else None
    topic = rules.topic.fill(message) if chosen is None else _chosen_topic(chosen, rules)
    if rules.version < 5 and not rules.envelope:
        return Publish(topic, _payload(message.body), rules.qos, retain)
    remaining = message.remaining(now) if message.expires_at is not None else message.expiration
    expiry = None  # more than 136 years is never
    if remaining is not None and remaining < _MAX_INTERVAL:
        expiry = max(1, math.ceil(remaining))
    if message.msgid is not None or rules.aq_properties:
        travelling = _with_own_headers(message, rules, remaining, travelling)
    if rules.envelope:
        travelling += [Header(name, NATIVE[name], value) for name, value in native.items() if name not in HOP]
        payload = wrap(Envelope(message.body, tuple(travelling), message.correlation, expiry))
        properties = NO_PROPERTIES
        if rules.version >= 5:
            properties = Properties(payload_format=1, expiry=expiry, content_type=CONTENT_TYPE)
    else:
        payload = _payload(message.body)
        user = user_properties(travelling, original=rules.original, documented=rules.documented)
        properties = _properties(message, payload, native, expiry, user, original=rules.original)
    return _make(Publish, (topic, payload, rules.qos, retain, False, properties, ""))


def _sort_headers(headers: tuple[Header, ...], *, hop: bool) -> tuple[dict[str, Any], list[Header], list[int]]:
    """What goes into fields of the PUBLISH, what travels as user properties, and which of those may fill a field.

    ``hop``: what every hop tells again is a user property, too.
    """
    native: dict[str, Any] = {}
    travelling: list[Header] = []
    others: list[int] = []
    for header in headers:
        name, kind, value = header
        wanted = _FIELDS.get(name)
        if wanted is None or (hop and name in HOP):
            travelling.append(header)
            continue
        if wanted is _OTHER:
            others.append(len(travelling))
            travelling.append(header)
            continue
        if kind is not wanted and not (name == TOPIC and kind is _RAW):
            raise ConversionFailure(
                f"header {name} has type {kind.name}",
                cause=f"it is the MQTT field of that name and must be {wanted.name}",
                cure="set it with that type at the sender or in a transformation, or remove it",
            )
        native.setdefault(name, value)
    return native, travelling, others


_OTHER = object()
#: What is said of a header by its name: the type of a field, or that it may fill one.
_FIELDS: dict[str, Any] = {**NATIVE, **dict.fromkeys(OTHERS, _OTHER)}


def _borrow(native: dict[str, Any], travelling: list[Header], others: list[int], *, correlated: bool) -> None:
    """Fill fields from headers of other brokers, where nothing else does and they fit; these travel no more."""
    used: list[int] = []
    if len(others) > 1:
        others.sort(key=lambda place: OTHERS[travelling[place].name][1])
    for place in others:
        name, kind, value = travelling[place]
        field = OTHERS[name][0]
        if field in native or (field == CORRELATION and correlated):
            continue
        fitting = borrowed_value(field, kind, value)
        if fitting is not None:
            native[field] = fitting
            used.append(place)
    for place in sorted(used, reverse=True):
        del travelling[place]


def borrowed_value(field: str, kind: ValueType, value: HeaderValue) -> str | bytes | None:
    """Another broker's header as the value of a field; None where it cannot be."""
    if field == CORRELATION:
        if kind is _TEXT:
            return utf8("correlation", value)  # type: ignore[arg-type]
        return value if kind is _RAW else None  # type: ignore[return-value]
    if kind is not _TEXT or not value or value == FIELDS_CONTENT_TYPE:
        return None
    text: str = value  # type: ignore[assignment]
    if refused(text) or (field == RESPONSE and ("+" in text or "#" in text)):
        return None
    return text


def _chosen_topic(chosen: str | bytes, rules: Outbound) -> str:
    topic = chosen.decode("utf-8", "replace") if isinstance(chosen, bytes) else chosen
    below = rules.topic.fixed or rules.topic.text
    reason = check_topic(topic)
    if reason is None and topic != below and not topic.startswith(below + "/"):
        reason = f"it is not below the registered topic {below!r}"
    if reason:
        raise ConversionFailure(
            f"header {TOPIC} cannot choose topic {topic[:100]!r}",
            cause=reason,
            cure=f"choose a topic below {below!r} at the sender or in a transformation",
        )
    return topic


def _with_own_headers(
    message: Message, rules: Outbound, remaining: float | None, travelling: list[Header]
) -> list[Header]:
    """The id, always; with AQ_MsgProperties the AQ properties that no explicit header sets."""
    own: list[Header] = []
    if message.msgid is not None:
        own.append(Header(MESSAGE_ID, _TEXT, "AQMSGID:" + message.msgid.hex()))
        earlier = [header for header in travelling if header.name == MESSAGE_ID]
        if earlier:
            travelling = [header for header in travelling if header.name != MESSAGE_ID]
            if not any(header.name == _ORIGINAL_ID for header in travelling):
                own.append(earlier[0]._replace(name=_ORIGINAL_ID))
    if rules.aq_properties:
        present = {header.name for header in (*own, *travelling)}
        own += [header for header in property_headers(message, remaining) if header.name not in present]
    return own + travelling


def _properties(
    message: Message,
    payload: bytes,
    native: dict[str, Any],
    expiry: int | None,
    user: list[tuple[str, str]],
    *,
    original: bool,
) -> Properties:
    body = message.body
    kind = body.__class__
    if body is None:
        user.append((NULL_BODY, "1"))
    data = native.get(CORRELATION)
    if data is None and message.correlation is not None:
        data = utf8("correlation", message.correlation)
    if not native and not original:
        content_type = FIELDS_CONTENT_TYPE if kind is tuple else None
        text = 0 if kind is bytes or body is None else 1
        return _make(Properties, (text, expiry, content_type, None, data, user))
    content_type, response_topic = native.get(CONTENT), native.get(RESPONSE)
    if kind is tuple:
        content_type = FIELDS_CONTENT_TYPE
    elif content_type and refused(content_type):  # it may be empty
        check_string(f"header {CONTENT}", content_type)
    if response_topic is not None:
        if not response_topic or refused(response_topic):
            check_string(f"header {RESPONSE}", response_topic)
        if "+" in response_topic or "#" in response_topic:
            raise ConversionFailure(
                f"header {RESPONSE} cannot be {response_topic[:100]!r}",
                cause="it holds a wildcard",
                cure="set it to the name of a topic at the sender or in a transformation",
            )
    form = native.get(FORMAT) if original else _payload_format(body, payload, native)
    return _make(Properties, (form, expiry, content_type, response_topic, data, user))


def _payload(body: Body) -> bytes:
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return utf8("the text body", body)
    if body is None:
        return b""
    if isinstance(body, (ObjectValue, AnyData)):
        return _payload(plain_body(body))
    return (encode_headers(body) or "[]").encode()


def _payload_format(body: Body, payload: bytes, native: dict[str, Any]) -> int:
    declared = native.get(FORMAT)
    if declared is None:
        return 1 if isinstance(body, str | tuple | ObjectValue) else 0
    if declared not in (0, 1):
        raise ConversionFailure(
            f"header {FORMAT} is {declared}",
            cause="only 0 (bytes) and 1 (UTF-8 text) exist",
            cure="correct it at the sender or in a transformation",
        )
    if declared == 1 and isinstance(body, bytes):
        try:
            payload.decode()
        except UnicodeDecodeError as error:
            raise ConversionFailure(
                f"header {FORMAT} says text, but the body is not",
                cause=f"{error.reason} at byte {error.start}",
                cure="set it to 0 at the sender or in a transformation",
            ) from error
    return int(declared)
