"""CloudEvents 1.0: from each form to each other form, in the bindings of Kafka, AMQP and MQTT.

An event is *structured* when the body holds it whole as JSON, and *binary* when the body is its data and headers hold
its attributes. The headers of a binary event are ``ce_id`` at Kafka, ``cloudEvents:id`` (or ``cloudEvents_id``) in AMQP
and ``id`` in MQTT 5. Its content type is that of the data.

Sources: CloudEvents 1.0.2, JSON event format, and the bindings for Kafka (§3.2), AMQP (§3.1) and MQTT (§3.1).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Literal

from mgw.transforms.codecs.content import (
    content_type,
    is_json,
    text_charset,
    text_or_bytes,
    with_body,
    with_content_type,
)
from mgw.transforms.errors import ConversionFailure
from mgw.transforms.header_table import MESSAGE_ID, TRACE
from mgw.transforms.message import Header, HeaderValue, Message, ValueType
from mgw.transforms.payloads.fields import RANGES
from mgw.transforms.payloads.json_text import dump_json, parse_json

__all__ = ["STRUCTURED", "Form", "as_event"]

Form = Literal["structured", "kafka", "amqp", "mqtt"]
#: Content type of an event as JSON.
STRUCTURED = "application/cloudevents+json"
_PREFIXES: Mapping[str, str] = {"kafka": "ce_", "amqp": "cloudEvents:", "mqtt": ""}
_ALL_PREFIXES = ("ce_", "cloudEvents:", "cloudEvents_")
_REQUIRED = ("id", "source", "type")
_NAME = re.compile("[a-z0-9]+")
_NO_ATTRIBUTES = ("data", "data_base64", "datacontenttype")
_VERSION = "1.0"
_ID_NAMES = ("MGW_AMQP_messageId", MESSAGE_ID)


def as_event(message: Message, form: Form, source: str | None, type_: str | None, subject: str | None) -> Message:
    """The event of a message in another form; of a message that is no event, an event with this source and type.

    Raises:
        ConversionFailure: the message is no event, and no source and type are given; a required attribute is missing;
            the body is fields, an object or ANYDATA; JSON has no form for a number in it.
    """
    try:
        return _as_event(message, form, source, type_, subject)
    except (ValueError, OverflowError, OSError) as error:  # a number that is not finite, a time beyond the year 9999
        raise _refused(f"it holds what JSON does not have: {error}") from None


def _as_event(message: Message, form: Form, source: str | None, type_: str | None, subject: str | None) -> Message:
    found = _read(message)
    if found is None:
        if source is None or type_ is None:
            raise _refused("it is no event, and the options source and type are not given")
        attributes = _made(message, source, type_, subject)
        headers, data, media = message.headers, message.body, content_type(message)
    else:
        attributes, headers, data, media = found
    for name in _REQUIRED:
        if not isinstance(attributes.get(name), str) or not attributes[name]:
            raise _refused(f"its attribute {name} is missing")
    if data is not None and not isinstance(data, (str, bytes)):
        raise _refused("its body is fields, an object or ANYDATA")
    plain = replace(message, headers=headers)
    if form == "structured":
        return _structured(plain, attributes, data, media)
    prefix = _PREFIXES[form]
    made = tuple(_header(prefix + name, value) for name, value in attributes.items())
    changed = with_content_type(with_body(plain, data), media)
    return replace(changed, headers=(*changed.headers, *made))


# -- reading -----------------------------------------------------------------------------------------------------------

_Event = tuple[dict[str, Any], tuple[Header, ...], Any, "str | None"]


def _read(message: Message) -> _Event | None:
    """Attributes, the other headers, data and its content type; None: the message is no event."""
    media = content_type(message)
    plain = (media or "").partition(";")[0].strip().lower()
    if plain == STRUCTURED:
        return _read_structured(message)
    if plain.startswith("application/cloudevents"):
        raise _refused(f"events of content type {plain} are not read")
    for prefix in (*_ALL_PREFIXES, ""):
        version = next((h.value for h in message.headers if h.name == f"{prefix}specversion"), None)
        if version is None:
            continue
        if version != _VERSION:
            raise _refused(f"its specversion is {version!r:.40}, not {_VERSION}")
        return _read_binary(message, prefix, media)
    return None


def _read_binary(message: Message, prefix: str, media: str | None) -> _Event:
    """MQTT does not mark attributes: every user property with a name that an attribute may have is one.

    Those of the trace context stay headers, under which tracing finds them at every broker.
    """
    attributes: dict[str, Any] = {}
    others: list[Header] = []
    for header in message.headers:
        name = header.name.removeprefix(prefix)
        traced = not prefix and name in TRACE
        if header.name.startswith(prefix) and _NAME.fullmatch(name) and name not in attributes and not traced:
            attributes[name] = _attribute(header)
        else:
            others.append(header)
    return attributes, tuple(others), message.body, media


def _attribute(header: Header) -> Any:
    kind, value = header.type, header.value
    if kind is ValueType.BOOLEAN or kind in RANGES:
        return value
    if kind is ValueType.DATE and isinstance(value, (int, float)):
        return _time(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value if isinstance(value, str) else str(value)


def _read_structured(message: Message) -> _Event:
    event = _json_object(message.body)
    if event.get("specversion") != _VERSION:
        raise _refused(f"its specversion is {event.get('specversion')!r:.40}, not {_VERSION}")
    media = event.get("datacontenttype")
    if media is not None and not isinstance(media, str):
        raise _refused("its datacontenttype is no text")
    attributes: dict[str, Any] = {}
    for name, value in event.items():
        if name in _NO_ATTRIBUTES or value is None:
            continue
        if not _NAME.fullmatch(name) or not isinstance(value, (str, bool, int)):
            raise _refused(f"{name!r:.40} is no attribute: a name has small letters and digits, a value is simple")
        attributes[name] = value
    if event.get("data_base64") is not None:
        return attributes, message.headers, _from_base64(event["data_base64"], media), media
    if "data" not in event:
        return attributes, message.headers, None, media
    data = event["data"]
    if isinstance(data, str) and media is not None and not is_json(media):
        return attributes, message.headers, data, media
    return attributes, message.headers, dump_json(data), media or "application/json"


def _json_object(body: Any) -> dict[str, Any]:
    if not isinstance(body, (str, bytes)):
        raise _refused("its content type says that it is structured, and the body is no JSON")
    try:
        event = parse_json(body)
    except ValueError as error:
        raise _refused(f"its body is no JSON: {error}") from None
    if not isinstance(event, dict):
        raise _refused("its body is no JSON object")
    return event


def _from_base64(text: Any, media: str | None) -> str | bytes:
    try:
        return text_or_bytes(base64.b64decode(text, validate=True), media)
    except (binascii.Error, TypeError, ValueError):
        raise _refused("its data_base64 is not base64") from None


# -- making ------------------------------------------------------------------------------------------------------------


def _made(message: Message, source: str, type_: str, subject: str | None) -> dict[str, Any]:
    """Attributes of a message that was no event: the id is that of its sender, or that of the hub."""
    given = next((h.value for h in message.headers if h.name in _ID_NAMES and isinstance(h.value, str)), None)
    own = message.msgid.hex().upper() if message.msgid else message.correlation
    identity = given or own
    if identity is None:
        raise _refused("it has no message id, no correlation and no id of the hub, of which the event's id is made")
    attributes: dict[str, Any] = {"specversion": _VERSION, "id": identity, "source": source, "type": type_}
    if subject is not None:
        attributes["subject"] = subject
    if message.enqueue_time is not None:
        attributes["time"] = _time(message.enqueue_time)
    return attributes


def _structured(
    message: Message, attributes: Mapping[str, Any], data: str | bytes | None, media: str | None
) -> Message:
    event = dict(attributes)
    if media is not None:
        event["datacontenttype"] = media
    if isinstance(data, bytes) and text_charset(media) is not None:
        data = text_or_bytes(data, media)
    if isinstance(data, bytes):
        event["data_base64"] = base64.b64encode(data).decode()
    elif data is not None:
        event["data"] = _json_or_text(data, media)
        if media is None:
            event["datacontenttype"] = "text/plain"
    return with_content_type(with_body(message, dump_json(event)), STRUCTURED)


def _json_or_text(data: str, media: str | None) -> Any:
    if not is_json(media):
        return data
    try:
        return parse_json(data)
    except ValueError as error:
        raise _refused(f"its content type is {media}, and its data is no JSON: {error}") from None


def _header(name: str, value: Any) -> Header:
    if isinstance(value, bool):
        return Header(name, ValueType.BOOLEAN, value)
    if isinstance(value, int):
        low, high = RANGES[ValueType.INTEGER]
        return Header(name, ValueType.INTEGER if low <= value <= high else ValueType.LONG, value)
    checked: HeaderValue = value
    return Header(name, ValueType.TEXT, checked)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _refused(cause: str) -> ConversionFailure:
    return ConversionFailure(
        "the message cannot be converted to a CloudEvent",
        cause=cause,
        cure="correct the sender, or give the options source and type of the transformation",
    )
