"""Events of the desk and their entries of the audit: in the hub with the transaction they tell of; then in the log."""

from __future__ import annotations

import logging
from typing import TypeAlias

import sqlalchemy as sa

from mgw.gateway.aq import Changed, keep_change
from mgw.gateway.definitions.objects import JobDef
from mgw.gateway.observe.desk_events import ExceptionEdited, ExceptionsDiscarded, ExceptionsReplayed
from mgw.gateway.observe.events import Journalist
from mgw.gateway.observe.parking_events import KeyGivenUp, KeyHastened
from mgw.gateway.state import run_state

__all__ = ["Deed", "record"]


#: What people do at the desk.
Deed: TypeAlias = ExceptionsReplayed | ExceptionsDiscarded | ExceptionEdited | KeyHastened | KeyGivenUp


def record(conn: sa.Connection | None, event: Deed, job: JobDef, now: float) -> None:
    """Keep the event and the entry of the audit in the transaction of ``conn``; without one, after its commit, write
    the line of the event to the log."""
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
    keep_change(conn, _entry(event), now=now, by=event.by)


def _entry(event: Deed) -> Changed:
    """The entry of the audit: it is kept longer than the event. Bodies are not in it, only the digest of an edited
    one."""
    name = event.object
    if isinstance(event, KeyHastened | KeyGivenUp):
        verb = "release" if isinstance(event, KeyHastened) else "give up"
        return Changed(verb, "parked keys", name, {"keys": list(event.keys)})
    queue = {"exception_queue": event.exception_queue}
    if isinstance(event, ExceptionEdited):
        after = {"message": event.became, "edited": event.what, "sha256_before": event.digest}
        return Changed("edit", "exceptions", name, queue | {"message": event.message}, queue | after)
    verb, target = ("replay", event.target) if isinstance(event, ExceptionsReplayed) else ("discard", None)
    before = {**queue, "messages": list(event.messages)}
    return Changed(verb, "exceptions", name, before, messages=len(event.messages), moved_to=target)
