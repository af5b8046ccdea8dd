"""``max_connections`` of a link holds for the jobs in all workers: the supervisor counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from mgw.gateway.runtime.connection_quota import Connections, NoConnectionFree

__all__ = ["AskedConnections", "Held"]


class AskedConnections(Connections):
    """In a worker. ``ask``: says something to the supervisor, and waits for its answer; ``say`` does not wait."""

    def __init__(self, ask: Callable[..., Mapping[str, Any]], say: Callable[..., object]) -> None:
        super().__init__()
        self._ask, self._say = ask, say

    @contextmanager
    def held(self, job: str, link: str, needed: int, limit: int | None) -> Iterator[None]:
        """See :meth:`Connections.held`."""
        if limit is None:
            yield
            return
        refusal = self._ask("hold", job=job, link=link, needed=needed, limit=limit).get("refusal")
        if refusal is not None:
            what, cause, cure = refusal
            raise NoConnectionFree(what, cause=cause, cure=cure, number=421)
        try:
            yield
        finally:
            self._say("free", job=job, link=link)


class Held:
    """In the supervisor: what one worker holds, of the connections of all."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._held: dict[tuple[str, str], ExitStack] = {}

    def hold(self, job: str, link: str, needed: int, limit: int) -> tuple[str, str, str] | None:
        """None, or why there are not so many free: what, cause, cure."""
        self.free(job, link)
        stack = ExitStack()
        try:
            stack.enter_context(self._connections.held(job, link, needed, limit))
        except NoConnectionFree as refusal:
            return refusal.what, refusal.cause, refusal.cure
        self._held[job, link] = stack
        return None

    def free(self, job: str, link: str) -> None:
        """The job has none any more."""
        stack = self._held.pop((job, link), None)
        if stack is not None:
            stack.close()

    def free_all(self) -> None:
        """The worker has ended."""
        for job, link in list(self._held):
            self.free(job, link)
