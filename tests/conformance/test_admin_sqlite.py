"""The administration on a SQLite hub."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from functools import partial
from pathlib import Path

import pytest

from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.state.gateway_hub import open_hub
from tests.conformance import suites
from tests.conformance.admin_suite import PASSWORD
from tests.support.ready_hubs import ready_file

globals().update(suites.functions())


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ready_file(tmp_path_factory.mktemp("ready") / "hub.db", partial(open_hub, create=True))


@pytest.fixture
def hub_url(ready: Path, tmp_path: Path) -> str:
    shutil.copy(ready, tmp_path / "hub.db")
    return f"sqlite:///{tmp_path}/hub.db"


def test_no_byte_of_a_password_is_in_the_database_files(hub_url: str, tmp_path: Path) -> None:
    with open_hub(hub_url, create=True) as hub:
        GatewayAdmin(hub).create_msgsystem_link("plant", "MEMORY", username="u", password=PASSWORD)
        stored = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert any(b"plant" in content for content in stored.values())
    assert not any(PASSWORD.encode() in content for content in stored.values())


def test_the_key_file_is_beside_the_hub_and_private(hub_url: str, tmp_path: Path) -> None:
    key_file = tmp_path / "hub.db.key"
    with open_hub(hub_url, create=True) as hub:
        admin = GatewayAdmin(hub)
        admin.create_msgsystem_link("open", "MEMORY")
        assert not key_file.exists()
        admin.create_msgsystem_link("plant", "MEMORY", username="u", password=PASSWORD)
    assert stat.S_IMODE(os.stat(key_file).st_mode) == 0o600
    with open_hub(hub_url) as hub:
        link = GatewayAdmin(hub).get_link("plant")
    assert link is not None
    assert link.password == PASSWORD


def test_plain_sqlite3_reads_the_views(hub_url: str, tmp_path: Path) -> None:
    with open_hub(hub_url, create=True) as hub:
        admin = GatewayAdmin(hub)
        admin.create_msgsystem_link("plant", "MEMORY")
        admin.register_foreign_queue("q", "plant")
        admin.aq.create_queue_table("t")
        admin.aq.create_queue("orders", "t")
        admin.create_job("carry", "OUTBOUND", "orders", "q@plant")
    plain = sqlite3.connect(f"file:{tmp_path}/hub.db?mode=ro", uri=True)
    try:
        found = plain.execute("SELECT JOB_NAME, STATUS, BACKLOG FROM MGW_JOBS").fetchall()
    finally:
        plain.close()
    assert found == [("CARRY", "READY", 0)]
