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
    """A hub on SQLite (WAL, synchronous=FULL), or in the database at ``url``, and the process that runs its jobs."""

    def __init__(self, folder: Path, url: str | None = None) -> None:
        folder.mkdir(parents=True)
        self.file = folder / "hub.db"
        self.url = url or f"sqlite:///{self.file}"
        self._log = folder / "gateway.log"
        self._reader: Any = None
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

    def job(self, name: str, kind: str, source: str, destination: str, batch: int | None) -> None:
        """Define a job; without ``batch`` its options keep their defaults."""
        options = {} if batch is None else {"MsgBatchSize": batch}
        self.admin.create_job(name, kind, source, destination, options=options)

    def fill(self, queue: str, bodies: Sequence[bytes]) -> None:
        """Put messages into a hub queue."""
        with self._hub.read() as conn:
            target = transfer.resolve(conn, queue)
        for start in range(0, len(bodies), FILL_BATCH):
            with self._hub.write() as conn:
                transfer.put(conn, target, [Message(body=body) for body in bodies[start : start + FILL_BATCH]])

    def moved(self, job: str) -> int:
        """PROPAGATED_MSGS of the job."""
        return int(self._one("SELECT PROPAGATED_MSGS FROM MGW_JOBS WHERE JOB_NAME = ?", job.upper()))

    def guarantee(self, job: str) -> str:
        """What the job promises."""
        return str(self._one("SELECT GUARANTEE FROM MGW_JOBS WHERE JOB_NAME = ?", job.upper()))

    def ready(self) -> bool:
        """Whether every job is connected."""
        return not self._one("SELECT count(*) FROM MGW_JOBS WHERE ACTIVITY NOT IN ('RUNNING', 'IDLE')")

    def _one(self, query: str, *values: str) -> Any:
        """The value that a query of the views asks for, as any program reads it."""
        if not self.url.startswith("sqlite"):
            if self._reader is None:
                import psycopg

                address = self.url.replace("postgresql+psycopg://", "postgresql://")
                self._reader = psycopg.connect(address, autocommit=True)
            row = self._reader.execute(query.replace("?", "%s"), values).fetchone()
        else:
            connection = sqlite3.connect(f"file:{self.file}?mode=ro", uri=True, timeout=30)
            row = connection.execute(query, values).fetchone()
            connection.close()
        return row[0]

    @contextmanager
    def running(self, *prefix: str, http: str = "") -> Iterator[subprocess.Popen[bytes]]:
        """``mgw run`` for the length of the block; ``prefix`` is put before the command (a profiler).

        ``http``: where it answers, if not where it does by default.
        """
        environment = os.environ | {"MGW_HUB": self.url} | ({"MGW_HTTP": http} if http else {})
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
        if self._reader is not None:
            self._reader.close()
        self._hub.close()
