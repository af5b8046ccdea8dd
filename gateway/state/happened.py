"""Statements on what is kept of the past: events, and the audit of administration."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from mgw.gateway.aq import Db
from mgw.gateway.state.tables import event

__all__ = ["Audited", "Happened", "after", "audit", "events", "last_before", "last_of"]


@dataclass(frozen=True, slots=True)
class Happened:
    """An event. ``time`` is epoch seconds."""

    id: int
    time: float
    level: str
    name: str
    agent: str | None
    object: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Audited:
    """An entry of the audit. Times are epoch seconds.

    Attributes:
        through: how the actor came, one of :data:`mgw.gateway.aq.WAYS`; None: an earlier release wrote it.
        action: ``create link``, ``purge``.
        kind: of the object; None: it has no definition.
        before_change, after_change: its definition without secrets; None: it was not there, or nothing was changed.
        generation: which generation of the definitions it is, or is part of; None: it changed none.
        alone: it is that generation by itself.
        version: of the gateway's definitions, with this change; None: they are the same.
        result: of an undertaking of several changes, in its last entry.
        messages: that were in what was removed; ``oldest``: when the oldest of them was enqueued; ``moved_to``: the
            queue that got them, None: they were deleted.
    """

    id: int
    time: float
    actor: str
    through: str | None
    action: str
    kind: str | None
    object: str
    before_change: Mapping[str, Any] | None
    after_change: Mapping[str, Any] | None
    generation: int | None
    alone: bool
    version: int | None
    result: str | None
    messages: int
    oldest: float | None
    moved_to: str | None


_EVENT = (event.c.id, event.c.time, event.c.level, event.c.name, event.c.agent, event.c.object, event.c.text)


def events(
    conn: sa.Connection,
    *,
    since: float | None,
    levels: Sequence[str],
    object_name: str | None,
    agent: str | None,
    name: str | None,
    before: int | None,
    limit: int,
) -> list[Happened]:
    """The latest events that fulfil every condition given, the latest first."""
    chosen = sa.select(*_EVENT)
    if since is not None:
        chosen = chosen.where(event.c.time >= since)
    if levels:
        chosen = chosen.where(event.c.level.in_(levels))
    for column, text in ((event.c.object, object_name), (event.c.agent, agent), (event.c.name, name)):
        if text is not None:
            chosen = chosen.where(sa.func.upper(column) == text.upper())
    if before is not None:
        chosen = chosen.where(event.c.id < before)
    return [Happened(*row) for row in conn.execute(chosen.order_by(event.c.id.desc()).limit(limit))]


def after(conn: sa.Connection, number: int, upto: int | None, limit: int) -> list[Happened]:
    """The first events with an id above ``number``, up to ``upto``, in order."""
    chosen = sa.select(*_EVENT).where(event.c.id > number)
    if upto is not None:
        chosen = chosen.where(event.c.id <= upto)
    return [Happened(*row) for row in conn.execute(chosen.order_by(event.c.id).limit(limit))]


def last_before(conn: sa.Connection, moment: float) -> int:
    """The largest id of an event that happened before a moment (epoch seconds); 0: there is none."""
    latest = sa.select(event.c.id).where(event.c.time < moment).order_by(event.c.id.desc()).limit(1)
    return conn.execute(latest).scalar() or 0


#: What is one change for those who look back: that of a definition, or everything that one undertaking did.
_GENERATION = """CASE WHEN generation IS NOT NULL
                     OR (version IS NOT NULL AND (before_change IS NOT NULL OR after_change IS NOT NULL))
                     THEN COALESCE(generation, id) END"""
_AUDIT = f"""SELECT id, time, actor, through, action, kind, object, before_change, after_change, {_GENERATION},
                    generation IS NULL, version,
                    result, messages, oldest, moved_to FROM aq_audit"""


def audit(
    conn: sa.Connection,
    *,
    since: float | None = None,
    before: int | None = None,
    after: int | None = None,
    name: str | None = None,
    definitions: bool = False,
    limit: int,
) -> list[Audited]:
    """The latest entries that fulfil every condition given, the latest first.

    Args:
        since: epoch seconds.
        before, after: with a smaller number, with a larger one.
        name: of this object, in whatever letter case.
        definitions: of generations.
    """
    where, values = [f"{_GENERATION} IS NOT NULL" if definitions else "1 = 1"], list[Any]()
    for condition, value in (("time >= ?", since), ("id < ?", before), ("id > ?", after)):
        if value is not None:
            where.append(condition)
            values.append(value)
    if name is not None:
        where.append("(UPPER(object) = ? OR UPPER(object) LIKE ? ESCAPE '!')")
        plain = name.upper().replace("!", "!!").replace("%", "!%").replace("_", "!_")
        values += [name.upper(), f"{plain}, WHICH READS %"]  # how the removal of a job is told
    sql = f"{_AUDIT} WHERE {' AND '.join(where)} ORDER BY id DESC LIMIT ?"
    return [_audited(*row) for row in Db(conn).rows(sql, (*values, limit))]


def audited_before(conn: sa.Connection, moment: float) -> int:
    """The largest number of an entry of the audit that is older than a moment (epoch seconds); 0: there is none."""
    sql = "SELECT id FROM aq_audit WHERE time < ? ORDER BY id DESC LIMIT 1"
    return int(Db(conn).scalar(sql, (moment,)) or 0)


def completed_after(conn: sa.Connection, number: int) -> list[tuple[int, str | None]]:
    """Generations that became complete with an entry of a larger number: that number, and what an undertaking came
    to; None: it was one change."""
    sql = f"""SELECT id, result FROM aq_audit
               WHERE id > ? AND {_GENERATION} IS NOT NULL AND (generation IS NULL OR result IS NOT NULL)"""
    return [(int(entry), result) for entry, result in Db(conn).rows(sql, (number,))]


def last_of(conn: sa.Connection, generation: int) -> int | None:
    """The number of the last entry of a generation; None: there is none, or it is not kept any more."""
    sql = f"SELECT MAX(id) FROM aq_audit WHERE id >= ? AND {_GENERATION} = ?"
    found = Db(conn).scalar(sql, (generation, generation))
    return None if found is None else int(found)


def _audited(*row: Any) -> Audited:
    found = Audited(*row)
    return replace(
        found, alone=bool(found.alone), before_change=_read(found.before_change), after_change=_read(found.after_change)
    )


def _read(text: Any) -> Mapping[str, Any] | None:
    return None if text is None else json.loads(text)
