"""Reading from the broker inside the process."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from mgw.links.contract import (
    EMPTY_BATCH,
    Backlog,
    Batch,
    Delivery,
    Direction,
    JobUse,
    Position,
)
from mgw.links.memory.broker import MemoryLog, MemoryQueue, Stored
from mgw.links.memory.connection import MemoryAccess, MemoryConnection, subscription_name
from mgw.transforms.errors import (
    ConversionFailure,
    PositionLost,
)
from mgw.transforms.gap import Gap
from mgw.transforms.message import check_headers

__all__ = ["MemorySource", "flag"]


class MemorySource(MemoryConnection):
    """Reads a queue, a log or a topic's subscription."""

    def __init__(self, link: MemoryAccess, use: JobUse) -> None:
        super().__init__(link, use)
        self._queue: MemoryQueue | None = None
        self._log: MemoryLog | None = None
        self._unsettled: list[Stored] = []
        self._unique = flag(use.endpoint.options, "MEMORY_UniqueIds")
        self._stored: int | None = None  # the log position the hub holds
        self._next = 0

    def connect(self, positions: Mapping[str, str]) -> None:
        """See :meth:`mgw.links.contract.Source.connect`."""
        with self.broker.changed:
            self._open(Direction.INBOUND)
            name = self.use.endpoint.provider_queue
            store = self.broker.find(name)
            if isinstance(store, MemoryLog):
                self._log = store
                self._stored = int(positions["0"]) if "0" in positions else None
                self._next = store.first if self._stored is None else self._stored + 1
                if self._next < store.first or self._next > store.end:
                    raise PositionLost(
                        f"foreign queue {self.use.endpoint.full_name}: position {self._next} is gone",
                        link=self.link.config.name,
                        operation="connect",
                        cause=f"log {name} holds {store.first} to {store.end - 1}",
                        cure=f"if the gap is acceptable: mgw agents cleanup RESET_SUB_MISSING_MESSAGE {self.use.job}",
                        number=415,
                    ).missing(_gap(store, self._next))
            else:
                self._queue = store or self.broker.subscribe(subscription_name(self.use), name)

    def read(self, max_messages: int, wait: float) -> Batch:
        """See :meth:`mgw.links.contract.Source.read`."""
        changed = self.broker.changed
        with changed:
            self._check("read")
            changed.wait_for(self._readable, wait)
            self._interrupted = False
            self._check("read")
            self._raise_fault("read")
            if self._log is not None:
                return self._read_log(self._log, max_messages)
            assert self._queue is not None  # noqa: S101 - connect sets one of the two
            items = self._queue.take(max_messages)
            if not items:
                return EMPTY_BATCH
            self._unsettled.extend(items)
            ids = [item.message.correlation for item in items] if self._unique else ()
            return Batch([self._deliver(item) for item in items], token=items, ids=ids)

    def _readable(self) -> bool:
        if self._interrupted or self._epoch != self.broker.epoch or self.broker.stalled:
            return True
        if self._log is not None:
            return self._log.end > self._next
        return self._queue is not None and self._queue.ready > 0

    def _read_log(self, log: MemoryLog, max_messages: int) -> Batch:
        items = log.read(self._next, max_messages)
        if not items:
            return EMPTY_BATCH
        before = None if self._stored is None else str(self._stored)
        self._stored = items[-1].position
        self._next = self._stored + 1
        return Batch([self._deliver(item) for item in items], (Position("0", before, str(self._stored)),))

    def _deliver(self, item: Stored) -> Delivery:
        message, failure = item.message, None
        try:
            check_headers(message.headers)
        except ConversionFailure as error:
            failure = error
        if item.expires_at is not None:
            left = item.expires_at - self.use.clock.now()
            message = replace(message, expiration=max(1, math.ceil(left)), expires_at=None)
        return Delivery(message, failure, item.redelivered, f"{self.use.endpoint.provider_queue}@{item.position}")

    def settle(self, batch: Batch) -> None:
        """See :meth:`mgw.links.contract.Source.settle`."""
        with self.broker.changed:
            self._check("settle")
            self._raise_fault("settle")
            if self._queue is not None and batch.token:
                self._queue.settle(batch.token)
                gone = {item.position for item in batch.token}
                self._unsettled = [item for item in self._unsettled if item.position not in gone]

    def backlog(self) -> Backlog | None:
        """See :meth:`mgw.links.contract.Source.backlog`."""
        with self.broker.changed:
            self._check("backlog")
            if self._log is not None:
                return Backlog(self._log.end - self._next)
            return Backlog(self._queue.ready if self._queue is not None else 0)

    def close(self) -> None:
        """See :meth:`mgw.links.contract.Source.close`."""
        with self.broker.changed:
            if self._queue is not None:
                self._queue.give_back(self._unsettled)
            self._unsettled = []
            self._queue = self._log = self._epoch = None
            self.broker.changed.notify_all()


def _gap(log: MemoryLog, at: int) -> Gap:
    """What a log lacks for a reader that stands at ``at``."""
    if at < log.first:
        return Gap("0", at, log.first - 1, "the log was cut at its beginning", log.first, str(log.first - 1))
    cause = f"the log ends at {log.end - 1}, before the stored position: it lost its end; some messages may come twice"
    return Gap("0", None, None, cause)


def flag(options: Mapping[str, str], name: str) -> bool:
    """A TRUE/FALSE option; names compare case-insensitively."""
    return any(key.lower() == name.lower() and value.upper() == "TRUE" for key, value in options.items())
