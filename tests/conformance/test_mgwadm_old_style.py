"""Subscribers and schedules of the old style from SQL: each case in Python on one hub and in SQL on another."""

from __future__ import annotations

from typing import Any

import pytest

from mgw.gateway.aq.queues import transfer
from mgw.gateway.services.admin import NO_CHANGE, GatewayAdmin
from mgw.transforms.message import Message
from tests.conformance.admin_suite import start_agent
from tests.conformance.test_mgwadm import Call, Pair, Refused, call, define, hubs, pair

__all__ = ["hubs", "pair"]  # fixtures

pytestmark = pytest.mark.postgresql

ENDS = {"propagation_type": "OUTBOUND", "destination": "tasks@shop"}
OUT = ENDS | {"queue_name": "many"}
WHEN = ENDS | {"source": "many"}
IN = {"propagation_type": "inbound_propagation", "destination": "one"}


def add(name: str, /, **more: Any) -> Call:
    return call("add_subscriber", **{"subscriber_id": name} | OUT | more)


def schedule(name: str, /, **more: Any) -> Call:
    return call("schedule_propagation", **{"schedule_id": name} | WHEN | more)


def numbers(refusals: list[Refused | None]) -> list[int | None]:
    return [None if each is None else each.number for each in refusals]


def put(admin: GatewayAdmin) -> None:
    with admin.hub.write() as conn:
        transfer.put(conn, transfer.resolve(conn, "many"), [Message("1"), Message("2")])


def test_two_halves_are_made_altered_and_removed(pair: Pair) -> None:
    pair.both(define)
    steps = (
        add("Sub", exception_queue="two", options={"MsgBatchSize": 7}),
        schedule("Often", start_time="now", duration=3.0, next_time="later", latency=2.0),
        call("alter_propagation_schedule", schedule_id="often", latency=4.0),
        call("disable_propagation_schedule", schedule_id="often"),
        call("disable_propagation_schedule", schedule_id="often"),
        call("enable_propagation_schedule", schedule_id="OFTEN"),
        call("alter_propagation_schedule", schedule_id="often"),
        call("alter_subscriber", subscriber_id="sub"),
        call("alter_subscriber", subscriber_id="sub", rule=NO_CHANGE, exception_queue=None, options={"*": None}),
        call("reset_subscriber", subscriber_id="sub"),
        call("unschedule_propagation", schedule_id="often"),
        call("remove_subscriber", subscriber_id="sub"),
        # the schedule first, of a job that reads from a messaging system
        call("schedule_propagation", schedule_id="Day", source="orders@plant", **IN),
        call("alter_propagation_schedule", schedule_id="day", latency=7.0),
        call("disable_propagation_schedule", schedule_id="day"),
        call("add_subscriber", subscriber_id="Into", queue_name="orders@plant", **IN),
        schedule("Often"),
        add("Sub"),
        call("remove_subscriber", subscriber_id="sub"),
        add("Again"),
        call("unschedule_propagation", schedule_id="often"),
        call("remove_subscriber", subscriber_id="again", force=True),
    )
    assert numbers(pair.compare(*steps)) == [None] * len(steps)
    (job,) = pair.other.list_jobs()
    assert (job.name, job.schedule, job.poll_interval, job.enabled) == ("Into", "Day", 7, False)
    found = pair.sql(call("remove_subscriber", subscriber_id="into"))
    assert found is not None
    assert (found.number, found.what) == (32801, "subscriber Into cannot be removed from SQL")
    assert pair.compare(call("remove_subscriber", subscriber_id="into", force=True)) == [None]
    assert [each.name for each in pair.other.list_schedules()] == ["Day"], "its schedule stays"


def test_what_python_refuses_sql_refuses(pair: Pair) -> None:
    pair.both(define)
    pair.both(lambda admin: admin.create_job("New", "OUTBOUND", "many", "errors@shop"))
    pair.both(lambda admin: admin.add_subscriber("Half", **OUT))  # type: ignore[arg-type]
    pair.both(lambda admin: admin.schedule_propagation("Alone", "INBOUND", "orders@plant", "one"))
    steps = {
        32801: (add("s", queue_name="one"), add(""), add("s", destination="records@logs", exception_queue="many")),
        32802: (add("s", propagation_type="LOCAL"), schedule("s", propagation_type="THROUGH")),
        32804: (add("s 1"), schedule("1s"), add("s", destination="two"), schedule("s", source="tasks@shop")),
        32805: (add("x" * 125), schedule("x" * 129)),
        32810: (add("s", destination="nosuch@shop"), schedule("s", destination="nosuch@shop")),
        32811: (add("half"), add("NEW")),
        32812: (call("reset_subscriber", subscriber_id="no"), call("remove_subscriber", subscriber_id="no")),
        32813: (schedule("alone"), schedule("new")),
        32814: (
            call("unschedule_propagation", schedule_id="no"),
            call("alter_propagation_schedule", schedule_id="no"),
        ),
        32818: (add("s", queue_name="nosuch"), schedule("s", source="nosuch")),
        32823: (add("s"),),
        32824: (
            schedule("s", destination="errors@shop"),
            call("schedule_propagation", schedule_id="s", source="orders@plant", **IN),
        ),
        32840: (add("s", destination="records@logs", options={"colour": "red"}),),
        32843: (schedule("s", latency=0.05), call("alter_propagation_schedule", schedule_id="alone", latency=60.5)),
        32856: (
            call("alter_subscriber", subscriber_id="new"),
            call("remove_subscriber", subscriber_id="NEW"),
            call("disable_propagation_schedule", schedule_id="new"),
        ),
    }
    for number, calls in steps.items():
        assert numbers(pair.compare(*calls)) == [number] * len(calls)


def test_messages_and_a_running_agent_delay_a_removal(pair: Pair) -> None:
    pair.both(define)
    pair.both(lambda admin: admin.add_subscriber("Sub", **OUT))  # type: ignore[arg-type]
    pair.both(put)
    remove = call("remove_subscriber", subscriber_id="sub")
    assert numbers([pair.python(remove), pair.sql(remove)]) == [32801, 32801]
    assert "subscriber Sub cannot be removed" in str(pair.sql(remove))
    pair.both(lambda admin: admin.schedule_propagation("Often", **WHEN))  # type: ignore[arg-type]
    assert pair.compare(call("remove_subscriber", subscriber_id="sub", force=True)) == [None]
    pair.both(lambda admin: admin.add_subscriber("Sub", **OUT))  # type: ignore[arg-type]
    for hub in pair.hubs:
        start_agent(hub)
    again = call("reset_subscriber", subscriber_id="sub")
    assert numbers(pair.compare(remove, remove, again)) == [None, None, 32822]
    pair.both(lambda admin: admin.remove_job("sub"))
    assert numbers(pair.compare(again, call("unschedule_propagation", schedule_id="often"))) == [32822, 32822]


def test_a_job_of_a_schedule_of_the_older_gateway_is_left_to_it(pair: Pair) -> None:
    pair.both(define)
    pair.both(lambda admin: admin.hq_schedule_propagation("raw", 128, "tasks@shop", "2026-01-31"))
    steps = (
        call("remove_job", job_name="hq$_1"),
        call("alter_job", job_name="hq$_1", exception_queue=None),
        call("alter_job", job_name="hq$_1", poll_interval=3.0),
        call("remove_subscriber", subscriber_id="hq$_1"),
        call("alter_job", job_name="hq$_1", comments="by night"),
        call("disable_job", job_name="hq$_1"),
    )
    assert numbers(pair.compare(*steps)) == [32801, 32803, 32803, 32856, None, None]
