"""The hub is away, locked or full, or somebody else claims the agent: jobs say why, and go on where they stopped."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.faults.conftest import Trial
from tests.faults.injuries import Injuries
from tests.faults.stage import Brokers, Stage
from tests.support.brokers import PostgreSQL
from tests.support.waiting import eventually

FILE_SIZE = 1 << 20  # bytes; the agent's own log stays shorter


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 MB: the log of the hub's file may reach 20 before there is time to start it anew."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.getuid() != 0:
        pytest.skip("only root may mount a small file system")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        pytest.param("ids", "kafkalog", id="postgresql-kill-agent-ids-to-kafkalog"),
        pytest.param("logged", "logged", id="postgresql-kill-agent-logged-to-logged", marks=pytest.mark.matrix),
        pytest.param("stream", "kafka", id="postgresql-kill-agent-stream-to-kafka", marks=pytest.mark.matrix),
        pytest.param("kafka", "kafkalog", id="postgresql-kill-agent-kafka-to-kafkalog"),
        pytest.param("mqtt", "logged", id="postgresql-kill-agent-mqtt-to-logged"),
    ],
)
def test_killing_the_agent_of_a_postgresql_hub_loses_nothing(
    trial: Trial, postgresql_of_our_own: PostgreSQL, source: str, target: str
) -> None:
    trial(source, target, "kill_agent", times=2, messages=2000, url=lambda: _database(postgresql_of_our_own))


@pytest.mark.parametrize(
    "end",
    [
        pytest.param("restart", id="restart-postgresql", marks=pytest.mark.matrix),
        pytest.param("kill", id="kill-postgresql"),
    ],
)
def test_restarting_postgresql_under_the_agent_loses_and_doubles_nothing(
    trial: Trial, postgresql_of_our_own: PostgreSQL, end: str
) -> None:
    server = postgresql_of_our_own

    def replace_database(_: Injuries) -> None:
        if end == "kill":
            server.kill()
            server.start()
        else:
            server.restart()

    trial("logged", "kafkalog", replace_database, times=2, messages=3000, url=lambda: _database(server))


def _database(server: PostgreSQL) -> str:
    return server.create_database(f"faults_{uuid.uuid4().hex[:12]}")


def test_a_hub_locked_by_somebody_else_delays_and_loses_nothing(trial: Trial, tmp_path: Path) -> None:
    def lock(injuries: Injuries) -> None:
        engine = sa.create_engine(injuries.stage.gateway.url)
        with engine.connect() as conn:
            conn.exec_driver_sql("BEGIN IMMEDIATE")
            before = injuries.stage.progress()
            time.sleep(3)  # this is the fault itself, not a way to wait for something
            assert injuries.stage.progress() == before
            conn.rollback()
        engine.dispose()

    trial("classic", "kafka", lock, times=2, messages=3000)


def test_a_second_process_of_the_agent_is_refused_and_the_first_is_unharmed(trial: Trial) -> None:
    def second(injuries: Injuries) -> None:
        stage = injuries.stage
        pid = stage.agent.pid
        done = subprocess.run(
            [sys.executable, "-m", "mgw.gateway", "run"],
            env={**os.environ, "MGW_HUB": stage.gateway.url},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode not in (0, None)
        assert "already running" in done.stderr + done.stdout
        assert f"process {pid}" in done.stderr + done.stdout, "the refusal names who owns the agent"
        assert "Traceback" not in done.stderr
        stage.await_running()
        stage.await_progress()
        assert stage.agent.pid == pid

    verdict = trial("classic", "kafka", second, messages=3000)
    assert verdict.duplicated == 0, verdict.explain()


def test_the_next_process_takes_over_from_a_killed_one_at_once(brokers: Brokers, tmp_path: Path) -> None:
    with Stage(f"sqlite:///{tmp_path}/hub.db", tmp_path / "stage", brokers) as stage:
        stage.way("hub", "mqtt")
        stage.start()
        stage.agent.kill()
        with stage.gateway.hub.write() as conn:  # nobody can wait for it, and nobody must
            assert conn.execute(sa.text("UPDATE gw_agent SET lease_expires = lease_expires + 3600")).rowcount == 1
        stage.agent.start()
        stage.await_running()
        assert "waiting" not in stage.agent.text()


def test_a_full_disk_is_reported_and_nothing_is_lost(trial: Trial, small_disk: Path) -> None:
    ballast = small_disk / "ballast"

    def fill(injuries: Injuries) -> None:
        stage = injuries.stage
        # Without a buffer: what is left in one when the disk is full is written again when the file is closed.
        with injuries.publisher_paused(), ballast.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(b"\0" * 65536):
                pass
        try:
            eventually(
                lambda: "next attempt" in stage.agent.text() and "is full" in stage.agent.text(),
                deadline=60,
                what="the job saying that the hub is full",
            )
            assert "cure: free space on the disk" in stage.agent.text()
        finally:
            ballast.unlink()
        for job in stage.gateway.admin.list_jobs():  # a full disk does not even take the failure, so all look READY
            stage.gateway.admin.reset_job(job.name)

    trial("classic", "hub", fill, messages=3000, url=lambda: f"sqlite:///{small_disk}/{uuid.uuid4().hex}.db")


def test_a_hub_file_that_may_not_grow_is_reported_and_nothing_is_lost(trial: Trial) -> None:
    """What needs no root: the agent's process may write files up to a size only, so neither data nor log get longer."""

    def limit(injuries: Injuries) -> None:
        stage = injuries.stage
        pid = stage.agent.pid
        assert pid is not None
        _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (FILE_SIZE, most))
        try:
            eventually(
                lambda: "next attempt" in stage.agent.text() and "cannot be read or written" in stage.agent.text(),
                deadline=60,
                what="the job saying that the hub cannot be written",
            )
        finally:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))
        for job in stage.gateway.admin.list_jobs():
            stage.gateway.admin.reset_job(job.name)

    verdict = trial("logged", "hub", limit, messages=6000)
    assert verdict.duplicated == 0, verdict.explain()
