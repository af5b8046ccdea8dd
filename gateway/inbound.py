"""Carries messages from a link to a hub queue: read, convert, one hub transaction, settle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import repeat
from typing import NamedTuple

from gateway import journal, lease, ledger
from gateway.aq import transfer
from gateway.aq.errors import MessageRefused
from gateway.batchtrace import trace_begin, trace_read, trace_settled
from gateway.conversion import Conversion
from gateway.events import Event, MessagesDiscarded, MessagesExceptioned
from gateway.exceptionqueue import ForeignExceptionQueue, Refused
from gateway.journal import Counts
from gateway.route import Caution, RouteContext
from links.contract import RESUME, Backlog, Batch, Delivery, Mark, Source
from transforms.errors import ConversionFailure, LinkTimeout
from transforms.message import Message

__all__ = ["InboundRoute"]

NO_RECIPIENT = 24033


class _Kept(NamedTuple):
    """A message to store, the delivery it came from, and the key that its publisher made unique."""

    message: Message
    delivery: Delivery
    key: str | None


class _RefusedDelivery(Exception):
    """The hub refused a message of this delivery; ends the transaction."""

    def __init__(self, error: MessageRefused, delivery: Delivery) -> None:
        super().__init__(error)
        self.error = error
        self.delivery = delivery


class InboundRoute:
    """Carries messages from a link to a hub queue."""

    def __init__(
        self,
        context: RouteContext,
        source: Source,
        queue_name: str,
        conversion: Conversion,
        exceptions: ForeignExceptionQueue | None,
    ) -> None:
        self._context = context
        self._source = source
        self._queue_name = queue_name
        self._convert = conversion.apply
        self._exceptions = exceptions
        self._caution = Caution(context)
        self._last_read = context.clock.monotonic()
        self._resumed = False
        self._discard = context.job.flag("discard_unrouted")

    def open(self) -> None:
        """Connect the source where the hub says it stopped."""
        with self._context.hub.read() as conn:
            self._queue = transfer.resolve(conn, self._queue_name)
            positions = journal.load_positions(conn, self._context.job.id)
        self._resumed = RESUME in positions
        self._context.open_ledger()
        trace_begin(self._context.job.name, positions)
        self._source.connect(positions)

    def carry(self, wait: float) -> Counts:
        """Carry what is there now, at most one batch; wait up to ``wait`` seconds for the first message.

        Raises:
            GatewayError: nothing of the batch was acknowledged; it comes again.
        """
        batch = self._source.read(self._caution.limit(), wait)
        read = self._context.clock.now()
        if self._exceptions is not None:
            self._exceptions.keep_alive()
        counts = Counts()
        if not batch.deliveries and not batch.positions and not batch.marks:
            self._caution.passed(0)
            if batch.token is not None:  # read and known already: a broker that waits for its settling sends no more
                self._source.settle(batch)
            return counts
        context = self._context
        trace_read(context.job.name, batch)
        with context.turns.take():
            kept, refused, events = self._select(batch, counts)
        counts, more = self._store(batch, kept, refused, counts, read)
        context.hub.notifier.committed([self._queue.id])
        self._resumed = False
        self._source.settle(batch)
        trace_settled(context.job.name)
        self._last_read = context.clock.monotonic()
        self._caution.passed(len(batch.deliveries))
        for event in (*events, *more):
            context.journalist.tell(event)
        return counts

    def _store(
        self, batch: Batch, kept: list[_Kept], refused: list[Refused], counts: Counts, read: float
    ) -> tuple[Counts, list[Event]]:
        """Refused messages to the exception queue first, then everything else in one hub transaction."""
        context = self._context
        events: list[Event] = []
        taken = 0
        while True:
            if len(refused) > taken and self._exceptions is not None:
                self._exceptions.take(refused[taken:])
                events.append(_exceptioned(context.job.name, refused[taken:], self._exceptions.name))
                taken = len(refused)
            try:
                with context.turns.take():
                    final, more = self._commit(batch, kept, refused, counts, read)
                return final, [*events, *more]
            except _RefusedDelivery as refusal:
                # The hub refuses one message for what it is (a rule that fails on it): nothing was stored.
                error, delivery = refusal.error, refusal.delivery
                if self._exceptions is None or error.number == NO_RECIPIENT:
                    raise error from None
                kept[:] = [entry for entry in kept if entry.delivery is not delivery]
                counts.propagated -= 1
                counts.exceptioned += 1
                failure = ConversionFailure(error.what, cause=error.cause, cure=error.cure, number=error.number)
                refused.append(Refused(delivery.message, failure, delivery.origin))

    def _commit(
        self, batch: Batch, offered: Sequence[_Kept], refused: Sequence[Refused], counts: Counts, read: float
    ) -> tuple[Counts, list[Event]]:
        context = self._context
        job, now = context.job, context.clock.now()
        final, events = replace(counts), list[Event]()
        kept, stored = offered, transfer.PutResult([], [])
        with context.hub.write() as conn:
            lease.check_owner(conn, context.agent_key, context.token)
            if batch.ids:
                fresh = journal.new_keys(conn, job.id, [key for key in batch.ids if key is not None], now=now)
                kept = _without_known(kept, fresh, final)
            if kept:
                messages = [entry.message for entry in kept]
                try:
                    stored = transfer.put(conn, self._queue, messages, discard_unrouted=self._discard, now=now)
                except MessageRefused as error:
                    raise _RefusedDelivery(error, kept[error.index].delivery) from error
                if stored.discarded:
                    whole = _wholly_discarded(kept, stored)
                    final.discarded += whole
                    final.propagated -= whole
                    reason = f"queue {self._queue_name} has no recipient for them"
                    events.append(MessagesDiscarded(job.name, len(stored.discarded), reason))
            journal.advance_positions(conn, job.id, batch.positions, now=now)
            journal.write_marks(conn, job.id, batch.marks, now=now)
            if self._resumed:
                journal.write_marks(conn, job.id, [Mark(RESUME, None)], now=now)
            journal.count(conn, job.id, final, now=now)
            if context.ledger:
                ledger.record_received(
                    conn,
                    job.id,
                    batch,
                    offered=offered,
                    kept=kept,
                    msgids=stored.msgids,
                    refused=refused,
                    counts=final,
                    read=read,
                    now=now,
                )
        return final, events

    def _select(self, batch: Batch, counts: Counts) -> tuple[list[_Kept], list[Refused], list[Event]]:
        kept: list[_Kept] = []
        refused: list[Refused] = []
        expired = 0
        convert = self._convert
        keys = batch.ids or repeat(None)
        for delivery, key in zip(batch.deliveries, keys, strict=False):
            message, failure, _, origin, duplicate = delivery
            if duplicate:
                counts.suppressed += 1
                continue
            if failure is None:
                if message.expiration is not None and message.expiration <= 0:
                    expired += 1
                    continue
                try:
                    results = convert(message)
                except ConversionFailure as error:
                    failure = error  # same meaning as a failure of the link's own conversion
                else:
                    if results:
                        kept.extend([_Kept(result, delivery, key) for result in results])
                        counts.propagated += 1
                    else:
                        counts.filtered += 1
                    continue
            if self._exceptions is None:
                raise failure
            refused.append(Refused(message, failure, origin))
        counts.exceptioned = len(refused)
        counts.discarded = expired
        events: list[Event] = []
        if expired:
            events.append(MessagesDiscarded(self._context.job.name, expired, "they had expired before they arrived"))
        return kept, refused, events

    def check_stall(self, backlog: Backlog | None) -> None:
        """Refuse to look healthy while messages wait and none is delivered.

        Raises:
            LinkTimeout: so that the connection is torn down and rebuilt.
        """
        silence = self._context.clock.monotonic() - self._last_read
        if backlog is not None and backlog.messages > 0 and silence > self._context.stall_seconds:
            self._last_read = self._context.clock.monotonic()
            raise LinkTimeout(
                f"{backlog.messages} messages wait at {self._context.job.source} and none was delivered "
                f"for {silence:.0f} s",
                operation="read",
                cause="the connection is stuck, or another consumer holds the messages",
                cure="the connection is rebuilt now; look for other consumers of the queue if this repeats",
            )

    def backlog(self) -> Backlog | None:
        """What waits at the source."""
        return self._source.backlog()

    @property
    def busy(self) -> bool:
        """Nothing of an inbound route is in flight between two batches."""
        return False

    def drain(self, seconds: float) -> None:
        """Nothing of an inbound route is in flight between two batches."""

    def interrupt(self) -> None:
        """From any thread: make a waiting ``carry`` return."""
        self._source.interrupt()

    def close(self) -> None:
        """Disconnect; what was not settled comes again."""
        self._source.close()
        if self._exceptions is not None:
            self._exceptions.close()


def _without_known(kept: Sequence[_Kept], fresh: set[str], counts: Counts) -> list[_Kept]:
    """Leave out what came before, also earlier in this batch; counts move from propagated to suppressed."""
    owners: dict[str, Delivery] = {}
    new: list[_Kept] = []
    suppressed: set[int] = set()
    for entry in kept:
        if entry.key is None or (entry.key in fresh and owners.setdefault(entry.key, entry.delivery) is entry.delivery):
            new.append(entry)
        else:
            suppressed.add(id(entry.delivery))
    counts.propagated -= len(suppressed)
    counts.suppressed += len(suppressed)
    return new


def _wholly_discarded(kept: Sequence[_Kept], stored: transfer.PutResult) -> int:
    """Source messages of which nothing was stored; a transformation may have made several of one."""
    reached = {id(entry.delivery) for entry, msgid in zip(kept, stored.msgids, strict=True) if msgid is not None}
    return len({id(kept[index].delivery) for index in stored.discarded} - reached)


def _exceptioned(job: str, refused: Sequence[Refused], name: str) -> Event:
    return MessagesExceptioned(job, len(refused), name, str(refused[0].failure))
