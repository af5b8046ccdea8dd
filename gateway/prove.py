"""What happened to a message, and whether every message of a job has exactly one outcome, read from the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import sqlalchemy as sa

from gateway import catalog, journal, ledger
from gateway.ledger_record import Entry, Kind, Outcome, Record
from gateway.model import JobDef
from links.contract import Direction, Guarantee
from transforms.errors import GatewayError

__all__ = ["Proof", "Range", "Sight", "Trace", "reconcile", "sights", "trace"]

_FINAL = frozenset((Outcome.SENT, Outcome.PROVEN, Outcome.FILTERED, Outcome.EXCEPTION))  # outbound
MANY = 100  # offences told one by one; the rest is counted


@dataclass(frozen=True, slots=True)
class Range:
    """Which batches: finished in ``since <= t < until`` (epoch seconds), the latest that hold ``last`` messages."""

    since: float | None = None
    until: float | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True)
class Sight:
    """What one record says of one message. Times are epoch seconds; ``batch`` is the number of the record."""

    job: str
    kind: Kind
    batch: int
    sequence: int | None
    started: float | None  # read, planned
    finished: float | None  # stored, completed; None: still planned
    outcome: str
    origin: str = ""
    messages: tuple[str, ...] = ()  # ids in the hub, hex
    reason: str = ""
    redelivered: bool = False


@dataclass(frozen=True, slots=True)
class Trace:
    """Everything known of one message, in time order; ``offences`` says what contradicts exactly once."""

    message: str
    sights: Sequence[Sight]
    states: Mapping[str, str | None]  # message id -> where it is in the hub now; None: gone
    offences: Sequence[str]


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


def lasting(origin: str) -> bool:
    """Whether source coordinates name a message for ever (``log@4711``), not in one connection only (``queue#7``)."""
    return origin.rfind("@") > origin.rfind("#")


def reconcile(conn: sa.Connection, job: JobDef, hub_id: bytes, span: Range = Range()) -> Proof:
    """Check that every message of the job in the range has exactly one outcome.

    Inbound: no position of the source is stored twice, the stored positions join on to each other and to where the job
    stands, every reception has one outcome. Outbound: every planned batch was completed, returned, or is still planned;
    every message in it was completed at most once. Both: no record is missing or was changed.
    """
    proof = Proof(job.name)
    # What changes is read before the ledger: a batch that ends meanwhile is then seen twice, never missed.
    state = journal.job_row(conn, job.id)
    plans = journal.load_plans(conn, job.id)
    positions = journal.load_positions(conn, job.id)
    records = _counted(proof, ledger.read(conn, job.id, since=span.since, until=span.until, last=span.last))
    if job.propagation_type is Direction.INBOUND:
        level = ledger.guarantee(conn, job.id)
        exact = level in (Guarantee.EXACT, Guarantee.EXACT_UNLESS_BROKER_CRASH)
        _inbound(proof, records, positions if span.until is None else {}, exact=exact)
    else:
        proof.planned = sum(len(plan.ids) for plan in plans)
        known = {plan.sequence for plan in plans}
        _outbound(proof, records, known, state.plan_sequence if span.until is None else None, hub_id)
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
                f"record {record.number}: {record.note}; what follows does not join on to what was before"
            )
        yield record


def _inbound(proof: Proof, records: Iterable[Record], positions: Mapping[str, str], *, exact: bool) -> None:
    stored: dict[str, int] = {}  # lasting coordinates -> record
    reached: dict[str, str] = {}
    passed: dict[str, set[str]] = {}
    for record in records:
        if record.kind is Kind.BREAK:
            reached.clear()
            continue
        for part, before, after in record.positions:
            _joined(proof, record.number, part, before, reached.get(part, before))
            reached[part] = after
            passed.setdefault(part, set()).add(after)
        for entry in record.entries:
            if entry.outcome in (Outcome.DUPLICATE, Outcome.UNKNOWN):
                continue
            if lasting(entry.origin):
                _once(proof, stored, entry, record.number)
            elif entry.redelivered and not exact:
                proof.uncertain += 1
    for part, value in positions.items():
        if part in reached and value not in passed[part]:
            proof.offend(f"partition {part} stands at {value}, no record says how it got there")


def _joined(proof: Proof, record: int, part: str, before: str | None, expected: str | None) -> None:
    if before != expected:
        start = before or "its beginning"
        proof.offend(f"record {record}: partition {part} goes on from {start}, the record before ended at {expected}")


def _once(proof: Proof, stored: dict[str, int], entry: Entry, record: int) -> None:
    before = stored.get(entry.origin)
    if before is None:
        stored[entry.origin] = record
    else:
        proof.offend(f"{entry.origin} came twice: in record {before}, and {entry.outcome} in record {record}")


def _outbound(
    proof: Proof, records: Iterable[Record], planned: set[int], planned_last: int | None, hub_id: bytes
) -> None:
    done: dict[int, int] = {}  # message -> record
    returned: set[int] = set()
    seen: dict[int, int] = {}  # sequence -> record
    gaps: list[tuple[int, int]] = []  # a break after this sequence, in this record
    for record in records:
        if record.kind is Kind.BREAK:
            gaps.append((max(seen, default=0), record.number))
            continue
        if record.sequence is not None and seen.setdefault(record.sequence, record.number) != record.number:
            proof.offend(f"batch {record.sequence} ended twice: in records {seen[record.sequence]} and {record.number}")
        for entry in record.entries:
            for number in entry.ids:
                if entry.outcome not in _FINAL:
                    returned.add(number)
                elif (before := done.setdefault(number, record.number)) != record.number:
                    identity = _hex(hub_id, number)
                    proof.offend(f"message {identity} was completed twice: in records {before} and {record.number}")
    if seen:
        _sequences(proof, seen, planned, planned_last, gaps)
    if back := len(returned - done.keys()):
        proof.notes.append(f"{back} messages were planned, returned to their queue, and not sent in this range")


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
        proof.offend(f"{which} planned, and no record says what became of it")


def _explains(gap: tuple[int, int], before: int, record: int | None) -> bool:
    """Whether a break lies between a sequence and the record of the next one (None: no record yet)."""
    last, number = gap
    return last <= before and (record is None or record > number)


# ----------------------------------------------------------------------------------------------------------- messages


def sights(conn: sa.Connection, job: JobDef, hub_id: bytes, span: Range) -> Iterator[Sight]:
    """Every message of the job in the range, in order."""
    for record in ledger.read(conn, job.id, since=span.since, until=span.until, last=span.last):
        for entry in record.entries:
            yield _sight(job.name, record, entry, hub_id)


def trace(conn: sa.Connection, job: JobDef, hub_id: bytes, message: str) -> Trace:
    """Everything known of a message in all jobs.

    ``message``: its id in the hub (32 hex digits, with or without ``AQMSGID:``), or the source coordinates at which the
    job read it.

    Raises:
        GatewayError: the id is of another hub, or the ledger of the job says nothing of the message.
    """
    names = {each.id: each.name for each in catalog.list_jobs(conn)}
    number = _number(message, hub_id)
    found: list[Sight] = []
    if number is not None:
        numbers = [number]
    else:
        for record in ledger.read(conn, job.id):
            found += [_sight(job.name, record, entry, hub_id) for entry in record.entries if entry.origin == message]
        numbers = list(dict.fromkeys(int(identity[16:], 16) for sight in found for identity in sight.messages))
    known = {(sight.job, sight.batch) for sight in found}
    for each in numbers:
        for record in ledger.holding(conn, each):
            name = names.get(record.job_id, f"(removed job {record.job_id})")
            entries = [entry for entry in record.entries if each in entry.ids]
            if (name, record.number) not in known:
                found += [_sight(name, record, entry, hub_id) for entry in entries]
        found += _still_planned(conn, each, names, hub_id)
    if not any(sight.job == job.name for sight in found):
        raise GatewayError(
            f"the ledger of job {job.name} says nothing of message {message}",
            cause="the job never saw it, or the record is older than the ledger is kept",
            cure="check the id or coordinates; mgw prove with the job alone and --list shows what there is",
        )
    found.sort(key=lambda sight: sight.started or sight.finished or 0.0)
    states = {_hex(hub_id, each): ledger.message_state(conn, each) for each in numbers}
    return Trace(message, found, states, _contradictions(found))


def _still_planned(conn: sa.Connection, number: int, names: Mapping[int, str], hub_id: bytes) -> Iterator[Sight]:
    for job_id, sequence, created in ledger.plans_holding(conn, number):
        job = names.get(job_id, f"(removed job {job_id})")
        identity = (_hex(hub_id, number),)
        yield Sight(job, Kind.COMPLETED, 0, sequence, created, None, "planned, not completed yet", "", identity)


def _contradictions(found: Sequence[Sight]) -> list[str]:
    """Two final outcomes of the same message in one job."""
    result = []
    receptions = Counter(
        (sight.job, sight.origin)
        for sight in found
        if sight.kind is Kind.RECEIVED and lasting(sight.origin) and sight.outcome != Outcome.DUPLICATE
    )
    result += [f"{origin} came {times} times to job {job}" for (job, origin), times in receptions.items() if times > 1]
    ends = Counter(
        (sight.job, sight.messages)
        for sight in found
        if sight.kind is Kind.COMPLETED and sight.finished is not None and sight.outcome in _FINAL
    )
    result += [
        f"message {identity[0]} was completed {times} times by job {job}"
        for (job, identity), times in ends.items()
        if times > 1
    ]
    return result


def _sight(job: str, record: Record, entry: Entry, hub_id: bytes) -> Sight:
    return Sight(
        job,
        record.kind,
        record.number,
        record.sequence,
        record.started,
        record.finished,
        str(entry.outcome),
        entry.origin,
        tuple(_hex(hub_id, number) for number in entry.ids),
        entry.reason,
        entry.redelivered,
    )


def _hex(hub_id: bytes, number: int) -> str:
    return hub_id.hex() + f"{number:016x}"


def _number(message: str, hub_id: bytes) -> int | None:
    """The number of a message id of this hub, or None if the text is no message id."""
    text = message[8:] if message.upper().startswith("AQMSGID:") else message
    try:
        identity = bytes.fromhex(text) if len(text) == 32 else b""
    except ValueError:
        identity = b""
    if not identity:
        return None
    if identity[:8] != hub_id:
        raise GatewayError(
            f"message {message} is not of this hub",
            cause=f"ids of this hub begin with {hub_id.hex()}",
            cure="ask the hub that the message was stored in: --hub",
        )
    return int.from_bytes(identity[8:])
