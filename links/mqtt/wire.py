"""One negotiated MQTT connection: bytes in, bytes out, keep-alive, and a way to wake its thread.

One thread drives a wire; only :meth:`Wire.wake` may be called from another. Nothing here blocks longer than it is told.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import time
from collections.abc import Callable

from mgw.links.mqtt.codec import Malformed, reason_text
from mgw.transforms.errors import Blame, DeliveryRejected, LinkError, LinkRefused, LinkUnavailable

__all__ = ["RECEIVE", "Wire", "blame_of"]

RECEIVE = 256 * 1024  # bytes read at once
_QUICK: int | None = getattr(socket, "TCP_QUICKACK", None)
_GOODBYE = 3.0  # seconds; a broker on a loaded machine needs more than one for the acknowledgements of a full window
_TAKEN_OVER = 0x8E
_REFUSALS = frozenset((0x86, 0x87, 0x8A, 0x98, _TAKEN_OVER))
_REJECTIONS = frozenset((0x81, 0x82, 0x90, 0x93, 0x95, 0x97, 0x99, 0x9A, 0x9B))
#: Reason codes about one message: topic name, size, payload format, retain. Others do not tell what they are about.
_OF_A_MESSAGE = frozenset((0x90, 0x95, 0x99, 0x9A))
_OF_NOBODY_KNOWS = frozenset((0x80, 0x81, 0x82, 0x83))
_QUOTA_EXCEEDED = 0x97
_KNOWN = frozenset(range(0x80, 0xA3))


def blame_of(code: int) -> Blame:
    """What a reason code from 0x80 tells of who is to blame."""
    if code in _OF_A_MESSAGE:
        return Blame.MESSAGE
    if code == _QUOTA_EXCEEDED:
        return Blame.FULL
    return Blame.UNKNOWN if code in _OF_NOBODY_KNOWS or code not in _KNOWN else Blame.DESTINATION


class Wire:
    """Frames of one connection.

    Args:
        link, client_id: for error texts.
        keepalive: in seconds, 0 = none.
        release: is called when it is closed.
        suspected: is called when the broker does not do what it should; see :meth:`suspect`.
        lost: is called when the connection ends by itself; None: ``suspected`` is.
    """

    def __init__(
        self,
        sock: socket.socket,
        *,
        link: str,
        client_id: str,
        keepalive: float,
        release: Callable[[], None],
        suspected: Callable[[], None] = lambda: None,
        lost: Callable[[], None] | None = None,
    ) -> None:
        self._sock: socket.socket | None = sock
        self._tls = isinstance(sock, ssl.SSLSocket)
        self._link = link
        self._client_id = client_id
        self._keepalive = keepalive
        self._release = release
        self._suspected = suspected
        self._told_lost = lost or suspected
        self._in = bytearray()
        self._need = 2
        self._out = bytearray()
        self._sent_at = self._heard_at = time.monotonic()
        self._ping_at: float | None = None
        self._waker, self._wakee = socket.socketpair()
        self._waker.setblocking(False)
        self._wakee.setblocking(False)
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._poll.register(self._wakee, select.POLLIN)
        self._events = select.POLLIN
        self._broken = False
        self._ended: LinkError | None = None
        self._late: list[tuple[int, bytes]] = []  # frames that came before the end
        self.woken = False

    def wake(self) -> None:
        """From any thread: end a waiting :meth:`pump`."""
        with contextlib.suppress(OSError):
            self._waker.send(b"!")

    def watch(self, other: Wire) -> None:
        """Let what comes on another wire of the same thread end a waiting :meth:`pump` too. Close both together."""
        if other._sock is not None:
            self._poll.register(other._sock, select.POLLIN)

    @property
    def unsent(self) -> int:
        """Bytes that the socket has not taken yet."""
        return len(self._out)

    def send(self, data: bytes) -> None:
        """Send now what the socket takes; the rest goes with the next :meth:`pump`."""
        self._out += data
        self._flush()

    def _flush(self) -> None:
        sock, out = self._sock, self._out
        if sock is None:
            raise self._unavailable("it was closed")
        try:
            while out:
                sent = sock.send(memoryview(out)[: 1 << 20] if len(out) > 1 << 20 else bytes(out))
                if sent == len(out):
                    out.clear()
                else:
                    del out[:sent]
            self._sent_at = time.monotonic()
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            pass
        except OSError as error:
            self._after_failed_send(error)

    def _after_failed_send(self, error: OSError) -> None:
        """The broker may have said why before it closed. What it said else is handed out by the next :meth:`pump`."""
        self._out.clear()
        self._ended = self._lost(error)
        frames: list[tuple[int, bytes]] = []
        with contextlib.suppress(OSError, Malformed):
            while before := len(self._in) + 1:
                self._receive()
                if len(self._in) < before:
                    break
                frames += self._frames()
        for first, frame in frames:
            if first >> 4 == 14:
                self._ended = self._disconnected(frame)
        self._late = [frame for frame in frames if frame[0] >> 4 not in (13, 14)]
        if not self._late:
            raise self._ended from error

    def pump(self, wait: float, *, reading: bool = True) -> list[tuple[int, bytes]]:
        """Send what waits, receive what is there; waits at most ``wait`` seconds for something to come.

        Returns the frames as (first byte, rest); pings and the broker's DISCONNECT are dealt with here. ``reading``
        False leaves what comes in the socket (the caller's buffer is full).

        Raises:
            LinkUnavailable: the connection is lost.
            LinkRefused: the broker ended it for a reason that does not pass by itself.
            DeliveryRejected: the broker ended it because of what we sent.
        """
        if self._sock is None:
            raise self._unavailable("it was closed")
        self._begin_pump()
        if self._late:
            frames, self._late = self._late, []
            return frames
        now = time.monotonic()
        wait = min(wait, max(0.0, self._next_ping(now)))
        if self._tls and reading and self._sock.pending():  # type: ignore[attr-defined]
            wait = 0.0
        events = (select.POLLIN if reading else 0) | (select.POLLOUT if self._out else 0)
        if events != self._events:
            self._poll.modify(self._sock, events)
            self._events = events
        frames = []
        waker = self._wakee.fileno()
        if any(descriptor == waker for descriptor, _ in self._poll.poll(wait * 1000)):
            self.woken = True
            self._wakee.recv(4096)
        if self._out:
            self._flush()
        if reading:
            try:
                self._receive()
                frames = self._frames()
            except Malformed as error:
                raise self._lost(f"the broker sent something that is not MQTT: {error}") from error
            except OSError as error:
                raise self._lost(error) from error
            frames = self._dispatch(frames)
        self._keep_alive(reading)
        return frames

    def _begin_pump(self) -> None:
        if self._ended is not None and not self._late:
            raise self._ended
        if self._out:
            self._flush()

    def _receive(self) -> None:
        assert self._sock is not None  # noqa: S101  callers have looked
        try:
            data = self._sock.recv(RECEIVE)
            if self._tls:
                while self._sock.pending() and len(data) < RECEIVE:  # type: ignore[attr-defined]
                    data += self._sock.recv(RECEIVE)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        if not data:
            raise ConnectionResetError("the broker closed the connection")
        self._heard_at = time.monotonic()
        self._in += data
        if _QUICK is not None:
            # A broker without TCP_NODELAY (Mosquitto's default) holds small packets back until ours are acknowledged,
            # which the kernel would delay by 40 ms. Linux forgets this setting, so it is made again.
            with contextlib.suppress(OSError):
                self._sock.setsockopt(socket.IPPROTO_TCP, _QUICK, 1)

    def _frames(self) -> list[tuple[int, bytes]]:
        have = len(self._in)
        if have < self._need:
            return []
        data = bytes(self._in)
        frames = []
        at = 0
        self._need = 2
        while have - at >= 2:
            length = data[at + 1]
            start = at + 2
            if length > 127:
                length, start = _long_length(data, at + 1, have)
                if length < 0:
                    self._need = have - at + 1
                    break
            end = start + length
            if end > have:
                self._need = end - at
                break
            frames.append((data[at], data[start:end]))
            at = end
        if at:
            self._in = bytearray(data[at:])
        return frames

    def _dispatch(self, frames: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        if not frames:
            return frames
        self._ping_at = None
        others = [frame for frame in frames if frame[0] >> 4 not in (13, 14)]
        if len(others) != len(frames):
            for first, frame in frames:
                if first >> 4 == 14:
                    self._ended = self._disconnected(frame)
            if self._ended is not None and not others:  # what came before it is handed out first
                raise self._ended
        return others

    def _next_ping(self, now: float) -> float:
        return max(0.02, self._sent_at + self._keepalive * 0.6 - now) if self._keepalive else 3600.0

    def _keep_alive(self, reading: bool) -> None:
        if not self._keepalive:
            return
        now = time.monotonic()
        if self._ping_at is not None:
            if not reading:
                self._ping_at = now  # its answer may stand behind messages that we do not read yet
            elif now - self._ping_at > self._keepalive and now - self._heard_at > self._keepalive:
                raise self._lost(f"it did not answer a ping for {self._keepalive:g} s")
        if now - self._sent_at >= self._keepalive * 0.6:
            self._ping_at = self._ping_at or now
            self._out += b"\xc0\x00"
            self._sent_at = now
            self._flush()

    def _disconnected(self, frame: bytes) -> LinkError:
        self._broken = True
        code = frame[0] if frame else 0
        what = f"link {self._link}: the broker ended the connection of client {self._client_id}"
        if code == _TAKEN_OVER:
            return LinkRefused(
                what,
                link=self._link,
                cause="session taken over (0x8E): another client connected with the same client id",
                cure="stop the other client, or give one of the two a client_id_prefix of its own",
            )
        kind = LinkRefused if code in _REFUSALS else DeliveryRejected if code in _REJECTIONS else LinkUnavailable
        if kind is LinkUnavailable:
            self._told_lost()
        failed = kind(
            what, link=self._link, operation="publish", cause=reason_text(code), cure="check the broker's log"
        )
        return failed.blamed(blame_of(code)) if isinstance(failed, DeliveryRejected) else failed

    def suspect(self) -> None:
        """The node does not answer: the next connection of the link begins with another one."""
        self._suspected()

    def _lost(self, cause: object) -> LinkUnavailable:
        self._told_lost()
        return self._unavailable(cause)

    def _unavailable(self, cause: object) -> LinkUnavailable:
        self._broken = True
        return LinkUnavailable(
            f"link {self._link}: the connection to the broker is lost",
            link=self._link,
            cause=str(cause),
            cure=f"check that the broker runs, and its log; a second client with the id {self._client_id} also ends it",
        )

    def close(self) -> None:
        """Say goodbye and close, in about three seconds at most. Idempotent, never raises.

        Waits until the broker has closed its end: only then has it seen the last acknowledgements. Mosquitto reads one
        packet of a connection at a time, and a new CONNECT of the same client id overtakes what still waits there.
        """
        sock, self._sock = self._sock, None
        if sock is None:
            return
        if not self._broken:
            with contextlib.suppress(OSError, ValueError):
                deadline = time.monotonic() + _GOODBYE
                self._out += b"\xe0\x00"
                sock.settimeout(_GOODBYE)
                sock.sendall(bytes(self._out))
                while (left := deadline - time.monotonic()) > 0:
                    sock.settimeout(left)
                    if not sock.recv(RECEIVE):
                        break
        for closable in (sock, self._waker, self._wakee):
            with contextlib.suppress(OSError):
                closable.close()
        self._release()


def _long_length(data: bytes, at: int, have: int) -> tuple[int, int]:
    """A remaining length of two to four bytes and the place after it; -1 while it is not all there."""
    length = 0
    for shift in (0, 7, 14, 21):
        if at >= have:
            return -1, at
        byte = data[at]
        at += 1
        length |= (byte & 0x7F) << shift
        if byte < 128:
            return length, at
    raise Malformed("a length has more than four bytes")
