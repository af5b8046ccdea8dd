"""The hot frames of MQTT on the wire: PUBLISH in and out, PUBACK, and the words for reason codes.

The client library spends 15 to 50 microseconds a message on objects; it also drops the connection at a legal U+FEFF in
a user property and at other text that concerns one message only. So it negotiates the connection, and these frames are
read and written here. Section numbers are those of the MQTT 5.0 standard.
"""

from __future__ import annotations

from mgw.transforms.errors import ConversionFailure
from mgw.transforms.mqtt import NO_PROPERTIES, Properties, Publish

__all__ = [
    "MAX_REMAINING",
    "Frame",
    "Malformed",
    "encode_publish",
    "parse_publish",
    "reason_text",
    "topic_of",
    "user_property",
    "varint",
]

MAX_REMAINING = 268_435_455  # bytes of a packet after its fixed header, §2.1.4

#: A PUBLISH ready to send: what stands before the packet id, and what comes after it.
Frame = tuple[bytes, bytes]


class Malformed(Exception):
    """The broker sent bytes that are not MQTT; the connection cannot continue."""


_REASONS = {
    0x01: "granted QoS 1",
    0x04: "disconnected with will",
    0x10: "no matching subscribers",
    0x80: "unspecified error",
    0x81: "malformed packet",
    0x82: "protocol error",
    0x83: "implementation specific error",
    0x84: "unsupported protocol version",
    0x85: "client identifier not valid",
    0x86: "bad user name or password",
    0x87: "not authorised",
    0x88: "server unavailable",
    0x89: "server busy",
    0x8A: "banned",
    0x8B: "server shutting down",
    0x8C: "bad authentication method",
    0x8D: "keep alive timeout",
    0x8E: "session taken over",
    0x8F: "topic filter invalid",
    0x90: "topic name invalid",
    0x91: "packet identifier in use",
    0x92: "packet identifier not found",
    0x93: "receive maximum exceeded",
    0x94: "topic alias invalid",
    0x95: "packet too large",
    0x96: "message rate too high",
    0x97: "quota exceeded",
    0x98: "administrative action",
    0x99: "payload format invalid",
    0x9A: "retain not supported",
    0x9B: "QoS not supported",
    0x9C: "use another server",
    0x9D: "server moved",
    0x9E: "shared subscriptions not supported",
    0x9F: "connection rate exceeded",
    0xA0: "maximum connect time",
    0xA1: "subscription identifiers not supported",
    0xA2: "wildcard subscriptions not supported",
}


def reason_text(code: int) -> str:
    """A reason code in words, with its number."""
    return f"{_REASONS.get(code, 'unknown reason')} (0x{code:02X})"


def varint(value: int) -> bytes:
    """A variable byte integer (§1.5.5), 0 to :data:`MAX_REMAINING`."""
    if value < 128:
        return bytes((value,))
    out = bytearray()
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Value and the place after it."""
    value = shift = 0
    for _ in range(4):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise Malformed("a length has more than four bytes")


def parse_publish(first: int, data: bytes, version: int) -> tuple[int, Publish]:
    """Packet id (0 at QoS 0) and content of a PUBLISH whose fixed header starts with byte ``first``.

    What concerns this message only (text that is not UTF-8, broken properties) is told by ``Publish.problem``.

    Raises:
        Malformed: not even the packet id can be found.
    """
    try:
        end = 2 + (data[0] << 8 | data[1])
        problem = ""
        try:
            topic = data[2:end].decode()
        except UnicodeDecodeError:
            topic = data[2:end].decode("utf-8", "backslashreplace")
            problem = "its topic is not UTF-8"
        qos = first >> 1 & 3
        mid = 0
        if qos:
            mid = data[end] << 8 | data[end + 1]
            end += 2
        if version < 5:
            return mid, Publish(topic, data[end:], qos, first & 1 == 1, first & 8 == 8, NO_PROPERTIES, problem)
        length = data[end]
        end += 1
        if not length:
            return mid, Publish(topic, data[end:], qos, first & 1 == 1, first & 8 == 8, NO_PROPERTIES, problem)
        if length > 127:
            length, end = _read_varint(data, end - 1)
    except IndexError:
        raise Malformed("a PUBLISH ends before its packet identifier") from None
    start, end = end, end + length
    try:
        properties, wrong = _parse_properties(data, start, end)
        problem = problem or wrong
    except (IndexError, Malformed):
        properties, problem = NO_PROPERTIES, problem or "its properties are malformed"
    return mid, Publish(topic, data[end:], qos, first & 1 == 1, first & 8 == 8, properties, problem)


def _parse_properties(data: bytes, at: int, end: int) -> tuple[Properties, str]:  # noqa: C901, PLR0912  one flat pass
    payload_format = expiry = content_type = response_topic = correlation = None
    user: list[tuple[str, str]] = []
    problem = ""
    if end > len(data):
        raise Malformed("properties reach beyond the packet")
    while at < end:
        kind = data[at]
        at += 1
        if kind == 0x26:  # user property, by far the most frequent
            middle = at + 2 + (data[at] << 8 | data[at + 1])
            last = middle + 2 + (data[middle] << 8 | data[middle + 1])
            try:
                user.append((data[at + 2 : middle].decode(), data[middle + 2 : last].decode()))
            except UnicodeDecodeError:
                name = data[at + 2 : middle].decode("utf-8", "backslashreplace")
                user.append((name, data[middle + 2 : last].decode("utf-8", "backslashreplace")))
                problem = f"user property {name[:100]!r} is not UTF-8"
            at = last
        elif kind in (0x03, 0x08, 0x09):
            last = at + 2 + (data[at] << 8 | data[at + 1])
            value = data[at + 2 : last]
            at = last
            if kind == 0x09:
                correlation = value
                continue
            try:
                text = value.decode()
            except UnicodeDecodeError:
                text = value.decode("utf-8", "backslashreplace")
                problem = f"its {'content type' if kind == 0x03 else 'response topic'} is not UTF-8"
            if kind == 0x03:
                content_type = text
            else:
                response_topic = text
        elif kind == 0x01:
            payload_format = data[at]
            at += 1
        elif kind == 0x02:
            expiry = int.from_bytes(data[at : at + 4], "big")
            at += 4
        elif kind == 0x0B:  # subscription identifier
            _, at = _read_varint(data, at)
        elif kind == 0x23:  # topic alias, which we never allow
            raise Malformed("a topic alias was not agreed on")
        else:
            raise Malformed(f"property 0x{kind:02X} does not belong to a PUBLISH")
    if at != end:
        raise Malformed("a property reaches beyond the properties")
    return Properties(payload_format, expiry, content_type, response_topic, correlation, user), problem


def _string(data: bytes, what: str) -> bytes:
    if len(data) > 65535:
        raise ConversionFailure(
            f"{what} is {len(data)} bytes long",
            cause="MQTT carries at most 65535 bytes there",
            cure="shorten it at the sender or in a transformation",
        )
    return len(data).to_bytes(2, "big") + data


def encode_publish(publish: Publish, version: int) -> Frame:
    """A PUBLISH ready to send; at QoS 0 the second part is empty.

    Raises:
        ConversionFailure: a string over 65,535 bytes or a packet over 256 MiB.
    """
    topic, payload, qos, retain, _, properties, _ = publish
    tail = payload
    if version >= 5:
        if properties is NO_PROPERTIES:
            tail = b"\x00" + payload
        else:
            encoded = _encode_properties(properties)
            tail = varint(len(encoded)) + encoded + payload
    name = topic.encode()
    remaining = 2 + len(name) + (2 if qos else 0) + len(tail)
    if remaining > MAX_REMAINING:
        raise ConversionFailure(
            f"message for topic {topic[:200]!r} makes a packet of {remaining} bytes",
            cause=f"an MQTT packet holds at most {MAX_REMAINING}",
            cure="send smaller messages",
        )
    head = b"%c%b%b%b" % (0x30 | qos << 1 | retain, varint(remaining), len(name).to_bytes(2, "big"), name)
    return (head, tail) if qos else (head + tail, b"")


def topic_of(head: bytes) -> str:
    """The topic in the first part of a :data:`Frame`."""
    start = next(at for at in range(1, 5) if head[at] < 0x80) + 3
    return head[start : start + (head[start - 2] << 8 | head[start - 1])].decode()


def _encode_properties(properties: Properties) -> bytes:
    payload_format, expiry, content_type, response_topic, correlation, user = properties
    parts = []
    if payload_format is not None:
        parts.append(b"\x01\x01" if payload_format else b"\x01\x00")
    if expiry is not None:
        parts.append(b"\x02" + expiry.to_bytes(4, "big"))
    if content_type is not None:
        parts.append(b"\x03" + _string(content_type.encode(), "the content type"))
    if response_topic is not None:
        parts.append(b"\x08" + _string(response_topic.encode(), "the response topic"))
    if correlation is not None:
        parts.append(b"\x09" + _string(correlation, "the correlation data"))
    parts += [user_property(name, value) for name, value in user]
    return b"".join(parts)


def user_property(name: str, value: str) -> bytes:
    """A user property on the wire.

    Raises:
        ConversionFailure: a string over 65,535 bytes.
    """
    key, text = name.encode(), value.encode()
    if len(key) > 65535 or len(text) > 65535:
        _string(max(key, text, key=len), f"user property {name[:100]!r}")
    return b"\x26%b%b%b%b" % (len(key).to_bytes(2, "big"), key, len(text).to_bytes(2, "big"), text)
