"""Links that name several nodes: in which order they are tried, and what is said of those that do not answer."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mgw.links.contract import LinkConfig
from mgw.links.nodes import Node, Nodes, node_of
from mgw.links.registry import open_link
from mgw.transforms.errors import ConfigInvalid, LinkError, LinkRefused, LinkTimeout, LinkUnavailable

A, B, C = (Node(name, 5672) for name in "abc")


def nodes_of(**attributes: Any) -> list[str]:
    link: Any = open_link(LinkConfig("plant", "RABBITMQ", attributes))
    return [str(node) for node in link._settings.nodes.all]


def test_hosts_come_after_a_hostname_that_is_set_and_take_the_port_of_the_link() -> None:
    assert nodes_of() == ["localhost:5672"]
    assert nodes_of(hosts="a, b:5673,[::1]") == ["a:5672", "b:5673", "::1:5672"]
    assert nodes_of(hostname="b", hosts="a,b,c", port=1) == ["b:1", "a:1", "c:1"]
    assert nodes_of(hosts="a,b:1", tls=True) == ["a:5671", "b:1"]


@pytest.mark.parametrize("hosts", ["a b", "a:0", "a:70000", "amqp://a", "a:b", "[", ":5672"])
def test_an_address_that_cannot_be_is_refused(hosts: str) -> None:
    with pytest.raises(ConfigInvalid, match="hosts cannot have"):
        nodes_of(hosts=f"good,{hosts}")


@pytest.mark.parametrize("kind", ["RABBITMQ", "MQTT"])
@pytest.mark.parametrize(
    ("hostname", "shown", "cure"),
    [
        ("amqp://gw:secret@mq.example:5672/v", "mq.example:5672/v", "port, login and TLS are attributes of their own"),
        ("mq.example:5672", "mq.example:5672", "port, login and TLS"),
        ("mq.example/", "mq.example/", "port, login and TLS"),
        ("[::1]", "[::1]", "port, login and TLS"),
        ("mq1,mq2", "mq1,mq2", "name several nodes in hosts"),
    ],
)
def test_a_hostname_is_one_name_or_address(kind: str, hostname: str, shown: str, cure: str) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        open_link(LinkConfig("plant", kind, {"hostname": hostname}))
    assert refused.value.what == f"link plant: hostname cannot be {shown!r}"
    assert cure in refused.value.cure
    assert "secret" not in str(refused.value)
    for good in ("localhost", "mq-1.example.org", "10.0.0.1", "::1", "fe80::1%eth0"):
        open_link(LinkConfig("plant", kind, {"hostname": good}))


def test_what_an_mqtt_link_of_several_nodes_cannot_be() -> None:
    link: Any = open_link(LinkConfig("plant", "MQTT", {"hosts": "a,b:1884"}))
    assert [str(node) for node in link._settings.nodes.all] == ["a:1883", "b:1884"]
    with pytest.raises(ConfigInvalid, match="outbound_log_queue is refused"):
        open_link(LinkConfig("plant", "MQTT", {"hosts": "a,b"}, outbound_log_queue="mgw/sent/{job}"))
    with pytest.raises(ConfigInvalid, match="hostname is missing"):
        open_link(LinkConfig("plant", "MQTT", {}))


def attempts(*answers: LinkError | None) -> tuple[list[Node], Any]:
    """What was tried, and an attempt that answers so."""
    tried: list[Node] = []
    left = iter(answers)

    def attempt(node: Node) -> Node:
        tried.append(node)
        if (error := next(left)) is not None:
            raise error
        return node

    return tried, attempt


def test_a_connection_begins_with_the_node_that_answered_last_and_ends_with_one_that_failed() -> None:
    nodes = Nodes([A, B, C])
    assert nodes.last == ""
    tried, attempt = attempts(LinkUnavailable(), None, None, None)
    assert nodes.connect(attempt) == B
    assert (nodes.connect(attempt), tried, nodes.last) == (B, [A, B, B], "b:5672")
    nodes.failed(B)
    nodes.failed(B)  # by another job: once is enough
    assert nodes.connect(attempt) == C


def test_who_loses_a_connection_returns_to_the_node_once() -> None:
    nodes = Nodes([A, B, C])
    _, attempt = attempts(LinkUnavailable(), None, None, None)
    assert nodes.connect(attempt, "J") == B
    nodes.lost(B, "J")
    nodes.failed(B)  # by another job
    assert nodes.connect(attempt) == C
    assert nodes.connect(attempt, "J") == B
    nodes.lost(B, "J")
    nodes.lost(C, "K")
    tried, again = attempts(None, LinkUnavailable(), None)
    assert nodes.connect(again, "J") == C, "B lost it twice"
    assert (nodes.connect(again, "K"), tried) == (A, [C, C, A]), "C does not answer any more"


def test_a_thread_knows_the_node_of_its_own_connection() -> None:
    nodes = Nodes([A, B])
    _, attempt = attempts(LinkUnavailable(), None)
    assert nodes.connect(attempt) == B
    nodes.failed(B)
    with ThreadPoolExecutor(1) as other:
        assert other.submit(nodes.connect, lambda node: node).result() == A
        assert (other.submit(lambda: nodes.last).result(), nodes.last) == ("a:5672", "b:5672")
    with ThreadPoolExecutor(1) as third:
        assert third.submit(lambda: nodes.last).result() == "a:5672", "without a connection: the one that answered last"


def test_of_several_errors_a_refusal_is_told_and_the_others_are_named() -> None:
    tried, attempt = attempts(LinkTimeout("t", cause="slow"), LinkRefused("r", cause="password"), LinkUnavailable())
    with pytest.raises(LinkRefused) as caught:
        Nodes([A, B, C]).connect(attempt)
    assert tried == [A, B, C]
    assert caught.value.cause == "password; the other nodes: a:5672: slow, c:5672: "


@pytest.fixture
def deaf() -> Iterator[int]:
    """A port that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_each_node_has_the_connect_timeout_and_its_own_place_in_the_error(deaf: int) -> None:
    options = {"AMQP_ConnectTimeout": "0.2"}
    link = open_link(LinkConfig("plant", "RABBITMQ", {"hosts": f"127.0.0.1:{deaf},127.0.0.1:1"}, options))
    assert node_of(link) == ""
    checks = link.test()
    assert [each.detail for each in checks[:2]] == [
        f"127.0.0.1:{deaf} accepts connections; it is tested",
        "127.0.0.1:1 does not answer; jobs pass it over",
    ]
    assert not checks[-1].ok
    assert f"127.0.0.1:{deaf}" in checks[-1].detail
