"""The short ways that ordinary messages take give the same results as the long ones."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.gateway.aq.model import PayloadType
from mgw.gateway.aq.queues.codec import encode
from mgw.gateway.aq.store.columns import NEW_MESSAGE
from mgw.gateway.observe.measures import Measures
from mgw.gateway.runtime.ends.link_source import LinkSource, Received
from mgw.gateway.runtime.job_steps import Conversion
from mgw.links.contract import Batch, Delivery
from mgw.transforms.amqp import Rules, header_split, outbound
from mgw.transforms.amqp.inbound import _decode, decode
from mgw.transforms.errors import ConversionFailure
from mgw.transforms.message import Header, Message, PayloadKind, ValueType, encode_headers
from mgw.transforms.mqtt.common import NO_PROPERTIES, Inbound, Publish
from mgw.transforms.mqtt.from_publish import inbound
from mgw.transforms.objects import AnyData
from mgw.transforms.payloads.convert import fit_into, fit_out_of, from_payload, to_payload

_FIELDS = (Header("speed", ValueType.INTEGER, 7),)
_BODIES = st.one_of(
    st.binary(max_size=12),
    st.text(max_size=12),
    st.none(),
    st.just(_FIELDS),
    st.just(AnyData("SYS.NUMBER", 1)),
    st.just("x" * 30),
)
_MESSAGES = st.builds(
    Message, _BODIES, kind=st.sampled_from(PayloadKind), expiration=st.sampled_from((None, None, 5, 0))
)
_TYPES = ("RAW", "BASIC", "TEXT", "JSON", "FIELDS", "XMLTYPE", "ANYDATA", "OBJECT", "NONE")


def _result(function: Any, *arguments: Any, **named: Any) -> Any:
    try:
        return function(*arguments, **named)
    except ConversionFailure as error:
        return str(error)


@pytest.mark.parametrize("payload_type", _TYPES)
@given(message=_MESSAGES, limit=st.sampled_from((None, 10, 20)), typed=st.booleans())
def test_fit_of_a_queue(payload_type: str, message: Message, limit: int | None, typed: bool) -> None:
    there = _result(to_payload, message, payload_type, max_payload=limit)
    assert _result(fit_into(payload_type, max_payload=limit), message) == there
    back = _result(from_payload, message, payload_type, typed=typed)
    assert _result(fit_out_of(payload_type, typed=typed), message) == back


_FAILURES = st.sampled_from((None, None, None, ConversionFailure("no", cause="none", cure="none")))
_DELIVERIES = st.builds(
    Delivery, _MESSAGES, _FAILURES, st.booleans(), st.text("ab", max_size=2), st.sampled_from((False, False, True))
)


class _LongWay(LinkSource):
    """One that looks at every message."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._fit = None


@given(
    deliveries=st.lists(_DELIVERIES, max_size=5) | st.lists(st.builds(Delivery, _MESSAGES), max_size=5),
    keys=st.booleans(),
    aside=st.booleans(),
)
def test_selection(deliveries: list[Delivery], keys: bool, aside: bool) -> None:
    clock = SimpleNamespace(now=lambda: 1.0, monotonic=lambda: 1.0)
    job = SimpleNamespace(name="job", id=1, source="Q@link")
    context: Any = SimpleNamespace(clock=clock, job=job, measures=Measures())
    exceptions: Any = SimpleNamespace() if aside else None
    conversion = Conversion(fit_into("BASIC", max_payload=20), None, None, inbound=True)
    batch = Batch(deliveries, ids=[str(number) for number in range(len(deliveries))] if keys else ())
    found = []
    for kind in (LinkSource, _LongWay):
        source: Any = kind(context, None, conversion, exceptions)  # type: ignore[arg-type]
        taken = Received(batch, 1.0)
        found.append((_result(source.select, taken, None), str(taken.refused), taken.events))
    short, long = found
    assert str(short) == str(long)


def _short(text: bytes) -> bytes:
    return bytes((len(text),)) + text


@st.composite
def _properties(draw: st.DrawFn) -> bytes:
    flags, pieces = 0, b""
    for flag, values in (
        (0x8000, (b"", b"text/plain", b"application/octet-stream", b"text/x; charset=latin-1", b"\xff")),
        (0x4000, (b"", b"utf-16", b"gzip")),
        (0x1000, (1, 2, 255)),
        (0x0800, (0, 4, 9, 255)),
        (0x0400, (b"c",)),
        (0x0200, (b"r",)),
        (0x0100, (b"50", b"soon")),
        (0x0080, (b"id",)),
        (0x0020, (b"type", b"\xff")),
        (0x0008, (b"app",)),
        (0x0001, (b"",)),
    ):
        if draw(st.integers(0, 2)) == 0:
            value: Any = draw(st.sampled_from(values))
            flags |= flag
            pieces += bytes((value,)) if isinstance(value, int) else _short(value)
    return (flags.to_bytes(2, "big") + pieces)[: draw(st.sampled_from((None, None, None, -1, 1)))]


@given(
    properties=_properties(),
    bodies=st.lists(st.sampled_from((b"", b"text", b"\xff\xfe", b"\xfe\xffa")), min_size=2, max_size=3),
    exchange=st.sampled_from((b"", b"x")),
    key=st.sampled_from((b"k", b"\xff", b"k" * 255)),
    redelivered=st.booleans(),
    rules=st.builds(Rules, st.sampled_from((0, 4, 9)), aq_properties=st.booleans(), original=st.booleans()),
)
def test_amqp_properties_that_come_again(  # noqa: PLR0917
    properties: bytes, bodies: list[bytes], exchange: bytes, key: bytes, redelivered: bool, rules: Rules
) -> None:
    for body in bodies:
        message, failure = decode(properties, body, exchange, key, redelivered, 100.0, rules)
        try:
            wanted = _decode(properties, body, exchange, key, redelivered, 100.0, rules, [])
        except (struct.error, IndexError, ValueError):
            assert failure is not None
            assert message.body == body
        else:
            assert failure is None
            assert message == wanted
            assert type(message.body) is type(wanted.body)


@given(
    topic=st.text("ab/", min_size=1, max_size=3) | st.just("t" * 600),
    qos=st.integers(0, 2),
    retain=st.booleans(),
    dup=st.booleans(),
    payload=st.binary(max_size=3),
    text=st.booleans(),
)
def test_mqtt_messages_without_properties(  # noqa: PLR0917
    topic: str, qos: int, retain: bool, dup: bool, payload: bytes, text: bool
) -> None:
    rules, publish = Inbound(text=text), Publish(topic, payload, qos, retain, dup, NO_PROPERTIES)
    equal = publish._replace(properties=NO_PROPERTIES._replace(user=[]))  # goes the long way
    assert str(inbound(publish, rules)) == str(inbound(equal, rules))


def test_header_arrays_that_several_messages_have() -> None:
    """They are stored as they are, whether they are one object, equal or alike."""
    array = (Header("a", ValueType.DOUBLE, 1), Header("b", ValueType.RAW, b"x"))
    arrays = [array, array, (array[0], array[1]), (Header("a", ValueType.DOUBLE, 1.0), array[1]), (), array]
    queue: Any = SimpleNamespace(
        payload_type=PayloadType.BASIC, max_payload=9, sort_list=None, multiple_consumers=False, id=1
    )
    rows = encode(queue, [Message(b"x", each) for each in arrays], range(6), 1.0, None, None)
    assert [NEW_MESSAGE.named(row).headers for row in rows] == [encode_headers(each) for each in arrays]


def test_headers_prepared_once_are_those_of_their_message() -> None:
    """Also where an array is equal to one met before, and is another."""
    first = (Header("MGW_AMQP_type", ValueType.TEXT, "t"), Header("x", ValueType.DOUBLE, 0.0))
    for array in (first, first, (first[0], Header("x", ValueType.DOUBLE, -0.0)), first[:1], (first[0], first[1])):
        message = Message(b"x", array)
        header_split._splits[False].clear()
        alone = outbound.encode(message, 1.0, Rules())
        outbound.encode(Message(b"y", first), 1.0, Rules())
        assert outbound.encode(message, 1.0, Rules()) == alone
        assert outbound.encode(message, 2.0, Rules()) == alone
