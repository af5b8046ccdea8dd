"""An exception queue of an outbound job that takes nothing: what has arrived is complete, and is not sent once more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mgw.gateway.ledger import check
from mgw.gateway.ledger.history import Range
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.errors import LinkUnavailable
from mgw.transforms.message import Message
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually

GOOD, BAD = '{{"f":{}}}', '{{"f":"hot {}"}}'
SENT = [GOOD.format(number) for number in (0, 1, 3, 4, 6)]
REFUSED = [BAD.format(number) for number in (2, 5)]
TRANSFORMATION = {"set": {"header.celsius": "(tab.user_data.f - 32) / 1.8"}}


@pytest.fixture
def gateway(tmp_path: Path, broker: MemoryBroker) -> Iterator[Gateway]:
    """Job ``outj`` from H to DST, which cannot convert two of the seven messages in H."""
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        gateway.admin.create_transformation("celsius", "BASIC", "BASIC", TRANSFORMATION)
        gateway.queue("H")
        broker.queue("DST")
        yield gateway


def job(gateway: Gateway, broker: MemoryBroker, batch: int = 4, hot: tuple[int, ...] = (2, 5), **link: Any) -> None:
    gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name}, **link)
    gateway.admin.register_foreign_queue("DST", "mem")
    options = {"MsgBatchSize": str(batch), "max_batch_size": str(batch)}
    bad = {"transformation": "celsius", "exception_queue": "BAD"}
    gateway.admin.create_job("outj", "OUTBOUND", "H", "DST@mem", options=options, **bad)
    gateway.enqueue("H", [Message(body=(BAD if number in hot else GOOD).format(number)) for number in range(7)])


def closed(gateway: Gateway) -> None:
    gateway.queue("BAD")
    gateway.queues.stop_queue("BAD")


def nobodys(gateway: Gateway) -> None:
    gateway.queue("BAD", multiple_consumers=True)


def attempts(gateway: Gateway, error: str) -> int:
    return sum(error in text and "job outj" in text for text in gateway.events())


def arrived(broker: MemoryBroker) -> list[Any]:
    return [message.body for message in broker.queue("DST").messages]


def planned(gateway: Gateway) -> int:
    return sum(len(plan.ids) for plan in gateway.plans("outj"))


def fails_again(gateway: Gateway, error: str, times: int = 3) -> None:
    """The attempts after the first one change nothing."""
    for number in range(1, times + 1):
        eventually(lambda n=number: attempts(gateway, error) >= n, what=f"failure {number}")
        gateway.admin.reset_job("outj")


def check_ledger(gateway: Gateway) -> None:
    found = gateway.admin.get_job("outj")
    assert found is not None
    with gateway.hub.read() as conn:
        proof = check.reconcile(conn, found, gateway.hub.hub_id, Range())
    assert proof.holds, proof.offences


@pytest.mark.parametrize(("refuse", "error"), [(closed, "25207"), (nobodys, "24033")])
def test_what_has_arrived_is_complete_although_the_exception_queue_takes_nothing(
    gateway: Gateway, broker: MemoryBroker, refuse: Any, error: str
) -> None:
    refuse(gateway)
    job(gateway, broker)
    with gateway.run():
        fails_again(gateway, error)
        assert arrived(broker) == SENT
        row = gateway.job("outj")
        assert (row["PROPAGATED_MSGS"], row["EXCEPTIONQ_MSGS"]) == (len(SENT), 0)
        assert planned(gateway) == len(REFUSED), "what is refused stays on its plan"
        check_ledger(gateway)
    if refuse is closed:
        gateway.queues.start_queue("BAD")
    else:
        gateway.queues.add_subscriber("BAD", "KEEPER")
    with gateway.run():  # another process: it knows the plans only
        eventually(lambda: gateway.job("outj")["EXCEPTIONQ_TOTAL"] == len(REFUSED))
    found = gateway.browse("BAD", "KEEPER" if refuse is nobodys else None)
    assert [message.body for message in found] == REFUSED
    assert all("celsius" in str(message.header("MGW_error")) for message in found)
    assert arrived(broker) == SENT
    assert gateway.plans("outj") == []
    assert gateway.job("outj")["PROPAGATED_TOTAL"] == len(SENT)
    check_ledger(gateway)


def test_what_is_on_its_way_is_waited_for_before_the_job_fails(gateway: Gateway, broker: MemoryBroker) -> None:
    closed(gateway)
    job(gateway, broker)
    broker.hold_confirms = True
    with gateway.run():
        eventually(lambda: arrived(broker) == SENT)
        broker.hold_confirms = False
        fails_again(gateway, "25207", 2)
    assert arrived(broker) == SENT
    assert planned(gateway) == len(REFUSED)


def test_the_sending_log_proves_nothing_of_a_message_that_was_refused(gateway: Gateway, broker: MemoryBroker) -> None:
    """Its batch is in the log without it: once it can be converted, it must be sent."""
    closed(gateway)
    job(gateway, broker, outbound_log_queue="SENT")
    with gateway.run():
        fails_again(gateway, "25207", 2)
        assert planned(gateway) == len(REFUSED)
        gateway.admin.alter_job("outj", transformation=None)
        eventually(lambda: gateway.job("outj")["PROPAGATED_TOTAL"] == len(SENT) + len(REFUSED))
    assert arrived(broker) == SENT + REFUSED
    assert gateway.job("outj")["SUPPRESSED_TOTAL"] == 0
    assert gateway.plans("outj") == []
    check_ledger(gateway)


def test_the_sending_log_proves_nothing_of_a_batch_that_was_refused_whole(
    gateway: Gateway, broker: MemoryBroker
) -> None:
    """It went on its way before others that are in the log: once it can be converted, it must be sent."""
    closed(gateway)
    job(gateway, broker, 2, (2, 3), outbound_log_queue="SENT")
    sent, refused = [GOOD.format(number) for number in (0, 1, 4, 5, 6)], [BAD.format(number) for number in (2, 3)]
    with gateway.run():
        fails_again(gateway, "25207", 2)
        assert arrived(broker) == sent
        assert planned(gateway) == len(refused)
        gateway.admin.alter_job("outj", transformation=None)
        eventually(lambda: gateway.job("outj")["PROPAGATED_TOTAL"] == len(sent) + len(refused))
    assert arrived(broker) == sent + refused
    assert gateway.job("outj")["SUPPRESSED_TOTAL"] == 0
    assert gateway.plans("outj") == []
    check_ledger(gateway)


def test_a_crash_before_the_refusal_is_known_sends_nothing_again(gateway: Gateway, broker: MemoryBroker) -> None:
    closed(gateway)
    job(gateway, broker, outbound_log_queue="SENT")
    broker.fail_next("confirm", LinkUnavailable("the wire was cut", operation="confirm"))
    with gateway.run():
        eventually(lambda: attempts(gateway, "the wire was cut") == 1)
        gateway.admin.reset_job("outj")
        fails_again(gateway, "25207", 2)
    assert planned(gateway) == len(REFUSED)
    gateway.queues.start_queue("BAD")
    with gateway.run():
        eventually(lambda: gateway.job("outj")["EXCEPTIONQ_TOTAL"] == len(REFUSED))
    assert arrived(broker) == SENT
    assert gateway.job("outj")["PROPAGATED_TOTAL"] == len(SENT)
    check_ledger(gateway)


def test_a_message_that_cannot_be_read_undoes_no_completion(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.queue("BAD")
    job(gateway, broker)
    broker.hold_confirms = True
    with gateway.run():
        eventually(lambda: arrived(broker) == SENT)
        with gateway.hub.write() as conn:
            gateway.hub.session(conn).enqueue("H", Message(body="damaged"))
            conn.exec_driver_sql("UPDATE aq_message SET headers = '[' WHERE body = ?", (b"damaged",))
        broker.hold_confirms = False
        broker.wake()
        fails_again(gateway, "failure", 2)
    assert arrived(broker) == SENT
    row = gateway.job("outj")
    assert (row["PROPAGATED_TOTAL"], row["EXCEPTIONQ_TOTAL"]) == (len(SENT), len(REFUSED))
    assert gateway.plans("outj") == []
