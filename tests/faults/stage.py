"""A stage for faults: real brokers, a hub, jobs behind TCP proxies, and the agent as a process that may be killed."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from mgw.gateway.definitions.objects import DEFAULT_AGENT
from mgw.links.contract import Guarantee
from mgw.transforms.errors import AdminError, HubError
from tests.faults.agents import AgentProcess
from tests.faults.ends.hub import HubFeed, HubOutlet
from tests.faults.ends.kafka import KafkaFeed, KafkaOutlet
from tests.faults.ends.mqtt import MqttFeed, MqttOutlet
from tests.faults.ends.rabbitmq import RabbitFeed, RabbitOutlet, declare
from tests.faults.oracle import Feed, Outlet
from tests.faults.verdict import LANES
from tests.faults.ways import ENDS, End, Way
from tests.support.brokers import Kafka, Mosquitto, RabbitMQ, Server
from tests.support.gateways import Gateway
from tests.support.proxy import TcpProxy
from tests.support.waiting import eventually

__all__ = ["THROUGH", "Brokers", "Stage"]

THROUGH = "through:"  # before the source of a way that is one job from link to link

START_SECONDS = 60.0  # for a process on a busy machine
_LOG_QUEUE = {"x-queue-type": "classic", "x-max-length": 2}
_IMPATIENT: Mapping[str, Mapping[str, object]] = {  # a dead wire shows within seconds
    "rabbitmq": {"AMQP_Heartbeat": 2, "AMQP_ConnectTimeout": 3, "AMQP_AnswerTimeout": 3, "AMQP_ConfirmTimeout": 4},
    "kafka": {
        "KAFKA_Request_timeout_ms": 2000,
        "KAFKA_Delivery_timeout_ms": 4000,
        "KAFKA_Bootstrap_timeout_ms": 4000,
    },
}


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

    def stage(self, url: str, folder: Path, *, batch_size: int, faults: Mapping[str, object]) -> Stage:
        """A stage with them; arguments as there."""
        return Stage(url, folder, self, batch_size=batch_size, faults=faults)

    def close(self) -> None:
        """Stop them."""
        for server in self._made.values():
            server.close()


class Stage:
    """A gateway on a hub of its own, and ways through it. A context manager."""

    def __init__(
        self,
        url: str,
        folder: Path,
        brokers: Brokers,
        *,
        batch_size: int = 30,
        faults: Mapping[str, object] | None = None,
    ) -> None:
        """``faults``: of every agent process, see :mod:`tests.faults.launched`."""
        folder.mkdir(parents=True, exist_ok=True)
        self.gateway = Gateway(url)
        self.agent = AgentProcess(url, folder, faults=faults)
        self.brokers = brokers
        self.folder = folder
        self.proxies: dict[str, TcpProxy] = {}
        self._links: set[str] = set()
        self._batch_size = batch_size
        self._ways: list[Way] = []
        self._others: list[AgentProcess] = []

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the agents, disconnect everything."""
        try:
            for agent in (self.agent, *self._others):
                agent.kill()
        finally:
            for way in self._ways:
                way.feed.close()
                way.outlet.close()
            for proxy in self.proxies.values():
                proxy.close()
            self.gateway.close()

    # ---------------------------------------------------------------------------------------------------- definitions

    def way(self, source: str, target: str) -> Way:
        """From ``source`` to ``target``, ``hub`` or one of ENDS, with a hub queue between; THROUGH before the
        source: in one job, without one."""
        if source.startswith(THROUGH):
            return self._through(ENDS[source.removeprefix(THROUGH)], ENDS[target])
        name = f"w{uuid.uuid4().hex[:8]}"
        hub = f"{name}_H"
        self.gateway.queue(hub)
        levels: dict[str, Guarantee] = {}
        options = {"MsgBatchSize": self._batch_size}
        admin = self.gateway.admin
        ends = {end: ENDS[end] for end in (source, target) if end != "hub"}
        if source == "hub":
            feed: Feed = HubFeed(self.gateway, hub)
        else:
            job = f"{name}_IN"
            self._foreign(f"{name}_S", ends[source], job, inbound=True)
            place = f"{name}_S@{ends[source].link}"
            admin.create_job(job, "INBOUND", place, hub, poll_interval=0.5, options=options)
            levels[job] = ends[source].inbound
            feed = self._feed(f"{name}_S", ends[source])
        if target == "hub":
            outlet: Outlet = HubOutlet(self.gateway, hub)
        else:
            job = f"{name}_OUT"
            self._foreign(f"{name}_T", ends[target], job, inbound=False)
            place = f"{name}_T@{ends[target].link}"
            admin.create_job(job, "OUTBOUND", hub, place, poll_interval=0.5, options=options)
            levels[job] = ends[target].outbound
            outlet = self._outlet(f"{name}_T", ends[target])
        made = Way(
            feed,
            outlet,
            levels,
            systems=tuple(dict.fromkeys(end.system for end in ends.values())),
            twins=(source == "hub" or ends[source].twins) and (target == "hub" or ends[target].system != "mqtt"),
            identified=all(end.identified for end in ends.values()),
        )
        self._ways.append(made)
        return made

    def _through(self, source: End, target: End) -> Way:
        name = f"w{uuid.uuid4().hex[:8]}"
        job = f"{name}_THR"
        self._foreign(f"{name}_S", source, job, inbound=True)
        self._foreign(f"{name}_T", target, job, inbound=False)
        places = f"{name}_S@{source.link}", f"{name}_T@{target.link}"
        options = {"MsgBatchSize": self._batch_size}
        self.gateway.admin.create_job(job, "THROUGH", *places, poll_interval=0.5, options=options)
        made = Way(
            self._feed(f"{name}_S", source),
            self._outlet(f"{name}_T", target),
            {job: max(source.inbound, target.outbound, key=lambda level: level.rank)},
            systems=tuple(dict.fromkeys((source.system, target.system))),
            twins=source.twins and target.system != "mqtt",
            identified=source.identified and target.identified,
        )
        self._ways.append(made)
        return made

    def _proxy(self, system: str) -> TcpProxy:
        if system not in self.proxies:
            server = self.brokers.server(system)
            if isinstance(server, Kafka):
                self.proxies[system] = server.proxy().start()
            else:
                assert isinstance(server, RabbitMQ | Mosquitto)
                self.proxies[system] = TcpProxy(server.host, server.port).start()
        return self.proxies[system]

    def _link(self, end: End) -> None:
        """The link of that end, through a proxy, impatient so that a dead wire shows within seconds."""
        if end.link in self._links:
            return
        self._links.add(end.link)
        where = self._where(end.system)
        more: dict[str, Any] = {"options": dict(_IMPATIENT.get(end.system, {}))}
        if end.system == "kafka":
            where["client"] = end.client
            if end.outbound is not Guarantee.AT_LEAST_ONCE:
                log = f"log{uuid.uuid4().hex[:8]}"
                self.brokers.kafka.create_topic(log, LANES, {"cleanup.policy": "compact"})
                more["outbound_log_queue"] = log
        elif end.system == "mqtt":
            where |= {"keepalive": 2, "connect_timeout": 3, "protocol_version": 5 if end.identified else 4}
        else:
            more |= {"username": self.brokers.rabbitmq.username, "password": self.brokers.rabbitmq.password}
            if end.outbound is not Guarantee.AT_LEAST_ONCE:
                more |= {"inbound_log_queue": "mgw.acks.{job}", "outbound_log_queue": "mgw.sent.{job}"}
        self.gateway.admin.create_msgsystem_link(end.link, end.system.upper(), where, **more)

    def _where(self, system: str) -> dict[str, Any]:
        """How a link gets there."""
        proxy = self._proxy(system)
        if system == "kafka":
            return {"bootstrap_servers": self.brokers.kafka.proxied_bootstrap}
        return {"hostname": proxy.host, "port": proxy.port}

    def _foreign(self, name: str, end: End, job: str, *, inbound: bool) -> None:
        self._link(end)
        provider = name
        if end.system == "kafka":
            self.brokers.kafka.create_topic(name, partitions=LANES)
        elif end.system == "mqtt":
            provider = f"{name}/+" if inbound else name
        else:
            declare(self.brokers.rabbitmq, name, {"x-queue-type": end.kind})
            if end.outbound is not Guarantee.AT_LEAST_ONCE:
                declare(self.brokers.rabbitmq, f"mgw.{'acks' if inbound else 'sent'}.{job}", _LOG_QUEUE)
        self.gateway.admin.register_foreign_queue(name, end.link, provider, options=dict(end.options))

    def _feed(self, name: str, end: End) -> Feed:
        if end.system == "kafka":
            return KafkaFeed(self.brokers.kafka, name)
        return MqttFeed(self.brokers.mqtt, name) if end.system == "mqtt" else RabbitFeed(self.brokers.rabbitmq, name)

    def _outlet(self, name: str, end: End) -> Outlet:
        if end.system == "kafka":
            return KafkaOutlet(self.brokers.kafka, name)
        if end.system == "mqtt":
            return MqttOutlet(self.brokers.mqtt, name)
        return RabbitOutlet(self.brokers.rabbitmq, name)

    def replace_agent(self, **faults: object) -> AgentProcess:
        """Another process runs the agent from now on; the one before is returned, and ended with the stage."""
        before = self.agent
        self._others.append(before)
        self.agent = AgentProcess(self.gateway.url, self.folder, name=f"agent{len(self._others)}", faults=faults)
        return before

    def said(self) -> str:
        """Everything that agents wrote."""
        return "\n".join(agent.text() for agent in (*self._others, self.agent))

    # ---------------------------------------------------------------------------------------------------------- agent

    def start(self) -> None:
        """Start the agent and wait until every job is connected once (so that topic jobs are subscribed)."""
        self.agent.start()
        self.await_activated()

    def await_activated(self) -> None:
        """Wait until the agent runs and every job was connected once."""
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

    def suppressed(self) -> int:
        """Messages that came again, or would have been sent again, and were recognised."""
        row = self._row("SELECT sum(suppressed_total) FROM gw_job_state")
        return 0 if row is None else int(row[0] or 0)

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
