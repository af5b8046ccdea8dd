"""Has a process answer over HTTP. A port that is taken never keeps an agent from carrying messages."""

from __future__ import annotations

import errno
import importlib.util
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from mgw.gateway.http.pages import Pages
from mgw.gateway.http.server import Server
from mgw.gateway.services.daemon import until_ended
from mgw.gateway.services.http_address import HttpAddress
from mgw.gateway.services.hubs import Hub
from mgw.gateway.services.probes import HubProbes
from mgw.gateway.services.probing import Probing
from mgw.gateway.services.users import Users
from mgw.transforms.errors import ConfigInvalid, GatewayError

__all__ = ["Face", "Opens", "has_extra", "opener", "serve", "serving"]

_LOGGER = logging.getLogger("mgw.http")

RETRY_SECONDS = 10.0  # until a port that could not be opened is tried again
_BACKLOG = 128
_EXTRA = ("fastapi", "uvicorn", "argon2", "jinja2")


class Closes(Protocol):
    """A server."""

    def close(self) -> None:
        """Take no more requests."""
        ...


#: Makes a server of a socket that listens.
Opens = Callable[[socket.socket], Closes]


def has_extra() -> bool:
    """Whether what the extra ``http`` names is installed; it is not imported."""
    return all(importlib.util.find_spec(name) is not None for name in _EXTRA)


def opener(address: HttpAddress, hub: Hub, probes: Probing, *, has_jobs: bool) -> tuple[Opens, str]:
    """What answers, and words for what that is more than health and metrics, with ``{page}`` for the address of the
    page: nothing, where the extra ``http`` is not installed.

    Args:
        has_jobs: the process has jobs, which come before requests.

    Raises:
        ConfigInvalid: the address needs the extra, or users; the files of a certificate cannot be used.
    """
    if not has_extra():
        if address.certificate is not None:
            raise ConfigInvalid(
                f"HTTP address {address.shown} cannot use TLS",
                cause="the extra http is not installed",
                cure="pip install 'messaging-gateway[http]'",
            )
        pages = Pages(probes)
        return lambda listener: Server(listener, pages, any_host=address.proxied), ""
    from mgw.gateway.http.application import Reach, application, guarded
    from mgw.gateway.http.budget import Budget
    from mgw.gateway.http.web_server import Certificate, WebServer

    secure = address.certificate is not None
    reach = Reach(address.local, secure, address.proxied or secure, address.proxied)
    if not address.local and not address.proxied and not Users(hub).exist():
        raise ConfigInvalid(
            f"HTTP address {address.shown} is refused",
            cause="other machines could reach it, and there are no users",
            cure="create an administrator: mgw users add NAME --role administrator",
        )
    certificate = None if address.certificate is None else Certificate(*address.certificate)
    app = guarded(application(hub, probes, reach, Budget(has_jobs=has_jobs)), reach)
    word = "; the page on {page}, REST in /api/v1, described on /docs"
    return lambda listener: WebServer(listener, app, certificate), word


@contextmanager
def serving(address: HttpAddress, hub: Hub, probes: Probing) -> Iterator[Face]:
    """Answer about the process until the end of the block."""
    face = Face(address, lambda: opener(address, hub, probes, has_jobs=True))
    try:
        yield face
    finally:
        face.close()


def serve(address: HttpAddress, hub: Hub, log_format: str) -> None:
    """Answer about a hub until SIGTERM or SIGINT, in the main thread of a process that does nothing else.

    Raises:
        GatewayError: the address cannot be used.
    """
    probes = HubProbes(hub)
    with until_ended(log_format):
        face = Face(address, lambda: opener(address, hub, probes, has_jobs=False), patient=False)
    face.close()


class Face:
    """A server, or the attempt to have one.

    Args:
        made: as :func:`opener`.
        patient: a failure is told and tried again; otherwise it is raised.
    """

    def __init__(self, address: HttpAddress, made: Callable[[], tuple[Opens, str]], *, patient: bool = True) -> None:
        self._address = address
        self._made = made
        self._closing = threading.Event()
        self._server: Closes | None = None
        self._mutex = threading.Lock()
        failure = self._open()
        if failure is None:
            return
        if not patient:
            raise failure
        _LOGGER.warning(
            "%s; messages are still carried, and the address is tried again every %.0f s", failure, RETRY_SECONDS
        )
        threading.Thread(target=self._try_again, name="http-open", daemon=True).start()

    def close(self) -> None:
        """Take no more requests."""
        self._closing.set()
        with self._mutex:
            if self._server is not None:
                self._server.close()

    def _open(self) -> GatewayError | None:
        """Listen; gives the reason why that is not possible."""
        try:
            opens, word = self._made()
        except GatewayError as error:
            return error
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
                self._server = opens(listener)
            _LOGGER.info(
                "health and metrics on %s (livez, readyz, healthz, metrics)%s",
                _url(self._address, self._address.host, port),
                word.format(page=_page(self._address, port)),
            )
            return None
        return None if failure is None else _refusal(self._address, failure)

    def _try_again(self) -> None:
        while not self._closing.wait(RETRY_SECONDS):
            if self._open() is None:
                return


def _url(address: HttpAddress, host: str, port: int) -> str:
    scheme = "http" if address.certificate is None else "https"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/"


def _page(address: HttpAddress, port: int) -> str:
    """Where a person finds the page. What a proxy or a container publishes, this process does not know."""
    if not address.everywhere:
        return _url(address, address.host, port)
    if not address.proxied:
        return _url(address, socket.gethostname(), port)
    here = _url(address, "127.0.0.1", port)
    return f"port {port} ({here} unless a container or a proxy publishes it elsewhere)"


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


def _refusal(address: HttpAddress, error: OSError) -> GatewayError:
    taken = error.errno == errno.EADDRINUSE
    last = address.ports[-1]
    many = f" to {last}" if last != address.ports[0] else ""
    return GatewayError(
        f"no health and metrics over HTTP: {address.shown}{many} cannot be used",
        cause="another process listens there" if taken else error.strerror or str(error),
        cure="end that process, or give another address with --http HOST:PORT, auto (the next free port) or off",
    )
