"""An MQTT PUBLISH as a canonical message; see :mod:`mgw.transforms.mqtt` for the map."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from mgw.transforms.aq_properties import BY_NAME, property_value
from mgw.transforms.errors import ConversionFailure, unforeseen
from mgw.transforms.message import (
    MAX_CORRELATION,
    MAX_HEADER_RAW,
    MAX_HEADER_TEXT,
    MAX_HEADERS,
    Body,
    Header,
    Message,
    PayloadKind,
    ValueType,
    check_headers,
    new_message,
)
from mgw.transforms.mqtt.common import (
    CONTENT,
    CORRELATION,
    DUP,
    FIELDS_CONTENT_TYPE,
    FORMAT,
    NATIVE,
    NO_PROPERTIES,
    QOS,
    RESPONSE,
    RETAIN,
    TOPIC,
    Inbound,
    Properties,
    Publish,
)
from mgw.transforms.mqtt.envelope import CONTENT_TYPE, unwrap
from mgw.transforms.mqtt.header_array import read_headers
from mgw.transforms.mqtt.user_properties import headers_of, salvaged_headers

__all__ = ["inbound"]

_TEXT, _RAW, _BOOLEAN, _INTEGER = ValueType.TEXT, ValueType.RAW, ValueType.BOOLEAN, ValueType.INTEGER


def _flag_headers(flags: int) -> tuple[Header, ...]:
    return (
        Header(QOS, _INTEGER, flags >> 1 & 3),
        Header(RETAIN, _BOOLEAN, bool(flags & 1)),
        Header(DUP, _BOOLEAN, bool(flags & 8)),
    )


_FLAG_HEADERS = tuple(_flag_headers(flags) for flags in range(16))
_BASIC = PayloadKind.BASIC
#: Behind the delay, of a message that has nothing but a body and headers.
_NOTHING_ELSE = (None, None, None, None, 0, None, None, None, None, None, 0)
#: Headers of the hop: messages of one topic have the same array, which is stored as text once for a batch. Bounded.
_hops: dict[tuple[str, int], tuple[Header, ...]] = {}
_MAX_HOPS, _LONG_TOPIC = 4096, 512
_FORMAT_HEADERS = tuple(Header(FORMAT, _INTEGER, value) for value in range(256))


def _hop(topic: str, flags: int) -> tuple[Header, ...]:
    hop = (Header(TOPIC, _TEXT, topic), *_FLAG_HEADERS[flags])
    if len(topic) <= _LONG_TOPIC:
        if len(_hops) >= _MAX_HOPS:
            _hops.clear()
        _hops[(topic, flags)] = hop
    return hop


def inbound(publish: Publish, rules: Inbound) -> tuple[Message, ConversionFailure | None]:
    """The canonical message of a PUBLISH.

    A message that cannot be converted comes with the failure; it then has the payload untouched and the headers that
    could be read.
    """
    topic, payload, qos, retain, dup, properties, problem = publish
    flags = qos << 1 | retain | dup << 3
    hop = _hops.get((topic, flags)) or _hop(topic, flags)
    try:
        if problem:
            raise ConversionFailure(
                f"message from topic {topic[:200]!r} is malformed",
                cause=problem,
                cure="correct the publisher; the payload is kept as it came",
            )
        if properties is NO_PROPERTIES and not rules.envelope:
            if len(topic) > MAX_HEADER_TEXT:
                check_headers(hop)
            return new_message(
                payload.decode() if rules.text else payload, hop, _BASIC, 1, None, 0, *_NOTHING_ELSE
            ), None
        message = _open_envelope(publish, rules, hop) if rules.envelope else _from_properties(publish, rules, hop)
        return (_read_aq_properties(message) if rules.aq_properties else message), None
    except UnicodeDecodeError as error:
        failure = ConversionFailure(
            f"payload of a message from topic {topic[:200]!r} is not text",
            cause=f"it is declared as UTF-8 but {error.reason} at byte {error.start}",
            cure="correct the publisher, or register the queue with MQTT_PayloadType = RAW",
        )
    except Exception as error:
        failure = unforeseen(error)
    salvaged, no_body = salvaged_headers(properties.user, documented=rules.documented)
    body = None if no_body and not payload else payload
    return Message(body, (*hop, *_field_headers(properties), *salvaged), expiration=_left(properties.expiry)), failure


def _from_properties(publish: Publish, rules: Inbound, hop: tuple[Header, ...]) -> Message:
    payload_format, expiry, content_type, _, data, user = publish.properties
    headers, no_body = headers_of(user, documented=rules.documented) if user else ([], False)
    message_headers = (*hop, *_field_headers(publish.properties), *headers)
    for header in message_headers:
        if len(header.name) > 200 or (header.value.__class__ in (str, bytes) and len(header.value) > MAX_HEADER_RAW):
            check_headers(message_headers)
            break
    if len(message_headers) > MAX_HEADERS:
        check_headers(message_headers)
    body: Body = publish.payload
    kind = PayloadKind.BASIC
    if content_type == FIELDS_CONTENT_TYPE:
        body, kind = _fields(publish.payload), PayloadKind.FIELDS
    elif no_body and not body:
        body = None
    elif payload_format == 1 or (payload_format is None and rules.text):
        body = publish.payload.decode()
    return Message(
        body,
        message_headers,
        kind,
        correlation=None if data is None else _correlation(data),
        expiration=_left(expiry),
    )


def _left(expiry: int | None) -> float | None:
    return None if expiry is None else float(expiry or 1)


def _field_headers(properties: Properties) -> list[Header]:
    payload_format, _, content_type, response_topic, data, _ = properties
    headers = []
    if data is not None:
        headers.append(Header(CORRELATION, _RAW, data))
    if response_topic is not None:
        headers.append(Header(RESPONSE, _TEXT, response_topic))
    if content_type is not None:
        headers.append(Header(CONTENT, _TEXT, content_type))
    if payload_format is not None:
        headers.append(_FORMAT_HEADERS[payload_format])
    return headers


def _correlation(data: bytes) -> str | None:
    """Correlation data as the correlation of a message, if it can be one; the header has it in any case."""
    if len(data) > MAX_CORRELATION:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _open_envelope(publish: Publish, rules: Inbound, hop: tuple[Header, ...]) -> Message:
    envelope = unwrap(publish.payload, publish.topic)
    properties = publish.properties
    if properties.content_type == CONTENT_TYPE:  # these two describe the envelope, not the message
        properties = properties._replace(content_type=None, payload_format=None)
    outer = (*hop, *_field_headers(properties), *headers_of(properties.user, documented=rules.documented)[0])
    names = {header.name for header in outer if header.name in NATIVE}
    inner = (h._replace(name="MGW_MQTT_U_" + h.name) if h.name in names else h for h in envelope.headers)
    headers = (*outer, *inner)
    check_headers(headers)
    expiry, data = properties.expiry, properties.correlation
    return Message(
        envelope.body,
        headers,
        envelope.kind,
        correlation=envelope.correlation if data is None else _correlation(data),
        expiration=envelope.expiration if expiry is None else float(expiry or 1),
    )


def _read_aq_properties(message: Message) -> Message:
    """First header of each name wins; absent leaves the default; what MQTT has a field for is not overwritten."""
    changes: dict[str, Any] = {}
    for name, kind, value in message.headers:
        known = BY_NAME.get(name)
        if known is None or known.field in changes:
            continue
        if known.field not in _OF_FIELDS or getattr(message, known.field) is None:
            changes[known.field] = property_value(name, kind, value, texts=True)
    return replace(message, **changes) if changes else message


_OF_FIELDS = frozenset(("expiration", "correlation"))


def _fields(payload: bytes) -> tuple[Header, ...]:
    try:
        return read_headers(json.loads(payload.decode() or "[]"))
    except (ValueError, RecursionError) as error:
        raise ConversionFailure(
            "payload is not what its content type says",
            cause=f"{FIELDS_CONTENT_TYPE} is a JSON array of [name, type, value]: {error}"[:300],
            cure="correct the publisher",
        ) from error
