"""Whether every message of a job has exactly one outcome, read from the ledger and checked against the hub."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import sqlalchemy as sa

from mgw.gateway.definitions.objects import JobDef, Propagation
from mgw.gateway.ledger import store as ledger
from mgw.gateway.ledger.history import EVERYTHING, FINAL, Range, hex_id, lasting
from mgw.gateway.ledger.record import Entry, Kind, Outcome, Record, place_left, reread, unpacked
from mgw.gateway.state import run_state
from mgw.links.contract import Guarantee

__all__ = ["Proof", "reconcile"]

MANY = 100  # offences told one by one; the rest is counted


@dataclass(slots=True)
class Proof:
    """A reconciliation. ``offences`` is empty if every message in the range has exactly one outcome."""

    job: str
    batches: int = 0
    messages: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    first: float | None = None  # epoch seconds
    last: float | None = None
    planned: int = 0  # messages still planned
    waiting: int | None = None  # messages in the source queue that no plan took yet; None inbound
    vacant: int = 0  # source positions between the first and the last that brought no message
    uncertain: int = 0  # stored though the source had delivered them before, with nothing to tell copies apart
    offences: list[str] = field(default_factory=list)
    unlisted: int = 0  # offences beyond those listed
    notes: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether nothing contradicts exactly once."""
        return not self.offences

    def offend(self, what: str) -> None:
        """Note an offence."""
        if len(self.offences) < MANY:
            self.offences.append(what)
        else:
            self.unlisted += 1


def reconcile(conn: sa.Connection, job: JobDef, hub_id: bytes, span: Range = EVERYTHING) -> Proof:
    """Check that every message of the job in the range has exactly one outcome.

    Inbound: no position of the source is stored twice, no message of the hub was made of two, the stored positions are
        contiguous and end at the job's position, every reception has one outcome. Outbound: every planned batch was
    completed, returned, or is still planned, and then its messages are there; every message in it was completed at most
    once; no message is set aside for a plan that does not exist. Link to link: what is said of both, but no message is
    in the hub. All: no record is missing or was changed.
    """
    proof = Proof(job.name)
    kind = job.propagation_type
    outbound = not kind.from_link
    now = span.until is None
    stranded = ledger.stranded(conn, job) if outbound and now else set()
    # What changes is read before the ledger: a batch that ends meanwhile is then seen twice, never missed.
    state = run_state.job_row(conn, job.id)
    plans = run_state.load_plans(conn, job.id)
    positions = run_state.load_positions(conn, job.id)
    records = _counted(proof, ledger.read(conn, job.id, since=span.since, until=span.until, last=span.last))
    if not outbound:
        level = ledger.guarantee(conn, job.id)
        exact = level in (Guarantee.EXACT, Guarantee.EXACT_UNLESS_BROKER_CRASH)
        if kind is Propagation.THROUGH:
            proof.planned = sum(int(unpacked(plan.detail)["messages"]) for plan in plans if plan.detail)
            known = {plan.sequence for plan in plans}
            sent = ledger.read(conn, job.id, since=span.since, until=span.until, last=span.last)
            _Outbound(proof, hub_id).check(sent, known, state.plan_sequence if now else None)
        _Inbound(proof, hub_id, exact=exact).check(records, positions if now else {})
    else:
        proof.planned = sum(len(plan.ids) for plan in plans)
        known = {plan.sequence for plan in plans}
        _Outbound(proof, hub_id).check(records, known, state.plan_sequence if now else None)
        if now:
            _present(proof, conn, job, hub_id, stranded)
    for name, number in ledger.expired(conn, job, since=span.since, until=span.until).items():
        queue = job.source if outbound else job.destination
        proof.notes.append(f"{number:,} messages of queue {queue} expired there; they are in exception queue {name}")
    if not proof.batches:
        proof.notes.append("the ledger has no record in this range")
    return proof


def _counted(proof: Proof, records: Iterable[Record]) -> Iterator[Record]:
    before: int | None = None
    for record in records:
        if before is not None and record.number != before + 1:
            proof.offend(f"records {before + 1} to {record.number - 1} are missing")
        before = record.number
        for fault in record.faults:
            proof.offend(f"record {record.number}: {fault}")
        proof.first = proof.first if proof.first is not None else record.finished
        proof.last = record.finished
        proof.batches += record.kind is not Kind.BREAK
        proof.messages += len(record.entries)
        proof.outcomes.update(str(entry.outcome) for entry in record.entries)
        if record.kind is Kind.BREAK and not record.faults:
            proof.notes.append(
                f"record {record.number}: {record.note}; the records after it do not continue those before it"
            )
        yield record


def _present(proof: Proof, conn: sa.Connection, job: JobDef, hub_id: bytes, stranded: set[int]) -> None:
    """Compare with the hub: what is planned must be there, what is set aside must be planned."""
    still = stranded & ledger.stranded(conn, job) if stranded else set()  # at both looks: not just completed
    for number in sorted(still):
        proof.offend(f"message {hex_id(hub_id, number)} is claimed for a plan, but no plan has it: it has no outcome")
    for sequence, number in ledger.planned_and_gone(conn, job):
        proof.offend(f"message {hex_id(hub_id, number)} of planned batch {sequence} is no longer in the queue")
    proof.waiting = ledger.waiting(conn, job)


class _Inbound:
    """Goes through the records of an inbound job."""

    def __init__(self, proof: Proof, hub_id: bytes, *, exact: bool) -> None:
        self._proof = proof
        self._hub_id = hub_id
        self._exact = exact
        self._read: dict[str, int] = {}  # lasting coordinates -> record
        self._elsewhere: dict[str, dict[str, int]] = {}  # the same at places that the source left
        self._made: dict[int, int] = {}  # message -> record
        self._reached: dict[str, str] = {}  # partition -> position
        self._passed: dict[str, set[str]] = {}
        self._extent: dict[str, int] = {}  # place -> number reached

    def check(self, records: Iterable[Record], positions: Mapping[str, str]) -> None:
        for record in records:
            if record.kind is Kind.BREAK:
                self._reached.clear()
                self._extent.clear()
                self._move(record.note)
                self._read_again(reread(record.note))
                continue
            for part, before, after in record.positions:
                _joined(self._proof, record.number, part, before, self._reached.get(part, before))
                self._reached[part] = after
                self._passed.setdefault(part, set()).add(after)
            for entry in record.entries:
                if record.positions:
                    self._proof.vacant += _vacant(self._extent, entry.origin)
                self._take(entry, record.number)
        for part, value in positions.items():
            if part in self._reached and value not in self._passed[part]:
                self._proof.offend(f"partition {part} stands at {value}, no record shows how it got there")

    def _move(self, note: str) -> None:
        """Where the source moved, its coordinates mean other messages."""
        moved = place_left(note)
        if moved is not None:
            before, place = moved
            self._elsewhere[before] = self._read
            self._read = self._elsewhere.pop(place, {})

    def _read_again(self, partitions: Sequence[str]) -> None:
        """Behind a gap that was given up, a log made again begins with offsets that came before."""
        if partitions:
            self._read = {origin: at for origin, at in self._read.items() if not _within(origin, partitions)}

    def _take(self, entry: Entry, record: int) -> None:
        proof = self._proof
        for number in entry.ids:
            if number in self._made:
                where = f"in records {self._made[number]} and {record}"
                proof.offend(f"message {hex_id(self._hub_id, number)} was stored twice: {where}")
            self._made[number] = record
        if entry.outcome in (Outcome.DUPLICATE, Outcome.UNKNOWN):
            return
        if not lasting(entry.origin):
            proof.uncertain += entry.redelivered and not self._exact
        elif entry.origin in self._read:
            before = self._read[entry.origin]
            proof.offend(f"{entry.origin} came twice: in record {before}, and {entry.outcome} in record {record}")
        else:
            self._read[entry.origin] = record


def _within(origin: str, partitions: Sequence[str]) -> bool:
    """Whether coordinates (``topic/partition@offset`` or ``stream@offset``) are in one of these partitions."""
    number = origin.rpartition("@")[0].rpartition("/")[2]
    return number in partitions or not number.isdecimal()


def _vacant(extent: dict[str, int], origin: str) -> int:
    """Positions between the message read before at this place and this one."""
    place, _, number = origin.rpartition("@")
    if not place or not number.isdecimal():
        return 0
    before, at = extent.get(place), int(number)
    extent[place] = max(at, before or 0)
    return max(0, at - before - 1) if before is not None else 0


def _joined(proof: Proof, record: int, part: str, before: str | None, expected: str | None) -> None:
    if before != expected:
        start = before or "its beginning"
        proof.offend(f"record {record}: partition {part} goes on from {start}, the record before ended at {expected}")


class _Outbound:
    """Goes through the records of an outbound job."""

    def __init__(self, proof: Proof, hub_id: bytes) -> None:
        self._proof = proof
        self._hub_id = hub_id
        self._done: dict[int, int] = {}  # message -> record
        self._returned: set[int] = set()
        self._ended: dict[int, int] = {}  # sequence -> record
        self._places: set[str] = set()
        self._reused: str | None = None

    def check(self, records: Iterable[Record], planned: set[int], planned_last: int | None) -> None:
        """``planned``: sequences of the plans there are; ``planned_last``: the last one made, None for any."""
        proof, ended = self._proof, self._ended
        gaps: list[tuple[int, int]] = []  # a break after this sequence, in this record
        for record in records:
            if record.kind is Kind.BREAK:
                gaps.append((max(ended, default=0), record.number))
                continue
            if record.sequence is not None:
                if record.sequence in ended:
                    where = f"in records {ended[record.sequence]} and {record.number}"
                    proof.offend(f"batch {record.sequence} ended twice: {where}")
                ended.setdefault(record.sequence, record.number)
            for entry in record.entries:
                self._take(entry, record.number)
        if ended:
            _sequences(proof, ended, planned, planned_last, gaps)
        if back := len(self._returned - self._done.keys()):
            proof.notes.append(f"{back} messages were planned, returned to their queue, and not sent in this range")
        if self._reused is not None:
            proof.notes.append(
                f"two messages were written to {self._reused}: their topic or queue was re-created in between"
            )

    def _take(self, entry: Entry, record: int) -> None:
        for number in entry.ids:
            if entry.outcome is Outcome.OVERDUE:  # READY again, and taken only if a clock was put back
                continue
            if entry.outcome not in FINAL:
                self._returned.add(number)
            elif number in self._done:
                where = f"in records {self._done[number]} and {record}"
                self._proof.offend(f"message {hex_id(self._hub_id, number)} was completed twice: {where}")
            else:
                self._done[number] = record
        for place in entry.places:
            if lasting(place):
                self._reused = place if place in self._places else self._reused
                self._places.add(place)


def _sequences(
    proof: Proof, seen: Mapping[int, int], planned: set[int], planned_last: int | None, gaps: Sequence[tuple[int, int]]
) -> None:
    """Every sequence between the first seen and the last made must be known."""
    known = sorted({*seen, *(planned if planned_last is not None else ())})
    if planned_last is not None and planned_last >= known[-1]:
        known.append(planned_last + 1)
    for before, after in pairwise(known):
        if after == before + 1 or any(_explains(gap, before, seen.get(after)) for gap in gaps):
            continue
        which = f"batch {before + 1} was" if after == before + 2 else f"batches {before + 1} to {after - 1} were"
        proof.offend(f"{which} planned, but no record says what happened to it")


def _explains(gap: tuple[int, int], before: int, record: int | None) -> bool:
    """Whether a break is between a sequence and the record of the next one (None: no record yet)."""
    last, number = gap
    return last <= before and (record is None or record > number)
