"""What jobs measure, as `/metrics` shows it: of a supervisor with an in-memory broker, on both databases."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from mgw.gateway.aq import time_manager
from mgw.gateway.http.metrics import METRICS, exposition
from mgw.gateway.runtime.supervisor import RunOptions, Supervisor
from mgw.gateway.services.daemon import PROCEDURES
from mgw.gateway.services.probes import Probes
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.errors import LinkUnavailable
from mgw.transforms.message import Header, Message, ValueType
from tests.cli.conftest import Mgw
from tests.conformance.link_suite import unique
from tests.conformance.test_engine import inbound, outbound
from tests.conformance.test_http import answering, ask, mgw
from tests.support.brokers import PostgreSQL
from tests.support.gateways import Gateway, gateway_on
from tests.support.prometheus import Family, parse
from tests.support.waiting import eventually

__all__ = ["mgw"]  # a fixture

PATIENCE = 90


@pytest.fixture
def broker() -> Iterator[MemoryBroker]:
    yield MemoryBroker.get("metrics")
    MemoryBroker.drop("metrics")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=[pytest.mark.postgresql])])
def gateway(request: pytest.FixtureRequest, tmp_path: Path, broker: MemoryBroker) -> Iterator[Gateway]:
    url = f"sqlite:///{tmp_path}/hub.db"
    if request.param == "postgresql":
        server: PostgreSQL = request.getfixturevalue("postgresql")
        url = server.create_database(unique("metrics"))
    with gateway_on(url) as gateway:
        gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
        yield gateway


@contextmanager
def probed(gateway: Gateway) -> Iterator[Probes]:
    """The probes of a supervisor that runs."""
    supervisor = Supervisor(gateway.hub, gateway.secrets, RunOptions(gateway.url), PROCEDURES)
    thread = threading.Thread(target=supervisor.run)
    thread.start()
    try:
        yield Probes(gateway.hub, supervisor)
    finally:
        supervisor.request_stop()
        thread.join(60)


def scraped(probes: Probes) -> Mapping[str, Family]:
    return parse(exposition(probes)[0])


def until(probes: Probes, job: str, moved: int) -> Mapping[str, Family]:
    """The metrics when a job has moved so many messages, and has told of it."""
    found: dict[str, Family] = {}

    def complete() -> bool:
        found.update(scraped(probes))
        total = found["mgw_messages_total"].samples
        return sum(value for key, value in total.items() if {("job", job), ("outcome", "moved")} <= set(key)) >= moved

    eventually(complete, deadline=PATIENCE, what=f"{moved} messages of job {job}")
    return scraped(probes)


def test_jobs_in_both_directions_measure_batches_bytes_and_stages(gateway: Gateway, broker: MemoryBroker) -> None:
    inbound(gateway, broker)
    outbound(gateway, broker)
    published = Header("MGW_KAFKA_timestamp", ValueType.LONG, 1_700_000_000_000)
    broker.put("SRC", *(Message(body="x" * 100, headers=(published,)) for _ in range(50)))
    with probed(gateway) as probes:
        found = until(probes, "OUTJ", 50)
        for job, direction, stages in (
            ("INJ", "inbound", ("read_to_stored", "stored_to_confirmed", "origin_to_confirmed")),
            ("OUTJ", "outbound", ("stored_to_confirmed", "origin_to_confirmed")),
        ):
            assert found["mgw_bytes_total"].value(job=job, direction=direction) == 5000
            batches = found["mgw_batch_messages"]
            assert batches.sums[("job", job),] == 50
            assert batches.value(job=job) >= 2  # of 30 at first
            assert found["mgw_messages_total"].value(job=job, direction=direction, outcome="resent") == 0
            seconds = found["mgw_stage_seconds"]
            assert {key for key in seconds.samples if ("job", job) in key} == {
                (("job", job), ("stage", stage)) for stage in stages
            }
            for stage in stages:
                count = seconds.value(job=job, stage=stage)
                assert count == batches.value(job=job), (job, stage)
                total = seconds.sums[("job", job), ("stage", stage)]
                assert (total > 1e7 * count) is (stage == "origin_to_confirmed")  # it was published years ago
        assert found["mgw_link_connects_total"].value(link="MEM") == 2
        assert found["mgw_link_failures_total"].value(link="MEM") == 0
        kinds = {dict(key)["kind"] for key in found["mgw_hub_transaction_seconds"].samples}
        assert {"store", "complete"} <= kinds <= {"store", "complete", "plan", "lease"}


def test_a_batch_that_is_written_again_counts_as_resent(gateway: Gateway, broker: MemoryBroker) -> None:
    outbound(gateway, broker)
    broker.fail_next("publish", LinkUnavailable("the connection was lost", link="mem", operation="publish"))
    gateway.enqueue("H", [Message(body=f"m{number}") for number in range(7)])
    with probed(gateway) as probes:
        until(probes, "OUTJ", 7)

        def resent() -> bool:
            found = scraped(probes)
            labels = {"job": "OUTJ", "direction": "outbound"}
            assert found["mgw_messages_total"].value(**labels, outcome="resent") == 7
            assert found["mgw_bytes_total"].value(**labels) == 14  # it was read once
            assert found["mgw_link_connects_total"].value(link="MEM") == 2
            assert found["mgw_link_failures_total"].value(link="MEM") == 1
            return True

        eventually(resent, deadline=PATIENCE, tolerate=(AssertionError,))


def test_a_local_job_measures_until_the_queue_has_its_messages(gateway: Gateway) -> None:
    for name in ("H", "H2"):
        gateway.queue(name)
    gateway.admin.create_job("l", "LOCAL", "H", "H2")
    gateway.enqueue("H", [Message(body="x")])
    with probed(gateway) as probes:
        found = until(probes, "L", 1)["mgw_stage_seconds"]
    assert found.samples == {
        (("job", "L"), ("stage", "origin_to_confirmed")): 1,
        (("job", "L"), ("stage", "stored_to_confirmed")): 1,
    }
    assert found.sums[("job", "L"), ("stage", "origin_to_confirmed")] > 0


def test_what_lies_in_queues_is_told_without_counting_it(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.queue("Q", multiple_consumers=True)
    gateway.queue("H")
    gateway.queues.create_queue("DUMP", "H_QT", queue_type="EXCEPTION_QUEUE")
    gateway.queues.start_queue("DUMP", enqueue=False)
    broker.queue("DST")
    gateway.admin.register_foreign_queue("DST", "mem")
    gateway.admin.create_job("outj", "OUTBOUND", "H", "DST@mem")
    gateway.admin.create_job("of_many", "OUTBOUND", "Q", "DST@mem")
    broker.delete("DST")  # so that they cannot connect
    gateway.enqueue("H", [Message(body="x"), Message(body="y"), Message(body="later", delay=3600)])
    gateway.enqueue("Q", [Message(body="z")])
    gateway.enqueue("H", [Message(body="old", expiration=0.001, exception_queue="DUMP")])
    eventually(lambda: time_manager.run_once(gateway.hub).expired, deadline=PATIENCE)
    with probed(gateway) as probes:
        found = scraped(probes)
        queues = found["mgw_queue_messages"]
        assert queues.value(queue="DUMP", state="expired") == 1
        assert (queues.value(queue="H", state="ready"), queues.value(queue="H", state="waiting")) == (2, 1)
        assert (queues.value(queue="Q", state="ready"), queues.value(queue="Q", state="waiting")) == (1, 0)
        assert found["mgw_backlog_messages"].samples == {(("job", "OUTJ"),): 2, (("job", "OF_MANY"),): 1}
        assert all(0 < age < 600 for age in found["mgw_oldest_message_seconds"].samples.values())
        assert len(found["mgw_oldest_message_seconds"].samples) == 2


def test_the_accept_header_chooses_the_format(gateway: Gateway, broker: MemoryBroker) -> None:
    inbound(gateway, broker)
    broker.put("SRC", Message(body="x"))
    with probed(gateway) as probes:
        until(probes, "INJ", 1)
        text, kind = exposition(
            probes, "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2"
        )
        assert kind.startswith("application/openmetrics-text; version=1.0.0")
        found = {family.name: family for family in text_string_to_metric_families(text)}
        plain, kind = exposition(probes, "text/plain;version=0.0.4")
        assert kind == "text/plain; version=0.0.4; charset=utf-8"
        assert exposition(probes)[1] == kind
    described = {metric.name.removesuffix("_total"): metric for metric in METRICS}
    for name, family in found.items():
        assert (family.type, family.documentation) == (described[name].kind, described[name].meaning)
    assert {name.removesuffix("_total") for name in parse(plain)} == set(found)


def test_a_job_that_was_dropped_is_measured_no_more_and_transactions_are(
    gateway: Gateway, broker: MemoryBroker
) -> None:
    inbound(gateway, broker)
    broker.put("SRC", Message(body="x"))
    with probed(gateway) as probes:
        before = until(probes, "INJ", 1)["mgw_hub_transaction_seconds"].value(kind="store")
        gateway.admin.remove_job("inj")
        eventually(lambda: "mgw_bytes_total" not in scraped(probes), deadline=PATIENCE)
        assert scraped(probes)["mgw_hub_transaction_seconds"].value(kind="store") >= before >= 1


def test_promtool_finds_nothing_wrong_with_what_an_agent_answers(mgw: Mgw) -> None:
    file = mgw.file("queues: {H: {}, H2: {}}\njobs:\n  l: {type: local, source: H, destination: H2}\n")
    with answering(mgw, file) as (_, port):
        mgw.ok("aq", "enqueue", "H", "x")
        found = eventually(lambda: mgw_stages(port), deadline=PATIENCE, what="a message that has moved")
        checked = subprocess.run(
            ["promtool", "check", "metrics"], check=False, input=found, capture_output=True, text=True, timeout=60
        )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def mgw_stages(port: int) -> str:
    """The metrics when a batch was measured, else nothing."""
    text = ask(port, "/metrics").text
    return text if "mgw_stage_seconds_bucket" in text else ""
