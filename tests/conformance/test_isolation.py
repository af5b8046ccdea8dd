"""A destination that refuses one message: it is found and set aside, and the others arrive once and in order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mgw.gateway.ledger import check as prove
from mgw.gateway.ledger import store as ledger
from mgw.gateway.ledger.history import Range
from mgw.gateway.ledger.record import Outcome
from mgw.gateway.runtime import retry
from mgw.gateway.runtime.retry import decide
from mgw.links.contract import Encoded
from mgw.links.memory.broker import MemoryBroker
from mgw.links.memory.destination import MemoryDestination
from mgw.transforms.errors import Blame, DeliveryRejected, LinkTimeout, LinkUnavailable
from mgw.transforms.message import Message
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually

COUNT = 40


@pytest.fixture
def gateway(tmp_path: Path, broker: MemoryBroker) -> Iterator[Gateway]:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        gateway.queue("H")
        gateway.queue("BAD")
        broker.queue("DST")
        yield gateway


@pytest.fixture(params=["plain", "logged"])
def log(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"outbound_log_queue": "SENT"} if request.param == "logged" else {}


def job(
    gateway: Gateway, broker: MemoryBroker, *, batch: int = 10, exceptions: str | None = "BAD", **link: Any
) -> None:
    gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name}, **link)
    gateway.admin.register_foreign_queue("DST", "mem")
    options = {"MsgBatchSize": str(batch), "max_batch_size": str(batch)}
    gateway.admin.create_job("outj", "OUTBOUND", "H", "DST@mem", options=options, exception_queue=exceptions)


def put(gateway: Gateway, bad: Collection[int], count: int = COUNT) -> None:
    gateway.enqueue("H", [Message(f"bad {n}" if n in bad else f"{n}") for n in range(count)])


def refusing(
    monkeypatch: pytest.MonkeyPatch,
    blame: Callable[[list[str]], Blame | None],
    *,
    late: bool = False,
) -> list[list[str]]:
    """Let the destination refuse batches for whose bodies ``blame`` gives one; the list shows every batch offered.

    ``late``: it takes what stands before the refused message, and says so afterwards.
    """
    real, known, offered = MemoryDestination.publish, MemoryDestination.stored, list[list[str]]()
    taken: dict[int, range] = {}

    def publish(self: MemoryDestination, sequence: int, messages: Sequence[Encoded]) -> None:
        bodies = [str(message[0].body) for message in messages]
        offered.append(bodies)
        found = blame(bodies)
        if found is not None:
            if late:
                good = next((n for n, body in enumerate(bodies) if body.startswith("bad")), 0)
                taken[sequence] = range(good)
                if good:
                    real(self, sequence, messages[:good])
                    self._pending.remove(sequence)
            raise DeliveryRejected("refused", cause="for a reason nobody thought of", number=805).blamed(found)
        real(self, sequence, messages)

    def stored(self: MemoryDestination, sequence: int, count: int) -> Collection[int]:
        return taken.get(sequence) or known(self, sequence, count)

    monkeypatch.setattr(MemoryDestination, "publish", publish)
    if late:
        monkeypatch.setattr(MemoryDestination, "stored", stored)
    return offered


def any_bad(blame: Blame) -> Callable[[list[str]], Blame | None]:
    return lambda bodies: blame if any(body.startswith("bad") for body in bodies) else None


def arrived(broker: MemoryBroker) -> list[str]:
    return [str(message.body) for message in broker.queue("DST").messages]


def failures(gateway: Gateway) -> int:
    return sum("job outj: failure" in text for text in gateway.events())


def check(gateway: Gateway, broker: MemoryBroker, bad: Collection[int], count: int = COUNT) -> None:
    """Everything good arrived once and in order, everything bad is in the exception queue with the reason."""
    eventually(lambda: gateway.job("outj")["EXCEPTIONQ_TOTAL"] == len(bad), what="all set aside")
    eventually(lambda: len(arrived(broker)) >= count - len(bad), what="the others arrived")
    eventually(lambda: gateway.plans("outj") == [], what="all completed")
    assert arrived(broker) == [str(n) for n in range(count) if n not in bad]
    found = gateway.browse("BAD")
    assert [message.body for message in found] == [f"bad {n}" for n in sorted(bad)]
    assert all("nobody thought of" in str(message.header("MGW_error")) for message in found)
    assert gateway.job("outj")["STATUS"] == "READY"
    definition = gateway.admin.get_job("outj")
    assert definition is not None
    with gateway.hub.read() as conn:
        proof = prove.reconcile(conn, definition, gateway.hub.hub_id, Range())
    assert proof.holds, proof.offences


@pytest.mark.parametrize("blame", [Blame.MESSAGE, Blame.UNKNOWN], ids=str)
@pytest.mark.parametrize("bad", [(0,), (7,), (19, 20), (3, 13, 14, 38)], ids=str)
def test_the_one_is_set_aside_and_the_others_arrive(  # noqa: PLR0917
    gateway: Gateway,
    broker: MemoryBroker,
    monkeypatch: pytest.MonkeyPatch,
    log: dict[str, Any],
    blame: Blame,
    bad: tuple[int, ...],
) -> None:
    offered = refusing(monkeypatch, any_bad(blame))
    job(gateway, broker, **log)
    put(gateway, bad)
    with gateway.run():
        check(gateway, broker, bad)
    assert len(offered) < 100, "it is looked for, not tried one by one"
    assert not any("retr" in event.lower() for event in gateway.events())


def test_the_ledger_says_where_nobody_knows_whether_it_was_stored(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, log: dict[str, Any]
) -> None:
    refusing(monkeypatch, any_bad(Blame.MESSAGE))
    job(gateway, broker, **log)
    put(gateway, (7,))
    with gateway.run():
        check(gateway, broker, (7,))
    definition = gateway.admin.get_job("outj")
    assert definition is not None
    with gateway.hub.read() as conn:
        entries = [entry for record in ledger.read(conn, definition.id) for entry in record.entries]
    reasons = {entry.reason for entry in entries if entry.outcome is Outcome.RETURNED}
    unsure = "" if log else ", and may have stored this message all the same"
    assert reasons == {f"the destination refused the batch{unsure}"}


def test_what_is_known_to_be_there_is_not_sent_again(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing(monkeypatch, any_bad(Blame.MESSAGE), late=True)
    job(gateway, broker)
    bad = (4, 17, 39)
    put(gateway, bad)
    with gateway.run():
        check(gateway, broker, bad)


@pytest.mark.parametrize("blame", [Blame.DESTINATION, Blame.UNKNOWN], ids=str)
def test_a_destination_that_takes_nothing_is_waited_for(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, log: dict[str, Any], blame: Blame
) -> None:
    away = [True]
    refusing(monkeypatch, lambda _: blame if away[0] else None)
    job(gateway, broker, **log)
    put(gateway, ())
    with gateway.run():
        for number in range(1, 4):
            eventually(lambda n=number: failures(gateway) >= n, what=f"failure {number}")
            gateway.admin.reset_job("outj")
        assert gateway.browse("BAD") == []
        assert arrived(broker) == []
        away[0] = False
        check(gateway, broker, ())


def test_nobody_can_tell_of_one_message_alone(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one proves it: it is taken, and came first."""
    refusing(monkeypatch, any_bad(Blame.UNKNOWN))
    job(gateway, broker)
    put(gateway, (0,), 1)
    with gateway.run():
        eventually(lambda: gateway.job("outj")["FAILURES"] >= 1)
        assert gateway.browse("BAD") == []
        gateway.enqueue("H", [Message("1"), Message("2")])
        gateway.admin.reset_job("outj")
        check(gateway, broker, (0,), 3)


def test_without_an_exception_queue_it_is_a_failure_of_the_message(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, log: dict[str, Any]
) -> None:
    offered = refusing(monkeypatch, any_bad(Blame.MESSAGE))
    job(gateway, broker, exceptions=None, **log)
    put(gateway, (7,))
    with gateway.run():
        eventually(lambda: gateway.job("outj")["FAILURES"] >= 1)
        assert "refuses the message" in str(gateway.job("outj")["LAST_ERROR_MSG"])
        assert arrived(broker) == [str(n) for n in range(7)]
        before = len(offered)
        gateway.admin.reset_job("outj")
        eventually(lambda: len(offered) > before, what="another attempt")
        assert offered[before:] == [["bad 7"]] * (len(offered) - before), "it waits alone, in its place"
        gateway.admin.alter_job("outj", exception_queue="BAD")
        check(gateway, broker, (7,))


def test_an_exception_queue_that_takes_nothing_keeps_it_in_its_plan(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, log: dict[str, Any]
) -> None:
    refusing(monkeypatch, any_bad(Blame.MESSAGE))
    gateway.queues.stop_queue("BAD")
    job(gateway, broker, **log)
    put(gateway, (7,))
    with gateway.run():
        eventually(lambda: any("25207" in event for event in gateway.events()))
        assert sum(len(plan.ids) for plan in gateway.plans("outj")) >= 1
        gateway.queues.start_queue("BAD")
        gateway.admin.reset_job("outj")
        check(gateway, broker, (7,))
    assert arrived(broker) == [str(n) for n in range(COUNT) if n != 7]


def test_the_form_is_corrected_before_anything_is_divided(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, log: dict[str, Any]
) -> None:
    learnt: list[int] = []

    def once(bodies: list[str]) -> Blame | None:
        if "7" in bodies and not learnt:
            learnt.append(1)
            return Blame.FORM
        return None

    offered = refusing(monkeypatch, once)
    job(gateway, broker, **log)
    put(gateway, ())
    with gateway.run():
        check(gateway, broker, ())
    assert max(len(bodies) for bodies in offered) == 10
    assert min(len(bodies) for bodies in offered) == 10


def failing(monkeypatch: pytest.MonkeyPatch, fault: Callable[[list[str]], Exception | None], *, after: bool) -> None:
    """Let publishing fail with what ``fault`` gives for the bodies; ``after``: when the destination has stored them."""
    real = MemoryDestination.publish

    def publish(self: MemoryDestination, sequence: int, messages: Sequence[Encoded]) -> None:
        error = fault([str(message[0].body) for message in messages])
        if error is None or after:
            real(self, sequence, messages)
        if error is not None:
            raise error

    monkeypatch.setattr(MemoryDestination, "publish", publish)


def test_what_may_be_stored_keeps_its_number_when_the_order_is_restored(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message behind a suspect is stored, and nobody hears of it: only its number tells the sending log."""
    lost: list[str] = []

    def vanish(bodies: list[str]) -> Exception | None:
        if bodies == ["1"] and not lost:
            lost.append("1")
            return LinkTimeout("no answer", operation="publish")
        return None

    failing(monkeypatch, vanish, after=True)
    refusing(monkeypatch, any_bad(Blame.UNKNOWN))
    job(gateway, broker, batch=1, outbound_log_queue="SENT")
    put(gateway, (0,), 4)
    with gateway.run():
        check(gateway, broker, (0,), 4)
    assert lost


def test_a_refusal_that_passes_by_is_not_the_message_s(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, log: dict[str, Any]
) -> None:
    refused: list[str] = []

    def once(bodies: list[str]) -> Blame | None:
        if refused:
            return None
        refused.extend(bodies)
        return Blame.UNKNOWN

    refusing(monkeypatch, once)
    job(gateway, broker, batch=1, **log)
    put(gateway, (), 4)
    with gateway.run():
        check(gateway, broker, (), 4)
    assert refused == ["0"]


def test_a_message_that_is_taken_after_others_is_not_set_aside(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, log: dict[str, Any]
) -> None:
    """The broker had an internal error for a while, and the message behind came after it."""
    refused: list[str] = []

    def at_first(bodies: list[str]) -> Blame | None:
        if bodies == ["0"] and len(refused) < 2:
            refused.extend(bodies)
            return Blame.UNKNOWN
        return None

    refusing(monkeypatch, at_first)
    job(gateway, broker, batch=1, **log)
    put(gateway, (), 4)
    with gateway.run():
        eventually(lambda: len(arrived(broker)) >= 4, what="all arrived")
        eventually(lambda: gateway.plans("outj") == [], what="all completed")
    assert sorted(arrived(broker)) == ["0", "1", "2", "3"]
    assert gateway.browse("BAD") == []


def test_a_message_that_is_refused_for_what_it_is_convicts_no_other(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, log: dict[str, Any]
) -> None:
    away = [True]

    def refuse(bodies: list[str]) -> Blame | None:
        if "bad 1" in bodies:
            return Blame.MESSAGE if len(bodies) == 1 else Blame.UNKNOWN
        return Blame.UNKNOWN if away[0] else None

    refusing(monkeypatch, refuse)
    job(gateway, broker, batch=1, **log)
    put(gateway, (1,), 3)
    with gateway.run():
        eventually(lambda: failures(gateway) >= 1, what="a failure")
        assert [message.body for message in gateway.browse("BAD")] == ["bad 1"]
        away[0] = False
        gateway.admin.reset_job("outj")
        check(gateway, broker, (1,), 3)


def losing(monkeypatch: pytest.MonkeyPatch, lost: Callable[[list[str]], bool]) -> list[list[str]]:
    """Let the connection be lost over batches for whose bodies ``lost`` is true; the list shows every batch offered."""
    real, offered = MemoryDestination.publish, list[list[str]]()

    def publish(self: MemoryDestination, sequence: int, messages: Sequence[Encoded]) -> None:
        bodies = [str(message[0].body) for message in messages]
        offered.append(bodies)
        if lost(bodies):
            raise LinkUnavailable("the connection was lost", operation="publish", cause="what nobody thought of")
        real(self, sequence, messages)

    monkeypatch.setattr(MemoryDestination, "publish", publish)
    return offered


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs try again at once."""
    monkeypatch.setattr(retry, "decide", lambda *given, **more: replace(decide(*given, **more), delay=0.01))


@pytest.mark.parametrize("bad", [(0,), (3, 13, 38)], ids=str)
@pytest.mark.usefixtures("impatient")
def test_a_message_over_which_the_connection_is_lost_each_time_is_set_aside(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, log: dict[str, Any], bad: tuple[int, ...]
) -> None:
    losing(monkeypatch, lambda bodies: any(body.startswith("bad") for body in bodies))
    job(gateway, broker, **log)
    put(gateway, bad)
    with gateway.run():
        check(gateway, broker, bad)


@pytest.mark.parametrize("exceptions", ["BAD", None])
@pytest.mark.usefixtures("impatient")
def test_a_connection_that_is_lost_over_each_message_is_no_fault_of_any(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, exceptions: str | None
) -> None:
    alone, lost_with_it = [0], list[list[str]]()

    def lost(bodies: list[str]) -> bool:
        alone[0] += bodies == ["0"]
        if away := alone[0] < 30:
            lost_with_it.append(bodies)
        return away

    losing(monkeypatch, lost)
    job(gateway, broker, exceptions=exceptions)
    put(gateway, ())
    with gateway.run():
        eventually(lambda: len(arrived(broker)) == COUNT, what="all arrived", deadline=60)
        eventually(lambda: gateway.job("outj")["STATUS"] == "READY", what="recovered")
    assert (["1"] in lost_with_it) == (exceptions is not None), "a message behind it is tried"
    assert arrived(broker) == [str(n) for n in range(COUNT)]
    assert gateway.browse("BAD") == []


@pytest.mark.usefixtures("impatient")
def test_a_message_that_went_through_in_the_end_is_not_suspected(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = [10]

    def lost(bodies: list[str]) -> bool:
        if "7" not in bodies:
            return False
        times[0] -= 1
        return times[0] >= 0

    losing(monkeypatch, lost)
    job(gateway, broker)
    put(gateway, ())
    with gateway.run():
        eventually(lambda: len(arrived(broker)) == COUNT, what="all arrived")
    assert arrived(broker) == [str(n) for n in range(COUNT)]
    assert gateway.browse("BAD") == []
