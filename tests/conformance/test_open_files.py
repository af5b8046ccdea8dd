"""Many files and connections: beyond the 1024th, and where the process may have no more."""

from __future__ import annotations

import gc
import os
import resource
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlparse

import pytest
from pika import BlockingConnection, URLParameters

from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.state.gateway_hub import open_hub
from mgw.links import registry
from mgw.links.contract import LinkConfig
from mgw.transforms.errors import HubUnavailable
from mgw.transforms.message import Message
from mgw.transforms.open_files import limit, raise_limit
from tests.support.brokers import Kafka, Mosquitto, PostgreSQL, RabbitMQ
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually

Queue = Callable[[Gateway], str]  # registers a new queue or topic; its full name


@contextmanager
def files_left(number: int) -> Iterator[None]:
    """This process may open so many files more. Its limit is one of numbers: gaps between the open files are filled."""
    gc.collect()
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    fillers: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1 + number, before[1]))
    try:
        with suppress(OSError):
            while True:
                fillers.append(os.open(os.devnull, os.O_RDONLY))
        for _ in range(number):
            os.close(fillers.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for filler in fillers:
            os.close(filler)


@pytest.fixture
def links(rabbitmq: RabbitMQ, kafka: Kafka, mosquitto: Mosquitto) -> dict[str, LinkConfig]:
    """A link of each kind."""
    user = urlparse(rabbitmq.url)
    rabbit = {"hostname": "127.0.0.1", "port": user.port, "virtual_host": "/"}
    brokers = {"bootstrap_servers": f"127.0.0.1:{kafka.port}"}
    return {
        "rabbit": LinkConfig("rabbit", "RABBITMQ", rabbit, username=user.username, password=user.password),
        "kafka": LinkConfig("kafka", "KAFKA", brokers, {"KAFKA_Bootstrap_timeout_ms": "1500"}),
        "mqtt": LinkConfig("mqtt", "MQTT", {"hostname": "127.0.0.1", "port": mosquitto.port}),
    }


@pytest.fixture
def queues(rabbitmq: RabbitMQ, kafka: Kafka) -> dict[str, Queue]:
    """How to get a new queue on each of the links."""

    def new(gateway: Gateway, link: str, domain: str) -> str:
        name = f"q{uuid.uuid4().hex[:12]}"
        if link == "rabbit":
            with BlockingConnection(URLParameters(rabbitmq.url)) as connection:
                connection.channel().queue_declare(name, durable=True)
        if link == "kafka":
            kafka.create_topic(name)
        gateway.admin.register_foreign_queue(name, link, domain=domain)
        return f"{name}@{link}"

    return {
        "rabbit": lambda gateway: new(gateway, "rabbit", "QUEUE"),
        "kafka": lambda gateway: new(gateway, "kafka", "TOPIC"),
        "mqtt": lambda gateway: new(gateway, "mqtt", "TOPIC"),
    }


def define(admin: GatewayAdmin, links: dict[str, LinkConfig]) -> None:
    for name, link in links.items():
        admin.create_msgsystem_link(
            name, link.type, link.attributes, options=link.options, username=link.username, password=link.password
        )


def test_messages_move_over_connections_beyond_the_1024th(
    links: dict[str, LinkConfig], queues: dict[str, Queue], tmp_path: Path
) -> None:
    assert raise_limit() > 1400, "this test needs more open files than the machine allows"
    with ExitStack() as files, gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        for _ in range(1100):
            files.enter_context(open(os.devnull, "rb"))
        define(gateway.admin, links)
        for name, new in queues.items():
            gateway.queue(f"{name}_out")
            gateway.queue(f"{name}_in")
            queue = new(gateway)
            gateway.admin.create_job(f"{name}_in", "INBOUND", queue, f"{name}_in")
            gateway.admin.create_job(f"{name}_out", "OUTBOUND", f"{name}_out", queue)
        with gateway.run():
            for name in links:
                eventually(lambda name=name: gateway.job(f"{name}_in")["ACTIVITY"] == "IDLE", deadline=40, what=name)  # type: ignore[misc]
                gateway.enqueue(f"{name}_out", [Message(body="beyond")])
            for name in links:
                eventually(lambda name=name: gateway.browse(f"{name}_in"), deadline=30, what=name)  # type: ignore[misc]


@pytest.mark.parametrize("name", ["rabbit", "kafka", "mqtt"])
def test_every_link_names_the_limit_where_nothing_can_be_opened(links: dict[str, LinkConfig], name: str) -> None:
    link = registry.open_link(links[name])
    assert all(check.ok for check in link.test())  # what it imports on the way is there
    refusals = []
    for spare in range(8):
        with files_left(spare):
            refusals += [f"{check.detail}; {check.cure}" for check in link.test() if not check.ok]
    assert refusals
    for text in refusals:
        assert "files and connections open" in text
        assert "LimitNOFILE" in text


def test_the_hub_names_the_limit_where_it_cannot_be_opened_once_more(postgresql: PostgreSQL, tmp_path: Path) -> None:
    urls = [f"sqlite:///{tmp_path}/hub.db", postgresql.create_database(f"files_{uuid.uuid4().hex[:8]}")]
    for url in urls:
        open_hub(url, create=True).close()
        with files_left(0), pytest.raises(HubUnavailable) as caught:
            open_hub(url)
        assert "LimitNOFILE" in str(caught.value), url


def test_an_agent_raises_its_limit_and_tells_what_it_needs(
    links: dict[str, LinkConfig], queues: dict[str, Queue], tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/hub.db"
    with gateway_on(url) as gateway:
        define(gateway.admin, {"mqtt": links["mqtt"]})
        for number in range(40):
            gateway.queue(f"H{number}")
            gateway.admin.create_job(f"j{number}", "INBOUND", queues["mqtt"](gateway), f"H{number}")
        soft = launched(url, "ulimit -S -n 100", tmp_path)
        try:
            eventually(lambda: "need about 380 open files" in soft.text(), deadline=40, what="the need in the log")
            limits = Path(f"/proc/{soft.process.pid}/limits").read_text()
            row = next(line.split() for line in limits.splitlines() if line.startswith("Max open files"))
            assert int(row[3]) == min(int(row[4]), 1 << 20) > 100
        finally:
            soft.kill()
        hard = launched(url, "ulimit -n 100", tmp_path)
        try:
            eventually(lambda: "this process may have 100" in hard.text(), deadline=40, what="the warning in the log")

            def blamed() -> bool:
                texts = [gateway.job(f"j{number}")["LAST_ERROR_MSG"] or "" for number in range(40)]
                assert not [text for text in texts if "check hostname" in text]
                return any("this process may have 100 files and connections open" in text for text in texts)

            eventually(blamed, deadline=40, what="an error that names the limit", tolerate=())
            states = [gateway.job(f"j{number}")["STATUS"] for number in range(40)]
            assert set(states) <= {"READY", "RETRY"}
            assert any("need about 380 open files" in event for event in gateway.events())
        finally:
            hard.kill()
    assert limit() > 100


class launched:  # noqa: N801  (a process, begun when it is called)
    """``mgw run`` under a limit of the shell."""

    def __init__(self, url: str, limits: str, folder: Path) -> None:
        self.log = folder / f"{uuid.uuid4().hex}.log"
        with self.log.open("wb") as sink:
            command = f'{limits}; exec "$@"'
            program = [sys.executable, "-m", "mgw.gateway", "--hub", url, "run"]
            self.process = subprocess.Popen(["sh", "-c", command, "sh", *program], stdout=sink, stderr=sink)

    def text(self) -> str:
        return self.log.read_text()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
