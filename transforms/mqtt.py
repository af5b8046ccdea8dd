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
msgid                            user property ``MGW_AQ_messageID``            lost
AQ properties                    user properties ``MGW_AQ_*`` (job option       lost
                                 ``AQ_MsgProperties``)
===============================  =============================================  =====================================

With the option ``MQTT_Envelope = JSON`` everything that is lost under 3.1.1 travels inside the payload (:func:`_wrap`);
both sides must agree on it.

User properties are text. What is not plain text travels as decimal text or base64, and one more user property,
``MGW_types``, tells the receiving gateway the types, so that a header arrives under its own name and with its own type.
An id that an earlier hop gave (``MGW_AQ_messageID``) goes on as ``MGW_AQ_original_msgid``.
A publisher cannot forge the envelope: a user property with the name of one of the fields above arrives as
``MGW_MQTT_U_<name>``.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from transforms.errors import ConversionFailure
from transforms.message import (
    MAX_CORRELATION,
    MAX_HEADER_NAME,
    MAX_HEADER_RAW,
    MAX_HEADER_TEXT,
    MAX_HEADERS,
    Header,
    HeaderValue,
    Message,
    PayloadKind,
    ValueType,
    check_headers,
    decode_headers,
    encode_headers,
)
from transforms.mqtt_topic import TopicTemplate, check_topic

__all__ = ["FIELDS_CONTENT_TYPE", "Inbound", "Outbound", "Properties", "Publish", "inbound", "outbound"]

FIELDS_CONTENT_TYPE = "application/vnd.mgw.fields+json"
ENVELOPE_CONTENT_TYPE = "application/vnd.mgw.envelope+json"

_TEXT, _RAW, _BOOLEAN, _INTEGER = ValueType.TEXT, ValueType.RAW, ValueType.BOOLEAN, ValueType.INTEGER
_DOUBLE, _DATE, _FLOAT = ValueType.DOUBLE, ValueType.DATE, ValueType.FLOAT
_BASE64_TEXT = 11  # code in MGW_types: TEXT that a user property cannot hold as it is (control characters)
_BY_CODE = {int(member): member for member in ValueType}

_USER = "MGW_MQTT_U_"
_TYPES = "MGW_types"
_NULL_BODY = "MGW_nullBody"
_MESSAGE_ID, _ORIGINAL_ID = "MGW_AQ_messageID", "MGW_AQ_original_msgid"
_TOPIC, _RETAIN, _CORRELATION = "MGW_MQTT_topic", "MGW_MQTT_retain", "MGW_MQTT_correlationData"
_RESPONSE, _CONTENT, _FORMAT = "MGW_MQTT_responseTopic", "MGW_MQTT_contentType", "MGW_MQTT_payloadFormat"
#: Fields of the PUBLISH itself with the type of their headers; they are never user properties.
_NATIVE = {
    _TOPIC: _TEXT,
    "MGW_MQTT_qos": _INTEGER,
    _RETAIN: _BOOLEAN,
    "MGW_MQTT_dup": _BOOLEAN,
    _RESPONSE: _TEXT,
    _CONTENT: _TEXT,
    _FORMAT: _INTEGER,
    _CORRELATION: _RAW,
}
_HOP = frozenset((_TOPIC, "MGW_MQTT_qos", "MGW_MQTT_dup"))  # told anew by every hop
_RESERVED = frozenset((*_NATIVE, _TYPES, _NULL_BODY))
#: What brokers refuse in UTF-8 strings (MQTT 5.0 §1.5.4; Mosquitto disconnects whoever sends it).
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff\U0001fffe\U0001ffff\U0010fffe\U0010ffff]")
_MAX_STRING = 65535  # bytes
_MAX_INTERVAL = 0xFFFFFFFF  # seconds


class Properties(NamedTuple):
    """The properties of an MQTT 5 PUBLISH; None means absent."""

    payload_format: int | None = None
    expiry: int | None = None
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
    """How a destination writes. ``topic_from_header``: MGW_MQTT_topic may choose a topic below the registered one."""

    topic: TopicTemplate
    version: int = 5
    qos: int = 1
    retain: bool = False
    envelope: bool = False
    topic_from_header: bool = False
    aq_properties: bool = False


# -- inbound --------------------------------------------------------------------------------------------------------


def _flag_headers(flags: int) -> tuple[Header, ...]:
    return (
        Header("MGW_MQTT_qos", _INTEGER, flags >> 1 & 3),
        Header(_RETAIN, _BOOLEAN, bool(flags & 1)),
        Header("MGW_MQTT_dup", _BOOLEAN, bool(flags & 8)),
    )


_FLAG_HEADERS = tuple(_flag_headers(flags) for flags in range(16))
_FORMAT_HEADERS = tuple(Header(_FORMAT, _INTEGER, value) for value in range(256))


def inbound(publish: Publish, rules: Inbound) -> tuple[Message, ConversionFailure | None]:
    """The canonical message of a PUBLISH.

    A message that cannot be converted comes with the failure; it then has the payload untouched and the headers that
    could be read.
    """
    topic, payload, qos, retain, dup, properties, problem = publish
    envelope = (Header(_TOPIC, _TEXT, topic), *_FLAG_HEADERS[qos << 1 | retain | dup << 3])
    try:
        if problem:
            raise ConversionFailure(
                f"message from topic {topic[:200]!r} is malformed",
                cause=problem,
                cure="correct the publisher; the payload is kept as it came",
            )
        if properties is NO_PROPERTIES and not rules.envelope:
            if len(topic) > MAX_HEADER_TEXT:
                check_headers(envelope)
            return Message(payload.decode() if rules.text else payload, envelope), None
        return _inbound(publish, rules, envelope), None
    except UnicodeDecodeError as error:
        failure = ConversionFailure(
            f"payload of a message from topic {topic[:200]!r} is not text",
            cause=f"it is declared as UTF-8 but {error.reason} at byte {error.start}",
            cure="correct the publisher, or register the queue with MQTT_PayloadType = RAW",
        )
        return _salvage(publish, envelope), failure
    except ConversionFailure as failure:
        return _salvage(publish, envelope), failure


def _salvage(publish: Publish, envelope: tuple[Header, ...]) -> Message:
    headers = list(envelope)
    for name, value in publish.properties.user:
        headers.append(Header(_USER + name if name in _RESERVED or not name.startswith("MGW_") else name, _TEXT, value))
    kept = [h for h in headers if len(h.name) <= MAX_HEADER_NAME and len(str(h.value)) <= MAX_HEADER_TEXT]
    return Message(publish.payload, tuple(kept[:MAX_HEADERS]))


def _inbound(publish: Publish, rules: Inbound, envelope: tuple[Header, ...]) -> Message:
    payload_format, expiry, content_type, response_topic, data, user = publish.properties
    headers = list(envelope)
    correlation: str | None = None
    large = len(publish.topic) > MAX_HEADER_TEXT
    if data is not None:
        headers.append(Header(_CORRELATION, _RAW, data))
        large = large or len(data) > MAX_HEADER_RAW
        if len(data) <= MAX_CORRELATION:
            try:
                correlation = data.decode()
            except UnicodeDecodeError:
                correlation = None
    if response_topic is not None:
        headers.append(Header(_RESPONSE, _TEXT, response_topic))
        large = large or len(response_topic) > MAX_HEADER_TEXT
    if content_type is not None:
        headers.append(Header(_CONTENT, _TEXT, content_type))
        large = large or len(content_type) > MAX_HEADER_TEXT
    if payload_format is not None:
        headers.append(_FORMAT_HEADERS[payload_format])
    null_body = False
    if user:
        types = next((value for name, value in user if name == _TYPES), None)
        null_body = any(name == _NULL_BODY for name, _ in user) and not publish.payload
        if types is None:
            for name, value in user:
                headers.append(Header(_header_name(name), _TEXT, value))
                large = large or len(value) > MAX_HEADER_TEXT
        else:
            _typed(user, types, headers)
            large = True
        if null_body:
            headers = [h for h in headers if h.name != _USER + _NULL_BODY]
    if large or len(headers) > MAX_HEADERS:
        check_headers(tuple(headers))
    message: Message
    if rules.envelope:
        message = _unwrap(publish, headers)
    elif content_type == FIELDS_CONTENT_TYPE:
        message = Message(_fields(publish.payload), tuple(headers), kind=PayloadKind.FIELDS, correlation=correlation)
    else:
        body: bytes | str | None = publish.payload
        if null_body:
            body = None
        elif payload_format == 1 or (payload_format is None and rules.text):
            body = publish.payload.decode()
        message = Message(
            body, tuple(headers), correlation=correlation, expiration=None if expiry is None else max(1.0, float(expiry))
        )
        if not rules.aq_properties:
            return message
    if expiry is not None and message.expiration is None:
        message = _replace(message, expiration=max(1.0, float(expiry)))
    if correlation is not None and message.correlation is None:
        message = _replace(message, correlation=correlation)
    return _read_aq_properties(message) if rules.aq_properties else message


@lru_cache(4096)
def _header_name(name: str) -> str:
    """Header of a user property of whose type nothing is known."""
    header_name = name if name.startswith("MGW_") and name not in _RESERVED else _USER + name
    if len(header_name) > MAX_HEADER_NAME:
        raise ConversionFailure(
            f"user property {name[:40]!r}... has a name of {len(name)} characters",
            cause=f"as header {header_name[:20]!r}... it may have {MAX_HEADER_NAME}",
            cure="shorten the name at the publisher",
        )
    return header_name


def _typed(user: Sequence[tuple[str, str]], types: str, headers: list[Header]) -> None:
    codes = _read_types(types)
    seen: dict[str, int] = {}
    skipped = False
    for name, text in user:
        if name == _TYPES and not skipped:
            skipped = True
            continue
        code: int | tuple[int, ...] = codes.get(name, 0)
        if code.__class__ is tuple:
            count = seen[name] = seen.get(name, -1) + 1
            code = code[count] if count < len(code) else 0  
        if not code:
            headers.append(Header(_header_name(name), _TEXT, text))
            continue
        own = code > 0 and name not in _RESERVED  # type: ignore[operator]
        header_name = name if own else _USER + name
        kind, value = _read_value(name, abs(code), text)  # type: ignore[arg-type]
        headers.append(Header(header_name, kind, value))


@lru_cache(1024)
def _read_types(text: str) -> dict[str, int | tuple[int, ...]]:
    try:
        codes = {
            name: tuple(map(int, code)) if isinstance(code, list) else int(code)
            for name, code in json.loads(text).items()
        }
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ConversionFailure(
            f"user property {_TYPES} cannot be read",
            cause=f"it is {text[:100]!r}, not the JSON object that a gateway writes",
            cure="let publishers leave out user properties called MGW_types",
        ) from error
    return codes


def _read_value(name: str, code: int, text: str) -> tuple[ValueType, HeaderValue]:
    try:
        if code == _BASE64_TEXT:
            return _TEXT, base64.b64decode(text, validate=True).decode()
        kind = _BY_CODE[code]
        if kind is _TEXT:
            return kind, text
        if kind is _RAW:
            return kind, base64.b64decode(text, validate=True)
        if kind is _BOOLEAN:
            return kind, {"true": True, "false": False}[text]
        if kind in (_FLOAT, _DOUBLE, _DATE):
            return kind, float(text)
        return kind, int(text)
    except (KeyError, ValueError, binascii.Error) as error:
        raise ConversionFailure(
            f"user property {name[:250]!r} cannot be read",
            cause=f"{_TYPES} gives it type {code}, but its value is {text[:100]!r}",
            cure="let whoever changes user properties on the way drop MGW_types too",
        ) from error


def _read_aq_properties(message: Message) -> Message:
    """First header of each name wins; absent leaves the default; a wrong type is a failure."""
    found: dict[str, HeaderValue] = {}
    for name, _, value in message.headers:
        if name.startswith("MGW_AQ_"):
            found.setdefault(name[7:], value)
    changes: dict[str, Any] = {}
    try:
        if "priority" in found:
            changes["priority"] = int(found["priority"])
        if "delay" in found:
            changes["delay"] = max(0.0, float(found["delay"]))
        if "expiration" in found and message.expiration is None and float(found["expiration"]) >= 0:
            changes["expiration"] = float(found["expiration"])
    except ValueError as error:
        raise ConversionFailure(
            "an MGW_AQ_ property is not a number", cause=str(error), cure="correct the publisher"
        ) from error
    for name, attribute in (("correlation", "correlation"), ("exception_queue", "exception_queue")):
        if name in found and getattr(message, attribute) is None:
            if not isinstance(found[name], str):
                raise ConversionFailure(
                    f"MGW_AQ_{name} is not text", cause="the property has another type", cure="correct the publisher"
                )
            changes[attribute] = found[name]
    return _replace(message, **changes)


def _replace(message: Message, **changes: Any) -> Message:
    from dataclasses import replace

    return replace(message, **changes) if changes else message


def _fields(payload: bytes) -> tuple[Header, ...]:
    try:
        return decode_headers(payload.decode())
    except (ValueError, KeyError, TypeError) as error:
        raise ConversionFailure(
            "payload is not what its content type says",
            cause=f"{FIELDS_CONTENT_TYPE} is a JSON array of [name, type, value], and this is not",
            cure="correct the publisher",
        ) from error


# -- outbound -------------------------------------------------------------------------------------------------------


def outbound(message: Message, rules: Outbound, now: float) -> Publish:
    """The PUBLISH of a canonical message at time ``now`` (epoch seconds).

    Raises:
        ConversionFailure: the topic cannot be filled in, a reserved header has the wrong type, or something in the
            message can never travel.
    """
    native, travelling = _sort_headers(message)
    retain = rules.retain
    if _RETAIN in native:
        retain = native[_RETAIN]
    topic = _choose_topic(message, rules, native)
    if rules.version < 5 and not rules.envelope:
        return Publish(topic, _payload(message.body), rules.qos, retain)
    remaining = message.remaining(now) if message.expires_at is not None else message.expiration
    expiry = None if remaining is None else max(1, math.ceil(remaining))
    if expiry is not None and expiry > _MAX_INTERVAL:
        expiry = None  # more than 136 years is never
    own = _own_headers(message, rules, remaining, travelling)
    if own:
        travelling = own + travelling
    if rules.envelope:
        properties = NO_PROPERTIES
        if rules.version >= 5:
            properties = Properties(payload_format=1, expiry=expiry, content_type=ENVELOPE_CONTENT_TYPE)
        return Publish(topic, _wrap(message, travelling, native, expiry), rules.qos, retain, False, properties)
    body = message.body
    user = _user_properties(travelling)
    if body is None:
        user.append((_NULL_BODY, "1"))
    payload = _payload(body)
    content_type, response_topic = native.get(_CONTENT), native.get(_RESPONSE)
    if body.__class__ is tuple:
        content_type = FIELDS_CONTENT_TYPE
    elif content_type is not None:
        _check_string(_CONTENT, content_type)
    if response_topic is not None:
        _check_string(_RESPONSE, response_topic)
        reason = check_topic(response_topic)
        if reason and not response_topic.startswith("$"):
            raise ConversionFailure(
                f"header {_RESPONSE} cannot be {response_topic[:100]!r}",
                cause=reason,
                cure="let the sender or a transformation set a topic name",
            )
    data = native.get(_CORRELATION)
    if data is None and message.correlation is not None:
        data = _utf8("correlation", message.correlation)
    return Publish(
        topic,
        payload,
        rules.qos,
        retain,
        False,
        Properties(_payload_format(body, payload, native), expiry, content_type, response_topic, data, user),
    )


def _sort_headers(message: Message) -> tuple[dict[str, Any], list[Header]]:
    """What goes into fields of the PUBLISH, and what travels as user properties."""
    native: dict[str, Any] = {}
    travelling: list[Header] = []
    if not message.headers:
        return native, travelling
    check_headers(message.headers)
    for header in message.headers:
        name, kind, value = header
        wanted = _NATIVE.get(name)
        if wanted is None:
            travelling.append(header)
            continue
        if kind is not wanted and not (name == _TOPIC and kind is _RAW):
            raise ConversionFailure(
                f"header {name} has type {kind.name}",
                cause=f"it is the MQTT field of that name and must be {wanted.name}",
                cure="let the sender or a transformation set it with that type, or not at all",
            )
        native.setdefault(name, value)
    return native, travelling


def _choose_topic(message: Message, rules: Outbound, native: dict[str, Any]) -> str:
    chosen = native.get(_TOPIC) if rules.topic_from_header else None
    if chosen is None:
        return rules.topic.fill(message)
    if isinstance(chosen, bytes):
        chosen = chosen.decode("utf-8", "replace")
    below = rules.topic.text
    reason = check_topic(chosen)
    if reason is None and chosen != below and not chosen.startswith(below + "/"):
        reason = f"it is not below the registered topic {below!r}"
    if reason:
        raise ConversionFailure(
            f"header {_TOPIC} cannot choose topic {chosen[:100]!r}",
            cause=reason,
            cure=f"let the sender or a transformation choose a topic below {below!r}",
        )
    return str(chosen)


def _own_headers(
    message: Message, rules: Outbound, remaining: float | None, travelling: list[Header]
) -> list[Header]:
    """The id, always; with AQ_MsgProperties the AQ properties that no explicit header sets."""
    own: list[Header] = []
    if message.msgid is not None:
        own.append(Header(_MESSAGE_ID, _TEXT, "AQMSGID:" + message.msgid.hex()))
        for position, header in enumerate(travelling):
            if header.name == _MESSAGE_ID:  # of an earlier hop
                if any(other.name == _ORIGINAL_ID for other in travelling):
                    del travelling[position]
                else:
                    travelling[position] = Header(_ORIGINAL_ID, header.type, header.value)
                break
    if not rules.aq_properties:
        return own
    present = {header.name for header in travelling}
    values: list[tuple[str, ValueType, HeaderValue | None]] = [
        ("MGW_AQ_priority", _INTEGER, message.priority),
        ("MGW_AQ_delay", _DOUBLE, message.delay),
        ("MGW_AQ_expiration", _DOUBLE, -1.0 if remaining is None else remaining),
        ("MGW_AQ_correlation", _TEXT, message.correlation),
        ("MGW_AQ_exception_queue", _TEXT, message.exception_queue),
        ("MGW_AQ_enqueue_time", _DATE, message.enqueue_time),
        (_ORIGINAL_ID, _RAW, message.original_msgid),
    ]
    own.extend(Header(name, kind, value) for name, kind, value in values if value is not None and name not in present)
    return own


def _user_properties(headers: list[Header]) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    codes: list[tuple[str, int]] = []
    typed = False
    for name, kind, value in headers:
        prop, default, explicit = _property_name(name)
        if kind is _TEXT:
            text, code = value, default
            if not (text.isascii() and text.isprintable()) and _UNSAFE.search(text):  # type: ignore[union-attr, arg-type]
                text = base64.b64encode(_utf8(f"header {name!r}", text)).decode()  # type: ignore[arg-type]
                code = _BASE64_TEXT * explicit
        else:
            code = kind * explicit
            if kind is _RAW:
                text = base64.b64encode(value).decode()  # type: ignore[arg-type]
            elif kind is _BOOLEAN:
                text = "true" if value else "false"
            else:
                text = repr(value)
        if code:
            typed = True
        codes.append((prop, code))
        pairs.append((prop, text))  # type: ignore[arg-type]
    if typed:
        pairs.append((_TYPES, _types_text(tuple(codes))))
    return pairs


@lru_cache(4096)
def _property_name(name: str) -> tuple[str, int, int]:
    """User property of a header, its code when it is TEXT, and the sign of explicit codes (-1: MGW_MQTT_U_)."""
    if name in (_TYPES, _NULL_BODY):
        raise ConversionFailure(
            f"header {name} cannot travel over MQTT",
            cause="the gateway uses a user property of that name itself",
            cure="let the sender or a transformation use another name",
        )
    if name.startswith(_USER):
        prop = name[len(_USER) :]
        result = (prop, -1 if prop.startswith("MGW_") and prop not in _RESERVED else 0, -1)
    else:
        prop = name
        result = (name, 0 if name.startswith("MGW_") else 1, 1)
    _check_string(f"the name of header {name[:250]!r}", prop)
    return result


@lru_cache(1024)
def _types_text(codes: tuple[tuple[str, int], ...]) -> str:
    grouped: dict[str, list[int]] = {}
    for name, code in codes:
        grouped.setdefault(name, []).append(code)
    return json.dumps(
        {name: found[0] if len(found) == 1 else found for name, found in grouped.items() if any(found)},
        separators=(",", ":"),
    )


def _payload(body: object) -> bytes:
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return _utf8("the text body", body)
    if body is None:
        return b""
    return (encode_headers(body) or "[]").encode()  # type: ignore[arg-type]


def _payload_format(body: object, payload: bytes, native: dict[str, Any]) -> int:
    declared = native.get(_FORMAT)
    if declared is None:
        return 1 if body.__class__ is str or body.__class__ is tuple else 0
    if declared not in (0, 1):
        raise ConversionFailure(
            f"header {_FORMAT} is {declared}", cause="only 0 (bytes) and 1 (UTF-8 text) exist", cure="correct the header"
        )
    if declared == 1 and body.__class__ is bytes:
        try:
            payload.decode()
        except UnicodeDecodeError as error:
            raise ConversionFailure(
                f"header {_FORMAT} says text, but the body is not",
                cause=f"{error.reason} at byte {error.start}",
                cure="let the sender or a transformation set it to 0",
            ) from error
    return int(declared)


def _utf8(what: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ConversionFailure(
            f"{what} cannot be sent as UTF-8", cause=f"{error.reason} at character {error.start}", cure="correct the text"
        ) from error


def _check_string(what: str, text: str) -> None:
    bad = _UNSAFE.search(text)
    if bad or not text:
        raise ConversionFailure(
            f"{what} cannot travel over MQTT",
            cause=f"it holds the character U+{ord(bad.group()):04X}, which brokers refuse" if bad else "it is empty",
            cure="let the sender or a transformation change it",
        )
    if len(text) * 4 > _MAX_STRING and len(text.encode()) > _MAX_STRING:
        raise ConversionFailure(
            f"{what} cannot travel over MQTT",
            cause=f"it is longer than {_MAX_STRING} bytes",
            cure="let the sender or a transformation shorten it",
        )


# -- envelope -------------------------------------------------------------------------------------------------------


def _wrap(message: Message, travelling: list[Header], native: dict[str, Any], expiry: int | None) -> bytes:
    """``{"mgw": 1, "headers": [[name, type, value], ...], "body": ..., "body_type": ...}`` with ``correlation`` and
    ``expiration`` (seconds left) where the message has them; raw bodies are base64."""
    headers = travelling + [Header(n, _NATIVE[n], v) for n, v in native.items() if n not in _HOP and n != _RETAIN]
    body = message.body
    document: dict[str, Any] = {"mgw": 1, "headers": json.loads(encode_headers(tuple(headers)) or "[]")}
    if message.correlation is not None:
        document["correlation"] = message.correlation
    if expiry is not None:
        document["expiration"] = expiry
    if isinstance(body, str):
        document |= {"body_type": "text", "body": body}
    elif isinstance(body, bytes):
        document |= {"body_type": "raw", "body": base64.b64encode(body).decode()}
    elif body is None:
        document |= {"body_type": "none"}
    else:
        document |= {"body_type": "fields", "body": json.loads(encode_headers(body) or "[]")}
    return json.dumps(document, separators=(",", ":")).encode()


def _unwrap(publish: Publish, headers: list[Header]) -> Message:
    try:
        document = json.loads(publish.payload)
        if document["mgw"] != 1:
            raise ValueError(f"envelope version {document['mgw']}")
        inner = decode_headers(json.dumps(document["headers"]))
        kind, body = document["body_type"], document.get("body")
        payload_kind = PayloadKind.BASIC
        if kind == "raw":
            body = base64.b64decode(body, validate=True)
        elif kind == "fields":
            body, payload_kind = decode_headers(json.dumps(body)), PayloadKind.FIELDS
        elif kind == "none":
            body = None
        elif kind != "text" or not isinstance(body, str):
            raise ValueError(f"body_type {kind!r}")
        expiration, correlation = document.get("expiration"), document.get("correlation")
        expiration = None if expiration is None else max(1.0, float(expiration))
        if correlation is not None and not isinstance(correlation, str):
            raise ValueError("correlation is not text")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConversionFailure(
            f"message from topic {publish.topic[:200]!r} is no JSON envelope",
            cause=f"the queue is registered with MQTT_Envelope = JSON, but reading the payload gave {error!r}"[:300],
            cure="let the publisher write envelopes, or register the queue without MQTT_Envelope",
        ) from error
    if publish.properties.content_type == ENVELOPE_CONTENT_TYPE:  # these two describe the envelope, not the message
        headers = [header for header in headers if header.name not in (_CONTENT, _FORMAT)]
    given = {header.name for header in headers if header.name in _NATIVE}
    for header in inner:
        headers.append(Header(_USER + header.name, *header[1:]) if header.name in given else header)
    check_headers(tuple(headers))
    if correlation is not None and len(correlation) > MAX_CORRELATION:
        raise ConversionFailure(
            f"correlation has {len(correlation)} characters",
            cause=f"at most {MAX_CORRELATION} are possible",
            cure="correct the publisher",
        )
    return Message(body, tuple(headers), kind=payload_kind, correlation=correlation, expiration=expiration)
