"""The AMQP 0-9-1 frames that matter for speed: deliver, publish, acknowledge. Bytes in, bytes out, no connection.

A client library spends 15 to 50 microseconds a message in objects; this spends two. Everything else (negotiation,
channels, declarations, heartbeats, errors) is passed on untouched to the client library.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

__all__ = [
    "FrameScanner",
    "Incoming",
    "Returned",
    "ack_frame",
    "commit_frame",
    "message_frames",
    "publish_method",
    "routing_key_of",
]

_DELIVER, _RETURN, _ACK, _NACK = 0x003C003C, 0x003C0032, 0x003C0050, 0x003C0078
_COMMIT, _COMMITTED = 0x005A0014, 0x005A0015
_PUBLISH = b"\x00\x3c\x00\x28\x00\x00"  # class, method, reserved
_END = 0xCE
_FRAME_OVERHEAD = 8  # type, channel, size, end
_HEADER_FRAME = 19  # up to the properties

_unpack_head = struct.Struct(">BHI").unpack_from
_unpack_method = struct.Struct(">I").unpack_from
_unpack_tag = struct.Struct(">Q").unpack_from
_unpack_header = struct.Struct(">HHQ").unpack_from
_unpack_content = struct.Struct(">BHIHHQ").unpack_from
_unpack_code = struct.Struct(">H").unpack_from
_pack_head = struct.Struct(">BHI").pack
_pack_ack = struct.Struct(">BHIIQBB").pack
_pack_content = struct.Struct(">BHIHHQ").pack
_pack_bare = struct.Struct(">BHIIB").pack
_pack_body = struct.Struct(">BBHI").pack


#: A delivered message as it came: tag, redelivered, exchange, routing key, properties from the flags on, body. A plain
#: tuple, because one is made for every message.
Incoming = tuple[int, bool, bytes, bytes, bytes, bytes]


class Returned(NamedTuple):
    """A message the broker could not route."""

    code: int
    text: str
    exchange: str
    routing_key: str


class FrameScanner:
    """Takes the incoming bytes of a connection apart.

    Deliveries of the hot channel are appended to ``deliveries``; its confirmations, returns and commits go to the
    callbacks; every other frame is handed to ``other`` whole, in order. Frames may arrive in pieces of any size.

    Raises (from :meth:`feed`):
        ValueError, IndexError, struct.error: the bytes are not AMQP; the connection must be given up.
    """

    def __init__(
        self,
        channel: int,
        other: Callable[[bytes], object],
        confirmed: Callable[[int, bool, bool], object] | None = None,
        returned: Callable[[Returned], object] | None = None,
        committed: Callable[[], object] | None = None,
    ) -> None:
        self.deliveries: deque[Incoming] = deque()
        self._channel = channel
        self._other = other
        self._confirmed = confirmed  # tag, multiple, positive
        self._returned = returned
        self._committed = committed
        self._rest = b""
        self._envelope: tuple[int, bool, bytes, bytes] | Returned | None = None
        self._properties: bytes | None = None
        self._missing = 0
        self._pieces: list[bytes] = []

    @property
    def in_frame(self) -> bool:
        """Whether a part of a frame has come, and its rest not yet."""
        return bool(self._rest)

    def feed(self, data: bytes) -> None:  # noqa: C901, PLR0912, PLR0915 - the inner loop, kept flat for speed
        """Take the next bytes."""
        if self._rest:
            data = self._rest + data
        at, size, hot = 0, len(data), self._channel
        deliver = self.deliveries.append
        while size - at >= _FRAME_OVERHEAD:
            kind, channel, length = _unpack_head(data, at)
            end = at + 7 + length
            if end >= size:
                break
            if data[end] != _END:
                raise ValueError("a frame does not end where it should")
            if channel != hot:
                self._other(data[at : end + 1])
            elif kind == 1:
                (method,) = _unpack_method(data, at + 7)
                if method == _DELIVER:
                    place = at + 12 + data[at + 11]  # behind the consumer tag
                    (tag,) = _unpack_tag(data, place)
                    key = place + 10 + data[place + 9]
                    envelope = (
                        tag,
                        data[place + 8] != 0,
                        data[place + 10 : key],
                        data[key + 1 : key + 1 + data[key]],
                    )
                    # Mostly the whole message is here, in three frames.
                    start = end + 1
                    if size - start > _HEADER_FRAME:
                        kind, channel, length, _, _, missing = _unpack_content(data, start)
                        stop = start + 7 + length
                        begin = stop + 8
                        last = begin + missing
                        if (
                            last < size
                            and missing
                            and data[stop] == data[last] == _END
                            and _unpack_head(data, stop + 1) == (3, hot, missing)
                            and kind == 2
                            and channel == hot
                        ):
                            deliver((*envelope, data[start + 19 : stop], data[begin:last]))
                            at = last + 1
                            continue
                    self._envelope = envelope
                elif method == _ACK and self._confirmed is not None:
                    self._confirmed(_unpack_tag(data, at + 11)[0], data[at + 19] & 1 != 0, True)
                elif method == _NACK and self._confirmed is not None:
                    self._confirmed(_unpack_tag(data, at + 11)[0], data[at + 19] & 1 != 0, False)
                elif method == _RETURN and self._returned is not None:
                    self._envelope = _read_return(data, at + 11)
                elif method == _COMMITTED and self._committed is not None:
                    self._committed()
                else:
                    self._other(data[at : end + 1])
            elif self._envelope is None:
                self._other(data[at : end + 1])
            elif kind == 2:
                _, _, missing = _unpack_header(data, at + 7)
                self._properties = data[at + 19 : end]
                self._missing = missing
                if not missing:
                    self._complete(b"")
            elif kind == 3 and self._properties is not None:
                if length == self._missing and not self._pieces:
                    self._complete(data[at + 7 : end])
                else:
                    self._pieces.append(data[at + 7 : end])
                    self._missing -= length
                    if self._missing <= 0:
                        self._complete(b"".join(self._pieces))
            else:
                raise ValueError(f"frame of type {kind} inside a message")
            at = end + 1
        self._rest = data[at:] if at else data

    def _complete(self, body: bytes) -> None:
        envelope, properties = self._envelope, self._properties
        self._envelope = self._properties = None
        self._missing = 0
        if self._pieces:
            self._pieces = []
        if type(envelope) is tuple:  # a Returned is a tuple too, of another type
            self.deliveries.append((*envelope, properties or b"", body))
        elif isinstance(envelope, Returned) and self._returned is not None:
            self._returned(envelope)


def _read_return(data: bytes, at: int) -> Returned:
    (code,) = _unpack_code(data, at)
    texts = []
    at += 2
    for _ in range(3):
        end = at + 1 + data[at]
        texts.append(data[at + 1 : end].decode(errors="backslashreplace"))
        at = end
    return Returned(code, *texts)


def ack_frame(channel: int, tag: int, *, multiple: bool) -> bytes:
    """``basic.ack`` of one delivery, or of all up to it."""
    return _pack_ack(1, channel, 13, _ACK, tag, multiple, _END)


def commit_frame(channel: int) -> bytes:
    """``tx.commit``."""
    return _pack_bare(1, channel, 4, _COMMIT, _END)


def publish_method(channel: int, exchange: bytes, routing_key: bytes, *, mandatory: bool) -> bytes:
    """The method frame of ``basic.publish``."""
    payload = b"".join(
        (
            _PUBLISH,
            bytes((len(exchange),)),
            exchange,
            bytes((len(routing_key),)),
            routing_key,
            b"\x01" if mandatory else b"\x00",
        )
    )
    return _pack_head(1, channel, len(payload)) + payload + b"\xce"


def routing_key_of(method: bytes) -> str:
    """The routing key in a method frame of :func:`publish_method`."""
    start = 14 + method[13]  # behind frame head, class, method, reserved, exchange
    return method[start + 1 : start + 1 + method[start]].decode()


def message_frames(
    pieces: list[bytes], channel: int, frame_max: int, messages: Iterable[tuple[bytes, bytes, bytes]]
) -> None:
    """Append the frames of messages (method frame, properties, body) to ``pieces``; bodies are cut to ``frame_max``."""
    limit = frame_max - _FRAME_OVERHEAD
    add = pieces.append
    for method, properties, body in messages:
        size = len(body)
        add(method)
        add(_pack_content(2, channel, 12 + len(properties), 60, 0, size))
        add(properties)
        if size <= limit:
            if size:
                add(_pack_body(_END, 3, channel, size))
                add(body)
        else:
            for start in range(0, size, limit):
                piece = body[start : start + limit]
                add(_pack_body(_END, 3, channel, len(piece)))
                add(piece)
        add(b"\xce")
