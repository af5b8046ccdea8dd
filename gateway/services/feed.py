"""What happens, as it happens, for those who listen: one thread looks at the hub for all of them, none for nobody.

The ids of events grow. On PostgreSQL an event may be committed after one with a larger id; so an event that follows a
gap is held back until it is :data:`SETTLED` seconds old, and nobody who goes on after an id misses one.
"""

from __future__ import annotations

import json
import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from mgw.gateway.aq import Hub
from mgw.gateway.services.busy import Busy
from mgw.gateway.services.probing import Probing
from mgw.gateway.services.verdict import Entry, Look, ageless
from mgw.gateway.state import happened
from mgw.gateway.state.happened import Happened
from mgw.transforms.errors import HubError

__all__ = ["KINDS", "SETTLED", "Feed", "Item", "Listener"]

_LOGGER = logging.getLogger("mgw.http")

KINDS = ("job", "link", "event", "metrics")
SETTLED = 5.0  # seconds: a transaction that writes an event takes less
_EVERY = 1.0  # seconds between two looks
_PAGE = 500  # events that are read together
_MOST = 2000  # items that wait for a listener; who takes them more slowly is let go

_COUNTERS = ("propagated", "exceptioned", "filtered", "discarded", "suppressed")


@dataclass(frozen=True, slots=True)
class Item:
    """Something to be told; ``id``: of an event, None of anything else."""

    kind: str
    data: str
    id: int | None = None


class Listener:
    """Somebody who listens. One thread or task takes.

    Args:
        wake: called, from any thread, when there is something to take.
    """

    def __init__(self, feed: Feed, kinds: frozenset[str], wake: Callable[[], None], start: int, upto: int) -> None:
        self._feed = feed
        self._known = start
        self.kinds = kinds
        self.wake = wake
        self._ahead: deque[Item] = deque()
        self._before = (start, upto)  # events that were there when it came: after the one, up to the other
        self.slow = False
        self.ended = False  # nobody will tell it anything more

    def take(self) -> list[Item]:
        """What there is now, in order; may read the hub.

        Raises:
            HubError: it does not answer; the same may be asked again.
        """
        start, upto = self._before
        if start < upto and "event" in self.kinds:
            with self._feed.hub.read() as conn:
                found = happened.after(conn, start, upto, _PAGE)
            self._before = (found[-1].id if len(found) == _PAGE else upto, upto)
            return [_told(each) for each in found]
        items = []
        while self._ahead:
            items.append(self._ahead.popleft())
        return items

    def offer(self, items: Sequence[Item]) -> None:
        """Put items for it; called by the feed alone."""
        known = self._known
        wanted = [item for item in items if item.kind in self.kinds and (item.id is None or item.id > known)]
        if len(self._ahead) + len(wanted) > _MOST:
            self.slow = True
            self._feed.leave(self)
        else:
            self._ahead.extend(wanted)
        if wanted or self.slow:
            self.wake()

    @property
    def reads_back(self) -> bool:
        """Whether there are earlier events to take."""
        return self._before[0] < self._before[1] and "event" in self.kinds


class Feed:
    """Tells listeners what happens.

    Args:
        most: listeners at the same time.
    """

    def __init__(self, hub: Hub, probes: Probing, most: int) -> None:
        self.hub = hub
        self._probes = probes
        self._most = most
        self._mutex = threading.Lock()  # of what is looked at and told; may be held while the hub is read
        self._joining = threading.Lock()  # of the list alone: nobody who leaves waits for the hub
        self._wanted = threading.Event()
        self._listeners: list[Listener] = []
        self._thread: threading.Thread | None = None
        self._position = 0  # id of the last event that was told
        self._shown: dict[tuple[str, str], Entry] = {}  # of jobs and links, what was told last
        self._ended = False

    @property
    def listeners(self) -> int:
        """How many listen."""
        return len(self._listeners)

    @property
    def looks(self) -> bool:
        """Whether a thread looks at the hub."""
        return self._thread is not None

    def listen(self, kinds: Sequence[str], wake: Callable[[], None], *, after: int | None = None) -> Listener:
        """Begin to listen: jobs and links as they are, then what changes, and events.

        Args:
            after: the id of the last event that is known; None: from now on.

        Raises:
            Busy: as many listen as may.
            HubError: the hub does not answer.
        """
        with self._mutex:
            if len(self._listeners) >= self._most:
                raise Busy(f"{self._most} streams of events are open", cure="close one, or try again later")
            with self.hub.read() as conn:
                if self._thread is None:
                    self._position = happened.last_before(conn, self.hub.clock.now() - SETTLED)
                latest = 0 if after is None else happened.last_before(conn, math.inf)
            start = self._position if after is None or after > latest else after  # one that is not yet is another hub's
            listener = Listener(self, frozenset(kinds or KINDS), wake, start, self._position)
            listener.offer([Item(kind, _state(entry)) for (kind, _), entry in self._shown.items()])
            with self._joining:
                listener.ended = self._ended
                self._listeners.append(listener)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="events", daemon=True)
                self._thread.start()
        return listener

    def leave(self, listener: Listener) -> None:
        """Listen no more. Idempotent."""
        with self._joining:
            if listener in self._listeners:
                self._listeners.remove(listener)
            if not self._listeners:
                self._wanted.set()

    def end(self) -> None:
        """Let all listeners go, now and later: the process ends, or nobody answers any more."""
        with self._joining:
            self._ended = True
            listeners = list(self._listeners)
        for each in listeners:
            each.ended = True
            each.wake()

    def _run(self) -> None:
        while True:
            try:
                self._look()
            except HubError:
                pass  # told by the states, when it is back
            except Exception:
                _LOGGER.exception("events could not be read")
            self._wanted.wait(_EVERY)
            with self._mutex:
                self._wanted.clear()
                if not self._listeners or not self.hub.is_open:
                    self._thread, self._shown = None, {}
                    return

    def _look(self) -> None:
        """Tell what has happened since the last look."""
        items = self._events()
        try:
            found = self._probes.look()
        except HubError:
            found = None
        with self._mutex:
            if found is not None:
                items += self._states(found)
                items.append(Item("metrics", json.dumps(_metrics(found))))
            with self._joining:
                listeners = list(self._listeners)
            for listener in listeners:
                listener.offer(items)

    def _events(self) -> list[Item]:
        found: list[Happened] = []
        with self.hub.read() as conn:
            found = happened.after(conn, self._position, None, _PAGE)
        settled = self.hub.clock.now() - SETTLED
        items = []
        for each in found:
            if each.id != self._position + 1 and each.time > settled:
                break  # the one before it may come still
            self._position = each.id
            items.append(_told(each))
        return items

    def _states(self, found: Look) -> list[Item]:
        """Jobs and links that are not as they were told last."""
        health = self._probes.judged(found, agent="*")
        told = {("job", each.name): each for each in health.jobs}
        told |= {("link", each.name): each for each in health.links}
        items = [Item(key[0], _state(each)) for key, each in told.items() if not _same(self._shown.get(key), each)]
        gone = [key for key in self._shown if key not in told]
        items += [Item(kind, json.dumps({"name": name, "state": "REMOVED"})) for kind, name in gone]
        self._shown = told
        return items


def _told(each: Happened) -> Item:
    return Item("event", json.dumps(asdict(each) | {"time": _moment(each.time)}, ensure_ascii=False), each.id)


def _state(entry: Entry) -> str:
    return json.dumps(asdict(entry) | {"since": _moment(entry.since)})


def _same(before: Entry | None, now: Entry) -> bool:
    """Whether nothing but time has passed."""
    return before is not None and _lasting(before) == _lasting(now)


def _lasting(entry: Entry) -> Entry:
    """What stays the same from one second to the next."""
    since = None if entry.since is None else round(entry.since)
    return replace(entry, since=since, reason=ageless(entry.reason))


def _metrics(found: Look) -> Mapping[str, Any]:
    jobs = {
        each.name_key: {name: getattr(each, f"{name}_total") for name in _COUNTERS}
        | {"failures": each.failures, "backlog": each.backlog, "last_progress": _moment(each.last_progress)}
        for each in found.signs.jobs
    }
    return {"time": _moment(found.now), "jobs": jobs}


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
