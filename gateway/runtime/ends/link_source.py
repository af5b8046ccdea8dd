"""A link as source: read, select, keep the receiving log, acknowledge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any, NamedTuple

import sqlalchemy as sa

from mgw.gateway.aq import transfer
from mgw.gateway.definitions.objects import Activity
from mgw.gateway.ledger import store as ledger
from mgw.gateway.observe.batch_trace import trace_begin, trace_read, trace_settled
from mgw.gateway.observe.events import Event, MessagesDiscarded, MessagesExceptioned, MessagesFiltered
from mgw.gateway.observe.gap_events import MISSED, MessagesMissing, unbounded
from mgw.gateway.runtime.ends.contract import Encode, RefusedByHub, SourceEnd, Stored
from mgw.gateway.runtime.ends.held_up import held_up
from mgw.gateway.runtime.ends.unrouted import set_aside
from mgw.gateway.runtime.exception_queue import ForeignExceptionQueue, Refused
from mgw.gateway.runtime.hindrance import Hindrance
from mgw.gateway.runtime.job_steps import Conversion, See, seen
from mgw.gateway.runtime.moves import arrive_at_source
from mgw.gateway.runtime.origin import origin_of
from mgw.gateway.runtime.route import RouteContext
from mgw.gateway.runtime.sizing import weight_of
from mgw.gateway.state import lease, run_state
from mgw.gateway.state.gaps import names_of_gaps
from mgw.gateway.state.run_state import Counts, JobRow
from mgw.links.contract import RESUME, AnswersSettled, Backlog, Batch, Delivery, Mark, Source
from mgw.links.place import AskPlace, nowhere
from mgw.links.placement import Placement
from mgw.transforms.errors import ConversionFailure, LinkError, LinkTimeout, unforeseen
from mgw.transforms.gap import Gap
from mgw.transforms.message import Message
from mgw.transforms.payloads.convert import Fit

__all__ = ["Kept", "LinkSource", "Received", "without_known"]


_SHOWN, _LONGEST = 8, 80  # positions in the log: how many, and how many characters of each


class Kept(NamedTuple):
    """A message to store, the delivery it came from, and the key that its publisher made unique."""

    message: Message
    delivery: Delivery
    key: str | None


@dataclass(slots=True)
class Received:
    """A batch that was read, and what happens to its messages."""

    batch: Batch
    read: float  # epoch seconds
    kept: list[Kept] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    events: list[Event] = field(default_factory=list)
    taken: int = 0  # refused messages that the exception queue has
    fresh: Sequence[Kept] = ()  # kept, and not known
    final: Counts = field(default_factory=Counts)
    msgids: list[bytes | None] = field(default_factory=list)
    sequence: int = 0
    sent: int = 0
    sent_at: float = 0.0
    confirmed_at: float = 0.0
    placement: Placement | None = None
    stored_at: float = 0.0  # in the hub: its messages, or its plan

    @property
    def size(self) -> int:
        """Messages that were read."""
        return len(self.batch.deliveries)

    @property
    def weight(self) -> int:
        """Bytes of their bodies."""
        return weight_of([delivery.message.body for delivery in self.batch.deliveries])

    @property
    def origin(self) -> float:
        """When the first of them began its way."""
        return origin_of(self.batch.deliveries[0].message) if self.batch.deliveries else 0.0

    @property
    def ids(self) -> Sequence[str]:
        """Where they were."""
        return [delivery.origin for delivery in self.batch.deliveries]

    def outgoing(self) -> Sequence[Message]:
        """Messages to be put into a queue of the hub."""
        return [entry.message for entry in self.fresh]

    def was_put(self, put: transfer.PutResult) -> None:
        """The queue has them, in the transaction that is open."""
        self.msgids = put.msgids
        if put.discarded:
            whole = self._wholly_discarded(put)
            self.final.discarded += whole
            self.final.unrouted += whole
            self.final.propagated -= whole

    def _wholly_discarded(self, put: transfer.PutResult) -> int:
        """Source messages of which nothing was stored; a transformation may have made several of one."""
        kept = self.fresh
        reached = {id(entry.delivery) for entry, msgid in zip(kept, put.msgids, strict=True) if msgid is not None}
        return len({id(kept[index].delivery) for index in put.discarded} - reached)


class LinkSource(SourceEnd):
    """Reads batches, and settles them when the destination has them and the hub knows it."""

    reads = True
    planned = False

    def __init__(
        self,
        context: RouteContext,
        link: Source,
        conversion: Conversion,
        exceptions: ForeignExceptionQueue | None,
        place: AskPlace = nowhere,
    ) -> None:
        self.link = link
        self._place = place
        self._context = context
        self._measured = context.measures.job(context.job.id)
        self._conversion = conversion
        self._convert: Callable[[Message], Sequence[Message]] = conversion.apply
        self._fit = self._only_fit = conversion.only_fit
        self._exceptions = exceptions
        self._last_read = context.clock.monotonic()
        self._waiting: float | None = None  # since when (monotonic) something waits, as far as it was looked at
        self._waits = 0  # messages, at the last look
        self._over: list[Mark] = []  # entries of the hub that mean nothing as soon as the source has a batch
        self._at: Mapping[str, str] = {}  # the positions in the hub
        self._read_last = self._settled_last = ""  # origins

    @property
    def patient(self) -> bool:
        """See :attr:`mgw.gateway.runtime.ends.contract.SourceEnd.patient`."""
        return self._exceptions is None or not self._exceptions.connected

    def load(self) -> tuple[JobRow, Sequence[Any]]:
        """The run state of the job; it makes no plans."""
        with self._context.hub.read() as conn:
            return run_state.job_row(conn, self._context.job.id), []

    def begin(self, left: Sequence[Any]) -> Sequence[Any]:  # noqa: ARG002  there are none
        """Connect where the hub says it stopped."""
        self._arrive()
        with self._context.hub.read() as conn:
            entries = run_state.load_entries(conn, self._context.job.id)
        positions = run_state.seen_by_source(entries)
        self._over = [Mark(name, None) for name in (RESUME, *names_of_gaps(entries)) if name in entries]
        self._at = positions
        trace_begin(self._context.job.name, positions)
        self.link.connect(positions)
        return ()

    def _arrive(self) -> None:
        """What the hub keeps of the source belongs to the place where it was connected before."""
        context, place = self._context, self._place()
        if place is None:
            return
        with context.hub.write() as conn:
            lease.check_owner(conn, context.agent_key, context.token)
            moved = arrive_at_source(conn, context.job, place, now=context.clock.now())
        if moved is not None:
            context.journalist.tell(moved)

    def read(self, limit: int, wait: float) -> Received | None:
        """What is there now, at most one batch; waits up to ``wait`` seconds for the first message."""
        batch = self.link.read(limit, wait)
        read = self._context.clock.now()
        if self._exceptions is not None:
            self._exceptions.keep_alive()
        if batch.gaps:
            self._tell_gaps(batch.gaps, read)
        if not batch.deliveries and not batch.positions and not batch.marks:
            if batch.token is None:
                return None
            # Read and known already: a broker that waits for its settling sends no more. It is settled in its turn.
            return Received(batch, read)
        trace_read(self._context.job.name, batch)
        if batch.deliveries:
            self._read_last = batch.deliveries[-1].origin
        if self._over:
            batch, self._over = batch._replace(marks=(*batch.marks, *self._over)), []
        return Received(batch, read)

    def _tell_gaps(self, gaps: Sequence[Gap], now: float) -> None:
        """Told before the batch is stored: a loss that is found again after a crash is told again."""
        context = self._context
        with context.hub.read() as conn:
            heard = run_state.last_heard(conn, context.job.id)
        found = tuple(unbounded(gap, heard, now) if gap.first is None else gap for gap in gaps)
        context.journalist.tell(MessagesMissing(context.job.name, context.job.source, found, MISSED))

    def select(
        self,
        taken: Received,
        encode: Encode,  # noqa: ARG002  what is put into the hub needs none
        remark: str = "",  # noqa: ARG002
    ) -> tuple[Received, Sequence[Any]]:
        """Select, convert and transform what was read.

        Raises:
            ConversionFailure: of one message, and there is no exception queue.
        """
        batch, counts, fit = taken.batch, taken.counts, self._fit
        if fit is not None and (kept := _all_fitted(batch, fit)) is not None:
            taken.kept = kept
            counts.propagated = len(kept)
        else:
            self._select_each(taken)
        taken.sent = len(taken.kept)
        return taken, taken.kept

    def _select_each(self, taken: Received) -> None:
        batch, counts = taken.batch, taken.counts
        expired = 0
        converted = self._converted
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
                    results = converted(message, delivery, key, taken)
                except Exception as error:
                    failure = unforeseen(error)  # same meaning as a failure of the link's own conversion
                else:
                    if results:
                        counts.propagated += 1
                    else:
                        counts.filtered += 1
                    continue
            if self._exceptions is None:
                raise held_up(self._context.job, failure, origin) from failure.__cause__
            taken.refused.append(Refused(message, failure, origin, key))
        counts.exceptioned = len(taken.refused)
        counts.discarded = expired
        self._tell_dropped(taken)

    def _tell_dropped(self, taken: Received) -> None:
        counts, name = taken.counts, self._context.job.name
        if counts.discarded:
            reason = "they had expired before they arrived"
            taken.events.append(MessagesDiscarded(name, counts.discarded, reason))
        if counts.filtered:
            taken.events.append(MessagesFiltered(name, counts.filtered))

    def _converted(self, message: Message, delivery: Delivery, key: str | None, into: Received) -> int:
        """Keep what a message becomes; returns how many that are."""
        results = self._convert(message)
        into.kept.extend([Kept(result, delivery, key) for result in results])
        return len(results)

    def tap(self, see: See | None) -> None:
        """See :meth:`mgw.gateway.runtime.ends.contract.SourceEnd.tap`."""
        self._fit = self._only_fit if see is None else None
        self._convert = seen(self._conversion.apply, see)

    def prepare(self, finished: Sequence[Received]) -> None:
        """Refused messages go to the exception queue, before anything is acknowledged."""
        for batch in finished:
            if len(batch.refused) > batch.taken and self._exceptions is not None:
                refused = batch.refused[batch.taken :]
                self._exceptions.take(refused)
                batch.events.append(_exceptioned(self._context.job.name, refused, self._exceptions.name))
                batch.taken = len(batch.refused)

    def admit(self, conn: sa.Connection, finished: Sequence[Received], now: float) -> None:
        """Leave out what has a key that came before."""
        for received in finished:
            received.final, received.msgids, received.fresh = replace(received.counts), [], received.kept
            if received.batch.ids:
                fresh = run_state.new_keys(conn, self._context.job.id, keys_of(received), now=now)
                received.fresh = without_known(received.kept, fresh, received.final)

    def complete(self, conn: sa.Connection, finished: Sequence[Received], stored: Stored, now: float) -> None:
        """Positions and marks: the receiving log."""
        job_id = self._context.job.id
        for received in finished:
            run_state.advance_positions(conn, job_id, received.batch.positions, now=now)
            run_state.write_marks(conn, job_id, received.batch.marks, now=now)
            stored.counts.add(received.final)
            stored.events += received.events

    def record(self, conn: sa.Connection, finished: Sequence[Received], now: float) -> None:
        """Batches in the ledger."""
        for received in finished:
            batch = received.batch
            if not (batch.deliveries or batch.positions or batch.marks):
                continue
            ledger.record_received(
                conn,
                self._context.job.id,
                batch,
                offered=received.kept,
                kept=received.fresh,
                msgids=received.msgids,
                refused=received.refused,
                counts=received.final,
                read=received.read,
                now=now,
            )

    def committed(self, finished: Sequence[Received], now: float) -> None:
        """See :meth:`mgw.gateway.runtime.ends.contract.SourceEnd.committed`."""
        measured = self._measured
        for received in finished:
            if received.size:
                received.stored_at = now
                measured.took("read_to_stored", received.read, now)
                measured.took("origin_to_confirmed", received.origin, now)

    def settle(self, finished: Sequence[Received]) -> None:
        """Acknowledge, in the order in which they were read."""
        for received in finished:
            self.link.settle(received.batch)
            self._measured.took("stored_to_confirmed", received.stored_at, self._context.clock.now())
            self._note(received.batch)
            trace_settled(self._context.job.name)
            self._last_read = self._context.clock.monotonic()

    def await_settled(self, seconds: float) -> None:
        """See :meth:`mgw.gateway.runtime.ends.contract.SourceEnd.await_settled`; what it has not comes again."""
        if seconds > 0 and isinstance(self.link, AnswersSettled):
            with suppress(LinkError):
                self.link.await_settled(seconds)

    def _note(self, batch: Batch) -> None:
        if batch.deliveries:
            self._settled_last = batch.deliveries[-1].origin
        if batch.positions:
            self._at = {**self._at, **{position.partition: position.after for position in batch.positions}}

    def state(self) -> str:
        """See :meth:`mgw.gateway.runtime.ends.contract.SourceEnd.state`."""
        last = f"read last: {self._read_last or 'nothing'}, acknowledged last: {self._settled_last or 'nothing'}"
        shown = [f"{name}={value}" for name, value in self._at.items() if name != RESUME]
        if not shown or max(map(len, shown)) > _LONGEST:  # positions; the entries of other logs say nothing to people
            return last
        more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
        return f"{last}, position {', '.join(shown[:_SHOWN])}{more}"

    def refuse(self, refusal: RefusedByHub) -> None:
        """See :meth:`mgw.gateway.runtime.ends.contract.SourceEnd.refuse`."""
        error, received, job = refusal.error, refusal.batch, self._context.job
        origins = [entry.delivery.origin for entry in received.fresh]
        indexes = set_aside(job, refusal, origins.__getitem__, exceptions=self._exceptions is not None)
        refused = {id(entry.delivery): entry for entry in (received.fresh[index] for index in indexes)}
        received.kept[:] = [entry for entry in received.kept if id(entry.delivery) not in refused]
        received.counts.propagated -= len(refused)
        received.counts.exceptioned += len(refused)
        failure = ConversionFailure(error.what, cause=error.cause, cure=error.cure, number=error.number)
        received.refused += [
            Refused(entry.delivery.message, failure, entry.delivery.origin, entry.key) for entry in refused.values()
        ]

    def backlog(self) -> Backlog | None:
        """What waits at the source."""
        found = self.link.backlog()
        if found is None or not found.messages:
            self._waiting = None
        elif self._waiting is None:
            self._waiting = self._context.clock.monotonic()
        self._waits = 0 if found is None else found.messages
        return found

    def hindrance(self, patience: float) -> Hindrance | None:
        """See :meth:`mgw.gateway.runtime.ends.contract.SourceEnd.hindrance`."""
        waiting = self._waiting
        if waiting is None:
            return None
        silence = self._context.clock.monotonic() - max(waiting, self._last_read)
        if silence <= patience:
            return None
        reason = f"{self._waits} messages wait at {self._context.job.source}, but none is delivered"
        return Hindrance(Activity.STUCK, reason, silence)

    def check_stall(self, backlog: Backlog | None) -> None:
        """Refuse to look healthy while messages wait and none is delivered.

        Raises:
            LinkTimeout: so that the connection is torn down and rebuilt.
        """
        silence = self._context.clock.monotonic() - self._last_read
        if backlog is not None and backlog.messages > 0 and silence > self._context.stall_seconds:
            self._last_read = self._context.clock.monotonic()
            raise LinkTimeout(
                f"{backlog.messages} messages wait at {self._context.job.source}, but none was delivered "
                f"for {silence:.0f} s",
                operation="read",
                cause="the connection is stuck, or another consumer holds the messages",
                cure="the gateway reconnects; if this repeats, look for other consumers of the queue",
            )

    def interrupt(self) -> None:
        """From any thread: make a waiting ``read`` return."""
        self.link.interrupt()

    def close(self) -> None:
        """Disconnect; what was not settled comes again."""
        self.link.close()
        if self._exceptions is not None:
            self._exceptions.close()


def _all_fitted(batch: Batch, fit: Fit) -> list[Kept] | None:
    """What the general loop keeps, where it keeps all; None where something is to be said of a message."""
    kept: list[Kept] = []
    keep, make = kept.append, tuple.__new__
    try:
        for delivery, key in zip(batch.deliveries, batch.ids or repeat(None), strict=False):
            message, failure, _, _, duplicate = delivery
            if duplicate or failure is not None or message.expiration is not None:
                return None
            keep(make(Kept, (fit(message), delivery, key)))
    except Exception:  # the general loop finds it again
        return None
    return kept


def keys_of(received: Received) -> list[str]:
    """The keys that a batch brings. Not those of what was refused: it may be sent back to its source under its id."""
    keys = [key for key in received.batch.ids or () if key is not None]
    if not received.refused:
        return keys
    refused = {each.key for each in received.refused} - {entry.key for entry in received.kept}
    return [key for key in keys if key not in refused]


def without_known(kept: Sequence[Kept], fresh: set[str], counts: Counts) -> list[Kept]:
    """Leave out what came before, also earlier in this batch; counts move from propagated to suppressed."""
    owners: dict[str, Delivery] = {}
    new: list[Kept] = []
    suppressed: set[int] = set()
    for entry in kept:
        if entry.key is None or (entry.key in fresh and owners.setdefault(entry.key, entry.delivery) is entry.delivery):
            new.append(entry)
        else:
            suppressed.add(id(entry.delivery))
    counts.propagated -= len(suppressed)
    counts.suppressed += len(suppressed)
    return new


def _exceptioned(job: str, refused: Sequence[Refused], name: str) -> Event:
    return MessagesExceptioned(job, len(refused), name, str(refused[0].failure))
