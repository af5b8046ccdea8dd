"""Jobs from link to link and from queue to queue of the hub, between queues of the broker inside the process."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from mgw.gateway.ledger import check, history
from mgw.gateway.ledger.check import Proof
from mgw.gateway.ledger.history import Range
from mgw.gateway.runtime.ends.link_destination import WINDOW_BYTES, LinkDestination
from mgw.gateway.runtime.ends.planned_source import PlannedLinkSource
from mgw.links.memory.broker import MemoryBroker
from mgw.links.memory.destination import MESSAGE_ID, MemoryDestination
from mgw.transforms.errors import AdminError, Blame, DeliveryRejected, LinkUnavailable
from mgw.transforms.message import Header, Message, ValueType
from tests.support.brokers import PostgreSQL
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=[pytest.mark.matrix, pytest.mark.postgresql])])
def gateway(request: pytest.FixtureRequest, tmp_path: Path, broker: MemoryBroker) -> Iterator[Gateway]:
    if request.param == "sqlite":
        with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
            yield gateway
        return
    server: PostgreSQL = request.getfixturevalue("postgresql")
    url = server.create_database(f"through_{uuid.uuid4().hex}")
    with gateway_on(url) as gateway:
        yield gateway
    server.drop_database(url.rpartition("/")[2])


def ends(gateway: Gateway, broker: MemoryBroker, *, source: str = "queue", **link: Any) -> None:
    """SRC on link ``from``, DST and BAD: of the broker; ``link``: settings of the link that is written to."""
    gateway.admin.create_msgsystem_link("from", "MEMORY", {"broker": broker.name})
    gateway.admin.create_msgsystem_link("to", "MEMORY", {"broker": broker.name}, **link)
    broker.log("SRC") if source == "log" else broker.queue("SRC")
    options = {"MEMORY_UniqueIds": "TRUE"} if source == "ids" else {}
    gateway.admin.register_foreign_queue("SRC", "from", options=options)
    for name, where in (("DST", "to"), ("BAD", "from")):
        broker.queue(name)
        gateway.admin.register_foreign_queue(name, where)


def job(gateway: Gateway, name: str = "thr", batch: int = 30, **given: Any) -> None:
    options = {"MsgBatchSize": batch, "max_batch_size": batch}
    gateway.admin.create_job(name, "THROUGH", "SRC@from", "DST@to", options=options, **given)


def put(broker: MemoryBroker, *bodies: str) -> None:
    broker.put("SRC", *(Message(body) for body in bodies))


def texts(count: int, start: int = 0) -> list[str]:
    return [f"message {number}" for number in range(start, start + count)]


def bodies(messages: Sequence[Message]) -> list[Any]:
    return [message.body for message in messages]


def arrived(broker: MemoryBroker, name: str = "DST") -> list[Any]:
    return bodies(broker.queue(name).messages)


def checked(gateway: Gateway, name: str = "thr") -> Proof:
    found = gateway.admin.get_job(name)
    assert found is not None
    with gateway.hub.read() as conn:
        return check.reconcile(conn, found, gateway.hub.hub_id)


def told(gateway: Gateway, name: str = "thr") -> list[history.Sight]:
    found = gateway.admin.get_job(name)
    assert found is not None
    with gateway.hub.read() as conn:
        return list(history.sights(conn, found, gateway.hub.hub_id, Range()))


def stored(gateway: Gateway, table: str) -> int:
    with gateway.hub.read() as conn:
        return int(conn.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar() or 0)


# ------------------------------------------------------------------------------------------------------ link to link


@pytest.mark.parametrize("source", ["queue", "log", "ids"])
@pytest.mark.parametrize("log", [{}, {"outbound_log_queue": "SENT"}], ids=["plain", "logged"])
def test_messages_go_from_link_to_link_in_order_and_no_queue_of_the_hub_sees_them(
    gateway: Gateway, broker: MemoryBroker, source: str, log: dict[str, Any]
) -> None:
    ends(gateway, broker, source=source, **log)
    job(gateway)
    broker.put("SRC", *(Message(body, correlation=body) for body in texts(1000)))
    with gateway.run():
        eventually(lambda: gateway.job("thr")["PROPAGATED_MSGS"] == 1000)
    assert arrived(broker) == texts(1000)
    if source != "log":
        assert broker.queue("SRC").messages == []
    assert (stored(gateway, "aq_message"), gateway.plans("thr")) == (0, [])
    row = gateway.job("thr")
    assert (row["PROPAGATION_TYPE"], row["SOURCE"], row["DESTINATION"]) == ("THROUGH", "SRC@FROM", "DST@TO")
    proof = checked(gateway)
    assert proof.offences == []
    assert (proof.messages, proof.planned) == (1000, 0)


def test_what_waits_is_planned_in_a_few_transactions_however_small_the_batches(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, together = PlannedLinkSource.plan, []

    def plan(self: PlannedLinkSource, *given: Any, **more: Any) -> Any:
        planned = real(self, *given, **more)
        together.append(sum(carried.size for carried in planned))
        return planned

    monkeypatch.setattr(PlannedLinkSource, "plan", plan)
    ends(gateway, broker)
    job(gateway, batch=10)
    put(broker, *texts(1000))
    with gateway.run():
        eventually(lambda: gateway.job("thr")["PROPAGATED_MSGS"] == 1000)
    assert arrived(broker) == texts(1000)
    assert max(together) >= 500


def test_heavy_messages_are_on_their_way_up_to_the_window_in_bytes(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand messages may be on their way, but no more than 64 MB; what is read meanwhile has half of that."""
    each, way, read = 1_000_000, list[int](), list[int]()
    write, hold = LinkDestination.write, PlannedLinkSource.hold

    def written(self: LinkDestination, *given: Any) -> None:
        write(self, *given)
        way.append(self.in_flight)

    def held(self: PlannedLinkSource, *given: Any) -> None:
        hold(self, *given)
        read.append(self.held)

    monkeypatch.setattr(LinkDestination, "write", written)
    monkeypatch.setattr(PlannedLinkSource, "hold", held)
    ends(gateway, broker)
    job(gateway, batch=5)
    broker.put("SRC", *[Message(bytes(each))] * 300)
    with gateway.run():
        eventually(lambda: gateway.job("thr")["PROPAGATED_MSGS"] == 300)
    assert WINDOW_BYTES == 64 << 20
    assert 10 < max(way) <= WINDOW_BYTES // each
    assert max(read) <= WINDOW_BYTES // each // 2 + 5


def test_headers_priority_correlation_and_expiration_go_along(gateway: Gateway, broker: MemoryBroker) -> None:
    ends(gateway, broker)
    job(gateway)
    headers = (
        Header("n", ValueType.LONG, 2**40),
        Header("r", ValueType.RAW, b"\x00\xff"),
        Header("n", ValueType.TEXT, "x"),
    )
    broker.put("SRC", Message(b"\x00b", headers=headers, priority=-3, correlation="c", expiration=3600))
    with gateway.run():
        (message,) = eventually(lambda: broker.queue("DST").messages)
    assert (message.body, message.priority, message.correlation) == (b"\x00b", -3, "c")
    assert message.headers[:3] == headers


def test_a_message_has_the_same_id_at_every_attempt_where_its_source_names_it_for_ever(
    gateway: Gateway, broker: MemoryBroker
) -> None:
    ends(gateway, broker, source="log")
    job(gateway)
    put(broker, "a", "b")
    broker.fail_next("confirm", LinkUnavailable("the wire was cut", operation="confirm"))
    with gateway.run():
        eventually(lambda: gateway.job("thr")["FAILURES"] == 1)
        gateway.admin.reset_job("thr")
        eventually(lambda: gateway.job("thr")["PROPAGATED_MSGS"] == 2)
    messages = broker.queue("DST").messages
    assert bodies(messages) == ["a", "b", "a", "b"]
    ids = [message.header(MESSAGE_ID) for message in messages]
    assert ids[:2] == ids[2:]
    assert len(set(ids)) == 2


def test_a_rule_filters_and_a_transformation_changes(gateway: Gateway, broker: MemoryBroker) -> None:
    ends(gateway, broker)
    gateway.admin.create_transformation("c", "BASIC", "BASIC", {"set": {"body.c": "tab.user_data.f - 32"}})
    job(gateway, rule="priority < 5", transformation="c")
    broker.put("SRC", Message('{"f":50}', priority=1), Message('{"f":60}', priority=9))
    with gateway.run():
        eventually(lambda: gateway.job("thr")["FILTERED_MSGS"] == 1)
    assert arrived(broker) == ['{"f":50,"c":18}']
    assert [sight.outcome for sight in told(gateway)] == ["sent, confirmed and completed", "filtered"]


def test_what_cannot_be_converted_goes_to_the_exception_queue_and_the_rest_arrives(
    gateway: Gateway, broker: MemoryBroker
) -> None:
    ends(gateway, broker)
    gateway.admin.create_transformation("c", "BASIC", "BASIC", {"set": {"body.c": "tab.user_data.f - 32"}})
    job(gateway, transformation="c", exception_queue="BAD@from")
    put(broker, '{"f":50}', "no json", '{"f":60}')
    with gateway.run():
        eventually(lambda: gateway.job("thr")["EXCEPTIONQ_MSGS"] == 1)
    assert len(arrived(broker)) == 2
    assert arrived(broker, "BAD") == ["no json"]
    assert checked(gateway).offences == []


def test_without_an_exception_queue_what_is_before_a_bad_message_arrives_once_and_the_job_retries(
    gateway: Gateway, broker: MemoryBroker
) -> None:
    ends(gateway, broker)
    gateway.admin.create_transformation("c", "BASIC", "BASIC", {"set": {"body.c": "tab.user_data.f - 32"}})
    job(gateway, transformation="c")
    put(broker, *['{"f":50}'] * 5, "no json", '{"f":60}')
    with gateway.run():
        eventually(lambda: gateway.job("thr")["STATUS"] == "RETRY")
        gateway.admin.reset_job("thr")
        eventually(lambda: gateway.job("thr")["PROPAGATED_MSGS"] == 5)
        eventually(lambda: gateway.job("thr")["STATUS"] == "RETRY")
    assert len(arrived(broker)) == 5
    assert bodies(broker.queue("SRC").messages) == ["no json", '{"f":60}']


def test_keys_that_came_before_are_not_sent_again(gateway: Gateway, broker: MemoryBroker) -> None:
    ends(gateway, broker, source="ids")
    job(gateway, batch=3)
    broker.put("SRC", *(Message(str(number), correlation=str(number % 4)) for number in range(10)))
    with gateway.run():
        eventually(lambda: gateway.job("thr")["SUPPRESSED_MSGS"] == 6)
    assert arrived(broker) == ["0", "1", "2", "3"]
    assert checked(gateway).offences == []


# ---------------------------------------------------------------------------------------------------------- recovery


@pytest.mark.parametrize("source", ["log", "ids"])
def test_what_the_sending_log_proves_is_completed_and_not_sent_again(
    gateway: Gateway, broker: MemoryBroker, source: str
) -> None:
    ends(gateway, broker, source=source, outbound_log_queue="SENT")
    job(gateway, batch=10)
    broker.hold_confirms = True
    broker.put("SRC", *(Message(body, correlation=body) for body in texts(50)))
    with gateway.run():
        eventually(lambda: len(arrived(broker)) == 50)
        broker.cut()
        eventually(lambda: gateway.job("thr")["FAILURES"] >= 1)
        broker.hold_confirms = False
        gateway.admin.reset_job("thr")
        eventually(lambda: gateway.job("thr")["PROPAGATED_MSGS"] == 50)
        broker.put("SRC", *(Message(body, correlation=body) for body in texts(5, 50)))
        eventually(lambda: gateway.job("thr")["PROPAGATED_MSGS"] == 55)
    assert arrived(broker) == texts(55)
    assert gateway.job("thr")["SUPPRESSED_MSGS"] >= 50
    proof = checked(gateway)
    assert proof.offences == []
    assert any("sent before" in outcome for outcome in proof.outcomes)


@pytest.mark.parametrize("source", ["log", "ids"])
def test_what_the_sending_log_does_not_have_comes_again_from_the_source(
    gateway: Gateway, broker: MemoryBroker, source: str
) -> None:
    ends(gateway, broker, source=source, outbound_log_queue="SENT")
    job(gateway, batch=10)
    broker.put("SRC", *(Message(body, correlation=body) for body in texts(50)))
    broker.fail_next("publish", LinkUnavailable("the wire was cut", operation="publish"), times=2)
    with gateway.run():
        eventually(lambda: gateway.job("thr")["FAILURES"] == 1)
        gateway.admin.reset_job("thr")
        eventually(lambda: gateway.job("thr")["PROPAGATED_MSGS"] == 50)
    assert arrived(broker) == texts(50)
    assert gateway.plans("thr") == []
    assert checked(gateway).offences == []


def test_a_destination_without_a_log_gets_again_what_was_on_its_way(gateway: Gateway, broker: MemoryBroker) -> None:
    ends(gateway, broker, source="log")
    job(gateway, batch=10)
    broker.hold_confirms = True
    put(broker, *texts(20))
    with gateway.run():
        eventually(lambda: len(arrived(broker)) == 20)
        broker.cut()
        eventually(lambda: gateway.job("thr")["FAILURES"] >= 1)
        broker.hold_confirms = False
        gateway.admin.reset_job("thr")
        eventually(lambda: gateway.job("thr")["PROPAGATED_MSGS"] == 20)
    assert arrived(broker) == texts(20) * 2
    row = gateway.job("thr")
    assert row["GUARANTEE"] == "at-least-once"
    assert row["GUARANTEE_NOTE"].startswith("DST@to: ")


# ---------------------------------------------------------------------------------------------------------- refusals


def refusing(monkeypatch: pytest.MonkeyPatch, bad: set[str], blame: Blame) -> None:
    real = MemoryDestination.publish

    def publish(self: MemoryDestination, sequence: int, messages: Any) -> None:
        if self.use.endpoint.name == "DST" and any(message.body in bad for message, _ in messages):
            raise DeliveryRejected("refused", operation="publish", cause="for what it is").blamed(blame)
        real(self, sequence, messages)

    monkeypatch.setattr(MemoryDestination, "publish", publish)


@pytest.mark.parametrize("source", ["queue", "log"])
@pytest.mark.parametrize("log", [{}, {"outbound_log_queue": "SENT"}], ids=["plain", "logged"])
def test_a_message_that_the_destination_refuses_is_found_and_set_aside(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, source: str, log: dict[str, Any]
) -> None:
    ends(gateway, broker, source=source, **log)
    job(gateway, batch=10, exception_queue="BAD@from")
    refusing(monkeypatch, {"message 13", "message 27"}, Blame.MESSAGE)
    put(broker, *texts(40))
    with gateway.run():
        eventually(lambda: gateway.job("thr")["EXCEPTIONQ_MSGS"] == 2)
        eventually(lambda: gateway.job("thr")["PROPAGATED_MSGS"] == 38)
    expected = [text for text in texts(40) if text not in {"message 13", "message 27"}]
    found = arrived(broker)
    assert list(dict.fromkeys(found)) == expected
    if source == "log" and log:
        assert found == expected
    assert arrived(broker, "BAD") == ["message 13", "message 27"]
    assert checked(gateway).offences == []


@pytest.mark.parametrize("log", [{}, {"outbound_log_queue": "SENT"}], ids=["plain", "logged"])
def test_a_message_set_aside_that_goes_back_to_its_source_is_not_taken_for_known(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, log: dict[str, Any]
) -> None:
    ends(gateway, broker, source="ids", **log)
    job(gateway, batch=10, exception_queue="BAD@from")
    bad = {"message 3"}
    refusing(monkeypatch, bad, Blame.MESSAGE)
    broker.put("SRC", *(Message(body, correlation=body) for body in texts(6)))
    with gateway.run():
        eventually(lambda: gateway.job("thr")["EXCEPTIONQ_MSGS"] == 1)
        eventually(lambda: gateway.job("thr")["PROPAGATED_MSGS"] == 5)
        bad.clear()
        broker.put("SRC", Message("message 3", correlation="message 3"), Message("message 4", correlation="message 4"))
        eventually(lambda: gateway.job("thr")["PROPAGATED_MSGS"] == 6)
        eventually(lambda: broker.queue("SRC").messages == [], what="all settled")
    assert list(dict.fromkeys(arrived(broker)))[-1] == "message 3"


def test_a_message_refused_for_an_unknown_reason_stays_at_the_source(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends(gateway, broker)
    job(gateway, batch=10, exception_queue="BAD@from")
    refusing(monkeypatch, {"message 3"}, Blame.UNKNOWN)
    put(broker, *texts(5))
    with gateway.run():
        eventually(lambda: gateway.job("thr")["STATUS"] == "RETRY")
    assert arrived(broker) == texts(3)
    assert bodies(broker.queue("SRC").messages) == texts(2, 3)
    assert arrived(broker, "BAD") == []


# ----------------------------------------------------------------------------------------------------------- queries


@pytest.mark.parametrize(
    ("source", "log", "level"),
    [("log", "SENT", "at-least-once"), ("queue", "SENT", "at-least-once")],
)
def test_a_job_promises_what_the_weaker_end_does(
    gateway: Gateway, broker: MemoryBroker, source: str, log: str, level: str
) -> None:
    ends(gateway, broker, source=source, outbound_log_queue=log)
    with pytest.raises(AdminError, match="cannot promise exact"):
        job(gateway, require_guarantee="exact")
    job(gateway, require_guarantee=level)
    with gateway.run():
        eventually(lambda: gateway.job("thr")["GUARANTEE"] == level)


def test_jobs_that_would_read_what_they_write_are_refused(gateway: Gateway, broker: MemoryBroker) -> None:
    ends(gateway, broker)
    gateway.queue("H")
    gateway.admin.register_foreign_queue("SRC", "to")
    gateway.admin.register_foreign_queue("ALIAS", "from", "SRC")
    broker.topic("t.x")
    gateway.admin.register_foreign_queue("ALL", "from", "t.*", domain="TOPIC")
    gateway.admin.register_foreign_queue("ONE", "to", "t.x", domain="TOPIC")
    for source, destination in (
        ("SRC@from", "SRC@from"),
        ("SRC@from", "ALIAS@from"),
        ("SRC@from", "SRC@to"),
        ("ALL@from", "ONE@to"),
    ):
        with pytest.raises(AdminError, match="same place"):
            gateway.admin.create_job("loop", "THROUGH", source, destination)
    with pytest.raises(AdminError, match="same place"):
        gateway.admin.create_job("loop", "LOCAL", "H", "H")


def test_a_source_is_read_by_one_job_whatever_its_type(gateway: Gateway, broker: MemoryBroker) -> None:
    ends(gateway, broker)
    gateway.queue("H")
    gateway.queue("H2")
    job(gateway)
    with pytest.raises(AdminError, match="is taken"):
        gateway.admin.create_job("j2", "INBOUND", "SRC@from", "H")
    gateway.admin.create_job("l", "LOCAL", "H", "H2")
    with pytest.raises(AdminError, match="is taken"):
        gateway.admin.create_job("o", "OUTBOUND", "H", "BAD@from")


def test_links_and_queues_of_a_job_cannot_be_removed(gateway: Gateway, broker: MemoryBroker) -> None:
    ends(gateway, broker)
    job(gateway)
    for name, link in (("SRC", "from"), ("DST", "to")):
        with pytest.raises(AdminError, match="jobs use it: thr"):
            gateway.admin.unregister_foreign_queue(name, link)
    gateway.admin.remove_job("thr")
    gateway.admin.unregister_foreign_queue("DST", "to")


def test_links_of_different_agents_are_refused(gateway: Gateway, broker: MemoryBroker) -> None:
    ends(gateway, broker)
    gateway.admin.create_agent("other")
    gateway.admin.create_msgsystem_link("far", "MEMORY", {"broker": broker.name}, agent_name="other")
    gateway.admin.register_foreign_queue("DST", "far")
    with pytest.raises(AdminError, match="different agents"):
        gateway.admin.create_job("thr", "THROUGH", "SRC@from", "DST@far")


# ------------------------------------------------------------------------------------------------------- hub to hub


def test_messages_go_from_queue_to_queue_of_the_hub_in_one_transaction(gateway: Gateway) -> None:
    gateway.queue("A")
    gateway.queue("B")
    gateway.admin.create_job("loc", "LOCAL", "A", "B", require_guarantee="exact")
    first = gateway.enqueue("A", [Message(text, correlation="c", priority=2) for text in texts(300)])
    with gateway.run():
        eventually(lambda: gateway.job("loc")["PROPAGATED_MSGS"] == 300)
        gateway.enqueue("A", [Message("late")])
        eventually(lambda: gateway.job("loc")["PROPAGATED_MSGS"] == 301)
    found = gateway.browse("B")
    assert bodies(found) == [*texts(300), "late"]
    assert [message.original_msgid for message in found[:300]] == first
    assert (found[0].correlation, found[0].priority) == ("c", 2)
    assert (gateway.browse("A"), gateway.plans("loc")) == ([], [])
    row = gateway.job("loc")
    assert (row["GUARANTEE"], row["PROPAGATION_TYPE"], row["LINK_NAME"]) == ("exact", "LOCAL", None)
    assert checked(gateway, "loc").offences == []


def test_a_local_job_converts_sets_aside_and_selects(gateway: Gateway) -> None:
    gateway.queue("A", multiple_consumers=True)
    gateway.queue("B", queue_payload_type="JSON")
    gateway.queue("BAD", multiple_consumers=False)
    gateway.admin.create_transformation("c", "BASIC", "JSON", {"set": {"body.c": "tab.user_data.f - 32"}})
    gateway.admin.create_job("loc", "LOCAL", "A", "B", "priority < 5", "c", "BAD", options={"MsgBatchSize": "3"})
    gateway.queues.add_subscriber("A", "OTHER")
    gateway.enqueue(
        "A",
        [Message('{"f":50}', priority=1), Message("no json", priority=1), Message('{"f":1}', priority=9)]
        + [Message('{"f":60}', priority=1)] * 5,
    )
    with gateway.run():
        eventually(lambda: gateway.job("loc")["PROPAGATED_MSGS"] == 6)
        eventually(lambda: gateway.job("loc")["EXCEPTIONQ_MSGS"] == 1)
    assert len(gateway.browse("B")) == 6
    assert bodies(gateway.browse("BAD")) == ["no json"]
    assert checked(gateway, "loc").offences == []


def test_what_the_other_queue_refuses_goes_to_the_exception_queue_alone(gateway: Gateway) -> None:
    gateway.queue("A")
    gateway.queue("BAD")
    gateway.queue("B", multiple_consumers=True)
    gateway.queues.add_subscriber("B", "S", rule="tab.user_data.f / 0 > 1 OR priority < 5")
    gateway.admin.create_job("loc", "LOCAL", "A", "B", exception_queue="BAD", options={"unrouted": "exception_queue"})
    gateway.enqueue("A", [Message('{"f":1}', priority=1), Message("{}", priority=9), Message('{"f":2}', priority=2)])
    with gateway.run():
        eventually(lambda: sum(gateway.job("loc")[name] for name in ("PROPAGATED_MSGS", "EXCEPTIONQ_MSGS")) == 3)
    assert gateway.browse("A") == []
    assert len(gateway.browse("B", "S")) + len(gateway.browse("BAD")) == 3
