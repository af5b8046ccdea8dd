"""What a desk is asked, and what it answers."""

from __future__ import annotations

import fnmatch
import hashlib
import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from mgw.gateway.services.messages import body_bytes
from mgw.transforms.errors import GatewayError
from mgw.transforms.message import Header, Message
from mgw.transforms.payloads.exception_message import Reason

__all__ = [
    "BATCH",
    "EVERYTHING",
    "LONGEST_PLACE",
    "Change",
    "Desk",
    "DeskRefused",
    "Entry",
    "NoSuchPlace",
    "Outcome",
    "Pace",
    "Page",
    "Which",
]

BATCH = 100  # messages that are replayed or discarded in one transaction at most
_ERROR_PREFIX = "MGW_error"
_SLOWEST = 0.001  # messages a second


class DeskRefused(GatewayError):
    """The desk cannot do that; nothing was done."""

    def __str__(self) -> str:
        parts = [self.what, *(part for part in (self.cause, self.cure) if part)]
        return "; ".join(parts)


class NoSuchPlace(DeskRefused):
    """A page was to begin where no page of this exception queue ended."""

    def __init__(self, text: str) -> None:
        super().__init__(
            f"{text!r:.80} is no place in this list",
            cause="it was not told by a page of this list, or the exception queue is of another kind now",
            cure="begin with the first page",
        )


def _utc(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True)
class Which:
    """Which messages of an exception queue are meant: all that fulfil every condition given.

    Attributes:
        ids: of the messages, as the desk shows them.
        number: of the error.
        reason: text of the error, in whatever letter case; ``*`` and ``?`` are wildcards, without them a part will do.
        since, before: epoch seconds of the failure.
    """

    ids: Collection[str] = ()
    number: int | None = None
    reason: str | None = None
    since: float | None = None
    before: float | None = None

    @property
    def everything(self) -> bool:
        """Whether no condition is given."""
        return not self.conditions

    @property
    def conditions(self) -> dict[str, Any]:
        """Those that are given, as the audit has them; of ids, how many."""
        given = {
            "ids": len(self.ids) or None,
            "number": self.number,
            "reason": self.reason,
            "since": None if self.since is None else _utc(self.since),
            "before": None if self.before is None else _utc(self.before),
        }
        return {name: value for name, value in given.items() if value is not None}

    def has(self, entry: Entry) -> bool:
        """Whether the message is meant."""
        reason = entry.reason
        if self.ids and entry.id.lower() not in {each.lower() for each in self.ids}:
            return False
        if self.number is not None and reason.number != self.number:
            return False
        if self.reason is not None and not self._says(reason.text):
            return False
        if self.since is not None and (reason.time is None or reason.time < self.since):
            return False
        return self.before is None or (reason.time is not None and reason.time < self.before)

    def _says(self, text: str) -> bool:
        wanted, text = (self.reason or "").casefold(), text.casefold()
        if "*" in wanted or "?" in wanted:
            return fnmatch.fnmatchcase(text, wanted.replace("[", "[[]"))
        return wanted in text


EVERYTHING = Which()
LONGEST_PLACE = 8000  # characters of where a page begins: it is part of an address, which has 16 KiB at most


@dataclass(frozen=True, slots=True)
class Entry:
    """A message of an exception queue. ``message`` has the headers of the error, too.

    One that another program put there names no job, and its reason is empty.
    """

    id: str
    job: str
    queue: str
    reason: Reason
    message: Message


@dataclass(frozen=True, slots=True)
class Page:
    """A part of the messages of an exception queue, without bodies and headers.

    Attributes:
        more: something comes behind this page.
        next: where the next page begins, in at most ``LONGEST_PLACE`` characters; None: nothing comes behind this one,
            or the queue is a log of more partitions than a place can name.
        beyond: messages behind this page, as far as they were asked for.
    """

    entries: Sequence[Entry]
    more: bool = False
    next: str | None = None
    beyond: Sequence[Entry] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """What an edit does to a message; None leaves it as it is.

    Attributes:
        body: the new body, as its bytes; text stays text.
        put: headers that get a value; the first of that name is replaced, other ones of it are removed.
        remove: names of headers to remove.
    """

    body: bytes | None = None
    put: Sequence[Header] = ()
    remove: Collection[str] = ()
    correlation: str | None = None

    def apply(self, message: Message) -> Message:
        """The message with the changes.

        Raises:
            DeskRefused: nothing is changed, a header of the error is named, the body was text and would not be, or
                a header or the correlation is not Unicode text.
        """
        if (self.body, self.correlation) == (None, None) and not self.put and not self.remove:
            raise DeskRefused("nothing to edit", cure="give a body, a header or a correlation")
        for name in (*(header.name for header in self.put), *self.remove):
            if name.startswith(_ERROR_PREFIX):
                raise DeskRefused(f"header {name} cannot be edited", cause="it says why the message is here")
        self._check_text()
        changed = replace(message, headers=self._headers(message.headers))
        if self.correlation is not None:
            changed = replace(changed, correlation=self.correlation or None)
        return changed if self.body is None else replace(changed, body=self._body(message, self.body))

    def _check_text(self) -> None:
        """Bytes of a command line that are no UTF-8 come as surrogates, which cannot be stored."""
        given = [(f"header {name!r:.80}", text) for name, _, value in self.put for text in (name, value)]
        for what, text in (*given, ("the correlation", self.correlation)):
            try:
                _ = text.encode("utf-8") if isinstance(text, str) else b""
            except UnicodeEncodeError as error:
                raise DeskRefused(
                    f"{what} cannot be stored",
                    cause=f"it is not UTF-8 text at character {error.start} of {text!r:.80}",
                    cure="give it in UTF-8",
                ) from error

    def _headers(self, given: Sequence[Header]) -> tuple[Header, ...]:
        new = {header.name: header for header in self.put}
        headers: list[Header] = []
        for header in given:
            if header.name in self.remove:
                continue
            if header.name not in {each.name for each in self.put}:
                headers.append(header)
            elif header.name in new:
                headers.append(new.pop(header.name))
        return (*headers, *new.values())

    @staticmethod
    def _body(message: Message, body: bytes) -> str | bytes:
        if isinstance(message.body, bytes):
            return body
        if isinstance(message.body, str) or message.body is None:
            try:
                return body.decode("utf-8")
            except UnicodeDecodeError as error:
                raise DeskRefused(
                    f"the new body is not UTF-8 text at byte {error.start}", cause="the body of the message is text"
                ) from error
        raise DeskRefused(
            f"the body of a message of kind {message.kind.value} cannot be edited",
            cause="it is neither text nor bytes",
            cure="edit its headers, or send a new message to the source and discard this one",
        )

    def told(self) -> str:
        """Words for it."""
        parts = ["body"] if self.body is not None else []
        parts += [f"header {header.name}" for header in self.put] + [f"no header {name}" for name in self.remove]
        parts += ["correlation"] if self.correlation is not None else []
        return ", ".join(parts)


def body_digest(message: Message) -> str:
    """SHA-256 of a body, in hexadecimal."""
    return hashlib.sha256(body_bytes(message.body)).hexdigest()


@dataclass(slots=True)
class Outcome:
    """What became of the messages that were meant.

    Attributes:
        done: ids, in order; with a dry run those that would be.
        gone: ids of messages that somebody else took meanwhile, or has in an open transaction.
        failed: reasons by id of messages that stay where they are.
        reasons: how many of ``done`` had which error.
        stopped: the error that ended it after some batches; what was not reached stays where it is.
    """

    target: str = ""
    dry: bool = False
    done: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)
    stopped: str = ""

    def has_done(self, entry: Entry) -> None:
        """One more."""
        self.done.append(entry.id)
        number = entry.reason.number
        self.reasons["none" if number is None else str(number)] += 1

    @property
    def numbers(self) -> Mapping[str, int]:
        """Messages by what became of them."""
        return {"done": len(self.done), "gone": len(self.gone), "failed": len(self.failed)}


class Pace:
    """At most ``rate`` messages a second, from 0.001 on; None: as fast as it goes.

    Args:
        sleep: waits; it may return early where ``stopped`` says why.
        stopped: whether somebody wants no more of it; the batch that is under way is completed.
        watch: is told before each batch what was done so far.
    """

    def __init__(
        self,
        rate: float | None,
        sleep: Callable[[float], object] = time.sleep,
        *,
        stopped: Callable[[], bool] = lambda: False,
        watch: Callable[[Outcome], None] = lambda _: None,
    ) -> None:
        if rate is not None and not _SLOWEST <= rate < math.inf:
            raise DeskRefused(
                f"rate {rate:g} cannot be used",
                cause="it is messages a second",
                cure=f"give a number from {_SLOWEST:g} on, or no rate: as fast as it goes",
            )
        self._rate = rate
        self._sleep = sleep
        self._owed = 0
        self.stopped = stopped
        self._watch = watch

    @property
    def rate(self) -> float | None:
        """Messages a second; None: as fast as it goes."""
        return self._rate

    @property
    def batch(self) -> int:
        """Messages in a transaction: those of a second, if that is less than a batch."""
        return BATCH if self._rate is None else max(1, min(BATCH, int(self._rate)))

    def room(self, limit: int | None, outcome: Outcome) -> int:
        """Messages that the next batch may have: the limit is one for messages that are done."""
        self._watch(outcome)
        return self.batch if limit is None else min(self.batch, limit - len(outcome.done))

    def before(self, count: int, outcome: Outcome, sleep: Callable[[float], object] | None = None) -> bool:
        """Wait until ``count`` more may go; the first go at once. False: they may not, because somebody stopped it.

        ``sleep``: waits instead of the pace's own.
        """
        if self._rate is not None and self._owed and not self.stopped():
            (sleep or self._sleep)(self._owed / self._rate)
        self._owed = count
        if self.stopped():
            outcome.stopped = "somebody stopped it"
            return False
        return True


class Desk(Protocol):
    """The exception queue of one job."""

    queue: str
    target: str  # where a replay puts messages

    def entries(self, which: Which, limit: int | None = None, *, whole: bool = True) -> Iterator[Entry]:
        """The messages, in the order in which they are replayed; they stay where they are.

        Args:
            whole: False leaves out bodies and headers, which are read again for each message.
        """
        ...

    def page(self, which: Which, limit: int, *, after: str | None = None, look: int = 0) -> Page:
        """The first messages behind a place, in the order in which they are replayed.

        From page to page every message is told that is there all the time, although others are replayed, discarded,
        edited or taken meanwhile, also the last ones of a page. Where too much has gone from a queue of a link, some
        may be told again. A log of a link is read from the place on, a queue from its beginning.

        Args:
            after: ``next`` of the page before, of the same ``which``.
            look: so many messages are looked at in all, if that is more; those behind the page are ``beyond``.

        Raises:
            NoSuchPlace: ``after`` is none of this queue.
        """
        ...

    def replay(self, which: Which, *, by: str, limit: int | None, pace: Pace, dry: bool) -> Outcome:
        """Put messages back to where they came from, in order.

        ``limit``: at most so many; those that are refused, or gone, do not count.
        """
        ...

    def discard(self, which: Which, *, by: str, limit: int | None, pace: Pace, dry: bool) -> Outcome:
        """Remove messages for good; ``limit`` as for a replay."""
        ...

    def edit(self, entry_id: str, change: Change, *, by: str) -> Entry:
        """Change a message; what it is now."""
        ...
