"""Records of small batches are merged: the ledger takes less room, and says the same."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import sqlalchemy as sa

from mgw.gateway.ledger import check, history, upkeep
from mgw.gateway.ledger import store as ledger
from mgw.gateway.ledger.history import Range
from mgw.gateway.ledger.record import Completed
from mgw.gateway.ledger.upkeep import SPAN, Merging
from mgw.gateway.runtime.supervisor import RunOptions, Supervisor
from mgw.gateway.services.daemon import PROCEDURES
from mgw.gateway.state import run_state
from mgw.gateway.state.secrets import Secrets
from mgw.links.contract import Batch, Delivery, Position
from mgw.links.memory.broker import MemoryBroker
from mgw.links.placement import Placement
from mgw.transforms.errors import HubUnavailable
from mgw.transforms.message import Message
from tests.support.brokers import PostgreSQL
from tests.support.gateways import Gateway, gateway_on
from tests.support.merged_ledgers import merge_all
from tests.support.waiting import eventually

LONG_AGO = 86400.0
on_sqlite = pytest.mark.parametrize("gateway", ["sqlite"], indirect=True)  # what the database has no part in


@contextmanager
def hub_at(kind: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """Address of a new database of the kind."""
    if kind == "sqlite":
        yield f"sqlite:///{request.getfixturevalue('tmp_path')}/hub.db"
        return
    server: PostgreSQL = request.getfixturevalue("postgresql")
    url = server.create_database(f"merged_{uuid.uuid4().hex}")
    yield url
    server.drop_database(url.rpartition("/")[2])


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def gateway(request: pytest.FixtureRequest, broker: MemoryBroker) -> Iterator[Gateway]:
    with ExitStack() as stack:
        gateway = stack.enter_context(gateway_on(stack.enter_context(hub_at(request.param, request))))
        gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
        broker.log("LOG")
        for name in ("SRC", "DST", "BAD"):
            broker.queue(name)
            gateway.admin.register_foreign_queue(name, "mem")
        gateway.admin.register_foreign_queue("LOG", "mem")
        gateway.queue("H")
        yield gateway


@pytest.fixture
def moved(gateway: Gateway, broker: MemoryBroker) -> Gateway:
    """Batches of three, with every outcome that is quickly made: stored, filtered, refused, sent, returned."""
    for name in ("J", "X"):
        gateway.queue(name, queue_payload_type="JSON")
    small = {"MsgBatchSize": "3", "max_batch_size": "3"}
    gateway.admin.create_job(
        "into", "INBOUND", "LOG@mem", "J", rule="priority < 5", options=small, exception_queue="BAD@mem"
    )
    celsius = {"set": {"body.c": "tab.user_data.f - 32"}}
    gateway.admin.create_transformation("c", "JSON", "JSON", celsius)
    gateway.admin.create_job("out", "OUTBOUND", "J", "DST@mem", transformation="c", options=small, exception_queue="X")
    for number in range(60):
        body = "no json" if number % 19 == 7 else '{"f":"x"}' if number % 13 == 3 else f'{{"f":{number}}}'
        broker.put("LOG", Message(body=body, priority=9 * (number % 7 == 5)))
    with gateway.run():
        eventually(lambda: recorded(gateway, "into") == 60, what="60 read")
        stored = int(gateway.job("into")["PROPAGATED_TOTAL"])
        eventually(
            lambda: recorded(gateway, "out", "propagated + exceptioned") == stored, what="every one sent or set aside"
        )
    return gateway


def number_of(gateway: Gateway, job: str) -> int:
    found = gateway.admin.get_job(job)
    assert found is not None
    return found.id


def recorded(gateway: Gateway, job: str, what: str = "messages") -> int:
    """Messages that the ledger knows of a job."""
    query = sa.text(f"SELECT coalesce(sum({what}), 0) FROM gw_ledger WHERE job_id = :job")
    with gateway.hub.read() as conn:
        return int(conn.execute(query, {"job": number_of(gateway, job)}).scalar_one())


def stored_rows(gateway: Gateway) -> int:
    with gateway.hub.read() as conn:
        return int(conn.execute(sa.text("SELECT count(*) FROM gw_ledger")).scalar_one())


def change(gateway: Gateway, text: str, **values: Any) -> int:
    with gateway.hub.write() as conn:
        return conn.execute(sa.text(text), values).rowcount


def proof(gateway: Gateway, job: str, span: Range = history.EVERYTHING) -> check.Proof:
    found = gateway.admin.get_job(job)
    assert found is not None
    with gateway.hub.read() as conn:
        return check.reconcile(conn, found, gateway.hub.hub_id, span)


def answers(gateway: Gateway) -> list[object]:
    """Everything that can be asked about both jobs."""
    told: list[object] = []
    for name in ("into", "out"):
        job = gateway.admin.get_job(name)
        assert job is not None
        with gateway.hub.read() as conn:
            records = list(ledger.read(conn, job.id))
            moments = [records[at].finished for at in (0, 1, len(records) // 2, -1)]
            spans = [Range(), *(Range(last=last) for last in (1, 4, 17, 1000))]
            spans += [Range(since=moment) for moment in moments] + [Range(until=moment) for moment in moments]
            spans += [Range(since=moments[1], until=moments[2]), Range(until=moments[2], last=5)]
            told += [check.reconcile(conn, job, gateway.hub.hub_id, span) for span in spans]
            told += [list(history.sights(conn, job, gateway.hub.hub_id, span)) for span in spans]
            first, last = ledger.extent(conn, job.id) or (0, 0)
            told += [(first, last), list(ledger.rows(conn, job.id, first, last))[-1]._replace(detail=None, digest=0)]
            told += [[row.number for row in ledger.rows(conn, job.id, 4, at)] for at in (4, 7, last)]
            entries = [entry for record in records for entry in record.entries]
            names = [entry.origin or (entry.places or ("",))[0] for entry in entries[::9]]
            names += [history.hex_id(gateway.hub.hub_id, number) for entry in entries[::7] for number in entry.ids]
            told += [history.trace(conn, job, gateway.hub.hub_id, each) for each in names if each]
    return told


# --------------------------------------------------------------------------------------------------- the same answers


def test_the_answers_are_the_same_before_merging_and_after(moved: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    before, rows = answers(moved), stored_rows(moved)
    assert proof(moved, "into").holds
    assert {str(each) for each in proof(moved, "into").outcomes} == {"stored", "filtered", "exception queue"}
    monkeypatch.setattr(upkeep, "GROUP", 6)
    assert merge_all(moved.hub) > 2
    half = stored_rows(moved)
    assert half < rows
    assert answers(moved) == before
    assert not merge_all(moved.hub), "what is merged stays, and so does the tail"
    assert merge_all(moved.hub, now=moved.hub.clock.now() + 2 * SPAN) > 0, "nothing can follow the tail any more"
    assert stored_rows(moved) < half
    assert answers(moved) == before


def test_the_view_adds_up_to_the_same(moved: Gateway) -> None:
    query = (
        "SELECT JOB_NAME, KIND, sum(MESSAGES), sum(PROPAGATED), sum(EXCEPTIONED), sum(FILTERED), max(BATCH), "
        "max(SEQUENCE), min(STARTED), max(FINISHED), min(FIRST_MESSAGE), max(LAST_MESSAGE) "
        "FROM MGW_LEDGER GROUP BY JOB_NAME, KIND ORDER BY JOB_NAME, KIND"
    )
    with moved.hub.read() as conn:
        before = [tuple(row) for row in conn.execute(sa.text(query))]
    assert merge_all(moved.hub, now=moved.hub.clock.now() + 2 * SPAN)
    with moved.hub.read() as conn:
        assert [tuple(row) for row in conn.execute(sa.text(query))] == before


def test_records_are_merged_while_a_job_runs_and_every_message_stays_in_them(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "GROUP", 5)
    small = {"MsgBatchSize": "2", "max_batch_size": "2"}
    gateway.admin.create_job("into", "INBOUND", "LOG@mem", "H", options=small)
    gateway.admin.create_job("out", "OUTBOUND", "H", "DST@mem", options=small)
    end, made = threading.Event(), [0]

    def merge() -> None:
        while not end.is_set():
            made[0] += merge_all(gateway.hub)

    merging = threading.Thread(target=merge)
    with gateway.run():
        merging.start()
        try:
            for start in range(0, 300, 50):
                broker.put("LOG", *(Message(body=f"message {number}") for number in range(start, start + 50)))
                eventually(lambda: recorded(gateway, "out") >= start + 25, what="half of them sent")  # noqa: B023
                for job in ("into", "out"):
                    assert not proof(gateway, job).offences
            eventually(lambda: recorded(gateway, "out") == 300, what="all of them sent")
            eventually(lambda: made[0] > 20, what="their records merged")
        finally:
            end.set()
            merging.join(60)
    for job in ("into", "out"):
        found = proof(gateway, job)
        assert (found.offences, found.messages) == ([], 300)


def test_the_agents_upkeep_merges(moved: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "GROUP", 6)
    before, rows = answers(moved), stored_rows(moved)
    supervisor = Supervisor(moved.hub, Secrets.for_hub(moved.url), RunOptions(moved.url), PROCEDURES)
    supervisor._pruning.merge()
    assert stored_rows(moved) < rows
    assert answers(moved) == before


def test_records_that_could_not_be_stored_are_merged_later(moved: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "GROUP", 6)
    supervisors = [
        Supervisor(moved.hub, Secrets.for_hub(moved.url), RunOptions(moved.url), PROCEDURES) for _ in range(2)
    ]
    with monkeypatch.context() as patch:
        patch.setattr(upkeep, "store", away)
        for _ in range(20):
            with suppress(HubUnavailable):
                supervisors[0]._pruning.merge()
    before = stored_rows(moved)
    supervisors[0]._pruning.merge()
    found = stored_rows(moved)
    supervisors[1]._pruning.merge()
    assert before > found == stored_rows(moved)


def away(*_: object) -> None:
    raise HubUnavailable("the hub is away")


_KILLED = """
import os, signal, sys
from mgw.gateway.ledger import upkeep as ledger_upkeep
from mgw.gateway.state.gateway_hub import open_hub
from tests.support.merged_ledgers import merge_all

db_run = ledger_upkeep.Db.run
def run(self, template, params=()):
    if sys.argv[2] == "after":
        db_run(self, template, params)
    if template is ledger_upkeep._STORE:
        os.kill(os.getpid(), signal.SIGKILL)
    return db_run(self, template, params)

ledger_upkeep.Db.run = run
ledger_upkeep.GROUP = 6
merge_all(open_hub(sys.argv[1]))
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_process_killed_while_it_merges_leaves_the_records_as_they_were(
    moved: Gateway, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the removal of the records and their row, and between that and the commit."""
    before, rows = answers(moved), stored_rows(moved)
    root = Path(__file__).resolve().parents[2]
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED, moved.url, when], cwd=root, capture_output=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert stored_rows(moved) == rows
    assert answers(moved) == before
    monkeypatch.setattr(upkeep, "GROUP", 6)
    assert merge_all(moved.hub)
    assert answers(moved) == before


# ------------------------------------------------------------------------------------------------------ what it takes


class Made(NamedTuple):
    delivery: Delivery


@pytest.fixture
def written(gateway: Gateway) -> Callable[..., None]:
    """Writes records of batches of one to five messages, as a job between two Kafka topics writes them."""
    gateway.admin.create_job("into", "INBOUND", "LOG@mem", "H")
    gateway.admin.create_job("out", "OUTBOUND", "H", "DST@mem")
    into, out = number_of(gateway, "into"), number_of(gateway, "out")
    at = [0]  # messages so far

    def write(sizes: Sequence[int], *, began: float, every: float = 0.0117) -> None:
        with gateway.hub.write() as conn:
            start = conn.execute(sa.text("SELECT coalesce(max(sequence), 0) FROM gw_ledger")).scalar_one()
            for sequence, size in enumerate(sizes, start + 1):
                read = began + (sequence - start) * every + (sequence % 7) * 0.000137
                first = at[0]
                numbers = range(first, first + size)
                at[0] += size
                deliveries = [Delivery(Message(body="x"), origin=f"orders/0@{number}") for number in numbers]
                kept = [Made(each) for each in deliveries]
                ids = [gateway.hub.hub_id + (number + 1).to_bytes(8) for number in numbers]
                batch = Batch(deliveries, positions=[Position("orders/0", str(first) if first else None, str(at[0]))])
                ledger.record_received(
                    conn,
                    into,
                    batch,
                    offered=kept,
                    kept=kept,
                    msgids=list(ids),
                    refused=(),
                    counts=run_state.Counts(propagated=size),
                    read=read,
                    now=read + 0.0041,
                )
                planned = tuple(number + 1 for number in numbers)
                sent = Completed(
                    sequence,
                    planned,
                    sent=read + 0.006,
                    confirmed=read + 0.0083,
                    placement=Placement([f"bills/{sequence % 3}@"], [[first, size]]),
                )
                run_state.add_plans(conn, out, [run_state.Plan(sequence, planned)], token=1, now=read + 0.005)
                ledger.record_completed(conn, out, [sent], now=read + 0.0097)
                run_state.delete_plans(conn, out, [sequence])

    return write


def bytes_of(gateway: Gateway) -> int:
    """What the ledger's table takes, with its index, and without what a vacuum would give back."""
    if gateway.hub.engine.dialect.name == "sqlite":
        query = "SELECT sum(pgsize) FROM dbstat WHERE name = 'gw_ledger'"
    else:
        query = "SELECT pg_total_relation_size('gw_ledger')"
        with gateway.hub.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
            conn.execute(sa.text("VACUUM FULL gw_ledger"))
    with gateway.hub.read() as conn:
        return int(conn.execute(sa.text(query)).scalar_one())


def test_a_message_of_a_small_batch_takes_as_little_room_as_one_of_a_large_batch(
    gateway: Gateway, written: Callable[..., None]
) -> None:
    written([1, 4, 2, 3, 1, 5, 2] * 290, began=gateway.hub.clock.now() - LONG_AGO)
    messages = recorded(gateway, "into") + recorded(gateway, "out")
    before = bytes_of(gateway) / messages
    assert before > 40
    assert merge_all(gateway.hub) == 6, "a thousand records a row"
    after = bytes_of(gateway) / messages
    print(f"bytes per message: {before:.1f} before, {after:.1f} merged")
    assert after < 15
    for job in ("into", "out"):
        assert not proof(gateway, job, Range(until=gateway.hub.clock.now())).offences


@on_sqlite
def test_the_tail_that_is_not_merged_yet_is_bounded(
    gateway: Gateway, written: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "GROUP", 10)
    now = gateway.hub.clock.now()
    written([2] * 39, began=now)
    merge_all(gateway.hub, now=now)
    assert stored_rows(gateway) == 2 * (3 + 9)


@on_sqlite
def test_what_is_dense_or_of_another_kind_stays_alone_and_a_row_ends_there(
    gateway: Gateway, written: Callable[..., None]
) -> None:
    began = gateway.hub.clock.now() - LONG_AGO
    written([2, 2, 100, 2, 2, 2, 100, 100, 2, 100], began=began)
    with gateway.hub.write() as conn:
        ledger.record_break(conn, number_of(gateway, "into"), "a reset", now=began + 1)
    written([2, 2], began=began + 2)
    before = answers(gateway)
    assert merge_all(gateway.hub) == 6
    with gateway.hub.read() as conn:
        query = "SELECT number, messages FROM gw_ledger WHERE job_id = :job ORDER BY number"
        kept = [tuple(row) for row in conn.execute(sa.text(query), {"job": number_of(gateway, "into")})]
    assert kept == [(2, 4), (3, 100), (6, 6), (7, 100), (8, 100), (9, 2), (10, 100), (11, 0), (13, 4)]
    assert answers(gateway) == before


@on_sqlite
def test_a_row_spans_an_hour_at_most_so_that_pruning_keeps_what_it_should(
    gateway: Gateway, written: Callable[..., None]
) -> None:
    now = gateway.hub.clock.now()
    written([1] * 40, began=now - 40 * SPAN / 4, every=SPAN / 4)
    assert merge_all(gateway.hub, now=now + SPAN) >= 18
    with gateway.hub.write() as conn:
        while upkeep.prune(conn, "DEFAULT_AGENT", before=now - 5 * SPAN, limit=3):
            pass
    for job in ("into", "out"):
        with gateway.hub.read() as conn:
            ages = [now - record.finished for record in ledger.read(conn, number_of(gateway, job))]
        assert 5 * SPAN - SPAN / 4 <= max(ages) <= 6 * SPAN
        assert len(ages) >= 20


@on_sqlite
def test_records_of_a_job_that_is_gone_are_merged_too(gateway: Gateway, written: Callable[..., None]) -> None:
    written([1] * 10, began=gateway.hub.clock.now() - LONG_AGO)
    change(gateway, "DELETE FROM gw_job_state")
    change(gateway, "DELETE FROM gw_job")
    assert merge_all(gateway.hub) == 2
    assert stored_rows(gateway) == 2


@on_sqlite
def test_a_look_reads_a_bounded_number_of_rows_and_comes_to_every_job(
    gateway: Gateway, written: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "GROUP", 4)
    written([200] * 21 + [1] * 5, began=gateway.hub.clock.now() - LONG_AGO)
    merging, looks, groups = Merging("DEFAULT_AGENT"), 0, 0
    more = True
    while more:
        with gateway.hub.read() as conn:
            group, more = merging.look(conn, now=0.0)
        looks += 1
        groups += group is not None
    assert groups == 2
    assert 2 * 21 / 5 <= looks <= 16


# ------------------------------------------------------------------------------------------------------ what is noticed


@on_sqlite
@pytest.mark.parametrize("job", ["into", "out"])
@pytest.mark.parametrize(
    "damage",
    [
        "detail = x'4d00'",
        "detail = substr(detail, 1, length(detail) - 9)",
        "messages = messages + 1",
        "filtered = filtered + 1",
        "sequence = coalesce(sequence, 0) + 70",
        "message_ids = x'4d00'",
        "number = number + 1",
    ],
)
def test_a_changed_row_of_several_records_is_noticed(
    gateway: Gateway, written: Callable[..., None], job: str, damage: str
) -> None:
    written([1, 2, 3] * 20, began=gateway.hub.clock.now() - LONG_AGO)
    assert merge_all(gateway.hub) == 2
    assert not proof(gateway, job, Range(until=gateway.hub.clock.now())).offences
    values = {"job": number_of(gateway, job)}
    assert change(gateway, f"UPDATE gw_ledger SET {damage} WHERE job_id = :job", **values)
    found = proof(gateway, job, Range(until=gateway.hub.clock.now()))
    assert any("record 6" in each for each in found.offences), found.offences


@on_sqlite
def test_a_row_of_several_records_that_was_taken_out_is_noticed(
    moved: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "GROUP", 4)
    assert merge_all(moved.hub)
    for job in ("into", "out"):
        assert proof(moved, job).holds
        assert change(moved, "DELETE FROM gw_ledger WHERE job_id = :job AND number = 8", job=number_of(moved, job))
        assert "records 5 to 8 are missing" in proof(moved, job).offences


@on_sqlite
def test_a_record_that_was_changed_is_not_merged_and_goes_on_to_say_so(
    gateway: Gateway, written: Callable[..., None]
) -> None:
    written([2] * 30, began=gateway.hub.clock.now() - LONG_AGO)
    change(gateway, "UPDATE gw_ledger SET propagated = 1 WHERE number = 12")
    before = answers(gateway)
    assert not proof(gateway, "into").holds
    assert merge_all(gateway.hub) == 4
    assert stored_rows(gateway) == 6
    assert answers(gateway) == before


def test_records_that_changed_since_they_were_looked_at_are_left_alone(
    gateway: Gateway, written: Callable[..., None]
) -> None:
    written([2] * 30, began=gateway.hub.clock.now() - LONG_AGO)
    with gateway.hub.read() as conn:
        group, _ = Merging("DEFAULT_AGENT").look(conn, now=gateway.hub.clock.now())
    assert group is not None
    change(gateway, "DELETE FROM gw_ledger WHERE number <= 3")
    rows = stored_rows(gateway)
    with pytest.raises(upkeep.ChangedMeanwhile), gateway.hub.write() as conn:
        upkeep.store(conn, group)
    assert stored_rows(gateway) == rows
