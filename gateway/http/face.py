"""Has a running agent answer over HTTP. A port that is taken never keeps it from carrying messages."""

from __future__ import annotations

import errno
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mgw.gateway.http.pages import Pages
from mgw.gateway.http.server import Request, Response, Server
from mgw.gateway.services.http_address import HttpAddress
from mgw.gateway.services.probes import Probes

__all__ = ["Face", "serving"]

_LOGGER = logging.getLogger("mgw.http")

RETRY_SECONDS = 10.0  # until a port that was taken is tried again
_BACKLOG = 128


@contextmanager
def serving(address: HttpAddress, probes: Probes) -> Iterator[Face]:
    """Answer about the process until the end of the block."""
    face = Face(address, Pages(probes))
    try:
        yield face
    finally:
        face.close()


class Face:
    """A server, or the attempt to have one."""

    def __init__(self, address: HttpAddress, answer: Callable[[Request], Response]) -> None:
        self._address = address
        self._answer = answer
        self._closing = threading.Event()
        self._server: Server | None = None
        self._mutex = threading.Lock()
        error = self._open()
        if error is not None:
            _LOGGER.warning("%s", _refusal(address, error))
            threading.Thread(target=self._try_again, name="http-open", daemon=True).start()

    def close(self) -> None:
        """Take no more requests."""
        self._closing.set()
        with self._mutex:
            if self._server is not None:
                self._server.close()

    def _open(self) -> OSError | None:
        """Listen; gives the reason why that is not possible."""
        failure: OSError | None = None
        for port in self._address.ports:
            try:
                listener = _listen(self._address.host, port)
            except OSError as error:
                failure = error
                continue
            with self._mutex:
                if self._closing.is_set():
                    listener.close()
                    return None
                self._server = Server(listener, self._answer, any_host=self._address.proxied)
            host = f"[{self._address.host}]" if ":" in self._address.host else self._address.host
            _LOGGER.info("health and metrics on http://%s:%d/ (livez, readyz, healthz, metrics)", host, port)
            return None
        return failure

    def _try_again(self) -> None:
        while not self._closing.wait(RETRY_SECONDS):
            if self._open() is None:
                return


def _listen(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def _refusal(address: HttpAddress, error: OSError) -> str:
    taken = error.errno == errno.EADDRINUSE
    cause = "another process listens there" if taken else error.strerror or str(error)
    last = address.ports[-1]
    many = f" to {last}" if last != address.ports[0] else ""
    return (
        f"no health and metrics over HTTP: {address.shown}{many} cannot be used; cause: {cause}; "
        "cure: end that process, or give another address with --http HOST:PORT, auto (the next free port) or off; "
        f"messages are still carried, and the address is tried again every {RETRY_SECONDS:.0f} s"
    )
