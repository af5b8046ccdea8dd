"""A commit in one process of an agent wakes who waits for its messages in another, with a datagram.

Without it a worker learns of another one's commits as it learns of those of other programs: by LISTEN on PostgreSQL, by
a look every 25 ms on SQLite. A datagram is a hint: one that is lost costs that time.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress

from mgw.gateway.aq import Hub

__all__ = ["Mailboxes", "Relay"]

_MOST = 65536  # bytes of a datagram


class Mailboxes:
    """A pair of sockets for each worker: where its datagrams are read, and where everybody writes them.

    The supervisor keeps all of them, for a worker that takes the place of another one.
    """

    def __init__(self, numbers: Sequence[int]) -> None:
        self._pairs = {number: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for number in numbers}

    @property
    def writing(self) -> Mapping[int, socket.socket]:
        """Where to write, by number of the worker."""
        return {number: pair[1] for number, pair in self._pairs.items()}

    def reading(self, number: int) -> socket.socket:
        """Where that worker reads."""
        return self._pairs[number][0]

    def close(self) -> None:
        """Close all of them. Idempotent."""
        for pair in self._pairs.values():
            for end in pair:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)  # who reads there in this process learns it
                end.close()


class Relay:
    """Tells the workers of a process's commits those that wait for them; ``hub`` is that of the process.

    Attributes:
        watchers: numbers of the workers that wait, by queue. Replaced as a whole.
    """

    def __init__(self, hub: Hub, writing: Mapping[int, socket.socket]) -> None:
        self.watchers: Mapping[int, Sequence[int]] = {}
        self._hub = hub
        self._writing = writing
        hub.notifier.relay = self.tell

    def tell(self, queues: tuple[int, ...]) -> None:
        """Messages became ready in these queues of the hub."""
        watchers, told = self.watchers, dict[int, list[int]]()
        for queue in queues:
            for number in watchers.get(queue, ()):
                told.setdefault(number, []).append(queue)
        for number, found in told.items():
            with suppress(OSError):  # full: it has enough to look at
                self._writing[number].send(",".join(map(str, found)).encode(), socket.MSG_DONTWAIT)

    def listen(self, mailbox: socket.socket) -> None:
        """Wake who waits in this process, on a thread of its own."""

        def obey() -> None:
            with suppress(OSError):  # it was closed
                while said := mailbox.recv(_MOST):
                    self._hub.notifier.wake([int(queue) for queue in said.split(b",")])

        threading.Thread(target=obey, name="wake", daemon=True).start()

    def close(self) -> None:
        """Tell nobody any more."""
        self._hub.notifier.relay = None
