"""Whether somebody listens at an address: connections without traffic, cheap enough to be made every second."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress

__all__ = ["address", "listening"]

CONNECT_SECONDS = 1.0  # for all addresses together
#: A relay (the proxy of a container, a load balancer) accepts a connection also when nobody is behind it, and ends it.
STAY_SECONDS = 0.25


def address(text: str, port: int) -> tuple[str, int]:
    """Host and port of ``host``, ``host:port`` or ``[ipv6]:port``; ``port`` where the text has none."""
    host, colon, number = text.strip().rpartition(":")
    if not colon or not number.isdigit() or (":" in host) != host.startswith("["):
        return text.strip().strip("[]"), port
    return host.strip("[]"), int(number)


def listening(addresses: Iterable[tuple[str, int]]) -> frozenset[str]:
    """Those of the addresses (host, port) that accept a connection and keep it, as ``host:port``. Never raises.

    Says nothing about TLS, login or what is spoken there. Takes about a second, longer where a name server is slow.
    """
    with ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        for host, port in addresses:
            for sock in _connecting(host, port):
                stack.callback(sock.close)
                selector.register(sock, selectors.EVENT_WRITE, f"{host}:{port}")
        ended = list(_events(selector, CONNECT_SECONDS))
        connected = {sock: place for sock, place in ended if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0}
        for pending in [key.fileobj for key in selector.get_map().values()]:
            selector.unregister(pending)
        for sock, place in connected.items():
            selector.register(sock, selectors.EVENT_READ, place)
        for sock, _ in _events(selector, STAY_SECONDS):
            if not _speaks(sock):
                del connected[sock]
        return frozenset(connected.values())


def _connecting(host: str, port: int) -> Iterator[socket.socket]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, OverflowError):
        return
    for family, kind, protocol, _, target in found:
        with suppress(OSError):
            sock = socket.socket(family, kind, protocol)
            sock.setblocking(False)
            sock.connect_ex(target)
            yield sock


def _events(selector: selectors.BaseSelector, seconds: float) -> Iterator[tuple[socket.socket, str]]:
    """Each socket when it is ready, once, for at most so many seconds."""
    end = time.monotonic() + seconds
    while selector.get_map() and (left := end - time.monotonic()) > 0:
        for key, _ in selector.select(left):
            selector.unregister(key.fileobj)
            assert isinstance(key.fileobj, socket.socket)  # noqa: S101  # nothing else is registered
            yield key.fileobj, key.data


def _speaks(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) != b""
    except OSError:
        return False
