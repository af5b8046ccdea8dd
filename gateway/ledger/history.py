"""What happened to one message, read from the ledger: every job that touched it, and where it is now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from mgw.gateway.definitions.objects import JobDef
from mgw.gateway.ledger import store as ledger
from mgw.gateway.ledger.record import Entry, Kind, Outcome, Record
from mgw.gateway.state import catalog
from mgw.transforms.errors import GatewayError

__all__ = [
    "EVERYTHING",
    "FINAL",
    "NotInLedger",
    "Range",
    "Sight",
    "Trace",
    "hex_id",
    "lasting",
    "life",
    "sights",
    "trace",
]

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


class NotInLedger(GatewayError):
    """The ledger says nothing of a message."""


def lasting(origin: str) -> bool:
    """Whether source coordinates name a message forever (``log@4711``), not in one connection only (``queue#7``)."""
    place, _, number = origin.rpartition("@")  # a topic may hold an "@", too
    return bool(place) and number.isdecimal()


def sights(conn: sa.Connection, job: JobDef, hub_id: bytes, span: Range) -> Generator[Sight, None, None]:
    """Every message of the job in the range, in order; to be closed by who does not take all."""
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
    names = {each.id: each.name for each in catalog.list_subscribers(conn)}
    number = _number(message, hub_id)
    found: list[Sight] = []
    if number is not None:
        numbers = [number]
    else:
        for record in ledger.read(conn, job.id):
            entries = [entry for entry in record.entries if entry.origin == message or message in entry.places]
            found += [_sight(job.name, record, entry, hub_id) for entry in entries]
        numbers = list(dict.fromkeys(int(identity[16:], 16) for sight in found for identity in sight.messages))
    found += _touching(conn, numbers, names, hub_id, {(sight.job, sight.batch) for sight in found})
    if not any(sight.job == job.name for sight in found) and not _missed(conn, job, number):
        raise NotInLedger(
            f"the ledger of job {job.name} has no record of message {message}",
            cause="the job never saw it, or its record was older than ledger_retention and is gone",
            cure="check the id or coordinates; mgw prove with the job alone and --list shows what there is",
        )
    return _traced(conn, message, found, numbers, hub_id)


def life(conn: sa.Connection, hub_id: bytes, message: str) -> Trace:
    """Everything known of a message of this hub, whichever jobs touched it, and of those that were made with it.

    ``message``: its id, 32 hex digits.

    Raises:
        NotInLedger: the id is of another hub, or it is not in the hub and no job has a record of it.
    """
    names = {each.id: each.name for each in catalog.list_subscribers(conn)}
    number = _number(message, hub_id)
    found = [] if number is None else _touching(conn, [number], names, hub_id, set())
    if number is None or (not found and ledger.message_state(conn, number) is None):
        raise NotInLedger(
            f"message {message:.40} is not known",
            cause="it is not in the hub, and no job has a record of it, or its record was older than ledger_retention",
            cure="check the id; mgw prove with a job and coordinates finds messages of other systems",
        )
    made = (identity for sight in found for identity in sight.messages if sight.kind is Kind.RECEIVED)
    numbers = list(dict.fromkeys([number, *(int(identity[16:], 16) for identity in made)]))
    return _traced(conn, hex_id(hub_id, number), found, numbers, hub_id)


def _touching(
    conn: sa.Connection,
    numbers: Sequence[int],
    names: Mapping[int, str],
    hub_id: bytes,
    known: Collection[tuple[str, int]],
) -> list[Sight]:
    """What the jobs know of messages by their numbers; not the records that are known."""
    found: list[Sight] = []
    for each in numbers:
        for record in ledger.holding(conn, each):
            name = names.get(record.job_id, f"(removed job {record.job_id})")
            entries = [entry for entry in record.entries if each in entry.ids]
            if (name, record.number) not in known:
                found += [_sight(name, record, entry, hub_id) for entry in entries]
        found += _still_planned(conn, each, names, hub_id)
    return found


def _traced(conn: sa.Connection, message: str, found: list[Sight], numbers: Sequence[int], hub_id: bytes) -> Trace:
    found.sort(key=lambda sight: sight.started or sight.finished or 0.0)
    states = {hex_id(hub_id, each): ledger.message_state(conn, each) for each in numbers}
    return Trace(message, found, states, _contradictions(found))


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
        raise NotInLedger(
            f"message {message} is not from this hub",
            cause=f"ids of this hub begin with {hub_id.hex()}",
            cure="ask the hub that the message was stored in: --hub",
        )
    number = int.from_bytes(identity[8:])
    return number if number < 2**63 else None  # more messages than that no hub can have had
