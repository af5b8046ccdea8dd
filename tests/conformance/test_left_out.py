"""LEFT OUT: how many messages a rule kept from a job or from its destination, wherever the rule is."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from mgw.gateway.http.metrics import exposition
from mgw.gateway.runtime.supervisor import RunOptions, Supervisor
from mgw.gateway.services.daemon import PROCEDURES
from mgw.gateway.services.health import read
from mgw.gateway.services.probes import Probes
from mgw.gateway.state import status
from mgw.gateway.state.gateway_hub import open_hub
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.message import Message
from tests.conformance.link_suite import unique
from tests.support.brokers import PostgreSQL
from tests.support.gateways import Gateway, gateway_on
from tests.support.prometheus import parse
from tests.support.waiting import eventually

HOT = "tab.user_data.t > 80"
GIVEN = [Message(f'{{"t":{t}}}') for t in (70, 81, 60, 95, 50)]  # 3 of them are left out


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def gateway(request: pytest.FixtureRequest, tmp_path: Path, broker: MemoryBroker) -> Iterator[Gateway]:
    """Multi-consumer queue H, queues L and M; SRC and DST at a broker."""
    url = f"sqlite:///{tmp_path}/hub.db"
    if request.param == "postgresql":
        server: PostgreSQL = request.getfixturevalue("postgresql")
        url = server.create_database(unique("leftout"))
    with gateway_on(url) as gateway:
        gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
        gateway.queue("H", multiple_consumers=True)
        for name in ("L", "M"):
            gateway.queue(name)
        for name in ("SRC", "DST"):
            broker.queue(name)
            gateway.admin.register_foreign_queue(name, "mem")
        yield gateway


def left_out(gateway: Gateway, job: str = "j") -> int:
    """What the view says, and everything that is shown of it."""
    told = int(gateway.job(job)["LEFT_OUT_TOTAL"])
    with gateway.hub.read() as conn:
        (signs,) = [each for each in status.signs(conn).jobs if each.name_key == job.upper()]
    assert signs.left_out_total == told
    return told


@pytest.mark.parametrize(
    ("kind", "source", "destination"),
    [("INBOUND", "SRC@mem", "M"), ("THROUGH", "SRC@mem", "DST@mem"), ("OUTBOUND", "H", "DST@mem"), ("LOCAL", "H", "M")],
)
def test_the_rule_of_a_job_counts_whichever_way_it_carries(
    gateway: Gateway, broker: MemoryBroker, kind: str, source: str, destination: str
) -> None:
    gateway.admin.create_job("j", kind, source, destination, rule=HOT)
    if source == "H":
        gateway.admin.create_job("every", "LOCAL", "H", "L")
        gateway.enqueue("H", GIVEN)
    else:
        broker.put("SRC", *GIVEN)
    with gateway.run():
        eventually(lambda: (gateway.job("j")["PROPAGATED_TOTAL"], left_out(gateway)) == (2, 3))
        if source == "H":
            eventually(lambda: gateway.job("every")["PROPAGATED_TOTAL"] == 5)
            assert left_out(gateway, "every") == 0
    with gateway.run():
        assert left_out(gateway) == 3, "a start of the agent forgets nothing"


@pytest.mark.parametrize("kind", ["INBOUND", "LOCAL"])
def test_what_no_subscriber_of_the_destination_wants_counts_at_the_job_that_brings_it_and_at_those_who_do_not_get_it(
    gateway: Gateway, broker: MemoryBroker, kind: str
) -> None:
    gateway.admin.create_job("j", kind, "SRC@mem" if kind == "INBOUND" else "L", "H")
    gateway.admin.create_job("hot", "OUTBOUND", "H", "DST@mem", rule=HOT)
    broker.put("SRC", *GIVEN)
    gateway.enqueue("L", GIVEN)
    with gateway.run():
        eventually(lambda: (left_out(gateway), left_out(gateway, "hot")) == (3, 3))
        eventually(lambda: gateway.job("hot")["PROPAGATED_TOTAL"] == 2)
    assert gateway.job("j")["DISCARDED_TOTAL"] == 3


@pytest.mark.parametrize(
    ("kind", "source", "destination"),
    [("INBOUND", "SRC@mem", "M"), ("THROUGH", "SRC@mem", "DST@mem"), ("OUTBOUND", "L", "DST@mem"), ("LOCAL", "L", "M")],
)
def test_what_a_job_filters_is_an_event_at_once_and_then_a_sum(
    gateway: Gateway, broker: MemoryBroker, kind: str, source: str, destination: str
) -> None:
    gateway.admin.create_transformation("hot", "BASIC", "BASIC", {"where": HOT})
    gateway.admin.create_job("j", kind, source, destination, transformation="hot")

    def give() -> None:
        if source == "L":
            gateway.enqueue("L", GIVEN)
        else:
            broker.put("SRC", *GIVEN)

    with gateway.run():
        for batch in range(1, 4):
            give()
            eventually(lambda batch=batch: gateway.job("j")["FILTERED_TOTAL"] == 3 * batch)
    told = [text for text in gateway.events() if "left out by its rule or transformation" in text]
    counts = [int(text.removeprefix("job j: ").split()[0]) for text in told]
    assert sum(counts) == 9, "a stop tells what was gathered"
    assert 2 <= len(counts) <= 3, "the first at once, the others as a sum (two, where this took a minute)"
    assert left_out(gateway) == 9


def test_what_has_expired_was_left_out_by_no_rule(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.admin.create_job("j", "INBOUND", "SRC@mem", "M", rule=HOT)
    broker.put("SRC", *(dataclasses.replace(each, expiration=0) for each in GIVEN))
    with gateway.run():
        eventually(lambda: gateway.job("j")["DISCARDED_TOTAL"] == 5)
        assert left_out(gateway) == 0


def test_every_process_counts_what_it_committed_and_its_end_forgets_nothing(gateway: Gateway, tmp_path: Path) -> None:
    gateway.admin.create_job("j", "OUTBOUND", "H", "DST@mem", rule=HOT)
    gateway.admin.create_job("every", "LOCAL", "H", "L")
    for expected in (3, 6):  # one that enqueues and ends at once; nothing was stored of it before
        with open_hub(gateway.url) as other, other.session() as session:
            session.enqueue_array("H", GIVEN)
            session.commit()
        assert left_out(gateway) == expected
    with open_hub(gateway.url) as other, other.session() as session:
        session.enqueue_array("H", GIVEN)
        session.rollback()
        session.enqueue_array("H", GIVEN[:1], recipients=["SOMEBODY"])  # named: no rule is asked
        session.commit()
        other.statistics.flush(other)
        session.enqueue_array("H", GIVEN[:1])
        session.commit()
        assert left_out(gateway) == 6
    assert left_out(gateway) == 7
    killed = open_hub(gateway.url)  # stored its numbers, and never ends
    with killed.session() as session:
        session.enqueue_array("H", GIVEN)
        session.commit()
    killed.statistics.flush(killed)
    assert left_out(gateway) == 10
    gone = subprocess.Popen(["true"])
    gone.wait()
    with gateway.hub.write() as conn:
        conn.execute(sa.text("UPDATE aq_process SET pid = :pid"), {"pid": gone.pid})
    with gateway.run():
        eventually(lambda: processes(gateway, gone.pid) == 0, what="the numbers of dead processes are gone")
        assert left_out(gateway) == 10
    with killed.session() as session:  # it only seemed to be dead
        session.enqueue_array("H", GIVEN)
        session.commit()
    killed.statistics.flush(killed)
    assert left_out(gateway) == 13
    with gateway.hub.write() as conn:
        conn.execute(sa.text("UPDATE aq_process SET pid = :pid"), {"pid": gone.pid})
    with gateway.run():
        eventually(lambda: processes(gateway, gone.pid) == 0, what="the numbers of dead processes are gone")
    killed.close()
    assert left_out(gateway) == 13


def processes(gateway: Gateway, pid: int) -> int:
    with gateway.hub.read() as conn:
        query = sa.text("SELECT count(*) FROM aq_process WHERE pid = :pid")
        return int(conn.execute(query, {"pid": pid}).scalar_one())


def test_a_job_that_is_made_again_begins_at_zero(gateway: Gateway) -> None:
    def make() -> None:
        gateway.admin.create_job("j", "OUTBOUND", "H", "DST@mem", rule=HOT)

    make()
    gateway.admin.create_job("every", "LOCAL", "H", "L")
    for _ in range(2):
        with open_hub(gateway.url) as other, other.session() as session:
            session.enqueue_array("H", GIVEN)
            session.commit()
        assert left_out(gateway) == 3
        gateway.admin.alter_job("j", rule="tab.user_data.t > 81")
        assert left_out(gateway) == 3
        gateway.admin.remove_job("j", force=True)
        make()
        assert left_out(gateway) == 0


def test_metrics_and_commands_show_it(gateway: Gateway) -> None:
    gateway.admin.create_job("j", "OUTBOUND", "H", "DST@mem", rule=HOT)
    gateway.admin.create_job("every", "LOCAL", "H", "L")
    with open_hub(gateway.url) as other, other.session() as session:
        session.enqueue_array("H", GIVEN)
        session.commit()
    supervisor = Supervisor(gateway.hub, gateway.secrets, RunOptions(gateway.url), PROCEDURES)
    text, _ = exposition(Probes(gateway.hub, supervisor))
    assert parse(text)["mgw_left_out_total"].samples == {(("job", "J"),): 3, (("job", "EVERY"),): 0}
    shown: dict[str, Any] = {row.job_name: row.left_out_total for row in read(gateway.hub).jobs}
    assert shown == {"EVERY": 0, "J": 3}
