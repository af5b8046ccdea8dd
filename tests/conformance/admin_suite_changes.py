"""Definitions that the hub keeps and jobs run by: imported by one test module per database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.payloads.anydata import wrap
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.errors import AdminError, AqError
from mgw.transforms.message import Message
from tests.conformance.admin_suite import refused, view
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually


@pytest.fixture
def gateway(hub_url: str, request: pytest.FixtureRequest) -> Iterator[Gateway]:
    """A hub with queue H (BASIC), a link ``mem`` to a broker of its own, and its queues OUT and IN."""
    with gateway_on(hub_url) as gateway:
        gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": request.node.nodeid})
        for name in ("OUT", "IN"):
            broker(request).queue(name)
            gateway.admin.register_foreign_queue(name, "mem")
        gateway.queue("H")
        yield gateway
    MemoryBroker.drop(request.node.nodeid)


def broker(request: pytest.FixtureRequest) -> MemoryBroker:
    return MemoryBroker.get(request.node.nodeid)


def sent(request: pytest.FixtureRequest) -> list[Any]:
    return [message.body for message in broker(request).queue("OUT").messages]


def version(gateway: Gateway) -> int:
    return gateway.admin.snapshot_version()


def test_a_transformation_changed_in_the_hub_reaches_the_running_job(
    gateway: Gateway, request: pytest.FixtureRequest
) -> None:
    gateway.queues.create_transformation("mark", "BASIC", "BASIC", "source.user_data || ' one'")
    gateway.admin.create_job("outj", "OUTBOUND", "H", "OUT@mem", transformation="mark")
    with gateway.run() as running:
        gateway.enqueue("H", [Message(body="a")])
        eventually(lambda: sent(request) == ["a one"])
        gateway.queues.modify_transformation("MGW.Mark", 0, "source.user_data || ' two'")
        eventually(lambda: running.agent._snapshot and running.agent._snapshot.version == version(gateway))
        gateway.enqueue("H", [Message(body="b")])
        eventually(lambda: sent(request) == ["a one", "b two"])


def test_a_job_applies_a_chain_and_follows_a_change_of_one_of_its_steps(
    gateway: Gateway, request: pytest.FixtureRequest
) -> None:
    admin = gateway.admin
    for name, definition in {
        "twice": {"function": "tests.support.transform_samples:twice"},
        "mark": {"set": {"body": "tab.user_data || ' one'"}},
        "flow": {"steps": ["twice", "mark"], "where": "tab.user_data <> 'none'", "time_limit": 60},
    }.items():
        admin.create_transformation(name, "BASIC", "BASIC", definition)
    admin.create_job("outj", "OUTBOUND", "H", "OUT@mem", transformation="flow")
    with gateway.run(modules=["tests.support.transform_samples"]) as running:
        gateway.enqueue("H", [Message(body="a"), Message(body="none")])
        eventually(lambda: sent(request) == ["a one", "a one"])
        eventually(lambda: gateway.job("outj")["FILTERED_TOTAL"] == 1)
        admin.alter_transformation("mark", definition={"set": {"body": "tab.user_data || ' two'"}})
        eventually(lambda: running.agent._snapshot and running.agent._snapshot.version == version(gateway))
        gateway.enqueue("H", [Message(body="b")])
        eventually(lambda: sent(request)[2:] == ["b two", "b two"])


def test_whoever_changes_a_transformation_raises_the_version_that_agents_follow(gateway: Gateway) -> None:
    with Hub.open(gateway.url) as plain:  # a program that knows nothing of the gateway
        queues, seen = QueueAdmin(plain), [version(gateway)]
        for change in (
            lambda: queues.create_transformation("t", "BASIC", "BASIC", "source.user_data"),
            lambda: queues.modify_transformation("t", 0, "UPPER(source.user_data)"),
            lambda: queues.drop_transformation("t"),
        ):
            change()
            seen.append(version(gateway))
    assert seen == sorted(set(seen))
    with gateway.hub.engine.connect() as own, own.begin() as transaction:
        QueueAdmin(gateway.hub, own).create_transformation("t", "BASIC", "BASIC", "source.user_data")
        transaction.rollback()
    assert version(gateway) == seen[-1]


def test_a_transformation_that_a_job_uses_cannot_be_dropped_in_the_hub_either(gateway: Gateway) -> None:
    gateway.queues.create_transformation("mark", "BASIC", "BASIC", "source.user_data")
    gateway.admin.create_job("outj", "OUTBOUND", "H", "OUT@mem", transformation="MGW.Mark")
    with pytest.raises(AqError, match="cannot be dropped; cause: jobs use it: outj") as caught:
        gateway.queues.drop_transformation("mark")
    assert caught.value.number == 24095
    with refused(32801):
        gateway.admin.drop_transformation("mark")
    with gateway.run():
        with Hub.open(gateway.url) as plain:
            QueueAdmin(plain).drop_transformation("mark")  # knows of no jobs: the job says what it lacks
        eventually(lambda: gateway.job("outj")["STATUS"] == "FAILED")
        assert "transformation MGW.Mark does not exist" in gateway.job("outj")["LAST_ERROR_MSG"]


def test_types_of_a_transformation_stay_what_its_users_need(gateway: Gateway) -> None:
    queues, admin = gateway.queues, gateway.admin
    queues.create_type("oe.point", {"x": "NUMBER", "y": "NUMBER"})
    queues.create_type("oe.line", {"start": "NUMBER"})
    queues.create_queue_table("news_t", "JSON", multiple_consumers=True)
    queues.create_queue("news", "news_t")
    queues.start_queue("news")
    queues.create_transformation("to_point", "JSON", "OE.POINT", "OE.POINT(1, 2)")
    queues.modify_transformation("to_point", 2, "source.user_data.y")
    queues.add_subscriber("news", "calm", transformation="MGW.To_Point")
    with pytest.raises(AdminError, match=r"subscribers of queues that hold another type use it: calm of news \(JSON\)"):
        admin.alter_transformation("to_point", from_type="RAW")
    with refused(32801):  # it has no second attribute
        admin.alter_transformation("to_point", to_type="OE.LINE")
    admin.alter_transformation("to_point", comment="as it was")
    (row,) = view(gateway.hub, "MGW_TRANSFORMATIONS")
    assert (row["FROM_TYPE"], row["TO_TYPE"]) == ("JSON", "OE.POINT")
    gateway.enqueue("news", [Message(body='{"y": 7}')])
    assert [dict(each.body) for each in gateway.browse("news", "calm")] == [{"x": 1, "y": 7}]
    queues.alter_subscriber("news", "calm", rule=None, transformation=None)
    admin.alter_transformation("to_point", from_type="RAW", to_type="RAW", definition={"set": {"priority": "2"}})


def test_an_exception_queue_holds_exactly_what_the_source_holds(gateway: Gateway) -> None:
    for name in ("a", "b"):
        gateway.queues.create_type(f"oe.{name}", {name: "NUMBER"})
        gateway.queue(f"Q{name}", queue_payload_type=f"OE.{name}")
    gateway.queue("ANY", queue_payload_type="ANYDATA")
    gateway.queue("REST", queue_payload_type="ANYDATA")
    gateway.queues.enable_jms_types("ANY_QT")
    for source, exceptions in (("Qa", "Qb"), ("Qa", "H"), ("ANY", "REST")):
        with refused(32821):
            gateway.admin.create_job("outj", "OUTBOUND", source, "OUT@mem", exception_queue=exceptions)
    gateway.queues.enable_jms_types("REST_QT")
    gateway.admin.create_job("outj", "OUTBOUND", "ANY", "OUT@mem", exception_queue="REST")


def test_a_running_job_follows_what_its_queue_table_takes(gateway: Gateway, request: pytest.FixtureRequest) -> None:
    gateway.queue("ANY", queue_payload_type="ANYDATA")
    gateway.admin.create_job("inj", "INBOUND", "IN@mem", "ANY", exception_queue="OUT@mem")
    with gateway.run() as running:
        broker(request).put("IN", Message(body=wrap("plain")))
        eventually(lambda: len(gateway.browse("ANY")) == 1)
        gateway.queues.enable_jms_types("ANY_QT")
        eventually(lambda: running.agent._snapshot and running.agent._snapshot.version == version(gateway))
        broker(request).put("IN", Message(body=wrap("<a/>", "SYS.XMLTYPE")))
        eventually(lambda: [each.type_name for each in gateway.browse("ANY")] == ["SYS.VARCHAR2", "SYS.XMLTYPE"])
    assert sent(request) == []
