"""The routes do what /openapi.json says, whatever is sent to them: schemathesis asks a real hub."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mgw.gateway.http import guard, limits
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.hubs import open_hub
from mgw.gateway.services.users import Role, Users
from tests.support.web import serving

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
PASSWORD = "correct horse battery"


def ask(folder: Path, *words: str, seconds: float) -> None:
    """Run schemathesis over the description of a hub that holds a little of everything."""
    with open_hub(f"sqlite:///{folder}/hub.db", create=True) as hub:
        admin = GatewayAdmin(hub)
        admin.create_msgsystem_link("L", "MEMORY", {"broker": "b"})
        admin.register_foreign_queue("q", "L")
        admin.aq.create_queue_table("t")
        admin.aq.create_queue("q", "t")
        users = Users(hub)
        users.add("robot", Role.ADMINISTRATOR, PASSWORD, by="test")
        _, token = users.add_token("robot", by="test")
        with serving(hub) as web:
            done = subprocess.run(
                [
                    Path(sys.executable).with_name("st"),
                    "run",
                    f"http://127.0.0.1:{web.port}/openapi.json",
                    f"--checks={CHECKS}",
                    f"--header=Authorization: Bearer {token}",
                    "--exclude-path=/api/v1/session",  # whoever logs out has no token to lose, and log-ins are limited
                    "--exclude-path=/api/v1/events/stream",  # which has no end
                    "--request-timeout=30",
                    "--suppress-health-check=all",
                    "--continue-on-failure",
                    "--warnings=off",
                    "--no-color",
                    *words,
                ],
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
            )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


@pytest.fixture(autouse=True)
def _no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RATE", 1e9)
    monkeypatch.setattr(limits, "RATE_BURST", 1e9)
    assert guard.limits is limits


def test_every_route_answers_as_described(tmp_path: Path) -> None:
    words = ("--phases=fuzzing", "--max-examples=4", "--max-time=40", "--generation-deterministic", "--no-shrink")
    ask(tmp_path, *words, seconds=120)


@pytest.mark.matrix
@pytest.mark.timeout(500)
def test_every_route_answers_as_described_whatever_is_sent(tmp_path: Path) -> None:
    ask(
        tmp_path,
        "--phases=fuzzing,stateful",
        "--max-examples=100",
        "--max-time=120",
        "--generation-database=none",
        seconds=400,
    )
