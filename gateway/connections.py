"""How many connections the jobs of a link hold, where the link has a limit (max_connections)."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from transforms.errors import GatewayError

__all__ = ["Connections", "NoConnectionFree"]


class NoConnectionFree(GatewayError):
    """All connections that a link may hold are taken [421]."""


class Connections:
    """The connections of one agent's links. What is asked of a link for a moment, beside the flow, does not count."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    @contextmanager
    def held(self, job: str, link: str, needed: int, limit: int | None) -> Iterator[None]:
        """Hold ``needed`` connections of a link that may have ``limit`` (None: any number).

        Raises:
            NoConnectionFree: there are not so many free.
        """
        with self._lock:
            taken = self._taken[link]
            if limit is not None and taken + needed > limit:
                raise NoConnectionFree(
                    f"job {job}: link {link} has no connection free for it",
                    cause=f"it needs {needed}, other jobs hold {taken}, and max_connections is {limit}",
                    cure="raise max_connections of the link, or disable another of its jobs; the job waits until then",
                    number=421,
                )
            self._taken[link] += needed
        try:
            yield
        finally:
            with self._lock:
                self._taken[link] -= needed
