"""uvicorn in a thread of a process that has other things to do."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from pathlib import Path
from typing import Any

import uvicorn
from anyio.to_thread import current_default_thread_limiter

from mgw.gateway.http import limits
from mgw.gateway.http.guard import Guard
from mgw.gateway.http.protocol import Protocol
from mgw.transforms.errors import ConfigInvalid

__all__ = ["Certificate", "WebServer"]

_LOGGER = logging.getLogger("mgw.http")

_LOOK_SECONDS = 5.0  # between two looks at the files of a certificate
_CLOSE_SECONDS = 2  # for requests in work when the server ends


class Certificate:
    """A certificate in files, which are read again when they change; connections that are open keep the old one.

    Raises:
        ConfigInvalid: the files cannot be used.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        self._files = (certificate, key)
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._seen: Any = None
        try:
            self._load()
        except (OSError, ssl.SSLError) as error:
            raise ConfigInvalid(
                f"the certificate {certificate} with the key {key} cannot be used",
                cause=str(error),
                cure="name PEM files: the certificate with its chain, and its key without a passphrase",
            ) from error

    def look(self) -> None:
        """Read the files again, if they have changed and can be used."""
        try:
            if self._stamp() != self._seen:
                self._load()
                _LOGGER.info("certificate %s was read again", self._files[0])
        except (OSError, ssl.SSLError) as error:
            _LOGGER.warning(
                "certificate %s has changed and cannot be used; cause: %s; cure: replace it; "
                "the one that was read before is used further",
                self._files[0],
                error,
            )

    def _stamp(self) -> Any:
        return [(found.st_mtime_ns, found.st_ino, found.st_size) for found in (path.stat() for path in self._files)]

    def _load(self) -> None:
        self._seen = self._stamp()
        self.context.load_cert_chain(*self._files)


class WebServer:
    """Answers on a listening socket until it is closed."""

    def __init__(self, listener: socket.socket, app: Guard, certificate: Certificate | None = None) -> None:
        config = uvicorn.Config(
            app,
            http=Protocol,
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=_CLOSE_SECONDS,
            h11_max_incomplete_event_size=limits.HEADER_BYTES,
        )
        config.load()
        if certificate is not None:
            config.ssl = certificate.context
        self._server = uvicorn.Server(config)
        self._certificate = certificate
        self._listener = listener
        self._app = app
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self._thread.start()
        if certificate is not None:
            threading.Thread(target=self._look, name="http-certificate", daemon=True).start()

    def close(self) -> None:
        """Take no more requests; those in work get a moment."""
        self._closing.set()
        self._server.should_exit = True
        self._app.end()
        self._thread.join(_CLOSE_SECONDS + limits.REQUEST_SECONDS)
        self._listener.close()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException:
            _LOGGER.exception("the web server has ended")

    async def _serve(self) -> None:
        current_default_thread_limiter().total_tokens = limits.WORKERS
        await self._server.serve(sockets=[self._listener])

    def _look(self) -> None:
        while not self._closing.wait(_LOOK_SECONDS):
            if self._certificate is not None:
                self._certificate.look()
