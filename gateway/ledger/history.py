"""What happened to one message, read from the ledger: every job that touched it, and where it is now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from mgw.gateway.definitions.objects import JobDef
from mgw.gateway.ledger import store as ledger
from mgw.gateway.ledger.record import Entry, Kind, Outcome, Record
from mgw.gateway.state import catalog
from mgw.transforms.errors import GatewayError

__all__ = ["EVERYTHING", "FINAL", "Range", "Sight", "Trace", "hex_id", "lasting", "life", "sights", "trace"]

#: Of messages that leave a queue of the hub.
FINAL = frozenset((Outcome.SENT, Outcome.PROVEN, Outcome.FILTERED, Outcome.EXCEPTION, Outcome.UNROUTED))


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
    sent: float | None = None  # handed to the destination
    confirmed: float | None = None  # the destination said that it has it
    places: tuple[str, ...] = ()  # coordinates at the destination


@dataclass(frozen=True, slots=True)
class Trace:
    """Everything known of one message, in time order; ``offences`` says what contradicts exactly once."""

    message: str
    sights: Sequence[Sight]
    states: Mapping[str, str | None]  # message id -> where it is in the hub now; None: gone
    offences: Sequence[str]


EVERYTHING = Range()


def lasting(origin: str) -> bool:
    """Whether source coordinates name a message forever (``log@4711``), not in one connection only (``queue#7``)."""
    place, _, number = origin.rpartition("@")  # a topic may hold an "@", too
    return bool(place) and number.isdecimal()


def sights(conn: sa.Connection, job: JobDef, hub_id: bytes, span: Range) -> Iterator[Sight]:
    """Every message of the job in the range, in order."""
    for record in ledger.read(conn, job.id, since=span.since, until=span.until, last=span.last):
        for entry in record.entries:
            yield _sight(job.name, record, entry, hub_id)


def trace(conn: sa.Connection, job: JobDef, hub_id: bytes, message: str) -> Trace:
    """Everything known of a message in all jobs.

    ``message``: its id in the hub (32 hex digits, with or without ``AQMSGID:``), or the coordinates at which the job
    read it or wrote it.

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
            entries = [entry for entry in record.entries if entry.origin == message or message in entry.places]
            found += [_sight(job.name, record, entry, hub_id) for entry in entries]
        numbers = list(dict.fromkeys(int(identity[16:], 16) for sight in found for identity in sight.messages))
    known = {(sight.job, sight.batch) for sight in found}
    for each in numbers:
        for record in ledger.holding(conn, each):
            name = names.get(record.job_id, f"(removed job {record.job_id})")
            entries = [entry for entry in record.entries if each in entry.ids]
            if (name, record.number) not in known:
                found += [_sight(name, record, entry, hub_id) for entry in entries]
        found += _still_planned(conn, each, names, hub_id)
    if not any(sight.job == job.name for sight in found) and not _missed(conn, job, number):
        raise GatewayError(
            f"the ledger of job {job.name} has no record of message {message}",
            cause="the job never saw it, or its record was older than ledger_retention and is gone",
            cure="check the id or coordinates; mgw prove with the job alone and --list shows what there is",
        )
    found.sort(key=lambda sight: sight.started or sight.finished or 0.0)
    states = {hex_id(hub_id, each): ledger.message_state(conn, each) for each in numbers}
    return Trace(message, found, states, _contradictions(found))


def life(conn: sa.Connection, hub_id: bytes, message: str) -> Trace:
    """Everything known of a message in all jobs; nothing, where no ledger names it.

    Args:
        message: its id in the hub: 32 hexadecimal digits, with or without ``AQMSGID:``.

    Raises:
        GatewayError: it is no such id, or that of a message of another hub.
    """
    number = _number(message, hub_id)
    if number is None:
        raise GatewayError(
            f"{message!r:.80} is not a message id", cause="that has 32 hexadecimal digits", cure="copy it whole"
        )
    names = {each.id: each.name for each in catalog.list_jobs(conn)}
    found = list(_still_planned(conn, number, names, hub_id))
    for record in ledger.holding(conn, number):
        name = names.get(record.job_id, f"(removed job {record.job_id})")
        found += [_sight(name, record, entry, hub_id) for entry in record.entries if number in entry.ids]
    found.sort(key=lambda sight: sight.started or sight.finished or 0.0)
    identity = hex_id(hub_id, number)
    return Trace(identity, found, {identity: ledger.message_state(conn, number)}, _contradictions(found))


def _missed(conn: sa.Connection, job: JobDef, number: int | None) -> bool:
    """Whether the message expired before the job took it, so that there is no record of it."""
    return number is not None and bool(ledger.expired(conn, job, number=number))


def _still_planned(conn: sa.Connection, number: int, names: Mapping[int, str], hub_id: bytes) -> Iterator[Sight]:
    for job_id, sequence, created in ledger.plans_holding(conn, number):
        job = names.get(job_id, f"(removed job {job_id})")
        identity = (hex_id(hub_id, number),)
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
        if sight.kind is Kind.COMPLETED and sight.finished is not None and sight.outcome in FINAL
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
        tuple(hex_id(hub_id, number) for number in entry.ids),
        entry.reason,
        entry.redelivered,
        record.sent if entry.places else None,
        record.confirmed if entry.places else None,
        entry.places,
    )


def hex_id(hub_id: bytes, number: int) -> str:
    return hub_id.hex() + f"{number:016x}"


def _number(message: str, hub_id: bytes) -> int | None:
    """The number of a message id of this hub, or None if the text is not a message id."""
    text = message[8:] if message.upper().startswith("AQMSGID:") else message
    try:
        identity = bytes.fromhex(text) if len(text) == 32 else b""
    except ValueError:
        identity = b""
    if not identity:
        return None
    if identity[:8] != hub_id:
        raise GatewayError(
            f"message {message} is not from this hub",
            cause=f"ids of this hub begin with {hub_id.hex()}",
            cure="ask the hub that the message was stored in: --hub",
        )
    return int.from_bytes(identity[8:])
