"""A link as source where the destination is a link, too: what is read is planned before it is written.

The plan holds what the receiving log of the source is to say when the destination has the batch: positions, marks,
keys. No message is stored in the hub. After a crash the sending log of the destination decides:

* It has the batch: the plan is completed, as if the crash had come later. Then the source is connected with that
  receiving log, so that it knows what comes again.
* It does not have it, and never will, for its earlier publishers are fenced: the plan is dropped, and the messages come
  again from the source, as new ones.

So a job promises what the weaker of its two ends does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

import sqlalchemy as sa

from mgw.gateway.ledger import store as ledger
from mgw.gateway.ledger.record import carried_detail, packed, plain_detail, unpacked
from mgw.gateway.observe.batch_trace import trace_settled
from mgw.gateway.runtime.ends.contract import Encode, Stored
from mgw.gateway.runtime.ends.hub_source import identified
from mgw.gateway.runtime.ends.link_source import Kept, LinkSource, Received, keys_of, without_known
from mgw.gateway.runtime.exception_queue import ForeignExceptionQueue, Refused, lasting
from mgw.gateway.runtime.job_steps import Conversion, See
from mgw.gateway.runtime.recovery import drop_received
from mgw.gateway.runtime.route import RouteContext
from mgw.gateway.state import lease, run_state
from mgw.gateway.state.run_state import Counts, JobRow, Plan
from mgw.links.contract import Batch, Mark, Position, Source
from mgw.links.place import AskPlace, nowhere
from mgw.transforms.errors import MessageRejected
from mgw.transforms.message import Message, with_id

__all__ = ["Carried", "PlannedLinkSource"]

_UNKNOWN = "nothing proves that it was sent: its messages come again from the source"


@dataclass(slots=True)
class Carried(Received):
    """A batch that was read and is planned. ``detail`` is what the ledger is to say of it."""

    forms: list[Any] = field(default_factory=list)  # of ``kept``
    detail: dict[str, Any] = field(default_factory=dict)
    messages: int = 0
    plain: bool = False  # one message was made of each delivery
    lines: str = ""  # origins, where ``detail`` has none
    sent_before: bool = False
    aside: Sequence[str] = ()  # keys of what the destination refused, which may be sent back to the source

    @property
    def size(self) -> int:
        """Messages that were read."""
        return self.messages


class PlannedLinkSource(LinkSource):
    """See the module."""

    planned = True

    def __init__(
        self,
        context: RouteContext,
        link: Source,
        conversion: Conversion,
        exceptions: ForeignExceptionQueue | None,
        place: AskPlace = nowhere,
    ) -> None:
        super().__init__(context, link, conversion, exceptions, place)
        self._as_they_came = conversion.nothing
        self._fit = self._only_fit = None  # messages are named and encoded, too
        self._pending: deque[Carried] = deque()  # read and not planned yet
        self._named = f"{context.hub.hub_id.hex()}/{context.job.name}/"

    # ------------------------------------------------------------------------------------------------------- recover

    def load(self) -> tuple[JobRow, Sequence[Plan]]:
        """Run state and plans of the job."""
        with self._context.hub.read() as conn:
            row = run_state.job_row(conn, self._context.job.id)
            return row, run_state.load_plans(conn, self._context.job.id)

    def sequence_of(self, planned: Plan | Carried) -> int:
        """The number of a plan."""
        return planned.sequence

    def revive(self, plan: Plan, encode: Encode) -> Carried:  # noqa: ARG002  nothing of it is written
        """A crash came between confirmation and completion."""
        kept = unpacked(plan.detail or b"{}")
        counts = Counts(*kept.pop("n"))
        counts.suppressed += counts.propagated
        positions = [Position(*each) for each in kept.get("p", ())]
        marks = [Mark(*each) for each in kept.pop("m")]
        return Carried(
            Batch((), positions, None, marks),
            kept.pop("read"),
            final=counts,
            sequence=plan.sequence,
            sent=kept.pop("sent"),
            detail=kept | {"b": 1},
            messages=kept.pop("messages"),
            sent_before=True,
        )

    def begin(self, left: Sequence[Plan]) -> Sequence[Plan]:
        """What the destination does not have comes again from the source, which is connected now."""
        context = self._context
        if left:
            with context.hub.write() as conn:
                lease.check_owner(conn, context.agent_key, context.token)
                drop_received(conn, context.job.id, left, now=context.clock.now(), note=_UNKNOWN)
        self._pending.clear()
        return super().begin(())

    # -------------------------------------------------------------------------------------------------------- select

    def select(self, taken: Any, encode: Encode, remark: str = "") -> tuple[Carried, Sequence[Any]]:
        """Select, convert and transform what was read; encode it, too, so that what cannot be sent is in no plan.

        Raises:
            ConversionFailure: of one message, and there is no exception queue.
        """
        if isinstance(taken, Carried):  # it is planned: this was done
            taken.stored_at = self._context.clock.now()
            self._measured.took("read_to_stored", taken.read, taken.stored_at)
            return taken, taken.forms
        carried = Carried(taken.batch, taken.read, messages=taken.size)
        self._encode = encode
        assert encode is not None  # noqa: S101  the destination is a link
        if self._as_they_came and (found := self._all_encoded(taken.batch, encode)) is not None:
            carried.kept, carried.forms = found
            carried.counts.propagated = carried.sent = len(carried.kept)
            carried.plain = True
        else:
            super().select(carried, encode, remark)
        return carried, carried.forms

    def tap(self, see: See | None) -> None:
        """See :meth:`mgw.gateway.runtime.ends.contract.SourceEnd.tap`."""
        self._as_they_came = self._conversion.nothing and see is None
        super().tap(see)

    def _all_encoded(self, batch: Batch, encode: Callable[[Message], Any]) -> tuple[list[Kept], list[Any]] | None:
        """What the general loop keeps, where it keeps all; None where something is to be said of a message."""
        if batch.ids:
            return None
        kept: list[Kept] = []
        forms: list[Any] = []
        keep, add, make = kept.append, forms.append, tuple.__new__
        trail = self._conversion.trail
        try:
            for delivery in batch.deliveries:
                message, failure, _, origin, duplicate = delivery
                if duplicate or failure is not None or message.expiration is not None:
                    return None
                if "@" in origin and lasting(origin):
                    message = self._named_message(message, origin)
                if trail is not None:
                    message = trail(message)
                add(encode(message))
                keep(make(Kept, (message, delivery, None)))
        except Exception:  # the general loop finds it again
            return None
        return kept, forms

    def _named_message(self, message: Message, name: str) -> Message:
        """The same message with an id that it has at every attempt."""
        return with_id(message, blake2b((self._named + name).encode(), digest_size=16).digest())

    def _converted(self, message: Message, delivery: Any, key: str | None, into: Any) -> int:
        named = delivery.origin if lasting(delivery.origin) else key
        if named:  # the same at every attempt
            message = self._named_message(message, named)
        results = identified(self._convert(message))
        encode = self._encode
        assert encode is not None  # noqa: S101  the destination is a link
        forms = [encode(result) for result in results]
        into.kept.extend([Kept(result, delivery, key) for result in results])
        into.forms += forms
        return len(forms)

    def encoded_anew(self, carried: Carried, encode: Encode) -> Carried:
        """The same plan, with messages as the destination writes them now."""
        assert encode is not None  # noqa: S101  the destination is a link
        carried.forms = [encode(entry.message) for entry in carried.fresh]
        return carried

    def hold(self, carried: Carried) -> None:
        """It is planned in the next transaction; what cannot be sent is in the exception queue before."""
        self.prepare([carried])
        self._pending.append(carried)

    # ---------------------------------------------------------------------------------------------------------- plan

    @property
    def holds(self) -> bool:
        """Whether a batch waits for its plan."""
        return bool(self._pending)

    @property
    def next_size(self) -> int:
        """Messages of the batch that is planned next; 0: none waits."""
        return self._pending[0].size if self._pending else 0

    @property
    def held(self) -> int:
        """Messages that wait for their plan."""
        return sum(carried.size for carried in self._pending)

    def plans(self, room: int) -> bool:
        """Whether there is something to plan."""
        return room > 0 and bool(self._pending)

    def plan(self, conn: sa.Connection, sequence: int, size: int, room: int, *, completes: bool) -> Sequence[Carried]:
        """Plan what was read. ``size`` 1: one batch at a time."""
        planned: list[Carried] = []
        context, now = self._context, self._context.clock.now()
        while self._pending and room > 0:
            alone = self._pending[0].batch.alone or size == 1 or self._pending[0].size > room
            if alone and (completes or planned):
                break
            carried = self._pending.popleft()
            sequence += 1
            carried.sequence = sequence
            self._admit(conn, carried, now)
            planned.append(carried)
            room -= carried.size
        if planned:
            plans = [Plan(carried.sequence, (), self._kept(carried)) for carried in planned]
            run_state.add_plans(conn, context.job.id, plans, token=context.token, now=now)
        return planned

    def _admit(self, conn: sa.Connection, carried: Carried, now: float) -> None:
        """Leave out what has a key that came before, which is stored with the plan and goes with it."""
        carried.final, carried.fresh = replace(carried.counts), carried.kept
        keys: set[str] = set()
        if carried.batch.ids:
            keys = run_state.new_keys(conn, self._context.job.id, keys_of(carried), now=now)
            new = without_known(carried.kept, keys, carried.final)
            known = {id(entry) for entry in new}
            pairs = zip(carried.kept, carried.forms, strict=True)
            carried.forms = [form for entry, form in pairs if id(entry) in known]
            carried.fresh = new
        carried.sent = len(carried.forms)
        if carried.plain:
            detail, carried.lines = plain_detail(carried.batch)
            carried.detail = detail | {"y": []}
        else:
            carried.detail = carried_detail(
                carried.batch, offered=carried.kept, kept=carried.fresh, refused=carried.refused
            ) | {"y": sorted(keys)}

    def _kept(self, carried: Carried) -> bytes:
        final = carried.final
        counts = (final.propagated, final.exceptioned, final.filtered, final.discarded, final.suppressed)
        more = {
            "n": counts,
            "m": [tuple(mark) for mark in carried.batch.marks],
            "read": carried.read,
            "sent": carried.sent,
            "messages": carried.messages,
        }
        return packed(carried.detail | more, carried.lines)

    def admit(self, conn: sa.Connection, finished: Sequence[Any], now: float) -> None:
        """It was done when it was planned."""

    def complete(self, conn: sa.Connection, finished: Sequence[Any], stored: Stored, now: float) -> None:
        """See :meth:`mgw.gateway.runtime.ends.contract.SourceEnd.complete`."""
        super().complete(conn, finished, stored, now)
        for carried in finished:
            run_state.forget_keys(conn, self._context.job.id, carried.aside)

    def record(self, conn: sa.Connection, finished: Sequence[Any], now: float) -> None:
        """Batches in the ledger."""
        for carried in finished:
            ledger.record_carried(conn, self._context.job.id, carried, now=now)

    def committed(self, finished: Sequence[Any], now: float) -> None:  # noqa: ARG002  confirmed before
        """See :meth:`mgw.gateway.runtime.ends.contract.SourceEnd.committed`."""
        for carried in finished:
            self._measured.took("stored_to_confirmed", carried.stored_at, carried.confirmed_at)
            self._measured.took("origin_to_confirmed", carried.origin, carried.confirmed_at)
            carried.stored_at = 0.0  # counted: settling it is no stage

    def settle(self, finished: Sequence[Any]) -> None:
        """Acknowledge, in the order in which they were read; what was proven comes again and is known then."""
        super().settle([carried for carried in finished if not carried.sent_before])
        if finished and finished[0].sent_before:
            trace_settled(self._context.job.name)

    def set_aside(self, carried: Carried, failure: MessageRejected) -> None:
        """The only message of a batch that is planned goes to the exception queue."""
        delivery = carried.batch.deliveries[0]
        carried.kept.clear()
        carried.forms.clear()
        carried.fresh, carried.sent = (), 0
        carried.refused = [Refused(delivery.message, failure, delivery.origin)]
        carried.final.propagated -= 1
        carried.final.exceptioned += 1
        carried.aside = carried.detail.get("y", [])
        keys = {"y": carried.aside}
        carried.detail = carried_detail(carried.batch, offered=(), kept=(), refused=carried.refused) | keys
        carried.plain, carried.lines = False, ""

    @property
    def has_exception_queue(self) -> bool:
        """Whether there is a place for messages that can never be delivered."""
        return self._exceptions is not None

    def state(self) -> str:
        """See :meth:`mgw.gateway.runtime.ends.contract.SourceEnd.state`."""
        return f"{super().state()}, {len(self._pending)} batches wait for their plan"

    def leave(self) -> None:
        """Disconnect, to start again; what is read and not planned comes again."""
        self._pending.clear()
        super().close()
