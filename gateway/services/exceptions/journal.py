"""Events of the desk: in the hub with the transaction they tell of, then in the log."""

from __future__ import annotations

import logging

import sqlalchemy as sa

from mgw.gateway.definitions.objects import JobDef
from mgw.gateway.observe.events import Event, Journalist
from mgw.gateway.state import run_state

__all__ = ["record"]


def record(conn: sa.Connection | None, event: Event, job: JobDef, now: float) -> None:
    """Keep the event in the transaction of ``conn``; without one, after its commit, write its line to the log."""
    if conn is None:
        Journalist().tell(event)
        return
    run_state.add_event(
        conn,
        agent_name=job.agent,
        level=logging.getLevelName(event.level),
        name=event.name,
        object_name=event.object,
        text=event.text(),
        now=now,
    )
