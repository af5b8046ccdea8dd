"""Messages that no subscriber of a job's destination wants: what the job's option ``unrouted`` makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from mgw.gateway.ledger import check
from mgw.gateway.ledger.history import Range
from mgw.gateway.ledger.record import Outcome
from mgw.gateway.observe import gathered
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.errors import AdminError
from mgw.transforms.message import Message
from tests.conformance.link_suite import unique
from tests.conformance.test_rabbitmq_link import RabbitTemplate
from tests.support.brokers import PostgreSQL, RabbitMQ
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually

HOT = "tab.user_data.t > 80"
GIVEN = [f'{{"t":{t}}}' for t in (70, 81, 60, 95, 50)]
JSON = pika.BasicProperties(content_type="application/json", delivery_mode=2)
WANTED, UNWANTED = [GIVEN[1], GIVEN[3]], [GIVEN[0], GIVEN[2], GIVEN[4]]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def gateway(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Gateway]:
    """A multi-consumer queue H without a subscriber."""
    url = f"sqlite:///{tmp_path}/hub.db"
    if request.param == "postgresql":
        server: PostgreSQL = request.getfixturevalue("postgresql")
        url = server.create_database(unique("unrouted"))
    with gateway_on(url) as gateway:
        gateway.queue("H", multiple_consumers=True)
        yield gateway


def inbound(gateway: Gateway, broker: MemoryBroker, **job: Any) -> None:
    gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
    for name in ("SRC", "BAD"):
        broker.queue(name)
        gateway.admin.register_foreign_queue(name, "mem")
    gateway.admin.create_job("inj", "INBOUND", "SRC@mem", "H", **job)
    broker.put("SRC", *map(Message, GIVEN))


def local(gateway: Gateway, **job: Any) -> None:
    for name in ("L", "BAD"):
        gateway.queue(name)
    gateway.admin.create_job("inj", "LOCAL", "L", "H", **job)
    gateway.enqueue("L", [Message(body) for body in GIVEN])


def bodies(messages: list[Message]) -> list[Any]:
    return [message.body for message in messages]


def proven(gateway: Gateway) -> dict[str, int]:
    found = gateway.admin.get_job("inj")
    assert found is not None
    with gateway.hub.read() as conn:
        proof = check.reconcile(conn, found, gateway.hub.hub_id, Range())
    assert proof.holds, proof.offences
    return {name: count for name, count in proof.outcomes.items() if count}


def counters(gateway: Gateway) -> tuple[int, int, int]:
    row = gateway.job("inj")
    return row["PROPAGATED_TOTAL"], row["DISCARDED_TOTAL"], row["EXCEPTIONQ_TOTAL"]


@pytest.mark.parametrize("make", ["inbound", "local"])
def test_what_every_rule_refuses_is_dropped_and_counted_and_the_rest_goes_on(
    gateway: Gateway, broker: MemoryBroker, make: str
) -> None:
    gateway.queues.add_subscriber("H", "HOT", rule=HOT)
    inbound(gateway, broker) if make == "inbound" else local(gateway)
    with gateway.run():
        eventually(lambda: sum(counters(gateway)) == len(GIVEN))
    assert counters(gateway) == (2, 3, 0)
    assert bodies(gateway.browse("H", "HOT")) == WANTED
    assert proven(gateway)[Outcome.UNROUTED] == 3
    text = "job inj: 3 message(s) dropped: no rule of a subscriber of queue H is true for them"
    assert [each for each in gateway.events() if "dropped" in each] == [text]


def test_events_of_many_batches_are_gathered(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathered, "GATHER_SECONDS", 1000.0)
    gateway.queues.add_subscriber("H", "HOT", rule=HOT)
    inbound(gateway, broker, options={"MsgBatchSize": 1, "max_batch_size": 1})
    with gateway.run():
        eventually(lambda: sum(counters(gateway)) == len(GIVEN))
    told = [each.partition(" message(s)")[0] for each in gateway.events() if "dropped" in each]
    assert told == ["job inj: 1", "job inj: 2"], "the first at once, the sum of the others at the end"


@pytest.mark.parametrize("make", ["inbound", "local"])
@pytest.mark.parametrize("size", [2, 200])
def test_exception_queue_gets_what_every_rule_refuses(
    gateway: Gateway, broker: MemoryBroker, make: str, size: int
) -> None:
    gateway.queues.add_subscriber("H", "HOT", rule=HOT)
    options = {"unrouted": "exception_queue", "MsgBatchSize": size, "max_batch_size": size}
    if make == "inbound":
        inbound(gateway, broker, options=options, exception_queue="BAD@mem")
    else:
        local(gateway, options=options, exception_queue="BAD")
    with gateway.run():
        eventually(lambda: sum(counters(gateway)) == len(GIVEN))
    assert counters(gateway) == (2, 0, 3)
    assert bodies(gateway.browse("H", "HOT")) == WANTED
    found = list(broker.queue("BAD").messages) if make == "inbound" else gateway.browse("BAD")
    assert bodies(found) == UNWANTED
    assert all("24033" in str(message.header("MGW_error")) for message in found)
    assert proven(gateway)[Outcome.EXCEPTION] == 3


def test_error_names_job_message_source_position_and_option(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.queues.add_subscriber("H", "HOT", rule=HOT)
    inbound(gateway, broker, options={"unrouted": "error"}, exception_queue="BAD@mem")
    with gateway.run():
        eventually(lambda: gateway.job("inj")["STATUS"] == "RETRY")
        told = gateway.job("inj")["LAST_ERROR_MSG"]
        assert len(broker.queue("SRC").messages) == len(GIVEN)
        assert "ORA-24033" in told
        assert "job inj: message SRC@" in told
        assert "2 more of its batch" in told
        assert "unrouted=error" in told
        assert "mgw jobs alter inj --option unrouted=discard" in told
        gateway.admin.alter_job("inj", options={"unrouted": "discard"})
        gateway.admin.reset_job("inj")
        eventually(lambda: counters(gateway) == (2, 3, 0))


def test_error_of_a_local_job_names_the_message(gateway: Gateway) -> None:
    gateway.queues.add_subscriber("H", "HOT", rule=HOT)
    local(gateway, options={"unrouted": "error"}, exception_queue="BAD")
    first = gateway.browse("L")[0].msgid
    with gateway.run():
        eventually(lambda: gateway.job("inj")["STATUS"] == "RETRY")
    assert first is not None
    assert f"message AQMSGID:{first.hex()} of queue L" in gateway.job("inj")["LAST_ERROR_MSG"]
    assert bodies(gateway.browse("BAD")) == []


@pytest.mark.parametrize("choice", ["discard", "exception_queue", "error"])
def test_queue_without_any_subscriber_is_waited_for(gateway: Gateway, broker: MemoryBroker, choice: str) -> None:
    inbound(gateway, broker, options={"unrouted": choice}, exception_queue="BAD@mem")
    with gateway.run():
        eventually(lambda: gateway.job("inj")["STATUS"] == "RETRY")
        assert "queue H has no subscriber at all" in gateway.job("inj")["LAST_ERROR_MSG"]
        gateway.queues.add_subscriber("H", "ALL")
        gateway.admin.reset_job("inj")
        eventually(lambda: len(gateway.browse("H", "ALL")) == len(GIVEN))
    assert counters(gateway) == (5, 0, 0)


def test_exception_queue_is_needed_where_it_is_named(gateway: Gateway, broker: MemoryBroker) -> None:
    with pytest.raises(AdminError, match=r"ORA-32801.*unrouted=exception_queue.*has no exception queue"):
        inbound(gateway, broker, options={"unrouted": "exception_queue"})
    gateway.admin.create_job(
        "inj", "INBOUND", "SRC@mem", "H", options={"unrouted": "exception_queue"}, exception_queue="BAD@mem"
    )
    with pytest.raises(AdminError, match="has no exception queue"):
        gateway.admin.alter_job("inj", exception_queue=None)
    gateway.admin.alter_job("inj", exception_queue=None, options={"unrouted": None})


@pytest.mark.rabbitmq
def test_filter_does_not_stop_the_bridge_from_rabbitmq(gateway: Gateway, rabbitmq: RabbitMQ) -> None:
    template = RabbitTemplate(rabbitmq)
    source, bad = template.queue(), template.queue()
    link = {"hostname": rabbitmq.host, "port": rabbitmq.port}
    link |= {"username": rabbitmq.username, "password": rabbitmq.password}
    gateway.admin.create_msgsystem_link("rabbit", "RABBITMQ", link)
    gateway.admin.register_foreign_queue("src", "rabbit", source)
    gateway.admin.register_foreign_queue("bad", "rabbit", bad)
    gateway.queues.add_subscriber("H", "HOT", rule=HOT)
    gateway.admin.create_job("inj", "INBOUND", "src@rabbit", "H", exception_queue="bad@rabbit")
    for body in GIVEN:
        template.channel.basic_publish("", source, body.encode(), JSON)
    with gateway.run():
        eventually(lambda: counters(gateway) == (2, 3, 0), deadline=20)
        gateway.admin.alter_job("inj", options={"unrouted": "exception_queue"})
        eventually(lambda: sum("job inj activated" in each for each in gateway.events()) == 2)
        template.channel.basic_publish("", source, b'{"t":7}', JSON)
        eventually(lambda: counters(gateway) == (2, 3, 1), deadline=20)
        _, properties, body = template.channel.basic_get(bad, auto_ack=True)
    assert body == b'{"t":7}'
    assert properties is not None
    assert "24033" in str(properties.headers["MGW_error"])
    assert proven(gateway) == {Outcome.STORED: 2, Outcome.UNROUTED: 3, Outcome.EXCEPTION: 1}
    template.close()
