"""Nothing that holds messages is removed by accident: refused, told, kept in the audit, or the messages are moved."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from mgw.gateway.aq.errors import HoldsMessages, NoRecipients, QueueInUse
from mgw.gateway.aq.model import NO_WAIT, DequeueOptions
from mgw.gateway.services.queues import run_time_manager
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.errors import AdminError, AqError
from mgw.transforms.message import Header, Message, ValueType
from tests.conformance.link_suite import unique
from tests.conformance.test_rabbitmq_link import RabbitTemplate
from tests.support.brokers import PostgreSQL, RabbitMQ
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually

TEXTS = ["first", "second", "third"]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def gateway(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Gateway]:
    """Queue Q for one consumer, queue M for several, queue SAFE."""
    url = f"sqlite:///{tmp_path}/hub.db"
    if request.param == "postgresql":
        server: PostgreSQL = request.getfixturevalue("postgresql")
        url = server.create_database(unique("removal"))
    with gateway_on(url) as gateway:
        gateway.queue("Q")
        gateway.queue("M", multiple_consumers=True)
        gateway.queue("SAFE")
        yield gateway


def put(gateway: Gateway, queue: str, *texts: str, **properties: Any) -> None:
    gateway.enqueue(queue, [Message(text, **properties) for text in texts])


def bodies(gateway: Gateway, queue: str, consumer: str | None = None) -> list[Any]:
    return [message.body for message in gateway.browse(queue, consumer)]


def audit(gateway: Gateway) -> list[tuple[str, str, int, str | None]]:
    with gateway.hub.read() as conn:
        rows = conn.execute(
            sa.text(
                "SELECT action, object_name, held, moved_to FROM mgw_audit "
                "WHERE kind IS NULL OR after_change IS NULL ORDER BY audit_id"
            )
        )
        return [(action, name, held, moved_to) for action, name, held, moved_to in rows]


def events(gateway: Gateway) -> list[str]:
    with gateway.hub.read() as conn:
        rows = conn.execute(sa.text("SELECT event_text FROM mgw_events WHERE event_name = 'Removal' ORDER BY event_id"))
        return [text for (text,) in rows]


def job(gateway: Gateway, broker: MemoryBroker, source: str = "M") -> None:
    broker.queue("DST")
    gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
    gateway.admin.register_foreign_queue("DST", "mem")
    gateway.admin.create_job("out", "OUTBOUND", source, "DST@mem", enabled=False)


# -- queues ----------------------------------------------------------------------------------------------------------


def test_queue_with_messages_is_dropped_with_force_alone(gateway: Gateway) -> None:
    put(gateway, "Q", *TEXTS)
    gateway.queues.stop_queue("Q")
    with pytest.raises(HoldsMessages, match=r"drop queue Q was refused.*holds 3 messages, the oldest is \d+ s old"):
        gateway.queues.drop_queue("Q", force=False)
    assert audit(gateway) == []
    assert gateway.queues.drop_queue("Q", force=True).messages == 3
    assert gateway.queues.queue("Q") is None
    assert audit(gateway) == [("drop queue", "Q", 3, None)]
    (text,) = events(gateway)
    assert text.startswith("drop queue Q, by ")
    assert "3 messages, the oldest is " in text
    assert text.endswith("; deleted with it")


def test_documented_drop_keeps_its_meaning_and_is_told(gateway: Gateway) -> None:
    put(gateway, "Q", *TEXTS)
    gateway.queues.stop_queue("Q")
    gateway.queues.drop_queue("Q")
    assert audit(gateway) == [("drop queue", "Q", 3, None)]


def test_empty_queue_goes_without_force(gateway: Gateway) -> None:
    gateway.queues.add_subscriber("M", "ME")
    put(gateway, "M", *TEXTS)
    with gateway.hub.session() as session:
        session.dequeue_array("M", DequeueOptions(consumer_name="ME", wait=NO_WAIT), 10)
        session.commit()
    gateway.queues.stop_queue("M")
    assert gateway.queues.drop_queue("M", force=False).messages == 0
    assert audit(gateway) == [("drop queue", "M", 0, None)]


def test_messages_of_a_dropped_queue_are_moved_once_and_as_they_were(gateway: Gateway) -> None:
    for name in ("A", "B"):
        gateway.queues.add_subscriber("M", name)
    headers = (Header("plant", ValueType.TEXT, "north"),)
    gateway.enqueue("M", [Message("x", headers=headers, priority=3, correlation="c", expiration=1000)])
    put(gateway, "M", "later", delay=900)
    first = gateway.browse("M", "A")[0]
    gateway.queues.stop_queue("M")
    assert gateway.queues.drop_queue("M", force=False, move_to="SAFE").messages == 2
    (found,) = gateway.browse("SAFE")
    assert (found.body, found.headers, found.priority, found.correlation) == ("x", headers, 3, "c")
    assert found.original_msgid == first.msgid
    assert found.expires_at is not None
    assert 0 < found.expires_at - gateway.hub.clock.now() <= 1000
    with gateway.hub.read() as conn:
        waits = conn.execute(sa.text("SELECT ready_at FROM aq_message WHERE state = 1")).scalars().all()
    assert len(waits) == 1
    assert 800 < waits[0] - gateway.hub.clock.now() <= 901
    assert audit(gateway) == [("drop queue", "M", 2, "SAFE")]
    assert events(gateway)[0].endswith("; moved to queue SAFE")


def test_thousands_of_messages_are_moved_in_order(gateway: Gateway) -> None:
    texts = [f"message {number}" for number in range(1_234)]
    put(gateway, "Q", *texts)
    gateway.queues.stop_queue("Q")
    gateway.queues.drop_queue("Q", move_to="SAFE")
    assert bodies(gateway, "SAFE") == texts


def test_nothing_is_dropped_where_the_other_queue_does_not_take_the_messages(gateway: Gateway) -> None:
    put(gateway, "Q", *TEXTS)
    gateway.queue("RAWS", queue_payload_type="RAW")
    gateway.queues.stop_queue("Q")
    for target, error in (("RAWS", AqError), ("M", NoRecipients), ("Q", AqError), ("NOBODYS", AqError)):
        with pytest.raises(error):
            gateway.queues.drop_queue("Q", move_to=target)
    gateway.queues.stop_queue("SAFE")
    with pytest.raises(AqError, match="25207"):
        gateway.queues.drop_queue("Q", move_to="SAFE")
    gateway.queues.start_queue("Q")
    assert bodies(gateway, "Q") == TEXTS
    assert audit(gateway) == []


def test_queue_table_counts_the_messages_of_its_exception_queue(gateway: Gateway) -> None:
    put(gateway, "Q", "old", expiration=1)
    gateway.queue("T")
    eventually(lambda: _expired(gateway) == 1, what="the expiration")
    gateway.queues.stop_queue("Q")
    gateway.queues.drop_queue("Q", force=False)
    with pytest.raises(HoldsMessages, match="1 message, the oldest"):
        gateway.queues.drop_queue_table("Q_QT")
    assert gateway.queues.drop_queue_table("Q_QT", move_to="SAFE").messages == 1
    assert gateway.queues.queue_table("Q_QT") is None
    assert bodies(gateway, "SAFE") == ["old"]
    put(gateway, "T", *TEXTS)
    assert gateway.queues.drop_queue_table("T_QT", force=True).messages == 3
    assert audit(gateway)[-1] == ("drop queue table", "T_QT", 3, None)


def _expired(gateway: Gateway) -> int:
    run_time_manager(gateway.hub)
    return gateway.queues.held_by_queue("AQ$_Q_QT_E").messages


def test_purge_is_told(gateway: Gateway) -> None:
    put(gateway, "Q", *TEXTS)
    gateway.queues.purge_queue_table("Q_QT", "qtview.msg_priority = 1")
    assert audit(gateway) == [("purge", "queue table Q_QT where qtview.msg_priority = 1", 3, None)]
    assert len(events(gateway)) == 1
    put(gateway, "Q", *TEXTS)
    gateway.queues.purge_queue("Q", "qtview.corr_id IS NULL  OR\n qtview.corr_id <> 'a  b'")
    told = "qtview.queue = 'Q' AND (qtview.corr_id IS NULL  OR  qtview.corr_id <> 'a  b' )"
    assert audit(gateway)[-1] == ("purge", f"queue table Q_QT where {told}", 3, None)


# -- subscribers -----------------------------------------------------------------------------------------------------


def test_subscriber_for_whom_messages_wait(gateway: Gateway) -> None:
    for name in ("A", "B", "C"):
        gateway.queues.add_subscriber("M", name)
    put(gateway, "M", *TEXTS)
    with pytest.raises(HoldsMessages, match=r"remove subscriber A of queue M was refused.*3 messages"):
        gateway.queues.remove_subscriber("M", "A", force=False)
    gateway.queues.remove_subscriber("M", "A", force=False, move_to="SAFE")
    assert bodies(gateway, "SAFE") == TEXTS
    gateway.queues.remove_subscriber("M", "B")
    assert bodies(gateway, "M", "C") == TEXTS
    assert audit(gateway) == [
        ("remove subscriber", "A of queue M", 3, "SAFE"),
        ("remove subscriber", "B of queue M", 3, None),
    ]


def test_messages_in_a_sessions_hands_are_not_moved(gateway: Gateway) -> None:
    gateway.queues.add_subscriber("M", "A")
    put(gateway, "M", *TEXTS)
    with gateway.hub.session() as session:
        session.dequeue("M", DequeueOptions(consumer_name="A", wait=NO_WAIT))
        with pytest.raises(QueueInUse):
            gateway.queues.remove_subscriber("M", "A", move_to="SAFE")
        session.rollback()
    gateway.queues.remove_subscriber("M", "A", move_to="SAFE")
    assert sorted(bodies(gateway, "SAFE")) == sorted(TEXTS)


# -- jobs ------------------------------------------------------------------------------------------------------------


def test_job_for_which_messages_wait(gateway: Gateway, broker: MemoryBroker) -> None:
    job(gateway, broker)
    put(gateway, "M", *TEXTS)
    with pytest.raises(AdminError, match=r"job out cannot be removed.*queue M holds 3 messages, the oldest is \d+ s"):
        gateway.admin.remove_job("out")
    assert gateway.admin.get_job("out") is not None
    gateway.admin.remove_job("out", move_to="SAFE")
    assert gateway.admin.get_job("out") is None
    assert bodies(gateway, "SAFE") == TEXTS
    assert audit(gateway) == [("remove job", "out, which reads M", 3, "SAFE")]
    assert len(events(gateway)) == 1


@pytest.mark.parametrize("how", [{"force": True}, {"drop_messages": True}])
def test_job_is_removed_with_its_messages_where_that_is_said(
    gateway: Gateway, broker: MemoryBroker, how: dict[str, bool]
) -> None:
    job(gateway, broker)
    put(gateway, "M", *TEXTS)
    gateway.admin.remove_job("out", **how)
    assert audit(gateway) == [("remove job", "out, which reads M", 3, None)]
    assert "3 messages, the oldest is" in events(gateway)[0]


def test_job_on_a_single_consumer_queue_leaves_the_messages_there(gateway: Gateway, broker: MemoryBroker) -> None:
    job(gateway, broker, "Q")
    put(gateway, "Q", *TEXTS)
    gateway.admin.remove_job("out")
    assert bodies(gateway, "Q") == TEXTS
    assert audit(gateway) == [("remove job", "out, which reads Q", 0, None)]


@pytest.mark.parametrize("gateway", ["sqlite"], indirect=True)
def test_job_whose_subscription_went_with_its_queue_is_subscribed_again(gateway: Gateway, broker: MemoryBroker) -> None:
    job(gateway, broker)
    table = next(each.queue_table for each in gateway.admin.aq.queues() if each.name == "M")

    def subscribers() -> list[str | None]:
        return [each.name for each in gateway.admin.aq.queue_subscribers("M")]

    for heal in (
        lambda: gateway.admin.reset_job("out"),
        lambda: gateway.admin.enable_job("out"),
        lambda: gateway.admin.alter_job("out", rule="priority > 1"),
    ):
        gateway.admin.aq.drop_queue_table(table, force=True)
        gateway.queue("M", multiple_consumers=True)
        assert subscribers() == []
        heal()
        assert subscribers() == ["MGW_out"]
    gateway.admin.reset_job("out")
    with gateway.hub.read() as conn:
        told = conn.execute(
            sa.text("SELECT event_text FROM mgw_events WHERE event_name = 'SubscribedAgain' AND object_name = 'out'")
        ).all()
    assert len(told) == 3
    assert "queue M" in told[0][0]


def test_running_job_is_disabled_before_its_messages_are_moved(gateway: Gateway, broker: MemoryBroker) -> None:
    job(gateway, broker)
    broker.hold_confirms = True
    put(gateway, "M", *TEXTS)
    gateway.admin.enable_job("out")
    with gateway.run():
        eventually(lambda: len(broker.queue("DST").messages) == 3)
        with pytest.raises(AdminError, match=r"is running.*mgw jobs disable out"):
            gateway.admin.remove_job("out", move_to="SAFE")
        with pytest.raises(AdminError, match="holds 3 messages"):
            gateway.admin.remove_job("out")
        broker.hold_confirms = False
        eventually(lambda: gateway.job("out")["PROPAGATED_MSGS"] == 3)
        gateway.admin.remove_job("out")
        put_after(gateway)
        eventually(lambda: gateway.admin.get_job("out") is None, what="the agent finishes it")
    assert audit(gateway) == [("remove job", "out, which reads M", 0, None)]


def put_after(gateway: Gateway) -> None:
    """From the moment of the removal nothing is collected that would be deleted later."""
    with pytest.raises(NoRecipients):
        put(gateway, "M", "nobody's")


def test_topic_job_with_messages_in_its_subscription(gateway: Gateway, broker: MemoryBroker) -> None:
    broker.topic("news")
    gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
    gateway.admin.register_foreign_queue("T", "mem", "news", "TOPIC")
    gateway.admin.create_job("inj", "INBOUND", "T@mem", "Q", enabled=False)
    with gateway.run():
        eventually(lambda: broker.subscriptions, what="the subscription")
    broker.put("news", *map(Message, TEXTS))
    with pytest.raises(AdminError, match=r"its subscription to T@mem holds 3 messages; they would be deleted with it"):
        gateway.admin.remove_job("inj")
    gateway.admin.remove_job("inj", drop_messages=True)
    assert broker.subscriptions == []
    assert audit(gateway) == [("remove job", "inj, which reads T@mem", 3, None)]


@pytest.mark.rabbitmq
def test_topic_job_of_rabbitmq_with_messages_in_its_queue(gateway: Gateway, rabbitmq: RabbitMQ) -> None:
    template = RabbitTemplate(rabbitmq)
    topic = unique("news")
    link = {"hostname": rabbitmq.host, "port": rabbitmq.port}
    link |= {"username": rabbitmq.username, "password": rabbitmq.password}
    gateway.admin.create_msgsystem_link("rabbit", "RABBITMQ", link)
    gateway.admin.register_foreign_queue("T", "rabbit", f"amq.topic/{topic}", "TOPIC")
    gateway.admin.create_job("inj", "INBOUND", "T@rabbit", "Q")
    with gateway.run():
        template.channel.basic_publish("amq.topic", topic, b"carried")
        eventually(lambda: gateway.job("inj")["ACTIVITY"] in {"RUNNING", "IDLE"}, what="the subscription")
    for text in TEXTS:
        template.channel.basic_publish("amq.topic", topic, text.encode())
    said = r"its subscription to T@rabbit holds 3 messages; they would be deleted with it"
    eventually(lambda: refused(gateway, said), what="the refusal with the count")
    with gateway.run():
        eventually(lambda: bodies(gateway, "Q")[-3:] == [text.encode() for text in TEXTS], deadline=20)
    eventually(lambda: gateway.admin.held_for_job("inj").messages == 0)
    assert gateway.admin.remove_job("inj")
    template.close()


def refused(gateway: Gateway, said: str) -> bool:
    with pytest.raises(AdminError, match=said):
        gateway.admin.remove_job("inj")
    return True


# -- killed in between -----------------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.queues import {module}
from mgw.gateway.state.gateway_hub import open_hub

hub = open_hub(sys.argv[1])
work, calls = {module}.{function}, []

def killed(*given, **named):
    done = work(*given, **named)
    calls.append(1)
    if len(calls) == {call}:
        os.kill(os.getpid(), signal.SIGKILL)
    return done

{module}.{function} = killed
{what}
"""


def killed(code: str, url: str) -> None:
    command = [sys.executable, "-c", code, url]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == -9, done.stderr


@pytest.mark.parametrize(
    ("module", "function", "call"), [("transfer", "put", 1), ("transfer", "put", 3), ("catalog_sql", "delete_queue", 1)]
)
def test_nothing_is_lost_when_a_move_is_killed(gateway: Gateway, module: str, function: str, call: int) -> None:
    texts = [f"message {number}" for number in range(1_200)]
    put(gateway, "Q", *texts)
    gateway.queues.stop_queue("Q")
    code = KILLED.format(
        module=module, function=function, call=call, what='QueueAdmin(hub).drop_queue("Q", move_to="SAFE")'
    )
    killed(code, gateway.url)
    gateway.queues.start_queue("Q")
    assert bodies(gateway, "SAFE") == []
    assert bodies(gateway, "Q") == texts
    assert audit(gateway) == []
    gateway.queues.stop_queue("Q")
    gateway.queues.drop_queue("Q", move_to="SAFE")
    assert bodies(gateway, "SAFE") == texts


def test_nothing_is_lost_when_the_removal_of_a_job_is_killed(gateway: Gateway, broker: MemoryBroker) -> None:
    job(gateway, broker)
    put(gateway, "M", *TEXTS)
    code = KILLED.format(
        module="consumers_sql",
        function="remove_subscriber",
        call=1,
        what='from mgw.gateway.services.admin import GatewayAdmin\nGatewayAdmin(hub).remove_job("out", move_to="SAFE")',
    )
    killed(code, gateway.url)
    assert bodies(gateway, "M", "MGW_OUT") == TEXTS
    assert bodies(gateway, "SAFE") == []
    gateway.admin.remove_job("out", move_to="SAFE")
    assert bodies(gateway, "SAFE") == TEXTS
