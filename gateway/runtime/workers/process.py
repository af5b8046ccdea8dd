"""The process of a worker, seen from its parent."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress

from mgw.gateway.runtime.service_manager import OF_THE_SERVICE
from mgw.gateway.runtime.workers.channel import Channel
from mgw.gateway.runtime.workers.wake import Mailboxes

__all__ = ["Process"]

PATIENCE = 5  # seconds, for a worker that does not listen
_MODULE = "mgw.gateway.runtime.workers.worker"


class Process:
    """A Python that finds modules where this one does. What it is to do is said over ``channel``, not on a command line
    that everybody on the machine can read.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, number: int, mailboxes: Mailboxes) -> None:
        ours, theirs = socket.socketpair()
        mailbox = mailboxes.reading(number)
        writing = {each: end for each, end in mailboxes.writing.items() if each != number}
        boxes = ",".join(f"{each}:{end.fileno()}" for each, end in writing.items())
        files = [theirs.fileno(), mailbox.fileno(), *(end.fileno() for end in writing.values())]
        environment = {name: value for name, value in os.environ.items() if name not in OF_THE_SERVICE}
        environment["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
        try:
            self._process = subprocess.Popen(  # noqa: S603  of ourselves
                [sys.executable, "-P", "-m", _MODULE, str(os.getpid()), *map(str, files[:2]), boxes],
                stdin=subprocess.DEVNULL,
                pass_fds=files,
                env=environment,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self.pid = self._process.pid
        self.channel = Channel(ours, PATIENCE)

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()

    def end(self, seconds: float) -> None:
        """Wait so long for its end, then kill it."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()

    def reap(self) -> str:
        """It has ended, or closed its end of the channel, which is its end. How, in words."""
        self.channel.close()
        try:
            code = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self._process.wait()
        if code >= 0:
            return f"ended with exit code {code}"
        with suppress(ValueError):
            return f"was ended by {signal.Signals(-code).name}"
        return f"was ended by signal {-code}"
