"""What is known of a broker: by one attempt of a job, and by the links of an agent."""

from __future__ import annotations

import threading
import time

__all__ = ["Answers", "Knowledge"]

_REMEMBERED = 3600.0  # seconds for which the room of a broker is not measured again
_REMEMBERED_LACK = 600.0  # the same, of a broker that lacks it

Room = tuple[str | None, str, int]  # user, topic of records, messages wanted


class Answers:
    """What the broker said in an attempt of a job."""

    def __init__(self) -> None:
        self.mosquitto: bool | None = None  # None: not asked yet
        self.echo_problem: str | None = None  # why there is no sending log, empty if there is one


class Knowledge:
    """What the links of an agent have seen of a broker. It outlives connections, attempts and altered definitions.

    Used by the threads of all jobs. What belongs to a job is kept under the client id of its session.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._losses: dict[str, str] = {}
        self._gaps: dict[str, str] = {}
        self._overflows: dict[str, str] = {}
        self._rooms: dict[Room, tuple[float, str]] = {}  # what was found, when

    def note_loss(self, client_id: str, text: str) -> None:
        """The broker has lost the session of a job that reads."""
        with self._lock:
            self._losses[client_id] = text

    def loss(self, client_id: str) -> str:
        """What the broker has lost of a job since the agent began, in words; empty if nothing."""
        with self._lock:
            return self._losses.get(client_id, "")

    def note_gap(self, client_id: str, text: str) -> None:
        """Messages are missing in an echo; for good, as long as the agent runs."""
        with self._lock:
            self._gaps[client_id] = text

    def gap(self, client_id: str) -> str:
        """What was missing in an echo, in words; empty if nothing. Then there is no sending log."""
        with self._lock:
            return self._gaps.get(client_id, "")

    def note_overflow(self, client_id: str, text: str) -> bool:
        """An echo had overflowed while nobody read it; whether that is news."""
        with self._lock:
            new = client_id not in self._overflows
            self._overflows[client_id] = text
            return new

    def end_overflow(self, client_id: str) -> None:
        """The batches of the time when the echo had overflowed are through."""
        with self._lock:
            self._overflows.pop(client_id, None)

    def overflow(self, client_id: str) -> str:
        """That an echo had overflowed, in words; empty if not, or no more."""
        with self._lock:
            return self._overflows.get(client_id, "")

    def note_room(self, room: Room, lacking: str) -> None:
        """What was measured just now: why the broker lacks room, empty if it has it."""
        with self._lock:
            self._rooms[room] = time.monotonic(), lacking

    def room(self, room: Room) -> str | None:
        """Why the broker lacks room, as it was measured last; None: it must be measured."""
        with self._lock:
            measured, lacking = self._rooms.get(room, (0.0, None))
        if lacking is None or time.monotonic() - measured > (_REMEMBERED_LACK if lacking else _REMEMBERED):
            return None
        return lacking
