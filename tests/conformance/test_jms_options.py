"""JMS_NoLocal, JMS_DeliveryMode and PreserveMessageID at real brokers."""

from __future__ import annotations

import queue
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pika
import pytest
import sqlalchemy as sa

from mgw.transforms.errors import AdminError
from mgw.transforms.message import Message
from tests.conformance.moving import address
from tests.conformance.test_loops import far_link
from tests.support.brokers import Kafka, Mosquitto, RabbitMQ
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually


@pytest.fixture(params=["rabbitmq", pytest.param("kafka", marks=pytest.mark.matrix), "mosquitto"])
def server(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        gateway.queue("H")
        yield gateway


def test_what_this_hub_published_is_skipped_and_what_another_did_is_not(
    server: RabbitMQ | Kafka | Mosquitto, tmp_path: Path
) -> None:
    system = type(server).__name__.lower().replace("mosquitto", "mqtt")
    place = f"local{uuid.uuid4().hex[:8]}"
    with ExitStack() as stack:
        one, two = (stack.enter_context(gateway_on(f"sqlite:///{tmp_path}/{name}.db")) for name in ("one", "two"))
        far_link(one, server, place)
        far_link(two, server)
        two.admin.register_foreign_queue("S0", system, place)
        for each in (one, two):
            each.queue("H")
            each.admin.create_job("out", "OUTBOUND", "H", f"S0@{system}", poll_interval=0.1)
        one.queue("COMES")
        options = {"JMS_NoLocal": True}
        one.admin.create_job("in", "INBOUND", f"S0@{system}", "COMES", options=options, poll_interval=0.1)
        stack.enter_context(one.run())
        eventually(lambda: one.job("in")["ACTIVITY"] in {"IDLE", "RUNNING"})  # MQTT keeps nothing before
        one.enqueue("H", [Message(b"mine 1"), Message(b"mine 2")])
        eventually(lambda: one.job("in")["LEFT_OUT_TOTAL"] == 2)
        two.enqueue("H", [Message(b"theirs")])
        stack.enter_context(two.run())
        eventually(lambda: bool(one.browse("COMES")))
        one.enqueue("H", [Message(b"mine 3")])
        eventually(lambda: one.job("in")["LEFT_OUT_TOTAL"] == 3)
        assert [each.body for each in one.browse("COMES")] == [b"theirs"]


def test_no_local_is_refused_where_nothing_is_published(gateway: Gateway, rabbitmq: RabbitMQ) -> None:
    far_link(gateway, rabbitmq, f"local{uuid.uuid4().hex[:8]}")
    with pytest.raises(AdminError, match="JMS_NoLocal") as refused:
        gateway.admin.create_job("out", "OUTBOUND", "H", "S0@rabbitmq", options={"JMS_NoLocal": "true"})
    assert refused.value.number == 32841


@pytest.mark.parametrize(("mode", "number"), [("NON_PERSISTENT", 1), ("persistent", 2)])
def test_rabbitmq_gets_the_delivery_mode(gateway: Gateway, rabbitmq: RabbitMQ, mode: str, number: int) -> None:
    name = f"mode{uuid.uuid4().hex[:8]}"
    far_link(gateway, rabbitmq, name)
    options = {"JMS_DeliveryMode": mode}
    gateway.admin.create_job("out", "OUTBOUND", "H", "S0@rabbitmq", options=options, poll_interval=0.1)
    gateway.enqueue("H", [Message(b"x"), Message(b"y"), Message(b"z")])
    with gateway.run():
        eventually(lambda: gateway.job("out")["PROPAGATED_MSGS"] == 3)
        assert (gateway.job("out")["GUARANTEE"] == "at-most-once") is (number == 1)
    login = pika.PlainCredentials(rabbitmq.username, rabbitmq.password)
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", rabbitmq.port, "/", login)) as connection:
        channel = connection.channel()
        found = [channel.basic_get(name, auto_ack=True)[1].delivery_mode for _ in range(3)]
    assert found == [number] * 3


def test_a_job_that_must_not_lose_messages_is_refused_another_mode(gateway: Gateway, rabbitmq: RabbitMQ) -> None:
    far_link(gateway, rabbitmq, f"mode{uuid.uuid4().hex[:8]}")
    with pytest.raises(AdminError, match="at-most-once"):
        gateway.admin.create_job(
            "out",
            "OUTBOUND",
            "H",
            "S0@rabbitmq",
            options={"JMS_DeliveryMode": "PRESERVE_MSG"},
            require_guarantee="at-least-once",
        )


def test_a_job_that_must_not_lose_messages_is_not_altered_to_lose_some(gateway: Gateway, rabbitmq: RabbitMQ) -> None:
    far_link(gateway, rabbitmq, f"mode{uuid.uuid4().hex[:8]}")
    admin = gateway.admin
    loses, keeps = {"JMS_DeliveryMode": "NON_PERSISTENT"}, {"JMS_DeliveryMode": "PERSISTENT"}
    admin.create_job("out", "OUTBOUND", "H", "S0@rabbitmq", options=keeps, require_guarantee="at-least-once")
    for refused in (
        lambda: admin.alter_job("out", options=loses),
        lambda: admin.set_option("JOB_OPTION", "out", "JMS_DeliveryMode", "NON_PERSISTENT"),
        lambda: admin.alter_job("out", options=loses, require_guarantee="at-least-once"),
    ):
        with pytest.raises(AdminError, match=r"job out cannot promise at-least-once.*at-most-once"):
            refused()
    job = admin.get_job("out")
    assert job is not None
    assert job.options == {"jms_deliverymode": "PERSISTENT"}
    admin.alter_job("out", options=loses, require_guarantee=None)
    with pytest.raises(AdminError, match="cannot promise at-least-once"):
        admin.alter_job("out", require_guarantee="at-least-once")
    admin.alter_job("out", options=keeps, require_guarantee="at-least-once")
    with gateway.hub.write() as conn:  # as it is altered from SQL, where nobody can ask the broker
        conn.execute(sa.text("""UPDATE gw_job SET options = '{"jms_deliverymode": "NON_PERSISTENT"}'"""))
    admin.alter_job("out", options={"MsgBatchSize": 7}, comments="it promises no less than before")
    admin.alter_job("out", options=keeps)


def listener(broker: Mosquitto, topic: str) -> tuple[paho.Client, queue.Queue[paho.MQTTMessage]]:
    found: queue.Queue[paho.MQTTMessage] = queue.Queue()
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    ready: queue.Queue[None] = queue.Queue()
    client.on_subscribe = lambda *_: ready.put(None)
    client.on_message = lambda _client, _data, message: found.put(message)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    client.subscribe(topic, qos=1)
    ready.get(timeout=10)
    return client, found


@pytest.mark.parametrize(("mode", "qos"), [("NON_PERSISTENT", 0), ("PERSISTENT", 1)])
def test_mqtt_gets_the_mode_as_quality_of_service_and_the_id(
    gateway: Gateway, mosquitto: Mosquitto, mode: str, qos: int
) -> None:
    topic = f"mode{uuid.uuid4().hex[:8]}"
    far_link(gateway, mosquitto, topic)
    options = {"JMS_DeliveryMode": mode, "PreserveMessageID": True}
    gateway.admin.create_job("out", "OUTBOUND", "H", "S0@mqtt", options=options, poll_interval=0.1)
    client, found = listener(mosquitto, topic)
    try:
        gateway.enqueue("H", [Message(b"x")])
        (stored,) = gateway.browse("H")
        with gateway.run():
            message = found.get(timeout=30)
            eventually(lambda: gateway.job("out")["PROPAGATED_MSGS"] == 1)
            assert (gateway.job("out")["GUARANTEE"] == "at-most-once") is (qos == 0)
    finally:
        client.disconnect()
        client.loop_stop()
    assert message.qos == qos
    assert stored.msgid is not None
    assert message.properties is not None
    assert ("MGW_AQ_messageID", f"AQMSGID:{stored.msgid.hex()}") in message.properties.UserProperty


def test_mqtt_3_refuses_what_needs_an_id(gateway: Gateway, mosquitto: Mosquitto) -> None:
    gateway.admin.create_msgsystem_link("old", "MQTT", {**address(mosquitto), "protocol_version": 4})
    gateway.admin.register_foreign_queue("T", "old", "t/x")
    gateway.queue("H2")
    gateway.admin.register_foreign_queue("E", "old", "t/e", options={"MQTT_Envelope": "JSON"})
    with pytest.raises(AdminError, match="PreserveMessageID") as refused:
        gateway.admin.create_job("out", "OUTBOUND", "H", "T@old", options={"PreserveMessageID": True})
    assert "protocol_version" in refused.value.cure
    with pytest.raises(AdminError, match="JMS_NoLocal"):
        gateway.admin.create_job("in", "INBOUND", "T@old", "H", options={"JMS_NoLocal": True})
    gateway.admin.create_job("out", "OUTBOUND", "H", "E@old", options={"PreserveMessageID": True}, enabled=False)
    with pytest.raises(AdminError, match="PreserveMessageID"):
        gateway.admin.create_job("out2", "OUTBOUND", "H2", "T@old", options={"preservemessageid": "yes"})


def test_kafka_refuses_another_mode_with_the_reason(gateway: Gateway) -> None:
    gateway.admin.create_msgsystem_link("k", "KAFKA", {"bootstrap_servers": "127.0.0.1:1"})
    gateway.admin.register_foreign_queue("T", "k", "t")
    with pytest.raises(AdminError, match="JMS_DeliveryMode") as refused:
        gateway.admin.create_job("out", "OUTBOUND", "H", "T@k", options={"JMS_DeliveryMode": "NON_PERSISTENT"})
    assert "keeps each record" in refused.value.cure
