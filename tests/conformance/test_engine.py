"""Jobs between the hub and the broker inside the process: what an agent does with them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from mgw.gateway.aq import transfer
from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.payloads.anydata import wrap
from mgw.gateway.runtime.ends.hub_source import HubSource
from mgw.gateway.runtime.ends.link_destination import LinkDestination
from mgw.gateway.runtime.ends.link_source import LinkSource
from mgw.gateway.runtime.route import Route
from mgw.gateway.runtime.windowed import AHEAD, WindowedRoute
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.errors import HubUnavailable, LinkUnavailable
from mgw.transforms.message import Header, Message, ValueType
from mgw.transforms.objects import ObjectValue
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually


@pytest.fixture
def gateway(tmp_path: Path, broker: MemoryBroker) -> Iterator[Gateway]:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
        yield gateway


def inbound(gateway: Gateway, broker: MemoryBroker, name: str = "inj", queue: str = "SRC", **job: Any) -> None:
    """Memory queue ``queue`` -> hub queue H."""
    broker.queue(queue)
    gateway.admin.register_foreign_queue(queue, "mem")
    if gateway.queues.queue("H") is None:
        gateway.queue("H")
    gateway.admin.create_job(name, "INBOUND", f"{queue}@mem", job.pop("destination", "H"), **job)


def outbound(gateway: Gateway, broker: MemoryBroker, name: str = "outj", queue: str = "DST", **job: Any) -> None:
    """Hub queue H -> memory queue ``queue``."""
    broker.queue(queue)
    gateway.admin.register_foreign_queue(queue, "mem")
    if gateway.queues.queue("H") is None:
        gateway.queue("H")
    gateway.admin.create_job(name, "OUTBOUND", job.pop("source", "H"), f"{queue}@mem", **job)


def bodies(messages: list[Message]) -> list[Any]:
    return [message.body for message in messages]


def texts(count: int, start: int = 0) -> list[str]:
    return [f"message {number}" for number in range(start, start + count)]


def put(broker: MemoryBroker, queue: str, *contents: Any) -> None:
    broker.put(queue, *(Message(body=content) for content in contents))


def reset(gateway: Gateway, job: str) -> None:
    """Try again now, as an operator would."""
    gateway.admin.reset_job(job)


# ------------------------------------------------------------------------------------------------------ moving messages


def test_messages_travel_from_queue_to_queue_through_the_hub_in_order(gateway: Gateway, broker: MemoryBroker) -> None:
    inbound(gateway, broker)
    outbound(gateway, broker)
    put(broker, "SRC", *texts(2000))
    with gateway.run():
        eventually(lambda: len(broker.queue("DST").messages) == 2000, what="2000 messages at the destination")
        eventually(lambda: gateway.job("outj")["PROPAGATED_MSGS"] == 2000, what="completion")
    assert bodies(broker.queue("DST").messages) == texts(2000)
    assert broker.queue("SRC").messages == []
    assert gateway.browse("H") == []
    assert gateway.plans("outj") == []
    assert gateway.job("inj")["PROPAGATED_MSGS"] == 2000


def test_headers_priority_and_correlation_survive_the_hub(gateway: Gateway, broker: MemoryBroker) -> None:
    inbound(gateway, broker)
    headers = (
        Header("t", ValueType.TEXT, "x"),
        Header("n", ValueType.LONG, 2**40),
        Header("r", ValueType.RAW, b"\x00\xff"),
        Header("t", ValueType.TEXT, "again"),
    )
    broker.put("SRC", Message(body=b"\x00b", headers=headers, priority=-3, correlation="c", expiration=3600))
    with gateway.run():
        (stored,) = eventually(lambda: gateway.browse("H"))
    assert stored.body == b"\x00b"
    assert stored.headers[: len(headers)] == headers
    assert (stored.priority, stored.correlation) == (-3, "c")
    assert stored.expires_at is not None


def test_a_message_that_arrives_later_wakes_the_job_at_once(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mgw.gateway.runtime.job_runner.SAMPLE_SECONDS", 60.0)  # it would look after 5 s as well
    inbound(gateway, broker, poll_interval=60)
    outbound(gateway, broker, poll_interval=60)
    with gateway.run():
        for number in range(5):
            eventually(lambda: gateway.job("outj")["ACTIVITY"] in {"RUNNING", "IDLE"})
            put(broker, "SRC", f"late {number}")
            eventually(
                lambda n=number: len(broker.queue("DST").messages) == n + 1, what="a message long before the next poll"
            )


def test_jobs_that_wait_look_together_and_find_what_no_wake_up_told_of(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three hundred idle jobs that claim by themselves every few seconds cost a part of a core."""
    looks: list[str] = []
    plan = HubSource.plan

    def noted(source: HubSource, *args: Any, **options: Any) -> Any:
        looks.append(source.queue_name)
        return plan(source, *args, **options)

    asked: list[int] = []
    at_rest = transfer.at_rest
    monkeypatch.setattr(HubSource, "plan", noted)
    monkeypatch.setattr(transfer, "at_rest", lambda conn: asked.append(1) or at_rest(conn))
    monkeypatch.setattr("mgw.gateway.aq.store.notify.Notifier.wake", lambda *_: None)
    for number in range(5):
        gateway.queue(f"H{number}")
        outbound(gateway, broker, f"out{number}", f"D{number}", source=f"H{number}", poll_interval=0.2)
    with gateway.run():
        eventually(lambda: all(gateway.job(f"out{number}")["ACTIVITY"] == "IDLE" for number in range(5)))
        eventually(lambda: len(asked) > 3, what="looks for all of them")
        before = len(looks)
        eventually(lambda: len(asked) > 13, what="more of them")
        assert len(looks) == before, "a job looks for itself although its queue is empty"
        gateway.enqueue("H3", [Message("found")])
        eventually(lambda: bodies(broker.queue("D3").messages) == ["found"])
        gateway.queues.stop_queue("H4")
        eventually(lambda: gateway.job("out4")["STATUS"] == "RETRY", what="the stopped queue is noticed")


@pytest.mark.parametrize("refused", [False, True])
def test_messages_for_jobs_that_wait_are_planned_by_the_transaction_that_brings_them(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, refused: bool
) -> None:
    planning: list[str] = []
    plan = HubSource.plan

    def noted(*args: Any, **options: Any) -> Any:
        name = threading.current_thread().name
        if refused and name == "job-inj":
            planning.append("refused")
            raise LookupError("the subscriber is gone")
        if planned := plan(*args, **options):
            planning.append(name)
        return planned

    monkeypatch.setattr(HubSource, "plan", noted)
    gateway.queue("H", multiple_consumers=True)
    inbound(gateway, broker)
    outbound(gateway, broker, "one", "ONE")
    outbound(gateway, broker, "two", "TWO")
    brought = 0

    def answered() -> bool:
        """One message more; whether those who bring them have been asked to plan them, as jobs wait mostly."""
        nonlocal brought
        put(broker, "SRC", f"message {brought}")
        brought += 1
        eventually(lambda: all(len(broker.queue(queue).messages) == brought for queue in ("ONE", "TWO")))
        return planning.count("refused" if refused else "job-inj") >= 3

    with gateway.run():
        eventually(answered, what="plans made by the job that brings the messages")
    assert not refused or {"job-one", "job-two"} <= set(planning)
    assert bodies(broker.queue("ONE").messages) == bodies(broker.queue("TWO").messages) == texts(brought)
    assert gateway.plans("one") == gateway.plans("two") == []


def test_messages_are_planned_by_the_transaction_that_brings_them_while_others_are_on_their_way(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    planning: list[str] = []
    plan = HubSource.plan

    def noted(*args: Any, **options: Any) -> Any:
        if planned := plan(*args, **options):
            planning.append(threading.current_thread().name)
        return planned

    monkeypatch.setattr(HubSource, "plan", noted)
    inbound(gateway, broker)
    outbound(gateway, broker)
    broker.hold_confirms = True
    brought = 0

    def answered() -> bool:
        nonlocal brought
        put(broker, "SRC", f"message {brought}")
        brought += 1
        eventually(
            lambda: len(broker.queue("DST").messages) == brought, what="a message that overtakes no confirmation"
        )
        return planning[1:].count("job-inj") >= 3

    with gateway.run():
        eventually(answered, what="plans made by the job that brings the messages")
        assert gateway.job("outj")["PROPAGATED_MSGS"] == 0
        broker.hold_confirms = False
        reset(gateway, "outj")
        eventually(lambda: gateway.job("outj")["PROPAGATED_MSGS"] == brought, what="completion")
    assert bodies(broker.queue("DST").messages) == texts(brought)
    assert gateway.plans("outj") == []


def test_a_job_that_has_sent_what_came_waits_for_its_confirmation_before_it_looks_for_more(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is woken by what else comes; a look in vain would take the lock of the hub, and time from who sends."""
    happened: list[str] = []

    def note(kind: Any, name: str) -> None:
        method = getattr(kind, name)

        def noted(self: Any, *args: Any, **options: Any) -> Any:
            if threading.current_thread().name == "job-outj":
                happened.append(name)
            return method(self, *args, **options)

        monkeypatch.setattr(kind, name, noted)

    for kind, name in ((LinkDestination, "write"), (LinkDestination, "wait"), (Route, "_complete_and_plan")):
        note(kind, name)
    inbound(gateway, broker)
    outbound(gateway, broker)
    brought = 0

    def waited() -> bool:
        nonlocal brought
        put(broker, "SRC", f"message {brought}")
        brought += 1
        eventually(lambda: gateway.job("outj")["PROPAGATED_MSGS"] == brought, what="completion")
        return ("write", "wait") in itertools.pairwise(happened)

    with gateway.run():
        eventually(waited, what="a job that waits as soon as it has sent")


def test_every_outbound_job_of_a_multi_consumer_queue_gets_its_copy(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.queue("H", multiple_consumers=True)
    outbound(gateway, broker, "all", "ALL")
    outbound(gateway, broker, "hot", "HOT", rule="tab.user_data.t > 80")
    gateway.enqueue("H", [Message(body=f'{{"t":{t}}}') for t in (70, 81, 80, 95)])
    with gateway.run():
        eventually(lambda: len(broker.queue("ALL").messages) == 4)
        eventually(lambda: len(broker.queue("HOT").messages) == 2)
    assert bodies(broker.queue("HOT").messages) == ['{"t":81}', '{"t":95}']


def test_transaction_groups_go_out_whole_and_in_order_past_one_in_other_hands(
    gateway: Gateway, broker: MemoryBroker
) -> None:
    gateway.queue("H", message_grouping="TRANSACTIONAL")
    outbound(gateway, broker, options={"MsgBatchSize": 10, "max_batch_size": 10})
    inbound(gateway, broker)
    for group, size in (("a", 3), ("b", 400), ("c", 1), ("d", 25)):
        gateway.enqueue("H", [Message(f"{group}{number}") for number in range(size)])
    expected = [f"{group}{number}" for group, size in (("b", 400), ("c", 1), ("d", 25)) for number in range(size)]
    with gateway.hub.session() as session:
        assert session.dequeue("H").message.body == "a0"
        with gateway.run():
            eventually(lambda: len(broker.queue("DST").messages) == len(expected), what="the groups that are free")
            session.rollback()
            expected += ["a0", "a1", "a2"]
            eventually(lambda: len(broker.queue("DST").messages) == len(expected), what="the one that came back")
            put(broker, "SRC", "e0", "e1")
            expected += ["e0", "e1"]
            eventually(lambda: len(broker.queue("DST").messages) == len(expected), what="a batch that came in")
            eventually(lambda: not gateway.plans("outj"), what="completion")
    assert bodies(broker.queue("DST").messages) == expected
    assert gateway.browse("H") == []


def test_an_inbound_rule_filters_and_counts(gateway: Gateway, broker: MemoryBroker) -> None:
    inbound(gateway, broker, rule="priority < 5")
    broker.put("SRC", Message(body="keep", priority=1), Message(body="drop", priority=9))
    with gateway.run():
        eventually(lambda: gateway.job("inj")["FILTERED_MSGS"] == 1)
    assert bodies(gateway.browse("H")) == ["keep"]
    assert broker.queue("SRC").messages == []


# ------------------------------------------------------------------------------------------------- failures and retry


def test_a_failing_source_is_retried_and_nothing_is_lost_or_reordered(gateway: Gateway, broker: MemoryBroker) -> None:
    inbound(gateway, broker)
    put(broker, "SRC", *texts(100))
    broker.fail_next("read", LinkUnavailable("the wire was cut", operation="read"))
    with gateway.run():
        eventually(lambda: gateway.job("inj")["FAILURES"] == 1)
        row = gateway.job("inj")
        assert (row["STATUS"], row["ACTIVITY"]) == ("RETRY", "BACKOFF")
        assert "the wire was cut" in row["LAST_ERROR_MSG"]
        eventually(lambda: gateway.job("inj")["STATUS"] == "READY", what="recovery by itself")
        eventually(lambda: len(gateway.browse("H")) == 100)
    assert bodies(gateway.browse("H")) == texts(100)


@pytest.mark.parametrize("operation", ["publish", "confirm"])
def test_a_failing_destination_gets_the_same_batches_again_in_order(
    gateway: Gateway, broker: MemoryBroker, operation: str
) -> None:
    outbound(gateway, broker)
    gateway.enqueue("H", [Message(body=text) for text in texts(200)])
    broker.fail_next(operation, LinkUnavailable("the wire was cut", operation=operation), times=2)
    with gateway.run():
        eventually(lambda: gateway.job("outj")["FAILURES"] >= 1)
        reset(gateway, "outj")
        eventually(lambda: gateway.job("outj")["PROPAGATED_MSGS"] == 200, what="200 messages completed")
    found = bodies(broker.queue("DST").messages)
    assert list(dict.fromkeys(found)) == texts(200), "first copies in order, none missing"


def test_a_reset_counts_even_if_the_job_fails_once_more_at_that_moment(gateway: Gateway, broker: MemoryBroker) -> None:
    inbound(gateway, broker, options={"retry_policy": "documented"})
    put(broker, "SRC", "one")
    broker.fail_next("read", LinkUnavailable("the wire was cut", operation="read"))
    with gateway.run() as running:
        eventually(lambda: gateway.job("inj")["FAILURES"] == 1)
        (runner,) = running.agent._runners.values()
        runner._setbacks._faults = 9  # the next delay would be 17 minutes
        broker.fail_next("connect", LinkUnavailable("not yet", operation="connect"))
        eventually(lambda: gateway.job("inj")["FAILURES"] == 10)
        gateway.admin.reset_job("inj")
        with gateway.hub.write() as conn:  # as if a failing attempt had written its result just after the reset
            conn.execute(sa.text("UPDATE gw_job_state SET status = 'RETRY', failures = 11"))
        eventually(lambda: bodies(gateway.browse("H")) == ["one"])


def test_a_hub_queue_that_is_stopped_makes_the_job_wait_and_the_messages_stay(
    gateway: Gateway, broker: MemoryBroker
) -> None:
    inbound(gateway, broker)
    gateway.queues.stop_queue("H", enqueue=True, dequeue=False)
    put(broker, "SRC", "patient")
    with gateway.run():
        eventually(lambda: gateway.job("inj")["STATUS"] == "RETRY")
        assert bodies(broker.queue("SRC").messages) == ["patient"]
        gateway.queues.start_queue("H")
        reset(gateway, "inj")
        eventually(lambda: bodies(gateway.browse("H")) == ["patient"])


def test_a_stop_of_the_source_waits_for_what_is_on_its_way_and_it_arrives_once(
    gateway: Gateway, broker: MemoryBroker
) -> None:
    outbound(gateway, broker, options={"MsgBatchSize": "2", "max_batch_size": "2"})
    gateway.enqueue("H", [Message(body=text) for text in texts(5)])
    broker.hold_confirms = True
    with gateway.run():
        eventually(lambda: len(broker.queue("DST").messages) == 5)
        stopping = threading.Thread(target=gateway.queues.stop_queue, args=("H",))
        stopping.start()
        eventually(lambda: _dequeue_enabled(gateway) != 1, what="a stop under way")
        broker.hold_confirms = False
        stopping.join(30)
        assert not stopping.is_alive()
        assert gateway.plans("outj") == []
        assert gateway.job("outj")["PROPAGATED_MSGS"] == 5
    assert bodies(broker.queue("DST").messages) == texts(5)


def _dequeue_enabled(gateway: Gateway) -> int:
    with gateway.hub.read() as conn:
        enabled: int = conn.execute(
            sa.text("SELECT dequeue_enabled FROM aq_queue WHERE name_key = 'MGW.H'")
        ).scalar_one()
    return enabled


def test_an_access_error_never_uses_the_exception_queue(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.queue("BAD")
    outbound(gateway, broker, exception_queue="BAD")
    broker.delete("DST")
    gateway.enqueue("H", [Message(body="stay")])
    with gateway.run():
        eventually(lambda: gateway.job("outj")["STATUS"] == "RETRY")
    assert gateway.browse("BAD") == []
    broker.queue("DST")
    with gateway.run():
        eventually(lambda: bodies(broker.queue("DST").messages) == ["stay"])


def test_an_agent_start_revives_a_failed_job(gateway: Gateway, broker: MemoryBroker) -> None:
    inbound(gateway, broker)
    with gateway.hub.write() as conn:
        conn.execute(sa.text("UPDATE gw_job_state SET status = 'FAILED', failures = 16"))
    put(broker, "SRC", "hello")
    with gateway.run():
        eventually(lambda: bodies(gateway.browse("H")) == ["hello"])
    row = gateway.job("inj")
    assert (row["STATUS"], row["FAILURES"]) == ("READY", 0)


# ----------------------------------------------------------------------------------------------------- exception queues


def test_poison_goes_to_the_foreign_exception_queue_with_its_reason(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.queue("J", queue_payload_type="JSON")
    broker.queue("BAD")
    gateway.admin.register_foreign_queue("BAD", "mem")
    inbound(gateway, broker, destination="J", exception_queue="BAD@mem")
    put(broker, "SRC", '{"n":1}', "no json", '{"n":2}')
    with gateway.run():
        eventually(lambda: gateway.job("inj")["EXCEPTIONQ_MSGS"] == 1)
        eventually(lambda: gateway.job("inj")["PROPAGATED_MSGS"] == 2)
    (bad,) = broker.queue("BAD").messages
    assert bad.body == "no json"
    assert "J" in str(bad.header("MGW_error")) or "JSON" in str(bad.header("MGW_error"))
    assert bad.header("MGW_error_job") == "inj"
    assert len(gateway.browse("J")) == 2
    row = gateway.job("inj")
    assert (row["FAILURES"], row["STATUS"]) == (0, "READY")
    assert broker.queue("SRC").messages == []


def test_poison_without_exception_queue_blocks_what_is_behind_it_but_not_what_is_before(
    gateway: Gateway, broker: MemoryBroker
) -> None:
    gateway.queue("J", queue_payload_type="JSON")
    inbound(gateway, broker, destination="J")
    put(broker, "SRC", '{"n":1}', '{"n":2}', "poison", '{"n":3}')
    with gateway.run():
        eventually(lambda: gateway.job("inj")["STATUS"] == "RETRY")
        eventually(lambda: len(gateway.browse("J")) == 2, what="the two messages before the poison")
        eventually(lambda: gateway.job("inj")["FAILURES"] >= 2)
    assert bodies(broker.queue("SRC").messages) == ["poison", '{"n":3}']
    told = gateway.job("inj")["LAST_ERROR_MSG"]
    assert told.startswith("[724] message SRC@"), told
    assert told.count("message SRC@") == 1, "each attempt names it once"
    assert "put such messages aside: mgw jobs alter inj --exception-queue QUEUE@mem" in told


def test_outbound_poison_goes_to_the_hub_exception_queue_with_its_reason(
    gateway: Gateway, broker: MemoryBroker
) -> None:
    gateway.queue("BAD")
    gateway.admin.create_transformation(
        "celsius", "BASIC", "BASIC", {"set": {"body.celsius": "(tab.user_data.f - 32) / 1.8"}}
    )
    outbound(gateway, broker, transformation="celsius", exception_queue="BAD")
    gateway.enqueue("H", [Message(body='{"f":212}'), Message(body='{"f":"hot"}'), Message(body='{"f":32}')])
    with gateway.run():
        eventually(lambda: gateway.job("outj")["EXCEPTIONQ_MSGS"] == 1)
        eventually(lambda: len(broker.queue("DST").messages) == 2)
    (bad,) = gateway.browse("BAD")
    assert bad.body == '{"f":"hot"}'
    assert bad.original_msgid is not None
    assert "celsius" in str(bad.header("MGW_error"))
    assert gateway.browse("H") == []


def test_objects_and_anydata_go_out_as_json_and_come_in_checked(gateway: Gateway, broker: MemoryBroker) -> None:
    queues = QueueAdmin(gateway.hub)
    queues.create_type("oe.point", {"x": "NUMBER", "seen": "DATE"})
    gateway.queue("POINTS", queue_payload_type="OE.POINT")
    gateway.queue("OUT", queue_payload_type="ANYDATA")
    queues.create_transformation("to_point", "JSON", "OE.POINT", "oe.point(source.user_data.a, '2026-11-20')")
    broker.queue("BADIN")
    gateway.admin.register_foreign_queue("BADIN", "mem")
    inbound(gateway, broker, destination="POINTS", transformation="to_point", exception_queue="BADIN@mem")
    outbound(gateway, broker, source="OUT")
    put(broker, "SRC", '{"a":1.50}', '{"a":"hot"}')
    point = {"x": Decimal("2.5"), "seen": datetime(2026, 11, 20, 8)}
    gateway.enqueue(
        "OUT", [Message(body=wrap("text")), Message(body=wrap(point, "oe.point")), Message(body=wrap(b"r"))]
    )
    with gateway.run():
        eventually(lambda: gateway.job("inj")["EXCEPTIONQ_MSGS"] == 1)
        eventually(lambda: len(broker.queue("DST").messages) == 3)
    (stored,) = gateway.browse("POINTS")
    assert stored.body == ObjectValue("OE.POINT", {"x": Decimal("1.5"), "seen": datetime(2026, 11, 20)})
    assert bodies(broker.queue("DST").messages) == ["text", '{"x":2.5,"seen":"2026-11-20T08:00:00"}', b"r"]


def test_outbound_poison_without_exception_queue_returns_to_its_place(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.admin.create_transformation("c", "BASIC", "BASIC", {"set": {"body.c": "tab.user_data.f - 32"}})
    outbound(gateway, broker, transformation="c")
    gateway.enqueue("H", [Message(body=body) for body in ('{"f":1}', '{"f":2}', '{"f":"x"}', '{"f":3}')])
    with gateway.run():
        eventually(lambda: gateway.job("outj")["STATUS"] == "RETRY")
        eventually(lambda: len(broker.queue("DST").messages) == 2, what="the two messages before the poison")
    poison, behind = gateway.browse("H")
    assert [poison.body, behind.body] == ['{"f":"x"}', '{"f":3}']
    assert poison.msgid is not None
    told = gateway.job("outj")["LAST_ERROR_MSG"]
    assert told.lower().count(poison.msgid.hex()) == 1, told
    assert told.endswith("put such messages aside: mgw jobs alter outj --exception-queue QUEUE")
    assert gateway.plans("outj") == []


def test_a_rule_that_fails_on_one_message_sends_that_one_to_the_exception_queue(
    gateway: Gateway, broker: MemoryBroker
) -> None:
    gateway.queue("H", multiple_consumers=True)
    broker.queue("BAD")
    gateway.admin.register_foreign_queue("BAD", "mem")
    outbound(gateway, broker, "all", "ALL")
    outbound(gateway, broker, "half", "HALF", rule="10 / tab.user_data.n > 4")
    inbound(gateway, broker, exception_queue="BAD@mem")
    put(broker, "SRC", '{"n":1}', '{"n":0}', '{"n":2}')
    with gateway.run():
        eventually(lambda: len(broker.queue("ALL").messages) + len(broker.queue("BAD").messages) == 3)
    assert broker.queue("SRC").messages == []
    seen = bodies(broker.queue("ALL").messages) + bodies(broker.queue("BAD").messages)
    assert sorted(seen) == ['{"n":0}', '{"n":1}', '{"n":2}']


def test_a_rule_that_fails_where_there_is_no_exception_queue_names_message_reason_and_way_out(
    gateway: Gateway, broker: MemoryBroker
) -> None:
    gateway.queue("H", multiple_consumers=True)
    outbound(gateway, broker, "half", "HALF", rule="10 / tab.user_data.n > 4")
    inbound(gateway, broker)
    put(broker, "SRC", '{"n":1}', '{"n":0}')
    with gateway.run():
        eventually(lambda: gateway.job("inj")["LAST_ERROR_MSG"], what="the failure")
        eventually(lambda: bodies(broker.queue("SRC").messages) == ['{"n":0}'], what="the message before it")
    told = gateway.job("inj")["LAST_ERROR_MSG"]
    assert told.startswith("message SRC@1: the rule of subscriber MGW_half of queue "), told
    assert "cause: rule '10 / tab.user_data.n > 4' failed: division by zero" in told, told
    assert told.endswith("put such messages aside: mgw jobs alter inj --exception-queue QUEUE@mem")


# ------------------------------------------------------------------------------------------------ changes while it runs


def test_jobs_are_created_disabled_enabled_altered_and_removed_while_the_agent_runs(
    gateway: Gateway, broker: MemoryBroker
) -> None:
    with gateway.run() as running:
        inbound(gateway, broker)
        put(broker, "SRC", "one")
        eventually(lambda: bodies(gateway.browse("H")) == ["one"])
        gateway.admin.disable_job("inj")
        eventually(lambda: gateway.job("inj")["ACTIVITY"] == "STOPPED")
        put(broker, "SRC", "two")
        assert bodies(broker.queue("SRC").messages) == ["two"]
        gateway.admin.alter_job("inj", options={"MsgBatchSize": 5}, rule="priority < 100")
        gateway.admin.enable_job("inj")
        eventually(lambda: bodies(gateway.browse("H")) == ["one", "two"])
        gateway.admin.remove_job("inj")
        eventually(lambda: gateway.admin.get_job("inj") is None)
        put(broker, "SRC", "three")
        eventually(lambda: not running.agent._runners)
    assert bodies(broker.queue("SRC").messages) == ["three"]


def test_a_removed_outbound_job_leaves_planned_messages_ready(gateway: Gateway, broker: MemoryBroker) -> None:
    outbound(gateway, broker)
    broker.delete("DST")
    gateway.enqueue("H", [Message(body=text) for text in texts(50)])
    with gateway.run():
        eventually(lambda: gateway.job("outj")["STATUS"] == "RETRY")
        gateway.admin.remove_job("outj")
        eventually(lambda: gateway.admin.get_job("outj") is None)
    assert bodies(gateway.browse("H")) == texts(50)


def test_a_disabled_topic_job_collects_all_the_same(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.queue("H")
    broker.topic("news")
    gateway.admin.register_foreign_queue("NEWS", "mem", "news", "TOPIC")
    gateway.admin.create_job("newsj", "INBOUND", "NEWS@mem", "H", enabled=False)
    with gateway.run():
        eventually(lambda: broker.subscriptions, what="the subscription of the disabled job")
        put(broker, "news", *texts(5))
        gateway.admin.enable_job("newsj")
        eventually(lambda: len(gateway.browse("H")) == 5)
        gateway.admin.remove_job("newsj")
        eventually(lambda: not broker.subscriptions)


def test_a_second_process_of_the_agent_is_refused_and_the_first_goes_on(gateway: Gateway, broker: MemoryBroker) -> None:
    import subprocess
    import sys

    inbound(gateway, broker)
    with gateway.run():
        program = (
            "import sys; from mgw.gateway.state.gateway_hub import open_hub\n"
            "from mgw.gateway.runtime.agent import Agent; from mgw.gateway.services.daemon import PROCEDURES\n"
            "from mgw.gateway.state.secrets import Secrets; from mgw.transforms.clock import SYSTEM_CLOCK\n"
            "hub = open_hub(sys.argv[1]); secrets = Secrets.for_hub(sys.argv[1])\n"
            "try: Agent(hub, secrets, 'DEFAULT_AGENT', SYSTEM_CLOCK, PROCEDURES).acquire()\n"
            "except Exception as error: print(error); sys.exit(1)\n"
        )
        command = [sys.executable, "-c", program, gateway.url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 1, done.stderr
        assert "already running" in done.stdout
        assert "cure" in done.stdout
        put(broker, "SRC", "still here")
        eventually(lambda: bodies(gateway.browse("H")) == ["still here"])


def test_an_agent_that_lost_its_lease_stores_nothing_more(gateway: Gateway, broker: MemoryBroker) -> None:
    inbound(gateway, broker)
    running = gateway.run()
    running.__enter__()
    try:
        eventually(lambda: gateway.job("inj")["ACTIVITY"] == "IDLE" or gateway.job("inj")["GUARANTEE"])
        with gateway.hub.write() as conn:
            conn.execute(sa.text("UPDATE gw_agent SET token = token + 1"))
        put(broker, "SRC", "for the other")
        eventually(lambda: running.failure is not None, what="the loss noticed")
    finally:
        with pytest.raises(Exception, match="another process"):
            running.__exit__()
    assert gateway.browse("H") == []
    assert bodies(broker.queue("SRC").messages) == ["for the other"]


def test_counters_are_zeroed_at_agent_start_and_totals_are_not(gateway: Gateway, broker: MemoryBroker) -> None:
    inbound(gateway, broker)
    for _ in range(2):
        put(broker, "SRC", *texts(10))
        with gateway.run():
            eventually(lambda: gateway.job("inj")["PROPAGATED_MSGS"] == 10)
    with gateway.hub.read() as conn:
        assert conn.execute(sa.text("SELECT propagated_total FROM gw_job_state")).scalar() == 20


def test_required_guarantee_that_is_not_given_stops_the_job_with_the_reason(
    gateway: Gateway, broker: MemoryBroker
) -> None:
    inbound(gateway, broker)
    with gateway.hub.write() as conn:
        conn.execute(sa.text("UPDATE gw_job SET require_guarantee = 'exact'"))
    put(broker, "SRC", "stay")
    with gateway.run():
        eventually(lambda: gateway.job("inj")["STATUS"] == "RETRY")
    assert "requires exact" in gateway.job("inj")["LAST_ERROR_MSG"]
    assert bodies(broker.queue("SRC").messages) == ["stay"]


def test_positions_of_a_log_source_are_stored_with_the_messages_and_resumed(
    gateway: Gateway, broker: MemoryBroker
) -> None:
    gateway.queue("H")
    broker.log("LOG")
    gateway.admin.register_foreign_queue("LOG", "mem")
    gateway.admin.create_job("logj", "INBOUND", "LOG@mem", "H")
    put(broker, "LOG", *texts(100))
    for start in (100, 200):
        with gateway.run():
            eventually(lambda n=start: len(gateway.browse("H")) == n)
        put(broker, "LOG", *texts(100, start))
    with gateway.run():
        eventually(lambda: len(gateway.browse("H")) == 300)
    assert bodies(gateway.browse("H")) == texts(300)


# --------------------------------------------------------------------------------------------------- logs and recovery


@pytest.fixture
def logged(gateway: Gateway, broker: MemoryBroker) -> Gateway:
    """A gateway whose link ``log`` keeps a sending log."""
    gateway.admin.create_msgsystem_link("log", "MEMORY", {"broker": broker.name}, outbound_log_queue="SENT")
    gateway.queue("H")
    broker.queue("DST")
    gateway.admin.register_foreign_queue("DST", "log")
    gateway.admin.create_job("outj", "OUTBOUND", "H", "DST@log")
    return gateway


def test_a_batch_that_the_sending_log_proves_is_completed_and_not_sent_again(
    logged: Gateway, broker: MemoryBroker
) -> None:
    logged.enqueue("H", [Message(body=text) for text in texts(50)])
    broker.fail_next("confirm", LinkUnavailable("the wire was cut", operation="confirm"))
    with logged.run():
        eventually(lambda: logged.job("outj")["FAILURES"] == 1)
        reset(logged, "outj")
        eventually(lambda: logged.job("outj")["PROPAGATED_MSGS"] == 50)
    assert bodies(broker.queue("DST").messages) == texts(50), "nothing twice"
    assert logged.job("outj")["SUPPRESSED_MSGS"] > 0
    assert any("without sending them again" in text for text in logged.events())
    assert logged.plans("outj") == []


def test_a_batch_that_the_sending_log_does_not_know_is_sent_again(logged: Gateway, broker: MemoryBroker) -> None:
    logged.enqueue("H", [Message(body=text) for text in texts(50)])
    broker.fail_next("publish", LinkUnavailable("the wire was cut", operation="publish"))
    with logged.run():
        eventually(lambda: logged.job("outj")["FAILURES"] == 1)
        reset(logged, "outj")
        eventually(lambda: logged.job("outj")["PROPAGATED_MSGS"] == 50)
    assert bodies(broker.queue("DST").messages) == texts(50)


def failed(gateway: Gateway, job: str, number: str) -> None:
    eventually(lambda: gateway.job(job)["STATUS"] == "FAILED", what="FAILED at once")
    row = gateway.job(job)
    assert f"[{number}]" in row["LAST_ERROR_MSG"] or number in row["LAST_ERROR_MSG"]
    assert "cure" in row["LAST_ERROR_MSG"]


def test_a_purged_sending_log_ends_the_job_until_it_is_reset(logged: Gateway, broker: MemoryBroker) -> None:
    with logged.run():
        logged.enqueue("H", [Message(body="one")])
        eventually(lambda: logged.job("outj")["PROPAGATED_MSGS"] == 1)
    broker.sending_logs["SENT"].clear()
    logged.enqueue("H", [Message(body="two")])
    with logged.run():
        failed(logged, "outj", "417")
        assert bodies(broker.queue("DST").messages) == ["one"]
        logged.admin.cleanup_gateway("RESET_SUB_MISSING_LOG_REC", "outj")
        eventually(lambda: bodies(broker.queue("DST").messages) == ["one", "two"])


def test_a_sending_log_ahead_of_a_restored_hub_ends_the_job_before_anything_is_sent(
    logged: Gateway, broker: MemoryBroker
) -> None:
    with logged.run():
        logged.enqueue("H", [Message(body="one")])
        eventually(lambda: logged.job("outj")["PROPAGATED_MSGS"] == 1)
    broker.sending_logs["SENT"]["outj"] += 5
    logged.enqueue("H", [Message(body="two")])
    with logged.run():
        failed(logged, "outj", "416")
        assert bodies(broker.queue("DST").messages) == ["one"]
        logged.admin.cleanup_gateway("RESET_SUB_MISSING_LOG_REC", "outj")
        eventually(lambda: bodies(broker.queue("DST").messages) == ["one", "two"])
        logged.enqueue("H", [Message(body="three")])
        eventually(lambda: bodies(broker.queue("DST").messages) == ["one", "two", "three"])
    assert broker.sending_logs["SENT"]["outj"] > 6


def test_planned_messages_that_somebody_took_end_the_job_until_they_are_given_up(
    logged: Gateway, broker: MemoryBroker
) -> None:
    logged.enqueue("H", [Message(body=text) for text in texts(3)])
    broker.fail_next("publish", LinkUnavailable("cut", operation="publish"))
    with logged.run():
        eventually(lambda: logged.job("outj")["FAILURES"] == 1)
    (plan,) = logged.plans("outj")
    with logged.hub.write() as conn:
        conn.execute(sa.text("DELETE FROM aq_message WHERE id = :id"), {"id": plan.ids[1]})
    with logged.run():
        failed(logged, "outj", "415")
        assert broker.queue("DST").messages == []
        logged.admin.cleanup_gateway("RESET_SUB_MISSING_MESSAGE", "outj")
        eventually(lambda: bodies(broker.queue("DST").messages) == ["message 0", "message 2"])


def test_messages_that_somebody_took_while_they_were_sent_end_the_job_until_they_are_given_up(
    logged: Gateway, broker: MemoryBroker
) -> None:
    logged.enqueue("H", [Message(body=text) for text in texts(3)])
    broker.hold_confirms = True
    with logged.run():
        eventually(lambda: len(broker.queue("DST").messages) == 3)
        (plan,) = logged.plans("outj")
        with logged.hub.write() as conn:
            conn.execute(sa.text("DELETE FROM aq_message WHERE id = :id"), {"id": plan.ids[1]})
        broker.hold_confirms = False
        failed(logged, "outj", "415")
        assert (len(logged.plans("outj")), logged.job("outj")["PROPAGATED_TOTAL"]) == (1, 0)
        logged.admin.cleanup_gateway("RESET_SUB_MISSING_MESSAGE", "outj")
        logged.enqueue("H", [Message(body="fresh")])
        eventually(lambda: bodies(broker.queue("DST").messages) == [*texts(3), "fresh"])
        eventually(lambda: logged.plans("outj") == [])


def test_resets_leave_a_healthy_job_alone(logged: Gateway, broker: MemoryBroker) -> None:
    with logged.run():
        logged.enqueue("H", [Message(body="one")])
        eventually(lambda: logged.job("outj")["PROPAGATED_MSGS"] == 1)
        for action in ("RESET_SUB_MISSING_LOG_REC", "RESET_SUB_MISSING_MESSAGE"):
            logged.admin.cleanup_gateway(action, "outj")
        logged.enqueue("H", [Message(body="two")])
        eventually(lambda: bodies(broker.queue("DST").messages) == ["one", "two"])


def test_a_sources_unique_ids_keep_repeated_messages_out(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.queue("H")
    broker.queue("SRC")
    gateway.admin.register_foreign_queue("SRC", "mem", options={"MEMORY_UniqueIds": "TRUE"})
    gateway.admin.create_job("inj", "INBOUND", "SRC@mem", "H")
    with gateway.run():
        broker.put("SRC", *(Message(body=f"b{n}", correlation=f"id-{n % 3}") for n in range(5)))
        eventually(lambda: gateway.job("inj")["SUPPRESSED_MSGS"] == 2)
        broker.put("SRC", Message(body="again", correlation="id-1"), Message(body="new", correlation="id-9"))
        eventually(lambda: gateway.job("inj")["SUPPRESSED_MSGS"] == 3)
    assert bodies(gateway.browse("H")) == ["b0", "b1", "b2", "new"]
    assert gateway.job("inj")["PROPAGATED_MSGS"] == 4
    assert broker.queue("SRC").messages == []


def test_a_message_that_expires_while_it_is_planned_goes_where_the_plan_says(
    logged: Gateway, broker: MemoryBroker
) -> None:
    logged.enqueue("H", [Message(body="short", expiration=1.0), Message(body="long")])
    broker.hold_confirms = True
    with logged.run():
        eventually(lambda: len(broker.queue("DST").messages) == 2)
        broker.cut()
        eventually(lambda: logged.job("outj")["FAILURES"] == 1)
        broker.hold_confirms = False
        reset(logged, "outj")
        eventually(lambda: logged.job("outj")["PROPAGATED_MSGS"] == 2)
    assert bodies(broker.queue("DST").messages) == ["short", "long"]
    assert logged.browse("H") == []


# ------------------------------------------------------------------------------------- reading while the hub commits


def test_an_inbound_job_reads_on_while_the_hub_commits_and_settles_in_order(
    gateway: Gateway, broker: MemoryBroker
) -> None:
    inbound(gateway, broker, options={"MsgBatchSize": "10", "max_batch_size": "10"})
    with gateway.run():
        eventually(lambda: gateway.job("inj")["ACTIVITY"] == "IDLE")
        with gateway.hub.write():  # SQLite has one writer: no batch can be stored
            put(broker, "SRC", *texts(200))
            eventually(lambda: broker.queue("SRC").ready == 200 - 10 * (1 + AHEAD), what="batches that are read ahead")
            assert len(broker.queue("SRC").messages) == 200, "nothing is settled before it is stored"
        eventually(lambda: gateway.job("inj")["PROPAGATED_MSGS"] == 200)
    assert bodies(gateway.browse("H")) == texts(200)
    assert broker.queue("SRC").messages == []


@pytest.mark.parametrize("alone", [False, True])
def test_what_waits_for_a_commit_is_stored_together_unless_its_log_forbids_it(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    inbound(gateway, broker, options={"MsgBatchSize": "10", "max_batch_size": "10"})
    real_store, real_read, together = WindowedRoute._store, LinkSource.read, []

    def store(self: WindowedRoute, batches: Any) -> Any:
        together.append(len(batches))
        return real_store(self, batches)

    def read(self: LinkSource, limit: int, wait: float) -> Any:
        received = real_read(self, limit, wait)
        if received is not None:
            received.batch = received.batch._replace(alone=alone)
        return received

    monkeypatch.setattr(WindowedRoute, "_store", store)
    monkeypatch.setattr(LinkSource, "read", read)
    with gateway.run():
        eventually(lambda: gateway.job("inj")["ACTIVITY"] == "IDLE")
        with gateway.hub.write():
            put(broker, "SRC", *texts(200))
            eventually(lambda: broker.queue("SRC").ready == 200 - 10 * (1 + AHEAD), what="batches that are read ahead")
        eventually(lambda: gateway.job("inj")["PROPAGATED_MSGS"] == 200)
    assert max(together) == (1 if alone else AHEAD)
    assert bodies(gateway.browse("H")) == texts(200)
    assert broker.queue("SRC").messages == []


@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_when_a_commit_fails_nothing_read_ahead_is_lost_or_stored_twice(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    inbound(gateway, broker, options={"MsgBatchSize": "10", "max_batch_size": "10"})
    put(broker, "SRC", *texts(100))
    real, left = WindowedRoute._store, [at]

    def failing(self: WindowedRoute, batch: Any) -> Any:
        left[0] -= 1
        if not left[0]:
            raise HubUnavailable("the hub was away for a moment")
        return real(self, batch)

    monkeypatch.setattr(WindowedRoute, "_store", failing)
    with gateway.run():
        eventually(lambda: gateway.job("inj")["PROPAGATED_MSGS"] == 100, deadline=40)
    assert bodies(gateway.browse("H")) == texts(100)
    assert broker.queue("SRC").messages == []


def test_a_message_that_the_hub_refuses_in_a_batch_read_ahead_is_set_aside_alone(
    gateway: Gateway, broker: MemoryBroker
) -> None:
    gateway.queue("H", queue_payload_type="JSON")
    broker.queue("BADIN")
    gateway.admin.register_foreign_queue("BADIN", "mem")
    inbound(gateway, broker, options={"MsgBatchSize": "10", "max_batch_size": "10"}, exception_queue="BADIN@mem")
    put(broker, "SRC", *(f'{{"n":{n}}}' if n % 17 else "no json" for n in range(100)))
    with gateway.run():
        eventually(lambda: gateway.job("inj")["PROPAGATED_MSGS"] == 94)
    assert len(gateway.browse("H")) == 94
    assert len(broker.queue("BADIN").messages) == 6
    assert broker.queue("SRC").messages == []
