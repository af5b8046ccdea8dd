"""Subscribers and schedules of the old style (AQ guide 12.2 §19.6): imported by one test module per database."""

from __future__ import annotations

from typing import Any

import pytest

from mgw.gateway.definitions.objects import JobStatus
from mgw.gateway.services.admin import RESET_SUB_MISSING_MESSAGE, GatewayAdmin
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.message import Message
from tests.conformance.admin_suite import job_row, put, refused, start_agent, view
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually

TRIPLET = ("OUTBOUND", "events", "q1@plant")


def subscribers(admin: GatewayAdmin) -> dict[str, dict[str, Any]]:
    return {row["SUBSCRIBER_ID"]: row for row in view(admin.hub, "MGW_SUBSCRIBERS")}


def schedules(admin: GatewayAdmin) -> dict[str, dict[str, Any]]:
    return {row["SCHEDULE_ID"]: row for row in view(admin.hub, "MGW_SCHEDULES")}


def jobs(admin: GatewayAdmin) -> list[str]:
    assert [row["JOB_NAME"] for row in view(admin.hub, "MGW_JOBS")] == [job.name.upper() for job in admin.list_jobs()]
    return [job.name for job in admin.list_jobs()]


def test_subscriber_and_schedule_together_are_a_job(admin: GatewayAdmin) -> None:
    admin.add_subscriber("Sub", *TRIPLET, rule="priority < 3", options={"MsgBatchSize": 7})
    put(admin.hub, "events", Message(b"wanted", priority=1))
    (row,) = subscribers(admin).values()
    assert (row["QUEUE_NAME"], row["DESTINATION"], row["PROPAGATION_TYPE"]) == ("MGW.EVENTS", "Q1@PLANT", "OUTBOUND")
    assert (row["RULE"], row["STATUS"], row["OPTIONS"]) == ("priority < 3", "ENABLED", '{"msgbatchsize":"7"}')
    assert (row["SCHEDULE_ID"], row["OLD_STYLE"], row["BACKLOG"]) == (None, "TRUE", 1)
    assert (jobs(admin), schedules(admin)) == ([], {})
    for call in (admin.enable_job, admin.reset_job, admin.alter_job, admin.remove_job):
        with refused(32855):
            call("sub")
    admin.schedule_propagation("Sched", *TRIPLET, "now", 3, "later", 2)
    row = job_row(admin.hub, "sub")
    assert (row["ENABLED"], row["POLL_INTERVAL"], row["BACKLOG"], row["STATUS"]) == ("TRUE", 2, 1, "READY")
    (row,) = schedules(admin).values()
    assert (row["SCHEDULE_ID"], row["SUBSCRIBER_ID"], row["LATENCY"]) == ("SCHED", "SUB", 2)
    assert (row["SCHEDULE_DISABLED"], row["START_TIME"], row["NEXT_TIME"]) == ("N", None, None)
    assert subscribers(admin)["SUB"]["SCHEDULE_ID"] == "SCHED"
    admin.alter_job("sub", poll_interval=3, rule="priority < 5")
    admin.disable_job("sub")
    assert (schedules(admin)["SCHED"]["LATENCY"], schedules(admin)["SCHED"]["SCHEDULE_DISABLED"]) == (3, "Y")
    admin.enable_propagation_schedule("sched")
    admin.alter_subscriber("sub", rule=None, options={"MsgBatchSize": None})
    job = admin.get_job("sub")
    assert job is not None
    assert (job.enabled, job.rule, job.options, job.poll_interval) == (True, None, {}, 3)
    admin.unschedule_propagation("sched")
    assert (jobs(admin), list(subscribers(admin)), schedules(admin)) == ([], ["SUB"], {})
    assert [each.name for each in admin.aq.queue_subscribers("events")] == ["MGW_Sub"]


def test_a_schedule_waits_for_its_subscriber(admin: GatewayAdmin) -> None:
    admin.schedule_propagation("sched", "INBOUND", "news@plant", "orders", latency=4)
    admin.disable_propagation_schedule("sched")
    (row,) = schedules(admin).values()
    assert (row["SOURCE"], row["DESTINATION"], row["PROPAGATION_TYPE"]) == ("NEWS@PLANT", "MGW.ORDERS", "INBOUND")
    assert (row["LATENCY"], row["SCHEDULE_DISABLED"], row["SUBSCRIBER_ID"]) == (4, "Y", None)
    admin.add_subscriber("other", "INBOUND", "news@plant", "bad")
    assert jobs(admin) == []
    admin.add_subscriber("sub", "INBOUND_PROPAGATION", "NEWS@Plant", "MGW.orders")
    assert jobs(admin) == ["sub"]
    assert (job_row(admin.hub, "sub")["ENABLED"], job_row(admin.hub, "sub")["POLL_INTERVAL"]) == ("FALSE", 4)
    admin.alter_propagation_schedule("sched")
    assert schedules(admin)["SCHED"]["LATENCY"] == 5, "what is left out is the default again"
    assert admin.remove_subscriber("sub")
    assert (jobs(admin), list(subscribers(admin))) == ([], ["OTHER"])
    (left,) = admin.list_schedules()
    assert (left.name, left.source, left.latency, left.enabled) == ("sched", "NEWS@Plant", None, False)
    admin.alter_propagation_schedule("sched", latency=6)
    admin.enable_propagation_schedule("sched")
    assert (schedules(admin)["SCHED"]["LATENCY"], schedules(admin)["SCHED"]["SCHEDULE_DISABLED"]) == (6, "N")
    admin.unschedule_propagation("sched")
    assert schedules(admin) == {}


def test_subscriber_and_schedule_of_a_new_style_job_belong_to_it(admin: GatewayAdmin) -> None:
    admin.create_job("J", *TRIPLET, enabled=False)
    assert [(row["SUBSCRIBER_ID"], row["OLD_STYLE"]) for row in schedules(admin).values()] == [("J", "FALSE")]
    assert [(row["SCHEDULE_ID"], row["OLD_STYLE"]) for row in subscribers(admin).values()] == [("J", "FALSE")]
    calls = (admin.alter_subscriber, admin.reset_subscriber, admin.remove_subscriber)
    for call in (
        *calls,
        admin.unschedule_propagation,
        admin.alter_propagation_schedule,
        admin.enable_propagation_schedule,
        admin.disable_propagation_schedule,
    ):
        with refused(32856):
            call("j")
    with refused(32811):
        admin.add_subscriber("j", "OUTBOUND", "events", "q2@plant")
    with refused(32813):
        admin.schedule_propagation("j", "OUTBOUND", "events", "q2@plant")
    with refused(32823):
        admin.add_subscriber("sub", *TRIPLET)
    with refused(32824):
        admin.schedule_propagation("sched", *TRIPLET)


def test_what_the_old_style_refuses(admin: GatewayAdmin) -> None:
    with refused(32801) as caught:
        admin.add_subscriber("sub", "OUTBOUND", "orders", "q1@plant")
    assert str(caught.value).startswith("ORA-32801: subscriber sub: source orders")
    for call in (admin.add_subscriber, admin.schedule_propagation):
        with refused(32802):
            call("s", "LOCAL", "events", "orders")
        with refused(32810) as caught:
            call("s", "OUTBOUND", "events", "nosuch@plant")
        with refused(32818):
            call("s", "INBOUND", "q1@plant", "nosuch")
        with refused(32804):
            call("s 1", *TRIPLET)
    with refused(32843) as caught:
        admin.schedule_propagation("s", *TRIPLET, latency=0)
    assert "schedule s" in str(caught.value)
    for call in (admin.alter_subscriber, admin.reset_subscriber, admin.remove_subscriber):
        with refused(32812):
            call("nosuch")
    for call in (admin.unschedule_propagation, admin.alter_propagation_schedule, admin.enable_propagation_schedule):
        with refused(32814):
            call("nosuch")
    admin.schedule_propagation("sched", "INBOUND", "q1@plant", "orders")
    with refused(32813):
        admin.schedule_propagation("Sched", "INBOUND", "q1@plant", "bad")
    with refused(32824):
        admin.schedule_propagation("sched2", "INBOUND", "q1@plant", "orders")
    with refused(32824):
        admin.create_job("j", "INBOUND", "q1@plant", "orders")
    with refused(32854):
        admin.create_job("sched", "OUTBOUND", "events", "q1@plant")
    with refused(32816):
        admin.unregister_foreign_queue("q1", "plant")
    admin.add_subscriber("sub", "INBOUND", "q1@plant", "bad")
    with refused(32823):
        admin.create_job("j", "INBOUND", "q1@plant", "events")
    with refused(32854):
        admin.create_job("SUB", "OUTBOUND", "events", "q2@plant")
    admin.unschedule_propagation("sched")
    with refused(32816) as caught:
        admin.unregister_foreign_queue("q1", "plant")
    assert "subscribers use it: sub" in str(caught.value)


def old_style_job(admin: GatewayAdmin) -> None:
    admin.schedule_propagation("sched", *TRIPLET)
    admin.add_subscriber("sub", *TRIPLET)


def test_a_job_that_is_removed_takes_subscriber_and_schedule_with_it(admin: GatewayAdmin) -> None:
    old_style_job(admin)
    start_agent(admin.hub)
    assert not admin.remove_job("sub")
    assert (job_row(admin.hub, "sub")["STATUS"], subscribers(admin)["SUB"]["STATUS"]) == (
        "DELETE_PENDING",
        "DELETE_PENDING",
    )
    for call in (admin.alter_subscriber, admin.reset_subscriber, admin.remove_subscriber):
        with refused(32822):
            call("sub")
    for call in (admin.unschedule_propagation, admin.alter_propagation_schedule, admin.disable_propagation_schedule):
        with refused(32822):
            call("sched")
    admin.finish_remove_job("sub")
    assert (jobs(admin), subscribers(admin), schedules(admin)) == ([], {}, {})


def test_removal_of_a_subscriber_is_pending_while_the_agent_runs(admin: GatewayAdmin) -> None:
    old_style_job(admin)
    put(admin.hub, "events", Message(b"1"))
    with refused(32801) as caught:
        admin.remove_subscriber("sub")
    assert "subscriber sub cannot be removed" in str(caught.value)
    start_agent(admin.hub)
    admin.cleanup_gateway(RESET_SUB_MISSING_MESSAGE, "sub")
    assert not admin.remove_subscriber("sub", drop_messages=True)
    found = sorted(view(admin.hub, "MGW_AUDIT"), key=lambda row: row["AUDIT_ID"])
    actions = [row["ACTION"] for row in found if row["KIND"] in {"subscriber", "schedule"}]
    assert actions == ["create schedule", "create subscriber", "remove subscriber"]
    assert job_row(admin.hub, "sub")["STATUS"] == "SUBSCRIBER_DELETE_PENDING"
    assert subscribers(admin)["SUB"]["STATUS"] == "DELETE_PENDING"
    for call in (admin.alter_subscriber, admin.reset_subscriber, admin.alter_job, admin.reset_job):
        with refused(32822):
            call("sub")
    admin.disable_propagation_schedule("sched")  # it stays, so it may be changed
    assert not admin.remove_subscriber("sub")
    admin.finish_remove_job("sub")
    assert (jobs(admin), subscribers(admin), schedules(admin)["SCHED"]["SCHEDULE_DISABLED"]) == ([], {}, "Y")
    assert admin.aq.queue_subscribers("events") == []
    admin.add_subscriber("sub", *TRIPLET)
    assert admin.remove_subscriber("sub", force=True)
    assert (jobs(admin), subscribers(admin), list(schedules(admin))) == ([], {}, ["SCHED"])
    admin.add_subscriber("sub", *TRIPLET)
    assert not admin.remove_subscriber("sub")
    assert not admin.remove_job("sub"), "as long as the subscriber exists"
    assert [job.status for job in admin.list_jobs()] == [JobStatus.DELETE_PENDING]
    admin.finish_remove_job("sub")
    assert (subscribers(admin), schedules(admin)) == ({}, {})


def test_a_subscriber_without_a_schedule_collects_and_moves_nothing(
    hub_url: str, request: pytest.FixtureRequest
) -> None:
    broker = MemoryBroker.get(request.node.nodeid)
    with gateway_on(hub_url) as gateway:
        gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
        gateway.queue("M", multiple_consumers=True)
        gateway.queue("IN")
        broker.queue("OUT")
        broker.topic("news")
        gateway.admin.register_foreign_queue("OUT", "mem")
        gateway.admin.register_foreign_queue("NEWS", "mem", "news", "TOPIC")
        gateway.admin.add_subscriber("outs", "OUTBOUND", "M", "OUT@mem")
        gateway.admin.add_subscriber("ins", "INBOUND", "NEWS@mem", "IN")
        with gateway.run():
            _moves_by_its_schedule(gateway, broker)
    MemoryBroker.drop(broker.name)


def _moves_by_its_schedule(gateway: Gateway, broker: MemoryBroker) -> None:
    def waiting() -> dict[str, Any]:
        return {row["SUBSCRIBER_ID"]: row["BACKLOG"] for row in view(gateway.hub, "MGW_SUBSCRIBERS")}

    def sent() -> list[Any]:
        return [message.body for message in broker.queue("OUT").messages]

    out = ("OUTBOUND", "M", "OUT@mem")
    eventually(lambda: "MGW_ins" in broker.subscriptions, what="its agent to subscribe")
    broker.put("news", Message(body="early"))
    gateway.enqueue("M", [Message(body="early")])
    gateway.admin.schedule_propagation("ready", "INBOUND", "NEWS@mem", "IN")
    eventually(lambda: [message.body for message in gateway.browse("IN")] == ["early"], what="the inbound message")
    assert (sent(), waiting()["OUTS"]) == ([], 1)
    gateway.admin.schedule_propagation("out", *out)
    eventually(lambda: sent() == ["early"], what="the outbound message")
    gateway.admin.unschedule_propagation("out")
    eventually(lambda: "job outs stopped" in gateway.events(), what="its job to end")
    gateway.enqueue("M", [Message(body="late")])
    broker.put("news", Message(body="late"))
    eventually(lambda: len(gateway.browse("IN")) == 2, what="the other job, which goes on")
    assert (sent(), waiting()["OUTS"]) == (["early"], 1)
    gateway.admin.schedule_propagation("again", *out)
    eventually(lambda: sent() == ["early", "late"], what="what was collected")
