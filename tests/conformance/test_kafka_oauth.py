"""The login OAUTHBEARER at a real Kafka, with both clients and a token server of the tests' own."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mgw.links.contract import Endpoint, Link, LinkConfig
from mgw.links.kafka.link import open_link
from mgw.transforms.errors import ConfigInvalid, GatewayError, LinkError, LinkRefused, LinkUnavailable
from mgw.transforms.message import Message
from tests.conformance.link_suite import Pair, reading, unique, use_of, writing
from tests.support.brokers import Kafka
from tests.support.token_server import TokenServer, unsigned_token

pytestmark = pytest.mark.kafka

CLIENT, SECRET = "gate way:1", "s3cret & more/é"
CLIENTS = ("kafka-python", "confluent")


@pytest.fixture(scope="module")
def broker() -> Iterator[Kafka]:
    with Kafka(tls=True, oauth=True) as server:
        yield server


@pytest.fixture
def tokens(broker: Kafka) -> Iterator[TokenServer]:
    assert broker.certificates is not None
    with TokenServer(broker.certificates, CLIENT, SECRET) as server:
        yield server


def link_to(broker: Kafka, client: str, password: str | None = SECRET, **changes: Any) -> Link:
    assert broker.certificates is not None
    attributes = {
        "bootstrap_servers": broker.oauth_bootstrap,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "OAUTHBEARER",
        "tls_ca_file": str(broker.certificates.ca),
        "oauth_scope": "kafka",
        "client": client,
    }
    return open_link(LinkConfig("bus", "KAFKA", attributes | changes, username=password and CLIENT, password=password))


def with_server(broker: Kafka, tokens: TokenServer, client: str, **changes: Any) -> Link:
    assert broker.certificates is not None
    given = {"oauth_token_url": tokens.url, "oauth_ca_file": str(broker.certificates.ca)} | changes
    return link_to(broker, client, **given)


def pair_at(broker: Kafka) -> Pair:
    topic = unique("oauth")
    broker.create_topic(topic)
    found = Endpoint("q", "bus", topic)
    return Pair(found, found)


def refusal(link: Link) -> GatewayError:
    def connect() -> None:
        destination = link.destination(use_of(Endpoint("q", "bus", "nothing")))
        try:
            destination.connect()
        finally:
            destination.close()

    with pytest.raises(LinkError) as raised:
        connect()
    return raised.value


@pytest.mark.parametrize("client", CLIENTS)
def test_messages_go_on_when_tokens_end(broker: Kafka, tokens: TokenServer, client: str) -> None:
    """The broker ends a connection whose token has ended: each client shows a new one before."""
    tokens.seconds = 8.0  # a token is a second old when it is shown, on a loaded machine
    link, pair = with_server(broker, tokens, client), pair_at(broker)
    assert all(check.ok for check in link.test())
    sent = 0
    deadline = time.monotonic() + 60
    with reading(link, pair) as reader, writing(link, pair) as writer:
        while len(tokens.given) < 4:
            assert time.monotonic() < deadline, tokens.given
            writer.deliver(Message(b"%d" % sent))
            assert reader.bodies(1) == [b"%d" % sent]
            sent += 1
    assert sent > 1


@pytest.mark.parametrize("client", CLIENTS)
def test_what_is_wrong_is_told_and_no_secret(
    broker: Kafka, tokens: TokenServer, client: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    error = refusal(with_server(broker, tokens, client, password="another"))
    assert isinstance(error, LinkRefused)
    assert "401 (who are you)" in error.cause
    assert "secret" in error.cure
    assert "oauth_ca_file" in refusal(with_server(broker, tokens, client, oauth_ca_file=None)).cure
    tokens.status = 503
    error = refusal(with_server(broker, tokens, client))
    assert isinstance(error, LinkUnavailable)
    assert "503" in error.cause
    tokens.status = 307
    assert "redirects are not followed" in refusal(with_server(broker, tokens, client)).cause
    tokens.status = 200
    wrong = with_server(broker, tokens, client, oauth_scope="other")
    denied = refusal(wrong)
    assert isinstance(denied, LinkRefused)
    told = [str(error), str(denied), repr(wrong.__dict__), *(check.detail for check in wrong.test()), caplog.text]
    for secret in (SECRET, "another", *tokens.given):
        assert not [text for text in told if secret in text], secret


@pytest.mark.parametrize("client", CLIENTS)
def test_a_token_from_a_file_that_is_renewed(broker: Kafka, client: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    link, pair = link_to(broker, client, None, oauth_token_file=str(file)), pair_at(broker)
    assert str(file) in refusal(link).cause
    file.write_text(unsigned_token("me", "kafka", -5.0))
    assert "has ended" in refusal(link).cause
    file.write_text(unsigned_token("me", "kafka", 300.0) + "\n")
    with writing(link, pair) as writer:
        writer.deliver(Message(b"x"))


def test_a_token_that_cannot_be_renewed_serves_until_it_ends(
    broker: Kafka, tokens: TokenServer, caplog: pytest.LogCaptureFixture
) -> None:
    tokens.seconds = 3.0
    source: Any = with_server(broker, tokens, "kafka-python")
    held = source._settings.tokens
    first = held.token()
    tokens.status = 503
    deadline = time.monotonic() + 60
    while not caplog.text:
        assert time.monotonic() < deadline
        assert held.token() == first
        time.sleep(0.05)
    assert "the token in use ends in" in caplog.text

    def ask_on() -> None:
        while time.monotonic() < deadline:
            held.token()
            time.sleep(0.05)

    with pytest.raises(LinkUnavailable):
        ask_on()


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({}, "oauth_token_url"),
        ({"oauth_token_url": "https://a/b", "oauth_token_file": "f"}, "not both"),
        ({"oauth_token_url": "http://tokens.example/b"}, "unencrypted"),
        ({"oauth_token_url": "https://me:secret@a/b"}, "without a login"),
        ({"oauth_token_file": "f", "oauth_extensions": "auth=x"}, "oauth_extensions"),
    ],
)
def test_impossible_settings_are_refused(broker: Kafka, changes: dict[str, str], match: str) -> None:
    with pytest.raises(ConfigInvalid, match=match):
        link_to(broker, "kafka-python", **changes)
