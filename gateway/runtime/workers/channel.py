"""What the supervisor and a worker say to each other: one JSON object a line, over a pair of sockets."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

__all__ = ["Channel", "Said"]

Said = dict[str, Any]

_PIECE = 65536


class Channel:
    """One end. Any thread may say something; one thread listens.

    Args:
        patience: seconds to wait for an other end that does not listen, which is given up then; 0: any time.
    """

    def __init__(self, end: socket.socket, patience: int = 0) -> None:
        self._socket = end
        self._mutex = threading.Lock()
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", patience, 0))

    def say(self, what: str, **details: Any) -> bool:
        """Say it; waits where the other end is slow to listen. False: the other end is gone."""
        line = json.dumps({"what": what, **details}, separators=(",", ":")).encode() + b"\n"
        with self._mutex:
            try:
                self._socket.sendall(line)
            except OSError:  # a part of it may have been said
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)
                return False
        return True

    def heard(self) -> Iterator[Said]:
        """What the other end says, until it is gone; a line that its end has cut off is left out."""
        rest = b""
        while True:
            try:
                piece = self._socket.recv(_PIECE)
            except OSError:
                return
            if not piece:
                return
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                yield json.loads(line)

    def close(self) -> None:
        """Say and hear no more. Idempotent."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
