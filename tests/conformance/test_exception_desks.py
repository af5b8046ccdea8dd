"""The exception desk with many messages, several desks at once, and queues of other shapes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mgw.gateway.aq import transfer
from mgw.gateway.services.exceptions import (
    EVERYTHING,
    Change,
    Desk,
    DeskRefused,
    Outcome,
    Pace,
    Which,
    desk_of,
    hub_desk,
)
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.errors import AqError, ConversionFailure
from mgw.transforms.message import Message
from mgw.transforms.payloads.exception_message import for_exception_queue
from tests.conformance.test_exception_desk import TRANSFORMATION, bodies, hub_url, hubs
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually

__all__ = ["hub_url", "hubs"]  # fixtures


@pytest.fixture
def gateway(hub_url: str) -> Iterator[Gateway]:
    """An empty hub with the link of :func:`made`."""
    with gateway_on(hub_url) as gateway:
        yield gateway


def made(gateway: Gateway, broker: MemoryBroker, *, source: Any = (), exceptions: Any = ()) -> None:
    """Job ``out`` from Q with exception queue BAD; their queue tables have these attributes."""
    broker.queue("DST")
    gateway.queue("Q", **dict(source))
    gateway.queue("BAD", **dict(exceptions))
    gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
    gateway.admin.register_foreign_queue("DST", "mem")
    gateway.admin.create_job("out", "OUTBOUND", "Q", "DST@mem", exception_queue="BAD")


def failed(gateway: Gateway, count: int, *, origin: str = "Q", job: str = "out", body: str = "") -> list[str]:
    """So many messages are in BAD as the job writes them; their bodies."""
    failure = ConversionFailure("it cannot be converted", cause="the test", number=722)
    given = [Message(body=f"{body}{number:04}") for number in range(count)]
    if given:
        gateway.enqueue("BAD", [for_exception_queue(each, failure, job, origin, now=1000.0) for each in given])
    return [str(each.body) for each in given]


def replayed(
    desk: Desk,
    which: Which = EVERYTHING,
    *,
    limit: int | None = None,
    pace: Pace | None = None,
    dry: bool = False,
) -> Outcome:
    return desk.replay(which, by="me", limit=limit, pace=pace or Pace(None), dry=dry)


def discarded(desk: Desk, which: Which = EVERYTHING) -> Outcome:
    return desk.discard(which, by="me", limit=None, pace=Pace(None), dry=False)


@pytest.mark.parametrize("count", [0, 1, 4, 5, 6, 10])
def test_all_messages_are_seen_however_many_pages_they_fill(
    gateway: Gateway, broker: MemoryBroker, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_desk, "_PAGE", 5)
    made(gateway, broker)
    given = failed(gateway, count)
    desk = desk_of(gateway.admin, "out")
    assert bodies([entry.message for entry in desk.entries(EVERYTHING)]) == given
    assert len(replayed(desk).done) == count
    assert bodies(gateway.browse("Q")) == given


def test_entries_without_bodies_are_read_once(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(gateway, broker)
    failed(gateway, 5)
    desk = desk_of(gateway.admin, "out")
    whole = list(desk.entries(EVERYTHING))
    monkeypatch.setattr(hub_desk.HubDesk, "_one", lambda *_: pytest.fail("it is read again"))
    bare = list(desk.entries(EVERYTHING, whole=False))
    assert [(each.id, each.job, each.reason) for each in bare] == [(each.id, each.job, each.reason) for each in whole]
    assert {(each.message.body, each.message.headers) for each in bare} == {(None, ())}
    assert list(desk.entries(EVERYTHING, 2, whole=False)) == bare[:2]


def test_batches_keep_the_order_and_each_has_its_event(gateway: Gateway, broker: MemoryBroker) -> None:
    made(gateway, broker)
    given = failed(gateway, 230)
    assert len(replayed(desk_of(gateway.admin, "out")).done) == 230
    assert bodies(gateway.browse("Q")) == given
    told = [text.partition(" message(s) replayed")[0] for text in gateway.events() if "replayed from" in text]
    assert told == ["job out: 100", "job out: 100", "job out: 30"]


@pytest.mark.parametrize("verb", ["replay", "discard"])
def test_two_desks_at_once_take_each_message_once(gateway: Gateway, broker: MemoryBroker, verb: str) -> None:
    made(gateway, broker)
    given = failed(gateway, 600)
    together = threading.Barrier(2)

    def work(user: str) -> Outcome:
        with gateway_on(gateway.url) as own:
            desk = desk_of(own.admin, "out")
            act = desk.replay if verb == "replay" else desk.discard
            together.wait(60)
            return act(EVERYTHING, by=user, limit=None, pace=Pace(20_000), dry=False)

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(work, ("ann", "ben"))
    assert set(first.done).isdisjoint(second.done)
    assert {**first.failed, **second.failed} == {}
    again = desk_of(gateway.admin, "out")  # what one of them held when the other came by
    _ = replayed(again) if verb == "replay" else discarded(again)
    assert gateway.browse("BAD") == []
    assert sorted(map(str, bodies(gateway.browse("Q")))) == (given if verb == "replay" else [])


def test_a_desk_and_a_program_take_each_message_once(gateway: Gateway, broker: MemoryBroker) -> None:
    made(gateway, broker)
    given = failed(gateway, 3)
    with gateway.hub.session() as session:
        held = session.dequeue("BAD")
        if gateway.hub.postgresql:  # on SQLite the desk waits for the program
            outcome = replayed(desk_of(gateway.admin, "out"))
            assert outcome.numbers == {"done": 2, "gone": 1, "failed": 0}
        session.commit()
    replayed(desk_of(gateway.admin, "out"))
    assert held.message.body == given[0]
    assert bodies(gateway.browse("Q")) == given[1:]


def test_what_was_done_before_an_error_is_told(gateway: Gateway, broker: MemoryBroker) -> None:
    made(gateway, broker)
    given = failed(gateway, 250)
    pace = Pace(100, lambda _: gateway.queues.stop_queue("Q", enqueue=True, dequeue=False))
    outcome = replayed(desk_of(gateway.admin, "out"), pace=pace)
    assert len(outcome.done) == 100
    assert "not enabled for enqueue" in outcome.stopped
    assert bodies(gateway.browse("Q")) == given[:100]
    assert bodies(gateway.browse("BAD")) == given[100:]


def test_a_message_that_the_source_refuses_stays_and_the_others_go(gateway: Gateway, broker: MemoryBroker) -> None:
    made(gateway, broker, source={"max_payload": 10})
    desk = desk_of(gateway.admin, "out")
    failed(gateway, 3)
    second = list(desk.entries(EVERYTHING))[1]
    edited = desk.edit(second.id, Change(body=b"x" * 50), by="me")
    outcome = replayed(desk)
    assert outcome.numbers == {"done": 2, "gone": 0, "failed": 1}
    assert "accepts at most 10" in outcome.failed[edited.id]
    assert bodies(gateway.browse("Q")) == ["0000", "0002"]
    assert bodies(gateway.browse("BAD")) == ["x" * 50]


@pytest.mark.parametrize("dry", [True, False])
def test_a_message_of_another_source_does_not_go_to_this_one(gateway: Gateway, broker: MemoryBroker, dry: bool) -> None:
    made(gateway, broker)
    gateway.queue("BEFORE")
    for origin in ("BEFORE", "GONE", "mgw.q"):
        failed(gateway, 1, origin=origin, body=origin)
    outcome = replayed(desk_of(gateway.admin, "out"), dry=dry)
    assert outcome.numbers == {"done": 1, "gone": 0, "failed": 2}
    assert sorted(outcome.failed.values()) == [
        "it came from queue BEFORE, the job reads Q now",
        "it came from queue GONE, the job reads Q now",
    ]
    assert bodies(gateway.browse("Q")) == ([] if dry else ["mgw.q0000"])


def test_many_refused_messages_are_tried_twice_at_most(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(gateway, broker, source={"max_payload": 10})
    for number in range(20):
        failed(gateway, 1, body=f"{number}" if number % 2 else "x" * 50)
    tried: list[int] = []
    put = transfer.put

    def counted(conn: Any, queue: Any, messages: Any, **more: Any) -> Any:
        tried.append(len(messages))
        return put(conn, queue, messages, **more)

    monkeypatch.setattr(transfer, "put", counted)
    outcome = replayed(desk_of(gateway.admin, "out"))
    assert outcome.numbers == {"done": 10, "gone": 0, "failed": 10}
    assert bodies(gateway.browse("Q")) == [f"{number}0000" for number in range(1, 20, 2)]
    assert tried == [20, *[1] * 19]


@pytest.mark.parametrize("dry", [True, False])
def test_messages_that_are_refused_use_up_no_limit(gateway: Gateway, broker: MemoryBroker, dry: bool) -> None:
    made(gateway, broker, source={"max_payload": 10})
    failed(gateway, 2, origin="ELSEWHERE")
    if not dry:  # a dry run does not ask the source
        failed(gateway, 2, body="x" * 50)
    failed(gateway, 3, body="good")
    outcome = replayed(desk_of(gateway.admin, "out"), limit=2, dry=dry)
    assert outcome.numbers == {"done": 2, "gone": 0, "failed": 2 if dry else 4}
    assert bodies(gateway.browse("Q")) == ([] if dry else ["good0000", "good0001"])


def test_messages_of_other_jobs_and_programs_are_not_shown(gateway: Gateway, broker: MemoryBroker) -> None:
    made(gateway, broker)
    failed(gateway, 1, job="another")
    gateway.enqueue("BAD", [Message(body="not an exception")])
    given = failed(gateway, 1)
    desk = desk_of(gateway.admin, "out")
    assert bodies([entry.message for entry in desk.entries(EVERYTHING)]) == given
    assert len(discarded(desk).done) == 1
    assert len(gateway.browse("BAD")) == 2
    strange = [message.msgid or b"" for message in gateway.browse("BAD")]
    assert replayed(desk, Which(ids=[each.hex() for each in strange])).done == []


def test_a_source_that_groups_by_transaction_is_refused_with_cause_and_cure(
    gateway: Gateway, broker: MemoryBroker
) -> None:
    made(gateway, broker, source={"message_grouping": "TRANSACTIONAL"})
    failed(gateway, 2)
    desk = desk_of(gateway.admin, "out")
    for dry in (True, False):
        with pytest.raises(
            DeskRefused, match=r"replayed to queue Q; .* one group of .*; enqueue each group"
        ) as refusal:
            replayed(desk, dry=dry)
    assert refusal.value.cause
    assert refusal.value.cure
    assert len(discarded(desk).done) == 2


def test_an_exception_queue_that_groups_by_transaction_is_a_desk_like_others(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_desk, "_PAGE", 3)
    made(gateway, broker, exceptions={"message_grouping": "TRANSACTIONAL"})
    given = failed(gateway, 4, body="a") + failed(gateway, 3, body="b")
    desk = desk_of(gateway.admin, "out")
    first, *_ = entries = list(desk.entries(EVERYTHING))
    assert bodies([entry.message for entry in entries]) == given
    desk.edit(first.id, Change(correlation="c"), by="me")
    assert len(replayed(desk).done) == 7
    assert sorted(map(str, bodies(gateway.browse("Q")))) == given
    assert list(desk.entries(EVERYTHING)) == []


def test_an_exception_queue_with_subscribers_wants_one_named_and_replays_for_one_only(
    gateway: Gateway, broker: MemoryBroker
) -> None:
    made(gateway, broker, exceptions={"multiple_consumers": True})
    gateway.queues.add_subscriber("BAD", "ANN")
    given = failed(gateway, 3)
    with pytest.raises(DeskRefused, match=r"several consumers.*--consumer"):
        desk_of(gateway.admin, "out")
    desk = desk_of(gateway.admin, "out", consumer="ANN")
    first = next(desk.entries(EVERYTHING))
    desk.edit(first.id, Change(correlation="c"), by="me")
    gateway.queues.add_subscriber("BAD", "BEN")
    with pytest.raises(DeskRefused, match=r"each of its 2 subscribers has copies.*leave it one subscriber"):
        replayed(desk)
    gateway.queues.remove_subscriber("BAD", "BEN")
    assert len(replayed(desk).done) == 3
    assert sorted(map(str, bodies(gateway.browse("Q")))) == given


def test_what_is_retained_is_not_replayed_again(gateway: Gateway, broker: MemoryBroker) -> None:
    made(gateway, broker)
    gateway.queues.alter_queue("BAD", retention_time=3600)
    given = failed(gateway, 2)
    desk = desk_of(gateway.admin, "out")
    ids = replayed(desk).done
    assert replayed(desk).done == []
    assert replayed(desk, Which(ids=ids)).done == []
    assert bodies(gateway.browse("Q")) == given


def test_a_desk_whose_exception_queue_is_stopped_says_so(gateway: Gateway, broker: MemoryBroker) -> None:
    made(gateway, broker)
    failed(gateway, 1)
    gateway.queues.stop_queue("BAD")
    with pytest.raises(AqError, match="not enabled for dequeue"):
        replayed(desk_of(gateway.admin, "out"))
    assert gateway.browse("Q") == []


def test_a_local_job_has_a_desk_too(gateway: Gateway) -> None:
    for name in ("L", "H", "BAD"):
        gateway.queue(name)
    gateway.admin.create_transformation("celsius", "BASIC", "BASIC", TRANSFORMATION)
    gateway.admin.create_job("loc", "LOCAL", "L", "H", transformation="celsius", exception_queue="BAD")
    gateway.enqueue("L", [Message(body='{"f":"hot"}')])
    with gateway.run():
        eventually(lambda: gateway.job("loc")["EXCEPTIONQ_TOTAL"] == 1)
        desk = desk_of(gateway.admin, "loc")
        (entry,) = desk.entries(EVERYTHING)
        desk.edit(entry.id, Change(body=b'{"f":212}'), by="me")
        assert len(replayed(desk).done) == 1
        eventually(lambda: bodies(gateway.browse("H")) == ['{"f":212}'])
    assert gateway.browse("BAD") == []


def test_an_exception_queue_on_a_link_is_refused_with_cause_and_cure(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.queue("H")
    gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
    for name in ("SRC", "SRCBAD"):
        broker.queue(name)
        gateway.admin.register_foreign_queue(name, "mem")
    gateway.admin.create_job("inj", "INBOUND", "SRC@mem", "H", exception_queue="SRCBAD@mem")
    cause = "the desk reads exception queues of the hub, and of systems whose queues can be looked through"
    with pytest.raises(DeskRefused, match=f"is on link mem; {cause}; read it with"):
        desk_of(gateway.admin, "inj")
