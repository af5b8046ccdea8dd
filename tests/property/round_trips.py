"""The ways of a message between two brokers, made of the pure maps; and what the tables of the brokers say is kept.

A :class:`Broker` writes a canonical message to the bytes of its protocol and reads it back. What must come back is not
listed here: :func:`kept_headers` and :func:`kept_properties` follow the tables of the two brokers there and back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from mgw.links.mqtt.codec import encode_publish, parse_publish
from mgw.transforms import amqp, kafka, mqtt
from mgw.transforms.amqp.table import ROWS as AMQP_ROWS
from mgw.transforms.errors import ConversionFailure
from mgw.transforms.header_table import Row
from mgw.transforms.kafka.table import ROWS as KAFKA_ROWS
from mgw.transforms.message import Message, decode_headers, encode_headers
from mgw.transforms.mqtt.table import ENVELOPE_ROWS, ROWS_3
from mgw.transforms.mqtt.table import ROWS as MQTT_ROWS
from mgw.transforms.mqtt.topic import TopicTemplate
from mgw.transforms.payloads.convert import fit_into, fit_out_of

__all__ = [
    "BROKERS",
    "NOW",
    "OWN",
    "PROPERTIES",
    "VIA",
    "Broker",
    "Content",
    "kept_headers",
    "kept_properties",
    "round_trip",
    "through_hub",
    "through_job",
]

NOW: Final = 1_700_000_000.0
_REST: Final = "any other header x"
#: Properties of a message that the tables name, as attributes of :class:`Message`.
PROPERTIES: Final[Mapping[str, str]] = {
    "priority": "priority",
    "expiration": "expiration",
    "correlation": "correlation",
    "delay": "delay",
    "exception queue": "exception_queue",
}
#: Prefix of the headers of each broker, and of those that the gateway adds on its way.
OWN: Final = ("MGW_AMQP_", "MGW_KAFKA_", "MGW_MQTT_", "MGW_AQ_")


class Content(NamedTuple):
    """What is at a broker: the message in the form of its protocol, and beside it what is no part of that."""

    wire: Any
    beside: Any = None


@dataclass(frozen=True, slots=True)
class Broker:
    """A kind of broker with the options that change what it keeps.

    Attributes:
        rows: its table.
        write: a canonical message as the broker has it; with True: with the job option AQ_MsgProperties.
        read: the canonical message that a source delivers, with the same option; raises ConversionFailure.
    """

    name: str
    rows: Sequence[Row] = field(repr=False)
    write: Callable[[Message, bool], Content] = field(repr=False)
    read: Callable[[Content, bool], Message] = field(repr=False)

    def row(self, name: str) -> Row | None:
        """The row of a header of the hub that has one for itself."""
        return next((row for row in self.rows if row.name == name and not row.of_message), None)

    def carries(self, name: str) -> str | None:
        """The name under which a source delivers what was sent as header ``name``; None where that is lost."""
        row = self.row(name) or next((row for row in self.rows if name in row.also), None)
        row = row or next(row for row in self.rows if row.name == _REST)
        if not (row.sent and row.read):
            return None
        return name if row.name == _REST else row.name

    def has(self, name: str, *, aq_properties: bool) -> bool:
        """Whether a property of the message comes back from there."""
        for row in self.rows:
            if row.of_message and name in row.name.split(", ") and row.sent and row.read:
                return aq_properties or row.loss != "without it"
        return False


def kept_headers(first: Broker, second: Broker, names: Sequence[str]) -> dict[str, bool]:
    """By name in the hub, of headers that ``first`` carries: whether they come back to it over ``second``."""
    found = {}
    for name in names:
        there = second.carries(name)
        found[name] = there is not None and first.carries(there) == name
    return found


def kept_properties(first: Broker, second: Broker, *, aq_properties: bool) -> dict[str, bool]:
    """By name in the tables, of properties that ``first`` carries: whether they come back to it over ``second``."""
    return {
        name: second.has(name, aq_properties=aq_properties)
        for name in PROPERTIES
        if first.has(name, aq_properties=aq_properties)
    }


# -- brokers ----------------------------------------------------------------------------------------------------------


def _sound(found: tuple[Message, ConversionFailure | None]) -> Message:
    message, failure = found
    if failure is not None:
        raise failure
    return message


def _to_amqp(message: Message, aq: bool) -> Content:
    content = amqp.encode(message, NOW, amqp.Rules(aq_properties=aq))
    return Content((content.properties, content.body), content.routing_key)


def _from_amqp(content: Content, aq: bool) -> Message:
    properties, body = content.wire
    key = (content.beside or "q").encode()
    return _sound(amqp.decode(properties, body, b"", key, False, NOW, amqp.Rules(aq_properties=aq)))


class _Fetched(NamedTuple):
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


def _to_kafka(message: Message, aq: bool) -> Content:
    record = kafka.to_record(message, kafka.Rules(properties=aq), NOW)
    return Content((record.key, record.value, tuple(record.headers)), (record.partition, record.timestamp))


def _from_kafka(content: Content, aq: bool) -> Message:
    key, value, headers = content.wire
    partition, timestamp = content.beside
    record = _Fetched(7, -1 if timestamp is None else timestamp, 0, key, value, headers)
    return _sound(kafka.from_record(record, kafka.origin_headers("t", partition or 0), kafka.Rules(properties=aq), NOW))


def _mqtt(version: int, *, envelope: bool) -> tuple[Callable[..., Content], Callable[..., Message]]:
    topic = TopicTemplate("t")

    def write(message: Message, aq: bool) -> Content:
        rules = mqtt.Outbound(topic, version, envelope=envelope, aq_properties=aq)
        head, tail = encode_publish(mqtt.outbound(message, rules, NOW), version)
        return Content(head + b"\x00\x07" + tail)

    def read(content: Content, aq: bool) -> Message:
        frame, start = content.wire, 2
        while frame[start - 1] > 127:
            start += 1
        _, publish = parse_publish(frame[0], frame[start:], version)
        return _sound(mqtt.inbound(publish, mqtt.Inbound(envelope=envelope, aq_properties=aq)))

    return write, read


_ALL: Final = (
    Broker("rabbitmq", AMQP_ROWS, _to_amqp, _from_amqp),
    Broker("kafka", KAFKA_ROWS, _to_kafka, _from_kafka),
    Broker("mqtt5", MQTT_ROWS, *_mqtt(5, envelope=False)),
    Broker("mqtt5-envelope", ENVELOPE_ROWS, *_mqtt(5, envelope=True)),
    Broker("mqtt3-envelope", ENVELOPE_ROWS, *_mqtt(4, envelope=True)),
    Broker("mqtt3", ROWS_3, *_mqtt(4, envelope=False)),
)
BROKERS: Final = {broker.name: broker for broker in _ALL}

# -- between two brokers ----------------------------------------------------------------------------------------------

_into, _out_of = fit_into("BASIC"), fit_out_of("BASIC")


def through_hub(message: Message, hop: int) -> Message:
    """The message as a queue of the hub hands it out that stored it."""
    stored = _into(message)
    left = stored.expiration
    return _out_of(
        replace(
            stored,
            headers=decode_headers(encode_headers(stored.headers)),
            msgid=hop.to_bytes(16, "big"),
            enqueue_time=NOW,
            expires_at=None if left is None else NOW + stored.delay + left,
            expiration=left,
        )
    )


def through_job(message: Message, hop: int) -> Message:
    """The message as a THROUGH job has it between its two links, whose source names messages for ever."""
    return replace(message, msgid=blake2b(b"%d" % hop, digest_size=16).digest())


VIA: Final = {"hub": through_hub, "through": through_job}


def round_trip(
    content: Content, first: Broker, second: Broker, via: Callable[[Message, int], Message], *, aq_properties: bool
) -> tuple[Message, Message, Content]:
    """From the first broker to the second and back.

    Returns:
        What the first one delivered, what it delivers in the end, and what it then has.
    """
    sent = first.read(content, aq_properties)
    there = second.read(second.write(via(sent, 1), aq_properties), aq_properties)
    back = first.write(via(there, 2), aq_properties)
    return sent, first.read(back, aq_properties), back
