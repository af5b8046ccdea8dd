"""What systemd is notified of (``Type=notify``): ready, alive, reloading, stopping. Without it, nothing.

The protocol is one datagram for each message to the socket that ``NOTIFY_SOCKET`` names (sd_notify(3)).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress

from mgw.transforms.clock import Clock

__all__ = ["OF_THE_SERVICE", "ServiceManager"]

OF_THE_SERVICE = ("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC")  # variables for the main process alone


class ServiceManager:
    """Notifies the service manager that started this process. Never raises; any thread may call it."""

    def __init__(self, environ: Mapping[str, str], clock: Clock) -> None:
        self._clock = clock
        name = environ.get("NOTIFY_SOCKET", "")
        self._address = f"\0{name[1:]}" if name.startswith("@") else name
        self._allowed = _watchdog_seconds(environ)
        self._told = self._allowed

    def ready(self, status: str) -> None:
        """The start is over, or a reload."""
        self._tell("READY=1", f"STATUS={status}")

    def alive(self, within: float) -> None:
        """Feed the watchdog; the next time is within so many seconds."""
        if not self._allowed:
            return
        allowed, before = max(self._allowed, within), self._told
        self._told = allowed
        self._tell("WATCHDOG=1", *([f"WATCHDOG_USEC={allowed * 1e6:.0f}"] if allowed != before else []))

    def reloading(self) -> None:
        """The configuration is read again; :meth:`ready` follows."""
        self._tell("RELOADING=1", f"MONOTONIC_USEC={self._clock.monotonic() * 1e6:.0f}")

    def stopping(self) -> None:
        """The process is about to end."""
        self._tell("STOPPING=1", "STATUS=draining")

    def _tell(self, *states: str) -> None:
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
            out.setblocking(False)
            out.sendto("\n".join(states).encode(), self._address)


def _watchdog_seconds(environ: Mapping[str, str]) -> float:
    """Seconds without a notification after which the process is restarted; 0: it is not watched."""
    owner, limit = environ.get("WATCHDOG_PID", ""), environ.get("WATCHDOG_USEC", "")
    if not limit.isdecimal() or owner not in ("", str(os.getpid())):
        return 0.0
    return int(limit) / 1e6
