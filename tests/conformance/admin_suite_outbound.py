"""Schedules of the older gateway (DBMS_HQADM): imported by one test module per database."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from mgw.gateway.aq import DequeueOptions
from mgw.gateway.config.history import then_at
from mgw.gateway.definitions.objects import JobDef
from mgw.gateway.definitions.outbound import MQSERIES_OUTBOUND
from mgw.gateway.services.admin import GatewayAdmin
from mgw.transforms.message import Message
from tests.conformance.admin_suite import KEY, job_row, put, refused, start_agent, view

HQ_ENDS = ("files", MQSERIES_OUTBOUND, "q1@plant")


@pytest.fixture
def hq(admin: GatewayAdmin) -> GatewayAdmin:
    """Beside what ``admin`` has, two RAW queues: one (single), files (multi-consumer)."""
    for name, multiple in (("one", False), ("files", True)):
        admin.aq.create_queue_table(f"{name}_t", "RAW", multiple_consumers=multiple)
        admin.aq.create_queue(name, f"{name}_t")
        admin.aq.start_queue(name)
    return admin


def outbound_rows(admin: GatewayAdmin) -> dict[str, dict[str, Any]]:
    return {row["JOB_NAME"]: row for row in view(admin.hub, "DBA_OUTBOUND_SCHEDULES")}


def made_queues(admin: GatewayAdmin) -> list[str]:
    return [queue.name for queue in admin.aq.queues() if queue.name.startswith("HQ$")]


def test_a_schedule_makes_a_job_with_an_exception_queue_of_its_own(hq: GatewayAdmin) -> None:
    job = hq.hq_schedule_propagation(*HQ_ENDS)
    put(hq.hub, "files", Message(b"1"), Message(b"2"))
    (row,) = outbound_rows(hq).values()
    assert (row["JOB_NAME"], row["QUEUE_NAME"], row["DESTINATION"]) == ("HQ$_1", "MGW.FILES", "Q1@PLANT")
    assert (row["PROTOCOL"], row["PROTOCOL_NAME"], row["LATENCY"]) == (128, "MQSERIES_OUTBOUND", 60)
    assert (row["TRANSMIT_QUEUE"], row["TRANSMIT_CONSUMER"], row["TRANSMIT_MSGS"]) == ("MGW.FILES", "MGW_HQ$_1", 2)
    assert (row["EXCEPTION_QUEUE"], row["EXCEPTION_MSGS"]) == ("HQ$_1_E", 0)
    assert (row["DURATION"], row["NEXT_TIME"], row["WINDOW_END"], row["WINDOW_OPEN"]) == (None, None, None, "Y")
    assert (row["DISABLED"], row["STATUS"], row["ERROR_MSG"], row["ERROR"]) == ("N", "READY", None, None)
    assert (job.name, job.exception_queue, job.enabled, job.latency) == ("HQ$_1", "HQ$_1_E", True, 60)
    found = job_row(hq.hub, "hq$_1")
    assert (found["SOURCE"], found["EXCEPTION_QUEUE"], found["POLL_INTERVAL"]) == ("MGW.FILES", "HQ$_1_E", 60)
    assert hq.hq_schedule_propagation("one", "dbms_hqadm.mqseries_outbound", "q1@plant", latency=0).latency == 0
    assert [each.name for each in hq.list_outbound_schedules()] == ["HQ$_1", "HQ$_2"]
    assert outbound_rows(hq)["HQ$_2"]["TRANSMIT_CONSUMER"] is None
    actions = [(row["ACTION"], row["OBJECT_NAME"]) for row in view(hq.hub, "MGW_AUDIT")]
    assert ("create outbound schedule", "HQ$_1") in actions
    with hq.hub.write() as conn:
        conn.exec_driver_sql("UPDATE gw_job_state SET status = 'FAILED', last_error_msg = 'ORA-24010: no queue'")
        conn.exec_driver_sql("UPDATE gw_job_state SET last_error_msg = '[415] gone' WHERE job_id = 2")
    assert {(row["DISABLED"], row["ERROR"]) for row in outbound_rows(hq).values()} == {("Y", "24010"), ("Y", "415")}


def test_windows_are_kept_as_they_were_given(hq: GatewayAdmin) -> None:
    when = datetime(2030, 1, 31, 22, tzinfo=UTC)
    job = hq.hq_schedule_propagation(*HQ_ENDS, when, 3600, "SYSDATE + 1 - 3600/86400", 5)
    (row,) = outbound_rows(hq).values()
    assert (row["START_TIME"], row["WINDOW_BEGIN"]) == ("2030-01-31 22:00:00",) * 2
    assert (row["WINDOW_END"], row["WINDOW_OPEN"], row["DURATION"]) == ("2030-01-31 23:00:00", "N", 3600)
    assert (row["NEXT_TIME"], row["LATENCY"]) == ("SYSDATE + 1 - 3600/86400", 5)
    assert job.outbound is not None
    assert not job.is_due(when.timestamp() - 1)
    assert job.is_due(when.timestamp())
    assert not job.is_due(when.timestamp() + 3600)
    later = job.outbound.moved(when.timestamp() + 9 * 86400 + 1800)
    assert datetime.fromtimestamp(later.window, UTC) == datetime(2030, 2, 9, 22, tzinfo=UTC), "no drift"
    given: set[Any] = {"2030-01-31T22:00:00", "2030-01-31T23:00+01:00", when.timestamp(), when.replace(tzinfo=None)}
    hq.hq_unschedule_propagation(*HQ_ENDS)
    for start in given:
        hq.hq_schedule_propagation(*HQ_ENDS, start)
        assert next(iter(outbound_rows(hq).values()))["START_TIME"] == "2030-01-31 22:00:00"
        hq.hq_unschedule_propagation(*HQ_ENDS)
    begun = hq.clock.now() - 9.5 * 86400
    job = hq.hq_schedule_propagation(*HQ_ENDS, begun, 3600, "SYSDATE + 1 - 3600/86400")
    assert job.outbound is not None
    assert job.outbound.window == pytest.approx(begun + 10 * 86400, abs=0.01), "those that have ended are left out"
    assert outbound_rows(hq)["HQ$_1"]["START_TIME"] < outbound_rows(hq)["HQ$_1"]["WINDOW_BEGIN"]
    assert hq.list_outbound_schedules()[0].outbound == job.outbound


def test_what_a_schedule_refuses(hq: GatewayAdmin) -> None:
    for destination in (None, "q1", "@plant", ""):
        with refused(20001):
            hq.hq_schedule_propagation("files", 128, destination)  # type: ignore[arg-type]
        with refused(20001):
            hq.hq_unschedule_propagation("files", 128, destination)
    with refused(20002) as caught:
        hq.hq_schedule_propagation("events", 128, "q1@plant")
    assert str(caught.value).startswith("ORA-20002: outbound schedule HQ$_1: queue events cannot be used")
    with refused(32810):
        hq.hq_schedule_propagation("files", 128, "nosuch@plant")
    with refused(32818):
        hq.hq_schedule_propagation("nosuch", 128, "q1@plant")
    for protocol in (0, 127, "AQ", "KAFKA_OUTBOUND"):
        with refused(32802):
            hq.hq_schedule_propagation("files", protocol, "q1@plant")
    values: dict[str, list[Any]] = {
        "latency": [-1, None, True, False, float("inf"), "5", 0.05, 2e11],
        "duration": [0, "1", float("nan"), 2e11],
        "start_time": ["tomorrow", True, 1e300],
        "next_time": ["tomorrow", "1"],
    }
    for name, bad in values.items():
        for value in bad:
            with refused(32801):
                hq.hq_schedule_propagation(*HQ_ENDS, **{name: value})
    with refused(32801) as caught:
        hq.hq_schedule_propagation(*HQ_ENDS, datetime(9000, 1, 1, tzinfo=UTC), 1e11)
    assert "no window ends after the year 9999" in str(caught.value)
    with refused(32801) as caught:
        hq.hq_schedule_propagation(*HQ_ENDS, None, 1e10, "ADD_MONTHS(SYSDATE, 12*7600)")
    assert "the window would end after the year 9999" in str(caught.value)
    with refused(32801) as caught:
        hq.hq_schedule_propagation(*HQ_ENDS, None, 600, "SYSDATE - 1")
    assert "would open before the first one closes" in str(caught.value)
    assert (made_queues(hq), outbound_rows(hq), hq.list_jobs()) == ([], {}, []), "a refused call changes nothing"
    hq.hq_schedule_propagation(*HQ_ENDS)
    with refused(32824):
        hq.hq_schedule_propagation("Mgw.Files", 128, "Q1@Plant")
    with refused(32814):
        hq.hq_unschedule_propagation("files", 128, "q2@plant")
    with refused(32814):
        hq.hq_unschedule_propagation("files", "MQTT_OUTBOUND", "q1@plant")
    with refused(32801) as caught:
        hq.remove_job("hq$_1")
    assert "mgw outbound-schedules remove files q1@plant" in str(caught.value)
    for settings in ({"exception_queue": None}, {"poll_interval": 2}):
        with refused(32803):
            hq.alter_job("hq$_1", **settings)
    hq.alter_job("hq$_1", rule="priority < 3", comments="by night", options={"MsgBatchSize": 5})
    for call in (hq.remove_subscriber, hq.unschedule_propagation):
        with refused(32856):
            call("hq$_1")


def test_a_schedule_of_the_old_style_keeps_its_ends_and_its_name(hq: GatewayAdmin) -> None:
    hq.schedule_propagation("HQ$_1", "OUTBOUND", "files", "q1@plant")
    with refused(32824) as caught:
        hq.hq_schedule_propagation(*HQ_ENDS)
    assert "schedule HQ$_1 has the same propagation type, source and destination" in str(caught.value)
    hq.aq.create_queue("HQ$_2_E", "files_t")
    job = hq.hq_schedule_propagation("files", MQSERIES_OUTBOUND, "q2@plant", latency=0.1)
    assert (job.name, job.poll_interval) == ("HQ$_3", 0.1)
    assert [each.name for each in hq.list_schedules()] == ["HQ$_1", "HQ$_3"]


def test_a_schedule_that_holds_messages_is_removed_by_force_alone(hq: GatewayAdmin) -> None:
    hq.hq_schedule_propagation(*HQ_ENDS)
    put(hq.hub, "files", Message(b"1"), Message(b"2"))
    with refused(20004) as caught:
        hq.hq_unschedule_propagation(*HQ_ENDS)
    assert "queue files holds 2 messages" in str(caught.value)
    assert hq.hq_unschedule_propagation(*HQ_ENDS, True)
    assert (made_queues(hq), outbound_rows(hq), hq.aq.queue_subscribers("files")) == ([], {}, [])
    hq.hq_schedule_propagation("one", 128, "q1@plant")
    put(hq.hub, "one", Message(b"stays"))
    put(hq.hub, "HQ$_1_E", Message(b"bad"))
    with refused(20004) as caught:
        hq.hq_unschedule_propagation("one", 128, "q1@plant")
    assert "exception queue HQ$_1_E holds 1 message" in str(caught.value)
    assert "queue one holds" not in str(caught.value)
    start_agent(hq.hub)
    assert not hq.hq_unschedule_propagation("one", 128, "q1@plant", force=True), "the agent finishes it"
    assert (made_queues(hq), outbound_rows(hq)) == ([], {})
    assert job_row(hq.hub, "hq$_1")["STATUS"] == "DELETE_PENDING"
    assert hq.hq_schedule_propagation(*HQ_ENDS).name == "HQ$_2"
    hq.finish_remove_job("hq$_1")
    assert [job.name for job in hq.list_jobs()] == ["HQ$_2"]
    assert hq.aq.held_by_queue("one").messages == 1
    actions = [row["ACTION"] for row in view(hq.hub, "MGW_AUDIT") if row["KIND"] == "outbound schedule"]
    assert actions.count("remove outbound schedule") == 2


def test_nothing_but_its_exception_queue_goes_with_a_schedule(
    hq: GatewayAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    hq.hq_schedule_propagation(*HQ_ENDS)
    hq.aq.create_queue("kept", "HQ$_1")
    hq.aq.start_queue("kept")
    put(hq.hub, "kept", Message(b"of somebody else"))
    for force in (False, True):
        with refused(20004) as caught:
            hq.hq_unschedule_propagation(*HQ_ENDS, force)
        assert "queue table HQ$_1, which goes with it, also has queue kept" in str(caught.value)
        assert "mgw aq stop kept, mgw aq drop kept" in str(caught.value)
    assert (hq.aq.held_by_queue("kept").messages, list(outbound_rows(hq))) == (1, ["HQ$_1"])
    hq.aq.stop_queue("kept")
    hq.aq.drop_queue("kept")
    put(hq.hub, "HQ$_1_E", Message(b"bad"))
    exceptions = hq.hub.session()
    monkeypatch.setattr("mgw.gateway.services.admin.outbound_procedures.STOP_SECONDS", 0.2)
    for _ in range(7):
        assert exceptions.dequeue("HQ$_1_E", DequeueOptions(wait=0))
        with refused(20004) as caught:
            hq.hq_unschedule_propagation(*HQ_ENDS, True)
        assert "queue HQ$_1_E cannot be stopped: transactions are using it" in str(caught.value)
        exceptions.rollback()
        if hq.aq.held_by_queue("AQ$_HQ$_1_E").messages:
            break
    with refused(20004) as caught:
        hq.hq_unschedule_propagation(*HQ_ENDS)
    assert "queue AQ$_HQ$_1_E holds 1 message" in str(caught.value)
    stored = hq.aq.queue("HQ$_1_E")
    assert stored is not None
    assert stored.enqueue_enabled, "what a refused call stopped is started"
    assert hq.hq_unschedule_propagation(*HQ_ENDS, True)
    assert made_queues(hq) == []


def test_a_generation_has_no_job_of_a_schedule(hq: GatewayAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MGW_SECRET_KEY", KEY)
    hq.create_job("plain", "OUTBOUND", "events", "q2@plant")
    hq.hq_schedule_propagation(*HQ_ENDS)
    hq.alter_job("hq$_1", comments="by night")
    number = max(row["GENERATION"] for row in view(hq.hub, "MGW_AUDIT") if row["ACTION"] == "alter job")
    hq.alter_job("hq$_1", comments="by day")
    hq.hq_unschedule_propagation(*HQ_ENDS)
    assert list(then_at(hq.hub, number).document.jobs) == ["plain"]


def test_a_schedule_of_another_schema_has_its_queue_there(hq: GatewayAdmin) -> None:
    hq.aq.create_queue_table("Plant.files_t", "RAW", multiple_consumers=True)
    hq.aq.create_queue("Plant.files", "Plant.files_t")
    job: JobDef = hq.hq_schedule_propagation("plant.files", 128, "q1@plant")
    assert job.exception_queue == "Plant.HQ$_1_E"
    assert outbound_rows(hq)["HQ$_1"]["EXCEPTION_QUEUE"] == "PLANT.HQ$_1_E"
    assert hq.hq_unschedule_propagation("PLANT.FILES", 128, "q1@plant")
    assert made_queues(hq) == []
