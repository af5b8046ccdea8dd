"""The exception queue of a job that reads a queue of the hub: it is in the hub, too.

A replay is one hub transaction for each batch: messages are taken out of the exception queue, put into the queue they
came from, and the event that tells of it is written. So a message is in one of the two queues, whatever happens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import sqlalchemy as sa

from mgw.gateway.aq import (
    Agent,
    Db,
    Dequeued,
    DequeueMode,
    DequeueOptions,
    MessageRefused,
    Navigation,
    Session,
    queue_consumers,
    transfer,
)
from mgw.gateway.definitions.objects import JobDef, key
from mgw.gateway.observe.desk_events import ExceptionEdited, ExceptionsDiscarded, ExceptionsReplayed
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.exceptions.contract import (
    Change,
    DeskRefused,
    Entry,
    NoSuchPlace,
    Outcome,
    Pace,
    Page,
    Which,
    body_digest,
)
from mgw.gateway.services.exceptions.edits import edited_message
from mgw.gateway.services.exceptions.journal import Journal, Moved, record
from mgw.transforms.errors import AqError, GatewayError
from mgw.transforms.payloads.exception_message import original_of, reason_of

__all__ = ["HubDesk"]

_NOTHING, _AT_THE_END, _NOT_THERE = 25228, 25237, 25263  # numbers of errors; the last: no such msgid
_PAGE = 100  # messages with their bodies in memory
_MSGID_BYTES = 16


class _Found(NamedTuple):
    """A message that is meant, without its body."""

    time: float
    msgid: bytes
    entry: Entry

    @property
    def place(self) -> tuple[float, str]:
        """Where it is in the order of the failures."""
        return self.time, self.entry.id


def _place(text: str) -> tuple[float, str]:
    """The place that the text of a page means: ``h TIME ID``.

    Raises:
        NoSuchPlace: it is none.
    """
    try:
        kind, when, entry_id = text.split(" ")
        if kind == "h" and entry_id and math.isfinite(time := float(when)):
            return time, entry_id
    except ValueError:
        pass
    raise NoSuchPlace(text)


class HubDesk:
    """See the module."""

    def __init__(self, admin: GatewayAdmin, job: JobDef, consumer: str | None = None) -> None:
        self._hub = admin.hub
        self._clock = admin.clock
        self._job = job
        with self._hub.read() as conn:
            exceptions = transfer.resolve(conn, job.exception_queue or "")
            self._source = transfer.resolve(conn, job.source)
        if exceptions.multiple_consumers and consumer is None:
            raise DeskRefused(
                f"exception queue {exceptions.full_name} has several consumers",
                cause="each of them has messages of its own there",
                cure="name the one whose messages are meant (--consumer)",
            )
        self._exceptions = exceptions
        self._consumer = consumer if exceptions.multiple_consumers else None
        self.queue = exceptions.full_name
        self.target = self._source.full_name
        # Only to the subscriber that failed: the other ones have had their copies.
        self._recipients = [Agent(job.subscriber)] if self._source.multiple_consumers else []
        self._origins: dict[str, bool] = {"": True}

    # ---------------------------------------------------------------------------------------------------------- look

    def entries(self, which: Which, limit: int | None = None, *, whole: bool = True) -> Iterator[Entry]:
        """See :meth:`mgw.gateway.services.exceptions.contract.Desk.entries`."""
        if len(which.ids) == 1:  # with its body, in one call
            (only,) = which.ids
            entry = self._one(only)
            if entry is not None and which.has(entry):
                yield entry
            return
        for meant in self._found(which)[:limit]:
            entry = self._one(meant.entry.id) if whole else meant.entry
            if entry is not None:
                yield entry

    def page(self, which: Which, limit: int, *, after: str | None = None, look: int = 0) -> Page:
        """See :meth:`mgw.gateway.services.exceptions.contract.Desk.page`."""
        place = None if after is None else _place(after)
        found = [each for each in self._found(which) if place is None or each.place > place]
        shown, rest = found[:limit], found[limit:]
        time, last = shown[-1].place if shown else (0.0, "")
        beyond = [each.entry for each in rest[: max(0, look - limit)]]
        return Page([each.entry for each in shown], bool(rest), f"h {time!r} {last}" if rest else None, beyond)

    def _found(self, which: Which) -> list[_Found]:
        """What is meant, in the order of the failures."""
        found = []
        for entry in self._candidates(which):
            if which.has(entry):
                bare = replace(entry, message=replace(entry.message, body=None, headers=()))
                found.append(_Found(entry.reason.time or 0.0, bytes.fromhex(entry.id), bare))
        return sorted(found, key=lambda each: each[:2])

    def _candidates(self, which: Which) -> Iterator[Entry]:
        """Messages of this job among which are those that are meant."""
        if which.ids:
            yield from filter(None, map(self._one, dict.fromkeys(each.lower() for each in which.ids)))
        else:
            yield from filter(None, map(self._entry, self._browsed()))

    def _browsed(self) -> Iterator[Dequeued]:
        navigation = Navigation.FIRST_MESSAGE_MULTI_GROUP
        with self._hub.session() as session:
            while True:
                options = DequeueOptions(
                    consumer_name=self._consumer, dequeue_mode=DequeueMode.BROWSE, navigation=navigation, wait=0
                )
                try:
                    page = session.dequeue_array(self._quoted, options, _PAGE)
                except AqError as error:
                    if error.number in {_NOTHING, _AT_THE_END}:
                        return
                    raise
                yield from page
                if len(page) < _PAGE:
                    return
                navigation = Navigation.NEXT_MESSAGE_MULTI_GROUP

    @property
    def _quoted(self) -> str:
        return f'"{self._exceptions.schema}"."{self._exceptions.name}"'

    def _one(self, entry_id: str) -> Entry | None:
        try:
            msgid = bytes.fromhex(entry_id)
        except ValueError:
            return None
        if len(msgid) != _MSGID_BYTES:
            return None
        with self._hub.session() as session:
            taken = self._taken(session, msgid, DequeueMode.BROWSE)
        return None if taken is None else self._entry(taken)

    def _taken(self, session: Session, msgid: bytes, mode: DequeueMode) -> Dequeued | None:
        options = DequeueOptions(consumer_name=self._consumer, dequeue_mode=mode, wait=0, msgid=msgid)
        try:
            return session.dequeue(self._quoted, options)
        except AqError as error:
            if error.number in {_NOTHING, _NOT_THERE}:
                return None
            raise

    def _entry(self, taken: Dequeued) -> Entry | None:
        """The message, if it is one of this job's."""
        reason = reason_of(taken.message)
        if reason is None or key(reason.job) != key(self._job.name):
            return None
        return Entry(taken.msgid.hex(), self._job.name, self.queue, reason, taken.message)

    # ------------------------------------------------------------------------------------------------------- do

    def replay(self, which: Which, *, by: str, limit: int | None, pace: Pace, dry: bool) -> Outcome:
        """See :meth:`mgw.gateway.services.exceptions.contract.Desk.replay`.

        Raises:
            DeskRefused: the source groups messages by transaction, or the exception queue has several subscribers.
        """
        self._check_replay()

        def put(conn: sa.Connection, entries: Sequence[Entry]) -> Moved:
            originals = [original_of(entry.message) for entry in entries]
            transfer.put(conn, self._source, originals, recipients=self._recipients)
            ids = tuple(entry.id for entry in entries)
            return ExceptionsReplayed(self._job.name, self.queue, self.target, by, ids)

        journal = self._journal(which, limit, pace, by, target=self.target)
        return self._each(which, put, journal, limit=limit, pace=pace, dry=dry, refusal=self._elsewhere)

    def _journal(self, which: Which, limit: int | None, pace: Pace, by: str, *, target: str | None = None) -> Journal:
        return Journal(
            self._hub, self._job, self.queue, which, limit, pace, by=by, consumer=self._consumer, target=target
        )

    def _check_replay(self) -> None:
        if self._source.grouped:
            raise DeskRefused(
                f"messages cannot be replayed to queue {self.target}",
                cause="its queue table groups messages by transaction, and a replay would make one group of messages "
                "that came from several",
                cure="enqueue each group in a transaction of your own, then discard its messages here",
            )
        if self._consumer is None:
            return
        with self._hub.read() as conn:
            subscribers = queue_consumers.count_subscribers(Db(conn), self._exceptions)
        if len(subscribers) > 1:
            raise DeskRefused(
                f"messages of exception queue {self.queue} cannot be replayed",
                cause=f"each of its {len(subscribers)} subscribers has copies of its own, so a message could be "
                "replayed twice",
                cure="leave it one subscriber, or use a queue with one consumer as exception queue",
            )

    def _elsewhere(self, entry: Entry) -> str:
        """Why a message cannot go back to the source of the job; empty if it came from there."""
        origin = entry.reason.origin
        if origin not in self._origins:
            try:
                with self._hub.read() as conn:
                    self._origins[origin] = transfer.resolve(conn, origin).id == self._source.id
            except AqError:  # there is no such queue any more
                self._origins[origin] = False
        return "" if self._origins[origin] else f"it came from queue {origin}, the job reads {self.target} now"

    def discard(self, which: Which, *, by: str, limit: int | None, pace: Pace, dry: bool) -> Outcome:
        """See :meth:`mgw.gateway.services.exceptions.contract.Desk.discard`."""

        def drop(conn: sa.Connection, entries: Sequence[Entry]) -> Moved:  # noqa: ARG001
            return ExceptionsDiscarded(self._job.name, self.queue, by, tuple(entry.id for entry in entries))

        return self._each(which, drop, self._journal(which, limit, pace, by), limit=limit, pace=pace, dry=dry)

    def _each(
        self,
        which: Which,
        act: Callable[[sa.Connection, Sequence[Entry]], Moved],
        journal: Journal,
        *,
        limit: int | None,
        pace: Pace,
        dry: bool,
        refusal: Callable[[Entry], str] = lambda _: "",
    ) -> Outcome:
        outcome = Outcome(self.target, dry)
        meant = self._not_refused(which, refusal, outcome)
        if dry:
            for each in islice(meant, limit):
                outcome.has_done(each.entry)
            return outcome
        while batch := list(islice(meant, room := pace.room(limit, outcome))):
            if not pace.before(len(batch), outcome):
                break
            journal.goes_on(outcome, len(batch), full=len(batch) == room)
            try:
                self._batch(batch, act, journal, outcome)
            except GatewayError as error:
                outcome.stopped = str(error)
                if not outcome.done:
                    journal.end(outcome, self._clock.now())
                    raise
                break
        journal.end(outcome, self._clock.now())
        return outcome

    def _not_refused(self, which: Which, refusal: Callable[[Entry], str], outcome: Outcome) -> Iterator[_Found]:
        """What is meant, but for the messages that are refused: those are told in ``outcome`` and use up no limit."""
        for each in self._found(which):
            if why := refusal(each.entry):
                outcome.failed[each.entry.id] = why
            else:
                yield each

    def _batch(
        self,
        batch: Sequence[_Found],
        act: Callable[[sa.Connection, Sequence[Entry]], Moved],
        journal: Journal,
        outcome: Outcome,
    ) -> None:
        """All in one transaction; where one is refused, each of the others in its own, as many may be refused."""
        try:
            self._act(batch, act, journal, outcome)
        except MessageRefused as error:  # nothing happened
            there = [each for each in batch if each.entry.id not in outcome.gone]
            refused = there.pop(error.index)
            outcome.failed[refused.entry.id] = str(error)
            for each in there:
                self._batch([each], act, journal, outcome)

    def _act(
        self,
        batch: Sequence[_Found],
        act: Callable[[sa.Connection, Sequence[Entry]], Moved],
        journal: Journal,
        outcome: Outcome,
    ) -> None:
        """One transaction: to where they go, out of the exception queue, and the event.

        They are locked first and removed last: a removal that is rolled back would count as a failed attempt.

        Raises:
            MessageRefused: its index counts those that were there.
            AqError: the queue they go to takes none; nothing happened.
        """
        entries: list[Entry] = []
        with self._hub.write() as conn:
            session = self._hub.session(conn)
            for each in batch:
                found = self._taken(session, each.msgid, DequeueMode.LOCKED)
                entry = None if found is None else self._entry(found)
                if entry is not None:
                    entries.append(entry)
                elif each.entry.id not in outcome.gone:
                    outcome.gone.append(each.entry.id)
            if not entries:
                return
            event = act(conn, entries)
            for entry in entries:
                if self._taken(session, bytes.fromhex(entry.id), DequeueMode.REMOVE_NODATA) is None:
                    raise AqError(f"message {entry.id} of queue {self.queue} is gone", cause="somebody took it")
            journal.keep(conn, event, self._clock.now())
        self._hub.notifier.committed((self._source.id,))
        journal.kept(event)
        for entry in entries:
            outcome.has_done(entry)

    def edit(self, entry_id: str, change: Change, *, by: str) -> Entry:
        """See :meth:`mgw.gateway.services.exceptions.contract.Desk.edit`; the message gets another id."""
        missing = DeskRefused(
            f"message {entry_id} is not in exception queue {self.queue}",
            cause="it has another id, or somebody took it",
            cure=f"see the messages that are there: mgw exceptions list {self._job.name}",
        )
        found = self._one(entry_id)
        if found is None:
            raise missing
        now = self._clock.now()
        told = f"{change.told()} by {by} at {now:.3f}"
        edited_message(found.message, change, told)  # refused before anything is taken
        found_id = bytes.fromhex(entry_id)
        with self._hub.write() as conn:
            session = self._hub.session(conn)
            taken = self._taken(session, found_id, DequeueMode.LOCKED)
            before = None if taken is None else self._entry(taken)
            if before is None:
                raise missing
            edited = edited_message(before.message, change, told)
            reader = [Agent(self._consumer)] if self._consumer is not None else []
            try:
                (msgid,) = transfer.put(conn, self._exceptions, [edited], recipients=reader).msgids
            except MessageRefused as error:
                raise DeskRefused("the edited message cannot be stored", cause=str(error)) from error
            if self._taken(session, found_id, DequeueMode.REMOVE_NODATA) is None:
                raise missing
            became = (msgid or b"").hex()
            event = ExceptionEdited(
                self._job.name, self.queue, by, before.id, became, change.told(), body_digest(before.message)
            )
            record(conn, event, self._job, now)
        self._hub.notifier.committed((self._exceptions.id,))
        record(None, event, self._job, now)
        return replace(before, id=became, message=edited)
