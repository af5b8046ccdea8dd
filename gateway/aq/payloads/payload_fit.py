"""What transformations take and give: bodies checked against a payload type, values made bodies of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from mgw.gateway.aq.model import PayloadType
from mgw.gateway.aq.payloads.anydata import wrap
from mgw.gateway.aq.payloads.forms import Payload
from mgw.transforms.language.values import to_text
from mgw.transforms.message import Body, Message, PayloadKind
from mgw.transforms.objects import AnyData, ObjectValue, object_json
from mgw.transforms.payloads.fields import json_to_fields
from mgw.transforms.payloads.jms import JMS_ANY
from mgw.transforms.payloads.json_text import dump_json, parse_exact, parse_json

__all__ = ["as_payload", "as_source"]

_SOURCES: Mapping[PayloadType, tuple[type, ...]] = {
    PayloadType.RAW: (bytes,),
    PayloadType.BASIC: (bytes, str),
    PayloadType.TEXT: (str,),
    PayloadType.JSON: (str,),
    PayloadType.XMLTYPE: (str,),
    PayloadType.FIELDS: (tuple,),
    PayloadType.ANYDATA: (AnyData,),
    PayloadType.OBJECT: (ObjectValue, dict),
}


def as_source(source: Payload, message: Message) -> Message:
    """A message whose body is of a payload type.

    Raises:
        ValueError, Misfit: it is not.
    """
    body: Any = message.body
    if body is None:
        return message
    if not isinstance(body, _SOURCES[source.kind]):
        raise ValueError(f"it takes {source.name}, the body is of Python type {type(body).__name__}")
    if source.object_type is not None:
        return replace(message, body=source.object_type.type.fit(body), kind=PayloadKind.OBJECT)
    return message


def as_payload(target: Payload, value: Any) -> tuple[PayloadKind, Body]:
    """A computed value as the body of a message of a payload type.

    Raises:
        ValueError, Misfit, AqError, ConversionFailure, NoValue: it has no form there.
    """
    if value is None:
        return _KINDS.get(target.kind, PayloadKind.BASIC), None
    return _TARGETS[target.kind](target, value)


_KINDS = {
    PayloadType.RAW: PayloadKind.RAW,
    PayloadType.FIELDS: PayloadKind.FIELDS,
    PayloadType.OBJECT: PayloadKind.OBJECT,
    PayloadType.ANYDATA: PayloadKind.ANYDATA,
}


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (dict, list)):
        return dump_json(value)
    if isinstance(value, AnyData):
        raise ValueError("ANYDATA must be unwrapped first")
    if isinstance(value, (ObjectValue, tuple)):
        return object_json(value)
    return to_text(value)


def _to_raw(_: Payload, value: Any) -> tuple[PayloadKind, Body]:
    return PayloadKind.RAW, value if isinstance(value, bytes) else _text(value).encode()


def _to_basic(_: Payload, value: Any) -> tuple[PayloadKind, Body]:
    return PayloadKind.BASIC, value if isinstance(value, bytes) else _text(value)


def _to_text(_: Payload, value: Any) -> tuple[PayloadKind, Body]:
    return PayloadKind.BASIC, _text(value)


def _to_json(_: Payload, value: Any) -> tuple[PayloadKind, Body]:
    text = _text(value)
    parse_json(text)
    return PayloadKind.BASIC, text


def _to_xml(_: Payload, value: Any) -> tuple[PayloadKind, Body]:
    from mgw.transforms.payloads.xml_text import check_xml

    text = _text(value)
    check_xml(text)
    return PayloadKind.BASIC, text


def _to_fields(_: Payload, value: Any) -> tuple[PayloadKind, Body]:
    if isinstance(value, tuple):
        return PayloadKind.FIELDS, value
    return PayloadKind.FIELDS, json_to_fields(_text(value))


def _to_object(target: Payload, value: Any) -> tuple[PayloadKind, Body]:
    assert target.object_type is not None  # noqa: S101  # what OBJECT means
    if isinstance(value, AnyData):
        raise ValueError("ANYDATA must be unwrapped first")
    if isinstance(value, (str, bytes)):
        value = parse_exact(value)
    return PayloadKind.OBJECT, target.object_type.type.fit(value)


def _to_any(target: Payload, value: Any) -> tuple[PayloadKind, Body]:
    if isinstance(value, AnyData):
        return PayloadKind.ANYDATA, value
    return PayloadKind.ANYDATA, wrap(value, None if target.jms == JMS_ANY else target.jms)


_TARGETS: Mapping[PayloadType, Callable[[Payload, Any], tuple[PayloadKind, Body]]] = {
    PayloadType.RAW: _to_raw,
    PayloadType.BASIC: _to_basic,
    PayloadType.TEXT: _to_text,
    PayloadType.JSON: _to_json,
    PayloadType.XMLTYPE: _to_xml,
    PayloadType.FIELDS: _to_fields,
    PayloadType.OBJECT: _to_object,
    PayloadType.ANYDATA: _to_any,
}
