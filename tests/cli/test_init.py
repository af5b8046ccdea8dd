"""``mgw init``: a file for each pair of messaging systems has no findings, and works once the brokers are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from mgw.gateway.cli.reference import examples
from mgw.gateway.services.skeleton import pairs
from tests.cli.conftest import ROOT, Mgw
from tests.faults.ends.rabbitmq import declare
from tests.support.brokers import Mosquitto, RabbitMQ
from tests.support.certificates import Certificates
from tests.support.waiting import eventually

PAIRS = [pytest.param(source, target, id=f"{source}-to-{target}") for source, target in pairs()]


def test_there_are_nine_pairs() -> None:
    assert len(PAIRS) == 9


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_the_file_of_each_pair_is_right_as_it_is(mgw: Mgw, source: str, target: str) -> None:
    mgw.environ["PYTHONWARNINGS"] = "default"  # the client of Kafka uses what Python deprecates
    out = mgw.ok("init", "--from", source, "--to", target)
    assert out.splitlines()[0] == "gateway.yaml written; next:"
    assert "  mgw apply gateway.yaml" in out.splitlines()
    assert mgw.ok("lint", "--strict", "gateway.yaml") == "gateway.yaml: no problems found\n"
    assert mgw.ok("plan", "gateway.yaml").splitlines()[-1].startswith("apply then prepares link ")
    assert mgw.ok("init", "-", "--from", source, "--to", target) == (mgw.folder / "gateway.yaml").read_text("utf-8")


@pytest.mark.parametrize("name", sorted(examples()))
def test_the_examples_are_what_init_writes(name: str) -> None:
    made = (ROOT / "conf" / "examples" / name).read_text("utf-8")
    assert made == examples()[name], "run: .venv/bin/python -m mgw.gateway.cli.reference"


def test_the_file_for_brokers_with_tls_and_a_login_asks_for_the_passwords(mgw: Mgw) -> None:
    mgw.environ["PYTHONWARNINGS"] = "default"  # the client of Kafka uses what Python deprecates
    out = mgw.ok("init", "--tls", "--from", "rabbitmq", "--to", "kafka").splitlines()
    assert "  # create, if it is not there yet: queue orders of RabbitMQ, topic orders.copy of Apache Kafka" in out
    assert (mgw.folder / "gateway.yaml").read_text("utf-8") == examples()["rabbitmq-to-kafka.yaml"]
    refused = mgw("lint", "gateway.yaml")
    assert refused.code == 78
    assert "set TARGET_PASSWORD or TARGET_PASSWORD_FILE" in refused.out
    (mgw.folder / "secret").write_text("s3cret-word\n")
    secret = str(mgw.folder / "secret")
    mgw.environ |= {"SOURCE_PASSWORD_FILE": secret, "TARGET_PASSWORD_FILE": secret}
    without = mgw("lint", "gateway.yaml")
    assert "the TLS files cannot be used: /etc/mgw/ca.pem: " in without.out
    authority = str(Certificates(mgw.folder / "tls").ca)
    mgw.environ |= {"SOURCE_CA_FILE": authority, "TARGET_CA_FILE": authority}
    for name, text in examples().items():
        assert mgw.ok("lint", "--strict", mgw.file(text, name)) == f"{name}: no problems found\n"


def test_a_file_is_not_written_over(mgw: Mgw) -> None:
    mgw.file("version: 1\n")
    result = mgw("init")
    assert result.code == 1
    assert "gateway.yaml is not written" in result.err
    assert (mgw.folder / "gateway.yaml").read_text() == "version: 1\n"
    mgw.ok("init", "--force")
    assert "bridge_in" in (mgw.folder / "gateway.yaml").read_text()
    assert "use one of rabbitmq, kafka, mqtt" in mgw("init", "--from", "memory", "--force").err


@pytest.mark.rabbitmq
@pytest.mark.mosquitto
def test_the_file_carries_messages(mgw: Mgw, rabbitmq: RabbitMQ, mosquitto: Mosquitto, tmp_path: Path) -> None:
    declare(rabbitmq, "orders.copy", {})
    mgw.environ |= {"SOURCE_HOST": mosquitto.host, "SOURCE_PORT": str(mosquitto.port)}
    mgw.environ |= {"TARGET_HOST": rabbitmq.host, "TARGET_PORT": str(rabbitmq.port)}
    mgw.environ |= {"TARGET_USER": rabbitmq.username, "TARGET_PASSWORD": rabbitmq.password}
    mgw.ok("init", "--from", "mqtt", "--to", "rabbitmq")
    assert "create queue mgw.sent.bridge_out" in mgw.ok("apply", "gateway.yaml")
    with mgw.running():
        eventually(lambda: mgw.ok("jobs", "list", "--json").count('"exact-unless-broker-crash"') == 2, deadline=60)
