"""A PUBLISH without properties as a message, by a short way that leads to the same.

Most publishers send a topic and a payload, nothing else. What a topic becomes is worked out once for all its messages.
Everything else takes the long way, over :func:`mgw.links.mqtt.codec.parse_publish`,
:func:`mgw.links.mqtt.receiving_log.digest_of` and :func:`mgw.transforms.mqtt.inbound`.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final, NamedTuple

from mgw.links.mqtt.codec import parse_publish
from mgw.links.mqtt.receiving_log import DIGEST, digest_head
from mgw.transforms.message import MAX_HEADER_TEXT, Header, Message, MessageDraft, PayloadKind
from mgw.transforms.mqtt import Inbound, inbound

__all__ = ["PlainPublishes"]

_TOPICS: Final = 4096  # remembered
_BASIC: Final = PayloadKind.BASIC
#: Behind the headers, of a message that has nothing but a body and headers.
_NOTHING_ELSE: Final = (_BASIC, 1, None, 0, None, None, None, None, 0, None, None, None, None, None, 0)


class _Topic(NamedTuple):
    """What the messages of a topic with the same flags have in common."""

    headers: tuple[Header, ...]
    digested: bytes  # before the payload
    origin: str  # before the packet id


class PlainPublishes:
    """The messages of one source. ``digests``: they are asked for."""

    def __init__(self, rules: Inbound, version: int, *, digests: bool) -> None:
        self._rules, self._version, self._digests = rules, version, digests
        self._usual = not rules.envelope
        self._topics: dict[tuple[bytes, int], _Topic | None] = {}

    def read(self, first: int, data: bytes) -> tuple[int, Message, bytes, str] | None:
        """Packet id, message, digest (empty where it is not asked for) and origin; None where the long way has to be
        taken."""
        if not (self._usual and first & 6 == 2):  # QoS 1
            return None
        try:
            end = 2 + (data[0] << 8 | data[1])
            mid = data[end] << 8 | data[end + 1]
            begin = end + 2
            if self._version >= 5:
                if data[begin]:  # there are properties
                    return None
                begin += 1
        except IndexError:
            return None
        key = (data[2:end], first)
        topic = self._topics.get(key)
        if topic is None:
            topic = self._learnt(key, first, data)
            if topic is None:
                return None
        payload: Any = data[begin:]
        digest = blake2b(topic.digested + payload, digest_size=DIGEST).digest() if self._digests else b""
        if self._rules.text:
            try:
                payload = payload.decode()
            except UnicodeDecodeError:
                return None
        message = MessageDraft(payload, topic.headers, *_NOTHING_ELSE)
        message.__class__ = Message  # as new_message does it
        return mid, message, digest, f"{topic.origin}{mid}"

    def _learnt(self, key: tuple[bytes, int], first: int, data: bytes) -> _Topic | None:
        _, publish = parse_publish(first, data, self._version)
        if publish.problem or len(publish.topic) > MAX_HEADER_TEXT:
            return None
        message, failure = inbound(publish, self._rules)
        if failure is not None:
            return None
        if len(self._topics) >= _TOPICS:
            self._topics.clear()
        found = self._topics[key] = _Topic(message.headers, digest_head(publish.topic), f"{publish.topic}#")
        return found
