"""A row of the ledger in its stored form, and back.

Stored are the counters in columns and, per message, what does not follow from them: zlib-compressed JSON, short keys.
``o`` origins (in lines of their own after the JSON), ``i`` message numbers (one number: the first of a run), ``c``
outcome codes unless all were stored, ``r`` reasons, ``v`` indexes of redelivered messages, ``p`` positions, ``n`` a
note; outbound ``f``, ``x``, ``b``, ``k``, ``e``, ``u`` as :class:`Completed` names them, ``t`` when it was sent and
confirmed, ``w`` where it is at the destination. A checksum covers everything but the columns with times.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from struct import unpack
from typing import Any, Protocol

from mgw.links.contract import Batch, Delivery
from mgw.links.placement import Placement
from mgw.transforms.errors import GatewayError
from mgw.transforms.message import Message

__all__ = [
    "MERGED",
    "Completed",
    "Entry",
    "Kept",
    "Kind",
    "Outcome",
    "Record",
    "RefusedMessage",
    "carried_detail",
    "completed_detail",
    "decode",
    "digest",
    "packed",
    "place_left",
    "plain_detail",
    "read_again",
    "received_detail",
    "reread",
    "source_moved",
    "target_moved",
    "text_of",
    "unpacked",
]

MERGED = b"M"  # begins the detail of a row that holds several batches (mgw.gateway.ledger.merged)
_AGAIN = "; read from the oldest message, where offsets mean other messages or come again: partitions "
_SHORT = 256  # bytes of a detail that are not worth compressing

_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode

_SOURCE_MOVED, _FROM = "the source moved to ", ", from "

Sums = tuple[int, int, int, int, int]  # propagated, exceptioned, filtered, discarded, suppressed


class Kind(StrEnum):
    """What a row of the ledger records."""

    RECEIVED = "RECEIVED"  # inbound: a batch was read and stored
    CARRIED = "CARRIED"  # link to link: a batch was read, planned, sent, confirmed and completed
    COMPLETED = "COMPLETED"  # outbound: a planned batch was sent, confirmed and completed
    RETURNED = "RETURNED"  # outbound: a planned batch of which nothing was sent, or which was reset, is READY again
    BREAK = "BREAK"  # an operator reset the job's logs, or the ledger was off: what follows does not join on


class Outcome(StrEnum):
    """What happened to one message in one batch."""

    STORED = "stored"
    DUPLICATE = "duplicate suppressed"
    FILTERED = "filtered"
    EXCEPTION = "exception queue"
    EXPIRED = "discarded: it had expired before it arrived"
    UNROUTED = "discarded: no subscriber of the queue wants it"
    OVERDUE = "not sent: it had expired; the time manager moves it to the exception queue of its queue table"
    SENT = "sent, confirmed and completed"
    PROVEN = "completed: the sending log proves that it was sent before"
    RETURNED = "returned to its queue, not sent"
    UNKNOWN = "not recorded"


_STORED, _UNROUTED = "s", "u"
_CODES = {
    _STORED: Outcome.STORED,
    "d": Outcome.DUPLICATE,
    "f": Outcome.FILTERED,
    "x": Outcome.EXCEPTION,
    "e": Outcome.EXPIRED,
    _UNROUTED: Outcome.UNROUTED,
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One message of a batch: ``ids`` are its numbers in the hub, ``origin`` its coordinates at the source."""

    outcome: Outcome
    ids: tuple[int, ...] = ()
    origin: str = ""
    reason: str = ""
    redelivered: bool = False  # the source said so, and nothing in the batch proves that it is new
    places: tuple[str, ...] = ()  # coordinates at the destination; several where one message became several


@dataclass(frozen=True, slots=True)
class Record:
    """A row, decoded. ``faults`` says what is wrong with the row itself; it is empty for an intact one."""

    job_id: int
    number: int
    kind: Kind
    sequence: int | None
    started: float | None  # epoch seconds: read, planned
    finished: float  # epoch seconds: stored, completed
    messages: int
    entries: Sequence[Entry] = ()
    positions: Sequence[tuple[str, str | None, str]] = ()
    note: str = ""
    faults: Sequence[str] = ()
    sent: float | None = None  # epoch seconds: handed to the destination
    confirmed: float | None = None  # epoch seconds: the destination has it


def source_moved(before: str, place: str) -> str:
    """The note of a break where the source of a job is another messaging system from then on."""
    return f"{_SOURCE_MOVED}{place}{_FROM}{before}"


def target_moved(before: str, place: str) -> str:
    """The note of a break where the destination of a job is another messaging system from then on."""
    return f"the destination moved to {place}{_FROM}{before}"


def place_left(note: str) -> tuple[str, str] | None:
    """From where the source of a job moved, and where to, as the note of a break says; None: it did not move there."""
    if not note.startswith(_SOURCE_MOVED):
        return None
    place, _, before = note.removeprefix(_SOURCE_MOVED).partition(_FROM)
    return before, place


def read_again(note: str, partitions: Sequence[str]) -> str:
    """The note of a break behind which these partitions are read from their oldest message, where offsets that came
    before come again."""
    return f"{note}{_AGAIN}{json.dumps(list(partitions))}" if partitions else note


def reread(note: str) -> Sequence[str]:
    """The partitions that :func:`read_again` named in the note of a break."""
    _, found, names = note.rpartition(_AGAIN)
    try:
        return [str(name) for name in json.loads(names)] if found else ()
    except (ValueError, TypeError):
        return ()


@dataclass(frozen=True, slots=True)
class Completed:
    """How a planned batch ended. ``ids`` as planned; the other lists hold parts of them, what is in none was sent."""

    sequence: int
    ids: Sequence[int]
    filtered: Sequence[int] = ()
    refused: Mapping[int, str] = field(default_factory=dict)  # id -> reason
    sent_before: bool = False
    sent: float = 0.0  # epoch seconds, 0 for a batch that was not sent now
    confirmed: float = 0.0
    placement: Placement | None = None
    parts: Mapping[int, int] = field(default_factory=dict)  # id -> messages it became at the destination, if not one
    expired: Mapping[int, str] = field(default_factory=dict)  # id -> remark
    unrouted: Sequence[int] = ()


class Kept(Protocol):
    """A message made of a delivery."""

    @property
    def delivery(self) -> Delivery: ...


class RefusedMessage(Protocol):
    """A message that went to the exception queue."""

    @property
    def message(self) -> Message: ...
    @property
    def failure(self) -> GatewayError: ...


def received_detail(
    batch: Batch,
    *,
    offered: Sequence[Kept],
    kept: Sequence[Kept],
    msgids: list[bytes | None],
    refused: Sequence[RefusedMessage],
    plain: bool,
) -> tuple[bytes, int | None, int | None]:
    """The detail of an inbound batch, and the smallest and largest message number in it.

    ``plain``: every delivery was stored as one message, which is what must be fast.
    """
    number = len(batch.deliveries)
    detail: dict[str, Any] = {}
    first, last, lines = None, None, ""
    if number:
        origins = [delivery.origin for delivery in batch.deliveries]
        lines = "\n".join(origins)
        if lines.count("\n") != number - 1:
            detail["o"], lines = origins, ""
        if not batch.positions and (again := [at for at, each in enumerate(batch.deliveries) if each.redelivered]):
            detail["v"] = [at for at in again if not batch.ids or batch.ids[at] is None]
    stored = [each for each in msgids if each is not None]
    ordered = sorted(stored)  # a queue by priority gives ids in the order of priorities
    if ordered:
        first, last = int.from_bytes(ordered[0][8:]), int.from_bytes(ordered[-1][8:])
    if plain and first is not None and last is not None and last - first + 1 == number and stored == ordered:
        detail["i"] = first
    elif number:
        numbers = [None if each is None else int.from_bytes(each[8:]) for each in msgids]
        detail["c"], detail["i"], detail["r"] = _outcomes(batch.deliveries, offered, kept, numbers, refused)
    if batch.positions:
        detail["p"] = [tuple(position) for position in batch.positions]
    return packed(detail, lines), first, last


def _outcomes(
    deliveries: Sequence[Delivery],
    offered: Sequence[Kept],
    kept: Sequence[Kept],
    numbers: Sequence[int | None],
    refused: Sequence[RefusedMessage],
) -> tuple[str, dict[int, list[int]], dict[int, str]]:
    """Codes of all deliveries, ids and reasons by their index: the same distinctions as the route made."""
    reasons = {id(entry.message): str(entry.failure) for entry in refused}
    known = {id(entry.delivery) for entry in offered}
    found: dict[int, list[int]] = {}
    for entry, number in zip(kept, numbers, strict=True):
        found.setdefault(id(entry.delivery), []).extend([] if number is None else [number])
    codes, ids, why = [], dict[int, list[int]](), dict[int, str]()
    for index, delivery in enumerate(deliveries):
        mine = found.get(id(delivery))
        if delivery.duplicate:
            code = "d"
        elif id(delivery.message) in reasons:
            code, why[index] = "x", reasons[id(delivery.message)]
        elif mine is not None:
            code = _STORED if mine else _UNROUTED
            ids[index] = mine
        elif id(delivery) in known:
            code = "d"
        else:
            expiration = delivery.message.expiration
            code = "e" if expiration is not None and expiration <= 0 else "f"
        codes.append(code)
    return "".join(codes), ids, why


def carried_detail(
    batch: Batch, *, offered: Sequence[Kept], kept: Sequence[Kept], refused: Sequence[RefusedMessage]
) -> dict[str, Any]:
    """The detail of a batch from link to link, as far as it is known before it is sent.

    ``offered``: messages made of the deliveries; ``kept``: those whose key was new.
    """
    deliveries = batch.deliveries
    detail: dict[str, Any] = {"o": [delivery.origin for delivery in deliveries]}
    if again := [at for at, each in enumerate(deliveries) if each.redelivered and not batch.positions]:
        detail["v"] = [at for at in again if not batch.ids or batch.ids[at] is None]
    codes, ids, why = _outcomes(deliveries, offered, kept, range(len(kept)), refused)
    if codes.strip(_STORED):
        detail["c"], detail["r"] = codes, why
    else:
        detail.pop("c", None)
    if parts := {at: len(made) for at, made in ids.items() if len(made) != 1}:
        detail["k"] = parts
    if batch.positions:
        detail["p"] = [tuple(position) for position in batch.positions]
    return detail


def plain_detail(batch: Batch) -> tuple[dict[str, Any], str]:
    """The same where each delivery became one new message; and the origins, a line each, or else in the detail."""
    deliveries = batch.deliveries
    detail: dict[str, Any] = {}
    origins = [delivery[3] for delivery in deliveries]
    lines = "\n".join(origins)
    if lines.count("\n") != len(origins) - 1:
        detail["o"], lines = origins, ""
    if again := [at for at, each in enumerate(deliveries) if each[2]] if not batch.positions else []:
        detail["v"] = again
    if batch.positions:
        detail["p"] = [tuple(position) for position in batch.positions]
    return detail, lines


def completed_detail(batch: Completed) -> dict[str, Any]:
    """The detail of an outbound batch; empty when all of it was sent."""
    detail: dict[str, Any] = {}
    if batch.filtered:
        detail["f"] = batch.filtered
    if batch.unrouted:
        detail["u"] = batch.unrouted
    if batch.refused:
        detail["x"] = batch.refused
    if batch.sent_before:
        detail["b"] = 1
    if batch.sent:
        detail["t"] = round(batch.sent, 3), round(batch.confirmed, 3)
    if batch.placement is not None:
        detail["w"] = batch.placement
    if batch.parts:
        detail["k"] = batch.parts
    if batch.expired:
        detail["e"] = batch.expired
    return detail


def packed(detail: Mapping[str, Any], lines: str = "") -> bytes:
    """A detail in its stored form: a line of JSON, then the origins, a line each (JSON would take longer)."""
    text = f"{_encode(detail)}\n{lines}".encode(errors="surrogatepass")
    if len(text) < _SHORT:
        return text
    compressor = zlib.compressobj(1, zlib.DEFLATED, 12, 4)  # a small window is quick to set up
    return compressor.compress(text) + compressor.flush()


def text_of(blob: bytes) -> str:
    """The text of a detail: a line of JSON, then the origins.

    Raises:
        ValueError: it is the detail of several batches.
    """
    if blob.startswith(MERGED):
        raise ValueError("it holds several batches that no longer fit together")
    text = blob if blob.startswith(b"{") else zlib.decompress(blob)
    return text.decode(errors="surrogatepass")


def unpacked(blob: bytes) -> dict[str, Any]:
    """What :func:`packed` was given, the lines as ``o``."""
    head, _, lines = text_of(blob).partition("\n")
    detail: dict[str, Any] = json.loads(head)
    return detail if "o" in detail else detail | {"o": lines.split("\n")}


def digest(head: tuple[int, str, int | None, int], sums: Sums, ids: bytes, detail: bytes) -> int:
    """Checksum of a row; ``head``: job id, kind, sequence, messages."""
    return zlib.crc32(detail, zlib.crc32(ids, zlib.crc32(f"{head} {sums}".encode())))


def decode(row: Any) -> Record:
    """A row as read from the table, whatever was done to it."""
    kind = Kind(row.kind) if row.kind in set(Kind) else Kind.BREAK
    sums = (row.propagated, row.exceptioned, row.filtered, row.discarded, row.suppressed)
    ids, blob = bytes(row.message_ids or b""), bytes(row.detail or b"")
    entries: list[Entry] = []
    positions: list[tuple[str, str | None, str]] = []
    note = ""
    sent = confirmed = None
    faults = []
    if row.digest != digest((row.job_id, row.kind, row.sequence, row.messages), sums, ids, blob):
        faults.append("its checksum does not match: it was changed after it was written")
    try:
        detail = unpacked(blob) if blob else {}
        note = str(detail.get("n", ""))
        if kind is Kind.RECEIVED:
            entries = _received(row.messages, detail)
        elif kind is Kind.CARRIED:
            entries = _carried(row.messages, detail)
        elif kind is not Kind.BREAK:
            entries = _planned(kind, unpack(f">{len(ids) // 8}q", ids), detail)
        positions = [(part, before, after) for part, before, after in detail.get("p", ())]
        sent, confirmed = detail.get("t", (None, None))
    except Exception as error:  # whatever was done to the row must not keep the others from being read
        faults.append(f"it cannot be read ({type(error).__name__}: {error})")
    else:
        faults += _inconsistencies(row, entries, sums)
    return Record(
        row.job_id,
        row.number,
        kind,
        row.sequence,
        row.started,
        row.finished,
        row.messages,
        entries,
        positions,
        note,
        faults,
        sent,
        confirmed,
    )


def _received(messages: int, detail: Mapping[str, Any]) -> list[Entry]:
    origins = detail.get("o", []) if messages else []
    again = set(detail.get("v", ()))
    ids, codes = detail.get("i"), detail.get("c")
    if codes is None:
        numbers = range(ids, ids + messages) if isinstance(ids, int) else ids or ()
        return [
            Entry(Outcome.STORED, (number,), origin, "", at in again)
            for at, (origin, number) in enumerate(zip(origins, numbers, strict=True))
        ]
    reasons = detail["r"]
    return [
        Entry(_CODES[code], tuple((ids or {}).get(str(at), ())), origin, reasons.get(str(at), ""), at in again)
        for at, (origin, code) in enumerate(zip(origins, codes, strict=True))
    ]


def _carried(messages: int, detail: Mapping[str, Any]) -> list[Entry]:
    origins = detail.get("o", []) if messages else []
    again, reasons = set(detail.get("v", ())), detail.get("r", {})
    codes = detail.get("c", _STORED * messages)
    sent = [at for at, code in enumerate(codes) if code == _STORED]
    places = _places(sent, detail)
    done = Outcome.PROVEN if detail.get("b") else Outcome.SENT
    return [
        Entry(
            done if code == _STORED else _CODES[code],
            (),
            origin,
            reasons.get(str(at), ""),
            at in again,
            places.get(at, ()),
        )
        for at, (origin, code) in enumerate(zip(origins, codes, strict=True))
    ]


def _planned(kind: Kind, ids: Sequence[int], detail: Mapping[str, Any]) -> list[Entry]:
    if kind is Kind.RETURNED:
        return [Entry(Outcome.RETURNED, (number,), "", detail.get("n", "")) for number in ids]
    outcomes = dict.fromkeys(detail.get("f", ()), Outcome.FILTERED)
    outcomes |= dict.fromkeys(detail.get("u", ()), Outcome.UNROUTED)
    reasons = {int(number): reason for number, reason in detail.get("x", {}).items()}
    outcomes |= dict.fromkeys(reasons, Outcome.EXCEPTION)
    remarks = {int(number): remark for number, remark in detail.get("e", {}).items()}
    outcomes |= dict.fromkeys(remarks, Outcome.OVERDUE)
    reasons |= remarks
    other = Outcome.PROVEN if detail.get("b") else Outcome.SENT
    places = _places([number for number in ids if number not in outcomes], detail)
    return [
        Entry(outcomes.get(number, other), (number,), "", reasons.get(number, ""), False, places.get(number, ()))
        for number in ids
    ]


def _places(sent: Sequence[int], detail: Mapping[str, Any]) -> dict[int, tuple[str, ...]]:
    """Coordinates of the messages that were sent.

    Raises:
        ValueError: there are not as many as messages.
    """
    if "w" not in detail:
        return {}
    found = Placement(*detail["w"]).coordinates()
    parts = {int(number): count for number, count in detail.get("k", {}).items()}
    places, start = {}, 0
    for number in sent:
        end = start + parts.get(number, 1)
        places[number] = tuple(found[start:end])
        start = end
    if start != len(found):
        raise ValueError(f"it names {len(found)} places at the destination for {start} messages")
    return places


def _inconsistencies(row: Any, entries: Sequence[Entry], sums: Sequence[int]) -> list[str]:
    if len(entries) != row.messages:
        return [f"it names {len(entries)} messages and counts {row.messages}"]
    if row.kind == Kind.RECEIVED and sum(sums) != row.messages:
        return [f"its counters add up to {sum(sums)} of {row.messages} messages"]
    return []
