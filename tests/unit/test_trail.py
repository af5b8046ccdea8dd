"""The hop trail of messages: what a job adds, when it stops a message, and that every broker carries it."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from mgw.gateway.runtime.job_steps import Conversion
from mgw.transforms import amqp, kafka, mqtt
from mgw.transforms.errors import LoopFound
from mgw.transforms.message import MAX_HEADER_TEXT, MAX_HEADERS, Header, Message, ValueType
from mgw.transforms.mqtt.topic import TopicTemplate
from mgw.transforms.payloads.convert import fit_into, fit_out_of
from mgw.transforms.payloads.exception_message import for_exception_queue, original_of
from mgw.transforms.trail import MAX_ENTRIES, Trail

NOW = 1_700_000_000.0
TEXT = ValueType.TEXT
TENANT = Header("tenant", TEXT, "a")
HERE, THERE = "0123456789abcdef" * 2, "fedcba9876543210" * 2


class Received(NamedTuple):
    value: bytes | None
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    offset: int = 0
    timestamp: int = -1
    timestamp_type: int = 0


def trailed(value: str, kind: ValueType = TEXT) -> Message:
    return Message("x", headers=(TENANT, Header("MGW_trail", kind, value)))


def test_a_job_adds_itself_behind_the_headers_of_the_application() -> None:
    passed = Trail("out", HERE, 3)(Message("x", headers=(TENANT,), correlation="c"))
    assert passed == Message("x", headers=(TENANT, Header("MGW_trail", TEXT, "out@01234567*1")), correlation="c")


def test_a_trail_has_each_job_once_the_one_passed_last_at_the_end() -> None:
    message = Message("x")
    for name in ("a", "b", "c", "a", "b"):
        message = Trail(name, HERE, 3)(message)
    assert message.header("MGW_trail") == "c@01234567*1, a@01234567*2, b@01234567*2"


def test_a_message_that_comes_too_often_is_refused_with_the_way_it_goes() -> None:
    message = Message("x")
    far = Trail("out", THERE, 3)  # of the same name, in another hub
    jobs = [Trail("first", HERE, 3), *[Trail("in", HERE, 3), Trail("out", HERE, 3), far] * 3]
    for job in jobs:
        message = job(message)
    with pytest.raises(LoopFound) as found:
        Trail("in", HERE, 3)(message)
    assert found.value.number == 730
    assert found.value.what == "the message goes round in a loop: in -> out -> out@fedcba98 -> in"
    assert "passed job in 3 times" in found.value.cause
    assert Trail("in", HERE, 4)(message).header("MGW_trail")


def test_messages_with_one_array_of_headers_have_one_afterwards() -> None:
    job, headers = Trail("out", HERE, 3), (TENANT,)
    first, second = job(Message("x", headers=headers)), job(Message("y", headers=headers))
    assert first.headers is second.headers
    assert job(Message("x")).headers is job(Message("y")).headers


def test_arrays_that_come_and_go_are_not_taken_for_one_another() -> None:
    job = Trail("out", HERE, 3)
    for number in range(2000):
        one = Header("n", ValueType.LONG, number)
        assert job(Message("x", headers=(one,))).headers[0] == one


def test_a_long_trail_keeps_the_newest_jobs_and_fits_a_header() -> None:
    message = Message("x")
    names = [f"{'j' * 124}{number:03}" for number in range(100)]
    for name in names:
        message = Trail(name, HERE, 1000)(message)
    trail = str(message.header("MGW_trail"))
    assert [entry.partition("@")[0] for entry in trail.split(", ")] == names[-MAX_ENTRIES:]
    assert len(trail) <= MAX_HEADER_TEXT


@pytest.mark.parametrize(
    "strange",
    ["", ", ", "out", "out@01234567", "out@01234567*", "out@01234567*0", "out@01234567*-4", "out@01234567*9999999",
     "out@0123456*9", "\u0661@01234567*9", "*" * 5000, "\N{PILE OF POO}"],
)  # fmt: skip
def test_a_trail_that_no_gateway_wrote_stops_nothing(strange: str) -> None:
    assert Trail("out", HERE, 1)(trailed(strange)).header("MGW_trail") == "out@01234567*1"


@pytest.mark.parametrize("kind", [ValueType.RAW, ValueType.LONG, ValueType.BOOLEAN])
def test_a_trail_of_another_type_is_read_or_replaced(kind: ValueType) -> None:
    value = {ValueType.RAW: b"in@01234567*1", ValueType.LONG: 7, ValueType.BOOLEAN: True}[kind]
    message = Message("x", headers=(Header("MGW_trail", kind, value), TENANT, Header("MGW_trail", TEXT, "b")))
    known = "in@01234567*1, " if kind is ValueType.RAW else ""
    assert Trail("out", HERE, 1)(message).headers == (TENANT, Header("MGW_trail", TEXT, f"{known}out@01234567*1"))


def test_an_array_without_room_stays_as_it_is() -> None:
    full = (TENANT,) * MAX_HEADERS
    assert Trail("out", HERE, 1)(Message("x", headers=full)).headers == full


@pytest.mark.parametrize("inbound", [True, False])
def test_a_transformation_that_makes_new_messages_keeps_the_trail(inbound: bool) -> None:
    fit = fit_into("BASIC") if inbound else fit_out_of("BASIC")
    job = Conversion(fit, None, lambda _: [Message("y"), Message("z")], inbound, Trail("out", HERE, 1))
    results = job.apply(trailed("in@01234567*1"))
    assert [each.header("MGW_trail") for each in results] == ["in@01234567*1, out@01234567*1"] * 2
    with pytest.raises(LoopFound):
        job.apply(results[0])


def test_a_message_that_a_rule_leaves_out_is_no_loop() -> None:
    class Never:
        def matches(self, message: Message) -> bool:
            return False

    job = Conversion(None, Never(), None, True, Trail("in", HERE, 1))  # type: ignore[arg-type]
    assert job.apply(trailed("in@01234567*1")) == ()


# ---------------------------------------------------------------------------------------------- the brokers carry it


def over_rabbitmq(message: Message, documented: bool) -> Message:
    rules = amqp.Rules(documented=documented)
    properties, body = amqp.encode(message, NOW, rules)[:2]
    found, failure = amqp.decode(properties, body, b"", b"q", False, NOW, rules)
    assert failure is None
    return found


def over_kafka(message: Message, documented: bool) -> Message:
    rules = kafka.Rules(documented=documented)
    record = kafka.to_record(message, rules, NOW)
    received = Received(record.value, record.key, tuple(record.headers), timestamp=record.timestamp or -1)
    found, failure = kafka.from_record(received, kafka.origin_headers("t", 0), rules, NOW)
    assert failure is None
    return found


def over_mqtt(message: Message, documented: bool) -> Message:
    publish = mqtt.outbound(message, mqtt.Outbound(TopicTemplate("t"), documented=documented), NOW)
    found, failure = mqtt.inbound(publish, mqtt.Inbound(documented=documented))
    assert failure is None
    return found


def in_an_envelope(message: Message, documented: bool) -> Message:
    """MQTT 3.1.1."""
    rules = mqtt.Outbound(TopicTemplate("t"), version=4, envelope=True, documented=documented)
    found, failure = mqtt.inbound(mqtt.outbound(message, rules, NOW), mqtt.Inbound(envelope=True))
    assert failure is None
    return found


@pytest.mark.parametrize("documented", [False, True])
@pytest.mark.parametrize("over", [over_rabbitmq, over_kafka, over_mqtt, in_an_envelope])
def test_every_broker_with_headers_carries_the_trail_under_its_name(over: object, documented: bool) -> None:
    job = Trail("out", HERE, 2)
    message = job(Message("x", msgid=bytes(16), enqueue_time=NOW))
    for _ in range(2):
        message = over(message, documented)  # type: ignore[operator]
    assert Header("MGW_trail", TEXT, "out@01234567*1") in message.headers


def test_a_kafka_program_that_copies_the_trail_alone_keeps_it() -> None:
    """``MGW_types`` says nothing of it, so nothing is lost with that header."""
    record = kafka.to_record(
        Trail("out", HERE, 2)(Message(b"x", msgid=bytes(16), enqueue_time=NOW)), kafka.Rules(), NOW
    )
    assert [name for name, _ in record.headers] == ["MGW_AQ_messageID", "MGW_trail"]


# ------------------------------------------------------------------------------------------------- exception queues


def test_a_message_that_went_round_waits_without_its_trail() -> None:
    given = trailed("out@01234567*1")
    with pytest.raises(LoopFound) as found:
        Trail("out", HERE, 1)(given)
    kept = for_exception_queue(given, found.value, "out", now=NOW)
    assert kept.header("MGW_trail") is None
    assert kept.header("MGW_error_trail") == "out@01234567*1"
    assert kept.header("MGW_error_number") == 730
    assert original_of(kept) == Message("x", headers=(TENANT,))
