"""The canonical message as an MQTT PUBLISH and back: pure maps, no network.

===============================  =============================================  =====================================
canonical                        MQTT 5                                         MQTT 3.1.1
===============================  =============================================  =====================================
``MGW_MQTT_topic`` TEXT          topic; out: by the registration                the same
``MGW_MQTT_qos`` INTEGER         in only; out: by option ``MQTT_Qos``           the same
``MGW_MQTT_retain`` BOOLEAN      retain; out: header, else ``MQTT_Retain``      the same
``MGW_MQTT_dup`` BOOLEAN         in only                                        the same
expiration                       message expiry interval (seconds left)         lost
correlation                      correlation data, raw copy in                  lost
                                 ``MGW_MQTT_correlationData`` RAW
``MGW_MQTT_responseTopic``       response topic                                 lost
``MGW_MQTT_contentType``         content type                                   lost
``MGW_MQTT_payloadFormat``       payload format indicator: text 1, raw 0        option ``MQTT_PayloadType`` (in)
``MGW_MQTT_U_x``                 user property ``x``                            lost
every other header               user property of its own name                  lost
msgid                            user property ``MGW_AQ_messageID``             lost
AQ properties                    user properties ``MGW_AQ_*`` (job option       lost
                                 ``AQ_MsgProperties``)
===============================  =============================================  =====================================

With the option ``MQTT_Envelope = JSON`` everything that is lost under 3.1.1 travels inside the payload
(:mod:`mgw.transforms.mqtt.envelope`); both sides must agree on it. How typed headers become user properties is told in
:mod:`mgw.transforms.mqtt.user_properties`. The fields of a message with the canonical payload FIELDS travel as JSON
(:data:`FIELDS_CONTENT_TYPE`).

An id that an earlier hop gave (``MGW_AQ_messageID``) goes on as ``MGW_AQ_original_msgid``. ``MGW_MQTT_qos`` of an
earlier hop does not weaken the next one: the option decides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from mgw.transforms.errors import ConversionFailure
from mgw.transforms.message import (
    MAX_CORRELATION,
    MAX_HEADER_RAW,
    MAX_HEADER_TEXT,
    MAX_HEADERS,
    MAX_SECONDS,
    Body,
    Header,
    HeaderValue,
    Message,
    PayloadKind,
    ValueType,
    check_headers,
    decode_headers,
    encode_headers,
)
from mgw.transforms.mqtt.envelope import CONTENT_TYPE, Envelope, unwrap, wrap
from mgw.transforms.mqtt.topic import TopicTemplate, check_topic
from mgw.transforms.mqtt.user_properties import (
    NULL_BODY,
    check_string,
    headers_of,
    salvaged_headers,
    user_properties,
    utf8,
)
from mgw.transforms.objects import AnyData, ObjectValue, plain_body

__all__ = [
    "FIELDS_CONTENT_TYPE",
    "NO_PROPERTIES",
    "Inbound",
    "Outbound",
    "Properties",
    "Publish",
    "inbound",
    "outbound",
]

FIELDS_CONTENT_TYPE = "application/vnd.mgw.fields+json"

_TEXT, _RAW, _BOOLEAN, _INTEGER = ValueType.TEXT, ValueType.RAW, ValueType.BOOLEAN, ValueType.INTEGER
_MESSAGE_ID, _ORIGINAL_ID = "MGW_AQ_messageID", "MGW_AQ_original_msgid"
_TOPIC, _QOS, _RETAIN, _DUP = "MGW_MQTT_topic", "MGW_MQTT_qos", "MGW_MQTT_retain", "MGW_MQTT_dup"
_CORRELATION, _RESPONSE = "MGW_MQTT_correlationData", "MGW_MQTT_responseTopic"
_CONTENT, _FORMAT = "MGW_MQTT_contentType", "MGW_MQTT_payloadFormat"
#: Fields of the PUBLISH itself with the type of their headers; they are never user properties.
_NATIVE = {
    _TOPIC: _TEXT,
    _QOS: _INTEGER,
    _RETAIN: _BOOLEAN,
    _DUP: _BOOLEAN,
    _RESPONSE: _TEXT,
    _CONTENT: _TEXT,
    _FORMAT: _INTEGER,
    _CORRELATION: _RAW,
}
_HOP = frozenset((_TOPIC, _QOS, _RETAIN, _DUP))  # told again by every hop
_MAX_INTERVAL = 0xFFFFFFFF  # seconds


class Properties(NamedTuple):
    """The properties of an MQTT 5 PUBLISH; None means absent."""

    payload_format: int | None = None
    expiry: int | None = None  # seconds
    content_type: str | None = None
    response_topic: str | None = None
    correlation: bytes | None = None
    user: Sequence[tuple[str, str]] = ()


NO_PROPERTIES = Properties()


class Publish(NamedTuple):
    """One PUBLISH. ``problem`` says what of it was malformed (such text is then readable only in part)."""

    topic: str
    payload: bytes
    qos: int = 1
    retain: bool = False
    dup: bool = False
    properties: Properties = NO_PROPERTIES
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Inbound:
    """How a source reads: ``text`` payloads that do not say what they are count as text (MQTT_PayloadType = TEXT)."""

    text: bool = False
    envelope: bool = False
    aq_properties: bool = False


@dataclass(frozen=True, slots=True)
class Outbound:
    """How a destination writes. ``topic_from_header``: MGW_MQTT_topic may choose a topic below the registered one.

    ``original``: an exception queue; nothing is limited, and what is about the hop travels as a user property.
    """

    topic: TopicTemplate
    version: int = 5
    qos: int = 1
    retain: bool = False
    envelope: bool = False
    topic_from_header: bool = False
    aq_properties: bool = False
    original: bool = False


# -- inbound ----------------------------------------------------------------------------------------------------------


def _flag_headers(flags: int) -> tuple[Header, ...]:
    return (
        Header(_QOS, _INTEGER, flags >> 1 & 3),
        Header(_RETAIN, _BOOLEAN, bool(flags & 1)),
        Header(_DUP, _BOOLEAN, bool(flags & 8)),
    )


_FLAG_HEADERS = tuple(_flag_headers(flags) for flags in range(16))
_FORMAT_HEADERS = tuple(Header(_FORMAT, _INTEGER, value) for value in range(256))


def inbound(publish: Publish, rules: Inbound) -> tuple[Message, ConversionFailure | None]:
    """The canonical message of a PUBLISH.

    A message that cannot be converted comes with the failure; it then has the payload untouched and the headers that
    could be read.
    """
    topic, payload, qos, retain, dup, properties, problem = publish
    hop = (Header(_TOPIC, _TEXT, topic), *_FLAG_HEADERS[qos << 1 | retain | dup << 3])
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
            return Message(payload.decode() if rules.text else payload, hop), None
        message = _open_envelope(publish, hop) if rules.envelope else _from_properties(publish, rules, hop)
        return (_read_aq_properties(message) if rules.aq_properties else message), None
    except UnicodeDecodeError as error:
        failure = ConversionFailure(
            f"payload of a message from topic {topic[:200]!r} is not text",
            cause=f"it is declared as UTF-8 but {error.reason} at byte {error.start}",
            cure="correct the publisher, or register the queue with MQTT_PayloadType = RAW",
        )
    except ConversionFailure as error:
        failure = error
    salvaged, no_body = salvaged_headers(properties.user)
    body = None if no_body and not payload else payload
    return Message(body, (*hop, *_field_headers(properties), *salvaged), expiration=_left(properties.expiry)), failure


def _from_properties(publish: Publish, rules: Inbound, hop: tuple[Header, ...]) -> Message:
    payload_format, expiry, content_type, _, data, user = publish.properties
    headers, no_body = headers_of(user) if user else ([], False)
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
        headers.append(Header(_CORRELATION, _RAW, data))
    if response_topic is not None:
        headers.append(Header(_RESPONSE, _TEXT, response_topic))
    if content_type is not None:
        headers.append(Header(_CONTENT, _TEXT, content_type))
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


def _open_envelope(publish: Publish, hop: tuple[Header, ...]) -> Message:
    envelope = unwrap(publish.payload, publish.topic)
    properties = publish.properties
    if properties.content_type == CONTENT_TYPE:  # these two describe the envelope, not the message
        properties = properties._replace(content_type=None, payload_format=None)
    outer = (*hop, *_field_headers(properties), *headers_of(properties.user)[0])
    names = {header.name for header in outer if header.name in _NATIVE}
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
    """First header of each name wins; absent leaves the default; a wrong type is a failure."""
    found = {name[7:]: value for name, _, value in reversed(message.headers) if name.startswith("MGW_AQ_")}
    if not found:
        return message
    changes: dict[str, Any] = {}
    try:
        if "priority" in found:
            changes["priority"] = int(found["priority"])
        if "delay" in found:
            changes["delay"] = max(0.0, float(found["delay"]))
        if "expiration" in found and message.expiration is None:
            left = float(found["expiration"])
            changes["expiration"] = left if 0 <= left < MAX_SECONDS else None  # -1 is never
    except (ValueError, OverflowError) as error:
        raise ConversionFailure(
            "an MGW_AQ_ property is not a number", cause=str(error), cure="correct the publisher"
        ) from error
    for name in ("correlation", "exception_queue"):
        if name in found and getattr(message, name) is None:
            if not isinstance(found[name], str):
                raise ConversionFailure(
                    f"MGW_AQ_{name} is not text", cause="the property has another type", cure="correct the publisher"
                )
            changes[name] = found[name]
    return replace(message, **changes)


def _fields(payload: bytes) -> tuple[Header, ...]:
    try:
        return decode_headers(payload.decode())
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise ConversionFailure(
            "payload is not what its content type says",
            cause=f"{FIELDS_CONTENT_TYPE} is a JSON array of [name, type, value], and this is not",
            cure="correct the publisher",
        ) from error


# -- outbound ---------------------------------------------------------------------------------------------------------


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
        native, travelling = _sort_headers(message.headers, hop=rules.original)
    retain = native.get(_RETAIN, rules.retain)
    chosen = native.get(_TOPIC) if rules.topic_from_header else None
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
        travelling += [Header(name, _NATIVE[name], value) for name, value in native.items() if name not in _HOP]
        payload = wrap(Envelope(message.body, tuple(travelling), message.correlation, expiry))
        properties = NO_PROPERTIES
        if rules.version >= 5:
            properties = Properties(payload_format=1, expiry=expiry, content_type=CONTENT_TYPE)
    else:
        payload = _payload(message.body)
        user = user_properties(travelling, original=rules.original)
        properties = _properties(message, payload, native, expiry, user, original=rules.original)
    return Publish(topic, payload, rules.qos, retain, False, properties)


def _sort_headers(headers: tuple[Header, ...], *, hop: bool) -> tuple[dict[str, Any], list[Header]]:
    """What goes into fields of the PUBLISH, and what travels as user properties.

    ``hop``: what every hop tells again is a user property, too.
    """
    native: dict[str, Any] = {}
    travelling: list[Header] = []
    for header in headers:
        name, kind, value = header
        wanted = _NATIVE.get(name)
        if wanted is None or (hop and name in _HOP):
            travelling.append(header)
            continue
        if kind is not wanted and not (name == _TOPIC and kind is _RAW):
            raise ConversionFailure(
                f"header {name} has type {kind.name}",
                cause=f"it is the MQTT field of that name and must be {wanted.name}",
                cure="set it with that type at the sender or in a transformation, or remove it",
            )
        native.setdefault(name, value)
    return native, travelling


def _chosen_topic(chosen: str | bytes, rules: Outbound) -> str:
    topic = chosen.decode("utf-8", "replace") if isinstance(chosen, bytes) else chosen
    below = rules.topic.fixed or rules.topic.text
    reason = check_topic(topic)
    if reason is None and topic != below and not topic.startswith(below + "/"):
        reason = f"it is not below the registered topic {below!r}"
    if reason:
        raise ConversionFailure(
            f"header {_TOPIC} cannot choose topic {topic[:100]!r}",
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
        own.append(Header(_MESSAGE_ID, _TEXT, "AQMSGID:" + message.msgid.hex()))
        earlier = [header for header in travelling if header.name == _MESSAGE_ID]
        if earlier:
            travelling = [header for header in travelling if header.name != _MESSAGE_ID]
            if not any(header.name == _ORIGINAL_ID for header in travelling):
                own.append(earlier[0]._replace(name=_ORIGINAL_ID))
    if rules.aq_properties:
        present = {header.name for header in (*own, *travelling)}
        values: list[tuple[str, ValueType, HeaderValue | None]] = [
            ("MGW_AQ_priority", _INTEGER, message.priority),
            ("MGW_AQ_delay", ValueType.DOUBLE, message.delay),
            ("MGW_AQ_expiration", ValueType.DOUBLE, -1.0 if remaining is None else remaining),
            ("MGW_AQ_correlation", _TEXT, message.correlation),
            ("MGW_AQ_exception_queue", _TEXT, message.exception_queue),
            ("MGW_AQ_enqueue_time", ValueType.DATE, message.enqueue_time),
            (_ORIGINAL_ID, _RAW, message.original_msgid),
        ]
        own += [Header(name, kind, v) for name, kind, v in values if v is not None and name not in present]
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
    data = native.get(_CORRELATION)
    if data is None and message.correlation is not None:
        data = utf8("correlation", message.correlation)
    if not native and not original:
        content_type = FIELDS_CONTENT_TYPE if kind is tuple else None
        return Properties(0 if kind is bytes or body is None else 1, expiry, content_type, None, data, user)
    content_type, response_topic = native.get(_CONTENT), native.get(_RESPONSE)
    if kind is tuple:
        content_type = FIELDS_CONTENT_TYPE
    elif content_type:  # it may be empty
        check_string(f"header {_CONTENT}", content_type)
    if response_topic is not None:
        check_string(f"header {_RESPONSE}", response_topic)
        if "+" in response_topic or "#" in response_topic:
            raise ConversionFailure(
                f"header {_RESPONSE} cannot be {response_topic[:100]!r}",
                cause="it holds a wildcard",
                cure="set it to the name of a topic at the sender or in a transformation",
            )
    form = native.get(_FORMAT) if original else _payload_format(body, payload, native)
    return Properties(form, expiry, content_type, response_topic, data, user)


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
    declared = native.get(_FORMAT)
    if declared is None:
        return 1 if isinstance(body, str | tuple | ObjectValue) else 0
    if declared not in (0, 1):
        raise ConversionFailure(
            f"header {_FORMAT} is {declared}",
            cause="only 0 (bytes) and 1 (UTF-8 text) exist",
            cure="correct it at the sender or in a transformation",
        )
    if declared == 1 and isinstance(body, bytes):
        try:
            payload.decode()
        except UnicodeDecodeError as error:
            raise ConversionFailure(
                f"header {_FORMAT} says text, but the body is not",
                cause=f"{error.reason} at byte {error.start}",
                cure="set it to 0 at the sender or in a transformation",
            ) from error
    return int(declared)
