"""docker-compose.yml under podman-compose, with images of our own making under the names of the real ones."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.support import containers
from tests.support.containers import ROOT, Container, podman
from tests.support.kafka_clients import KafkaConsumer
from tests.support.kafka_jars import kafka_jars
from tests.support.ports import LOOPBACK, free_port
from tests.support.waiting import NotInTime, eventually

pytestmark = [pytest.mark.matrix, pytest.mark.timeout(1200)]

SERVICES: dict[str, dict[str, Any]] = YAML(typ="safe").load((ROOT / "docker-compose.yml").read_text())["services"]
STAND_INS = ROOT / "tests/support/standins"
STAND_IN = "localhost/mgw-standin"
#: What the stand-in of each service starts.
STANDS_FOR = {"postgres": "postgres", "rabbitmq": "rabbitmq-server", "kafka": "kafka", "mosquitto": "mosquitto"}
PUBLISHED = ("POSTGRES", "RABBIT", "RABBIT_MANAGEMENT", "KAFKA", "MQTT")


@dataclass(frozen=True, slots=True)
class Stack:
    """The services of docker-compose.yml, and the ports that are published."""

    project: str
    ports: dict[str, int]

    def compose(self, *words: str) -> str:
        """What ``podman-compose WORDS`` prints."""
        variables = {f"{name}_PUBLISHED_PORT": str(port) for name, port in self.ports.items()}
        done = subprocess.run(
            ["podman-compose", "-p", self.project, *words],
            cwd=ROOT,
            env={**containers.environment(), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        return done.stdout

    def container(self, service: str) -> Container:
        """The container of a service."""
        return Container(f"{self.project}_{service}_1")

    def jobs(self) -> dict[str, dict[str, Any]]:
        """The jobs as ``mgw jobs list`` shows them, by name; none where it cannot."""
        shown = self.container("gateway").exec("mgw", "jobs", "list", "--json", check=False)
        return {row["job_name"]: row for row in json.loads(shown or "[]")}

    def all_work(self) -> bool:
        """Whether every job of the quickstart is connected and waits for messages."""
        jobs = self.jobs()
        assert jobs, self.container("gateway").log()[-2000:]
        others = {name: row for name, row in jobs.items() if row["activity"] != "IDLE"}
        assert not others, others
        return True

    def connects(self, what: str, deadline: float) -> None:
        """Wait until every job waits for messages; where one does not, fail with what all containers say."""
        try:
            eventually(self.all_work, what=what, deadline=deadline)
        except NotInTime as error:
            said = [str(error)]
            for service in SERVICES:
                container = self.container(service)
                state = container.state() if container.exists() else {"Status": "not created"}
                shown = {name: state.get(name) for name in ("Status", "ExitCode", "OOMKilled", "Error")}
                said.append(f"--- {service} {shown}\n{container.log()[-1500:]}")
            pytest.fail("\n".join(said), pytrace=False)

    def publish(self, topic: str, text: str) -> None:
        """mosquitto_pub at QoS 1 to the published port."""
        where = ["-h", LOOPBACK, "-p", str(self.ports["MQTT"])]
        subprocess.run(["mosquitto_pub", *where, "-q", "1", "-t", topic, "-m", text], check=True, timeout=60)

    def records(self, topic: str) -> list[str]:
        """What Kafka holds in a topic, read through the published port."""
        bootstrap = f"{LOOPBACK}:{self.ports['KAFKA']}"
        consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", group_id=None)
        try:
            found = consumer.poll(timeout_ms=3000)
            return [record.value.decode() for records in found.values() for record in records]
        finally:
            consumer.close()


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """The whole stack, started; its volumes go with it."""
    reason = containers.missing()
    if reason is None and shutil.which("podman-compose") is None:
        reason = "there is no podman-compose. Run: tests/support/packages containers"
    if reason is not None:
        pytest.skip(reason)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        shutil.copytree(STAND_INS, folder, dirs_exist_ok=True)
        shutil.copytree(kafka_jars(), folder / "jars")
        containers.build(STAND_IN, folder, arguments={"BASE": containers.base_image()})
        for service, program in STANDS_FOR.items():
            (folder / "Service").write_text(f"FROM {STAND_IN}\nENV STANDS_FOR={program}\n")
            containers.build(f"localhost/{SERVICES[service]['image']}", folder, file="Service")
    image = SERVICES["gateway"]["image"]
    containers.build(f"localhost/{image}", ROOT, arguments={"BASE": containers.base_image()})
    found = Stack(f"mgw{uuid.uuid4().hex[:8]}", {name: free_port() for name in PUBLISHED})
    try:
        print(found.compose("up", "--detach", "--no-build"))  # shown where a test fails
        yield found
    finally:
        found.compose("down", "--volumes")
        for volume in podman("volume", "ls", "--quiet").split():
            if volume.startswith(f"{found.project}_"):
                podman("volume", "rm", "--force", volume, check=False)


def test_every_service_comes_up_and_every_job_connects(stack: Stack) -> None:
    stack.connects("jobs that are connected", 240)
    for service in ("secrets", "queues", "topics"):
        assert stack.container(service).state()["ExitCode"] == 0, stack.container(service).log()


def test_messages_cross_it_and_a_killed_gateway_comes_back_to_its_hub(stack: Stack) -> None:
    stack.connects("jobs that are connected", 240)
    stack.publish("plant/press1/telemetry", '{"temperature": 91}')
    eventually(lambda: '{"temperature": 91}' in stack.records("plant.telemetry"), what="it at Kafka", deadline=60)
    gateway = stack.container("gateway")
    before = gateway.state()["Pid"]
    gateway.exec("python3", "-c", "import os, signal; os.kill(1, signal.SIGTERM)", check=False)
    eventually(lambda: gateway.state()["Pid"] not in {before, 0}, what="the gateway, started again", deadline=90)
    stack.connects("jobs that are connected again", 120)
    assert stack.jobs()["TELEMETRY_TO_KAFKA"]["propagated_total"] == 1  # the hub is the one of before
    stack.publish("plant/press1/telemetry", '{"temperature": 92}')
    eventually(lambda: '{"temperature": 92}' in stack.records("plant.telemetry"), what="the next one", deadline=60)
    assert stack.records("plant.telemetry") == ['{"temperature": 91}', '{"temperature": 92}']
