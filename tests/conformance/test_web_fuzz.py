"""Damaged requests at a real server: each is answered or the connection ends, and nothing is a bug of the server."""

from __future__ import annotations

import logging
import os
import random
import socket
import time
from collections import Counter
from pathlib import Path

import pytest

from mgw.gateway.services.hubs import open_hub
from tests.support.fuzz import damaged
from tests.support.ports import LOOPBACK
from tests.support.web import serving

SECONDS = float(os.environ.get("MGW_FUZZ_SECONDS") or 3)
SEED = int(os.environ.get("MGW_FUZZ_SEED") or 20_261_127)
PATIENCE = 20.0

REQUESTS = (
    b"GET /api/v1/jobs?limit=3&name=A* HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n",
    b"GET /api/v1/queues/A/messages?condition=priority%20%3C%203 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"PUT /api/v1/queues/A HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nIf-None-Match: *\r\n"
    b"Content-Length: 27\r\n\r\n" + b'{"multiple_consumers":true}',
    b"POST /api/v1/queues/A/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n" + b'f\r\n{"text":"hello"\r\n1\r\n}\r\n0\r\n\r\n',
    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: application/openmetrics-text\r\nConnection: close\r\n\r\n",
    b"GET /jobs/A?window=3h HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\nX-Part: main\r\n\r\n",
    b"POST /setup/queues/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    b"Content-Length: 14\r\n\r\n" + b"name=X&kind=&a",
)
TOKENS = (
    b"\r\n",
    b"Content-Length: 9999999999\r\n",
    b"%00",
    b"%ff",
    b"\0",
    b"Host: x\r\n",
    b"HTTP/9.9",
    b"../",
    b"?",
    b"e" * 20_000,
)


def answer(port: int, request: bytes) -> bytes:
    """What comes back before the connection ends, or as soon as an answer has begun and nothing more follows."""
    with socket.create_connection((LOOPBACK, port), timeout=PATIENCE) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        found = b""
        while piece := connection.recv(65_536):
            found += piece
        return found


def test_damaged_requests_are_answered_and_nothing_breaks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    chance = random.Random(SEED)
    statuses: Counter[str] = Counter()
    with open_hub(f"sqlite:///{tmp_path}/hub.db", create=True) as hub, serving(hub) as web:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            request = damaged(chance.choice(REQUESTS), REQUESTS, TOKENS, chance)
            try:
                found = answer(web.port, request)
            except ConnectionError:
                found = b""
            status = found.split(b" ", 2)[1].decode("latin-1") if found.startswith(b"HTTP/1.1 ") else "none"
            statuses[status] += 1
            assert not status.startswith("5") or status in ("501", "505"), (request, found[:600])
            assert b"Traceback" not in found, request
        assert web("GET", "/livez").status == 200
    assert sum(statuses.values()) > 20, statuses
    assert len(statuses) > 3, statuses
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR], caplog.text
