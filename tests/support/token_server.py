"""An HTTPS server of the tests' own that gives tokens to those who show client id and secret (RFC 6749 §4.4)."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, unquote

from tests.support.certificates import Certificates

__all__ = ["TokenServer", "unsigned_token"]


def unsigned_token(subject: str, scope: str, seconds: float) -> str:
    """A JSON web token without a signature."""

    def part(content: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")

    now = time.time()
    claims = {"sub": subject, "scope": scope, "iat": now, "exp": now + seconds}
    return f"{part({'alg': 'none'})}.{part(claims)}."


class TokenServer:
    """A context manager; ``url`` is its token endpoint. Tokens live for ``seconds``; ``given`` are those so far."""

    def __init__(self, certificates: Certificates, client: str, secret: str, seconds: float = 3600.0) -> None:
        self.seconds = seconds
        self.given: list[str] = []
        self.status = 200  # of every answer to those who show the right secret
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                login = base64.b64decode(self.headers.get("Authorization", "").removeprefix("Basic ")).decode()
                shown = tuple(unquote(each) for each in login.partition(":")[::2])
                if shown != (client, secret) or form.get("grant_type") != ["client_credentials"]:
                    self._answer(401, {"error": "invalid_client", "error_description": "who are you"})
                elif owner.status != 200:
                    self._answer(owner.status, {"error": "server_error"})
                else:
                    token = unsigned_token(client, form.get("scope", [""])[0], owner.seconds)
                    owner.given.append(token)
                    answer = {"access_token": token, "token_type": "Bearer", "expires_in": owner.seconds}
                    self._answer(200, answer)

            def _answer(self, status: int, content: object) -> None:
                body = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.server, certificates.server_key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://localhost:{self._server.server_address[1]}/token"
        self._thread = threading.Thread(target=self._server.serve_forever, name="token-server")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
