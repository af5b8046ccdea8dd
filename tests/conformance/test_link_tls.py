"""TLS means the same on every messaging system, with real brokers that demand a client certificate."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mgw.links import registry
from mgw.links.contract import Endpoint, Link, LinkConfig
from mgw.transforms.errors import ConfigInvalid, GatewayError, LinkError
from mgw.transforms.message import Message
from tests.conformance.link_suite import Pair, reading, unique, use_of, writing
from tests.support.brokers import Kafka, Mosquitto, RabbitMQ
from tests.support.certificates import Certificates

pytestmark = [pytest.mark.kafka, pytest.mark.rabbitmq]

SECRET = "key of the key: 7"


@dataclass(frozen=True)
class Secure:
    """A broker whose certificate is for ``localhost`` alone, reached as 127.0.0.1 unless told otherwise."""

    type: str
    port: int
    certificates: Certificates
    more: Mapping[str, Any]
    broker: Any

    def attributes(self, host: str = "localhost") -> dict[str, Any]:
        made = self.certificates
        files = {"tls_cert_file": str(made.client), "tls_key_file": str(made.client_key)}
        where = {"hostname": host, "port": self.port}
        if self.type == "KAFKA":
            where = {"bootstrap_servers": f"{host}:{self.port}"}
        return {**where, **self.more, "tls": True, "tls_ca_file": str(made.ca), **files}

    def link(self, host: str = "localhost", **changes: Any) -> Link:
        return registry.open_link(LinkConfig("plant", self.type, self.attributes(host) | changes))

    def pair(self) -> Pair:
        name = unique("tls")
        if self.type == "RABBITMQ":
            self.broker.ctl(
                "eval", f'rabbit_amqqueue:declare({{resource,<<"/">>,queue,<<"{name}">>}},true,false,[],none,<<"t">>).'
            )
        elif self.type == "KAFKA":
            self.broker.create_topic(name)
        found = Endpoint("q", "plant", name)
        return Pair(found, found)


def _demands(broker: Any) -> Any:
    assert broker.certificates is not None
    broker.certificates.issue("server", names=("localhost",), server=True)
    return broker


@pytest.fixture(scope="module")
def brokers() -> Iterator[Mapping[str, Any]]:
    with ExitStack() as started:
        yield {
            "RABBITMQ": started.enter_context(
                _demands(RabbitMQ(tls=True, config=("ssl_options.fail_if_no_peer_cert = true",)))
            ),
            "KAFKA": started.enter_context(_demands(Kafka(tls=True, config={"ssl.client.auth": "required"}))),
            "MQTT": started.enter_context(_demands(Mosquitto(tls=True, config=("require_certificate true",)))),
        }


KINDS = ("rabbitmq", "mqtt", "kafka-python", "confluent")


@pytest.fixture(params=KINDS)
def secure(request: pytest.FixtureRequest, brokers: Mapping[str, Any]) -> Secure:
    kind = str(request.param)
    system = kind.upper() if kind in ("rabbitmq", "mqtt") else "KAFKA"
    broker = brokers[system]
    more = {"client": kind} if system == "KAFKA" else {}
    return Secure(system, broker.tls_port, broker.certificates, more, broker)


def refusal(link: Link) -> GatewayError:
    """Why the link does not connect."""

    def connect() -> None:
        destination = link.destination(use_of(Endpoint("q", "plant", "nothing")))
        try:
            destination.connect()
        finally:
            destination.close()

    with pytest.raises(GatewayError) as raised:
        connect()
    error = raised.value
    assert isinstance(error, LinkError | ConfigInvalid), error
    assert error.cause
    return error


def test_verified_with_a_client_certificate_and_told(secure: Secure) -> None:
    link, pair = secure.link(), secure.pair()
    checks = link.test()
    assert [check for check in checks if not check.ok] == []
    with reading(link, pair) as reader, writing(link, pair) as writer:
        writer.deliver(Message(b"over TLS"))
        assert reader.bodies(1) == [b"over TLS"]


def test_what_is_wrong_has_its_cure(secure: Secure) -> None:
    made = secure.certificates
    expired = made.issue("expired", valid=timedelta(hours=-2))
    strange = made.issue("strange", other=True)
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("authority", {"tls_ca_file": str(made.other_ca)}, "tls_ca_file"),
        ("none", {"tls_cert_file": None, "tls_key_file": None}, "tls_cert_file"),
        ("expired", dict(zip(("tls_cert_file", "tls_key_file"), map(str, expired), strict=True)), "tls_cert_file"),
        ("strange", dict(zip(("tls_cert_file", "tls_key_file"), map(str, strange), strict=True)), "tls_cert_file"),
        ("key", {"tls_key_file": str(strange[1])}, "tls_key_file"),
        ("missing", {"tls_key_file": "/nowhere/key.pem"}, "tls_key_file"),
        ("folder", {"tls_ca_file": str(made.folder)}, "tls_ca_file"),
        ("no key", {"tls_key_file": None}, "tls_key_file"),
    ]
    told = {}
    for name, changes, cure in wrong:
        try:
            error: GatewayError = refusal(secure.link(**changes))
        except ConfigInvalid as refused:  # as soon as it is defined
            error = refused
        told[name] = (cure in error.cure, str(error))
    assert all(good for good, _ in told.values()), told


def test_the_name_of_the_certificate(secure: Secure) -> None:
    wrong = secure.link("127.0.0.1")
    error = refusal(wrong)
    assert "tls_server_name" in error.cure, str(error)
    last = wrong.test()[-1]
    assert not last.ok
    assert "tls_server_name" in last.cure
    if secure.more == {"client": "confluent"}:
        with pytest.raises(ConfigInvalid, match="tls_server_name is refused"):
            secure.link("127.0.0.1", tls_server_name="localhost")
        return
    assert all(check.ok for check in secure.link("127.0.0.1", tls_server_name="localhost").test())
    assert "tls_server_name" in refusal(secure.link(tls_server_name="elsewhere.example")).cure


def test_verification_that_is_off_is_told_at_every_connect(secure: Secure, caplog: pytest.LogCaptureFixture) -> None:
    link = secure.link("127.0.0.1", tls_verify=False, tls_ca_file=None)
    pair = secure.pair()
    with caplog.at_level(logging.WARNING, "mgw.links.tls"):
        for _ in range(2):
            caplog.clear()
            with writing(link, pair) as writer:
                writer.deliver(Message(b"x"))
            assert "link plant" in caplog.text
            assert "is not verified" in caplog.text
    checks = link.test()
    assert all(check.ok for check in checks)
    assert any("NOT verified" in check.detail for check in checks)


def test_an_encrypted_key_has_a_password_that_is_never_shown(secure: Secure) -> None:
    certificate, key = secure.certificates.issue("locked", password=SECRET)
    files = {"tls_cert_file": str(certificate), "tls_key_file": str(key)}
    link = secure.link(**files, tls_key_password=SECRET)
    assert all(check.ok for check in link.test())
    for password in (None, "wrong one"):
        try:
            error: GatewayError = refusal(secure.link(**files, tls_key_password=password))
        except ConfigInvalid as refused:
            error = refused
        assert "tls_key_password" in f"{error.cause} {error.cure}"
        assert "wrong one" not in str(error)
    settings: Any = link
    assert SECRET not in repr(settings._settings)


def test_renewed_files_are_used_at_the_next_connect(secure: Secure, tmp_path: Path) -> None:
    made, pair = secure.certificates, secure.pair()
    files = {name: tmp_path / name for name in ("tls_ca_file", "tls_cert_file", "tls_key_file")}

    def put(authority: Path, certificate: Path, key: Path) -> None:
        for file, source in zip(files.values(), (authority, certificate, key), strict=True):
            shutil.copy(source, file)

    put(made.ca, made.client, made.client_key)
    link = secure.link(**{name: str(file) for name, file in files.items()})
    with writing(link, pair) as writer:
        writer.deliver(Message(b"before"))
    put(made.ca, *made.issue("old", valid=timedelta(hours=-2)))
    assert "renew" in refusal(link).cure or "tls_cert_file" in refusal(link).cure
    put(made.ca, *made.issue("renewed"))
    with writing(link, pair) as writer:
        writer.deliver(Message(b"after"))


def test_a_key_without_a_certificate_is_refused(secure: Secure) -> None:
    with pytest.raises(ConfigInvalid, match="tls_key_file is given without tls_cert_file"):
        secure.link(tls_cert_file=None)
