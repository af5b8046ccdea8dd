"""A real cluster: a master and a worker of Spark, each a process of its own, and executors that reach PostgreSQL."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest

from mgw.gateway.state.gateway_hub import open_hub
from mgw.transforms.message import Message
from tests.pipelines.hubs import make, put
from tests.pipelines.write_back import ROOT
from tests.support.brokers import PostgreSQL
from tests.support.brokers.server import OwnedProcess
from tests.support.ports import LOOPBACK, free_port
from tests.support.waiting import eventually

MESSAGES = 500


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """Address of a standalone cluster with one worker of two cores."""
    home = Path(pyspark.__file__).parent
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_WORKER_DIR": str(tmp_path / "work"),
        "SPARK_LOCAL_DIRS": str(tmp_path / "local"),
        "PYTHONPATH": str(ROOT),
    }
    port, log = free_port(), tmp_path / "cluster.log"
    address = f"spark://{LOOPBACK}:{port}"
    where = ["--host", LOOPBACK, "--webui-port", "0"]
    with ExitStack() as stack:

        def start(role: str, *options: str) -> None:
            command = [str(home / "bin/spark-class"), f"org.apache.spark.deploy.{role}", *where, *options]
            process = OwnedProcess(command, environment=environment, log=log, folder=tmp_path)
            stack.callback(process.terminate, signal.SIGTERM, 20)

        start("master.Master", "--port", str(port))
        start("worker.Worker", "--cores", "2", "--memory", "1g", address)
        eventually(
            lambda: "Successfully registered with master" in log.read_text(),
            deadline=120,
            what="a worker of the cluster",
        )
        yield address


@pytest.mark.long
@pytest.mark.timeout(900)
def test_executors_read_write_and_stream(master: str, postgresql: PostgreSQL, tmp_path: Path) -> None:
    postgresql.drop_database("on_cluster")
    url = postgresql.create_database("on_cluster")
    with open_hub(url, create=True) as hub:
        for name in ("SOURCE", "WRITTEN", "STREAMED"):
            make(hub, name)
        put(hub, "SOURCE", *(Message(f"m{number}", correlation=str(number)) for number in range(MESSAGES)))
        given = {"master": master, "url": url, "folder": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-m", "tests.pipelines.on_cluster", json.dumps(given)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        found = json.loads(done.stdout.splitlines()[-1])
        assert found["read"] == MESSAGES
        assert found["driver"] not in found["executors"]
        assert found["executors"]
        statement = "SELECT m.body FROM aq_message m JOIN aq_queue q ON q.id = m.queue_id WHERE q.name = '{}'"
        with hub.read() as conn:
            bodies = {
                name: sorted(bytes(row[0]).decode() for row in conn.exec_driver_sql(statement.format(name)))
                for name in ("WRITTEN", "STREAMED")
            }
    assert bodies["WRITTEN"] == sorted(f"m{number} seen" for number in range(MESSAGES))
    assert bodies["STREAMED"] == sorted(f"m{number}" for number in range(MESSAGES))
