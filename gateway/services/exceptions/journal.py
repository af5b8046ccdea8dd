"""Events of the desk and their entries of the audit: in the hub with the transaction they tell of; then in the log."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, TypeAlias

import sqlalchemy as sa

from mgw.gateway.aq import Changed, Hub, extend_change, keep_change
from mgw.gateway.definitions.objects import JobDef
from mgw.gateway.observe.desk_events import ExceptionEdited, ExceptionsDiscarded, ExceptionsReplayed
from mgw.gateway.observe.events import Journalist
from mgw.gateway.observe.parking_events import KeyGivenUp, KeyHastened
from mgw.gateway.services.exceptions.contract import Outcome, Pace, Which
from mgw.gateway.state import run_state
from mgw.transforms.errors import GatewayError

__all__ = ["Deed", "Journal", "Moved", "record"]

_LOGGER = logging.getLogger("mgw.desk")

_IDS = 1000  # of messages in an entry

#: What people do with messages at the desk, batch by batch.
Moved: TypeAlias = ExceptionsReplayed | ExceptionsDiscarded
#: What else they do there.
Deed: TypeAlias = ExceptionEdited | KeyHastened | KeyGivenUp


def record(conn: sa.Connection | None, event: Deed, job: JobDef, now: float) -> None:
    """Keep the event and the entry of the audit in the transaction of ``conn``; without one, after its commit, write
    the line of the event to the log."""
    if conn is None:
        Journalist().tell(event)
        return
    _keep_event(conn, event, job, now)
    keep_change(conn, _entry(event), now=now, by=event.by)


def _keep_event(conn: sa.Connection, event: Deed | Moved, job: JobDef, now: float) -> None:
    run_state.add_event(
        conn,
        agent_name=job.agent,
        level=logging.getLevelName(event.level),
        name=event.name,
        object_name=event.object,
        text=event.text(),
        now=now,
    )


def _entry(event: Deed) -> Changed:
    """The entry of the audit: it is kept longer than the event. Bodies are not in it, only the digest of an edited
    one."""
    name = event.object
    if isinstance(event, KeyHastened | KeyGivenUp):
        verb = "release" if isinstance(event, KeyHastened) else "give up"
        return Changed(verb, "parked keys", name, {"keys": list(event.keys)})
    queue = {"exception_queue": event.exception_queue}
    after = {"message": event.became, "edited": event.what, "sha256_before": event.digest}
    return Changed("edit", "exceptions", name, queue | {"message": event.message}, queue | after)


@dataclass(frozen=True, slots=True)
class _Stored:
    """What the audit has of a replay or discard.

    Attributes:
        begun: the entry that says that it begins; None: there is none.
        last: the last entry that names messages, and which.
    """

    begun: int | None = None
    last: int | None = None
    messages: tuple[str, ...] = ()


class Journal:
    """What the events and the audit have of one replay or discard.

    A batch that is all of it has one entry in the audit. Otherwise there is one that says that it begins, who wanted
    it, with which conditions and where to; then entries that name the messages, each stored with the batches that it
    tells of; and one that says what it came to. Where the last is missing, it goes on or its process was killed.
    """

    def __init__(  # noqa: PLR0917
        self,
        hub: Hub,
        job: JobDef,
        queue: str,
        which: Which,
        limit: int | None,
        pace: Pace,
        *,
        by: str,
        consumer: str | None = None,
        target: str | None = None,
    ) -> None:
        self._more = False
        self._hub, self._job, self._by, self._target = hub, job, by, target
        self._verb = "discard" if target is None else "replay"
        self._queue = {"exception_queue": queue}
        given = {"consumer": consumer, **which.conditions, "limit": limit, "rate": pace.rate}
        self._wanted = {name: value for name, value in given.items() if value is not None}
        numbers = [number for number in (limit, len(which.ids)) if number]
        self._most = min(numbers, default=None)
        self._stored = self._next = _Stored()

    def goes_on(self, outcome: Outcome, batch: int, *, full: bool) -> None:
        """Say whether something may follow a batch, of so many messages, that is full or not."""
        self._more = full and (self._most is None or len(outcome.done) + batch < self._most)

    def keep(self, conn: sa.Connection, event: Moved, now: float) -> None:
        """Keep a batch in its transaction."""
        _keep_event(conn, event, self._job, now)
        begun, last, ids = self._stored.begun, self._stored.last, self._stored.messages
        if begun is None and last is None and self._more:
            to = {} if self._target is None else {"to": self._target}
            begun = self._enter(conn, f"begin {self._verb} of", self._wanted | to, now)
        about = self._wanted if begun is None else {"begun": begun}
        together = (*ids, *event.messages)
        values = {**self._queue, **about, "messages": list(together)}
        if last is None or len(together) > _IDS or not extend_change(conn, last, values, messages=len(together)):
            together = event.messages
            last = self._enter(conn, self._verb, about, now, together)
        self._next = _Stored(begun, last, together)

    def kept(self, event: Moved) -> None:
        """That transaction is committed: write the line of the event to the log."""
        self._stored = self._next
        Journalist().tell(event)

    def end(self, outcome: Outcome, now: float) -> None:
        """Say what it came to, unless that is clear."""
        if self._stored.begun is None:
            return
        words = [f"{len(outcome.done)} {'replayed' if self._target is not None else 'discarded'}"]
        words += [f"{len(outcome.gone)} gone"] if outcome.gone else []
        words += [f"{len(outcome.failed)} refused"] if outcome.failed else []
        words += [f"stopped: {outcome.stopped}"] if outcome.stopped else []
        try:
            with self._hub.write() as conn:
                about = {"begun": self._stored.begun}
                self._enter(conn, f"end {self._verb} of", about, now, result=", ".join(words))
        except GatewayError as error:  # what was done is stored
            _LOGGER.warning("job %s: the audit does not say how the %s ended: %s", self._job.name, self._verb, error)

    def _enter(  # noqa: PLR0917
        self,
        conn: sa.Connection,
        verb: str,
        about: dict[str, Any],
        now: float,
        messages: tuple[str, ...] | None = None,
        result: str | None = None,
    ) -> int:
        ids = {} if messages is None else {"messages": list(messages)}
        changed = Changed(
            verb,
            "exceptions",
            self._job.name,
            {**self._queue, **about, **ids},
            messages=len(messages or ()),
            moved_to=self._target,
            result=result,
        )
        return keep_change(conn, changed, now=now, by=self._by)
