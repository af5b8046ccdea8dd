"""What an MQTT destination knows of its echo: messages that came back to a session of our own, not yet acknowledged.

The broker puts whatever a job publishes into the job's echo session, in the order in which it took it over, and keeps
it there until it is acknowledged. So the session is the sending log: after a crash it says which messages the broker
has. A record follows a batch once the broker has confirmed all of it, and takes the place of its messages; only those
of later batches, which may have begun by then, must stay. The newest record is never acknowledged before the next one
is there: the log must not look as if it had been lost.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from mgw.transforms.mqtt import Publish

__all__ = ["KEY", "MARK", "Echo", "EchoLog", "Record", "acknowledgement"]

MARK = "MGW_log"  # user property of every message: "<digest of the job>:<key>"
KEY = 46  # characters of a key


def acknowledgement(packet_id: int) -> bytes:
    """The PUBACK of a message."""
    return b"\x40\x02%c%c" % (packet_id >> 8, packet_id & 255)


class Record(NamedTuple):
    """Every batch up to ``sequence`` is stored. ``beyond``: so many of the last messages before the record at most
    belong to later batches."""

    sequence: int
    beyond: int


@dataclass(frozen=True, slots=True)
class Echo:
    """Names of a job's echo: client id of the session, what it subscribes to, topic of the records."""

    client_id: str
    topic_filter: str
    record_topic: str

    @property
    def owner(self) -> str:
        """Tells the marks of this job from those of all others: 8 characters."""
        return self.client_id[-8:]

    def mark(self, msgid: bytes, enqueued: float | None) -> tuple[str, str]:
        """The user property of a message: its id, and the time at which it was enqueued (epoch seconds).

        A hub restored from a backup gives the ids once more that it gave after the backup, at other times.
        """
        return MARK, f"{self.owner}:{msgid.hex()}{round((enqueued or 0.0) * 1e6):014x}"

    def key_of(self, publish: Publish) -> bytes | None:
        """Key in the mark of a message of this job; None for one of somebody else."""
        for name, value in publish.properties.user:
            if name == MARK and value.startswith(f"{self.owner}:"):
                return value[len(self.owner) + 1 :].encode()
        return None

    def payload(self, record: Record) -> bytes:
        """A record as it is published."""
        return f"batch {record.sequence} {record.beyond} {self.owner}".encode()

    def record_of(self, payload: bytes) -> Record | None:
        """A record of this job; None for what else comes on the topic."""
        words = payload.decode("utf-8", "replace").split(" ")
        if len(words) != 4 or (words[0], words[3]) != ("batch", self.owner):
            return None
        return Record(int(words[1]), int(words[2])) if words[1].isdigit() and words[2].isdigit() else None


class EchoLog:
    """The echo of one connection.

    Attributes:
        sequence: of the newest record; None: the session holds none.
        seen: keys of the messages behind the newest record when the session was connected to: the broker has them.
            Emptied when the messages that were missing are there too.
        settled: what the session held at the connect is through.
        released: no batch up to this one has messages in the session any more.
    """

    def __init__(self) -> None:
        self.sequence: int | None = None
        self.seen: set[bytes] = set()
        self.settled = False
        self.released = 0
        self._own: deque[tuple[int, bytes]] = deque()  # packet ids and keys found at the connect
        self._free = bytearray()  # acknowledgements of what is needed no more
        self._needed_until = 0  # the batch whose record settles what was found at the connect
        self._fresh = False
        self._keep = b""  # acknowledgement of the newest record
        self._held = bytearray()  # of what came after it
        self._arrived = 0
        self._newest = 0  # record that came in this connection
        self._expected: deque[tuple[int, int, int]] = deque()  # records on their way: sequence, latest batch, arrived
        self._segments: deque[tuple[int, int, bytes]] = deque()  # sequence, latest batch, acknowledgements

    # -- at the connect -----------------------------------------------------------------------------------------------

    def found(self, packet_id: int, key: bytes | None) -> None:
        """A message was in the session; ``key`` None: it is not one of this job."""
        if key is None:
            self._free += acknowledgement(packet_id)
        else:
            self._own.append((packet_id, key))

    def found_record(self, packet_id: int, record: Record) -> None:
        """A record was in the session."""
        if self.sequence is not None and record.sequence < self.sequence:
            self._free += acknowledgement(packet_id)
            return
        self._free += self._keep
        self._keep = acknowledgement(packet_id)
        self.sequence = record.sequence
        while len(self._own) > record.beyond:
            self._free += acknowledgement(self._own.popleft()[0])

    def found_all(self) -> None:
        """The session has been read to its end."""
        self.seen = {key for _, key in self._own}

    @property
    def kept(self) -> int:
        """How many messages from before the connect are still in the session."""
        return len(self._own)

    # -- while it runs ------------------------------------------------------------------------------------------------

    def publishes(self, sequence: int, *, known: bool, fresh: bool) -> None:
        """A batch is handed over, with messages that the session held (``known``) or did not hold (``fresh``).

        The broker takes messages over in their order, so nothing that it has comes after the first that it has not.
        """
        if known or (fresh and not self._fresh):
            self._needed_until = sequence
        self._fresh = self._fresh or fresh

    def record_sent(self, sequence: int, latest: int, messages: int) -> None:
        """A record is on its way.

        Args:
            sequence: the batch that it confirms, and all before it.
            latest: the highest batch that has begun.
            messages: sent in this connection in all batches up to ``sequence``.
        """
        self._expected.append((sequence, latest, messages))

    def arrived(self, packet_id: int) -> None:
        """A message came back, ours or another one on the same topic."""
        self._held += acknowledgement(packet_id)
        self._arrived += 1

    def record_arrived(self, packet_id: int, sequence: int) -> int:
        """A record came back; returns how many of the messages before it did not."""
        if not self._expected or self._expected[0][0] != sequence:
            self._held += acknowledgement(packet_id)  # a copy
            return 0
        _, latest, messages = self._expected.popleft()
        self._segments.append((sequence, latest, self._keep + bytes(self._held)))
        self._keep = acknowledgement(packet_id)
        self._held.clear()
        self.sequence = self._newest = sequence
        if self._fresh and sequence >= self._needed_until:
            self.settled = True
            self.seen.clear()
            while self._own:
                self._free += acknowledgement(self._own.popleft()[0])
        return max(0, messages - self._arrived)

    def due(self, *, idle: bool) -> bytes:
        """Acknowledgements to be sent now. ``idle``: nothing of ours is on its way."""
        while self._segments and self._segments[0][1] <= self._newest:
            self.released, _, acks = self._segments.popleft()
            self._free += acks
        if idle and not self._segments and not self._expected:
            self._free += self._held  # of others
            self._held.clear()
        acks = bytes(self._free)
        self._free.clear()
        return self._sparing(acks)

    def passed(self, packet_id: int) -> bytes:
        """Acknowledgement to be sent now for what is neither a message nor a record of this job."""
        return self._sparing(acknowledgement(packet_id))

    def _sparing(self, acks: bytes) -> bytes:
        """Acknowledgements without that of the newest record: they wait until it may go.

        Mosquitto gives a packet id again after 65,535 messages, even if it is in use, and an acknowledgement ends the
        older message: when others publish so much while the job is idle, that would be the record.
        """
        if self._keep not in acks or not self._keep:
            return acks
        parts = [acks[at : at + 4] for at in range(0, len(acks), 4)]
        self._held += self._keep * parts.count(self._keep)
        return b"".join(part for part in parts if part != self._keep)
