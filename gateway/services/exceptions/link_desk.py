"""The exception queue of a job that reads from a link: a foreign queue of that link.

A replay puts a batch where it came from, waits for the confirmation, writes the event into the hub and only then
removes the batch. Of a log, which gives no message up, the hub keeps with the event that the batch is done. So a
message may be doubled when the command is killed in between, and is never lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import islice
from typing import NamedTuple, cast

from mgw.gateway.definitions.objects import JobDef, key
from mgw.gateway.observe.desk_events import ExceptionEdited, ExceptionsDiscarded, ExceptionsReplayed
from mgw.gateway.services import lookup
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.admin.job_ends import foreign_end, job_use, open_plain
from mgw.gateway.services.exceptions.contract import (
    Change,
    DeskRefused,
    Entry,
    Outcome,
    Pace,
    Page,
    Which,
    body_digest,
)
from mgw.gateway.services.exceptions.edits import marked_message
from mgw.gateway.services.exceptions.journal import Deed, Journal, Moved, record
from mgw.gateway.services.exceptions.shelves import HeldShelf, LogShelf, Shelf, WatchedShelf, Where
from mgw.gateway.services.exceptions.writer import Writer
from mgw.links.contract import BATCH_BYTES, Direction, JobUse
from mgw.links.place import place_of
from mgw.links.reading_back import Held, KeptLog, ReadsBack
from mgw.transforms.errors import ConversionFailure, GatewayError
from mgw.transforms.message import Message
from mgw.transforms.payloads.exception_message import Reason, original_of, reason_of

__all__ = ["LinkDesk"]

_PAGE = 100  # messages that are read together
_MOST = 10_000  # messages that are held: those that are not meant, or only looked at; of a log, those that are shown
_MOST_BYTES = 128 << 20  # of bodies that are in memory
_KEEP_EVERY = 1.0  # seconds


class _Found(NamedTuple):
    """A message that is held."""

    held: Held
    entry: Entry


class LinkDesk:
    """See the module."""

    def __init__(self, admin: GatewayAdmin, job: JobDef, consumer: str | None = None, to: str | None = None) -> None:
        self._hub = admin.hub
        self._clock = admin.clock
        self._job = job
        with self._hub.read() as conn:
            exceptions = foreign_end(admin, conn, job.exception_queue or "")
            source = foreign_end(admin, conn, job.source)
        self.queue = f"{exceptions.queue.name}@{exceptions.queue.link}"
        if consumer is not None:
            raise DeskRefused(
                f"exception queue {self.queue} has no consumers of their own",
                cause="it is a foreign queue",
                cure="leave --consumer out",
            )
        link = open_plain(exceptions)
        if not isinstance(link, ReadsBack):
            raise DeskRefused(
                f"exception queue {self.queue} of job {job.name} is on link {exceptions.link.name}",
                cause="the desk reads exception queues of the hub, and of systems whose queues can be looked through",
                cure="read it with a client of that system, or with a job from it into a queue of the hub",
            )
        self._plain, self._link = link, cast(ReadsBack, link)
        self._exceptions_use, self._source_use = (
            replace(job_use(job, end, self._hub), logged=False) for end in (exceptions, source)
        )
        self._to = None if to is None else self._other_target(admin, to)
        self.target = job.source if self._to is None else self._to.endpoint.full_name

    def _other_target(self, admin: GatewayAdmin, to: str) -> JobUse:
        """The use of the foreign queue that was named.

        Raises:
            NotFound: it is not registered.
            DeskRefused: it is on another link.
            AdminError: nothing can be written to it.
        """
        found = lookup.foreign_queue(admin, to)
        endpoint = found.endpoint()
        if key(endpoint.link) != key(self._exceptions_use.endpoint.link):
            raise DeskRefused(
                f"messages of exception queue {self.queue} cannot be replayed to {endpoint.full_name}",
                cause="it is on another link",
                cure=f"name a foreign queue of link {self._exceptions_use.endpoint.link}",
            )
        if key(endpoint.full_name) == key(self.queue):
            raise DeskRefused(
                f"messages of exception queue {self.queue} cannot be replayed to itself", cure="name another queue"
            )
        self._plain.check_endpoint(endpoint, Direction.OUTBOUND)
        return replace(self._source_use, endpoint=endpoint)

    # ---------------------------------------------------------------------------------------------------------- look

    def entries(self, which: Which, limit: int | None = None, *, whole: bool = True) -> Iterator[Entry]:
        """See :meth:`mgw.gateway.services.exceptions.contract.Desk.entries`; in the order of the queue.

        Raises:
            DeskRefused: the queue has more messages than can be looked through.
            LinkError: it cannot be read.
        """
        found: list[Entry] = []
        size = 0
        with self._looking() as shelf:
            for each, entry in self._meant(shelf, which):
                found.append(entry if whole else _bare(entry))
                size += each.size if whole else 0
                if len(found) > _MOST or (size > _MOST_BYTES and len(found) > 1):
                    raise self._too_many()
                if limit is not None and len(found) >= limit:
                    break
        return iter(found)

    def page(self, which: Which, limit: int, *, after: str | None = None, look: int = 0) -> Page:
        """See :meth:`mgw.gateway.services.exceptions.contract.Desk.page`; in the order of the queue.

        Raises:
            NoSuchPlace, DeskRefused, LinkError: as for :meth:`entries`.
        """
        found: list[Entry] = []
        more = False
        place: str | None = None
        with self._looking() as shelf:
            for each, entry in self._meant(shelf, which, after):
                if len(found) == limit:
                    more, place = True, shelf.place_before(each)
                if len(found) >= max(limit, look):
                    break
                found.append(_bare(entry))
        return Page(found[:limit], more, place, found[limit:])

    @contextmanager
    def _looking(self) -> Iterator[Shelf]:
        use = self._exceptions_use
        queue = self._link.exceptions_reader(use)
        with closing(queue):
            if not isinstance(queue, KeptLog) and queue.delivery_limit is None:
                shelf: Shelf = HeldShelf(queue)
            else:
                place = place_of(self._plain, use, Direction.OUTBOUND)
                where = Where(place.name if place else use.endpoint.link, use.endpoint.provider_queue, self.queue)
                if isinstance(queue, KeptLog):
                    shelf = LogShelf(queue, self._hub, where)
                else:
                    shelf = WatchedShelf(queue, self._hub, where, self._append)
            with closing(shelf):
                yield shelf

    def _append(self, messages: Sequence[Message]) -> None:
        """Write messages to the exception queue as they are; returns when they are confirmed."""
        with closing(Writer(self._plain.destination(self._exceptions_use))) as writer:
            writer.connect()
            writer.write([writer.encode(message) for message in messages])

    def _meant(self, shelf: Shelf, which: Which, after: str | None = None) -> Iterator[_Found]:
        """The messages that are meant, of this job and of no job; only those behind a place.

        Raises:
            NoSuchPlace: there is no such place.
            DeskRefused: more would have to be held than can be.
        """
        missing = len({each.lower() for each in which.ids})
        every = self._every(shelf)
        for each in every if after is None else shelf.behind(every, after):
            entry = self._entry(shelf, each)
            if entry is None or not which.has(entry):
                continue
            yield _Found(each, entry)
            missing -= 1
            if missing == 0:
                return

    def _every(self, shelf: Shelf) -> Iterator[Held]:
        size = 1
        while page := shelf.read(min(size, max(1, _MOST - shelf.held))):
            if shelf.held > _MOST:
                raise self._too_many()
            yield from page
            light = sum(each.size for each in page) < BATCH_BYTES
            size = min(_PAGE, 2 * size) if light else max(1, size // 2)

    def _too_many(self) -> DeskRefused:
        return DeskRefused(
            f"exception queue {self.queue} has more messages than can be looked through",
            cause=f"what is looked at is held until the end; the limit is {_MOST} messages, and "
            f"{_MOST_BYTES >> 20} MiB where bodies are read",
            cure="give a --limit that is reached earlier, or replay or discard the first messages",
        )

    def _entry(self, shelf: Shelf, held: Held) -> Entry | None:
        """The message, if it is this job's or nobody's."""
        reason = reason_of(held.message) or Reason("", "")
        if reason.job and key(reason.job) != key(self._job.name):
            return None
        return Entry(shelf.name(held), reason.job, self.queue, reason, held.message)

    # ------------------------------------------------------------------------------------------------------- do

    def replay(self, which: Which, *, by: str, limit: int | None, pace: Pace, dry: bool) -> Outcome:
        """See :meth:`mgw.gateway.services.exceptions.contract.Desk.replay`; in the order of the queue.

        Raises:
            LinkError: nothing was replayed, because a queue cannot be reached or refuses.
        """
        with closing(Writer(self._link.exceptions_writer(self._source_use, self._to))) as writer:
            journal = self._journal(which, limit, pace, by, target=self.target)

            def send(shelf: Shelf, batch: Sequence[_Found], outcome: Outcome) -> None:
                self._send(shelf, batch, outcome, writer, journal, by)

            return self._each(
                which, send, journal, limit=limit, pace=pace, dry=dry, keep=writer.keep, refusal=self._elsewhere
            )

    def _journal(self, which: Which, limit: int | None, pace: Pace, by: str, *, target: str | None = None) -> Journal:
        return Journal(self._hub, self._job, self.queue, which, limit, pace, by=by, target=target)

    def _elsewhere(self, entry: Entry) -> str:
        """Why a message cannot go back to the source of the job; empty if it can, or goes somewhere else."""
        origin = entry.reason.origin
        if self._to is not None or (origin and self._link.came_from(self._source_use, origin)):
            return ""
        if not origin:
            return "it does not say where it came from; give --to QUEUE@LINK"
        return f"it came from {origin}, the job reads {self.target} now; give --to QUEUE@LINK"

    def _send(  # noqa: PLR0917
        self,
        shelf: Shelf,
        batch: Sequence[_Found],
        outcome: Outcome,
        writer: Writer,
        journal: Journal,
        by: str,
    ) -> None:
        """Write a batch, and remove what is confirmed of it."""
        writer.connect()
        meant: list[_Found] = []
        encoded = []
        for each in batch:
            try:
                encoded.append(writer.encode(self._link.sent_again(original_of(each.entry.message))))
                meant.append(each)
            except ConversionFailure as error:
                outcome.failed[each.entry.id] = str(error)

        def told(done: Sequence[_Found]) -> Moved:
            return ExceptionsReplayed(self._job.name, self.queue, self.target, by, _ids(done))

        if not meant:
            return
        try:
            writer.write(encoded)
        except GatewayError:
            stored = writer.stored(len(encoded))
            self._finish(shelf, [each for at, each in enumerate(meant) if at in stored], outcome, journal, told)
            raise
        self._finish(shelf, meant, outcome, journal, told)

    def discard(self, which: Which, *, by: str, limit: int | None, pace: Pace, dry: bool) -> Outcome:
        """See :meth:`mgw.gateway.services.exceptions.contract.Desk.discard`."""

        journal = self._journal(which, limit, pace, by)

        def told(done: Sequence[_Found]) -> Moved:
            return ExceptionsDiscarded(self._job.name, self.queue, by, _ids(done))

        def drop(shelf: Shelf, batch: Sequence[_Found], outcome: Outcome) -> None:
            self._finish(shelf, batch, outcome, journal, told)

        return self._each(which, drop, journal, limit=limit, pace=pace, dry=dry)

    def _each(
        self,
        which: Which,
        act: Callable[[Shelf, Sequence[_Found], Outcome], None],
        journal: Journal,
        *,
        limit: int | None,
        pace: Pace,
        dry: bool,
        keep: Callable[[], None] = lambda: None,
        refusal: Callable[[Entry], str] = lambda _: "",
    ) -> Outcome:
        outcome = Outcome(self.target, dry)
        with self._looking() as shelf:

            def wait(seconds: float) -> None:
                end = self._clock.monotonic() + seconds
                while (left := end - self._clock.monotonic()) > 0 and not pace.stopped():
                    shelf.keep(min(left, _KEEP_EVERY))
                    keep()

            meant = self._not_refused(self._meant(shelf, which), refusal, outcome)
            if dry:
                for each in islice(meant, limit):
                    outcome.has_done(each.entry)
                return outcome
            try:
                while batch := _next_batch(meant, room := pace.room(limit, outcome)):
                    if not pace.before(len(batch), outcome, wait):
                        break
                    journal.goes_on(outcome, len(batch), full=_is_full(batch, room))
                    left = {id(held) for held in shelf.remaining([each.held for each in batch])}
                    outcome.gone += [each.entry.id for each in batch if id(each.held) not in left]
                    act(shelf, [each for each in batch if id(each.held) in left], outcome)
            except GatewayError as error:
                outcome.stopped = str(error)
                if not outcome.done:
                    journal.end(outcome, self._clock.now())
                    raise
        journal.end(outcome, self._clock.now())
        return outcome

    @staticmethod
    def _not_refused(meant: Iterator[_Found], refusal: Callable[[Entry], str], outcome: Outcome) -> Iterator[_Found]:
        """What is meant, but for the messages that are refused: those are told in ``outcome`` and use up no limit."""
        for each in meant:
            if why := refusal(each.entry):
                outcome.failed[each.entry.id] = why
            else:
                yield each

    def _finish(
        self,
        shelf: Shelf,
        done: Sequence[_Found],
        outcome: Outcome,
        journal: Journal,
        told: Callable[[Sequence[_Found]], Moved],
    ) -> None:
        """Keep the event, then remove the messages: there is no removal that no event tells of."""
        if not done:
            return
        event = told(done)
        messages = [each.held for each in done]
        with self._hub.write() as conn:
            journal.keep(conn, event, self._clock.now())
            shelf.store(conn, messages)
        journal.kept(event)
        shelf.remove(messages)
        for each in done:
            outcome.has_done(each.entry)

    def _record(self, shelf: Shelf, done: Sequence[_Found], event: Deed) -> None:
        now = self._clock.now()
        messages = [each.held for each in done]
        with self._hub.write() as conn:
            record(conn, event, self._job, now)
            shelf.store(conn, messages)
        shelf.remove(messages)
        record(None, event, self._job, now)

    def edit(self, entry_id: str, change: Change, *, by: str) -> Entry:
        """See :meth:`mgw.gateway.services.exceptions.contract.Desk.edit`; it becomes the last message of the queue.

        Raises:
            LinkError: the queue cannot be reached or refuses; the message is as it was.
        """
        with self._looking() as shelf, closing(Writer(self._plain.destination(self._exceptions_use))) as writer:
            found = next(self._meant(shelf, Which(ids=(entry_id,))), None)
            if found is None:
                raise DeskRefused(
                    f"message {entry_id} is not in exception queue {self.queue}",
                    cause="it has another id, or somebody took it",
                    cure=f"see the messages that are there: mgw exceptions list {self._job.name}",
                )
            before = found.entry
            now = self._clock.now()
            changed = change.apply(before.message)
            if before.reason.job:  # a mark would make a message of the gateway of another program's
                changed = marked_message(changed, f"{change.told()} by {by} at {now:.3f}")
            try:
                encoded = writer.encode(changed)
            except ConversionFailure as error:
                raise DeskRefused("the edited message cannot be stored", cause=str(error)) from error
            writer.connect()
            writer.write([encoded])
            became, edited = shelf.appended(encoded)
            digest = body_digest(before.message)
            event = ExceptionEdited(self._job.name, self.queue, by, before.id, became, change.told(), digest)
            self._record(shelf, [found], event)
        return replace(before, id=became, message=edited)


def _next_batch(meant: Iterator[_Found], room: int) -> list[_Found]:
    """The next messages, at most so many, with bodies of about BATCH_BYTES at most."""
    batch: list[_Found] = []
    size = 0
    while len(batch) < room and size < BATCH_BYTES and (each := next(meant, None)) is not None:
        batch.append(each)
        size += each.held.size
    return batch


def _is_full(batch: Sequence[_Found], room: int) -> bool:
    """Whether more messages may follow those of :func:`_next_batch`."""
    return len(batch) == room or sum(each.held.size for each in batch) >= BATCH_BYTES


def _bare(entry: Entry) -> Entry:
    """Without what may be large."""
    return replace(entry, message=replace(entry.message, body=None, headers=()))


def _ids(found: Sequence[_Found]) -> tuple[str, ...]:
    return tuple(each.entry.id for each in found)
