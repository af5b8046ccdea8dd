"""What a process has loaded when it has started is left out of garbage collection from then on.

Modules, classes and definitions are some 120,000 objects that stay until the process ends. A full collection looks at
every one of them, 60 to 80 ms each time, and a job that publishes to Kafka causes one for every 9,000 messages or so.
"""

from __future__ import annotations

import gc
import threading

__all__ = ["SETTLED_SECONDS", "StartHeap"]

SETTLED_SECONDS = 3.0  # after the start; jobs are connected then, and their clients are loaded


class StartHeap:
    """Frozen once. What is made later is collected as ever."""

    def __init__(self) -> None:
        self.frozen = 0  # objects
        self._timer: threading.Timer | None = None

    def freeze(self) -> None:
        """Collect what is garbage now; the rest is freed when it is released, unless it is part of a cycle."""
        gc.collect()
        gc.freeze()
        self.frozen = gc.get_freeze_count()

    def freeze_later(self, seconds: float = SETTLED_SECONDS) -> None:
        """:meth:`freeze`, on a thread of its own."""
        self._timer = threading.Timer(seconds, self.freeze)
        self._timer.name, self._timer.daemon = "freeze-heap", True
        self._timer.start()

    def end(self) -> None:
        """The process ends, perhaps before it was frozen."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
