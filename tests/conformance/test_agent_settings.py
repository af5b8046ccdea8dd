"""What the options of an agent and its log level do to its jobs and its log."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from mgw.gateway.observe.log_file import set_level
from mgw.gateway.runtime.supervisor import RunOptions, Supervisor
from mgw.gateway.services.daemon import PROCEDURES
from mgw.gateway.state import run_state
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.errors import AdminError
from mgw.transforms.message import Message
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually


@pytest.fixture
def gateway(tmp_path: Path, broker: MemoryBroker) -> Iterator[Gateway]:
    """Memory queue SRC -> hub queue H -> memory queue DST."""
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
        gateway.queue("H")
        for queue in ("SRC", "DST"):
            broker.queue(queue)
            gateway.admin.register_foreign_queue(queue, "mem")
        gateway.admin.create_job("inj", "INBOUND", "SRC@mem", "H")
        gateway.admin.create_job("outj", "OUTBOUND", "H", "DST@mem", poll_interval=3, options={"MsgBatchSize": 5})
        yield gateway
        set_level(0)


def test_the_start_has_the_documented_numbers(gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    gateway.admin.set_agent_option("DEFAULT_AGENT", "oracle.mgw.polling_interval", "1500")
    gateway.admin.alter_agent(max_threads=7, service="batch")
    with caplog.at_level(logging.INFO), gateway.run():
        eventually(lambda: sum(getattr(each, "mgw_id", None) == 19 for each in caplog.records) == 2, what="[19] twice")
    told = [(each.mgw_id, each.getMessage()) for each in caplog.records if getattr(each, "mgw_id", None)]
    numbers = [number for number, _ in told if number != 19]  # jobs are activated on threads of their own
    assert numbers == [200, 1, 23, 22, 4, 7, 7, 9, 14, 9, 14, 2, 25]
    texts = {number: text for number, text in told if number in (23, 22)}
    assert texts[23] == "agent DEFAULT_AGENT: 7 worker threads"
    assert "default polling interval 1500 ms" in texts[22]
    assert "schedule inj added: SRC@mem --> H, poll interval 1.5 s" in caplog.text
    assert "schedule outj added: H --> DST@mem, poll interval 3 s" in caplog.text
    assert "agent DEFAULT_AGENT: service stored, has no effect" in caplog.text


def test_batch_size_and_poll_interval_of_the_agent_count_for_jobs_without_their_own(
    gateway: Gateway, broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.admin.set_agent_option("DEFAULT_AGENT", "Oracle.mgw.batch_size", "4")
    gateway.admin.alter_job("inj", options={"max_batch_size": 4})
    broker.put("SRC", *(Message(body=f"m{number}") for number in range(10)))
    gateway.admin.disable_job("outj")
    with gateway.run() as running:
        eventually(lambda: len(gateway.browse("H")) == 10)
        gateway.admin.set_agent_option("DEFAULT_AGENT", "oracle.mgw.batch_size", "9")  # from the next start
        gateway.admin.enable_job("outj")
        eventually(lambda: len(broker.queue("DST").messages) == 10)
        jobs = {runner.name: runner.setup.job for runner in running.agent._runners.values()}
        assert (jobs["inj"].batch_size, jobs["outj"].batch_size) == (4, 5)
        assert (jobs["inj"].poll_seconds, jobs["outj"].poll_seconds) == (5.0, 3.0)
    with gateway.hub.read() as conn:
        sizes = [row[0] for row in conn.exec_driver_sql("SELECT messages FROM gw_ledger WHERE kind = 'RECEIVED'")]
    assert max(sizes) == 4


def test_the_log_level_of_a_running_agent_decides_how_much_it_tells(
    gateway: Gateway, broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    told = [
        [],
        ["job inj connects to link mem (MEMORY)"],
        ["job inj: 1 propagated, in", "job outj: batch"],
        ["job inj read 1 messages", "job inj: nothing moved"],
        ["body of 2"],
    ]
    with gateway.run():
        for level in range(5):
            caplog.clear()
            if level:
                gateway.admin.set_log_level(level)
                eventually(lambda: "loads changed definitions" in caplog.text, what=f"level {level}")
            gateway.admin.alter_job("inj", options={"max_batch_size": 100 + level})
            eventually(lambda: "job inj activated" in caplog.text, what="a new activation")
            before = len(broker.queue("DST").messages)
            broker.put("SRC", Message(body=f"m{level}"))
            eventually(lambda before=before: len(broker.queue("DST").messages) == before + 1)  # type: ignore[misc]
            for text in chain(*told[: level + 1]):
                eventually(lambda text=text: text in caplog.text, what=f"{text!r} at level {level}")  # type: ignore[misc]
            for text in chain(*told[level + 1 :]):
                assert text not in caplog.text, (text, level)


def test_the_state_of_a_running_agent_has_positions_plans_and_windows(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.queue("I")
    broker.log("LOG")
    gateway.admin.register_foreign_queue("LOG", "mem")
    gateway.admin.create_job("logj", "INBOUND", "LOG@mem", "I", options={"MsgBatchSize": 200})
    gateway.admin.alter_job("inj", options={"max_batch_size": 100})  # it reads on while the hub commits
    broker.hold_confirms = True
    broker.put("SRC", *(Message(body=f"m{number}") for number in range(10)))
    broker.put("LOG", *(Message(body=f"m{number}") for number in range(7)))
    with gateway.run() as running:
        eventually(lambda: len(broker.queue("DST").messages) == 10)
        eventually(lambda: len(gateway.browse("I")) == 7)
        eventually(lambda: "acknowledged last: LOG@6" in "\n".join(running.agent.state()))
        said = "\n".join(running.agent.state())
        broker.hold_confirms = False
    assert "link mem: UP since" in said
    assert "MEMORY, 3 of 3 jobs connected" in said
    assert "window: 0 of 3 batches read ahead (0 messages), 0 messages being stored" in said
    assert "source: read last: SRC@9, acknowledged last: SRC@9" in said
    assert "source: read last: LOG@6, acknowledged last: LOG@6, position 0=6" in said
    assert "10 messages in flight, window 1000, no sending log, plans 1 to " in said
    assert re.search(r"last progress: 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC \(\d+ s ago\)", said)
    assert "guarantee: " in said


def test_option_is_given_as_a_number_and_refused_with_its_agent(gateway: Gateway) -> None:
    gateway.admin.set_agent_option("DEFAULT_AGENT", "oracle.mgw.polling_interval", 500)
    assert [option.value for option in gateway.admin.list_agent_options("DEFAULT_AGENT")] == ["500"]
    with pytest.raises(AdminError, match=r"ORA-32841: agent DEFAULT_AGENT: oracle.mgw.polling_interval cannot be '50'"):
        gateway.admin.set_agent_option("DEFAULT_AGENT", "oracle.mgw.polling_interval", 50)


@pytest.mark.parametrize(("retention", "kept"), [("3600", ["young"]), (None, ["old", "young"])])
def test_events_are_kept_as_long_as_the_agent_says(retention: str | None, kept: list[str], gateway: Gateway) -> None:
    if retention is not None:
        gateway.admin.set_agent_option("DEFAULT_AGENT", "event_retention", retention)
    now = time.time()
    with gateway.hub.write() as conn:
        for text, age in (("ancient", 15 * 86400), ("old", 7200), ("young", 600)):
            run_state.add_event(
                conn, agent_name=None, level="INFO", name="Told", object_name="x", text=text, now=now - age
            )
    supervisor = Supervisor(gateway.hub, gateway.secrets, RunOptions(gateway.url), PROCEDURES)
    thread = threading.Thread(target=supervisor.run)
    thread.start()
    try:
        eventually(lambda: any("up and running" in text for text in gateway.events()), what="the agent runs")
        supervisor._prune()
    finally:
        supervisor.request_stop()
        thread.join(30)
    assert [text for text in gateway.events() if text in ("ancient", "old", "young")] == kept
