"""``python -m mgw.gateway.http.probe``: ask the agent of this container or machine whether it is healthy.

Exits with 0 when ``/healthz`` says so, and otherwise with 1 and the reasons. It finds the agent by ``MGW_HTTP``, and
imports next to nothing, since it is run every few seconds. Where ``MGW_HTTP`` is ``off`` it runs
``mgw status --check``, which costs several times as much.
"""

import os
import socket
import sys

__all__ = ["main"]

_SECONDS = 8.0


def _address(text: str) -> tuple[str, int]:
    """Where to ask an agent that listens there."""
    if text == "auto":
        text = "8787"  # the first that is tried
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    return {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), int(port)  # noqa: S104  (to ask, not to listen)


def _ask(host: str, port: int) -> tuple[int, str]:
    """Status and body of ``/healthz``."""
    with socket.create_connection((host, port), timeout=_SECONDS) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        received = b""
        while piece := connection.recv(65536):
            received += piece
    head, _, body = received.decode("utf-8", "replace").partition("\r\n\r\n")
    return int(head.split(" ", 2)[1]), body


def main() -> int:
    """Ask, say what is wrong; the exit code."""
    configured = (os.environ.get("MGW_HTTP") or "127.0.0.1:8787").strip().lower()
    if configured == "off":
        os.execvp("mgw", ["mgw", "status", "--check"])  # noqa: S606, S607
    try:
        status, body = _ask(*_address(configured))
    except (OSError, ValueError, IndexError) as error:
        sys.stdout.write(f"no answer at {configured}: {error}\n")
        return 1
    if status == 200:
        return 0
    import json

    try:
        lines = json.loads(body)["reasons"]
    except (ValueError, KeyError):
        lines = [body]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 1


if __name__ == "__main__":
    sys.exit(main())
