"""From the hub to MQTT exactly once, with a sending log: the real agent, SIGKILL while messages move, lost logs."""

from __future__ import annotations

import os
import random
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from mgw.transforms.message import Message
from tests.conformance.link_suite import unique
from tests.support.brokers import Mosquitto
from tests.support.brokers.server import OwnedProcess
from tests.support.gateways import Gateway
from tests.support.waiting import eventually

pytestmark = pytest.mark.mosquitto

BACKLOG = 1000  # messages that wait at least when the agent begins
MOMENT = 0.06  # seconds; a kill falls anywhere within so long after messages were seen to move
KNOWN = re.compile(r"(\d+) of \d+ messages of batch \d+ are already at the broker")


@pytest.fixture(scope="module")
def broker() -> Iterator[Mosquitto]:
    """With Mosquitto's own limit of 1000 queued messages."""
    with Mosquitto(config=("max_queued_messages 1000", "autosave_on_changes false", "autosave_interval 1800")) as own:
        yield own


class Subscriber:
    """Somebody else's client, which sees everything that is published from now on."""

    def __init__(self, broker: Mosquitto, topic: str) -> None:
        self.found: list[bytes] = []
        self._subscribed = threading.Event()
        self._client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
        self._client.on_message = self._take
        self._client.on_subscribe = lambda *_: self._subscribed.set()
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.ReceiveMaximum = 65535
        self._client.connect(broker.host, broker.port, properties=properties)
        self._client.loop_start()
        self._client.subscribe(topic, qos=1)
        assert self._subscribed.wait(20)

    def _take(self, _client: Client, _data: object, message: MQTTMessage) -> None:
        self.found.append(message.payload)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


class Stage:
    """A hub queue H, a job J that carries it to a topic, and an agent of its own process."""

    def __init__(self, broker: Mosquitto, url: str, folder: Path, batch: int = 50) -> None:
        self.broker = broker
        self.url = url
        self.folder = folder
        self.topic = unique("out")
        self.gateway = Gateway(url)
        self.sent: list[bytes] = []
        self.kills = 0
        self._log = folder / "agent.log"
        self._process: OwnedProcess | None = None
        admin = self.gateway.admin
        self.gateway.queue("H")
        where = {"hostname": broker.host, "port": broker.port}
        admin.create_msgsystem_link("plant", "MQTT", where, outbound_log_queue="mgw/sent/{job}")
        admin.register_foreign_queue("T", "plant", self.topic)
        admin.create_job("J", "OUTBOUND", "H", "T@plant", poll_interval=0.5, options={"MsgBatchSize": batch})
        self.subscriber = Subscriber(broker, self.topic)

    def close(self) -> None:
        self.kill()
        self.subscriber.close()
        self.gateway.close()

    # -- the agent ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        command = [sys.executable, "-m", "mgw.gateway", "run"]
        environment = {**os.environ, "MGW_HUB": self.url}
        self._process = OwnedProcess(command, environment=environment, log=self._log, folder=self.folder)

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    def text(self) -> str:
        """What the agents wrote."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def put(self, bodies: list[bytes]) -> None:
        for begin in range(0, len(bodies), 1000):
            self.gateway.enqueue("H", [Message(body) for body in bodies[begin : begin + 1000]])
        self.sent += bodies

    def carried(self) -> int:
        with self.gateway.hub.read() as conn:
            return int(conn.execute(sa.text("SELECT propagated_total FROM gw_job_state")).scalar_one())

    def reach(self, count: int) -> None:
        def reached() -> bool:
            assert self.carried() >= count
            return True

        try:
            eventually(reached, deadline=180, what=f"{count} messages carried")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{dict(self.gateway.job('J'))}\n{self.text()[-3000:]}") from error

    def kill_often(self, kills: int, messages: int, rng: random.Random) -> None:
        """Kill the agent so often in the middle of its work, then let it carry everything."""

        def more(count: int) -> list[bytes]:
            start = len(self.sent)
            return [rng.choice((b"a", b"b", *[b"%d" % number] * 2)) for number in range(start, start + count)]

        for _ in range(kills):
            carried = self.carried()
            if len(self.sent) - carried < BACKLOG:
                self.put(more(max(BACKLOG, messages // kills)))
            if self._process is None:
                self.start()
            self.reach(carried + 1)
            time.sleep(rng.uniform(0, MOMENT))  # the moment of the kill, not a wait for anything
            self.kill()
            self.kills += 1
        if len(self.sent) < messages:
            self.put(more(messages - len(self.sent)))
        self.start()
        self.reach(len(self.sent))

    def judge(self) -> str:
        """Every message once, none altered, in the order they were put in."""
        found = self.subscriber.found
        eventually(lambda: len(found) >= len(self.sent), deadline=60, what="what the broker hands out")
        counts, expected = Counter(found), Counter(self.sent)
        lost, doubled = expected - counts, counts - expected
        assert (sum(lost.values()), sum(doubled.values())) == (0, 0)
        assert found == self.sent
        return (
            f"MQTT out, echo log: {self.kills} kills, {len(self.sent)} messages, 0 lost, 0 doubled, 0 out of order, "
            f"{self.known()} known from the echo, {self.gateway.job('J')['SUPPRESSED_TOTAL']} known from records"
        )

    def recognised(self) -> int:
        """Messages that were not sent again, known from the echo or from a record."""
        return self.known() + int(self.gateway.job("J")["SUPPRESSED_TOTAL"])

    def known(self) -> int:
        """Messages that would have been sent again without the echo."""
        return sum(int(found[1]) for found in KNOWN.finditer(self.text()))


@contextmanager
def stage_on(broker: Mosquitto, folder: Path, **more: Any) -> Iterator[Stage]:
    stage = Stage(broker, f"sqlite:///{folder}/hub.db", folder, **more)
    try:
        yield stage
    finally:
        stage.close()


def test_messages_arrive_exactly_once_however_often_the_agent_is_killed(broker: Mosquitto, tmp_path: Path) -> None:
    with stage_on(broker, tmp_path) as stage:
        rng = random.Random(7)
        stage.kill_often(4, 4000, rng)
        while not stage.recognised() and stage.kills < 100:  # until a kill has hit a batch on its way
            stage.kill_often(1, len(stage.sent) + BACKLOG, rng)
        assert stage.gateway.job("J")["GUARANTEE"] == "exact-unless-broker-crash"
        stage.judge()
        assert stage.recognised() > 0, "no kill hit a batch on its way"


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_a_hundred_thousand_messages_and_two_hundred_kills(broker: Mosquitto, tmp_path: Path) -> None:
    kills = int(os.environ.get("MGW_KILLS") or 200)
    messages = int(os.environ.get("MGW_MESSAGES") or 100_000)
    with stage_on(broker, tmp_path) as stage:
        stage.kill_often(kills, messages, random.Random(20_261_120))
        print(stage.judge())
        assert stage.gateway.job("J")["GUARANTEE"] == "exact-unless-broker-crash"
        assert stage.kills >= kills
        assert len(stage.sent) >= messages
        assert stage.known() > 0
