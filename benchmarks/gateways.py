"""A gateway for a benchmark: its own hub in a private folder, defined through the API, run as ``mgw run``."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.queues import transfer
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.state.gateway_hub import open_hub
from mgw.transforms.message import Message

__all__ = ["BenchGateway"]

FILL_BATCH = 1000


class BenchGateway:
    """A hub on SQLite (WAL, synchronous=FULL) and the process that runs its jobs."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.file = folder / "hub.db"
        self.url = f"sqlite:///{self.file}"
        self._log = folder / "gateway.log"
        self._hub = open_hub(self.url, create=True)
        self.admin = GatewayAdmin(self._hub)
        self._queues = QueueAdmin(self._hub)

    def link(self, name: str, kind: str, properties: Mapping[str, Any], **more: Any) -> None:
        """Define a link."""
        self.admin.create_msgsystem_link(name, kind, properties, **more)

    def queue(self, name: str) -> None:
        """Make a hub queue."""
        self._queues.create_queue_table(f"{name}_QT")
        self._queues.create_queue(name, f"{name}_QT", max_retries=100)
        self._queues.start_queue(name)

    def foreign(self, name: str, link: str, provider_queue: str, **more: Any) -> str:
        """Register a foreign queue; returns ``name@link``."""
        self.admin.register_foreign_queue(name, link, provider_queue, **more)
        return f"{name}@{link}"

    def job(self, name: str, kind: str, source: str, destination: str, batch: int) -> None:
        """Define a job."""
        self.admin.create_job(name, kind, source, destination, options={"MsgBatchSize": batch})

    def fill(self, queue: str, bodies: Sequence[bytes]) -> None:
        """Put messages into a hub queue."""
        with self._hub.read() as conn:
            target = transfer.resolve(conn, queue)
        for start in range(0, len(bodies), FILL_BATCH):
            with self._hub.write() as conn:
                transfer.put(conn, target, [Message(body=body) for body in bodies[start : start + FILL_BATCH]])

    def moved(self, job: str) -> int:
        """PROPAGATED_MSGS of the job."""
        with sqlite3.connect(f"file:{self.file}?mode=ro", uri=True, timeout=30) as connection:
            query = "SELECT PROPAGATED_MSGS FROM MGW_JOBS WHERE JOB_NAME = ?"
            (count,) = connection.execute(query, (job.upper(),)).fetchone()
        connection.close()
        return int(count)

    def guarantee(self, job: str) -> str:
        """What the job promises."""
        with sqlite3.connect(f"file:{self.file}?mode=ro", uri=True, timeout=30) as connection:
            query = "SELECT GUARANTEE FROM MGW_JOBS WHERE JOB_NAME = ?"
            (found,) = connection.execute(query, (job.upper(),)).fetchone()
        connection.close()
        return str(found)

    def ready(self) -> bool:
        """Whether every job is connected."""
        with sqlite3.connect(f"file:{self.file}?mode=ro", uri=True, timeout=30) as connection:
            query = "SELECT count(*) FROM MGW_JOBS WHERE ACTIVITY NOT IN ('RUNNING', 'IDLE')"
            (count,) = connection.execute(query).fetchone()
        connection.close()
        return not count

    @contextmanager
    def running(self, *prefix: str) -> Iterator[subprocess.Popen[bytes]]:
        """``mgw run`` for the length of the block; ``prefix`` is put before the command (a profiler)."""
        environment = os.environ | {"MGW_HUB": self.url}
        with self._log.open("ab") as log:
            command = [*(prefix or (sys.executable,)), "-m", "mgw.gateway", "run"]
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield process
            if process.poll() is not None:
                raise RuntimeError(f"the gateway ended by itself:\n{self._log.read_text()[-3000:]}")
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{self._log.read_text()[-3000:]}") from error
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def close(self) -> None:
        """Close the hub."""
        self._hub.close()
