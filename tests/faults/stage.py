"""A stage for faults: real brokers, a hub, jobs behind TCP proxies, and the agent as a process that may be killed."""

from __future__ import annotations

import os
import signal
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from gateway.model import DEFAULT_AGENT
from tests.faults.ends.hub import HubFeed, HubOutlet
from tests.faults.ends.kafka import KafkaFeed, KafkaOutlet
from tests.faults.ends.mqtt import MqttFeed, MqttOutlet
from tests.faults.ends.rabbitmq import RabbitFeed, RabbitOutlet, declare
from tests.faults.oracle import LANES, Feed, Outlet
from tests.support.brokers import Kafka, Mosquitto, RabbitMQ, Server
from tests.support.brokers.server import OwnedProcess
from tests.support.gateways import Gateway
from tests.support.proxy import TcpProxy
from tests.support.waiting import eventually
from transforms.errors import AdminError, HubError

__all__ = ["AgentProcess", "Brokers", "Stage"]

START_SECONDS = 60.0  # for a process on a busy machine
_SYSTEMS = {"classic": "rabbitmq", "quorum": "rabbitmq", "stream": "rabbitmq", "kafka": "kafka", "mqtt": "mqtt"}
_LOG_TAIL = 40


class Brokers:
    """The servers of the tests; each is made when it is first asked for."""

    def __init__(self) -> None:
        self._made: dict[str, Server] = {}

    @property
    def rabbitmq(self) -> RabbitMQ:
        """A RabbitMQ node."""
        return self._get("rabbitmq", RabbitMQ)

    @property
    def kafka(self) -> Kafka:
        """A Kafka broker."""
        return self._get("kafka", Kafka)

    @property
    def mqtt(self) -> Mosquitto:
        """A Mosquitto broker that saves every 500 changes: one that saves at every change carries few messages."""
        return self._get("mqtt", lambda: Mosquitto(config=["autosave_interval 500"]))

    def save_mqtt(self) -> None:
        """Have Mosquitto write its sessions and their messages to disk now; returns when they are there."""
        store = self.mqtt.folder / "data" / "mosquitto.db"
        before = store.stat().st_mtime_ns if store.exists() else 0
        os.kill(self.mqtt.pid, signal.SIGUSR1)
        eventually(lambda: store.exists() and store.stat().st_mtime_ns > before, what="Mosquitto's store on disk")

    def server(self, system: str) -> Server:
        """The server by name, running."""
        found = getattr(self, system)
        assert isinstance(found, Server)
        return found.start()

    def _get(self, name: str, make: Any) -> Any:
        if name not in self._made:
            self._made[name] = make().start()
        return self._made[name]

    def close(self) -> None:
        """Stop them."""
        for server in self._made.values():
            server.close()


class AgentProcess:
    """``mgw run`` as a process of its own."""

    def __init__(self, url: str, folder: Path, *, environment: Mapping[str, str] | None = None) -> None:
        self.log = folder / "agent.log"
        self.starts = 0
        self._folder = folder
        self._environment = {**os.environ, "MGW_HUB": url, "PYTHONUNBUFFERED": "1"} | dict(environment or {})
        self._process: OwnedProcess | None = None

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._process.pid if self._process is not None and self._process.exit_code is None else None

    @property
    def exit_code(self) -> int | None:
        """Exit code of the process started last, None while it runs."""
        return self._process.exit_code if self._process is not None else None

    def start(self) -> None:
        """Start it; does not wait."""
        self.starts += 1
        command = [sys.executable, "-m", "gateway", "run"]
        self._process = OwnedProcess(command, environment=self._environment, log=self.log, folder=self._folder)

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()

    def terminate(self, deadline: float = 30.0) -> int | None:
        """SIGTERM; returns the exit code."""
        assert self._process is not None
        in_time = self._process.terminate(signal.SIGTERM, deadline)
        assert in_time, f"mgw run did not end within {deadline:g} s of SIGTERM:\n{self.tail()}"
        return self._process.exit_code

    def tail(self) -> str:
        """The end of its log."""
        return "\n".join(self.text().splitlines()[-_LOG_TAIL:])

    def text(self) -> str:
        """Everything it wrote, over all starts."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""


@dataclass(frozen=True, slots=True)
class Way:
    """One way through the gateway: what is written to, what is read from, and the jobs between."""

    feed: Feed
    outlet: Outlet
    jobs: tuple[str, ...]
    systems: tuple[str, ...]


class Stage:
    """A gateway on a hub of its own, and ways through it. A context manager."""

    def __init__(self, url: str, folder: Path, brokers: Brokers, *, batch_size: int = 30) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.gateway = Gateway(url)
        self.agent = AgentProcess(url, folder)
        self.brokers = brokers
        self.proxies: dict[str, TcpProxy] = {}
        self._batch_size = batch_size
        self._ways: list[Way] = []

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.agent.kill()
        finally:
            for way in self._ways:
                way.feed.close()
                way.outlet.close()
            for proxy in self.proxies.values():
                proxy.close()
            self.gateway.close()

    # ---------------------------------------------------------------------------------------------------- definitions

    def way(self, source: str, target: str) -> Way:
        """From ``source`` to ``target``, each of ``hub classic quorum stream kafka mqtt``, with a hub queue between."""
        name = f"w{uuid.uuid4().hex[:8]}"
        hub = f"{name}_H"
        self.gateway.queue(hub)
        jobs: list[str] = []
        options = {"MsgBatchSize": self._batch_size}
        admin = self.gateway.admin
        if source == "hub":
            feed: Feed = HubFeed(self.gateway, hub)
        else:
            self._foreign(f"{name}_S", source, inbound=True)
            link = self._link(source)
            job = f"{name}_IN"
            admin.create_job(job, "INBOUND", f"{name}_S@{link}", hub, poll_interval=0.5, options=options)
            jobs.append(job)
            feed = self._feed(f"{name}_S", source)
        if target == "hub":
            outlet: Outlet = HubOutlet(self.gateway, hub)
        else:
            self._foreign(f"{name}_T", target, inbound=False)
            link = self._link(target)
            job = f"{name}_OUT"
            admin.create_job(job, "OUTBOUND", hub, f"{name}_T@{link}", poll_interval=0.5, options=options)
            jobs.append(job)
            outlet = self._outlet(f"{name}_T", target)
        systems = tuple(dict.fromkeys(_SYSTEMS[end] for end in (source, target) if end != "hub"))
        made = Way(feed, outlet, tuple(jobs), systems)
        self._ways.append(made)
        return made

    def _link(self, end: str) -> str:
        """The link to a system, through a proxy, impatient so that a dead wire shows within seconds."""
        system = _SYSTEMS[end]
        if system in self.proxies:
            return system
        admin = self.gateway.admin
        if system == "kafka":
            kafka = self.brokers.kafka
            self.proxies[system] = kafka.proxy().start()
            options = {
                "KAFKA_Request_timeout_ms": 2000,
                "KAFKA_Delivery_timeout_ms": 4000,
                "KAFKA_Bootstrap_timeout_ms": 4000,
            }
            admin.create_msgsystem_link(
                system, "KAFKA", {"bootstrap_servers": kafka.proxied_bootstrap}, options=options
            )
            return system
        server = self.brokers.rabbitmq if system == "rabbitmq" else self.brokers.mqtt
        proxy = self.proxies[system] = TcpProxy(server.host, server.port).start()
        where: dict[str, Any] = {"hostname": proxy.host, "port": proxy.port}
        if system == "mqtt":
            admin.create_msgsystem_link(system, "MQTT", where | {"keepalive": 2, "connect_timeout": 3})
        else:
            options = {"AMQP_Heartbeat": 2, "AMQP_ConnectTimeout": 3, "AMQP_AnswerTimeout": 3, "AMQP_ConfirmTimeout": 4}
            rabbitmq = self.brokers.rabbitmq
            admin.create_msgsystem_link(
                system, "RABBITMQ", where, options=options, username=rabbitmq.username, password=rabbitmq.password
            )
        return system

    def _foreign(self, name: str, end: str, *, inbound: bool) -> None:
        link = self._link(end)
        provider, options = name, {}
        if end == "kafka":
            self.brokers.kafka.create_topic(name, partitions=LANES)
            options |= {"KAFKA_StartAt": "earliest", "KAFKA_HeaderType": "TEXT"}
        elif end == "mqtt":
            provider = f"{name}/+" if inbound else name
        else:
            declare(self.brokers.rabbitmq, name, end)
            self.brokers.rabbitmq.flush_declarations()
        self.gateway.admin.register_foreign_queue(name, link, provider, options=options)

    def _feed(self, name: str, end: str) -> Feed:
        if end == "kafka":
            return KafkaFeed(self.brokers.kafka, name)
        return MqttFeed(self.brokers.mqtt, name) if end == "mqtt" else RabbitFeed(self.brokers.rabbitmq, name)

    def _outlet(self, name: str, end: str) -> Outlet:
        if end == "kafka":
            return KafkaOutlet(self.brokers.kafka, name)
        return MqttOutlet(self.brokers.mqtt, name) if end == "mqtt" else RabbitOutlet(self.brokers.rabbitmq, name)

    # ---------------------------------------------------------------------------------------------------------- agent

    def start(self) -> None:
        """Start the agent and wait until every job is connected once (so that topic jobs are subscribed)."""
        self.agent.start()
        self.await_running()
        eventually(self._all_activated, deadline=START_SECONDS, what=f"activation of all jobs;\n{self.agent.tail()}")

    def await_running(self) -> None:
        """Wait until the process started last is the agent, and says so."""
        pid = self.agent.pid

        def running() -> bool:
            assert self.agent.exit_code is None, f"mgw run ended with {self.agent.exit_code}:\n{self.agent.tail()}"
            row = self._row("SELECT pid, status FROM gw_agent WHERE name = :name", name=DEFAULT_AGENT)
            return row is not None and (row[0], row[1]) == (pid, "RUNNING")

        eventually(running, deadline=START_SECONDS, what="status RUNNING", tolerate=(HubError,))

    def _all_activated(self) -> bool:
        self.reset_retrying()
        row = self._row("SELECT count(*) FROM gw_job_state WHERE guarantee IS NULL OR status <> 'READY'")
        return row is not None and row[0] == 0

    def restart(self) -> None:
        """Kill the agent and start it anew at once."""
        self.agent.kill()
        self.agent.start()

    def reset_retrying(self) -> None:
        """What an operator does who does not want to wait for the back-off: reset every job that retries or failed."""
        for job in self._rows(
            "SELECT j.name FROM gw_job j JOIN gw_job_state s ON s.job_id = j.id WHERE s.status <> 'READY'"
        ):
            try:
                self.gateway.admin.reset_job(job[0])
            except (HubError, AdminError):
                return

    def recover(self) -> None:
        """After the faults: the agent runs, no job waits for its back-off."""
        if self.agent.pid is None:
            self.agent.start()
            self.await_running()
        self.reset_retrying()

    # ----------------------------------------------------------------------------------------------------------- state

    def progress(self) -> int:
        """Messages carried by all jobs since the hub was made; -1 while the hub does not answer."""
        row = self._row("SELECT sum(propagated_total) FROM gw_job_state")
        return -1 if row is None else int(row[0] or 0)

    def carried(self) -> int:
        """Messages carried by the job that carried fewest."""
        row = self._row("SELECT min(propagated_total) FROM gw_job_state")
        return 0 if row is None else int(row[0] or 0)

    def await_progress(self, messages: int = 1, deadline: float = START_SECONDS) -> None:
        """Wait until at least so many more messages were carried."""
        start = self.progress()
        eventually(
            lambda: self.progress() >= start + messages or self.reset_retrying(),
            deadline=deadline,
            what=f"{messages} more messages carried",
        )

    def failing(self) -> Mapping[str, str]:
        """Jobs that are not READY or have failed since their last success, with their last error."""
        rows = self._rows(
            "SELECT j.name, s.last_error_msg FROM gw_job j JOIN gw_job_state s ON s.job_id = j.id"
            " WHERE s.status <> 'READY' OR s.failures > 0"
        )
        return {name: error or "" for name, error in rows}

    def guarantees(self) -> Mapping[str, str]:
        """Level of each job as MGW_JOBS shows it."""
        return dict(self._rows("SELECT j.name, s.guarantee FROM gw_job j JOIN gw_job_state s ON s.job_id = j.id"))

    def _row(self, query: str, **values: Any) -> Any:
        rows = self._rows(query, **values)
        return rows[0] if rows else None

    def _rows(self, query: str, **values: Any) -> list[Any]:
        try:
            with self.gateway.hub.read() as conn:
                return [tuple(row) for row in conn.execute(sa.text(query), values)]
        except HubError:
            return []
