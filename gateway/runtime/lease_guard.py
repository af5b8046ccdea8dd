"""What a process on standby does when its lease has ended: it begins again, whatever its threads wait for.

Its successor may run already, and a broker may refuse that a queue which this process still reads. A job that waits
for a hub which does not answer cannot let go of it. Nothing is lost with the process: it is as if it was killed.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable

from mgw.gateway.runtime.agent import Agent

__all__ = ["LeaseGuard", "begin_again"]

_LOGGER = logging.getLogger("mgw.engine")

_LOOK_SECONDS = 0.5


def begin_again(agent: str) -> None:
    """Put a new program, called as this one was, into this process. It keeps its id and takes nothing else along: no
    thread, no connection."""
    _LOGGER.info("agent %s: this process begins again, on standby", agent)
    os.execv(sys.executable, sys.orig_argv)  # noqa: S606  ourselves


class LeaseGuard:
    """Watches the lease of an agent on a thread of its own, which never waits for the hub.

    Args:
        agent: gives the agent while it is started.
    """

    def __init__(self, agent: Callable[[], Agent | None]) -> None:
        self._agent = agent
        self._over = threading.Event()

    def start(self) -> None:
        """Begin."""
        threading.Thread(target=self._watch, name="lease-guard", daemon=True).start()

    def end(self) -> None:
        """Watch no more: this process gives the agent up, or ends."""
        self._over.set()

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            agent = self._agent()
            if agent is not None and not agent.lease_left and not self._over.is_set():
                _LOGGER.error("the lease of agent %s has ended: it could not be renewed in time", agent.name)
                begin_again(agent.name)
