"""Free TCP ports on the loopback address."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import socket
import tempfile
import threading
from functools import cache
from pathlib import Path

__all__ = ["LOOPBACK", "free_port"]

LOOPBACK = "127.0.0.1"

# Below Linux' ephemeral range (32768 and up), so that no outgoing connection takes a server's port while it restarts.
_PORTS = range(20_000, 32_000)
_given_ports: set[int] = set()
_given_ports_lock = threading.Lock()


def free_port() -> int:
    """A TCP port on the loopback address that nobody listens on and that no process of the tests has been given.

    It stays with this process until it ends, also while nothing listens on it.
    """
    for _ in range(1000):
        port = random.choice(_PORTS)
        with _given_ports_lock:
            if port in _given_ports or not _taken(port):
                continue
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
                try:
                    probe.bind((LOOPBACK, port))
                except OSError:
                    continue
            _given_ports.add(port)
            return port
    raise RuntimeError(f"no free TCP port between {_PORTS.start} and {_PORTS.stop} on {LOOPBACK}")


def _taken(port: int) -> bool:
    """Take a port for this process: lock the byte of that number in a file that all processes of this user share."""
    with contextlib.suppress(BlockingIOError):
        fcntl.lockf(_ports_of_all(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        return True
    return False


@cache
def _ports_of_all() -> int:
    path = Path(tempfile.gettempdir()) / f"mgw-tests-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)  # never closed: the locks would go
