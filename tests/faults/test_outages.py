"""A broker or the hub is away for some seconds: all jobs go on within two seconds of the moment it is back."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pika
import pytest
import sqlalchemy as sa

from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.errors import HubUnavailable
from mgw.transforms.message import Message
from tests.faults.stage import Brokers
from tests.support.brokers import Kafka, Mosquitto, PostgreSQL, RabbitMQ, Server, free_port
from tests.support.brokers.server import connect
from tests.support.gateways import Gateway, gateway_on, supervised
from tests.support.waiting import eventually

SOON = 2.0 + 3.0  # seconds: what is promised, and what a loaded machine may add; the next delay would be longer
PATIENCE = 60.0
JOBS = ("out1", "out2", "in1")


def link_to(gateway: Gateway, server: Server, queues: list[str]) -> None:
    """A link named L, and the queues there."""
    admin, settings = gateway.admin, dict[str, Any]()
    if isinstance(server, RabbitMQ):
        connection = pika.BlockingConnection(pika.ConnectionParameters(server.host, server.port))
        for queue in queues:
            connection.channel().queue_declare(queue, durable=True)
        connection.close()
        admin.create_msgsystem_link("L", "RABBITMQ", {"hostname": server.host, "port": server.port})
    elif isinstance(server, Kafka):
        for queue in queues:
            server.create_topic(queue)
        options = {"KAFKA_Bootstrap_timeout_ms": "500", "KAFKA_Request_timeout_ms": "1000"}
        admin.create_msgsystem_link("L", "KAFKA", {"bootstrap_servers": server.bootstrap}, options=options)
    elif isinstance(server, Mosquitto):
        admin.create_msgsystem_link("L", "MQTT", {"hostname": server.host, "port": server.port})
        settings["domain"] = "TOPIC"
    else:
        broker = MemoryBroker.get(queues[0])
        for queue in queues:
            broker.queue(queue)
        admin.create_msgsystem_link("L", "MEMORY", {"broker": broker.name})
    for number, queue in enumerate(queues, 1):
        admin.register_foreign_queue(f"Q{number}", "L", queue, **settings)


def jobs(gateway: Gateway, server: Server) -> None:
    """Two that write, and one that reads what the first of them wrote."""
    link_to(gateway, server, [f"q{uuid.uuid4().hex[:8]}" for _ in range(2)])
    for number in (1, 2):
        gateway.queue(f"H{number}")
        gateway.admin.create_job(f"out{number}", "OUTBOUND", f"H{number}", f"Q{number}@L")
    gateway.queue("BACK")
    gateway.admin.create_job("in1", "INBOUND", "Q1@L", "BACK")


def put(gateway: Gateway) -> None:
    for queue in ("H1", "H2"):
        gateway.enqueue(queue, [Message(body="x")])


def each(gateway: Gateway, column: str) -> Mapping[str, Any]:
    return {job: gateway.job(job)[column] for job in JOBS}


def arrived(gateway: Gateway, count: int) -> Callable[[], bool]:
    return lambda: all(moved >= count for moved in each(gateway, "PROPAGATED_MSGS").values())


def start_again(server: Any) -> float:
    """Start it; returns when its port answered (monotonic)."""
    answered: list[float] = []

    def ask() -> bool:
        connect(server.port).close()
        answered.append(time.monotonic())
        return True

    thread = threading.Thread(target=lambda: eventually(ask, deadline=PATIENCE, tolerate=(OSError,)))
    thread.start()
    server.start()
    thread.join()
    return answered[0]


@pytest.mark.parametrize("system", ["rabbitmq", "kafka", "mqtt"])
def test_all_jobs_of_a_link_go_on_soon_after_their_broker_is_back(
    system: str, brokers: Brokers, tmp_path: Path
) -> None:
    server = brokers.server(system)
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        jobs(gateway, server)
        with supervised(gateway):
            eventually(lambda: all(each(gateway, "GUARANTEE").values()), deadline=PATIENCE, what="all jobs connected")
            put(gateway)
            eventually(arrived(gateway, 1), deadline=PATIENCE, what="messages before the outage")
            if isinstance(server, Kafka):
                server.kill()
            else:
                server.stop()  # killed, they forget subscriptions and queues that are new
            put(gateway)
            enough = 3 if isinstance(server, Mosquitto) else 1  # the others take seconds to start
            eventually(lambda: max(each(gateway, "FAILURES").values()) >= enough, deadline=PATIENCE, what="failures")
            back = start_again(server)
            eventually(arrived(gateway, 2), deadline=PATIENCE, what="messages after the outage")
            took = time.monotonic() - back
            assert took < SOON, f"{took:.1f} s, {each(gateway, 'LAST_ERROR_MSG')}"
            eventually(lambda: set(each(gateway, "STATUS").values()) == {"READY"}, what="all jobs READY again")


def test_all_jobs_go_on_soon_after_the_hub_is_back(
    postgresql_of_our_own: PostgreSQL, caplog: pytest.LogCaptureFixture
) -> None:
    server = postgresql_of_our_own
    with gateway_on(server.create_database(f"h{uuid.uuid4().hex[:8]}")) as gateway:
        jobs(gateway, server)
        with supervised(gateway) as ended:
            eventually(lambda: all(each(gateway, "GUARANTEE").values()), deadline=PATIENCE, what="all jobs connected")
            put(gateway)
            eventually(arrived(gateway, 1), deadline=PATIENCE, what="messages before the outage")
            threads = {thread.name: thread for thread in threading.enumerate() if thread.name.startswith("job-")}
            server.kill()
            eventually(lambda: "failure 3, next" in caplog.text, deadline=PATIENCE, what="a delay of 8 seconds")
            back = start_again(server)

            def enqueued() -> bool:
                put(gateway)
                return True

            eventually(enqueued, deadline=PATIENCE, tolerate=(HubUnavailable,))
            eventually(arrived(gateway, 2), deadline=PATIENCE, what="messages after the outage")
            took = time.monotonic() - back
            assert took < SOON, f"{took:.1f} s"
            assert ended == []
            assert all(thread.is_alive() for thread in threads.values())


def test_a_transaction_goes_on_soon_after_what_accepted_and_closed_is_a_broker_again(
    brokers: Brokers, tmp_path: Path
) -> None:
    """As the port of a container does whose broker starts: the connection is accepted, and closed at once."""
    server = brokers.kafka
    topic, log = (f"q{uuid.uuid4().hex[:8]}" for _ in range(2))
    server.create_topic(topic)
    server.create_topic(log, config={"cleanup.policy": "compact"})
    with server.proxy() as proxy, gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        where = {"bootstrap_servers": server.proxied_bootstrap}
        gateway.admin.create_msgsystem_link("L", "KAFKA", where, outbound_log_queue=log)
        gateway.admin.register_foreign_queue("Q", "L", topic)
        gateway.queue("H")
        gateway.admin.create_job("out", "OUTBOUND", "H", "Q@L")

        def moved(count: int) -> bool:
            return int(gateway.job("out")["PROPAGATED_MSGS"]) == count

        with supervised(gateway):
            eventually(lambda: gateway.job("out")["GUARANTEE"] == "exact", deadline=PATIENCE, what="the job connected")
            gateway.enqueue("H", [Message(body="x")])
            eventually(lambda: moved(1), deadline=PATIENCE, what="a message before the outage")
            broker, proxy.target = proxy.target, (server.host, free_port())
            proxy.cut()
            gateway.enqueue("H", [Message(body="x")])
            attempts = proxy.accepted
            eventually(lambda: proxy.accepted > attempts + 5, deadline=PATIENCE, what="attempts to connect")
            proxy.target = broker
            back = time.monotonic()
            eventually(lambda: moved(2), deadline=PATIENCE, what="a message after the outage")
            took = time.monotonic() - back
            assert took < SOON, f"{took:.1f} s, {gateway.job('out')['LAST_ERROR_MSG']}"


def test_a_job_that_waits_for_confirmations_does_not_work_since_nothing_moves(brokers: Brokers, tmp_path: Path) -> None:
    server = brokers.kafka
    topic = f"q{uuid.uuid4().hex[:8]}"
    server.create_topic(topic)
    with server.proxy() as proxy, gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        options = {"KAFKA_Request_timeout_ms": 11_000, "KAFKA_Delivery_timeout_ms": 12_000}
        where = {"bootstrap_servers": server.proxied_bootstrap}
        gateway.admin.create_msgsystem_link("L", "KAFKA", where, options=options)
        gateway.admin.register_foreign_queue("Q", "L", topic)
        gateway.queue("H")
        gateway.admin.create_job("out", "OUTBOUND", "H", "Q@L")
        with supervised(gateway):
            gateway.enqueue("H", [Message(body="x")])
            eventually(lambda: gateway.job("out")["PROPAGATED_MSGS"] == 1, deadline=PATIENCE, what="a first message")
            proxy.stall()
            stalled = time.time()
            gateway.enqueue("H", [Message(body="x")])
            eventually(lambda: gateway.job("out")["STATUS"] == "RETRY", deadline=PATIENCE, what="a failure")
            assert time.time() - stalled > 10, "it waited for the answers"
            with gateway.hub.read() as conn:
                since = conn.execute(sa.text("SELECT not_working_since FROM gw_job_state")).scalar_one()
            assert since - stalled < 5, "it counts from when nothing moved"
            proxy.resume()
