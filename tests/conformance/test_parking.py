"""Jobs that park: the messages of a key keep their order behind one that cannot be delivered, all others pass."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import sqlalchemy as sa

from mgw.gateway.aq import transfer
from mgw.gateway.ledger import check
from mgw.gateway.services.audit_words import told
from mgw.gateway.services.exceptions import DeskRefused, desk_of, give_up, parked_keys, release
from mgw.gateway.services.exceptions.contract import EVERYTHING
from mgw.gateway.services.happenings import audit
from mgw.gateway.state import parked, run_state
from mgw.gateway.state.parked import PARKED, ParkedKey
from mgw.gateway.state.run_state import Plan
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.errors import AdminError, Blame, DeliveryRejected, HubUnavailable, LinkUnavailable
from mgw.transforms.message import Message
from tests.support.gateway_hubs import hub_url, hubs
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually

__all__ = ["hub_url", "hubs"]  # fixtures

STRICT = {"set": {"header.n": "tab.user_data.n * 1"}}  # fails where n is no number
LAX = {"set": {"header.n": "tab.user_data.n"}}


@pytest.fixture(params=[False, True], ids=["one-consumer", "subscribers"])
def subscribers(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def gateway(hub_url: str, broker: MemoryBroker, subscribers: bool) -> Iterator[Gateway]:
    with gateway_on(hub_url) as gateway:
        broker.queue("DST")
        gateway.queue("Q", multiple_consumers=subscribers)
        gateway.queue("BAD")
        gateway.admin.create_transformation("strict", "BASIC", "BASIC", STRICT)
        gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
        gateway.admin.register_foreign_queue("DST", "mem")
        gateway.admin.create_job(
            "out", "OUTBOUND", "Q", "DST@mem", transformation="strict", options={"park_key": "correlation"}
        )
        yield gateway


def send(gateway: Gateway, *given: tuple[str, object]) -> None:
    """Messages of a key; a text cannot be delivered."""
    gateway.enqueue("Q", [Message(body=json.dumps({"n": n}), correlation=key or None) for key, n in given])


def arrived(broker: MemoryBroker) -> list[tuple[str | None, object]]:
    return [(each.correlation, json.loads(str(each.body))["n"]) for each in broker.queue("DST").messages]


def of_key(broker: MemoryBroker, key: str) -> list[object]:
    return [n for correlation, n in arrived(broker) if correlation == key]


def mend(gateway: Gateway) -> None:
    """What could not be delivered can be now."""
    gateway.admin.alter_transformation("strict", definition=LAX)


def keys(gateway: Gateway) -> dict[str, int]:
    return {each.entry.key: each.messages for each in parked_keys(gateway.admin, "out")}


def offences(gateway: Gateway) -> list[str]:
    (job,) = (each for each in gateway.admin.list_jobs() if each.name == "out")
    with gateway.hub.read() as conn:
        return list(check.reconcile(conn, job, gateway.hub.hub_id).offences)


def all_of(gateway: Gateway, broker: MemoryBroker, count: int) -> Callable[[], bool]:
    return lambda: len(arrived(broker)) == count


def test_the_messages_of_a_key_wait_and_all_others_pass(gateway: Gateway, broker: MemoryBroker) -> None:
    send(gateway, ("a", 1), ("b", "bad"), ("a", 2), ("b", 3), ("c", 4), ("b", 5), ("a", 6))
    with gateway.run():
        eventually(all_of(gateway, broker, 4))
        send(gateway, ("b", 7), ("a", 8))
        eventually(all_of(gateway, broker, 5))
        eventually(lambda: keys(gateway) == {"b": 4})
        assert of_key(broker, "b") == []
        assert of_key(broker, "a") == [1, 2, 6, 8]
        (waiting,) = parked_keys(gateway.admin)
        assert waiting.entry.error_number == 722
        assert "strict" in waiting.entry.reason
        eventually(lambda: gateway.job("out")["BACKLOG"] == 4)
        with gateway.hub.read() as conn:
            (shown,) = conn.execute(sa.text("SELECT * FROM MGW_PARKED")).mappings()
        told = {name.upper(): value for name, value in shown.items()}
        assert (told["JOB_NAME"], told["MESSAGE_KEY"], told["MESSAGES"], told["ERROR_NUMBER"]) == ("OUT", "b", 4, 722)
        mend(gateway)
        release(gateway.admin, "out", by="me")
        eventually(all_of(gateway, broker, 9))
    assert of_key(broker, "b") == ["bad", 3, 5, 7]
    assert keys(gateway) == {}
    assert offences(gateway) == []


def test_a_message_that_fails_again_stays_the_first(gateway: Gateway, broker: MemoryBroker) -> None:
    send(gateway, ("b", "bad"), ("b", 1), ("b", "worse"), ("b", 2))
    with gateway.run():
        eventually(lambda: keys(gateway) == {"b": 4})
        release(gateway.admin, "out", ["b"], by="me")
        eventually(lambda: [each.entry.attempts for each in parked_keys(gateway.admin)] >= [2])
        send(gateway, ("b", 3), ("a", 1))
        eventually(all_of(gateway, broker, 1))
        eventually(lambda: keys(gateway) == {"b": 5})
        mend(gateway)
        release(gateway.admin, "out", ["b"], by="me")
        eventually(all_of(gateway, broker, 6))
    assert of_key(broker, "b") == ["bad", 1, "worse", 2, 3]


def test_a_message_that_is_given_up_goes_to_the_exception_queue_and_the_others_follow(
    gateway: Gateway, broker: MemoryBroker
) -> None:
    send(gateway, ("b", "bad"), ("b", 1), ("b", "worse"), ("b", 2))
    with gateway.run():
        eventually(lambda: keys(gateway) == {"b": 4})
        with pytest.raises(DeskRefused, match="no exception queue"):
            give_up(gateway.admin, "out", ["b"], by="me")
        gateway.admin.alter_job("out", exception_queue="BAD")
        eventually(lambda: gateway.job("out")["ACTIVITY"] in {"IDLE", "RUNNING"})
        give_up(gateway.admin, "out", ["b"], by="me")
        eventually(lambda: of_key(broker, "b") == [1])
        eventually(lambda: keys(gateway) == {"b": 2})
        give_up(gateway.admin, "out", ["b"], by="me")
        eventually(lambda: of_key(broker, "b") == [1, 2])
    bodies = [json.loads(str(each.message.body))["n"] for each in desk_of(gateway.admin, "out").entries(EVERYTHING)]
    assert bodies == ["bad", "worse"]
    assert [(each.actor, told(each)) for each in audit(gateway.hub, 2)] == [
        ("me", "give up parked keys out (keys: ['b'])")
    ] * 2
    assert [text for text in gateway.events() if "given up by me" in text]
    assert offences(gateway) == []


def test_after_so_many_attempts_the_exception_queue_gets_it(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.admin.alter_job("out", exception_queue="BAD", options={"park_attempts": "2"})
    send(gateway, ("b", "bad"), ("b", 1))
    with gateway.run():
        eventually(lambda: of_key(broker, "b") == [1])
    assert gateway.job("out")["EXCEPTIONQ_TOTAL"] == 1
    assert keys(gateway) == {}


def test_what_is_parked_survives_a_restart(gateway: Gateway, broker: MemoryBroker) -> None:
    send(gateway, ("b", "bad"), ("b", 1), ("a", 1))
    with gateway.run():
        eventually(lambda: keys(gateway) == {"b": 2})
    send(gateway, ("b", 2), ("a", 2))
    with gateway.run():
        eventually(lambda: of_key(broker, "a") == [1, 2])
        eventually(lambda: keys(gateway) == {"b": 3})
    mend(gateway)
    release(gateway.admin, "out", by="me")
    with gateway.run():
        eventually(lambda: of_key(broker, "b") == ["bad", 1, 2])
    assert offences(gateway) == []


def test_a_message_without_a_key_goes_the_way_of_all_others(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.admin.alter_job("out", exception_queue="BAD")
    send(gateway, ("", "bad"), ("", 1))
    with gateway.run():
        eventually(lambda: arrived(broker) == [(None, 1)])
        eventually(lambda: gateway.job("out")["EXCEPTIONQ_TOTAL"] == 1)
    assert keys(gateway) == {}


def test_a_message_refused_in_a_plan_that_was_sent_is_not_taken_for_sent_after_a_failure(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sending log proves the plan, of which the refused message was never a part."""
    gateway.admin.alter_msgsystem_link("mem", {"outbound_log_queue": "SENT"})
    gateway.admin.alter_job("out", exception_queue="BAD")
    real, met = transfer.complete, list[object]()

    def failing(*arguments: Any, **named: Any) -> Any:
        if not met:
            met.append(arguments)
            raise HubUnavailable("the hub is away", cause="test")
        return real(*arguments, **named)

    monkeypatch.setattr(transfer, "complete", failing)
    send(gateway, ("", "bad"), ("", 1))
    with gateway.run():
        eventually(lambda: gateway.job("out")["PROPAGATED_TOTAL"] == 1)
        eventually(lambda: gateway.plans("out") == [])
    assert met
    assert arrived(broker) == [(None, 1)]
    assert [json.loads(str(each.body))["n"] for each in gateway.browse("BAD")] == ["bad"]


def test_a_job_that_parks_no_more_gives_back_what_it_parked(gateway: Gateway, broker: MemoryBroker) -> None:
    send(gateway, ("b", "bad"), ("b", 1), ("a", 1))
    with gateway.run():
        eventually(lambda: keys(gateway) == {"b": 2})
        with pytest.raises(AdminError, match="another park_key"):
            gateway.admin.alter_job("out", options={"park_key": "partition_key"})
        mend(gateway)
        gateway.admin.alter_job("out", options={"park_key": None})
        eventually(lambda: of_key(broker, "b") == ["bad", 1])
    assert keys(gateway) == {}


def test_no_more_are_parked_than_may_be(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.admin.alter_job("out", options={"park_messages": "3"})
    send(gateway, *[("b", "bad")] * 5, ("a", 1))
    with gateway.run():
        eventually(lambda: "park_messages" in str(gateway.job("out")["LAST_ERROR_MSG"]))
        assert gateway.job("out")["STATUS"] == "RETRY"
        gateway.admin.alter_job("out", options={"park_messages": "10"})
        eventually(lambda: of_key(broker, "a") == [1])
        eventually(lambda: keys(gateway) == {"b": 5})


def test_a_job_with_parked_messages_that_is_removed_leaves_them_in_the_queue(
    gateway: Gateway, broker: MemoryBroker, subscribers: bool
) -> None:
    send(gateway, ("b", "bad"), ("b", 1))
    with gateway.run():
        eventually(lambda: keys(gateway) == {"b": 2})
    if not subscribers:
        gateway.admin.remove_job("out", force=True)
        assert len(gateway.browse("Q")) == 2


@pytest.mark.parametrize(
    ("kind", "ends", "key", "said"),
    [("INBOUND", ("DST@mem", "Q"), "correlation", "INBOUND"), ("OUTBOUND", ("R", "DST@mem"), "no such(", "expression")],
)
def test_a_key_that_no_job_can_have_is_refused(
    gateway: Gateway, kind: str, ends: Sequence[str], key: str, said: str
) -> None:
    gateway.queue("R")
    with pytest.raises(AdminError, match=said):
        gateway.admin.create_job("other", kind, *ends, options={"park_key": key})


def test_a_first_message_that_somebody_else_took_is_not_waited_for(gateway: Gateway, subscribers: bool) -> None:
    send(gateway, ("a", 1), ("a", 2), ("a", 3))
    consumer = "MGW_out" if subscribers else None
    with gateway.hub.write() as conn:
        queue = transfer.resolve(conn, "Q")
        first, second, third = (each.id for each in transfer.claim(conn, queue, consumer, 3))
        transfer.release(conn, queue, consumer, [third])
        transfer.complete(conn, queue, consumer, [first])
    with gateway.hub.read() as conn:
        assert transfer.unfinished(conn, queue, consumer, [first, second, third]) == {second, third}


def test_what_somebody_decided_is_not_forgotten_when_more_messages_are_parked(gateway: Gateway) -> None:
    send(gateway, ("a", 1), ("a", 2))
    (job,) = (each for each in gateway.admin.list_jobs() if each.name == "out")
    entry = ParkedKey(0, "a", PARKED, 1, 1, 1, False, "why", None, 10.0, 1e12)
    with gateway.hub.write() as conn:
        parked.insert(conn, job.id, entry, (1,), token=1)
    gateway.admin.alter_job("out", exception_queue="BAD")
    assert give_up(gateway.admin, "out", ["a"], by="me") == ["a"]
    with gateway.hub.write() as conn:
        parked.append(conn, job.id, entry.number, (2,))  # the route has not looked yet
        (found,) = parked.load(conn, job.id)
        assert (found.give_up, found.next_attempt < 1e12) == (True, True)
        parked.begin_attempt(conn, job.id, found)
        parked.end_attempt(conn, job.id, found)
        assert [(each.give_up, each.state) for each in parked.load(conn, job.id)] == [(True, PARKED)]
        assert parked.messages(conn, job.id, entry.number) == [1, 2]


def _crashed(gateway: Gateway, consumer: str | None, head: int) -> None:
    """An agent planned four messages of a key, two by two; it parked the one at ``head`` of the second plan, and died
    before it knew that the first plan is at the destination."""
    (job,) = (each for each in gateway.admin.list_jobs() if each.name == "out")
    with gateway.hub.write() as conn:
        queue = transfer.resolve(conn, "Q")
        ids = [each.id for each in transfer.claim(conn, queue, consumer, 4)]
        gone, left = ids[2 + head :], ids[2 : 2 + head]
        plans = [Plan(1, tuple(ids[:2])), *([Plan(2, tuple(left))] if left else [])]
        run_state.add_plans(conn, job.id, plans, token=1, now=10.0)
        entry = ParkedKey(0, "a", PARKED, gone[0], 2, 1, False, "why", None, 10.0, 1e12)
        parked.insert(conn, job.id, entry, gone[:1], token=1)
        if gone[1:]:
            parked.append(conn, job.id, entry.number, gone[1:])


@pytest.mark.parametrize("head", [0, 1])
def test_what_was_planned_before_a_message_that_is_parked_goes_before_it(
    gateway: Gateway, broker: MemoryBroker, subscribers: bool, head: int
) -> None:
    send(gateway, *(("a", n if n != 2 + head else "bad") for n in range(4)), ("a", 4), ("b", 5))
    _crashed(gateway, "MGW_out" if subscribers else None, head)
    with gateway.run():
        eventually(lambda: of_key(broker, "a") == list(range(2 + head)), what="what goes before")
        eventually(lambda: of_key(broker, "b") == [5])
        eventually(lambda: keys(gateway) == {"a": 3 - head})
        mend(gateway)
        release(gateway.admin, "out", by="me")
        eventually(all_of(gateway, broker, 6))
    assert of_key(broker, "a") == [n if n != 2 + head else "bad" for n in range(4)] + [4]


def test_what_goes_before_a_parked_message_does_so_though_plans_are_divided_and_the_broker_is_away(
    gateway: Gateway, broker: MemoryBroker, subscribers: bool
) -> None:
    """Plans that are divided get new numbers."""
    send(gateway, *(("a", n if n != 2 else "bad") for n in range(4)))
    _crashed(gateway, "MGW_out" if subscribers else None, 0)
    broker.fail_next("publish", DeliveryRejected("refused", cause="test").blamed(Blame.UNKNOWN), 2)
    broker.fail_next("publish", LinkUnavailable("away", cause="test", operation="publish"))
    with gateway.run():
        eventually(lambda: any("away" in text and "failure" in text for text in gateway.events()))
        eventually(lambda: of_key(broker, "a") == [0, 1], what="what goes before")
        eventually(lambda: keys(gateway) == {"a": 2})
        mend(gateway)
        release(gateway.admin, "out", by="me")
        eventually(all_of(gateway, broker, 4))
    assert of_key(broker, "a") == [0, 1, "bad", 3]


def test_what_goes_before_a_parked_message_and_fails_is_the_first_one_then(
    gateway: Gateway, broker: MemoryBroker, subscribers: bool
) -> None:
    send(gateway, ("a", 0), ("a", "worse"), ("a", "bad"), ("a", 3), ("a", 4), ("b", 5))
    _crashed(gateway, "MGW_out" if subscribers else None, 0)
    with gateway.run():
        eventually(lambda: of_key(broker, "b") == [5])
        eventually(lambda: keys(gateway) == {"a": 4})
        assert of_key(broker, "a") == [0]
        mend(gateway)
        release(gateway.admin, "out", by="me")
        eventually(all_of(gateway, broker, 6))
    assert of_key(broker, "a") == [0, "worse", "bad", 3, 4]
