"""Whether somebody listens at an address."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mgw.links.listening import address, listening
from tests.support.ports import LOOPBACK, free_port


@contextmanager
def listener(*, stays: bool) -> Iterator[int]:
    """A port whose connections stay open, or end at once as those of a relay with nobody behind it."""
    with socket.create_server((LOOPBACK, 0)) as server:
        kept: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                if stays:
                    kept.append(client)
                else:
                    client.close()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(5)
            for client in kept:
                client.close()


def test_a_port_that_accepts_connections_is_told_from_one_that_refuses_them() -> None:
    closed = free_port()
    with listener(stays=True) as port:
        assert listening([(LOOPBACK, closed), (LOOPBACK, port)]) == {f"{LOOPBACK}:{port}"}
        assert listening([("localhost", port)]) == {f"localhost:{port}"}, "a name has several addresses"


def test_a_relay_with_nobody_behind_it_does_not_listen() -> None:
    with listener(stays=False) as port:
        assert listening([(LOOPBACK, port)]) == frozenset()


@pytest.mark.parametrize("host", ["no such name", "", "x" * 300, "a..b"])
def test_a_name_that_cannot_be_resolved_does_not_listen(host: str) -> None:
    assert listening([(host, 1)]) == frozenset()
    assert listening([]) == frozenset()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("kafka1.example:9093", ("kafka1.example", 9093)),
        (" kafka1 ", ("kafka1", 9092)),
        ("[::1]:9093", ("::1", 9093)),
        ("::1", ("::1", 9092)),
    ],
)
def test_an_address_is_read_as_people_write_it(text: str, found: tuple[str, int]) -> None:
    assert address(text, 9092) == found
