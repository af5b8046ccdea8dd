"""``mgw run`` as a process of its own, that may be killed, frozen, and launched with a fault inside."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.brokers.server import OwnedProcess

__all__ = ["AgentProcess"]

_ROOT = Path(__file__).resolve().parents[2]
_LOG_TAIL = 40


class AgentProcess:
    """One agent process after the other on one hub, with one log. ``faults``: see :mod:`tests.faults.launched`.

    ``words``: of its command line, behind ``mgw run``.
    """

    def __init__(
        self,
        url: str,
        folder: Path,
        *,
        name: str = "agent",
        faults: Mapping[str, object] | None = None,
        words: Sequence[str] = (),
    ) -> None:
        self.log = folder / f"{name}.log"
        self.faults = dict(faults or {})
        self._folder = folder
        self._words = words
        path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
        self._environment = {**os.environ, "MGW_HUB": url, "PYTHONUNBUFFERED": "1", "PYTHONPATH": path}
        self._process: OwnedProcess | None = None

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._process.pid if self._process is not None and self._process.exit_code is None else None

    @property
    def exit_code(self) -> int | None:
        """Exit code of the process started last, negative for a signal; None while it runs."""
        return self._process.exit_code if self._process is not None else None

    def start(self, **faults: object) -> None:
        """Start it, with faults of this start alone beside those of every start; does not wait."""
        wanted = self.faults | faults
        program = ["tests.faults.launched", json.dumps(wanted)] if wanted else ["mgw.gateway"]
        command = [sys.executable, "-m", *program, "run", *self._words]
        if self._process is not None:
            self._process.kill()
        self._process = OwnedProcess(command, environment=self._environment, log=self.log, folder=self._folder)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self.pid is not None, f"mgw run has ended:\n{self.tail()}"
        os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()

    def terminate(self, deadline: float = 30.0) -> int | None:
        """SIGTERM; returns the exit code."""
        assert self._process is not None
        in_time = self._process.terminate(signal.SIGTERM, deadline)
        assert in_time, f"mgw run did not end within {deadline:g} s of SIGTERM:\n{self.tail()}"
        return self._process.exit_code

    def tail(self) -> str:
        """The end of its log."""
        return "\n".join(self.text().splitlines()[-_LOG_TAIL:])

    def text(self) -> str:
        """Everything it wrote, over all starts."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""
