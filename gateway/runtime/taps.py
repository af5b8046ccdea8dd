"""Shows the messages of jobs to commands that look at them (``mgw tap``), while the jobs carry them.

A job pays nothing for it while nobody looks. While somebody does, its thread keeps references to a bounded number of
messages; a thread of the process writes them into the hub twice a second, where the command reads them.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from mgw.gateway.aq import Hub
from mgw.gateway.runtime.job_runner import JobRunner
from mgw.gateway.runtime.job_steps import See
from mgw.gateway.runtime.sizing import weight_of
from mgw.gateway.state import catalog
from mgw.gateway.state.catalog import Tap
from mgw.gateway.state.secrets import HIDDEN, Secrets
from mgw.transforms.clock import Clock
from mgw.transforms.errors import HubError, unforeseen
from mgw.transforms.message import Header, Message
from mgw.transforms.payloads.written import written

__all__ = ["Taps", "Watch", "described"]

_LOGGER = logging.getLogger("mgw.engine")

WRITE_SECONDS = 0.5
CLOSE_SECONDS = 2.0  # how long an agent that ends waits until what was seen is written
MAX_HELD = 16 * 1024 * 1024  # bytes of bodies that wait to be written, for one tap
MAX_WAITING = 10_000  # messages that wait to be written, for one tap
MAX_TRIES = 20  # times that what an ended tap saw is tried to be written
MAX_RESULTS = 20  # messages made of one that are shown
MAX_HEADERS = 100  # of one message, that are shown
_SECRET = re.compile(r"authorization|passw|secret|token|credential|cookie|api[-_.]?key|private[-_.]?key", re.IGNORECASE)


class Seen(NamedTuple):
    """What a job did to a message."""

    time: float  # epoch seconds
    message: Message
    results: Sequence[Message]
    error: Exception | None

    @property
    def weight(self) -> int:
        """Bytes of the bodies."""
        return weight_of([each.body for each in (self.message, *self.results)])


class Watch:
    """Takes down what a job does, for one tap: on the thread of the job, without a word to the hub."""

    def __init__(self, tap: Tap, clock: Clock) -> None:
        self.tap = tap
        self.missed = 0  # messages that were too many; only the job's thread adds to it
        self.told: int | None = None  # of them, those that the hub knows of; None: it knows nothing of the watch yet
        self.tries = 0  # times that it was tried to be written after its end
        self.failed = False  # the hub did not take what was seen, the last time
        self._clock = clock
        self._seen: deque[Seen] = deque()
        self._remaining = tap.remaining
        self._second, self._in_second = -1, 0
        self._added = self._removed = 0  # bytes; each by one thread only

    def see(self, message: Message, results: Sequence[Message], error: Exception | None) -> None:
        """Called by the job, for each message."""
        if self._remaining <= 0:
            return
        second = int(self._clock.monotonic())
        if second != self._second:
            self._second, self._in_second = second, 0
        held = self._added - self._removed
        if self._in_second >= self.tap.per_second or held > MAX_HELD or len(self._seen) >= MAX_WAITING:
            self.missed += 1
            return
        self._in_second += 1
        seen = Seen(self._clock.now(), message, tuple(results), error)
        self._added += seen.weight
        self._seen.append(seen)
        self._remaining -= 1  # last: who finds that it is over takes all

    def take(self) -> list[Seen]:
        """What was seen and not taken before."""
        found = [self._seen.popleft() for _ in range(len(self._seen))]
        self._removed += sum(seen.weight for seen in found)
        return found

    def put_back(self, seen: Sequence[Seen]) -> None:
        """It could not be written."""
        self._seen.extendleft(reversed(seen))
        self._removed -= sum(each.weight for each in seen)

    @property
    def over(self) -> bool:
        """Whether all messages were shown that were asked for, or are about to be."""
        return self._remaining <= 0


class Taps:
    """The taps of the jobs that run in this process."""

    def __init__(self, hub: Hub, secrets: Secrets, clock: Clock) -> None:
        self._hub = hub
        self._secrets = secrets
        self._clock = clock
        self._lock = threading.Lock()
        self._watches: dict[int, Watch] = {}  # by the number of the tap
        self._ended: list[Watch] = []  # their last messages are to be written
        self._tapped: dict[int, JobRunner] = {}  # by the number of the job
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    def begin(self, runner: JobRunner) -> None:
        """Before a job begins anew: those who looked at it see its first message, too."""
        job_id = runner.setup.job.id
        with self._lock:
            those = [watch.see for watch in self._watches.values() if watch.tap.job_id == job_id]
            if those:
                self._let_see(job_id, runner, those)

    def look(self, runners: Mapping[int, JobRunner]) -> None:
        """Find the taps of these jobs; called when definitions changed or jobs began.

        Raises:
            HubError: the hub could not be read.
        """
        with self._hub.read() as conn:
            taps = catalog.list_taps(conn, self._clock.now())
        with self._lock:
            if self._closing.is_set():
                return
            wanted = {tap.id: tap for tap in taps if tap.job_id in runners}
            self._ended += [self._watches.pop(tap_id) for tap_id in self._watches.keys() - wanted.keys()]
            for tap_id, tap in wanted.items():
                if tap_id not in self._watches:
                    _LOGGER.info("job %s: a command (mgw tap) looks at its messages", runners[tap.job_id].name)
                    self._watches[tap_id] = Watch(tap, self._clock)
            self._apply(runners)
            if self._watches and self._thread is None:
                self._thread = threading.Thread(target=self._write, name="taps", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Look at nothing any more: the jobs have ended. What was seen before is written, if the hub takes it soon."""
        with self._lock:
            self._closing.set()
            self._ended += self._watches.values()
            self._watches.clear()
            self._tapped.clear()
            thread = self._thread
        if thread is not None:
            thread.join(CLOSE_SECONDS)

    def _apply(self, runners: Mapping[int, JobRunner]) -> None:
        """Tell the jobs who looks at them."""
        looking: dict[int, list[See]] = {}
        for watch in self._watches.values():
            looking.setdefault(watch.tap.job_id, []).append(watch.see)
        for job_id, runner in list(self._tapped.items()):
            if job_id not in looking or runners.get(job_id) is not runner:
                runner.lookers.tap(None)
                del self._tapped[job_id]
        for job_id, those in looking.items():
            self._let_see(job_id, runners[job_id], those)

    def _let_see(self, job_id: int, runner: JobRunner, those: Sequence[See]) -> None:
        before = self._tapped.get(job_id)
        if before is not None and before is not runner:
            before.lookers.tap(None)
        self._tapped[job_id] = runner
        runner.lookers.tap(those[0] if len(those) == 1 else _all_of(those))

    def _write(self) -> None:
        while True:
            self._closing.wait(WRITE_SECONDS)
            with self._lock:
                watches = list(self._watches.values())
                ended, self._ended = self._ended, []
            for watch in ended:
                self._goes_on(watch)
                watch.tries += 1
            again = [watch for watch in ended if watch.failed and watch.tries < MAX_TRIES]
            for watch in watches:
                if not self._goes_on(watch):
                    self._end(watch)
            with self._lock:
                self._ended[:0] = again
                if not self._watches and not self._ended:
                    self._thread = None
                    return

    def _goes_on(self, watch: Watch) -> bool:
        watch.failed = False
        try:
            return self._keep(watch)
        except HubError as error:
            watch.failed = True
            _LOGGER.debug("what a tap saw is not written: %s", error)
            return True
        except Exception:
            _LOGGER.exception("a tap ends")
            return False

    def _keep(self, watch: Watch) -> bool:
        """Write what a tap saw; False when it is over."""
        tap, over = watch.tap, watch.over
        seen, missed = watch.take(), watch.missed
        now, fresh = self._clock.now(), missed - (watch.told or 0)
        if not seen and not fresh and watch.told is not None:
            with self._hub.read() as conn:
                found = catalog.get_tap(conn, tap.id)
            return found is not None and found.until > now and not over
        texts = [self._text(each, tap.size) for each in seen]
        try:
            with self._hub.write() as conn:
                catalog.note_tap(conn, tap.id, now)
                lives = catalog.keep_tapped(conn, tap.id, texts, fresh, now)
        except HubError:
            watch.put_back(seen)
            raise
        watch.told = missed
        return lives and not over

    def _text(self, seen: Seen, size: int) -> str:
        """What was seen as JSON that the hub can store."""
        try:
            shown = _redacted(described(seen, size), self._secrets)
            text = json.dumps(shown, ensure_ascii=False, default=str)
            text.encode()
        except Exception as error:  # whatever the message is: the others are shown
            cause = f"it cannot be shown: {unforeseen(error)}"
            return json.dumps({"time": seen.time, "before": {}, "failure": cause})
        return text

    def _end(self, watch: Watch) -> None:
        with self._lock:
            if self._watches.get(watch.tap.id) is watch:
                del self._watches[watch.tap.id]
            self._apply(dict(self._tapped))


def _all_of(those: Sequence[See]) -> See:
    def see(message: Message, results: Sequence[Message], error: Exception | None) -> None:
        for each in those:
            each(message, results, error)

    return see


def described(seen: Seen, size: int) -> dict[str, Any]:
    """What was seen, as people read it: ``before``, and one of ``after``, ``filtered`` and ``failure``.

    Headers and named fields whose names say that they are secret are hidden, long texts are cut.
    """
    shown: dict[str, Any] = {"time": seen.time, "before": _shown(seen.message, size)}
    if seen.error is not None:
        return shown | {"failure": str(unforeseen(seen.error))}
    if not seen.results:
        return shown | {"filtered": True}
    shown["after"] = [_shown(result, size) for result in seen.results[:MAX_RESULTS]]
    if len(seen.results) > MAX_RESULTS:
        shown["more"] = len(seen.results) - MAX_RESULTS
    return shown


def _shown(message: Message, size: int) -> dict[str, Any]:
    headers, body = message.headers[:MAX_HEADERS], message.body
    cut: dict[str, Any] = {}
    if isinstance(body, (str, bytes)) and len(body) > size:  # nothing looks at the whole of it
        cut["body_cut"] = f"{len(body)} {'characters' if isinstance(body, str) else 'bytes'} in all"
        body = body[:size] if isinstance(body, str) else _begin(body, size)
    if len(message.headers) > MAX_HEADERS:
        cut["headers_cut"] = f"{len(message.headers)} headers in all"
    if isinstance(body, tuple):
        body = _hidden(body)
    values = written(replace(message, body=body, headers=_hidden(headers)))
    if message.msgid is not None:
        values["msgid"] = message.msgid.hex()
    return {name: _cut(value, size) for name, value in values.items()} | cut


def _hidden(values: Sequence[Header]) -> tuple[Header, ...]:
    """Headers or named fields, the values of those hidden whose names say that they are secret."""
    return tuple(each._replace(value=HIDDEN) if _SECRET.search(each.name) else each for each in values)


def _begin(body: bytes, size: int) -> bytes:
    """The first bytes, without a part of a character."""
    begin = body[:size]
    for left_out in range(4):
        part = begin[: size - left_out]
        try:
            part.decode()
        except UnicodeDecodeError:
            continue
        return part
    return begin


def _cut(value: Any, size: int) -> Any:
    if isinstance(value, str) and len(value) > size:
        return f"{value[:size]}... ({len(value)} characters in all)"
    return _each(value, lambda part: _cut(part, size))


def _redacted(value: Any, secrets: Secrets) -> Any:
    return secrets.redact(value) if isinstance(value, str) else _each(value, lambda part: _redacted(part, secrets))


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same structure, its parts changed."""
    if isinstance(value, dict):
        return {name: change(part) for name, part in value.items()}
    return [change(part) for part in value] if isinstance(value, list) else value
