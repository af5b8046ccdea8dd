"""A route that waits for messages of a queue has them planned by the transaction that brings them.

The plan must be durable before the first byte of its messages is sent, and the messages before they are acknowledged:
in one transaction the disk is waited for once, not twice, and the route that is woken has only to send. A request
stands while its route waits for messages, or for confirmations; whoever puts messages into the queue in the same
process, for the same lease, answers it. Messages that come another way, or are more than there was room for, are
planned by the route itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from mgw.transforms.errors import HubUnavailable

__all__ = ["Answers", "PlanRequest", "PlanRequests", "PlanningFailed"]

Plan = Callable[[sa.Connection], Sequence[Any]]


class PlanningFailed(Exception):
    """What was requested cannot be planned: the transaction is tried again without."""


class PlanRequest:
    """What one route waits for.

    Args:
        queue: its id.
        plan: claims and plans in the transaction of a connection, and changes nothing else.
    """

    __slots__ = ("done", "doubtful", "plan", "planned", "queue")

    def __init__(self, queue: int, plan: Plan) -> None:
        self.queue = queue
        self.plan = plan
        self.planned: Sequence[Any] = ()
        self.doubtful = False  # whether the transaction was committed is not known
        self.done = threading.Event()


class Answers:
    """The requests that one transaction answers."""

    def __init__(self, requests: PlanRequests) -> None:
        self._requests = requests
        self._taken: Sequence[tuple[PlanRequest, Sequence[Any]]] = ()

    def plan(self, conn: sa.Connection, queues: Iterable[int]) -> None:
        """Plan what was put into these queues, as the last thing that the transaction does.

        Raises:
            PlanningFailed: undo the transaction.
        """
        taken = self._requests.take(queues)
        self._taken = [(request, ()) for request in taken]
        if taken:
            try:
                planned = [request.plan(conn) for request in taken]
            except Exception as error:
                raise PlanningFailed from error
            self._taken = list(zip(taken, planned, strict=True))

    def end(self, *, committed: bool) -> None:
        """The transaction has ended."""
        for request, planned in self._taken:
            if committed:
                request.planned = planned
            else:
                request.doubtful = bool(planned)
            request.done.set()


class PlanRequests:
    """Of all routes of an agent; used by any thread."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._waiting: dict[int, list[PlanRequest]] = {}

    def make(self, queue: int, plan: Plan) -> PlanRequest:
        """Request that whoever puts messages into the queue plans them."""
        request = PlanRequest(queue, plan)
        with self._mutex:
            self._waiting.setdefault(queue, []).append(request)
        return request

    def withdraw(self, request: PlanRequest) -> Sequence[Any]:
        """End a request; returns what was planned for it, which is durable. Waits for a transaction that is open.

        Raises:
            HubUnavailable: something was planned, and whether it is durable is not known.
        """
        with self._mutex:
            waiting = self._waiting.get(request.queue, [])
            if request in waiting:
                waiting.remove(request)
                if not waiting:
                    del self._waiting[request.queue]
                return ()
        request.done.wait()
        if request.doubtful:
            raise HubUnavailable(
                "it is not known whether the hub has the plan of the next messages",
                cause="the transaction that brought them failed at its end",
                cure="the job begins again with the plans that the hub has",
            )
        return request.planned

    def during(self, wait: Callable[[], None], queue: int, plan: Plan) -> Sequence[Any]:
        """Wait; what was planned meanwhile.

        Raises:
            HubUnavailable: see :meth:`withdraw`.
        """
        request = self.make(queue, plan)
        try:
            wait()
        finally:
            planned = self.withdraw(request)
        return planned

    def take(self, queues: Iterable[int]) -> list[PlanRequest]:
        """The requests for these queues; the caller answers them."""
        if not self._waiting:
            return []
        with self._mutex:
            return [request for queue in dict.fromkeys(queues) for request in self._waiting.pop(queue, ())]

    @contextmanager
    def answering(self) -> Iterator[Answers]:
        """Around a transaction."""
        answers = Answers(self)
        committed = False
        try:
            yield answers
            committed = True
        finally:
            answers.end(committed=committed)
