"""What distinguishes one AMQP message from another: the id its publisher gave it, and a digest of its content.

Pure functions on the wire form; both walk the properties themselves, because they run for every message.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from hashlib import blake2b
from operator import itemgetter

from mgw.transforms.amqp.common import (
    CONTENT_ENCODING,
    CONTENT_TYPE,
    CORRELATION_ID,
    DELIVERY_MODE,
    EXPIRATION,
    HEADER_TABLE,
    MESSAGE_ID,
    PRIORITY,
    REPLY_TO,
)

__all__ = ["DIGEST_SIZE", "content_digest", "message_key"]

DIGEST_SIZE = 16  # bytes
_MAX_KEY = 64  # characters
_BEFORE_TABLE = (CONTENT_TYPE, CONTENT_ENCODING)
_u16, _u32 = struct.Struct(">H").unpack_from, struct.Struct(">I").unpack_from
_SIZES = {
    ord(code): size for code, size in zip("tbBsUuIilLfdTDV", (1, 1, 1, 2, 2, 2, 4, 4, 8, 8, 4, 8, 8, 5, 0), strict=True)
}
_COUNTED = frozenset(b"SxFA")  # four bytes of length, then the value
#: Headers that count deliveries, with their lengths: the same message does not have the same ones twice.
_DELIVERY_COUNTS = (b"\x10x-acquired-count", b"\x10x-delivery-count")
_first = itemgetter(0)


def message_key(properties: bytes) -> str | None:
    """The message-id as a key of at most 64 characters (a digest where it is longer or no plain text), None without.

    Properties that are not well-formed have none.
    """
    try:
        (flags,) = _u16(properties, 0)
        if not flags & MESSAGE_ID:
            return None
        at = _after(properties, flags, 2, _BEFORE_TABLE)
        if flags & HEADER_TABLE:
            at += 4 + _u32(properties, at)[0]
        if flags & DELIVERY_MODE:
            at += 1
        if flags & PRIORITY:
            at += 1
        at = _after(properties, flags, at, (CORRELATION_ID, REPLY_TO, EXPIRATION))
        raw = properties[at + 1 : at + 1 + properties[at]]
    except (struct.error, IndexError):
        return None
    if len(raw) <= _MAX_KEY:
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            text = ""
        if text.isprintable() and text:
            return text
    return "blake2b:" + blake2b(raw, digest_size=24).hexdigest()


def content_digest(properties: bytes, body: bytes, exchange: bytes, routing_key: bytes) -> bytes:
    """16 bytes that are the same whenever the broker delivers this message again, and differ for any other content.

    Covers exchange, routing key, all properties and the body. Left out are the headers that count deliveries; a broker
    that adds one sorts the others by name, so the digest does the same.
    """
    if len(properties) > 1 and properties[0] & 0x20:  # HEADER_TABLE
        with suppress(struct.error, IndexError, KeyError, ValueError):  # not well-formed: delivered as it came, always
            properties = _settled(properties)
    lengths = b"%d.%d.%d." % (len(exchange), len(routing_key), len(properties))
    return blake2b(b"".join((lengths, exchange, routing_key, properties, body)), digest_size=DIGEST_SIZE).digest()


def _settled(properties: bytes) -> bytes:
    """The properties with their headers table behind them, in the form it keeps."""
    flags: int = _u16(properties, 0)[0]
    start = _after(properties, flags, 2, _BEFORE_TABLE)
    end = start + 4 + _u32(properties, start)[0]
    if end > len(properties):
        raise ValueError("the headers table is longer than the properties")
    entries: list[tuple[bytes, bytes]] = []
    at = start + 4
    while at < end:
        value = at + 1 + properties[at]
        code = properties[value]
        stop = value + 5 + _u32(properties, value + 1)[0] if code in _COUNTED else value + 1 + _SIZES[code]
        if (name := properties[at:value]) not in _DELIVERY_COUNTS:
            entries.append((name, properties[value:stop]))
        at = stop
    entries.sort(key=_first)
    rest = (flags & ~HEADER_TABLE).to_bytes(2, "big") + properties[2:start] + properties[end:]
    return b"".join((rest, *(part for entry in entries for part in entry)))


def _after(data: bytes, flags: int, at: int, fields: tuple[int, ...]) -> int:
    """The place behind the short texts among ``fields``."""
    for flag in fields:
        if flags & flag:
            at += 1 + data[at]
    return at
