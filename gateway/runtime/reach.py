"""Jobs that wait because a broker, or the hub, cannot be reached: they are woken as soon as it can be.

While a job waits, one thread per link looks about once a second whether the broker accepts connections. When it does
after it did not, all jobs of the link try at once. A broker that accepts connections and then refuses the rest wakes
nobody again: the delays of :mod:`mgw.gateway.runtime.retry` hold then.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from mgw.gateway.runtime.retry import Decision, Kind
from mgw.links.contract import LinkConfig
from mgw.links.pool import LinkPool
from mgw.transforms.clock import Clock
from mgw.transforms.errors import HubError

__all__ = ["Reach", "Reaches"]

_LOGGER = logging.getLogger("mgw.engine")

FIRST_LOOK = 0.3  # seconds after a job began to wait
CLOSED_PAUSE = 0.7  # seconds between two looks that find nobody; a look that finds somebody takes a quarter of one
OPEN_PAUSE = 10.0  # seconds at most between two looks that find the same
SETTLING = 30.0  # seconds after it began to accept connections in which a broker may still refuse what it is asked
PAUSE = 2.0  # seconds at least between two times that the success of a job wakes the others

Look = Callable[[], frozenset[str]]


class Reach:
    """One link, or the hub, of an agent. ``name`` is for the log."""

    def __init__(self, name: str, clock: Clock) -> None:
        self._name = name
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: set[threading.Event] = set()
        self._open: frozenset[str] | None = None  # None: not known yet
        self._told: set[str] = set()  # places of which somebody told
        self._opened = float("-inf")
        self._woken = float("-inf")
        self._look: Look | None = None
        self._looking = False
        self._changed = threading.Event()  # somebody came, or the last one left

    @property
    def settling(self) -> bool:
        """Whether it began to accept connections a moment ago."""
        return self._clock.monotonic() - self._opened < SETTLING

    def wait(self, woken: threading.Event, seconds: float, look: Look | None = None) -> bool:
        """Wait for ``woken``, which is also set when there is reason to try; False when so many seconds passed first.

        ``look`` says which of its addresses accept connections; it may take a second, and is called by another thread.
        """
        with self._lock:
            self._waiting.add(woken)
            self._look = look
            if look is not None and not self._looking:
                self._looking = True
                threading.Thread(target=self._watch, name=f"reach-{self._name}", daemon=True).start()
            self._changed.set()
        try:
            return woken.wait(seconds)
        finally:
            with self._lock:
                self._waiting.discard(woken)
                if not self._waiting:
                    self._changed.set()

    def told(self, place: str, accepts: bool) -> None:
        """Somebody who uses ``place`` anyway found that it works, or that it does not."""
        with self._lock:
            known = self._open or frozenset()
            if place in self._told:
                self._seen(known | {place} if accepts else known - {place})
            else:
                self._told.add(place)
                self._open = known | {place} if accepts else known

    def succeeded(self) -> None:
        """A job that waited has recovered: the others try at once."""
        with self._lock:
            if self._clock.monotonic() - self._woken >= PAUSE:
                self._wake("a job of it has recovered")

    def _seen(self, found: frozenset[str]) -> None:
        before, self._open = self._open, found
        if before is not None and (new := found - before):
            self._opened = self._clock.monotonic()
            self._wake(f"it can be reached again ({', '.join(sorted(new))})")

    def _wake(self, why: str) -> None:
        if self._waiting:
            self._woken = self._clock.monotonic()
            _LOGGER.info("%s: %s; %d job(s) try now", self._name, why, len(self._waiting))
            for event in self._waiting:
                event.set()

    # ------------------------------------------------------------------------------------------------------ the watcher

    def _watch(self) -> None:
        pause, known = FIRST_LOOK, False
        while True:
            if self._changed.wait(pause):
                self._changed.clear()
                known = False
                if self._rest():
                    return
                self._changed.wait(FIRST_LOOK)
            with self._lock:
                look = self._look
            found = self._ask(look)
            with self._lock:
                same = known and found == self._open
                self._seen(found)
            known = True
            pause = min(2 * pause, OPEN_PAUSE) if found and same else CLOSED_PAUSE

    def _rest(self) -> bool:
        """Whether nobody waits any more, so that the watcher ends."""
        with self._lock:
            if not self._waiting:
                self._looking = False
            return not self._looking

    def _ask(self, look: Look | None) -> frozenset[str]:
        try:
            return look() if look is not None else frozenset()
        except Exception as error:  # a link that cannot even be opened; its jobs say why
            _LOGGER.debug("%s: not checked: %s", self._name, error)
            return frozenset()


class Reaches:
    """The links of one agent, and the hub."""

    def __init__(self, clock: Clock, links: LinkPool) -> None:
        self._pool = links
        self.hub = Reach("hub", clock)
        self._clock = clock
        self._lock = threading.Lock()
        self._links: dict[str, Reach] = {}

    def link(self, name: str) -> Reach:
        """The link of that name."""
        with self._lock:
            return self._links.setdefault(name, Reach(f"link {name}", self._clock))

    def of(self, error: Exception, link: LinkConfig | None) -> Reach:
        """What a job of the link could not reach; a job without a link needs the hub alone."""
        return self.hub if isinstance(error, HubError) or link is None else self.link(link.name)

    def rest(self, woken: threading.Event, decision: Decision, error: Exception, link: LinkConfig | None) -> float:
        """Wait, after ``error``, for the next attempt of a job of the link, which ``woken`` calls for as well; returns
        the delay in seconds, 0 where it was cut short."""
        delay, reach = decision.delay or 0.0, self.of(error, link)
        if decision.kind is not Kind.AWAY:
            early = woken.wait(delay)
        elif link is None or reach is self.hub:  # the agent, which uses it all the time, says when it is there
            early = reach.wait(woken, delay)
        else:
            early = reach.wait(woken, delay, lambda: self._pool.link(link).listening())
        return 0.0 if early else delay
