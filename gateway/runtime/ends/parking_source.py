"""A queue of the hub as source of a job that parks: a message that cannot be delivered holds back those of its key.

The order of the messages of a key is that in which they were claimed. While a key is parked its messages leave their
plans before anything of them is sent, and stay claimed. The first one alone becomes READY again for the next attempt.
When it is done with, the others become READY in their places, in front of all that came later. After a crash plans may
be left that are older than the one in which the first message was: those messages go before it, and are sent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from mgw.gateway.aq import transfer
from mgw.gateway.definitions.job_options import park_attempts, park_messages
from mgw.gateway.definitions.parking_key import KeyOf
from mgw.gateway.observe.events import Event
from mgw.gateway.observe.parking_events import KeyParked, KeyReleased
from mgw.gateway.runtime.ends.contract import Encode, Stored
from mgw.gateway.runtime.ends.hub_source import HubSource, Planned
from mgw.gateway.runtime.in_flight import Flight, Parked
from mgw.gateway.runtime.job_steps import Conversion
from mgw.gateway.runtime.route import RouteContext
from mgw.gateway.state import parked
from mgw.gateway.state.parked import PARKED, PASSED, TRYING, ParkedKey
from mgw.gateway.state.run_state import JobRow, Plan
from mgw.transforms.errors import ConversionFailure, ParkedTooMany, unforeseen
from mgw.transforms.message import Message

__all__ = ["ParkingSource"]

LONGEST_DELAY = 300.0  # seconds between two attempts to deliver the first message of a key


class _OneByOneError(Exception):
    """A message of the batch cannot be converted: whether others wait for it is looked at for each of them."""


class ParkingSource(HubSource):
    """See the module."""

    def __init__(
        self,
        context: RouteContext,
        queue_name: str,
        conversion: Conversion,
        exception_queue: str | None,
        key_of: KeyOf,
    ) -> None:
        super().__init__(context, queue_name, conversion, exception_queue)
        self._key_of = key_of
        self._attempts, self._limit = park_attempts(context.job), park_messages(context.job)
        self._keys: dict[str, ParkedKey] = {}
        self._new: set[str] = set()  # keys of messages that could not be converted just now
        self._heads: dict[int, ParkedKey] = {}  # that are tried
        self._before: dict[int, str] = {}  # messages that go before the first one of their key, with it; see the module
        self._number = 0  # of parked messages
        self._together = False  # the batch is converted as long as nothing fails
        self.look_at = -math.inf  # monotonic time

    @property
    def sets_aside(self) -> bool:
        """See :class:`HubSource`."""
        return True

    @property
    def parks(self) -> bool:
        """Whether a key is parked."""
        return bool(self._keys)

    def load(self) -> tuple[JobRow, Sequence[Planned]]:
        """See :class:`HubSource`."""
        found = super().load()
        self._new.clear()
        with self._context.hub.read() as conn:
            self._know(parked.load(conn, self._context.job.id))
            self._number = sum(parked.counts(conn, self._context.job.id).values())
        self.look_at = -math.inf
        for planned in found[1] if self._keys else ():
            for message_id, message in planned.claimed:
                key = self._key_of(message) or ""
                entry = self._keys.get(key)
                if entry is not None and planned.plan.sequence <= entry.sequence:
                    self._before[message_id] = key
        return found

    def _know(self, keys: Sequence[ParkedKey]) -> None:
        self._keys = {each.key: each for each in keys}
        self._heads = {each.head: each for each in keys if each.state == TRYING}

    # -- convert ------------------------------------------------------------------------------------------------------

    def _converted(
        self, taken: Planned, encode: Encode, *, sent_before: bool = False, remark: str = ""
    ) -> tuple[Flight, list[Any]]:
        if sent_before:  # what was to be parked left the plan before it was sent
            return super()._converted(taken, encode, sent_before=True, remark=remark)
        keys = [self._key_of(message) for _, message in taken.claimed] if self._keys or self._new else ()
        if not any(self._waits(key, entry.id) for key, entry in zip(keys, taken.claimed, strict=False)):
            self._together = True
            try:
                return super()._converted(taken, encode, remark=remark)
            except _OneByOneError:
                keys = [self._key_of(message) for _, message in taken.claimed]
            finally:
                self._together = False
        flight, forms = Flight(taken.plan.sequence, taken.plan.ids), list[Any]()
        for entry, key in zip(taken.claimed, keys, strict=True):
            head = self._heads.get(entry.id)
            if head is None and self._waits(key, entry.id):
                flight.parked[entry.id] = Parked(key or "", None)
            elif head is not None and head.give_up and self.exception_queue is not None:
                self.set_aside(flight, entry.id, entry.message, _reason(head))
            else:
                single = Planned(Plan(taken.plan.sequence, (entry.id,)), [entry])
                part, made = super()._converted(single, encode, remark=remark)
                forms += made
                _join(flight, part)
        flight.sent = len(forms)
        return flight, forms

    def _waits(self, key: str | None, message_id: int) -> bool:
        """Whether a message waits for one of its key that could not be converted just now, or is parked."""
        return key in self._new or (key in self._keys and message_id not in self._before)

    def fail(self, flight: Flight, message_id: int, message: Message, error: Exception) -> None:
        """See :class:`HubSource`: it is parked, as long as it may be."""
        key = self._key_of(message)
        if key is None or self._given_up(message_id):  # refused in its plan, then as now
            super().fail(flight, message_id, message, error)
        elif flight.sent_before:
            flight.consumed.append(message_id)
        elif self._together:
            raise _OneByOneError from error
        else:
            flight.parked[message_id] = Parked(key, unforeseen(error))
            self._new.add(key)

    def _given_up(self, message_id: int) -> bool:
        """Whether a message that fails now was tried as often as it may be."""
        head = self._heads.get(message_id)
        tried = (head.attempts if head is not None else 0) + 1
        return 0 < self._attempts <= tried and self.exception_queue is not None

    # -- store --------------------------------------------------------------------------------------------------------

    def check_room(self, number: int) -> None:
        """Refuse to park more messages than the job may.

        Raises:
            ParkedTooMany: the job waits.
        """
        if self._number + number > self._limit:
            job = self._context.job.name
            raise ParkedTooMany(
                f"job {job}: {self._number:,} messages are parked, and {number:,} more would have to be",
                cause=f"no more than {self._limit:,} may be parked (park_messages); the first one cannot be delivered: "
                f"{next(iter(self._keys.values())).reason if self._keys else 'see the log'}",
                cure=f"see mgw exceptions parked {job}; remove the cause, give messages up, or raise park_messages",
            )

    def store_parked(self, conn: sa.Connection, batch: Flight) -> list[Event]:
        """Keep what is parked of a batch, in the transaction in which it leaves its plan; the events of it."""
        job, now, events = self._context.job, self._context.clock.now(), list[Event]()
        behind: dict[str, list[int]] = {}
        for message_id, (key, failure) in batch.parked.items():
            head = self._heads.get(message_id)
            if head is not None and failure is not None:
                head.state, head.attempts = PARKED, head.attempts + 1
                self._explain(head, failure, now)
                parked.end_attempt(conn, job.id, head)
                del self._heads[message_id]
            elif failure is not None and self._precedes(key, message_id):
                first = self._keys[key]
                first.head, first.sequence, first.attempts = message_id, batch.sequence, 1
                self._explain(first, failure, now)
                parked.precede(conn, job.id, first)
            elif failure is None or key in self._keys:
                behind.setdefault(key, []).append(message_id)
            else:
                entry = ParkedKey(0, key, PARKED, message_id, batch.sequence, 1, False, "", None, now, now)
                self._explain(entry, failure, now)
                parked.insert(conn, job.id, entry, (message_id,), token=self._context.token)
                self._keys[key] = entry
                events.append(KeyParked(job.name, key, entry.reason))
            self._number += 1
        for key, ids in behind.items():
            parked.append(conn, job.id, self._keys[key].number, ids)
        self._new.clear()
        self.look_at = -math.inf
        return events

    def renumbered(self, conn: sa.Connection, plans: Sequence[Plan]) -> None:
        """Plans got new numbers, in the transaction that is open.

        What goes before the first message of its key is known by the number of its plan.
        """
        latest: dict[str, int] = {}
        for plan in plans if self._before else ():
            latest |= {key: plan.sequence for number in plan.ids if (key := self._before.get(number)) is not None}
        for key, sequence in latest.items():
            entry = self._keys.get(key)
            if entry is not None and entry.sequence < sequence:
                entry.sequence = sequence
                parked.renumber(conn, self._context.job.id, entry)

    def _precedes(self, key: str, message_id: int) -> bool:
        """Whether a message goes before the first one of its key, which is parked."""
        found = self._keys.get(key)
        return found is not None and found.state == PARKED and message_id in self._before

    def _explain(self, entry: ParkedKey, failure: ConversionFailure, now: float) -> None:
        entry.reason, entry.error_number = str(failure), failure.number
        entry.next_attempt = now + min(2.0 ** min(entry.attempts, 10), LONGEST_DELAY)

    def complete(self, conn: sa.Connection, finished: Sequence[Flight], stored: Stored, now: float) -> None:
        """See :class:`HubSource`."""
        super().complete(conn, finished, stored, now)
        if self._before:
            for flight in finished:
                for number in flight.ids:
                    self._before.pop(number, None)
        if self._heads:
            done = [number for flight in finished for number in flight.ids]
            passed = [self._heads[number].number for number in done if number in self._heads]
            if passed:
                parked.mark_passed(conn, self._context.job.id, passed)
                self.look_at = -math.inf

    # -- release ------------------------------------------------------------------------------------------------------

    def due(self) -> tuple[list[ParkedKey], list[ParkedKey]]:
        """Keys whose messages may follow, and keys whose first message is to be tried; as the hub says now."""
        context = self._context
        now = context.clock.now()
        with context.hub.read() as conn:
            self._know(parked.load(conn, context.job.id))
            tried = list(self._heads)
            there = transfer.unfinished(conn, self.queue, self.consumer, tried) if tried else set()
        passed = [each for each in self._keys.values() if each.state == PASSED]
        passed += [each for head, each in self._heads.items() if head not in there]  # somebody else took it
        due = [each for each in self._keys.values() if each.state == PARKED and each.next_attempt <= now]
        return passed, due

    def release(self, conn: sa.Connection, passed: Sequence[ParkedKey], due: Sequence[ParkedKey]) -> list[Event]:
        """Make messages READY again where they were; the events of it."""
        job, events, ids = self._context.job, list[Event](), list[int]()
        for each in passed:
            behind = parked.remove(conn, job.id, each.number)
            ids += behind
            self._keys.pop(each.key, None)
            self._heads.pop(each.head, None)
            events.append(KeyReleased(job.name, each.key, len(behind)))
        for each in due:
            ids.append(each.head)
            each.state = TRYING
            parked.begin_attempt(conn, job.id, each)
            self._heads[each.head] = each
        transfer.release(conn, self.queue, self.consumer, ids)
        self._number = max(0, self._number - len(ids))
        self._look = True
        return events

    def wait_for_parked(self, longest: float) -> float:
        """Seconds until something may have to be done about parked keys."""
        now = self._context.clock.now()
        attempts = [each.next_attempt - now for each in self._keys.values() if each.state == PARKED]
        return max(0.05, min([longest, *attempts]))


def _reason(entry: ParkedKey) -> ConversionFailure:
    what, _, cause = entry.reason.partition("; cause: ")
    cause, _, cure = cause.partition("; cure: ")
    return ConversionFailure(what, cause=cause, cure=cure, number=entry.error_number)


def _join(flight: Flight, part: Flight) -> None:
    """What became of one message of a batch."""
    flight.consumed += part.consumed
    flight.filtered += part.filtered
    flight.refused += part.refused
    flight.reasons |= part.reasons
    flight.expired |= part.expired
    flight.parts |= part.parts
    flight.parked |= part.parked
