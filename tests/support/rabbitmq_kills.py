"""A gateway on RabbitMQ whose agent process is killed at random moments, and what came of every message."""

from __future__ import annotations

import os
import random
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pika
import sqlalchemy as sa

from mgw.transforms.errors import AdminError, HubError
from mgw.transforms.message import Message
from tests.support.brokers import RabbitMQ
from tests.support.brokers.server import OwnedProcess
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import NotInTime, eventually

__all__ = ["Figures", "KilledGateway", "killed_gateway"]

LOG_ARGUMENTS = {"x-queue-type": "classic", "x-max-length": 2}
HUB_QUEUE = "H"
_ROOT = Path(__file__).resolve().parents[2]
_IMPATIENT = {"AMQP_Heartbeat": "2", "AMQP_ConnectTimeout": "3", "AMQP_AnswerTimeout": "5"}
_PUBLISHED_TOGETHER = 1000
_BACKLOG = 2000  # messages that wait at least when the agent begins
_MOMENT = 0.06  # seconds; a kill falls anywhere within so long after messages were seen to move


@dataclass(frozen=True, slots=True)
class Figures:
    """What a run proved."""

    row: str
    seed: int
    kills: int
    broker_kills: int
    messages: int
    lost: int
    doubled: int
    disordered: int
    suppressed: int
    level: str

    def __str__(self) -> str:
        return (
            f"{self.row}: {self.kills} agent kills, {self.broker_kills} broker kills, {self.messages} messages, "
            f"{self.lost} lost, {self.doubled} doubled, {self.disordered} out of order, "
            f"{self.suppressed} suppressed or spared; level {self.level} (seed {self.seed})"
        )


class KilledGateway:
    """One job between a hub queue and a RabbitMQ queue, its agent as a process of its own."""

    def __init__(self, server: RabbitMQ, gateway: Gateway, folder: Path) -> None:
        self.server = server
        self.gateway = gateway
        self.seed = int(os.environ.get("MGW_FAULT_SEED") or random.SystemRandom().randrange(1_000_000))
        self.rng = random.Random(self.seed)
        self.queue = f"q{uuid.uuid4().hex[:8]}"
        self.job = f"J{uuid.uuid4().hex[:8]}".upper()
        self.kills = 0
        self.broker_kills = 0
        self._folder = folder
        self._log = folder / "agent.log"
        self._process: OwnedProcess | None = None
        gateway.queue(HUB_QUEUE)

    # -- definitions --------------------------------------------------------------------------------------------------

    @contextmanager
    def channel(self) -> Iterator[Any]:
        """A channel of a client that is not the gateway's."""
        parameters = pika.ConnectionParameters(self.server.host, self.server.port, heartbeat=0)
        connection = pika.BlockingConnection(parameters)
        try:
            yield connection.channel()
        finally:
            connection.close()

    def define(
        self,
        direction: str,
        *,
        batch: int = 50,
        kind: str = "classic",
        arguments: Mapping[str, object] | None = None,
        options: Mapping[str, object] | None = None,
        log_queue: str | None = None,
    ) -> None:
        """The queue at the broker, its log queue where ``log_queue`` names one, and the job."""
        with self.channel() as channel:
            channel.queue_declare(self.queue, durable=True, arguments={"x-queue-type": kind, **(arguments or {})})
            if log_queue is not None:
                channel.queue_declare(log_queue.replace("{job}", self.job), durable=True, arguments=LOG_ARGUMENTS)
        admin = self.gateway.admin
        logs: dict[str, Any] = {} if log_queue is None else {f"{direction.lower()}_log_queue": log_queue}
        where = {"hostname": self.server.host, "port": self.server.port}
        logs |= {"username": self.server.username, "password": self.server.password}
        admin.create_msgsystem_link("rmq", "RABBITMQ", where, options=_IMPATIENT, **logs)
        admin.register_foreign_queue("F", "rmq", self.queue, options=dict(options or {}))
        ends = ("F@rmq", HUB_QUEUE) if direction == "INBOUND" else (HUB_QUEUE, "F@rmq")
        admin.create_job(self.job, direction, *ends, poll_interval=0.5, options={"MsgBatchSize": batch})

    def publish(self, messages: Sequence[tuple[bytes, str | None]]) -> list[bytes]:
        """Put messages (body, message-id) into the queue; returns when the broker has taken all of them over."""
        with self.channel() as channel:
            channel.tx_select()
            for start in range(0, len(messages), _PUBLISHED_TOGETHER):
                for body, identity in messages[start : start + _PUBLISHED_TOGETHER]:
                    channel.basic_publish(
                        "", self.queue, body, pika.BasicProperties(delivery_mode=2, message_id=identity)
                    )
                channel.tx_commit()
        return [body for body, _ in messages]

    def enqueue(self, bodies: Sequence[bytes]) -> Sequence[bytes]:
        """Put messages into the hub queue."""
        for start in range(0, len(bodies), _PUBLISHED_TOGETHER):
            self.gateway.enqueue(HUB_QUEUE, [Message(body) for body in bodies[start : start + _PUBLISHED_TOGETHER]])
        return bodies

    def drained(self) -> list[bytes]:
        """Everything in the broker's queue, in order; the queue is empty then."""
        found: list[bytes] = []
        with self.channel() as channel:
            while True:
                method, _, body = channel.basic_get(self.queue, auto_ack=True)
                if method is None:
                    return found
                found.append(body)

    def waiting(self) -> int:
        """Messages in the broker's queue that nobody holds."""
        with self.channel() as channel:
            count: int = channel.queue_declare(self.queue, passive=True).method.message_count
            return count

    def stored(self) -> list[bytes]:
        """Bodies of everything in the hub queue, in order."""
        return [_bytes(message.body) for message in self.gateway.browse(HUB_QUEUE)]

    # -- the agent ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the agent; does not wait."""
        environment = {**os.environ, "MGW_HUB": self.gateway.url, "PYTHONPATH": str(_ROOT)}
        command = [sys.executable, "-m", "mgw.gateway", "run"]
        self._process = OwnedProcess(command, environment=environment, log=self._log, folder=self._folder)

    def stop(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()

    def kill_often(
        self, times: int, messages: int, put: Callable[[int, int], Sequence[bytes]], *, broker: int = 0
    ) -> list[bytes]:
        """Kill the agent ``times`` times in the middle of its work and let it carry everything at the end.

        Args:
            times: kills.
            messages: messages to be carried at least.
            put: puts ``count`` messages with numbers from ``start`` into the source; returns their bodies.
            broker: after every so many kills of the agent the broker is killed too; 0: never.

        Returns:
            The bodies of all messages put in.
        """
        given: list[bytes] = []
        for number in range(1, times + 1):
            carried = self.state()["propagated_total"]
            if len(given) - carried < _BACKLOG:
                given += put(len(given), _BACKLOG)
            if self._process is None:
                self.start()
            self._await(carried + 1)
            time.sleep(self.rng.uniform(0, _MOMENT))
            self.stop()
            self.kills += 1
            if broker and number % broker == 0:
                self.server.kill()
                self.server.start()
                self.broker_kills += 1
            self.start()
        if len(given) < messages:
            given += put(len(given), messages - len(given))
        self._await(len(given))
        eventually(lambda: self.state()["activity"] == "IDLE", what="the job being idle")
        return given

    def _await(self, messages: int) -> None:
        try:
            eventually(lambda: self._reached(messages), deadline=180, what=f"message {messages}")
        except NotInTime as error:
            raise AssertionError(f"{error}\n{self.state()}\n{self.tail()}") from error

    def _reached(self, messages: int) -> bool:
        state = self.state()
        if state["status"] != "READY":
            try:
                self.gateway.admin.reset_job(self.job)
            except (AdminError, HubError):
                return False
        reached: bool = state["propagated_total"] >= messages
        return reached

    def state(self) -> Mapping[str, Any]:
        """Run state of the job."""
        with self.gateway.hub.read() as conn:
            return dict(conn.execute(sa.text("SELECT * FROM gw_job_state")).mappings().one())

    def tail(self) -> str:
        """The end of the agent's log."""
        text = self._log.read_text(errors="replace") if self._log.exists() else ""
        return "\n".join(text.splitlines()[-20:])

    def figures(self, row: str, published: Sequence[bytes], found: Sequence[bytes], *, ordered: bool = True) -> Figures:
        """Compare what was put in with what came out."""
        given, came = Counter(published), Counter(found)
        places = {body: place for place, body in enumerate(published)} if ordered else {}
        firsts = [places[body] for body in dict.fromkeys(found) if body in places]
        assert set(came) <= set(given), "something came out that was never put in"
        state = self.state()
        return Figures(
            row=row,
            seed=self.seed,
            kills=self.kills,
            broker_kills=self.broker_kills,
            messages=len(published),
            lost=(given - came).total(),
            doubled=(came - given).total(),
            disordered=sum(later < earlier for earlier, later in pairwise(firsts)),
            suppressed=state["suppressed_total"],
            level=state["guarantee"],
        )


@contextmanager
def killed_gateway(server: RabbitMQ, folder: Path) -> Iterator[KilledGateway]:
    """A gateway to be killed, on a new SQLite hub."""
    with gateway_on(f"sqlite:///{folder}/hub.db") as gateway:
        made = KilledGateway(server, gateway, folder)
        try:
            yield made
        finally:
            made.stop()


def _bytes(body: object) -> bytes:
    return body if isinstance(body, bytes) else str(body or "").encode()
