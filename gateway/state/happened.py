"""Statements on what is kept of the past: events, and the audit of removals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from mgw.gateway.aq import Db
from mgw.gateway.state.tables import event

__all__ = ["Audited", "Happened", "after", "audit", "events", "last_before"]


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
    """Something that may have held messages was removed. Times are epoch seconds."""

    id: int
    time: float
    actor: str
    action: str
    object: str
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


_AUDIT = "SELECT id, time, actor, action, object, messages, oldest, moved_to FROM aq_audit"


def audit(conn: sa.Connection, *, since: float | None, before: int | None, limit: int) -> list[Audited]:
    """The latest removals, the latest first."""
    where, values = ["1 = 1"], list[Any]()
    for condition, value in (("time >= ?", since), ("id < ?", before)):
        if value is not None:
            where.append(condition)
            values.append(value)
    sql = f"{_AUDIT} WHERE {' AND '.join(where)} ORDER BY id DESC LIMIT ?"
    return [Audited(*row) for row in Db(conn).rows(sql, (*values, limit))]
