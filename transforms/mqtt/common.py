"""What both directions of the MQTT map share: a PUBLISH, its properties, options, names of headers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mgw.transforms.header_table import FIELDS_CONTENT_TYPE
from mgw.transforms.message import ValueType
from mgw.transforms.mqtt.topic import TopicTemplate

__all__ = [
    "CONTENT",
    "CORRELATION",
    "DUP",
    "FIELDS_CONTENT_TYPE",
    "FORMAT",
    "NATIVE",
    "NO_PROPERTIES",
    "QOS",
    "RESPONSE",
    "RETAIN",
    "TOPIC",
    "Inbound",
    "Outbound",
    "Properties",
    "Publish",
]

_TEXT, _RAW, _BOOLEAN, _INTEGER = ValueType.TEXT, ValueType.RAW, ValueType.BOOLEAN, ValueType.INTEGER
TOPIC, QOS, RETAIN, DUP = "MGW_MQTT_topic", "MGW_MQTT_qos", "MGW_MQTT_retain", "MGW_MQTT_dup"
CORRELATION, RESPONSE = "MGW_MQTT_correlationData", "MGW_MQTT_responseTopic"
CONTENT, FORMAT = "MGW_MQTT_contentType", "MGW_MQTT_payloadFormat"
#: Fields of the PUBLISH itself with the type of their headers; they are never user properties.
NATIVE = {
    TOPIC: _TEXT,
    QOS: _INTEGER,
    RETAIN: _BOOLEAN,
    DUP: _BOOLEAN,
    RESPONSE: _TEXT,
    CONTENT: _TEXT,
    FORMAT: _INTEGER,
    CORRELATION: _RAW,
}


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
    documented: bool = False  # link attribute header_names: MGW_MQTT_U_x


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
    documented: bool = False  # link attribute header_names
