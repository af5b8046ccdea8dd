"""Whether a message was published by the hub that reads it (job option JMS_NoLocal).

No broker knows: the jobs of a link have connections of their own, so the no-local flag of MQTT 5 and of AMQP, which
compares connections, never applies. The message says it: its id in the hub, which begins with the id of the hub, or
else the last job of its trail.
"""

from __future__ import annotations

from typing import Final

from mgw.transforms.aq_properties import MESSAGE_ID
from mgw.transforms.message import TRAIL, Message

__all__ = ["NoLocal"]

_PREFIX: Final = "AQMSGID:"
_AMQP_ID: Final = "MGW_AMQP_messageId"
_HUB_DIGITS: Final = 8  # of a trail


class NoLocal:
    """Tells the messages that one hub published."""

    def __init__(self, hub_id: bytes) -> None:
        """``hub_id``: its eight bytes."""
        self._hub = hub_id.hex()

    def __call__(self, message: Message) -> bool:
        """Whether a job of the hub published the message."""
        found: dict[str, str] = {}
        for name, _, value in message.headers:
            if name in _NAMES and name not in found:  # the first one is that of the last hop
                found[name] = _PREFIX + value.hex() if isinstance(value, bytes) else str(value)
        for name in (_AMQP_ID, MESSAGE_ID):
            identity = found.get(name, "")
            if identity.startswith(_PREFIX):
                return identity[len(_PREFIX) :].lower().startswith(self._hub)
        last = found.get(TRAIL, "").rpartition(", ")[2]
        return last.rpartition("*")[0].endswith("@" + self._hub[:_HUB_DIGITS])


_NAMES: Final = frozenset((_AMQP_ID, MESSAGE_ID, TRAIL))
