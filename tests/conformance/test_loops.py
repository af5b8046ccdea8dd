"""Messages that go round in a loop of jobs: stopped after max_passes, named, kept as they were, replayed at the end."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from mgw.gateway.services.exceptions import EVERYTHING, Pace, desk_of
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.message import Header, Message, ValueType
from tests.conformance.moving import address
from tests.faults.ends.rabbitmq import declare
from tests.support.brokers import Kafka, Mosquitto, RabbitMQ
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually

TENANT = Header("tenant", ValueType.TEXT, "a")
GIVEN = Message("x", headers=(TENANT,), correlation="c")


@pytest.fixture
def gateway(tmp_path: Path, broker: MemoryBroker) -> Iterator[Gateway]:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        linked(gateway, broker)
        yield gateway


def linked(gateway: Gateway, broker: MemoryBroker) -> None:
    """A, B and BAD at the broker, queues H, H2 and WRONG in the hub."""
    gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
    for name in ("A", "B", "BAD"):
        broker.queue(name)
        gateway.admin.register_foreign_queue(name, "mem")
    for name in ("H", "H2", "WRONG"):
        gateway.queue(name)


def job(gateway: Gateway, name: str, source: str, destination: str, passes: int = 0, **given: Any) -> None:
    """``passes``: max_passes; 0: the default."""
    kind = {(True, False): "INBOUND", (False, True): "OUTBOUND", (True, True): "THROUGH", (False, False): "LOCAL"}
    options = {"max_passes": passes} if passes else {}
    ends = "@" in source, "@" in destination
    gateway.admin.create_job(name, kind[ends], source, destination, options=options, poll_interval=0.1, **given)


def stopped(gateway: Gateway, name: str) -> Callable[[], bool]:
    return lambda: bool(gateway.job(name)["EXCEPTIONQ_TOTAL"])


def reason(message: Message) -> str:
    assert message.header("MGW_error_number") == 730
    return str(message.header("MGW_error")).partition(";")[0].removeprefix("[730] ")


def of_application(message: Message) -> Message:
    """What an application sent."""
    return Message(message.body, tuple(each for each in message.headers if not each.name.startswith("MGW_")))


def test_a_loop_over_a_broker_is_stopped_and_the_message_is_replayed_when_the_loop_is_cut(
    gateway: Gateway, broker: MemoryBroker
) -> None:
    job(gateway, "in", "A@mem", "H", 100)
    job(gateway, "out", "H", "A@mem", 3, exception_queue="WRONG")
    broker.put("A", GIVEN)
    with gateway.run():
        eventually(stopped(gateway, "out"))
        assert gateway.job("out")["PROPAGATED_MSGS"] == 3
    (found,) = gateway.browse("WRONG")
    assert reason(found) == "the message goes round in a loop: out -> in -> out"
    assert of_application(found).headers == (TENANT,)
    assert (found.body, found.correlation) == ("x", "c")
    assert any("out -> in -> out" in text for text in gateway.events())
    gateway.admin.disable_job("in")
    desk_of(gateway.admin, "out").replay(EVERYTHING, by="me", limit=None, pace=Pace(None), dry=False)
    with gateway.run():
        eventually(lambda: bool(broker.queue("A").messages))
    assert [of_application(each).headers for each in broker.queue("A").messages] == [(TENANT,)]
    assert gateway.browse("WRONG") == []


def test_without_an_exception_queue_the_job_waits_and_names_the_loop(gateway: Gateway, broker: MemoryBroker) -> None:
    job(gateway, "in", "A@mem", "H", 2)
    job(gateway, "out", "H", "A@mem")
    broker.put("A", GIVEN)
    with gateway.run():
        eventually(lambda: "loop: in -> in;" in str(gateway.job("in")["LAST_ERROR_MSG"]))
    assert [each.body for each in broker.queue("A").messages] == ["x"]


def test_a_loop_of_through_jobs_is_stopped_at_their_exception_queue(gateway: Gateway, broker: MemoryBroker) -> None:
    job(gateway, "there", "A@mem", "B@mem", 2, exception_queue="BAD@mem")
    job(gateway, "back", "B@mem", "A@mem", 2, exception_queue="BAD@mem")
    broker.put("A", GIVEN)
    with gateway.run():
        eventually(lambda: bool(broker.queue("BAD").messages))
        eventually(stopped(gateway, "there"))
    (found,) = broker.queue("BAD").messages
    assert reason(found) == "the message goes round in a loop: there -> back -> there"
    assert of_application(found) == Message("x", headers=(TENANT,))
    assert gateway.job("there")["PROPAGATED_MSGS"] == 2


def test_a_loop_inside_the_hub_is_stopped(gateway: Gateway) -> None:
    job(gateway, "there", "H", "H2", 2, exception_queue="WRONG")
    job(gateway, "back", "H2", "H")
    gateway.enqueue("H", [GIVEN])
    with gateway.run():
        eventually(stopped(gateway, "there"))
    assert [reason(each) for each in gateway.browse("WRONG")] == ["the message goes round in a loop: there -> there"]


def test_a_loop_of_two_hubs_whose_jobs_have_the_same_names_is_stopped(tmp_path: Path, broker: MemoryBroker) -> None:
    with ExitStack() as stack:
        one, two = (stack.enter_context(gateway_on(f"sqlite:///{tmp_path}/{name}.db")) for name in "ab")
        for gateway, source, target in ((one, "A@mem", "B@mem"), (two, "B@mem", "A@mem")):
            linked(gateway, broker)
            job(gateway, "in", source, "H", 2, exception_queue="BAD@mem")
            job(gateway, "out", "H", target, 2, exception_queue="WRONG")
        broker.put("A", GIVEN)
        stack.enter_context(one.run())
        stack.enter_context(two.run())
        eventually(lambda: bool(broker.queue("BAD").messages))
        (found,) = broker.queue("BAD").messages
        far = two.hub.hub_id.hex()[:8]
        assert reason(found) == f"the message goes round in a loop: in -> out -> in@{far} -> out@{far} -> in"


def test_a_job_without_the_option_neither_writes_nor_reads_a_trail(gateway: Gateway, broker: MemoryBroker) -> None:
    trail = Header("MGW_trail", ValueType.TEXT, f"in@{gateway.hub.hub_id.hex()[:8]}*900")
    job(gateway, "in", "A@mem", "H")
    job(gateway, "there", "B@mem", "A@mem")
    broker.put("B", GIVEN, Message("y", headers=(trail,)))
    with gateway.run():
        eventually(lambda: len(gateway.browse("H")) == 2)
    assert [each.header("MGW_trail") for each in gateway.browse("H")] == [None, trail.value]


def test_a_job_that_runs_takes_the_option_over_at_once(gateway: Gateway, broker: MemoryBroker) -> None:
    job(gateway, "there", "A@mem", "B@mem")
    with gateway.run():
        gateway.admin.alter_job("there", options={"max_passes": 1})

        def trails() -> bool:
            broker.put("A", GIVEN)
            return any(each.header("MGW_trail") for each in broker.queue("B").messages)

        eventually(trails)


# ------------------------------------------------------------------------------------------------------ real brokers


def far_link(gateway: Gateway, server: RabbitMQ | Kafka | Mosquitto, *places: str) -> None:
    """A link named after the system, with registered queues S0, S1, ..., which are new."""
    system = type(server).__name__.upper().replace("MOSQUITTO", "MQTT")
    where: dict[str, Any] = dict(address(server))
    if isinstance(server, RabbitMQ):
        where |= {"username": server.username, "password": server.password}
    gateway.admin.create_msgsystem_link(system.lower(), system, where)
    options = {"KAFKA_StartAt": "earliest"} if system == "KAFKA" else {}
    for number, place in enumerate(places):
        if isinstance(server, RabbitMQ):
            declare(server, place, {"x-queue-type": "classic"})
        elif isinstance(server, Kafka):
            server.create_topic(place, 1)
        gateway.admin.register_foreign_queue(f"S{number}", system.lower(), place, options=options)


@pytest.fixture(params=["rabbitmq", pytest.param("kafka", marks=pytest.mark.matrix), "mosquitto"])
def server(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


def test_a_loop_over_a_real_broker_is_stopped(server: RabbitMQ | Kafka | Mosquitto, tmp_path: Path) -> None:
    system = type(server).__name__.lower().replace("mosquitto", "mqtt")
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        far_link(gateway, server, f"loop{uuid.uuid4().hex[:8]}")
        for name in ("H", "WRONG"):
            gateway.queue(name)
        job(gateway, "in", f"S0@{system}", "H", 100)
        job(gateway, "out", "H", f"S0@{system}", 2, exception_queue="WRONG")
        with gateway.run():
            eventually(lambda: gateway.job("in")["ACTIVITY"] in {"IDLE", "RUNNING"})  # MQTT keeps nothing before
            gateway.enqueue("H", [Message(b"x", headers=(TENANT,))])
            eventually(stopped(gateway, "out"))
        (found,) = gateway.browse("WRONG")
        assert reason(found) == "the message goes round in a loop: out -> in -> out"
        assert found.body == b"x"
        assert TENANT in found.headers
        assert gateway.job("out")["PROPAGATED_MSGS"] == 2


@pytest.mark.matrix
def test_a_loop_of_through_jobs_between_two_brokers_is_stopped(
    rabbitmq: RabbitMQ, kafka: Kafka, tmp_path: Path
) -> None:
    name = f"loop{uuid.uuid4().hex[:8]}"
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        far_link(gateway, rabbitmq, name, f"{name}_bad")
        far_link(gateway, kafka, name)
        gateway.queue("H")
        gateway.queue("H2")
        job(gateway, "begin", "H", "S0@rabbitmq")
        job(gateway, "there", "S0@rabbitmq", "S0@kafka", 2, exception_queue="S1@rabbitmq")
        job(gateway, "back", "S0@kafka", "S0@rabbitmq", 100)
        gateway.enqueue("H", [Message(b"x", headers=(TENANT,))])
        with gateway.run():
            eventually(stopped(gateway, "there"))
            job(gateway, "see", "S1@rabbitmq", "H2")
            eventually(lambda: bool(gateway.browse("H2")))
        (found,) = gateway.browse("H2")
        assert reason(found) == "the message goes round in a loop: there -> back -> there"
        assert (found.body, of_application(found).headers) == (b"x", (TENANT,))
