"""The answer to a COMMIT of a job is lost, PostgreSQL has it: the job reads what the hub has, and guesses nothing."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from mgw.gateway.aq.store.pg_pipeline import Pipeline
from mgw.gateway.ledger import check
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.errors import HubUnavailable
from mgw.transforms.message import Message
from tests.support.brokers import PostgreSQL
from tests.support.gateways import Gateway, gateway_on, supervised
from tests.support.proxy import TcpProxy
from tests.support.waiting import eventually

pytestmark = pytest.mark.postgresql
COUNT = 600
JOBS = ("in", "out")
LOSSES = 2  # of each job
EVERY = 6  # commits of the job between two of them


class Losses:
    """Cuts all connections after a commit of a job went out and PostgreSQL did it, before its answer came."""

    def __init__(self, url: str, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = False
        self.done = Counter[str]()  # by job
        self._proxy = proxy
        self._engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
        self._mutex = threading.Lock()
        self._seen = Counter[str]()
        self._cutters: list[threading.Thread] = []
        real = Pipeline._execute

        def execute(pipeline: Any, last: Any) -> Any:
            thread = threading.current_thread().name  # of the job, or the one that stores what it read ahead
            job = thread.removeprefix("job-").removeprefix("store-").removesuffix("_0")
            if job in JOBS and last is not None and last.sql == b"COMMIT" and self._is_due(job):
                self._proxy.stall(requests=False)
                pid = pipeline._pgconn.backend_pid
                cutter = threading.Thread(target=self._cut, args=(pid,), daemon=True)
                self._cutters.append(cutter)
                cutter.start()
            return real(pipeline, last)

        monkeypatch.setattr(Pipeline, "_execute", execute)

    def _is_due(self, job: str) -> bool:
        with self._mutex:
            self._seen[job] += self.begun
            due = self.begun and self._seen[job] % EVERY == 0 and self.done[job] < LOSSES
            self.done[job] += due
            return due

    def _cut(self, pid: int) -> None:
        query = sa.text("SELECT state = 'idle' AND query = 'COMMIT' FROM pg_stat_activity WHERE pid = :pid")
        with self._engine.connect() as conn:
            # No row: the job has closed the connection, which it does after the commit only.
            eventually(lambda: conn.execute(query, {"pid": pid}).scalar() is not False, what="the commit")
        self._proxy.cut()
        self._proxy.resume()

    def close(self) -> None:
        for cutter in self._cutters:
            cutter.join(60)
        self._engine.dispose()


@pytest.fixture
def proxied(postgresql: PostgreSQL, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Gateway, Losses]]:
    url = postgresql.create_database(f"lost_{uuid.uuid4().hex[:12]}")
    with (
        TcpProxy("127.0.0.1", postgresql.port) as proxy,
        gateway_on(url.replace(f":{postgresql.port}/", f":{proxy.port}/")) as gateway,
    ):
        losses = Losses(url, proxy, monkeypatch)
        yield gateway, losses
        losses.close()
    postgresql.drop_database(url.rpartition("/")[2])


def test_what_a_lost_commit_stored_is_neither_repeated_nor_missing(proxied: tuple[Gateway, Losses]) -> None:
    gateway, losses = proxied
    broker = MemoryBroker.get(uuid.uuid4().hex)
    broker.log("SRC")
    broker.queue("DST")
    gateway.queue("H")
    admin, options = gateway.admin, {"MsgBatchSize": 10, "max_batch_size": 10, "retry_max_delay": 2}
    admin.create_msgsystem_link("from", "MEMORY", {"broker": broker.name})
    admin.create_msgsystem_link("to", "MEMORY", {"broker": broker.name}, outbound_log_queue="SENT")
    admin.register_foreign_queue("SRC", "from")
    admin.register_foreign_queue("DST", "to")
    admin.create_job("in", "INBOUND", "SRC@from", "H", options=options)
    admin.create_job("out", "OUTBOUND", "H", "DST@to", options=options)
    bodies = [f"message {number}" for number in range(COUNT)]

    def arrived() -> list[Any]:
        return [message.body for message in broker.queue("DST").messages]

    with supervised(gateway) as ended:
        eventually(lambda: gateway.job("out")["ACTIVITY"] == "IDLE", what="a job that waits")
        losses.begun = True
        broker.put("SRC", *map(Message, bodies))
        eventually(
            lambda: len(arrived()) >= COUNT and not gateway.plans("out"),
            deadline=120,
            what="everything",
            tolerate=(HubUnavailable,),
        )
        assert losses.done == dict.fromkeys(JOBS, LOSSES)
        assert not ended
    assert arrived() == bodies
    for name in JOBS:
        job = admin.get_job(name)
        assert job is not None
        with gateway.hub.read() as conn:
            assert check.reconcile(conn, job, gateway.hub.hub_id).offences == []
        assert gateway.job(name)["PROPAGATED_TOTAL"] == COUNT
