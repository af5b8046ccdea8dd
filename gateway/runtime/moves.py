"""A link that was altered may lead to another messaging system: what the hub knows of the first does not hold there.

The hub keeps, for each end of a job, the place where it was connected last. Where the next connection leads elsewhere:

* The positions of a source are put aside, and those that the job left at the new place earlier, if any, are taken up
  again. At a place where the job never was, it begins at the first message that is there.
* The sending log of the new place is asked about the batches in doubt like that of the old one. Those that it does not
  have are sent again, for the old place cannot be asked any more: they may be at both, and the job says so.

Where a messaging system does not say which one it is, its link decides what is worth something there.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from hashlib import blake2b

import sqlalchemy as sa

from mgw.gateway.aq import Hub
from mgw.gateway.definitions.objects import JobDef
from mgw.gateway.ledger.record import source_moved, target_moved
from mgw.gateway.ledger.store import record_break
from mgw.gateway.observe.events import DestinationMoved, Event, LogChanged, SourceMoved
from mgw.gateway.state import run_state
from mgw.gateway.state.run_state import JobRow
from mgw.links.contract import RESUME, GuaranteeReport, Mark
from mgw.links.place import Place

__all__ = ["arrive_at_source", "arrive_at_target", "noted", "positions_at"]

NOTE_SECONDS = 86400.0  # how long the note of the guarantee speaks of batches that a change left in doubt

_SOURCE, _TARGET = run_state.HIDDEN + "source", run_state.HIDDEN + "target"
_LEFT = run_state.HIDDEN + "left:"  # and a digest of the place: what a job left behind there


@dataclass(frozen=True, slots=True)
class _Stay:
    """Where an end was connected last. ``batches`` were in doubt when it came from ``before``, at ``since``."""

    address: str
    system: str
    log: str = ""
    batches: int = 0
    before: str = ""
    since: float = 0.0

    @property
    def place(self) -> Place:
        return Place(self.address, self.system, self.log)


def arrive_at_source(conn: sa.Connection, job: JobDef, place: Place, *, now: float) -> Event | None:
    """The source of a job is connected to ``place`` next; what there is to tell."""
    job_id = job.id
    entries = run_state.load_entries(conn, job_id)
    before = _stay(entries.get(_SOURCE))
    if before is not None and before.place == place:
        return None
    marks = [_mark(_SOURCE, _Stay(*place))]
    if before is None or not place.differs(before.place):
        run_state.write_marks(conn, job_id, marks, now=now)
        return None
    known, names = place.system and before.system, (str(before.place), str(place))
    held, found = run_state.load_positions(conn, job_id), _left(entries, place)
    if known:
        marks += _exchanged(before.place, held, place, found)
        record_break(conn, job_id, source_moved(*names), now=now)
    run_state.write_marks(conn, job_id, marks, now=now)
    if not place.elsewhere(before.place):
        return LogChanged(job.name, job.source, before.log, place.log or "none")
    return SourceMoved(job.name, job.source, *names, sure=bool(known), begins=bool(held) and found is None)


def _exchanged(before: Place, held: dict[str, str], place: Place, found: dict[str, str] | None) -> list[Mark]:
    marks = [Mark(name, None) for name in held]
    marks.append(Mark(_left_at(before), json.dumps({"place": before.name, "positions": held})))
    if found is not None:
        marks.append(Mark(_left_at(place), None))
        marks += [Mark(name, value) for name, value in found.items()]
    elif held:
        marks.append(Mark(RESUME, "earliest"))
    last = {mark.partition: mark for mark in marks}  # the same name may be removed and written
    return list(last.values())


def positions_at(conn: sa.Connection, job_id: int, place: Place | None) -> dict[str, str]:
    """The positions of a job for a connection that reads nothing."""
    entries = run_state.load_entries(conn, job_id)
    before = _stay(entries.get(_SOURCE))
    if place is None or before is None or not place.differs(before.place) or not (place.system and before.system):
        return run_state.load_positions(conn, job_id)
    return _left(entries, place) or {}


def arrive_at_target(
    conn: sa.Connection, job: JobDef, place: Place, row: JobRow, doubtful: int, *, now: float
) -> tuple[JobRow, Event | None]:
    """The destination of a job is connected to ``place``, whose log lacks ``doubtful`` of the planned batches."""
    job_id = job.id
    before = _stay(run_state.load_entries(conn, job_id).get(_TARGET))
    if before is not None and before.place == place:
        return row, None
    if before is None or not place.differs(before.place):
        stay = replace(before or _Stay("", ""), address=place.address, system=place.system, log=place.log)
        run_state.write_marks(conn, job_id, [_mark(_TARGET, stay)], now=now)
        return row, None
    stay = _Stay(*place, doubtful, str(before.place), now)
    if not doubtful:
        stay = replace(stay, batches=before.batches, before=before.before, since=before.since)
    run_state.write_marks(conn, job_id, [_mark(_TARGET, stay)], now=now)
    names = str(before.place), str(place)
    record_break(conn, job_id, target_moved(*names), sequence=row.plan_sequence, now=now)
    if row.log_sequence is not None and row.log_sequence != run_state.LOG_RESET:
        run_state.forget_log(conn, job_id)
        row = replace(row, log_sequence=None)
    if not place.elsewhere(before.place):
        return row, LogChanged(job.name, job.destination, before.log, place.log or "none", doubtful)
    return row, DestinationMoved(job.name, job.destination, *names, batches=doubtful)


def noted(report: GuaranteeReport, hub: Hub, job_id: int, now: float) -> GuaranteeReport:
    """The guarantee of a job, with a note about what a change of its link left in doubt."""
    with hub.read() as conn:
        stay = _stay(run_state.load_entries(conn, job_id).get(_TARGET))
    if stay is None or not stay.batches or now - stay.since > NOTE_SECONDS:
        return report
    when = datetime.fromtimestamp(stay.since, UTC).strftime("%Y-%m-%d %H:%M UTC")
    doubt = (
        f"{stay.batches} batch(es) that were not confirmed when the destination moved, at {when}, were sent again: "
        f"they may also be at {stay.before}"
    )
    return GuaranteeReport(report.level, "; ".join(filter(None, (doubt, report.note))))


def _stay(text: str | None) -> _Stay | None:
    try:
        return None if text is None else _Stay(**json.loads(text))
    except (ValueError, TypeError):  # of another release
        return None


def _mark(name: str, stay: _Stay) -> Mark:
    return Mark(name, json.dumps(asdict(stay)))


def _left_at(place: Place) -> str:
    return _LEFT + blake2b(place.name.encode(), digest_size=8).hexdigest()


def _left(entries: dict[str, str], place: Place) -> dict[str, str] | None:
    text = entries.get(_left_at(place))
    if text is None:
        return None
    positions: dict[str, str] = json.loads(text)["positions"]
    return positions
