"""Connections of the Kafka client that end in the middle of something: whoever is closed leaves no socket behind."""

from __future__ import annotations

import socket
import ssl

import pytest

from mgw.links.kafka.python_client.network import DIRECT, NetClient
from tests.support.brokers import Kafka
from tests.support.kafka_clients import KafkaAdminClient
from tests.support.waiting import eventually

_PATIENCE = 30.0


@pytest.mark.kafka
def test_a_client_that_is_closed_while_it_writes_closes_its_socket(kafka: Kafka) -> None:
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    admin.list_topics()
    transport = next(made.transport for made in admin._manager._conns.values() if made.connected)
    sock = transport._sock
    request = bytes(64 << 20)  # more than what the system keeps for a peer that does not read
    kafka.freeze()
    try:
        admin._manager.call_soon(lambda: transport.write(len(request).to_bytes(4, "big") + request))
        eventually(
            lambda: transport._writing and transport._write_buffer, deadline=_PATIENCE, what="a write that waits"
        )
        admin.close()
        assert sock.fileno() == -1
    finally:
        kafka.thaw()


def test_a_client_that_is_closed_in_a_tls_handshake_closes_its_socket() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(_PATIENCE)
        client = NetClient(
            bootstrap_servers=f"127.0.0.1:{server.getsockname()[1]}",
            security_protocol="SSL",
            ssl_context=ssl.create_default_context(),
            proxy_url=DIRECT,
        )
        client._net.start()
        client._net.call_soon(lambda: client.maybe_connect("bootstrap-0"))
        client.wakeup()
        peer, _ = server.accept()
        with peer:
            peer.settimeout(_PATIENCE)
            assert peer.recv(1), "the client says hello"
            client.close()
            while peer.recv(65536):
                pass


@pytest.mark.kafka
def test_a_server_that_accepts_and_says_nothing_does_not_hide_the_others(kafka: Kafka) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        frozen = [f"127.0.0.1:{each.getsockname()[1]}" for each in (one, other)]
        admin = KafkaAdminClient(bootstrap_servers=[*frozen, kafka.bootstrap], bootstrap_timeout_ms=3000)
        admin.close()
