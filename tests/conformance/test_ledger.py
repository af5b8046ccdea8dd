"""The ledger and its proofs: what became of every message, and whether each has exactly one outcome."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import sqlalchemy as sa

from mgw.gateway.aq.model import DequeueOptions
from mgw.gateway.cli.main import execute
from mgw.gateway.ledger import check, history, upkeep
from mgw.gateway.ledger import store as ledger
from mgw.gateway.ledger.check import Proof
from mgw.gateway.ledger.history import Range, Sight, Trace
from mgw.gateway.ledger.record import Completed, Kind, Outcome, packed, unpacked
from mgw.gateway.runtime.route import Route
from mgw.gateway.runtime.supervisor import RunOptions, Supervisor
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.daemon import PROCEDURES
from mgw.gateway.state import run_state
from mgw.gateway.state.secrets import Secrets
from mgw.links.contract import Batch, Delivery
from mgw.links.memory.broker import MemoryBroker
from mgw.links.memory.destination import MESSAGE_ID
from mgw.links.placement import Placement
from mgw.transforms.errors import AdminError, GatewayError, LinkUnavailable
from mgw.transforms.message import Message
from tests.support.brokers import PostgreSQL
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually


@pytest.fixture
def gateway(tmp_path: Path, broker: MemoryBroker) -> Iterator[Gateway]:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
        for name in ("SRC", "DST", "BAD"):
            broker.queue(name)
            gateway.admin.register_foreign_queue(name, "mem")
        broker.log("LOG")
        gateway.admin.register_foreign_queue("LOG", "mem")
        gateway.queue("H")
        yield gateway


def messages(count: int, start: int = 0) -> list[Message]:
    return [Message(body=f"message {number}") for number in range(start, start + count)]


def reconciled(gateway: Gateway, job: str, span: Range | None = None) -> Proof:
    found = gateway.admin.get_job(job)
    assert found is not None
    with gateway.hub.read() as conn:
        return check.reconcile(conn, found, gateway.hub.hub_id, span or Range())


def traced(gateway: Gateway, job: str, message: str) -> Trace:
    found = gateway.admin.get_job(job)
    assert found is not None
    with gateway.hub.read() as conn:
        return history.trace(conn, found, gateway.hub.hub_id, message)


def traced_all(gateway: Gateway, job: str) -> Sequence[Sight]:
    found = gateway.admin.get_job(job)
    assert found is not None
    with gateway.hub.read() as conn:
        return list(history.sights(conn, found, gateway.hub.hub_id, Range()))


def told(gateway: Gateway, job: str) -> list[tuple[str, str]]:
    """Coordinates and outcome of every message of a job."""
    found = gateway.admin.get_job(job)
    assert found is not None
    with gateway.hub.read() as conn:
        return [(each.origin, each.outcome) for each in history.sights(conn, found, gateway.hub.hub_id, Range())]


def carry(gateway: Gateway, *jobs: str, count: int) -> None:
    """Run the agent until each job has moved so many messages in all."""
    with gateway.run():
        for job in jobs:
            eventually(partial(_has_moved, gateway, job, count), what=f"{count} moved by {job}")


def _has_moved(gateway: Gateway, job: str, count: int) -> bool:
    return int(gateway.job(job)["PROPAGATED_TOTAL"]) >= count


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = execute(list(words))
    shown = capsys.readouterr()
    return code, shown.out, shown.err


# ---------------------------------------------------------------------------------------------------------- recording


def test_a_message_is_followed_from_its_source_through_the_hub_to_its_destination(
    gateway: Gateway, broker: MemoryBroker
) -> None:
    gateway.admin.create_job("into", "INBOUND", "LOG@mem", "H")
    gateway.admin.create_job("out", "OUTBOUND", "H", "DST@mem")
    broker.put("LOG", *messages(100))
    carry(gateway, "into", "out", count=100)
    followed = traced(gateway, "into", "LOG@41")
    assert [(each.job, each.kind) for each in followed.sights] == [("into", Kind.RECEIVED), ("out", Kind.COMPLETED)]
    received, completed = followed.sights
    assert (received.outcome, completed.outcome) == (Outcome.STORED, Outcome.SENT)
    assert received.messages == completed.messages
    assert received.started is not None
    assert received.finished is not None
    assert completed.started is not None
    assert completed.finished is not None
    assert received.started <= received.finished <= completed.started <= completed.finished
    assert list(followed.states.values()) == [None], "it has left the hub"
    sent = broker.queue("DST").messages[41]
    assert sent.header(MESSAGE_ID) == f"AQMSGID:{received.messages[0]}"
    assert completed.places == ("DST@41",)
    by_id = traced(gateway, "out", f"AQMSGID:{received.messages[0]}")
    assert [replace(each) for each in by_id.sights] == list(followed.sights)
    for job in ("into", "out"):
        proof = reconciled(gateway, job)
        assert proof.holds, proof.offences
        assert (proof.messages, proof.uncertain, proof.planned) == (100, 0, 0)


def test_messages_of_many_priorities_are_followed_through_a_queue_by_priority(
    gateway: Gateway, broker: MemoryBroker
) -> None:
    gateway.queue("P", sort_list="PRIORITY")
    gateway.admin.create_job("into", "INBOUND", "LOG@mem", "P")
    broker.put("LOG", *(replace(each, priority=at * 7 % 3) for at, each in enumerate(messages(60))))
    carry(gateway, "into", count=60)
    place = {sight.origin: sight.messages for sight in traced_all(gateway, "into")}
    with gateway.hub.session() as session:
        taken = [session.dequeue("P", DequeueOptions(wait=0)) for _ in range(60)]
        session.commit()
    numbers = [int(str(each.message.body).split()[1]) for each in taken]
    assert numbers == sorted(range(60), key=lambda at: at * 7 % 3)
    for number, each in zip(numbers, taken, strict=True):
        assert place[f"LOG@{number}"] == (each.msgid.hex(),)
    proof = reconciled(gateway, "into")
    assert (proof.messages, [offence for offence in proof.offences if "RECEIVED" in str(offence)]) == (60, [])


def test_every_inbound_outcome_is_recorded_with_its_reason(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.queue("J", queue_payload_type="JSON")
    gateway.admin.register_foreign_queue("KEYED", "mem", "SRC", options={"MEMORY_UniqueIds": "TRUE"})
    gateway.admin.create_job("into", "INBOUND", "KEYED@mem", "J", rule="priority < 5", exception_queue="BAD@mem")
    broker.put(
        "SRC",
        Message(body='{"n":1}', correlation="a"),
        Message(body='{"n":2}', correlation="b", priority=9),
        Message(body="no json", correlation="c"),
        Message(body='{"n":1}', correlation="a"),
        Message(body='{"n":3}', correlation="d"),
    )
    with gateway.run():
        eventually(lambda: not broker.queue("SRC").messages)
        eventually(lambda: gateway.job("into")["PROPAGATED_TOTAL"] == 2)
    outcomes = ["stored", "filtered", "exception queue", "duplicate suppressed", "stored"]
    assert told(gateway, "into") == [(f"SRC@{at}", outcome) for at, outcome in enumerate(outcomes, _first(gateway))]
    bad = next(each for each in _sights(gateway, "into") if each.outcome == Outcome.EXCEPTION)
    assert "JSON" in bad.reason
    assert not bad.messages
    assert reconciled(gateway, "into").holds


def _sights(gateway: Gateway, job: str) -> list[Sight]:
    found = gateway.admin.get_job(job)
    assert found is not None
    with gateway.hub.read() as conn:
        return list(history.sights(conn, found, gateway.hub.hub_id, Range()))


def _first(gateway: Gateway) -> int:
    return int(_sights(gateway, "into")[0].origin.rpartition("@")[2])


def test_messages_that_nobody_wants_are_recorded_as_discarded(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.queue("M", multiple_consumers=True)
    gateway.queues.add_subscriber("M", "hot", rule="priority > 5")
    gateway.admin.create_job("into", "INBOUND", "LOG@mem", "M")
    broker.put("LOG", Message(body="a", priority=9), Message(body="b", priority=1))
    carry(gateway, "into", count=1)
    with gateway.hub.read() as conn:
        found = gateway.admin.get_job("into")
        assert found is not None
        (record,) = ledger.read(conn, found.id)
    assert [entry.outcome for entry in record.entries] == [Outcome.STORED, Outcome.UNROUTED]
    assert reconciled(gateway, "into").holds


def test_every_outbound_outcome_is_recorded_with_its_reason(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.queue("X")
    celsius = {"set": {"body.c": "tab.user_data.f - 32"}, "where": "priority < 5"}
    gateway.admin.create_transformation("c", "BASIC", "BASIC", celsius)
    gateway.admin.create_job("out", "OUTBOUND", "H", "DST@mem", transformation="c", exception_queue="X")
    given = [Message(body='{"f":1}'), Message(body='{"f":2}', priority=9), Message(body='{"f":"x"}')]
    identities = gateway.enqueue("H", given)
    with gateway.run():
        eventually(lambda: gateway.job("out")["PROPAGATED_TOTAL"] == 1)
    found = {each.messages[0]: each for each in _sights(gateway, "out")}
    outcomes = [found[identity.hex()].outcome for identity in identities]
    assert outcomes == [Outcome.SENT, Outcome.FILTERED, Outcome.EXCEPTION]
    assert found[identities[2].hex()].reason
    assert reconciled(gateway, "out").holds


def test_a_message_that_expired_before_it_was_sent_is_counted_told_and_kept(
    gateway: Gateway, broker: MemoryBroker
) -> None:
    gateway.queue("M", multiple_consumers=True)
    gateway.admin.create_job("out", "OUTBOUND", "H", "DST@mem")
    gateway.admin.create_job("fan", "OUTBOUND", "M", "DST@mem")
    broker.fail_next("publish", LinkUnavailable("the wire was cut", operation="publish"), times=1000)
    given = [Message(body="late", expiration=3600), Message(body="patient")]
    late = [gateway.enqueue(queue, given)[0].hex() for queue in ("H", "M")]
    with gateway.run():
        eventually(lambda: all(gateway.job(job)["FAILURES"] >= 1 for job in ("out", "fan")))
    while broker.next_fault("publish"):
        pass
    for table in ("aq_message", "aq_entry"):
        change(gateway, f"UPDATE {table} SET expires_at = ready_at WHERE expires_at IS NOT NULL")
    with gateway.run():
        for job in ("out", "fan"):
            eventually(partial(_has_moved, gateway, job, 1))
        eventually(lambda: "expired" in str(traced(gateway, "out", late[0]).states[late[0]]))
        eventually(lambda: "expired" in str(traced(gateway, "fan", late[1]).states[late[1]]))
    assert [message.body for message in broker.queue("DST").messages] == ["patient", "patient"]
    for job, queue, identity in (("out", "H", late[0]), ("fan", "M", late[1])):
        assert (gateway.job(job)["PROPAGATED_TOTAL"], gateway.job(job)["DISCARDED_TOTAL"]) == (1, 1)
        (sight,) = [each for each in traced(gateway, job, identity).sights if each.finished]
        assert (sight.outcome, sight.reason) == (Outcome.OVERDUE, "an earlier attempt failed and may have sent it")
        proof = reconciled(gateway, job)
        assert proof.holds, proof.offences
        assert f"1 messages of queue {queue} expired there; they are in exception queue AQ$_{queue}_QT_E" in proof.notes
        assert _told(gateway, f"job {job}: 1 message(s) not sent because they had expired")
        assert _told(gateway, f"queue {queue}: 1 message(s) expired")


def test_the_sending_log_proves_nothing_of_a_message_that_expired_before_its_batch_was_sent(
    gateway: Gateway, broker: MemoryBroker
) -> None:
    """The batch is in the log without it, and a crash comes before the hub knows."""
    gateway.admin.create_msgsystem_link("logged", "MEMORY", {"broker": broker.name}, outbound_log_queue="SENT")
    gateway.admin.register_foreign_queue("DST", "logged")
    gateway.admin.create_job("out", "OUTBOUND", "H", "DST@logged")
    broker.fail_next("publish", LinkUnavailable("the wire was cut", operation="publish"), times=1000)
    late = gateway.enqueue("H", [Message(body="late", expiration=3600), Message(body="patient")])[0].hex()
    with gateway.run():
        eventually(lambda: gateway.job("out")["FAILURES"] >= 1)
    while broker.next_fault("publish"):
        pass
    change(gateway, "UPDATE aq_message SET expires_at = ready_at WHERE expires_at IS NOT NULL")
    broker.fail_next("confirm", LinkUnavailable("the wire was cut again", operation="confirm"))
    with gateway.run():
        gateway.admin.reset_job("out")
        eventually(partial(_has_moved, gateway, "out", 1))
        eventually(lambda: "expired" in str(traced(gateway, "out", late).states.get(late)))
    assert [message.body for message in broker.queue("DST").messages] == ["patient"]
    row = gateway.job("out")
    assert (row["PROPAGATED_TOTAL"], row["SUPPRESSED_TOTAL"], row["DISCARDED_TOTAL"]) == (1, 1, 1)
    (sight,) = [each for each in traced(gateway, "out", late).sights if each.finished]
    assert sight.outcome == Outcome.OVERDUE
    assert _told(gateway, "job out: 1 message(s) not sent because they had expired")
    proof = reconciled(gateway, "out")
    assert proof.holds, proof.offences


def test_a_message_that_nobody_took_in_time_is_told(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.queue("M", multiple_consumers=True)
    gateway.admin.create_job("out", "OUTBOUND", "H", "DST@mem", enabled=False)
    gateway.admin.create_job("fan", "OUTBOUND", "M", "DST@mem", enabled=False)
    identities = {queue: gateway.enqueue(queue, [Message(body="x", expiration=0.01)])[0].hex() for queue in ("H", "M")}
    with gateway.run():
        for queue in identities:
            start = f"queue {queue}: 1 message(s) expired because nobody consumed them in time; "
            eventually(partial(_told, gateway, f"{start}they are in exception queue AQ$_{queue}_QT_E"))
    for job, queue in (("out", "H"), ("fan", "M")):
        (note,) = [each for each in reconciled(gateway, job).notes if "expired" in each]
        assert note == f"1 messages of queue {queue} expired there; they are in exception queue AQ$_{queue}_QT_E"
        followed = traced(gateway, job, identities[queue])
        told = f"queue AQ$_{queue}_QT_E: it expired in queue {queue}, because it was not dequeued in time"
        assert (followed.sights, followed.states) == ([], {identities[queue]: told})


def _told(gateway: Gateway, start: str) -> bool:
    return any(event.startswith(start) for event in gateway.events())


def test_a_batch_that_was_taken_back_is_recorded_as_returned(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.admin.create_transformation("c", "BASIC", "BASIC", {"set": {"body.c": "tab.user_data.f - 32"}})
    gateway.admin.create_job("out", "OUTBOUND", "H", "DST@mem", transformation="c")
    identities = gateway.enqueue("H", [Message(body=body) for body in ('{"f":1}', '{"f":"x"}')])
    with gateway.run():
        eventually(lambda: gateway.job("out")["FAILURES"] >= 2)
    first, poison = (traced(gateway, "out", identity.hex()) for identity in identities)
    assert [each.outcome for each in first.sights] == [Outcome.RETURNED, Outcome.SENT]
    assert {each.outcome for each in poison.sights} == {Outcome.RETURNED}
    assert "ready" in str(poison.states[identities[1].hex()])
    proof = reconciled(gateway, "out")
    assert proof.holds, proof.offences
    assert any(note.startswith("1 messages were planned, returned") for note in proof.notes)


def test_a_batch_that_the_sending_log_proves_is_recorded_as_proven(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.admin.create_msgsystem_link("log", "MEMORY", {"broker": broker.name}, outbound_log_queue="SENT")
    gateway.admin.register_foreign_queue("DST", "log")
    gateway.admin.create_job("out", "OUTBOUND", "H", "DST@log")
    gateway.enqueue("H", messages(50))
    broker.fail_next("confirm", LinkUnavailable("the wire was cut", operation="confirm"))
    with gateway.run():
        eventually(lambda: gateway.job("out")["FAILURES"] == 1)
        gateway.admin.reset_job("out")
        eventually(lambda: gateway.job("out")["PROPAGATED_TOTAL"] == 50)
    proof = reconciled(gateway, "out")
    assert proof.holds, proof.offences
    assert proof.outcomes[Outcome.PROVEN] > 0
    assert proof.outcomes[Outcome.PROVEN] + proof.outcomes[Outcome.SENT] == 50


def test_a_planned_message_is_shown_as_planned(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.admin.create_job("out", "OUTBOUND", "H", "DST@mem")
    (identity,) = gateway.enqueue("H", messages(1))
    broker.fail_next("publish", LinkUnavailable("the wire was cut", operation="publish"), times=100)
    with gateway.run():
        eventually(lambda: gateway.job("out")["FAILURES"] == 1)
    followed = traced(gateway, "out", identity.hex())
    assert [each.finished for each in followed.sights] == [None]
    assert "planned by a job" in str(followed.states[identity.hex()])
    proof = reconciled(gateway, "out")
    assert (proof.holds, proof.planned, proof.messages) == (True, 1, 0)


def test_the_place_of_every_message_at_its_destination_is_recorded(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.queue("X")
    definition = {"set": {"body.c": "tab.user_data.f - 32"}, "where": "priority < 5"}
    gateway.admin.create_transformation("c", "BASIC", "BASIC", definition)
    gateway.admin.create_job("out", "OUTBOUND", "H", "DST@mem", transformation="c", exception_queue="X")
    given = [Message(body=f'{{"f":{number}}}', priority=9 * (number % 3 == 1)) for number in range(50)]
    given[7] = Message(body='{"f":"x"}')
    gateway.enqueue("H", given)
    wanted = sum(message.priority < 5 for message in given) - 1
    carry(gateway, "out", count=wanted)
    found = _sights(gateway, "out")
    placed = {place: each.messages[0] for each in found for place in each.places}
    assert all(bool(each.places) == (each.outcome == Outcome.SENT) for each in found)
    sent = broker.queue("DST").messages
    assert len(sent) == wanted
    for at, message in enumerate(sent):
        assert message.header(MESSAGE_ID) == f"AQMSGID:{placed[f'DST@{at}']}"
    (one,) = traced(gateway, "out", "DST@3").sights
    assert one.messages == (placed["DST@3"],)
    assert one.started is not None
    assert one.sent is not None
    assert one.confirmed is not None
    assert one.finished is not None
    assert one.started - 0.001 <= one.sent <= one.confirmed <= one.finished + 0.001
    assert reconciled(gateway, "out").holds


def test_a_message_that_became_several_has_several_places(gateway: Gateway, broker: MemoryBroker) -> None:
    found = Completed(1, (11, 12, 13), (12,), placement=Placement(["q@"], [[4, 3]]), parts={11: 2})
    gateway.admin.create_job("out", "OUTBOUND", "H", "DST@mem")
    job = gateway.admin.get_job("out")
    assert job is not None
    with gateway.hub.write() as conn:
        run_state.add_plans(conn, job.id, [run_state.Plan(1, found.ids)], token=1, now=1.0)
        ledger.record_completed(conn, job.id, [found], now=1.0)
        run_state.delete_plans(conn, job.id, [1])
    assert [each.places for each in _sights(gateway, "out")] == [("q@4", "q@5"), (), ("q@6",)]
    assert reconciled(gateway, "out").holds


def test_a_record_with_a_place_too_few_is_noticed(gateway: Gateway) -> None:
    found = Completed(1, (11, 12), placement=Placement(["q@"], [[4, 1]]))
    gateway.admin.create_job("out", "OUTBOUND", "H", "DST@mem")
    job = gateway.admin.get_job("out")
    assert job is not None
    with gateway.hub.write() as conn:
        run_state.add_plans(conn, job.id, [run_state.Plan(1, found.ids)], token=1, now=1.0)
        ledger.record_completed(conn, job.id, [found], now=1.0)
        run_state.delete_plans(conn, job.id, [1])
    assert any(
        "names 1 places at the destination for 2 messages" in each for each in reconciled(gateway, "out").offences
    )


def test_nothing_is_kept_at_the_destination_without_a_ledger(gateway: Gateway, broker: MemoryBroker) -> None:
    from mgw.links.memory.destination import MemoryDestination

    made: list[MemoryDestination] = []
    gateway.admin.set_agent_option("DEFAULT_AGENT", "ledger_retention", "0")
    gateway.admin.create_job("out", "OUTBOUND", "H", "DST@mem")
    with pytest.MonkeyPatch.context() as patch:
        connect = MemoryDestination.connect
        patch.setattr(MemoryDestination, "connect", lambda self: (made.append(self), connect(self))[1])
        gateway.enqueue("H", messages(100))
        carry(gateway, "out", count=100)
    assert made
    assert not any(each._located for each in made)


# ------------------------------------------------------------------------------------------------------------- crashes


def crash_before_settling(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next batch is stored, and the job fails before it is acknowledged: what a killed agent leaves."""
    real = Route._complete_and_plan
    left = [1]

    def commit(self: Route, *given: Any) -> Any:
        result = real(self, *given)
        if left.pop() if left else 0:
            raise LinkUnavailable("killed between store and settle", operation="settle")
        return result

    monkeypatch.setattr(Route, "_complete_and_plan", commit)


def test_a_crash_before_the_acknowledgement_shows_as_twice_where_nothing_tells_copies_apart(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gateway.admin.create_job("into", "INBOUND", "SRC@mem", "H")
    broker.put("SRC", *messages(5))
    crash_before_settling(gateway, monkeypatch)
    with gateway.run():
        eventually(lambda: gateway.job("into")["FAILURES"] == 1)
        gateway.admin.reset_job("into")
        eventually(lambda: len(gateway.browse("H")) == 10)
        eventually(lambda: not broker.queue("SRC").messages)
    proof = reconciled(gateway, "into")
    assert len(proof.offences) == 5
    assert all("came twice" in each for each in proof.offences)
    origin = _sights(gateway, "into")[0].origin
    assert traced(gateway, "into", origin).offences == [f"{origin} came 2 times to job into"]
    code, out, _ = run(capsys, "--hub", gateway.url, "prove", "into", origin)
    assert code == 1
    assert "! " in out
    assert run(capsys, "--hub", gateway.url, "prove", "into")[0] == 1


def test_a_crash_before_the_acknowledgement_shows_as_duplicates_where_ids_are_unique(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.admin.register_foreign_queue("KEYED", "mem", "SRC", options={"MEMORY_UniqueIds": "TRUE"})
    gateway.admin.create_job("into", "INBOUND", "KEYED@mem", "H")
    broker.put("SRC", *(Message(body="b", correlation=f"id-{number}") for number in range(5)))
    crash_before_settling(gateway, monkeypatch)
    with gateway.run():
        eventually(lambda: gateway.job("into")["FAILURES"] == 1)
        gateway.admin.reset_job("into")
        eventually(lambda: gateway.job("into")["SUPPRESSED_TOTAL"] == 5)
    proof = reconciled(gateway, "into")
    assert proof.holds, proof.offences
    assert proof.outcomes == {Outcome.STORED: 5, Outcome.DUPLICATE: 5}
    assert proof.uncertain == 0


def test_redelivered_messages_without_lasting_coordinates_are_called_uncertain(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mgw.links.memory.source import MemorySource

    deliver = MemorySource._deliver
    monkeypatch.setattr(MemorySource, "_deliver", lambda self, item: deliver(self, item)._replace(origin="SRC#1"))
    gateway.admin.create_job("into", "INBOUND", "SRC@mem", "H")
    broker.put("SRC", *messages(5))
    crash_before_settling(gateway, monkeypatch)
    with gateway.run():
        eventually(lambda: gateway.job("into")["FAILURES"] == 1)
        gateway.admin.reset_job("into")
        eventually(lambda: len(gateway.browse("H")) == 10)
    proof = reconciled(gateway, "into")
    assert (proof.holds, proof.uncertain) == (True, 5)


def test_a_crash_of_a_job_with_positions_leaves_nothing_twice(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.admin.create_job("into", "INBOUND", "LOG@mem", "H")
    broker.put("LOG", *messages(70))
    crash_before_settling(gateway, monkeypatch)
    with gateway.run():
        eventually(lambda: gateway.job("into")["FAILURES"] == 1)
        gateway.admin.reset_job("into")
        eventually(lambda: len(gateway.browse("H")) == 70)
    proof = reconciled(gateway, "into")
    assert proof.holds, proof.offences
    assert proof.outcomes == {Outcome.STORED: 70}


# ---------------------------------------------------------------------------------------------------- what is noticed


@pytest.fixture
def moved(gateway: Gateway, broker: MemoryBroker) -> Gateway:
    """100 messages through the hub, in several batches, nothing in flight."""
    options = {"max_batch_size": "30"}  # however much waits, a batch is no larger
    gateway.admin.create_job("into", "INBOUND", "LOG@mem", "H", options=options)
    gateway.admin.create_job("out", "OUTBOUND", "H", "DST@mem", options=options)
    broker.put("LOG", *messages(100))
    carry(gateway, "into", "out", count=100)
    return gateway


def change(gateway: Gateway, text: str, **values: Any) -> None:
    with gateway.hub.write() as conn:
        assert conn.execute(sa.text(text), values).rowcount


@pytest.mark.parametrize("job", ["into", "out"])
@pytest.mark.parametrize(
    "damage",
    [
        "detail = x'00'",
        "detail = :empty",
        "detail = :times",
        "detail = :positions",
        "messages = messages + 1",
        "filtered = filtered + 1",
        "sequence = coalesce(sequence, 0) + 70",
        "message_ids = x'0000000000000001'",
    ],
)
def test_a_changed_record_is_noticed(moved: Gateway, job: str, damage: str) -> None:
    assert reconciled(moved, job).holds
    found = moved.admin.get_job(job)
    assert found is not None
    strange = {"empty": packed({}), "times": packed({"t": [1]}), "positions": packed({"p": [[1]]})}
    values = {name: value for name, value in strange.items() if f":{name}" in damage}
    change(moved, f"UPDATE gw_ledger SET {damage} WHERE job_id = {found.id} AND number = 2", **values)
    proof = reconciled(moved, job)
    assert not proof.holds
    assert any("record 2" in each for each in proof.offences), proof.offences


@pytest.mark.parametrize("job", ["into", "out"])
@pytest.mark.parametrize("which", ["2", "(SELECT max(number) FROM gw_ledger g WHERE g.job_id = gw_ledger.job_id)"])
def test_a_record_that_was_taken_out_is_noticed(moved: Gateway, job: str, which: str) -> None:
    found = moved.admin.get_job(job)
    assert found is not None
    change(moved, f"DELETE FROM gw_ledger WHERE job_id = {found.id} AND number = {which}")
    assert not reconciled(moved, job).holds


def test_a_plan_that_vanished_is_noticed(moved: Gateway, broker: MemoryBroker) -> None:
    moved.enqueue("H", messages(1))
    broker.fail_next("publish", LinkUnavailable("the wire was cut", operation="publish"), times=100)
    with moved.run():
        eventually(lambda: moved.job("out")["FAILURES"] == 1)
    assert reconciled(moved, "out").holds
    change(moved, "DELETE FROM gw_plan")
    batch, message = reconciled(moved, "out").offences
    assert "planned, but no record says what happened to it" in batch
    assert message.endswith("is claimed for a plan, but no plan has it: it has no outcome")


def test_a_planned_message_that_vanished_is_noticed(moved: Gateway, broker: MemoryBroker) -> None:
    (identity,) = moved.enqueue("H", messages(1))
    broker.fail_next("publish", LinkUnavailable("the wire was cut", operation="publish"), times=100)
    with moved.run():
        eventually(lambda: moved.job("out")["FAILURES"] == 1)
    change(moved, "DELETE FROM aq_message WHERE id = :id", id=int.from_bytes(identity[8:]))
    (offence,) = reconciled(moved, "out").offences
    assert f"message {identity.hex()} of planned batch" in offence
    assert offence.endswith("is no longer in the queue")


def test_messages_that_wait_for_a_plan_are_counted(moved: Gateway) -> None:
    moved.enqueue("H", messages(7))
    proof = reconciled(moved, "out")
    assert (proof.holds, proof.waiting) == (True, 7)


def test_a_message_set_aside_for_a_subscriber_and_planned_by_nobody_is_noticed(
    gateway: Gateway, broker: MemoryBroker
) -> None:
    gateway.queue("M", multiple_consumers=True)
    gateway.queues.add_subscriber("M", "other")
    gateway.admin.create_job("out", "OUTBOUND", "M", "DST@mem")
    gateway.enqueue("M", messages(3))
    carry(gateway, "out", count=3)
    assert reconciled(gateway, "out").holds
    gateway.enqueue("M", messages(1))
    change(gateway, "UPDATE aq_entry SET state = 8 WHERE state = 0")
    (offence,) = reconciled(gateway, "out").offences
    assert "it has no outcome" in offence


def test_one_message_made_of_two_receptions_is_noticed(moved: Gateway) -> None:
    found = moved.admin.get_job("into")
    assert found is not None
    with moved.hub.write() as conn:
        first = next(iter(ledger.read(conn, found.id)))
        ids = [moved.hub.hub_id + number.to_bytes(8) for entry in first.entries for number in entry.ids]
        deliveries = [Delivery(Message(body="x"), origin=f"LOG@{5000 + at}") for at in range(len(ids))]
        kept = [_Made(each) for each in deliveries]
        counts = run_state.Counts(propagated=len(ids))
        what: dict[str, Any] = {"offered": kept, "kept": kept, "msgids": ids, "refused": ()}
        ledger.record_received(conn, found.id, Batch(deliveries), **what, counts=counts, read=1.0, now=first.finished)
    offences = reconciled(moved, "into").offences
    assert len(offences) == len(ids)
    assert all("was stored twice: in records 1 and" in each for each in offences)


class _Made(NamedTuple):
    delivery: Delivery


def test_source_positions_that_brought_no_message_are_counted(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.admin.create_job("into", "INBOUND", "LOG@mem", "H")
    broker.put("LOG", *messages(20))
    del broker.log("LOG")._entries[12:17]  # compacted away
    carry(gateway, "into", count=15)
    proof = reconciled(gateway, "into")
    assert (proof.holds, proof.vacant) == (True, 5)


def test_a_message_completed_twice_is_noticed(moved: Gateway) -> None:
    found = moved.admin.get_job("out")
    assert found is not None
    with moved.hub.write() as conn:
        first = next(iter(ledger.read(conn, found.id)))
        number = first.entries[0].ids[0]
        run_state.add_plans(conn, found.id, [run_state.Plan(999, (number,))], token=1, now=first.finished)
        ledger.record_completed(conn, found.id, [Completed(999, (number,))], now=first.finished)
    proof = reconciled(moved, "out")
    assert any("was completed twice" in each for each in proof.offences), proof.offences
    assert traced(moved, "out", moved.hub.hub_id.hex() + f"{number:016x}").offences


def test_positions_that_do_not_join_are_noticed(moved: Gateway) -> None:
    change(moved, "UPDATE gw_position SET value = '5000'")
    assert any("partition 0 stands at 5000" in each for each in reconciled(moved, "into").offences)


# -------------------------------------------------------------------------------------------------- ranges, retention


def test_a_range_holds_the_latest_batches_or_those_of_a_time(moved: Gateway) -> None:
    whole = reconciled(moved, "into")
    assert whole.first is not None
    assert whole.last is not None
    some = reconciled(moved, "into", Range(last=10))
    assert 10 <= some.messages < 100
    assert reconciled(moved, "into", Range(until=whole.first)).batches == 0
    assert reconciled(moved, "into", Range(since=whole.last)).messages < 100
    assert reconciled(moved, "out", Range(last=10)).holds


def test_old_records_and_keys_are_pruned_in_pieces_and_the_rest_still_proves(
    moved: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mgw.gateway.runtime.pruning.PRUNE_ROWS", 2)
    change(moved, "UPDATE gw_ledger SET finished = finished - 700000 WHERE number <= 3")
    with moved.hub.write() as conn:
        for number in range(5):
            values = {"key": f"k{number}", "age": 700_000.0 * (number < 3)}
            add = "INSERT INTO gw_received SELECT id, :key, :now - :age FROM gw_job LIMIT 1"
            conn.execute(sa.text(add), values | {"now": moved.hub.clock.now()})
    supervisor = Supervisor(moved.hub, Secrets.for_hub(moved.url), RunOptions(moved.url), PROCEDURES)
    supervisor._agent = supervisor._new_agent()
    supervisor._prune()
    with moved.hub.read() as conn:
        assert conn.execute(sa.text("SELECT min(number) FROM gw_ledger")).scalar() == 4
        assert conn.execute(sa.text("SELECT count(*) FROM gw_received")).scalar() == 2
    assert reconciled(moved, "into").holds
    assert reconciled(moved, "out").holds


def test_others_write_while_old_records_are_pruned(moved: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mgw.gateway.runtime.pruning.PRUNE_ROWS", 5)
    with moved.hub.write() as conn:
        found = moved.admin.get_job("into")
        assert found is not None
        for _ in range(2000):
            ledger.record_break(conn, found.id, "old", now=1.0)
    change(moved, "UPDATE gw_ledger SET finished = 1.0")
    supervisor = Supervisor(moved.hub, Secrets.for_hub(moved.url), RunOptions(moved.url), PROCEDURES)
    supervisor._agent = supervisor._new_agent()
    pruning = threading.Thread(target=supervisor._prune)
    pruning.start()
    try:
        total = _old(moved)
        eventually(lambda: _old(moved) < total, what="the first piece pruned")
        with moved.hub.write() as conn:
            conn.execute(sa.text("UPDATE gw_job_state SET sampled = 1"))
        assert _old(moved) > 0, "everything was pruned before another could write"
        eventually(lambda: not _old(moved), what="the rest pruned", deadline=120)
    finally:
        supervisor._stop.set()
        pruning.join(20)


def _old(gateway: Gateway) -> int:
    with gateway.hub.read() as conn:
        return int(conn.execute(sa.text("SELECT count(*) FROM gw_ledger WHERE finished < 2")).scalar_one())


def test_an_agent_without_ledger_records_nothing_and_the_gap_explains_itself(
    moved: Gateway, broker: MemoryBroker
) -> None:
    moved.admin.set_agent_option("DEFAULT_AGENT", "ledger_retention", "0")
    broker.put("LOG", *messages(100, 100))
    carry(moved, "into", "out", count=200)
    assert len(_sights(moved, "into")) == 100
    moved.admin.remove_agent_option("DEFAULT_AGENT", "ledger_retention")
    broker.put("LOG", *messages(100, 200))
    carry(moved, "into", "out", count=300)
    assert len(_sights(moved, "into")) == 200
    for job in ("into", "out"):
        proof = reconciled(moved, job)
        assert proof.holds, proof.offences
        assert any("the ledger is off" in note for note in proof.notes)


@pytest.mark.parametrize("value", ["-1", "week", "inf", "nan"])
def test_a_retention_that_is_no_number_of_seconds_is_refused(gateway: Gateway, value: str) -> None:
    with pytest.raises(AdminError, match="ledger_retention"):
        gateway.admin.set_agent_option("DEFAULT_AGENT", "Ledger_Retention", value)


def test_records_outlive_their_job_until_they_are_pruned(moved: Gateway) -> None:
    identity = _sights(moved, "into")[0].messages[0]
    with moved.run():
        moved.admin.remove_job("out")
        eventually(lambda: moved.admin.get_job("out") is None)
    assert [each.job.partition(" ")[0] for each in traced(moved, "into", identity).sights] == ["into", "(removed"]


def test_origins_with_line_breaks_come_back(gateway: Gateway) -> None:
    assert unpacked(packed({"o": ["a\nb@1", "c@2"]}))["o"] == ["a\nb@1", "c@2"]
    assert unpacked(packed({"i": 1}, "a@1\nb\ud800@2"))["o"] == ["a@1", "b\ud800@2"]


# -------------------------------------------------------------------------------------------------------- view and CLI


def test_the_view_shows_batches(moved: Gateway) -> None:
    with moved.hub.read() as conn:
        sums = "kind, sum(messages), sum(propagated), min(batch)"
        query = f"SELECT {sums} FROM MGW_LEDGER WHERE job_name = :job GROUP BY kind"
        rows = {job: conn.execute(sa.text(query), {"job": job}).one() for job in ("INTO", "OUT")}
    assert tuple(rows["INTO"]) == ("RECEIVED", 100, 100, 1)
    assert tuple(rows["OUT"]) == ("COMPLETED", 100, 100, 1)


def test_the_command_proves_a_job_and_follows_a_message(moved: Gateway, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--hub", moved.url, "prove", "INTO")
    assert code == 0, out
    assert "job into: 100 messages in" in out
    assert out.splitlines()[-1] == "every message has exactly one outcome"
    code, out, _ = run(capsys, "--hub", moved.url, "prove", "out", "--json", "--list", "--since", "1h")
    shown = json.loads(out)
    assert (code, shown["holds"], shown["messages"], len(shown["list"])) == (0, True, 100, 100)
    code, out, _ = run(capsys, "--hub", moved.url, "prove", "into", "LOG@7")
    assert code == 0
    stages = ("received from LOG@7", "stored, AQMSGID:", "planned in batch", "sent to DST@7", "confirmed", "completed")
    places = [out.find(stage) for stage in (*stages, "has left the hub")]
    assert places == sorted(places)
    assert places[0] > 0
    assert max(map(len, out.splitlines())) <= 80
    identity = shown["list"][0]["messages"][0]
    code, out, _ = run(capsys, "--hub", moved.url, "prove", "out", f"AQMSGID:{identity}", "--json")
    assert (code, len(json.loads(out)["records"])) == (0, 2)


def test_the_command_ends_with_1_and_names_what_is_wrong(moved: Gateway, capsys: pytest.CaptureFixture[str]) -> None:
    change(moved, "DELETE FROM gw_ledger WHERE number = 2")
    code, out, _ = run(capsys, "--hub", moved.url, "prove", "into")
    assert code == 1
    assert "! records 2 to 2 are missing" in out
    code, out, _ = run(capsys, "--hub", moved.url, "prove", "out", "--json")
    assert (code, json.loads(out)["holds"]) == (1, False)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("into", "LOG@5000"), 1, "has no record of message LOG@5000"),
        (("into", "ab" * 16), 1, "is not from this hub"),
        (("nojob",), 1, "does not exist"),
        (("into", "--since", "yesterday"), 2, "is not a time"),
        (("into", "LOG@1", "--last", "5"), 2, "give one of them"),
    ],
)
def test_bad_input_is_refused_with_a_reason(
    moved: Gateway, capsys: pytest.CaptureFixture[str], words: Sequence[str], code: int, says: str
) -> None:
    found, _, err = run(capsys, "--hub", moved.url, "prove", *words)
    assert found == code
    assert says in err


def test_the_administration_can_be_asked_without_the_command(moved: Gateway) -> None:
    job = GatewayAdmin(moved.hub).get_job("into")
    assert job is not None
    with moved.hub.read() as conn, pytest.raises(GatewayError, match="has no record"):
        history.trace(conn, job, moved.hub.hub_id, "nowhere@1")


@pytest.mark.postgresql
def test_a_hub_on_postgresql_proves_and_prunes_alike(postgresql: PostgreSQL, broker: MemoryBroker) -> None:
    url = postgresql.create_database(f"ledger_{uuid.uuid4().hex}")
    broker.log("LOG")
    broker.queue("DST")
    with gateway_on(url) as gateway:
        gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
        gateway.admin.register_foreign_queue("LOG", "mem")
        gateway.admin.register_foreign_queue("DST", "mem")
        gateway.queue("M", multiple_consumers=True)
        gateway.queues.add_subscriber("M", "other")
        gateway.admin.create_job("into", "INBOUND", "LOG@mem", "M")
        gateway.admin.create_job("out", "OUTBOUND", "M", "DST@mem")
        broker.put("LOG", *messages(100))
        carry(gateway, "into", "out", count=100)
        received, completed = traced(gateway, "into", "LOG@41").sights
        assert (received.outcome, completed.places) == (Outcome.STORED, ("DST@41",))
        for job in ("into", "out"):
            proof = reconciled(gateway, job)
            assert (proof.offences, proof.messages) == ([], 100)
        found = gateway.admin.get_job("into")
        assert found is not None
        with gateway.hub.write() as conn:
            assert run_state.new_keys(conn, found.id, ["a", "b", "a"], now=1.0) == {"a", "b"}
            assert run_state.new_keys(conn, found.id, ["b", "c"], now=2.0) == {"c"}
        with gateway.hub.write() as conn:
            assert upkeep.prune(conn, "DEFAULT_AGENT", before=1e12, limit=3) == 3
            assert upkeep.prune(conn, "DEFAULT_AGENT", before=1.0, limit=3) == 0
            while upkeep.prune(conn, "DEFAULT_AGENT", before=1e12, limit=3):
                pass
        assert [reconciled(gateway, job).batches for job in ("into", "out")] == [0, 0]
        gateway.enqueue("M", messages(1))
        change(gateway, "UPDATE aq_entry SET state = 8 WHERE state = 0")
        (offence,) = reconciled(gateway, "out").offences
        assert "it has no outcome" in offence
    postgresql.drop_database(url.rpartition("/")[2])
