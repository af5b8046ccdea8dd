"""What an agent does when the hub, a broker or a message fails at a bad moment."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pika
import pytest
import sqlalchemy as sa

from mgw.gateway.definitions.objects import DEFAULT_AGENT, Activity, AgentStatus
from mgw.gateway.ledger import check
from mgw.gateway.runtime.agent import Agent
from mgw.gateway.runtime.ends.hub_source import HubSource
from mgw.gateway.runtime.in_flight import Flight
from mgw.gateway.services.daemon import PROCEDURES
from mgw.gateway.state import catalog, lease, run_state
from mgw.links.contract import Batch, Encoded
from mgw.links.memory.broker import MemoryBroker
from mgw.links.memory.destination import MemoryDestination
from mgw.links.memory.source import MemorySource
from mgw.transforms.clock import SYSTEM_CLOCK
from mgw.transforms.errors import HubUnavailable, LinkUnavailable, PositionLost
from mgw.transforms.message import Message
from tests.conformance.test_engine import bodies, inbound, outbound, put, texts
from tests.support.brokers import Kafka, RabbitMQ
from tests.support.gateways import Gateway, gateway_on, supervised
from tests.support.kafka_clients import KafkaProducer
from tests.support.waiting import eventually


@pytest.fixture
def broker() -> Iterator[MemoryBroker]:
    yield MemoryBroker.get("failures")
    MemoryBroker.drop("failures")


@pytest.fixture
def gateway(tmp_path: Path, broker: MemoryBroker) -> Iterator[Gateway]:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
        yield gateway


def fail_once(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[str]:
    """Let the next call of ``owner.name`` meet a hub that is away; the list tells whether it came."""
    real, met = getattr(owner, name), list[str]()

    def failing(*arguments: Any, **named: Any) -> Any:
        if not met:
            met.append(name)
            raise HubUnavailable("the hub is away", cause="test")
        return real(*arguments, **named)

    monkeypatch.setattr(owner, name, failing)
    return met


def test_a_refused_message_is_told_from_known_ones_in_its_batch(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.queue("H", multiple_consumers=True)
    broker.queue("SRC")
    broker.queue("BAD")
    gateway.admin.register_foreign_queue("SRC", "mem", options={"MEMORY_UniqueIds": "TRUE"})
    gateway.admin.register_foreign_queue("BAD", "mem")
    outbound(gateway, broker, "all", "ALL")
    outbound(gateway, broker, "half", "HALF", rule="10 / tab.user_data.n > 4")
    gateway.admin.create_job("inj", "INBOUND", "SRC@mem", "H", exception_queue="BAD@mem")
    with gateway.run():
        broker.put("SRC", Message(body='{"n":1}', correlation="id-1"))
        eventually(lambda: bodies(broker.queue("ALL").messages) == ['{"n":1}'])
        broker.put(
            "SRC",
            Message(body='{"n":1}', correlation="id-1"),
            Message(body='{"n":2}', correlation="id-2"),
            Message(body='{"n":0}', correlation="id-3"),
        )
        eventually(lambda: broker.queue("SRC").messages == [], what="all settled")
        eventually(lambda: gateway.job("all")["PROPAGATED_MSGS"] + gateway.job("inj")["EXCEPTIONQ_MSGS"] >= 3)
    assert bodies(broker.queue("BAD").messages) == ['{"n":0}']
    assert bodies(broker.queue("ALL").messages) == ['{"n":1}', '{"n":2}']
    assert gateway.job("inj")["SUPPRESSED_MSGS"] == 1


def test_a_refused_message_that_goes_back_to_its_source_is_not_taken_for_known(
    gateway: Gateway, broker: MemoryBroker
) -> None:
    """It comes again under its id, when what refused it is mended."""
    broker.queue("SRC")
    broker.queue("BAD")
    gateway.queue("H")
    gateway.admin.register_foreign_queue("SRC", "mem", options={"MEMORY_UniqueIds": "TRUE"})
    gateway.admin.register_foreign_queue("BAD", "mem")
    gateway.admin.create_transformation("c", "BASIC", "BASIC", {"set": {"body.c": "tab.user_data.f - 32"}})
    gateway.admin.create_job("inj", "INBOUND", "SRC@mem", "H", exception_queue="BAD@mem", transformation="c")
    message = Message(body="no json", correlation="id-1")
    with gateway.run():
        broker.put("SRC", Message(body='{"f":50}', correlation="id-0"), message)
        eventually(lambda: gateway.job("inj")["EXCEPTIONQ_MSGS"] == 1)
    gateway.admin.alter_transformation("c", definition={"set": {"priority": "3"}})
    with gateway.run():
        broker.put("SRC", message, Message(body='{"f":50}', correlation="id-0"))
        eventually(lambda: broker.queue("SRC").messages == [], what="all settled")
        eventually(lambda: gateway.job("inj")["PROPAGATED_TOTAL"] == 2)
    assert sorted(bodies(gateway.browse("H"))) == ["no json", '{"f":50,"c":18}']


def test_a_message_refused_in_a_plan_that_was_sent_is_not_taken_for_sent_by_another_transformation(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sending log proves the plan, of which the refused message was no part when it was sent."""
    for name in ("Q", "BAD"):
        gateway.queue(name)
    broker.queue("DST")
    gateway.admin.alter_msgsystem_link("mem", {"outbound_log_queue": "SENT"})
    gateway.admin.register_foreign_queue("DST", "mem")
    gateway.admin.create_transformation("c", "BASIC", "BASIC", {"set": {"body.c": "tab.user_data.f - 32"}})
    gateway.admin.create_job("out", "OUTBOUND", "Q", "DST@mem", exception_queue="BAD", transformation="c")
    gateway.enqueue("Q", [Message(body=body) for body in ('{"f":50}', "no json", '{"f":41}')])

    real = HubSource.complete

    def away(source: HubSource, conn: sa.Connection, finished: Sequence[Flight], *more: Any) -> None:
        if any(flight.consumed for flight in finished):
            raise HubUnavailable("the hub is away", cause="test")
        real(source, conn, finished, *more)

    with monkeypatch.context() as patch:
        patch.setattr(HubSource, "complete", away)
        with gateway.run():
            eventually(lambda: len(broker.queue("DST").messages) == 2)
            eventually(lambda: "the hub is away" in str(gateway.job("out")["LAST_ERROR_MSG"]))
    assert gateway.plans("out") != []
    gateway.admin.alter_transformation("c", definition={"set": {"priority": "3"}})
    with gateway.run():
        eventually(lambda: gateway.plans("out") == [])
    assert bodies(gateway.browse("BAD")) == ["no json"]
    assert bodies(broker.queue("DST").messages) == ['{"f":50,"c":18}', '{"f":41,"c":9}']
    assert (gateway.job("out")["PROPAGATED_TOTAL"], gateway.job("out")["EXCEPTIONQ_TOTAL"]) == (2, 1)
    (job,) = gateway.admin.list_jobs()
    with gateway.hub.read() as conn:
        assert check.reconcile(conn, job, gateway.hub.hub_id).offences == []


def test_a_job_starts_though_the_hub_is_away_when_its_thread_begins(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbound(gateway, broker)
    put(broker, "SRC", "one")
    met = fail_once(monkeypatch, run_state, "job_row")
    with gateway.run():
        eventually(lambda: bodies(gateway.browse("H")) == ["one"])
    assert met


def test_a_job_whose_final_failure_cannot_be_recorded_does_not_vanish(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbound(gateway, broker)
    put(broker, "SRC", "one")
    met = fail_once(monkeypatch, run_state, "record_failure")
    broker.fail_next("connect", PositionLost("gone", operation="connect", number=415), times=2)
    with gateway.run():
        eventually(lambda: gateway.job("inj")["STATUS"] == "FAILED", what="the failure recorded at the second attempt")
    assert met


def test_a_change_that_a_failing_hub_interrupted_is_taken_over_later(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent(gateway.hub, gateway.secrets, DEFAULT_AGENT, SYSTEM_CLOCK, PROCEDURES)
    agent.acquire()
    agent.start()
    try:
        inbound(gateway, broker)
        put(broker, "SRC", "one")
        fail_once(monkeypatch, agent, "_wanted")
        with pytest.raises(HubUnavailable):
            agent.refresh()
        agent.refresh()
        eventually(lambda: bodies(gateway.browse("H")) == ["one"])
    finally:
        agent.stop(seconds=20, status=AgentStatus.NOT_STARTED)


def test_a_job_that_waits_for_its_broker_keeps_no_other_job_waiting(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.admin.alter_agent(max_threads=1)
    gateway.queue("SLOW_H")
    gateway.queue("H")
    outbound(gateway, broker, source="SLOW_H")
    inbound(gateway, broker)
    blocked, go_on = threading.Event(), threading.Event()
    publish = MemoryDestination.publish

    def slow(self: MemoryDestination, sequence: int, messages: Sequence[Encoded]) -> None:
        blocked.set()
        go_on.wait(60)
        publish(self, sequence, messages)

    monkeypatch.setattr(MemoryDestination, "publish", slow)
    gateway.enqueue("SLOW_H", [Message(body="slow")])
    with gateway.run():
        try:
            assert blocked.wait(10)
            put(broker, "SRC", "quick")
            eventually(lambda: bodies(gateway.browse("H")) == ["quick"], what="the other job's message")
        finally:
            go_on.set()


def test_a_stopping_job_plans_nothing_new(gateway: Gateway, broker: MemoryBroker) -> None:
    outbound(gateway, broker, options={"MsgBatchSize": 1, "max_batch_size": 1})
    gateway.enqueue("H", [Message(body=text) for text in texts(1000)])
    with gateway.run():
        eventually(lambda: len(broker.queue("DST").messages) > 20)
    assert gateway.plans("outj") == []
    assert len(broker.queue("DST").messages) + len(gateway.browse("H")) == 1000


def test_batches_before_one_that_cannot_be_converted_are_sent_again_once_only(
    gateway: Gateway, broker: MemoryBroker
) -> None:
    gateway.admin.create_transformation("c", "BASIC", "BASIC", {"set": {"body.c": "tab.user_data.f - 32"}})
    outbound(gateway, broker, transformation="c", options={"MsgBatchSize": 2, "max_batch_size": 2})
    gateway.enqueue("H", [Message(body=body) for body in ('{"f":1}', '{"f":2}', '{"f":"x"}', '{"f":3}')])
    broker.fail_next("publish", LinkUnavailable("the wire was cut", operation="publish"))
    with gateway.run():
        eventually(lambda: gateway.job("outj")["FAILURES"] >= 3, what="three failures")
    assert len(broker.queue("DST").messages) == 2


def test_a_message_split_in_two_that_nobody_wants_counts_once(gateway: Gateway, broker: MemoryBroker) -> None:
    module = "tests.support.transform_samples"
    gateway.queue("H", multiple_consumers=True)
    gateway.queues.add_subscriber("H", "NEVER", rule="priority > 90")
    gateway.admin.create_transformation("two", "BASIC", "BASIC", {"function": f"{module}:twice"})
    inbound(gateway, broker, transformation="two")
    put(broker, "SRC", "a", "b")
    with gateway.run(modules=(module,)):
        eventually(lambda: gateway.job("inj")["DISCARDED_MSGS"])
        eventually(lambda: broker.queue("SRC").messages == [])
    row = gateway.job("inj")
    assert (row["PROPAGATED_MSGS"], row["DISCARDED_MSGS"]) == (0, 2)


def test_a_disabled_topic_job_is_subscribed_though_its_broker_was_away_at_first(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mgw.gateway.runtime.idle_jobs.CHORE_SECONDS", 0.2)
    gateway.queue("H")
    broker.topic("news")
    gateway.admin.register_foreign_queue("T", "mem", "news", "TOPIC")
    broker.fail_next("connect", LinkUnavailable("away", operation="connect"), times=2)
    gateway.admin.create_job("inj", "INBOUND", "T@mem", "H", enabled=False)
    with gateway.run():
        eventually(lambda: broker.subscriptions, what="the subscription")


def test_a_definition_that_cannot_be_read_stops_no_running_job(
    gateway: Gateway, broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    inbound(gateway, broker)
    gateway.admin.create_msgsystem_link("other", "MEMORY", {"broker": broker.name}, username="u", password="p")
    put(broker, "SRC", "one")
    with supervised(gateway) as ended:
        eventually(lambda: bodies(gateway.browse("H")) == ["one"])
        with gateway.hub.write() as conn:
            conn.execute(sa.text("UPDATE gw_link SET password = 'of another key' WHERE name = 'other'"))
        gateway.admin.register_foreign_queue("X", "mem")
        eventually(lambda: "cannot be decrypted" in caplog.text or ended)
        put(broker, "SRC", "two")
        eventually(lambda: bodies(gateway.browse("H")) == ["one", "two"])
        assert ended == []
    assert caplog.text.count("not applied") == 1


def test_counters_since_agent_start_begin_at_zero(gateway: Gateway, broker: MemoryBroker) -> None:
    inbound(gateway, broker)
    job = gateway.admin.get_job("inj")
    assert job is not None
    with gateway.hub.write() as conn:
        run_state.count(conn, job.id, run_state.Counts(1, 2, 3, 4, 5), now=0.0)
    with gateway.run():
        eventually(lambda: gateway.job("inj")["GUARANTEE"])
    row = gateway.job("inj")
    since_start = ("PROPAGATED_MSGS", "EXCEPTIONQ_MSGS", "FILTERED_MSGS", "DISCARDED_MSGS", "SUPPRESSED_MSGS")
    assert [row[name] for name in since_start] == [0] * 5
    assert row["SUPPRESSED_TOTAL"] == 5


def test_a_start_that_a_failing_hub_interrupted_is_tried_again(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbound(gateway, broker)
    with supervised(gateway) as ended:
        eventually(lambda: gateway.job("inj")["GUARANTEE"])
        gateway.admin.shutdown()
        eventually(lambda: agent_status(gateway) is AgentStatus.NOT_STARTED)
        met = fail_once(monkeypatch, run_state, "reset_counters")
        gateway.admin.startup()
        put(broker, "SRC", "one")
        eventually(lambda: bodies(gateway.browse("H")) == ["one"] or ended)
        assert (met, ended) == (["reset_counters"], [])


def agent_status(gateway: Gateway) -> AgentStatus | None:
    with gateway.hub.read() as conn:
        row = lease.agent_row(conn, DEFAULT_AGENT)
    return row.status if row is not None else None


def test_no_second_thread_of_a_job_begins_beside_one_that_does_not_end(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mgw.gateway.runtime.agent.END_SECONDS", 0.1)
    outbound(gateway, broker)
    blocked, go_on = threading.Event(), threading.Event()
    publish = MemoryDestination.publish

    def slow(self: MemoryDestination, sequence: int, messages: Sequence[Encoded]) -> None:
        blocked.set()
        go_on.wait(60)
        publish(self, sequence, messages)

    def threads() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "job-outj"]

    monkeypatch.setattr(MemoryDestination, "publish", slow)
    gateway.enqueue("H", [Message(body="one")])
    eventually(lambda: not threads(), what="the end of threads of tests before")
    with gateway.run() as running:
        try:
            assert blocked.wait(10)
            (old,) = threads()
            gateway.admin.alter_job("outj", options={"MsgBatchSize": 7})
            eventually(lambda: running.agent._leaving, what="the thread found not to end")
            gateway.admin.alter_job("outj", options={"MsgBatchSize": 8})
            eventually(lambda: running.agent._snapshot and running.agent._snapshot.version == version(gateway))
            assert threads() == [old]
        finally:
            go_on.set()
        eventually(lambda: threads() not in ([], [old]), what="the new thread")
        gateway.enqueue("H", [Message(body="two")])
        eventually(lambda: bodies(broker.queue("DST").messages) == ["one", "two"])


def version(gateway: Gateway) -> int:
    with gateway.hub.read() as conn:
        return catalog.change_version(conn)


def test_a_stream_goes_on_after_a_reconnect_though_one_message_at_a_time_is_sent_ahead(
    gateway: Gateway, rabbitmq: RabbitMQ
) -> None:
    connection = pika.BlockingConnection(pika.ConnectionParameters(rabbitmq.host, rabbitmq.port))
    try:
        channel = connection.channel()
        channel.queue_declare("slow_stream", durable=True, arguments={"x-queue-type": "stream"})
        place = {"hostname": rabbitmq.host, "port": rabbitmq.port}
        gateway.admin.create_msgsystem_link("rmq", "RABBITMQ", place, username="guest", password="guest")
        options = {"AMQP_Prefetch": "1", "AMQP_QueueType": "stream"}
        gateway.admin.register_foreign_queue("S", "rmq", provider_queue="slow_stream", options=options)
        gateway.queue("H")
        gateway.admin.create_job("inj", "INBOUND", "S@rmq", "H")
        for number in (1, 2):
            channel.basic_publish("", "slow_stream", b"message")
            with gateway.run():
                eventually(lambda: len(gateway.browse("H")) >= number, what=f"message {number}")  # noqa: B023
    finally:
        connection.close()


# ----------------------------------------------------------------------------------------- failures in a row, waiting


def states(gateway: Gateway) -> tuple[str, str, int]:
    row = gateway.job("inj")
    return row["STATUS"], row["ACTIVITY"], row["FAILURES"]


def test_a_job_whose_kafka_topic_is_read_and_whose_hub_queue_is_stopped_fails_for_good(
    tmp_path: Path, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first look after a connect finds nothing: that is no recovery."""
    monkeypatch.setattr("mgw.gateway.runtime.retry.MAX_DELAY", 0.01)
    topic = f"t{uuid.uuid4().hex[:8]}"
    kafka.create_topic(topic)
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        gateway.queue("H")
        gateway.queues.stop_queue("H", enqueue=True, dequeue=False)
        gateway.admin.create_msgsystem_link("kf", "KAFKA", {"bootstrap_servers": kafka.bootstrap})
        gateway.admin.register_foreign_queue("T", "kf", topic, options={"KAFKA_StartAt": "earliest"})
        with KafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
            producer.send(topic, b"one").get(20)
        gateway.admin.create_job("inj", "INBOUND", "T@kf", "H")
        with gateway.run():
            eventually(lambda: gateway.job("inj")["STATUS"] == "FAILED", deadline=60, what="the job given up")
        row = gateway.job("inj")
        assert (row["FAILURES"], row["NEXT_ATTEMPT"]) == (16, None)
        assert "not enabled" in row["LAST_ERROR_MSG"]
        told = [text for text in gateway.events() if "next attempt" in text]
        assert [f"failure {number}," in text for number, text in enumerate(told, 1)] == [True] * 15


def test_a_broker_that_is_away_for_long_never_ends_a_job_unless_the_policy_is_the_documented_one(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mgw.gateway.runtime.retry.MAX_AWAY_DELAY", 0.01)
    monkeypatch.setattr("mgw.gateway.runtime.retry.MAX_DELAY", 0.01)
    inbound(gateway, broker)
    inbound(gateway, broker, "doc", "SRC2", options={"retry_policy": "documented"})
    broker.refuse_connections = True
    with gateway.run():
        eventually(lambda: gateway.job("doc")["STATUS"] == "FAILED", what="the documented end")
        assert gateway.job("doc")["FAILURES"] == 16
        eventually(lambda: gateway.job("inj")["FAILURES"] > 20, what="more failures than sixteen")
        put(broker, "SRC", "one")
        broker.refuse_connections = False
        eventually(lambda: bodies(gateway.browse("H")) == ["one"])
        eventually(lambda: states(gateway)[::2] == ("READY", 0))


def test_a_job_that_waits_for_its_next_attempt_is_not_stuck(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mgw.gateway.runtime.stuck.STUCK_SECONDS", 0.1)
    inbound(gateway, broker)
    broker.refuse_connections = True
    with gateway.run():
        eventually(lambda: gateway.job("inj")["FAILURES"] == 2, what="a delay of 4 s after one of 2 s")
        assert states(gateway)[:2] == ("RETRY", "BACKOFF")
        assert not any("moved nothing" in text for text in gateway.events())


def test_a_job_that_was_stuck_and_goes_on_does_not_stay_stuck_in_the_views(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mgw.gateway.runtime.job_runner.SAMPLE_SECONDS", 0.1)
    inbound(gateway, broker)
    blocked, go_on = threading.Event(), threading.Event()
    read = MemorySource.read

    def slow(self: MemorySource, max_messages: int, wait: float) -> Batch:
        if blocked.is_set():
            go_on.wait(20)
        return read(self, max_messages, wait)

    monkeypatch.setattr(MemorySource, "read", slow)
    with gateway.run():
        eventually(lambda: states(gateway)[1] == "IDLE")
        monkeypatch.setattr("mgw.gateway.runtime.stuck.STUCK_SECONDS", 0.2)
        blocked.set()
        eventually(lambda: states(gateway)[1] == "STUCK", what="the thread found not to come back")
        told = "its thread is blocked in the client library"
        eventually(lambda: any(told in text for text in gateway.events()), what="the event")
        monkeypatch.setattr("mgw.gateway.runtime.stuck.STUCK_SECONDS", 180.0)
        go_on.set()
        eventually(lambda: states(gateway)[1] == "IDLE", what="the job shown as it is")


def test_stuck_jobs_are_shown_in_one_transaction_which_fails_once_and_never_after_they_stopped(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbound(gateway, broker, options={"stuck_after": 1}, poll_interval=0.1)
    inbound(gateway, broker, "two", "SRC2", options={"stuck_after": 1}, poll_interval=0.1)
    blocked, away, go_on = threading.Event(), threading.Event(), threading.Event()
    read, set_activity, seen = MemorySource.read, run_state.set_activity, list[tuple[int, sa.Connection]]()

    def slow(self: MemorySource, max_messages: int, wait: float) -> Batch:
        if blocked.is_set():
            go_on.wait(60)
        return read(self, max_messages, wait)

    def watched(conn: sa.Connection, job_id: int, activity: Activity, **named: Any) -> Any:
        if activity is Activity.STUCK:
            seen.append((job_id, conn))
            if away.is_set():
                raise HubUnavailable("the hub is away", cause="test")
        return set_activity(conn, job_id, activity, **named)

    monkeypatch.setattr(MemorySource, "read", slow)
    monkeypatch.setattr(run_state, "set_activity", watched)
    activities = [lambda name=name: gateway.job(name)["ACTIVITY"] for name in ("inj", "two")]
    with gateway.run():
        eventually(lambda: [activity() for activity in activities] == ["IDLE"] * 2, what="both at work")
        away.set()
        blocked.set()
        eventually(lambda: len(seen) > 9, what="rounds in vain")
        assert len({job_id for job_id, _ in seen[-3:]}) == 1, "a round ends at the first error"
        away.clear()
        eventually(lambda: [activity() for activity in activities] == ["STUCK"] * 2, what="both shown")
        assert seen[-1][1] is seen[-2][1], "one transaction"
        go_on.set()
    assert [activity() for activity in activities] == ["STOPPED"] * 2
    with gateway.hub.write() as conn:
        assert not set_activity(conn, seen[0][0], Activity.STUCK, now=0, unless_stopped=True)
