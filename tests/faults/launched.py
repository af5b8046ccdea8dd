"""``mgw`` with a fault inside: ``python -m tests.faults.launched '{"kill": ["committed", 2]}' run``.

The product is the real one; only what the fault needs is wrapped around its seams before it starts.

* ``kill``: [step, n]: SIGKILL of the own process when it comes to a step of the route for the n-th time.
* ``host``: the name of the machine that the process believes it is on.
* ``lease``: seconds of the agent's lease.
* ``clock``: a file with a double; the wall clock is off by so many seconds, from the moment they are written there.
"""

from __future__ import annotations

import datetime
import functools
import json
import mmap
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["INBOUND_STEPS", "OUTBOUND_STEPS", "THROUGH_STEPS", "Shift"]

#: In the order in which a batch comes to them.
INBOUND_STEPS = ("read", "converted", "before-commit", "committed", "before-settle", "settled")
OUTBOUND_STEPS = ("planned", "before-publish", "published", "confirmed", "before-commit", "completed")
THROUGH_STEPS = ("read", "converted", *OUTBOUND_STEPS, "before-settle", "settled")

Reached = Callable[[str], None]
_DOUBLE = struct.Struct("d")


class Shift:
    """By how much the wall clock of a launched process is off; shared with it through a file."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(_DOUBLE.pack(0.0))
        self.path = path
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), _DOUBLE.size)

    @property
    def seconds(self) -> float:
        """Now."""
        (seconds,) = _DOUBLE.unpack_from(self._shared)
        return float(seconds)

    @seconds.setter
    def seconds(self, value: float) -> None:
        _DOUBLE.pack_into(self._shared, 0, value)

    def close(self) -> None:
        """Give the file up."""
        self._shared.close()


def _shift_clock(path: str) -> None:
    shift = Shift(Path(path))
    true_time = time.time
    time.time = lambda: true_time() + shift.seconds
    true_datetime = datetime.datetime

    class Kind(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, true_datetime)

    class Shifted(true_datetime, metaclass=Kind):  # APScheduler asks this class for the time
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:  # type: ignore[override]
            return true_datetime.fromtimestamp(time.time(), tz)

    import apscheduler.schedulers.background
    import apscheduler.triggers.interval  # noqa: F401

    for name, module in list(sys.modules.items()):
        if name.startswith("apscheduler") and getattr(module, "datetime", None) is true_datetime:
            module.datetime = Shifted  # type: ignore[attr-defined]


def _shorten_lease(seconds: float) -> None:
    import mgw.gateway.runtime.agent_lease
    import mgw.gateway.runtime.supervisor
    import mgw.gateway.state.lease

    mgw.gateway.state.lease.STALLED_SECONDS = max(1, round(seconds))
    mgw.gateway.runtime.agent_lease.LEASE_SECONDS = seconds  # type: ignore[misc]
    mgw.gateway.runtime.supervisor.LEASE_SECONDS = seconds  # type: ignore[misc]


class _Watched:
    """A source or destination with a look at some of its calls."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Source(_Watched):
    def __init__(self, inner: Any, reached: Reached) -> None:
        super().__init__(inner)
        self._reached = reached

    def read(self, *arguments: Any) -> Any:
        batch = self._inner.read(*arguments)
        if batch.deliveries:
            self._reached("read")
        return batch

    def settle(self, batch: Any) -> None:
        if batch.deliveries:
            self._reached("before-settle")
        self._inner.settle(batch)
        if batch.deliveries:
            self._reached("settled")


class _Destination(_Watched):
    def __init__(self, inner: Any, reached: Reached) -> None:
        super().__init__(inner)
        self._reached = reached

    def publish(self, *arguments: Any) -> None:
        self._reached("before-publish")
        self._inner.publish(*arguments)
        self._reached("published")


def _after(holder: Any, name: str, then: Callable[..., None]) -> None:
    """Call ``then(result, *arguments)`` whenever that function returned."""
    original = getattr(holder, name)

    @functools.wraps(original)
    def wrapped(*arguments: Any, **named: Any) -> Any:
        result = original(*arguments, **named)
        then(result, *arguments)
        return result

    setattr(holder, name, wrapped)


def _kill_at(step: str, times: int) -> None:
    left = times

    def reached(here: str) -> None:
        nonlocal left
        if here == step:
            left -= 1
            if left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    from mgw.gateway.runtime.ends.link_destination import LinkDestination
    from mgw.gateway.runtime.ends.link_source import LinkSource
    from mgw.gateway.runtime.ends.planned_source import PlannedLinkSource
    from mgw.gateway.runtime.route import Route
    from mgw.gateway.state import run_state

    def watch_source(_: object, end: Any, *__: object) -> None:
        end.link = _Source(end.link, reached)

    def watch_destination(_: object, end: Any, *__: object) -> None:
        end.link = _Destination(end.link, reached)

    def planned(result: Any, route: Any, finished: Any, *_: object) -> None:
        if finished:
            reached("completed" if route._destination.planned else "committed")
        if result:
            reached("planned")

    _after(run_state, "count", lambda *_: reached("before-commit"))  # everything of the batch is written, not committed
    _after(LinkSource, "__init__", watch_source)
    _after(LinkSource, "select", lambda *_: reached("converted"))
    _after(PlannedLinkSource, "_all_encoded", lambda result, *_: reached("converted") if result else None)
    _after(LinkDestination, "__init__", watch_destination)
    _after(LinkDestination, "finished", lambda result, *_: reached("confirmed") if result else None)
    _after(Route, "_complete_and_plan", planned)


def _launch(faults: dict[str, Any]) -> None:
    if "host" in faults:
        name = str(faults["host"])
        socket.gethostname = lambda: name
    if "lease" in faults:
        _shorten_lease(float(faults["lease"]))
    if "clock" in faults:
        _shift_clock(str(faults["clock"]))
    if "kill" in faults:
        step, times = faults["kill"]
        assert step in INBOUND_STEPS + OUTBOUND_STEPS, f"no step {step}"
        _kill_at(step, int(times))
    from mgw.gateway.cli.main import main

    main()


if __name__ == "__main__":
    settings = json.loads(sys.argv.pop(1))
    _launch(settings)
