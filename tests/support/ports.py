"""Free TCP ports on the loopback address."""

from __future__ import annotations

import random
import socket
import threading

__all__ = ["LOOPBACK", "free_port"]

LOOPBACK = "127.0.0.1"

# Below Linux' ephemeral range (32768 and up), so that no outgoing connection takes a server's port while it restarts.
_PORTS = range(20_000, 32_000)
_given_ports: set[int] = set()
_given_ports_lock = threading.Lock()


def free_port() -> int:
    """A TCP port on the loopback address that nobody listens on and that this process has not given out before."""
    for _ in range(1000):
        port = random.choice(_PORTS)
        with _given_ports_lock:
            if port in _given_ports:
                continue
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
                try:
                    probe.bind((LOOPBACK, port))
                except OSError:
                    continue
            _given_ports.add(port)
            return port
    raise RuntimeError(f"no free TCP port between {_PORTS.start} and {_PORTS.stop} on {LOOPBACK}")
