"""``mgw top``: the jobs, live, on as many rows as the terminal has; what is in trouble comes first."""

from __future__ import annotations

import contextlib
import os
import re
import select
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from mgw.gateway.cli.common import ago, console, hub_url, open_hub, say, table

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from mgw.gateway.services.health import GatewayState, Health, JobRow

__all__ = ["Screen", "register"]

COLUMNS = {
    "JOB": "fold",
    "STATE": "left",
    "NEXT": "right",
    "PER S": "right",
    "MOVED": "right",
    "BAD": "right",
    "LEFT OUT": "right",
    "WAITING": "right",
    "OLDEST": "right",
}
ORDERS = ("trouble", "name", "rate", "waiting")
#: Where the messages of a job go: a rate says of what it is.
WAYS = {"INBOUND": "in", "OUTBOUND": "out", "THROUGH": "through", "LOCAL": "within the hub"}
_ERRORS = 3  # lines for what is in trouble, at most
_FRAME = 7  # lines that are no job and no error: moment, agents, jobs, links, an empty one, headings, keys
_KEYS = {
    "\x1b[A": "up",
    "k": "up",
    "\x1b[B": "down",
    "j": "down",
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
    " ": "page down",
    "\x1b[H": "home",
    "\x1b[1~": "home",
    "g": "home",
    "\x1b[F": "end",
    "\x1b[4~": "end",
    "G": "end",
    "s": "sort",
    "/": "filter",
    "q": "quit",
    "Q": "quit",
}
_KEY = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|.", re.DOTALL)


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(top)


def top(
    ctx: typer.Context,
    interval: Annotated[
        float, typer.Option("--interval", "-n", min=0.2, max=60, help="Seconds between refreshes.")
    ] = 1.0,
    count: Annotated[int | None, typer.Option("--count", min=1, help="Exit after this many refreshes.")] = None,
    pattern: Annotated[
        str, typer.Option("--filter", help="Only jobs with this in their name, state, source or destination.")
    ] = "",
    order: Annotated[
        str, typer.Option("--sort", help="What comes first: trouble, name, rate (fastest), waiting (most).")
    ] = "trouble",
) -> None:
    """The jobs, live: state, next attempt, rates, backlog, age of the oldest message, last errors.

    Arrows and page keys scroll, s sorts, / filters, q or ctrl-c leaves.
    """
    from rich.live import Live

    from mgw.gateway.services.health import assess, read

    if order not in ORDERS:
        raise typer.BadParameter(f"{order!r} is none of {', '.join(ORDERS)}", param_hint="--sort")
    shape = console()
    screen = Screen(shape.is_terminal, order=order, pattern=pattern)
    looks = 0
    with (
        open_hub(hub_url(ctx)) as hub,
        _keys() as pressed,
        Live(console=shape, screen=shape.is_terminal, auto_refresh=False) as live,
    ):
        while count is None or looks < count:
            screen.look(hub.name, read(hub), assess(hub), time.monotonic())
            live.update(screen.render(shape.height), refresh=True)
            looks += 1
            if looks != count and _answer(screen, pressed, interval, lambda: _draw(live, screen)):
                break
    if not shape.is_terminal:
        say()


def _draw(live: object, screen: Screen) -> None:
    live.update(screen.render(live.console.height), refresh=True)  # type: ignore[attr-defined]


def _answer(screen: Screen, pressed: Callable[[float], str], seconds: float, draw: Callable[[], None]) -> bool:
    """Do what keys say for so many seconds; whether to leave."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        for each in _KEY.findall(pressed(left)):
            if screen.key(each):
                return True
        draw()
    return False


@dataclass(slots=True)
class Screen:
    """What is shown of the jobs, and how: order, filter, and the first row that is seen."""

    terminal: bool
    order: str = "trouble"
    pattern: str = ""
    first: int = 0
    typing: bool = False
    _hub: str = ""
    _state: GatewayState | None = None
    _health: Health | None = None
    _rates: dict[str, float] = field(default_factory=dict)
    _before: dict[str, tuple[float, int]] = field(default_factory=dict)
    _rows: int = 1

    def look(self, hub: str, state: GatewayState, health: Health, now: float) -> None:
        """Take what was read from the hub; rates are those since the look before."""
        self._hub, self._state, self._health = hub, state, health
        self._rates = {
            job.job_name: max(0, job.propagated_total - moved) / (now - then)
            for job in state.jobs
            for then, moved in [self._before.get(job.job_name, (now, 0))]
            if now > then
        }
        self._before = {job.job_name: (now, job.propagated_total) for job in state.jobs}

    def key(self, pressed: str) -> bool:
        """Do what a key says; whether it says to leave."""
        if self.typing:
            self._type(pressed)
            return False
        match _KEYS.get(pressed):
            case "quit":
                return True
            case "sort":
                self.order = ORDERS[(ORDERS.index(self.order) + 1) % len(ORDERS)]
            case "filter":
                self.typing, self.pattern = True, ""
            case "home":
                self.first = 0
            case "end":
                self.first = sys.maxsize
            case str(way):
                step = 1 if way in ("up", "down") else self._rows
                self.first = max(0, self.first + (-step if way.endswith("up") else step))
        return False

    def _type(self, pressed: str) -> None:
        if pressed in "\r\n":
            self.typing = False
        elif pressed == "\x1b":
            self.typing, self.pattern = False, ""
        elif pressed in "\x7f\b":
            self.pattern = self.pattern[:-1]
        elif pressed.isprintable():
            self.pattern += pressed
        self.first = 0

    # -- what is seen --------------------------------------------------------------------------------------------------

    def render(self, height: int) -> RenderableType:
        """Everything, on at most ``height`` lines where it is a terminal."""
        from rich.console import Group
        from rich.text import Text

        state, health = self._state, self._health
        if state is None or health is None:
            return Text()
        jobs = self.shown()
        troubles = [_line(each, "red") for each in state.causes(jobs)]
        if self.terminal:
            if len(troubles) > _ERRORS:
                more = len(troubles) - _ERRORS + 1
                troubles = [*troubles[: _ERRORS - 1], _line(f"and {more} more: mgw status", "red")]
            self._rows = max(1, height - _FRAME - len(troubles))
            self.first = max(0, min(self.first, len(jobs) - self._rows))
        seen = jobs[self.first : self.first + self._rows] if self.terminal else jobs
        running = "; ".join(
            f"{agent.agent_name} {'UNREACHABLE' if agent.agent_name in state.dead else agent.agent_status}"
            for agent in state.agents
        )
        head = [f"{time.strftime('%H:%M:%S')}  {self._hub}", running, self.summary()]
        links = "  ".join(
            f"{entry.name} {entry.state}{_since(entry.since) if entry.state == 'DOWN' else ''}"
            for entry in sorted(health.links, key=lambda entry: (entry.state != "DOWN", entry.name))
        )
        return Group(
            *(_line(each, "bold") for each in head),
            _line(f"links: {links or 'none'}"),
            Text(),
            self._table(seen),
            *troubles,
            *([_line(self._foot(len(jobs), len(seen)), "dim")] if self.terminal else []),
        )

    def shown(self) -> list[JobRow]:
        """The jobs that the filter leaves, in order."""
        from mgw.gateway.services.health import IN_TROUBLE

        wanted, first_of = self.pattern.casefold(), (*IN_TROUBLE, "STOPPED")

        def place(job: JobRow) -> tuple[float, list[tuple[int, str]]]:
            word = self._word(job)
            first: dict[str, float] = {
                "trouble": first_of.index(word) if word in first_of else len(first_of),
                "rate": -self._rates.get(job.job_name, 0.0),
                "waiting": -(job.backlog or 0),
            }
            parts = re.findall(r"\d+|\D+", job.job_name)
            return first.get(self.order, 0.0), [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]

        def fits(job: JobRow) -> bool:
            return any(
                wanted in each.casefold() for each in (job.job_name, self._word(job), job.source, job.destination)
            )

        return sorted(filter(fits, self._state.jobs if self._state else ()), key=place)

    def _word(self, job: JobRow) -> str:
        return self._state.state_of(job) if self._state else ""

    def _waiting(self, job: JobRow) -> str:
        if self._state is not None and not self._state.knows_backlog(job):
            return "unknown"
        return "" if job.backlog is None else f"{job.backlog:,}"

    def summary(self) -> str:
        """All jobs in one line: how many are fine, and what moves in which direction."""
        from mgw.gateway.services.health import IN_TROUBLE, LEAVING

        jobs: Sequence[JobRow] = self._state.jobs if self._state else ()
        said = (*IN_TROUBLE, "STOPPED", "DISABLED", *LEAVING)  # in these it moves nothing, which somebody should know
        words = Counter(word for job in jobs if (word := self._word(job)) in said)
        fine = len(jobs) - words.total()
        parts = [f"{fine} fine", *(f"{words[word]} {word}" for word in said if words[word])]
        rates: dict[str, float] = {}
        for job in jobs:
            rates.setdefault(job.propagation_type, 0.0)
            rates[job.propagation_type] += self._rates.get(job.job_name, 0.0)
        moving = ", ".join(f"{rates[way]:,.0f}/s {name}" for way, name in WAYS.items() if way in rates)
        return f"{len(jobs)} job{'' if len(jobs) == 1 else 's'}: {', '.join(parts)}{f'   {moving}' if moving else ''}"

    def _table(self, jobs: Sequence[JobRow]) -> RenderableType:
        from rich.text import Text

        from mgw.gateway.services.health import BY_WORD

        shown = table(COLUMNS)
        for job in jobs:
            word, rate = self._word(job), self._rates.get(job.job_name)
            shown.add_row(
                Text(job.job_name, overflow="ellipsis", no_wrap=self.terminal),
                Text(word, style=BY_WORD[word].colour),
                _until(job.next_attempt) if BY_WORD[word].trouble else "",
                "" if rate is None else f"{rate:,.0f}",
                f"{job.propagated_total:,}",
                str(job.exceptionq_total or ""),
                f"{job.left_out_total:,}" if job.left_out_total else "",
                self._waiting(job),
                ago(job.oldest_message_age),
            )
        return shown

    def _foot(self, count: int, seen: int) -> str:
        if self.typing:
            return f"filter: {self.pattern}_   (return: keep, escape: all)"
        which = f"{self.first + 1}-{self.first + seen} of {count}" if seen else "no job"
        only = f"  filter: {self.pattern}" if self.pattern else ""
        return f"{which}  sort: {self.order}{only}   arrows: scroll  s: sort  /: filter  q: quit"


def _line(text: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(text, style=style, overflow="ellipsis", no_wrap=True)


def _since(moment: float | None) -> str:
    return "" if moment is None else f" {ago(time.time() - moment)}"


def _until(moment: str | None) -> str:
    """Time to a moment that a view has as text, in UTC; empty for one that has passed."""
    if not moment:
        return ""
    left = datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp() - time.time()
    return ago(left) if left > 0 else "now"


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """A function that waits so many seconds at most and gives the keys that were pressed."""
    if not sys.stdin.isatty():

        def wait_only(seconds: float) -> str:
            time.sleep(seconds)
            return ""

        yield wait_only
        return
    import termios
    import tty

    number = sys.stdin.fileno()
    saved = termios.tcgetattr(number)
    tty.setcbreak(number)

    def wait(seconds: float) -> str:
        ready, _, _ = select.select([number], [], [], seconds)
        return os.read(number, 1024).decode(errors="replace") if ready else ""

    try:
        yield wait
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, saved)
