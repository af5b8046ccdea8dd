"""Frames of MQTT byte by byte: what brokers send that Mosquitto does not, and frames in pieces."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from mgw.links.mqtt.codec import Malformed, encode_publish, parse_publish, varint
from mgw.links.mqtt.wire import Wire
from mgw.transforms.errors import ConversionFailure, DeliveryRejected, LinkError, LinkRefused, LinkUnavailable
from mgw.transforms.mqtt import Inbound, Properties, Publish, inbound

PUBLISH = b"\x32\x06\x00\x01t\x00\x07x"  # MQTT 3.1.1: topic t, packet id 7, payload x


@pytest.fixture
def ends() -> Iterator[tuple[Wire, socket.socket]]:
    """A wire and the broker's end of it."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    wire = Wire(ours, link="plant", client_id="MGW_J", keepalive=60, release=lambda: None)
    yield wire, theirs
    theirs.close()
    wire.close()


def pump_all(wire: Wire) -> list[tuple[int, bytes]]:
    return wire.pump(5.0)


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (0x8E, LinkRefused, "another client connected with the same client id.*client_id_prefix"),
        (0x87, LinkRefused, "not authorised"),
        (0x95, DeliveryRejected, "packet too large"),
        (0x8B, LinkUnavailable, "server shutting down"),
        (0xFE, LinkUnavailable, "unknown reason"),
    ],
)
def test_reason_of_a_disconnect_becomes_an_error_in_words(
    ends: tuple[Wire, socket.socket], code: int, kind: type[LinkError], words: str
) -> None:
    wire, broker = ends
    broker.sendall(b"\xe0\x02" + bytes((code, 0)))
    with pytest.raises(kind, match=words):
        pump_all(wire)


def test_reason_is_told_even_when_the_next_send_fails(ends: tuple[Wire, socket.socket]) -> None:
    wire, broker = ends
    broker.sendall(b"\xe0\x02\x8e\x00")
    broker.close()
    with pytest.raises(LinkRefused, match="taken over"):
        wire.send(b"\x40\x02\x00\x01")


def test_frames_arrive_whole_however_they_are_cut(ends: tuple[Wire, socket.socket]) -> None:
    wire, broker = ends
    large = b"\x32" + varint(200) + b"\x00\x01t\x00\x08" + b"y" * 195
    found = []
    for byte in PUBLISH + b"\xd0\x00" + large + PUBLISH:
        broker.sendall(bytes((byte,)))
        found += pump_all(wire)
    assert [(first, len(frame)) for first, frame in found] == [(0x32, 6), (0x32, 200), (0x32, 6)]


def test_length_of_five_bytes_is_a_lost_connection(ends: tuple[Wire, socket.socket]) -> None:
    wire, broker = ends
    broker.sendall(b"\x32\xff\xff\xff\xff\x01")
    with pytest.raises(LinkUnavailable, match="not MQTT"):
        pump_all(wire)


def test_closed_connection_is_lost(ends: tuple[Wire, socket.socket]) -> None:
    wire, broker = ends
    broker.close()
    with pytest.raises(LinkUnavailable, match="MGW_J"):
        pump_all(wire)


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x05t", b"\x00\x01t", b"\x00\x01t\x00"])
def test_publish_without_packet_id_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        parse_publish(0x32, data, 5)


@pytest.mark.parametrize(
    "properties",
    [
        b"\x26\x00\x01\xff\x00\x01v",  # name that is no UTF-8
        b"\x26\x00\x01n\x00\x01\xff",  # value that is no UTF-8
        b"\x03\x00\x01\xff",  # content type that is no UTF-8
        b"\x26\x00\x09n\x00\x01v",  # reaches beyond the properties
        b"\x26\x00",  # ends early
        b"\x7f\x00",  # unknown property
        b"\x23\x00\x01",  # topic alias
        b"\x02\x00\x00",  # interval of two bytes
    ],
)
def test_broken_properties_fail_that_one_message_with_its_packet_id(properties: bytes) -> None:
    data = b"\x00\x01t\x00\x07" + bytes((len(properties),)) + properties + b"body"
    mid, publish = parse_publish(0x32, data, 5)
    message, failure = inbound(publish, Inbound())
    assert mid == 7
    assert isinstance(failure, ConversionFailure)
    assert failure.cause
    assert message.body == b"body"


def test_properties_longer_than_the_packet_fail_that_one_message() -> None:
    mid, publish = parse_publish(0x32, b"\x00\x01t\x00\x07\x7fbody", 5)
    assert mid == 7
    assert publish.problem


def test_topic_that_is_no_utf8_fails_that_one_message() -> None:
    mid, publish = parse_publish(0x32, b"\x00\x01\xff\x00\x07\x00x", 5)
    message, failure = inbound(publish, Inbound())
    assert (mid, message.body, message.header("MGW_MQTT_topic")) == (7, b"x", "\\xff")
    assert failure is not None
    assert "UTF-8" in failure.cause


def test_string_of_70000_bytes_is_a_conversion_failure() -> None:
    for properties in (Properties(correlation=b"x" * 70_000), Properties(user=[("n", "x" * 70_000)])):
        with pytest.raises(ConversionFailure, match="70000"):
            encode_publish(Publish("t", b"", properties=properties), 5)
