"""Passwords and certificates that are renewed while an agent runs, at a real broker with TLS."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from mgw.gateway.http.metrics import exposition
from mgw.gateway.services.connection_test import test_link as checks_of
from mgw.gateway.services.health import assess
from mgw.gateway.services.options import link_settings
from mgw.gateway.services.probes import HubProbes
from mgw.transforms.message import Message
from tests.conformance.test_supervisor import Daemon
from tests.support.brokers import Mosquitto
from tests.support.gateways import Gateway, gateway_on, supervised
from tests.support.waiting import eventually

FIRST, SECOND = "first word: 1", "second word: 2"
PATIENCE = 90

CONFIGURATION = """
version: 1
links:
  plant:
    type: mqtt
    hostname: localhost
    port: {port}
    tls: true
    tls_ca_file: {ca}
    username: gateway
    {password}
foreign_queues:
  OUT@plant: {{provider_queue: out}}
queues:
  H: {{max_retries: 100}}
jobs:
  outj: {{type: outbound, source: H, destination: OUT@plant}}
"""


@pytest.fixture
def broker() -> Iterator[Mosquitto]:
    with Mosquitto(username="gateway", password=FIRST, tls=True) as server:
        yield server


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as made:
        yield made


@pytest.mark.parametrize("how", ["password_file", "variable"])
def test_a_renewed_password_file_is_used_without_a_restart(
    gateway: Gateway, broker: Mosquitto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    file, configuration = tmp_path / "password", tmp_path / "gateway.yaml"
    file.write_text(FIRST)
    monkeypatch.setenv("PLANT_PASSWORD_FILE", str(file))
    given = f"password_file: {file}" if how == "password_file" else "password: ${PLANT_PASSWORD}"
    assert broker.certificates is not None
    text = CONFIGURATION.format(port=broker.tls_port, ca=broker.certificates.ca, password=given)
    configuration.write_text(text)
    daemon = Daemon(gateway.url, tmp_path, str(configuration))
    try:
        eventually(lambda: propagates(gateway, daemon), what="the first messages", deadline=PATIENCE)
        broker.set_password("gateway", SECOND)
        renewed = tmp_path / "renewed"
        renewed.write_text(SECOND)
        os.replace(renewed, file)
        eventually(lambda: f"{file} was renewed" in daemon.text(), what="the file to be read", deadline=PATIENCE)
        eventually(lambda: "link plant (password" in daemon.text(), what="the new password", deadline=PATIENCE)
        before = propagated(gateway)
        gateway.enqueue("H", [Message(body="after")])
        eventually(lambda: propagated(gateway) > before, what="a message after the change", deadline=PATIENCE)
        for secret in (FIRST, SECOND):
            assert secret not in daemon.text()
    finally:
        daemon.kill()


def propagated(gateway: Gateway) -> int:
    return int(gateway.job("outj")["PROPAGATED_TOTAL"])


def propagates(gateway: Gateway, daemon: Daemon) -> bool:
    assert daemon.process.poll() is None, daemon.text()
    if not gateway.admin.list_jobs():
        return False
    if not gateway.browse("H") and not propagated(gateway):
        gateway.enqueue("H", [Message(body="before")])
    return propagated(gateway) > 0


def rows(gateway: Gateway) -> dict[str, Any]:
    with gateway.hub.read() as conn:
        found = conn.execute(sa.text("SELECT OWNER, PLACE, SUBJECT, VALID_FOR FROM MGW_CERTIFICATES")).all()
    return {row.OWNER: row for row in found}


def test_the_end_of_certificates_is_shown_and_warned_of(gateway: Gateway, broker: Mosquitto) -> None:
    made = broker.certificates
    assert made is not None
    certificate, key = made.issue("ours", valid=timedelta(days=30))
    attributes = {
        "hostname": "localhost",
        "port": broker.tls_port,
        "tls": True,
        "tls_ca_file": str(made.ca),
        "tls_cert_file": str(certificate),
        "tls_key_file": str(key),
        "tls_key_password": "secret of the key",
    }
    gateway.admin.create_msgsystem_link("plant", "MQTT", attributes, username="gateway", password=FIRST)
    checks = {check.detail.split(" ")[0]: check for check in checks_of(gateway.admin, "plant")}
    assert "ends" in checks[str(certificate)].detail
    assert "renew it" not in checks[str(certificate)].detail
    assert "renew it" in checks[f"localhost:{broker.tls_port}"].detail  # a week
    with supervised(gateway) as ended:
        eventually(lambda: ended or len(rows(gateway)) == 2, what="MGW_CERTIFICATES", deadline=PATIENCE)
        assert not ended
        found = rows(gateway)
        assert str(certificate) == found["LINK"].PLACE
        assert found["LINK"].SUBJECT == "CN=ours"
        assert 29 < found["LINK"].VALID_FOR / 86_400 < 30
        assert f"localhost:{broker.tls_port}" == found["BROKER"].PLACE
        eventually(lambda: [text for text in gateway.events() if "ends in" in text], what="an event", deadline=PATIENCE)
        (told,) = [text for text in gateway.events() if "ends in" in text]
        assert "CN=localhost" in told
        assert "mgw links reconnect plant" in told
        made.issue("ours", valid=timedelta(days=3))
        gateway.admin.alter_msgsystem_link("plant", {"tls_verify": False})  # looked at again when it is altered
        eventually(lambda: rows(gateway)["LINK"].VALID_FOR < 4 * 86_400, what="the new end", deadline=PATIENCE)
        (link,) = assess(gateway.hub).links
        assert "not verified" in link.note
        assert "CN=ours" in link.note
        assert link.as_json()["note"] == link.note
        shown, _ = exposition(HubProbes(gateway.hub))
        labels = f'{{link="PLANT",owner="link",place="{certificate}"}}'
        assert f"mgw_certificate_expires_timestamp_seconds{labels}" in shown
    with gateway.hub.read() as conn:
        assert conn.execute(sa.text("SELECT TLS_VERIFY FROM MGW_MQTT_LINKS")).scalar_one() == "FALSE"
    definition = gateway.admin.get_link("plant")
    assert definition is not None
    settings = link_settings(definition)
    assert (settings["tls_verify"], settings["tls_key_password"]) == (False, "***")
    assert "secret of the key" not in json.dumps(settings)
