"""Queues of JMS payload types: what they take, and the way over real brokers from one to another."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.errors import PayloadRefused
from mgw.gateway.aq.payloads.anydata import wrap
from mgw.transforms.message import Header, Message, ValueType
from tests.conformance.test_loops import far_link
from tests.support.brokers import Kafka, Mosquitto, RabbitMQ
from tests.support.gateways import gateway_on
from tests.support.waiting import eventually

ANY = "SYS.AQ$_JMS_MESSAGE"
FIELDS = (
    Header("n", ValueType.BYTE, 5),
    Header("long", ValueType.TEXT, "x" * 5000),
    Header("r", ValueType.RAW, b"\xff"),
)
BODIES = [
    wrap("text", "AQ$_JMS_TEXT_MESSAGE"),
    wrap(b"\x00\xff", "AQ$_JMS_BYTES_MESSAGE"),
    wrap(FIELDS, "AQ$_JMS_MAP_MESSAGE"),
    wrap(tuple(each._replace(name="") for each in FIELDS), "AQ$_JMS_STREAM_MESSAGE"),
    wrap(b"\xac\xed", "AQ$_JMS_OBJECT_MESSAGE"),
    None,
]
PROPERTIES = (
    Header("region", ValueType.TEXT, "EU"),
    Header("count", ValueType.SHORT, 3),
    Header("JMSType", ValueType.TEXT, "order"),
    Header("JMSReplyTo", ValueType.TEXT, "answers"),
)


def make(admin: QueueAdmin, name: str, payload_type: str) -> None:
    admin.create_queue_table(f"{name}_T", payload_type)
    admin.create_queue(name, f"{name}_T")
    admin.start_queue(name)


@pytest.fixture(params=["rabbitmq", pytest.param("kafka", marks=pytest.mark.matrix), "mosquitto"])
def server(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


def test_every_kind_comes_back_from_a_broker_in_order(server: RabbitMQ | Kafka | Mosquitto, tmp_path: Path) -> None:
    system = type(server).__name__.lower().replace("mosquitto", "mqtt")
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        far_link(gateway, server, f"jms{uuid.uuid4().hex[:8]}")
        for name in ("GOES", "COMES"):
            make(gateway.queues, name, ANY)
        options = {"PreserveMessageID": True}
        gateway.admin.create_job("in", "INBOUND", f"S0@{system}", "COMES", options=options, poll_interval=0.1)
        gateway.admin.create_job("out", "OUTBOUND", "GOES", f"S0@{system}", options=options, poll_interval=0.1)
        with gateway.run():
            eventually(lambda: gateway.job("in")["ACTIVITY"] in {"IDLE", "RUNNING"})
            gateway.enqueue("GOES", [Message(body, PROPERTIES, priority=3, correlation="c") for body in BODIES])
            eventually(lambda: len(gateway.browse("COMES")) == len(BODIES))
        found = gateway.browse("COMES")
    assert [each.body for each in found] == BODIES
    for each in found:
        assert (each.priority, each.correlation) == (3, "c")
        assert [header for header in each.headers if header.name in {one.name for one in PROPERTIES}] == list(
            PROPERTIES
        )
        assert str(each.header("OracleMGW_OriginalMessageID")).startswith("ID:")


def test_what_is_of_another_kind_goes_to_the_exception_queue(tmp_path: Path, rabbitmq: RabbitMQ) -> None:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        far_link(gateway, rabbitmq, *(f"jms{uuid.uuid4().hex[:8]}" for _ in range(2)))
        make(gateway.queues, "GOES", ANY)
        make(gateway.queues, "ONLY_BYTES", "sys.aq$_jms_bytes_message")
        gateway.admin.create_job("out", "OUTBOUND", "GOES", "S0@rabbitmq", poll_interval=0.1)
        gateway.admin.create_job(
            "in", "INBOUND", "S0@rabbitmq", "ONLY_BYTES", exception_queue="S1@rabbitmq", poll_interval=0.1
        )
        gateway.enqueue("GOES", [Message(body) for body in BODIES[:2]])
        with gateway.run():
            eventually(lambda: gateway.job("in")["EXCEPTIONQ_TOTAL"] == 1)
            eventually(lambda: len(gateway.browse("ONLY_BYTES")) == 1)
        assert [each.body for each in gateway.browse("ONLY_BYTES")] == [BODIES[1]]


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_a_queue_takes_its_own_kind_only(tmp_path: Path, request: pytest.FixtureRequest, database: str) -> None:
    url = f"sqlite:///{tmp_path}/hub.db"
    if database == "postgresql":
        url = request.getfixturevalue(database).create_database(f"jms{uuid.uuid4().hex[:8]}")
    with gateway_on(url) as gateway:
        make(gateway.queues, "TEXTS", "AQ$_JMS_TEXT_MESSAGE")
        gateway.enqueue("TEXTS", [Message(BODIES[0]), Message(None)])
        assert [each.body for each in gateway.browse("TEXTS")] == [BODIES[0], None]
        for body in (BODIES[1], wrap("x"), wrap(5)):
            with pytest.raises(PayloadRefused, match=r"the queue holds SYS.AQ\$_JMS_TEXT_MESSAGE"):
                gateway.enqueue("TEXTS", [Message(body)])
        (table,) = [each for each in gateway.queues.queue_tables() if each.name == "TEXTS_T"]
        assert (table.object_type, table.jms_types) == ("SYS.AQ$_JMS_TEXT_MESSAGE", True)
