"""A queue of the hub as destination: a batch is put in the transaction that completes it at its source."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from mgw.gateway.aq import MessageRefused, transfer
from mgw.gateway.definitions.job_options import Unrouted, unrouted
from mgw.gateway.observe.events import MessagesDiscarded
from mgw.gateway.runtime.ends.contract import DestinationEnd, RefusedByHub, Stored
from mgw.gateway.runtime.route import RouteContext
from mgw.transforms.message import Message

__all__ = ["HubDestination"]


class HubDestination(DestinationEnd):
    """Puts: what is written is there with the transaction, or is not, so it needs neither a plan nor a log."""

    planned = False
    logged = False
    encode = None

    def __init__(self, context: RouteContext, queue_name: str) -> None:
        self._context = context
        self._queue_name = queue_name
        self._discard = unrouted(context.job) is Unrouted.DISCARD
        self._written: list[Any] = []
        self._wake = threading.Event()

    def open(self) -> None:
        """Find the queue."""
        with self._context.hub.read() as conn:
            self._queue = transfer.resolve(conn, self._queue_name)

    @property
    def room(self) -> int:
        """As much as the largest batch has."""
        return self._context.job.batch_limit

    @property
    def busy(self) -> bool:
        """Whether something is not stored yet."""
        return bool(self._written)

    def write(self, batch: Any, forms: Sequence[Any]) -> None:  # noqa: ARG002  the batch knows them
        """Keep it for the next transaction."""
        self._written.append(batch)

    def finished(self) -> Sequence[Any]:
        """What was written."""
        written, self._written = self._written, []
        return written

    def store(self, conn: sa.Connection, finished: Sequence[Any], stored: Stored, now: float) -> None:
        """Put the batches.

        Raises:
            RefusedByHub: the queue refuses one message.
            AqError: it takes none at all.
        """
        outgoing = [(batch, messages) for batch in finished if (messages := batch.outgoing())]
        if not self._put_at_once(conn, outgoing, stored, now):
            for batch, messages in outgoing:
                try:
                    put = transfer.put(conn, self._queue, messages, discard_unrouted=self._discard, now=now)
                except MessageRefused as error:
                    raise RefusedByHub(error, batch) from error
                self._was_put(batch, put, stored)
        stored.queues.append(self._queue.id)

    def _put_at_once(
        self, conn: sa.Connection, outgoing: Sequence[tuple[Any, Sequence[Message]]], stored: Stored, now: float
    ) -> bool:
        """Put several batches with the statements of one; False: nothing of them was stored, as one is refused."""
        if len(outgoing) < 2:
            return False
        everything = [message for _, messages in outgoing for message in messages]
        try:
            put = transfer.put(conn, self._queue, everything, discard_unrouted=self._discard, now=now)
        except MessageRefused:
            return False  # it is told of its own batch
        start = 0
        for batch, messages in outgoing:
            end = start + len(messages)
            left_out = [index - start for index in put.discarded if start <= index < end]
            self._was_put(batch, transfer.PutResult(put.msgids[start:end], left_out), stored)
            start = end
        return True

    def _was_put(self, batch: Any, put: transfer.PutResult, stored: Stored) -> None:
        if put.discarded:
            reason = f"no rule of a subscriber of queue {self._queue_name} is true for them"
            stored.events.append(MessagesDiscarded(self._context.job.name, len(put.discarded), reason))
        batch.was_put(put)

    def wait(self, seconds: float) -> None:
        """Wait for :meth:`interrupt`."""
        self._wake.wait(seconds)
        self._wake.clear()

    def state(self) -> str:
        """See :meth:`mgw.gateway.runtime.ends.contract.DestinationEnd.state`."""
        return f"queue {self._queue_name}, {len(self._written)} batches not stored yet"

    def interrupt(self) -> None:
        """From any thread: make a waiting ``wait`` return."""
        self._wake.set()

    def close(self) -> None:
        """Nothing is held open."""
        self._written.clear()
