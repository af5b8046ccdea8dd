"""When a message began its way, as far as it says."""

from __future__ import annotations

from typing import Final

from mgw.transforms.kafka.common import TIMESTAMP
from mgw.transforms.kafka.table import AMQP_TIMESTAMP
from mgw.transforms.kafka.types import ORIGINAL_TIMESTAMP
from mgw.transforms.message import Message

__all__ = ["origin_of"]

_MILLISECONDS: Final = 1000.0
#: Headers with the time at which a message was published, and what their values count in.
_UNITS: Final = {ORIGINAL_TIMESTAMP: _MILLISECONDS, TIMESTAMP: _MILLISECONDS, AMQP_TIMESTAMP: 1.0}


def origin_of(message: Message) -> float:
    """Epoch seconds when it was published, as its first header with such a time says, else when it came into the hub;
    0: nobody knows."""
    for name, _, value in message.headers:
        if name in _UNITS and isinstance(value, int | float):
            return value / _UNITS[name]
    return message.enqueue_time or 0.0
