"""What an MQTT source remembers of the messages that the hub has: the receiving log by packet id.

At QoS 1 a broker that was not told in time of an acknowledgement sends the message again after the next connect, with
the DUP flag and under the same packet id. Such a message is known, and not stored again, if

1. it was stored in this session of the broker (packet ids begin again in a new one),
2. the newest entry of its packet id has the same digest, and
3. that packet id is at most half the id space behind the newest stored one.

This holds where packet ids are given cyclically, in the order of delivery (Mosquitto: 1 to 65,535 and again). Then a
message that reuses a packet id is ahead of the newest stored one, not behind it: (3) tells equal messages apart that
come one round later. (2) guards against a jump of the packet ids, as when a broker drops or expires messages. A broker
that gives the lowest free id breaks all of it, so the log is only used where the ids are known to be cyclic.

The decision is made from what the hub said when the source connected, so a batch that was read and not committed never
counts. Entries are never removed because a message was acknowledged (acknowledgements are not answered), only when
:data:`KEPT` messages were stored after them.

Stored form: the position ``session`` holds ``<number>:<slot>:<identity>``, and one mark per batch, ``r<serial>``, holds
``<number>:<base64 of 18 bytes per message: packet id, digest>``. One row per batch costs a fraction of one per message.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from json import JSONEncoder

from mgw.links.contract import Mark, Position
from mgw.transforms.mqtt import NO_PROPERTIES, Publish

__all__ = ["DIGEST", "KEPT", "OFF", "ReceivingLog", "digest_head", "digest_of", "receipt"]

KEPT = 32768  # messages: how far behind the newest one an unacknowledged message may lie
OFF = "off"  # identity of a session whose messages are not logged

_SESSION = "session"
_IDS = 65535  # packet ids 1 to 65535
DIGEST = 16  # bytes
_ENTRY = 2 + DIGEST
_json = JSONEncoder(check_circular=False, separators=(",", ":")).encode


def digest_of(publish: Publish) -> bytes:
    """16 bytes that are the same whenever the broker sends this message again.

    Left out is what changes on the way: message expiry (the broker counts it down), DUP, retain, topic alias.
    """
    topic, payload, _, _, _, properties, _ = publish
    if properties is NO_PROPERTIES:
        head = digest_head(topic)
    else:
        form, _, content_type, response_topic, correlation, user = properties
        data = None if correlation is None else correlation.hex()
        head = f"{len(topic)}:{topic}{_json((form, content_type, response_topic, data, user))}".encode()
    return blake2b(head + payload, digest_size=DIGEST).digest()


def digest_head(topic: str) -> bytes:
    """What is digested before the payload of a message without properties."""
    return f"{len(topic)};{topic}".encode()


def receipt(packet_id: int, digest: bytes) -> bytes:
    """The entry of one message."""
    return packet_id.to_bytes(2, "big") + digest


class ReceivingLog:
    """The log of one job, from one connect to the next.

    Args:
        stored: what the hub has, partition -> value.
        identity: names the place of the session (broker and client id); another one makes the entries worthless.

    ``slot`` (0 or 1) says which of the job's two client ids has the session: after a loss the other one is used. A
    connection that was killed before the hub knew of the loss then finds again that the session is gone.

    Raises:
        ValueError: the stored log is not one that this class wrote.
    """

    def __init__(self, stored: Mapping[str, str], identity: str) -> None:
        self._stored = stored.get(_SESSION)
        self._identity = identity
        number, slot, owner = (self._stored or f"0:0:{identity}").split(":", 2)
        self._number = int(number)
        self._same = self._stored is not None and owner == identity
        self.slot = int(slot)
        if self.slot not in (0, 1):
            raise ValueError(f"slot {slot}")
        self._known: dict[int, bytes] = {}
        self._newest = 0
        self._rows: deque[tuple[str, int]] = deque()
        self._kept = 0
        self._fresh = 0
        self._stale: list[str] = []
        self._opening: Position | None = None
        names = sorted(int(name[1:]) for name in stored if name[0] == "r")
        self._serial = names[-1] if names else 0
        prefix = f"{number}:"
        for name in (f"r{serial}" for serial in names):
            value = stored[name]
            if self._same and value.startswith(prefix):
                self._load(name, b64decode(value[len(prefix) :], validate=True))
            else:
                self._stale.append(name)
        if not self._same and (self._stored is not None or identity != OFF):
            self._raise()

    def _load(self, name: str, entries: bytes) -> None:
        if not entries or len(entries) % _ENTRY:
            raise ValueError(f"row {name} has {len(entries)} bytes")
        for at in range(0, len(entries), _ENTRY):
            self._newest = entries[at] << 8 | entries[at + 1]
            self._known[self._newest] = entries[at + 2 : at + _ENTRY]
        self._note(name, len(entries) // _ENTRY)

    def _note(self, name: str, count: int) -> None:
        self._rows.append((name, count))
        self._kept += count

    def _raise(self) -> None:
        self._number += 1
        self._opening = Position(_SESSION, self._stored, f"{self._number}:{self.slot}:{self._identity}")

    @property
    def expected(self) -> bool:
        """Whether the broker must still have the session: the hub knows it and its messages were logged."""
        return self._same and self._identity != OFF

    @property
    def number(self) -> int:
        """Number of the session, from 1."""
        return self._number

    def lose(self) -> None:
        """The broker has forgotten the session: a new one, with the other client id, and no entry counts any more."""
        self._stale += [name for name, _ in self._rows]
        self._rows.clear()
        self._known.clear()
        self._kept = 0
        self.slot = 1 - self.slot
        self._raise()

    def knows(self, packet_id: int, digest: bytes) -> bool:
        """Whether the hub has this message, which came with the DUP flag."""
        return self._known.get(packet_id) == digest and (self._newest - packet_id) % _IDS < KEPT

    def add(self, receipts: Sequence[bytes]) -> tuple[Sequence[Position], Sequence[Mark]]:
        """What the hub must store together with the messages of a batch. ``receipts``: of those not known, in order."""
        positions = () if self._opening is None else (self._opening,)
        self._opening = None
        marks = [Mark(name, None) for name in self._stale]
        self._stale = []
        if receipts and self._identity != OFF:
            self._serial += 1
            name = f"r{self._serial}"
            marks.append(Mark(name, f"{self._number}:{b64encode(b''.join(receipts)).decode()}"))
            self._note(name, len(receipts))
            while self._kept - self._rows[0][1] >= KEPT:
                old, count = self._rows.popleft()
                self._kept -= count
                marks.append(Mark(old, None))
            if self._known:
                self._fresh += len(receipts)
                if self._fresh > KEPT:  # nothing comes again after so many: brokers resend at a connect only
                    self._known = {}
        return positions, marks
