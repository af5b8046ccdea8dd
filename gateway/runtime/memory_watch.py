"""Whether an agent uses more memory than its ``max_memory``: warning 436, as documented (AQ guide 12.2 §21.3).

Nothing is refused: how much is in flight is limited by the batch sizes of the jobs. The documented default of 64 MB is
less than the program itself takes, and means that nothing is watched.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from mgw.gateway.definitions.objects import AgentDef

__all__ = ["LOW_MEMORY", "WATCH_SECONDS", "MemoryWatch", "resident"]

_LOGGER = logging.getLogger("mgw.engine")

LOW_MEMORY = 436
WATCH_SECONDS = 10.0
_MB = 1 << 20


def resident() -> int:
    """Bytes of memory that this process and the processes that it started hold; 0 where the system does not say."""
    return sum(_held(pid) for pid in (os.getpid(), *_children()))


def _children() -> set[int]:
    found: set[int] = set()
    for task in Path("/proc/self/task").glob("*/children"):
        try:
            found.update(map(int, task.read_text().split()))
        except OSError:  # a thread that ended
            continue
    return found


def _held(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


class MemoryWatch:
    """Says once when an agent begins to use more than it may, and once when it does not any more."""

    def __init__(self) -> None:
        self._over = False

    def look(self, agent: AgentDef | None) -> None:
        """Look at this process, which runs the agent; None: it runs none."""
        if agent is None or agent.max_memory == AgentDef(agent.name).max_memory:
            return
        used = resident() // _MB
        over = used > agent.max_memory
        if over and not self._over:
            _LOGGER.warning(
                "[%d] agent %s uses %d MB of memory, more than its max_memory of %d MB; cure: raise max_memory, or "
                "lower the batch sizes of its jobs, or give some of its links to another agent",
                LOW_MEMORY,
                agent.name,
                used,
                agent.max_memory,
                extra={"mgw_id": LOW_MEMORY},
            )
        elif self._over and not over:
            _LOGGER.info("agent %s uses %d MB of memory, as it may", agent.name, used)
        self._over = over
