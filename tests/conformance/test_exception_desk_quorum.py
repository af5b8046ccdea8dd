"""The exception desk on quorum queues, which count each look and drop what was looked at too often.

The broker here has its management API, without which nobody knows what limit a policy sets.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pika
import pytest

from mgw.gateway.services.exceptions import Change, DeskRefused, Pace, Which
from mgw.links.rabbitmq import held_quorum_queue
from mgw.transforms.errors import LinkRefused
from tests.conformance.test_exception_desk_rabbitmq import Queues, listed, replayed
from tests.support.brokers import RabbitMQ
from tests.support.gateways import gateway_on
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def managed() -> Iterator[RabbitMQ]:
    with RabbitMQ(plugins=("rabbitmq_management",)) as server:
        yield server


@pytest.fixture
def queues(tmp_path: Path, managed: RabbitMQ) -> Iterator[Queues]:
    connection = pika.BlockingConnection(pika.URLParameters(managed.url))
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        found = Queues(gateway, managed, connection.channel())
        url = f"http://{managed.host}:{managed.management_port}"
        gateway.admin.alter_msgsystem_link("r", {}, options={"AMQP_ManagementURL": url})
        yield found
    connection.close()


def quorum(queues: Queues, arguments: Mapping[str, Any]) -> None:
    """BAD is a quorum queue from now on."""
    name = queues.names["BAD"] = f"quorum.{uuid.uuid4().hex}"
    queues.channel.queue_declare(name, durable=True, arguments={"x-queue-type": "quorum", **arguments})
    queues.gateway.admin.register_foreign_queue("BAD2", "r", name, domain="QUEUE")
    queues.gateway.admin.alter_job("in", exception_queue="BAD2@r")


def counted(queues: Queues) -> list[tuple[str, int]]:
    """What is in BAD, which is empty then, and how often each message was handed out."""
    eventually(
        lambda: f"{queues.names['BAD']}\t0\n" in queues.server.ctl("list_queues", "name", "messages_unacknowledged")
    )
    return [
        (body.decode(), int((properties.headers or {}).get("x-delivery-count", 0)))
        for body, properties, _ in queues.taken("BAD")
    ]


def take_and_break_off(queues: Queues) -> None:
    """Another program gets the first message, and goes without a word about it."""
    got: list[bytes] = []
    with pika.BlockingConnection(pika.URLParameters(queues.server.url)) as other:
        channel = other.channel()
        channel.basic_qos(prefetch_count=1)
        channel.basic_consume(queues.names["BAD"], lambda *delivered: got.append(delivered[3]))
        eventually(lambda: other.process_data_events(0.1) or got == [b"a"])
    eventually(lambda: queues.ready("BAD") == 2)


@pytest.mark.parametrize("arguments", [{}, {"x-delivery-limit": 20}], ids=["no limit", "limit"])
def test_looking_keeps_the_order_and_a_replay_brings_the_originals_back(
    queues: Queues, arguments: Mapping[str, Any]
) -> None:
    quorum(queues, arguments)
    queues.fail()
    queues.foreign("stranger")
    desk = queues.desk()
    ids = listed(desk)
    assert len(set(ids)) == 4
    assert listed(desk, limit=2) == ids[:2]
    assert listed(desk) == ids
    new = desk.edit(ids[1], Change(body=b'{"f": 212}'), by="me").id
    assert listed(desk) == [ids[0], *ids[2:], new]
    assert desk.discard(Which(ids=(ids[2],)), by="me", limit=None, pace=Pace(None), dry=False).done == [ids[2]]
    outcome = replayed(desk)
    assert (outcome.done, list(outcome.failed)) == ([ids[0], new], [ids[3]])
    sent = queues.taken("SRC")
    assert [body for body, _, _ in sent] == [b"hot 0", b'{"f": 212}']
    for _, properties, redelivered in sent:
        assert set(properties.headers) - {"MGW_AQ_expires_at"} == {"tenant", "n"}
        assert not redelivered
    assert [body for body, _ in counted(queues)] == ["stranger"]


def test_pages_go_back_in_order(queues: Queues) -> None:
    quorum(queues, {})
    for number in range(250):
        queues.channel.basic_publish("", queues.names["BAD"], str(number).encode())
    eventually(lambda: queues.ready("BAD") == 250)
    assert len(listed(queues.desk(), limit=150)) == 150
    assert [body for body, _ in counted(queues)] == [str(number) for number in range(250)]


def test_more_messages_than_are_held_at_once_are_replayed_in_order(
    queues: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_quorum_queue, "_WINDOW", 100)
    quorum(queues, {})
    for number in range(250):
        queues.channel.basic_publish("", queues.names["BAD"], str(number).encode())
    eventually(lambda: queues.ready("BAD") == 250)
    with pytest.raises(LinkRefused, match="more messages than can be looked through"):
        listed(queues.desk())
    assert len(replayed(queues.desk(to="OTHER@r")).done) == 250
    assert queues.bodies("OTHER") == [str(number) for number in range(250)]
    assert counted(queues) == []


def test_looking_ends_before_the_limit_does_harm(queues: Queues) -> None:
    quorum(queues, {"x-delivery-limit": 3})
    for text in ("a", "b"):
        queues.foreign(text)
    for _ in range(3):
        assert len(listed(queues.desk())) == 2
    for _ in range(3):
        with pytest.raises(
            DeskRefused, match=r"handed out 3 times, and at the delivery limit, 3,.*raise the delivery limit"
        ):
            listed(queues.desk())
    assert counted(queues) == [("a", 3), ("b", 3)]
    queues.foreign("c")  # a queue that was empty meanwhile begins anew, when the desk has seen that
    queues.taken("BAD")
    assert listed(queues.desk()) == []
    queues.foreign("d")
    assert len(listed(queues.desk())) == 1


def test_what_others_brought_to_the_limit_is_kept(queues: Queues) -> None:
    quorum(queues, {"x-delivery-limit": 2})
    for text in ("a", "b"):
        queues.foreign(text)
    for _ in range(2):
        take_and_break_off(queues)
    listed(queues.desk())
    assert counted(queues) == [("b", 1), ("a", 0)]


def test_a_policy_limits_as_well(queues: Queues) -> None:
    quorum(queues, {})
    queues.foreign("a")
    name = f"limit-{uuid.uuid4().hex}"
    queues.server.ctl("set_policy", "--apply-to", "queues", name, queues.names["BAD"], '{"delivery-limit": 1}')
    assert len(listed(queues.desk())) == 1
    with pytest.raises(DeskRefused, match="delivery limit, 1,"):
        listed(queues.desk())
    queues.server.ctl("clear_policy", name)
    assert len(listed(queues.desk())) == 1
