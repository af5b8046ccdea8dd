"""What the links of an agent know of a broker: it outlives connections, attempts and altered definitions."""

from __future__ import annotations

import threading

from mgw.links.rabbitmq.management import LastPolicies
from mgw.links.rabbitmq.stream_end import ShortStreams

__all__ = ["Knowledge"]


class Knowledge:
    """Used by the threads of all jobs.

    Attributes:
        policies: of the broker, as they were told last.
        short_streams: streams that were found to end before what a job has stored.
    """

    def __init__(self) -> None:
        self.policies = LastPolicies()
        self.short_streams = ShortStreams()
        self._lock = threading.Lock()
        self._looks: dict[tuple[str, str], threading.Lock] = {}

    def alone_with(self, virtual_host: str, queue: str) -> threading.Lock:
        """Held while a log queue is read: to look takes out what is there for a moment."""
        with self._lock:
            return self._looks.setdefault((virtual_host, queue), threading.Lock())
