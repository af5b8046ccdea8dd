"""A hub and an agent inside the test process, driven as the supervisor drives it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import NO_WAIT, DequeueMode, DequeueOptions
from mgw.gateway.definitions.objects import DEFAULT_AGENT, AgentStatus
from mgw.gateway.observe.events import Journalist
from mgw.gateway.runtime.agent import Agent
from mgw.gateway.runtime.supervisor import RunOptions, Supervisor
from mgw.gateway.runtime.timekeeping import Timekeeper, events_of
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.daemon import PROCEDURES
from mgw.gateway.state import run_state
from mgw.gateway.state.gateway_hub import open_hub
from mgw.gateway.state.secrets import Secrets
from mgw.transforms.clock import SYSTEM_CLOCK
from mgw.transforms.errors import AqError
from mgw.transforms.message import Message

__all__ = ["Gateway", "RunningAgent", "gateway_on", "supervised"]


class RunningAgent:
    """An agent with a thread that does what the supervisor's loop does, faster."""

    def __init__(self, hub: Hub, secrets: Secrets, name: str = DEFAULT_AGENT, modules: Sequence[str] = ()) -> None:
        for module in modules:
            QueueAdmin(hub).allow_module(module)
        self.agent = Agent(hub, secrets, name, SYSTEM_CLOCK, PROCEDURES)
        self.failure: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="supervisor", daemon=True)
        self._timekeeper = Timekeeper(hub, Journalist(events_of(hub, name, SYSTEM_CLOCK)), SYSTEM_CLOCK)

    def __enter__(self) -> RunningAgent:
        self.agent.acquire()
        self.agent.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)
        self.agent.stop(seconds=20, status=AgentStatus.NOT_STARTED)
        if self.failure is not None:
            raise self.failure

    def _loop(self) -> None:
        try:
            while not self._stop.wait(0.05):
                self.agent.refresh()
                self.agent.renew()
                self.agent.tell_keys()
                self._timekeeper.run()
        except BaseException as error:
            self.failure = error


class Gateway:
    """A hub with its administration, and short forms of what tests say most."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.hub = open_hub(url, create=True)
        self.secrets = Secrets.for_hub(url)
        self.admin = GatewayAdmin(self.hub, self.secrets)
        self.queues = QueueAdmin(self.hub)

    def close(self) -> None:
        """Close the hub."""
        self.hub.close()

    def queue(self, name: str, *, max_retries: int = 100, **table: Any) -> None:
        """A started hub queue in a queue table of its own."""
        self.queues.create_queue_table(f"{name}_QT", **{"queue_payload_type": "BASIC"} | table)
        self.queues.create_queue(name, f"{name}_QT", max_retries=max_retries)
        self.queues.start_queue(name)

    def run(self, *, modules: Sequence[str] = ()) -> RunningAgent:
        """The default agent, to be used as a context manager."""
        return RunningAgent(self.hub, self.secrets, modules=modules)

    def job(self, name: str) -> Mapping[str, Any]:
        """The row of MGW_JOBS."""
        with self.hub.read() as conn:
            query = sa.text("SELECT * FROM MGW_JOBS WHERE JOB_NAME = :name")
            row = conn.execute(query, {"name": name.upper()}).mappings().one()
            return {column.upper(): value for column, value in row.items()}

    def enqueue(self, queue: str, messages: Sequence[Message]) -> list[bytes]:
        """Enqueue and commit."""
        with self.hub.session() as session:
            identities = session.enqueue_array(queue, messages)
            session.commit()
        return list(identities)

    def browse(self, queue: str, consumer: str | None = None) -> list[Message]:
        """What waits in a queue, in order of dequeue."""
        options = DequeueOptions(consumer_name=consumer, dequeue_mode=DequeueMode.BROWSE, wait=NO_WAIT)
        with self.hub.session() as session:
            try:
                return [taken.message for taken in session.dequeue_array(queue, options, 10_000_000)]
            except AqError as error:
                if error.number == 25228:
                    return []
                raise

    def events(self) -> list[str]:
        """Texts of MGW_EVENTS, oldest first."""
        with self.hub.read() as conn:
            return [row[0] for row in conn.execute(sa.text("SELECT text FROM gw_event ORDER BY id"))]

    def plans(self, job: str) -> list[run_state.Plan]:
        """Plans of an outbound job that are not completed."""
        found = self.admin.get_job(job)
        assert found is not None
        with self.hub.read() as conn:
            return run_state.load_plans(conn, found.id)


@contextmanager
def gateway_on(url: str) -> Iterator[Gateway]:
    """A gateway on a new hub."""
    gateway = Gateway(url)
    try:
        yield gateway
    finally:
        gateway.close()


@contextmanager
def supervised(gateway: Gateway) -> Iterator[list[BaseException]]:
    """The supervisor on a thread; the list tells what ended it."""
    supervisor = Supervisor(gateway.hub, gateway.secrets, RunOptions(gateway.url), PROCEDURES)
    ended: list[BaseException] = []

    def run() -> None:
        try:
            supervisor.run()
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield ended
    finally:
        supervisor.request_stop()
        thread.join(30)
