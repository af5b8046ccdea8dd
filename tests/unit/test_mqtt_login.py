"""Answers to the login that Mosquitto does not give, played by a socket that speaks the bytes of the standard."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from mgw.links.contract import Direction, Endpoint, Guarantee, JobUse, LinkConfig
from mgw.links.mqtt.link import MqttLink, open_link
from mgw.links.nodes import node_of
from mgw.transforms.errors import ConfigInvalid, LinkError, LinkRefused, LinkTimeout, LinkUnavailable

USE = JobUse(Endpoint("q", "plant", "t"), "J")


@contextmanager
def answering(answer: bytes | None) -> Iterator[Callable[..., MqttLink]]:
    """A listener that answers every CONNECT with these bytes (None: never) and closes after that."""
    listener = socket.create_server(("127.0.0.1", 0))
    held: list[socket.socket] = []

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                connection.recv(4096)
                if answer is None:
                    held.append(connection)
                else:
                    connection.sendall(answer)
                    connection.shutdown(socket.SHUT_WR)
                    connection.recv(4096)
                    connection.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()

    def link(**settings: object) -> MqttLink:
        port = listener.getsockname()[1]
        attributes = {"hostname": "127.0.0.1", "port": port, "connect_timeout": 2.0, **settings}
        return open_link(LinkConfig("plant", "MQTT", attributes))

    try:
        yield link
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)
        for connection in held:
            connection.close()


@pytest.mark.parametrize(
    ("version", "answer", "kind", "words"),
    [
        (5, b"\x20\x02\x00\x01", LinkRefused, "does not speak MQTT 5.*set protocol_version to 4"),
        (5, b"\x20\x03\x00\x84\x00", LinkRefused, "does not speak MQTT 5.*set protocol_version to 4"),
        (4, b"\x20\x02\x00\x01", LinkRefused, "does not speak MQTT 3.1.1.*set protocol_version to 5"),
        (4, b"\x20\x02\x00\x02", LinkRefused, "client identifier not valid.*client_id_prefix"),
        (4, b"\x20\x02\x00\x05", LinkRefused, "not authorised.*check user name and password"),
        (5, b"\x20\x03\x00\x88\x00", LinkUnavailable, "server unavailable"),
        (5, b"\x20\x03\x00\x8a\x00", LinkRefused, "banned"),
        (5, b"", LinkUnavailable, "closed the connection before it answered.*protocol_version"),
        (5, b"HTTP/1.1 400 Bad Request\r\n\r\n", LinkError, "plant"),
        (4, b"\x20\x02\x00\x77", LinkError, "plant"),
    ],
)
def test_answer_to_the_login_is_told_in_words(version: int, answer: bytes, kind: type[LinkError], words: str) -> None:
    with answering(answer) as link:
        opened = link(protocol_version=version)
        with pytest.raises(kind, match=words):
            opened.source(USE).connect({})
        (*_, last) = opened.test()
        assert not last.ok
        assert last.detail
        assert last.cure


def test_silent_listener_is_a_timeout() -> None:
    with answering(None) as link, pytest.raises(LinkTimeout, match="no CONNACK within"):
        link(connect_timeout=0.5).source(USE).connect({})


def test_broker_with_qos_0_only_is_refused() -> None:
    with answering(b"\x20\x05\x00\x00\x02\x24\x00") as link:
        for direction in Direction:
            with pytest.raises(LinkError) as raised:
                link().verify(USE, direction)
            assert "QoS" in str(raised.value)


def test_broker_that_keeps_no_session_is_refused_unless_messages_may_be_lost() -> None:
    with answering(b"\x20\x08\x00\x00\x05\x11\x00\x00\x00\x00") as link:
        attributes = link().config.attributes
        opened = open_link(LinkConfig("plant", "MQTT", attributes, {"MQTT_CyclicPacketIds": "TRUE"}))
        with pytest.raises(LinkRefused, match=r"keeps no session of 't'.*MQTT_Qos = 0"):
            opened.source(USE).connect({})
        at_most_once = JobUse(Endpoint("q", "plant", "t", None, {"MQTT_Qos": "0"}), "J")
        with pytest.raises(LinkUnavailable):  # got over the login; this one closes before the subscription
            opened.source(at_most_once).connect({})


def test_unknown_host_is_named() -> None:
    link = open_link(LinkConfig("plant", "MQTT", {"hostname": "no-such-host.invalid"}))
    with pytest.raises(LinkUnavailable, match=r"no-such-host.invalid.*cannot be resolved"):
        link.source(USE).connect({})


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"hostname": "h", "protocol_version": 3},
        {"hostname": "h", "tls_ca_file": "ca.pem"},
        {"hostname": "h", "port": 0},
        {"hostname": "h", "colour": "red"},
    ],
)
def test_bad_attribute_is_refused(attributes: dict[str, object]) -> None:
    with pytest.raises(ConfigInvalid, match="link plant"):
        open_link(LinkConfig("plant", "MQTT", attributes))


def test_unreadable_tls_file_is_named() -> None:
    link = open_link(LinkConfig("plant", "MQTT", {"hostname": "h", "tls": True, "tls_ca_file": "/no/such/ca.pem"}))
    with pytest.raises(LinkRefused, match=r"/no/such/ca.pem"):
        link.source(USE).connect({})


def test_password_is_never_shown() -> None:
    config = LinkConfig("plant", "MQTT", {"hostname": "h"}, username="me", password="s3cret")
    assert "s3cret" not in repr(open_link(config)._settings)


class Node:
    """A node of a cluster: answers each CONNECT, and a SUBSCRIBE only if ``subscribes``; keeps the connect flags."""

    def __init__(self, *, subscribes: bool) -> None:
        self.logins: list[int] = []
        self._subscribes = subscribes
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._connections: list[socket.socket] = []

    def __enter__(self) -> Node:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)
        self.cut()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            while packet := connection.recv(4096):
                if packet[0] >> 4 == 1:
                    self.logins.append(packet[9])
                    connection.sendall(b"\x20\x03\x00\x00\x00")
                elif packet[0] >> 4 == 8 and self._subscribes:
                    connection.sendall(b"\x90\x04\x00\x01\x00" + (b"\x87" if b"$SYS" in packet else b"\x01"))
                elif packet[0] >> 4 == 14:
                    break

    def cut(self) -> None:
        """End every connection."""
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def link_to(*nodes: Node, **options: str) -> MqttLink:
    attributes = {"hosts": ",".join(node.address for node in nodes), "connect_timeout": 0.3}
    return open_link(LinkConfig("plant", "MQTT", attributes, {"MQTT_CyclicPacketIds": "TRUE", **options}))


def test_a_node_that_does_not_subscribe_or_loses_a_connection_twice_is_tried_last() -> None:
    with Node(subscribes=False) as mute, Node(subscribes=True) as first, Node(subscribes=True) as second:
        link = link_to(mute, first, second)
        source = link.source(USE)
        with pytest.raises(LinkTimeout, match="no SUBACK"):
            source.connect({})
        source.connect({})
        assert node_of(link) == first.address
        source.close()
        source.connect({})
        assert node_of(link) == first.address, "an end that we chose"
        for next_one in (first, second):  # the session is at the first: a connection alone may be lost on the way
            first.cut()
            with pytest.raises(LinkUnavailable, match="closed the connection"):
                source.read(1, 10)
            source.close()
            source = link.source(USE)
            source.connect({})
            assert node_of(link) == next_one.address
        source.close()


def test_a_job_is_forgotten_at_each_node() -> None:
    clean = 0x02
    with Node(subscribes=True) as first, Node(subscribes=True) as second:
        link_to(first, second).forget(USE, Direction.INBOUND)
        assert [node.logins for node in (first, second)] == [[clean, clean]] * 2, "each of its two sessions"
        with Node(subscribes=True) as gone:
            pass
        with pytest.raises(LinkUnavailable, match=gone.address):
            link_to(gone, second).forget(USE, Direction.INBOUND)
        assert len(second.logins) == 4


def test_a_job_of_several_nodes_keeps_a_receiving_log_only_if_they_are_declared_to_share_sessions() -> None:
    with Node(subscribes=True) as first, Node(subscribes=True) as second:
        for declared, level in (("FALSE", Guarantee.AT_LEAST_ONCE), ("TRUE", Guarantee.EXACT_UNLESS_BROKER_CRASH)):
            link = link_to(first, second, MQTT_SharedSessions=declared)
            report = link.verify(USE, Direction.INBOUND)
            assert (report.level, "MQTT_SharedSessions" in report.note) == (level, declared == "FALSE"), report
            assert "above its queue limit" in report.note
            source = link.source(USE)
            source.connect({})
            logged = [position.partition for position in source.read(1, 0).positions]
            assert logged == (["session"] if declared == "TRUE" else []), "ids of one node mean nothing at another"
            source.close()
