"""An error of the gateway's own about one message, which nobody thought of: it is set aside, and the others go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mgw.gateway.runtime import conversions
from mgw.links.memory.broker import MemoryBroker
from mgw.links.memory.destination import MemoryDestination
from mgw.transforms import amqp, kafka, mqtt
from mgw.transforms.errors import ConversionFailure, HubUnavailable, LinkUnavailable, unforeseen
from mgw.transforms.message import Header, Message, ValueType
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually
from tests.unit.test_number_ranges import Received

BAD = (0, 7, 19, 20, 39)
COUNT = 40
GOOD = [f"{n}" for n in range(COUNT) if n not in BAD]
SET_ASIDE = [f"bad {n}" for n in BAD]


@pytest.fixture
def gateway(tmp_path: Path, broker: MemoryBroker) -> Iterator[Gateway]:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
        for name in ("H", "HBAD"):
            gateway.queue(name)
        for name in ("SRC", "DST", "BAD"):
            broker.queue(name)
            gateway.admin.register_foreign_queue(name, "mem")
        yield gateway


def put(gateway: Gateway, broker: MemoryBroker, source: str) -> None:
    messages = [Message(f"bad {n}" if n in BAD else f"{n}") for n in range(COUNT)]
    if source == "H":
        gateway.enqueue("H", messages)
    else:
        broker.put("SRC", *messages)


def failing(real: Callable[..., Any]) -> Callable[..., Any]:
    def fail(*arguments: Any, **more: Any) -> Any:
        message = next(each for each in arguments if isinstance(each, Message))
        if str(message.body).startswith("bad") and message.header("MGW_error") is None:
            raise KeyError("what nobody thought of")
        return real(*arguments, **more)

    return fail


def fail_to_convert(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing_fits(make: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments, **more: failing(make(*arguments, **more))

    for make in ("fit_into", "fit_out_of"):
        monkeypatch.setattr(conversions, make, failing_fits(getattr(conversions, make)))


@pytest.mark.parametrize(
    ("at", "kind", "source", "destination", "exceptions"),
    [
        ("conversion", "INBOUND", "SRC@mem", "H", "BAD@mem"),
        ("conversion", "OUTBOUND", "H", "DST@mem", "HBAD"),
        ("encoding", "OUTBOUND", "H", "DST@mem", "HBAD"),
        ("encoding", "THROUGH", "SRC@mem", "DST@mem", "BAD@mem"),
    ],
)
def test_the_message_is_set_aside_and_the_others_arrive_in_order(  # noqa: PLR0917
    gateway: Gateway,
    broker: MemoryBroker,
    monkeypatch: pytest.MonkeyPatch,
    at: str,
    kind: str,
    source: str,
    destination: str,
    exceptions: str,
) -> None:
    if at == "conversion":
        fail_to_convert(monkeypatch)
    else:
        monkeypatch.setattr(MemoryDestination, "encode", failing(MemoryDestination.encode))
    gateway.admin.create_job(
        "j",
        kind,
        source,
        destination,
        exception_queue=exceptions,
        options={"MsgBatchSize": "10", "max_batch_size": "10"},
    )
    put(gateway, broker, source)
    with gateway.run():
        eventually(lambda: gateway.job("j")["EXCEPTIONQ_TOTAL"] == len(BAD), what="set aside")
        eventually(lambda: gateway.job("j")["PROPAGATED_TOTAL"] == len(GOOD), what="carried")
        assert not [text for text in gateway.events() if "failure" in text]
    found = gateway.browse("H") if destination == "H" else broker.queue("DST").messages
    assert [message.body for message in found] == GOOD
    aside = gateway.browse("HBAD") if exceptions == "HBAD" else broker.queue("BAD").messages
    assert [message.body for message in aside] == SET_ASIDE
    assert all("KeyError: 'what nobody thought of'" in str(message.header("MGW_error")) for message in aside)


def test_an_exception_queue_that_cannot_carry_the_headers_gets_the_body(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = MemoryDestination.encode

    def encode(self: MemoryDestination, message: Message) -> Any:
        if message.header("h") is not None:
            raise KeyError("h")
        return real(self, message)

    fail_to_convert(monkeypatch)
    monkeypatch.setattr(MemoryDestination, "encode", encode)
    gateway.admin.create_job("j", "INBOUND", "SRC@mem", "H", exception_queue="BAD@mem")
    broker.put("SRC", Message("bad", (Header("h", ValueType.TEXT, "x"), Header("i", ValueType.TEXT, "y"))))
    with gateway.run():
        eventually(lambda: gateway.job("j")["EXCEPTIONQ_TOTAL"] == 1, what="set aside")
    (aside,) = broker.queue("BAD").messages
    assert (aside.body, aside.header("h"), aside.header("i")) == ("bad", None, "y")
    assert "'h'" in str(aside.header("MGW_error_omitted"))


def test_the_hub_and_the_system_are_never_the_fault_of_a_message() -> None:
    for error in (HubUnavailable("x"), LinkUnavailable("x"), MemoryError(), OSError(28, "no space left")):
        with pytest.raises(type(error)):
            unforeseen(error)
    failure = ConversionFailure("x")
    assert unforeseen(failure) is failure


def _raise(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError("unforeseen")


class TestMaps:
    """What is read from a broker comes with the reason, its body and, where they can be read, its headers."""

    def test_rabbitmq(self, monkeypatch: pytest.MonkeyPatch) -> None:
        content = amqp.encode(Message(b"x"), 0, amqp.Rules())
        monkeypatch.setattr("mgw.transforms.amqp.inbound.new_message", _raise)
        own_key = b"unforeseen"  # that no other test reads with these properties, which are then remembered
        message, failure = amqp.decode(content.properties, b"x", b"", own_key, False, 0, amqp.Rules())
        assert failure is not None
        assert "ZeroDivisionError: unforeseen" in failure.cause
        assert message.body == b"x"
        assert message.header("MGW_AMQP_contentType") == "application/octet-stream"

    def test_kafka(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("mgw.transforms.kafka.inbound._null", _raise)
        record = Received(key=b"k", headers=(("a", b"1"), ("b", None)))
        message, failure = kafka.from_record(record, kafka.origin_headers("t", 0), kafka.Rules(), 0)
        assert failure is not None
        assert "ZeroDivisionError: unforeseen" in failure.cause
        assert message.body == b"v"
        assert message.header("MGW_KAFKA_key") == b"k"
        assert message.header("a") == b"1"

    def test_mqtt(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("mgw.transforms.mqtt.user_properties._read_value", _raise)
        user = (("a", "1"), ("MGW_types", '{"a":6}'))
        publish = mqtt.Publish("t", b"x", properties=mqtt.Properties(user=user))
        message, failure = mqtt.inbound(publish, mqtt.Inbound())
        assert failure is not None
        assert "ZeroDivisionError: unforeseen" in failure.cause
        assert message.body == b"x"
        assert message.header("a") == "1"
