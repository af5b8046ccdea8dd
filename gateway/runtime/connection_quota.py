"""How many connections the jobs of a link hold, where the link has a limit (max_connections)."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from mgw.transforms.errors import GatewayError, LinkUnavailable
from mgw.transforms.open_files import shortage

__all__ = ["Connections", "NoConnectionFree", "files_needed", "no_file"]

_FILES_OF_AGENT = 60  # its own: the hub's pool, the log, its libraries
_FILES_OF_CONNECTION = 8  # four while it lasts, and as many more while the broker is asked what it promises


class NoConnectionFree(GatewayError):
    """All connections that a link may hold are taken [421]."""


class Connections:
    """The connections of one agent's links. What is asked of a link for a moment, in the background, does not count."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    @contextmanager
    def all_held(self, job: str, needed: Mapping[str, tuple[int, int | None]]) -> Iterator[None]:
        """Hold connections of several links: how many, and how many the link may have.

        Raises:
            NoConnectionFree: there are not so many free.
        """
        with ExitStack() as stack:
            for link, (number, limit) in needed.items():
                stack.enter_context(self.held(job, link, number, limit))
            yield

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
                    f"job {job}: link {link} has no free connection for it",
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


def files_needed(connections: int) -> int:
    """About how many files an agent has open at most, whose jobs hold so many connections."""
    return _FILES_OF_AGENT + _FILES_OF_CONNECTION * connections


def no_file(job: str, link: str, error: BaseException) -> LinkUnavailable | None:
    """An error of the system as one of the link, if it came because no more files could be opened."""
    found = shortage(error, guess=False)
    if found is None:
        return None
    cause, cure = found
    return LinkUnavailable(
        f"job {job}: no further connection can be opened for link {link}",
        link=link,
        operation="connect",
        cause=cause,
        cure=cure,
    )
