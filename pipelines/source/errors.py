"""What can be wrong with a stream."""

from __future__ import annotations

from mgw.transforms.errors import GatewayError

__all__ = ["OffsetLost", "StreamGone", "StreamTaken"]


class OffsetLost(GatewayError):
    """The checkpoint of a query and the stream in the hub do not belong together, or messages are gone."""


class StreamGone(GatewayError):
    """The stream, its queue or its subscriber does not exist any more."""


class StreamTaken(GatewayError):
    """Another query reads the stream now."""
