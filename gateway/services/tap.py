"""Messages of a job as it carries them, before and after its rule, conversion and transformation.

The command makes a tap in the hub, the process that runs the job writes what it sees there, and the command reads it.
The tap is over when the command closes it, or does not say for a while that it is there.
"""

from __future__ import annotations

import json
from types import TracebackType
from typing import Any

from mgw.gateway.definitions.objects import AgentStatus
from mgw.gateway.services import lookup
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.state import catalog, lease
from mgw.transforms.errors import ConfigInvalid

__all__ = ["LOOK_SECONDS", "OpenTap"]

LOOK_SECONDS = 0.5  # how often a command looks for messages
LIVES_SECONDS = 15.0  # how long a tap lives after its command said that it is there
_SAY_SECONDS = 5.0
MOST_PER_SECOND = 1000
MOST_CHARACTERS = 1_000_000
_ENDLESS = 2**62


class OpenTap:
    """A tap on a job. Leave the block, and it is gone.

    Args:
        count: messages to be shown; None: without end.
        per_second: messages that are shown in a second, at most.
        size: characters of a body that are shown.

    Raises:
        NotFound: there is no job of that name.
        ConfigInvalid: a number is out of range.
    """

    def __init__(
        self, admin: GatewayAdmin, job: str, *, count: int | None = None, per_second: int = 10, size: int = 2000
    ) -> None:
        _check("count", count, _ENDLESS)
        _check("messages per second", per_second, MOST_PER_SECOND)
        _check("characters of a body", size, MOST_CHARACTERS)
        self._admin = admin
        self._job = lookup.job(admin, job)
        self._clock = admin.clock
        self._read = 0
        self._said = self._clock.monotonic()
        self._opened = self._said
        now = self._clock.now()
        self._until = now + LIVES_SECONDS
        with admin.change() as conn:
            catalog.delete_taps_before(conn, now)
            remaining = _ENDLESS if count is None else count
            self._id = catalog.insert_tap(conn, self._job.id, self._until, per_second, remaining, size)
        self.began = False  # the job shows its messages
        self.missed = 0  # messages that were too many to be shown
        self.over = False  # all are shown, or the job is gone

    def __enter__(self) -> OpenTap:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def read(self) -> list[dict[str, Any]]:
        """What was seen since the last call: ``time``, ``before``, and one of ``after``, ``filtered``, ``failure``."""
        hub = self._admin.hub
        self._say()
        with hub.read() as conn:
            tap = catalog.get_tap(conn, self._id)
            found = catalog.read_tapped(conn, self._id, self._read)
        if tap is None:
            self.over = True
            return []
        self.began, self.missed, self.over = tap.began is not None, tap.missed, tap.remaining <= 0
        if found:
            self._read = found[-1][0]
        return [json.loads(seen) for _, seen in found]

    def _say(self) -> None:
        """Say that the command is there. One that was stopped for too long, by ctrl-z for example, begins again."""
        monotonic, now = self._clock.monotonic(), self._clock.now()
        late = now >= self._until
        if not late and monotonic - self._said < _SAY_SECONDS:
            return
        with self._admin.change() if late else self._admin.hub.write() as conn:
            catalog.prolong_tap(conn, self._id, now + LIVES_SECONDS, self._read)
        self._said, self._until = monotonic, now + LIVES_SECONDS

    def silent_because(self) -> str | None:
        """Why nothing is shown: the job does not run; None while it does, or may be about to."""
        if self.began or self._clock.monotonic() - self._opened < _SAY_SECONDS:
            return None
        with self._admin.hub.read() as conn:
            agent = lease.agent_row(conn, self._job.agent)
            job = catalog.get_job(conn, self._job.name)
        alive = agent is not None and (agent.lease_expires or 0) > self._clock.now()
        if agent is None or agent.status is not AgentStatus.RUNNING or not alive:
            return f"agent {self._job.agent} is not running"
        if job is not None and not job.enabled:
            return f"job {job.name} is disabled"
        return f"job {self._job.name} does not carry messages now; mgw status says why"

    def close(self) -> None:
        """The job shows nothing more for it."""
        with self._admin.change() as conn:
            catalog.delete_tap(conn, self._id)


def _check(what: str, value: int | None, most: int) -> None:
    if value is not None and not 0 < value <= most:
        raise ConfigInvalid(f"{what} cannot be {value}", cure=f"give a number from 1 to {most}")
