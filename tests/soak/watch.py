"""Looks at the health of a service every second, and judges each look by what was done to it.

Every second: ``/livez``, ``/readyz`` and ``/healthz``. Every few seconds: ``mgw status --check``, and how far each
route has come. Nothing here decides by what the gateway says of itself: an injury is known with its begin and its cure,
and whether messages move is asked of the brokers.
"""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tests.soak.routes import Route
from tests.support.ready_made import ready_made

__all__ = ["CURED", "NOTICED", "Look", "Movement", "Trouble", "Watch", "judge", "summary", "timeline"]

NOTICED = 15.0  # seconds after the limit until a page must be red: what a loaded machine may add
CURED = 30.0  # seconds after the cure until everything must be green
_LEASE = 15.0 + 15.0  # seconds after which an agent that does not renew its lease must be red
_EARLY = 5.0  # seconds by which a job may have stopped working before the injury was written down
_ANSWER = 4.0

Kind = Literal["outage", "killed", "hub"]


@dataclass(frozen=True, slots=True)
class Look:
    """One answer, asked for at ``at`` and there after ``took`` seconds. ``code``: 200 or 503, 0 or 1 of the command;
    None: there was no answer."""

    at: float
    what: str
    code: int | None
    text: str = ""
    took: float = 0.0

    @property
    def green(self) -> bool:
        """Whether all is well, as this answer has it."""
        return self.code in (200, 0)


@dataclass(slots=True)
class Trouble:
    """Something that was done to the service.

    Attributes:
        kind: ``outage``: jobs cannot work; ``killed``: there is no process, or it hangs; ``hub``: it cannot be written.
        begin, cure: when it was done and undone, monotonic; not undone: infinity.
        reason: what a red page has to name, as a regular expression.
    """

    name: str
    kind: Kind
    reason: str
    begin: float
    cure: float = float("inf")

    def may_be_red(self, look: Look, limit: float) -> bool:
        """Whether a red page is right."""
        first = max(0.0, limit - _EARLY) if self.kind == "outage" else 0.0
        return self.begin + first <= look.at + look.took and look.at <= self.cure + CURED

    def must_be_red(self, at: float, limit: float) -> bool:
        """Whether a green page is wrong. A hub on a full disk may go on in the room that its files have."""
        delay = limit + NOTICED if self.kind == "outage" else _LEASE
        return self.kind != "hub" and self.begin + delay <= at < self.cure - 1


@dataclass(frozen=True, slots=True)
class Movement:
    """How many messages went in and came out of a route until then; -1: its broker did not say. ``numbers``: how many
    the publisher has made."""

    at: float
    route: str
    put_in: int
    came_out: int
    numbers: int


@dataclass(slots=True)
class Watch:
    """Takes looks on threads of its own from :meth:`start` to :meth:`finish`."""

    port: int
    hub: str
    limit: float
    routes: Sequence[Route]
    environment: Mapping[str, str]
    folder: Path
    looks: list[Look] = field(default_factory=list)
    movements: list[Movement] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    faults: list[BaseException] = field(default_factory=list)
    _end: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        """Begin."""
        for function, seconds in ((self._pages, 1.0), (self._command, 10.0), (self._routes, 5.0)):
            thread = threading.Thread(target=self._every, args=(seconds, function), name=function.__name__, daemon=True)
            self._threads.append(thread)
            thread.start()

    def finish(self) -> None:
        """End; raises what a thread raised."""
        self._end.set()
        for thread in self._threads:
            thread.join(60)
        if self.faults:
            raise self.faults[0]

    @contextmanager
    def trouble(self, name: str, kind: Kind, reason: str) -> Iterator[Trouble]:
        """What is done inside is the injury, and its end the cure."""
        entry = Trouble(name, kind, reason, time.monotonic())
        self.troubles.append(entry)
        try:
            yield entry
        finally:
            entry.cure = time.monotonic()

    def last(self, what: str) -> Look | None:
        """The last look of that kind."""
        return next((look for look in reversed(self.looks) if look.what == what), None)

    def all_green(self) -> bool:
        """Whether the last look at each page was green."""
        found = [self.last(page) for page in ("/livez", "/readyz", "/healthz")]
        return all(look is not None and look.green and time.monotonic() - look.at < _ANSWER for look in found)

    def _every(self, seconds: float, function: Callable[[], None]) -> None:
        try:
            due = time.monotonic()
            while not self._end.wait(max(0.0, due - time.monotonic())):
                due = max(due + seconds, time.monotonic())
                function()
        except BaseException as error:
            self.faults.append(error)

    def _pages(self) -> None:
        for page in ("/livez", "/readyz", "/healthz"):
            self.looks.append(self._page(page))

    def _page(self, page: str) -> Look:
        at = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_ANSWER)
        try:
            connection.request("GET", f"{page}?max_age={self.limit:g}" if page == "/healthz" else page)
            answer = connection.getresponse()
            text = answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            return Look(at, page, None, f"{type(error).__name__}: {error}", time.monotonic() - at)
        finally:
            connection.close()
        said = "" if answer.status == 200 else text
        if said.startswith("{"):
            said = "\n".join(json.loads(said).get("reasons", [said]))
        return Look(at, page, answer.status, said, time.monotonic() - at)

    def _command(self) -> None:
        at = time.monotonic()
        words = ["status", "--check", "--max-age", f"{self.limit:g}"]
        env = {**self.environment, "MGW_HUB": self.hub}
        try:
            code, out, err = ready_made(env).run(words, cwd=self.folder, env=env, given=b"", timeout=60)
        except subprocess.TimeoutExpired:
            self.looks.append(Look(at, "mgw status --check", None, "no answer within 60 s"))
            return
        said = (out + err).decode() if code else ""
        self.looks.append(Look(at, "mgw status --check", code, said, time.monotonic() - at))

    def _routes(self) -> None:
        for route in self.routes:
            put_in, numbers = route.put_in, len(route.oracle.publisher.ledger.bodies)
            try:
                came_out = route.came_out()
            except Exception:  # its broker is away just now; clients say that in many ways
                came_out = -1
            self.movements.append(Movement(time.monotonic(), route.name, put_in, came_out, numbers))


def judge(watch: Watch) -> list[str]:
    """Everything that was wrong with the looks, in words; consecutive looks of a kind are one line."""
    judged = ((look, _verdict(look, watch.troubles, watch.limit)) for look in watch.looks)
    wrong = [(look, found) for look, found in judged if found]
    begin = watch.looks[0].at if watch.looks else 0.0
    lines: list[str] = []
    runs: dict[tuple[str, str], list[Look]] = {}
    for look, found in wrong:
        run = runs.setdefault((look.what, found), [])
        if run and look.at - run[-1].at > 30:
            lines.append(_told(found, run, begin))
            run.clear()
        run.append(look)
    lines += [_told(found, run, begin) for (_, found), run in runs.items()]
    return lines + _standstills(watch)


def _told(found: str, run: Sequence[Look], begin: float) -> str:
    first, last = run[0], run[-1]
    text = first.text.strip().replace("\n", " | ")[:400]
    return (
        f"{first.at - begin:.0f}-{last.at - begin:.0f} s: {first.what} {found} ({len(run)} looks; {first.code}: {text})"
    )


def _verdict(look: Look, troubles: Sequence[Trouble], limit: float) -> str:
    """What is wrong with one look; empty: nothing."""
    near = [entry for entry in troubles if entry.begin <= look.at + look.took and look.at <= entry.cure + CURED]
    killed = any(trouble.kind == "killed" for trouble in near)
    if look.code is None:
        return "" if killed else "did not answer"
    if look.what == "/livez":
        return "" if look.green or killed else "is red"
    concerned = [trouble for trouble in near if look.what != "/readyz" or trouble.kind != "outage"]
    if look.green:
        missed = [trouble.name for trouble in concerned if trouble.must_be_red(look.at, limit)]
        return f"is green during {', '.join(missed)}" if missed else ""
    right = [trouble for trouble in concerned if trouble.may_be_red(look, limit)]
    if not right:
        return f"is red {f'too early, at {concerned[-1].name}' if concerned else 'without reason'}"
    # After the cure it is the way back that is red, which has reasons of its own.
    injured = [trouble for trouble in right if look.at + look.took < trouble.cure]
    if injured and not any(re.search(trouble.reason, look.text, re.IGNORECASE) for trouble in right):
        return f"is red at {injured[-1].name} and does not name the reason"
    return ""


def _standstills(watch: Watch) -> list[str]:
    """Routes into which messages went and out of which none came for longer than the limit, and that was green."""
    lines = []
    begin = watch.looks[0].at if watch.looks else 0.0
    for route in {movement.route for movement in watch.movements}:
        seen = [entry for entry in watch.movements if entry.route == route and entry.came_out >= 0]
        since = seen[0] if seen else None
        for entry in seen:
            assert since is not None
            if entry.came_out != since.came_out or entry.put_in == since.put_in:
                since = entry
            elif entry.at - since.at - _away(watch, since.at, entry.at) > watch.limit + NOTICED:
                green = [look for look in _latest(watch, entry.at) if look.green and look.at > since.at + watch.limit]
                if green:
                    lines.append(
                        f"{entry.at - begin:.0f} s: {green[0].what} is green, and route {route} has stood still for "
                        f"{entry.at - since.at:.0f} s"
                    )
    return lines


def _latest(watch: Watch, at: float) -> list[Look]:
    """The last look at the health before a moment, by page and by command."""
    found = {look.what: look for look in watch.looks if look.at <= at and look.what not in ("/livez", "/readyz")}
    return list(found.values())


def _away(watch: Watch, first: float, last: float) -> float:
    """Seconds between two moments in which there was no process, or it had just begun."""
    away = [entry for entry in watch.troubles if entry.kind == "killed"]
    return sum(max(0.0, min(entry.cure + CURED, last) - max(entry.begin, first)) for entry in away)


def timeline(watch: Watch) -> list[str]:
    """When ``/healthz`` became red and green again, for each trouble in which it was not green at some look."""
    lines = []
    looks = [look for look in watch.looks if look.what == "/healthz"]
    for trouble in watch.troubles:
        end = min([trouble.cure + CURED, *(entry.begin for entry in watch.troubles if entry.begin > trouble.cure)])
        red = [look.at for look in looks if not look.green and trouble.begin <= look.at < end]
        lasted = f"{trouble.name}, {trouble.cure - trouble.begin:.0f} s"
        if not red:
            lines.append(f"{lasted}: green all the time")
            continue
        green = next((look.at for look in looks if look.at > red[-1]), red[-1])
        after, cured = red[0] - trouble.begin, green - trouble.cure
        lines.append(f"{lasted}: red or silent after {after:.0f} s, green {cured:+.0f} s after the cure")
    return lines


def summary(looks: Sequence[Look]) -> dict[str, Any]:
    """How many looks there were of each kind, and how they came out."""
    counts: dict[str, dict[str, int]] = {}
    for look in looks:
        row = counts.setdefault(look.what, {"green": 0, "red": 0, "no answer": 0})
        row["no answer" if look.code is None else "green" if look.green else "red"] += 1
    return counts
