"""Our AMQP codec against pika's, and against itself, on anything Hypothesis thinks of."""

from __future__ import annotations

import datetime as dt
import struct
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pika import frame, spec
from pika.data import encode_table

from mgw.links.rabbitmq.frames import FrameScanner, Returned, ack_frame, message_frames, publish_method
from mgw.transforms.amqp import Rules, decode, encode
from mgw.transforms.header_table import KEPT
from mgw.transforms.message import Header, Message, ValueType, decode_headers, encode_headers
from tests.support.examples import looks_at

NOW = 1_700_000_000.0
HOT = 1
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(
    lambda name: not name.startswith(("MGW_", "x-")) and name not in KEPT
)
short = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
bodies = st.binary(max_size=3000)

values = {
    ValueType.TEXT: st.text(st.characters(exclude_categories=["Cs"]), max_size=50),
    ValueType.RAW: st.binary(max_size=50),
    ValueType.BOOLEAN: st.booleans(),
    ValueType.BYTE: st.integers(-128, 127),
    ValueType.SHORT: st.integers(-(2**15), 2**15 - 1),
    ValueType.INTEGER: st.integers(-(2**31), 2**31 - 1),
    ValueType.LONG: st.integers(-(2**63), 2**63 - 1),
    ValueType.FLOAT: st.floats(width=32, allow_nan=False, allow_infinity=False),
    ValueType.DOUBLE: st.floats(allow_nan=False, allow_infinity=False),
    ValueType.DATE: st.integers(0, 253_402_300_799).map(float),  # pika reads no year above 9999
}
headers = st.one_of(*(st.builds(Header, names, st.just(kind), value) for kind, value in values.items()))
messages = st.builds(
    Message,
    body=st.none() | bodies | st.text(st.characters(exclude_categories=["Cs"]), max_size=200),
    headers=st.lists(headers, max_size=6).map(tuple),
    priority=st.integers(0, 9),
    correlation=st.none() | short,
    msgid=st.none() | st.binary(min_size=16, max_size=16),
)
plain_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | values[ValueType.TEXT]
    | st.datetimes(dt.datetime(1970, 1, 2), dt.datetime(2200, 1, 1)).map(
        lambda t: t.replace(microsecond=0, tzinfo=dt.UTC)
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


@given(messages)
def test_canonical_message_comes_back(message: Message) -> None:
    content = encode(message, NOW, Rules())
    found, failure = decode(content.properties, content.body, b"", b"q", False, NOW, Rules())
    assert failure is None
    assert found.body == message.body
    assert found.priority == message.priority
    assert found.correlation == message.correlation
    own = [header for header in found.headers if not header.name.startswith("MGW_")]
    assert own == list(message.headers)


@given(messages)
def test_pika_understands_what_we_encode(message: Message) -> None:
    content = encode(message, NOW, Rules())
    properties = spec.BasicProperties()
    properties.decode(content.properties)
    assert properties.delivery_mode == 2
    assert properties.priority == 9 - message.priority
    assert properties.correlation_id == message.correlation
    assert properties.message_id == (None if message.msgid is None else f"AQMSGID:{message.msgid.hex()}")
    assert set(properties.headers or {}) == {header.name for header in message.headers}


@given(
    st.dictionaries(names | st.sampled_from(sorted(KEPT)), plain_values, max_size=5),
    st.none() | short,
    st.none() | st.integers(0, 255),
    st.none() | st.integers(0, 10**9),
)
def test_we_understand_what_pika_encodes(
    table: dict[str, Any], message_id: str | None, priority: int | None, expiration: int | None
) -> None:
    properties = spec.BasicProperties(
        headers=table,
        message_id=message_id,
        priority=priority,
        expiration=None if expiration is None else str(expiration),
        delivery_mode=2,
    )
    message, failure = decode(b"".join(properties.encode()), b"x", b"", b"q", False, NOW, Rules())
    if failure is not None:  # only our own limits
        assert "at most" in failure.cause
        return
    assert message.header("MGW_AMQP_messageId") == message_id
    assert message.priority == 9 - min(priority or 0, 9)
    assert (message.expiration is None) == (expiration is None)
    for name, value in table.items():
        found = message.header("MGW_AMQP_H_" + name if name in KEPT else name)
        if isinstance(value, dt.datetime):
            assert found == value.timestamp()
        elif isinstance(value, bool | int | str):
            assert found == value
            assert type(found) is type(value)
        else:
            assert isinstance(found, str)


@given(st.binary(max_size=300), st.binary(max_size=20))
def test_decoding_never_raises(properties: bytes, body: bytes) -> None:
    message, failure = decode(properties, body, b"e", b"k", False, NOW, Rules())
    if failure is not None:
        assert message.body == body


def test_pika_table_with_every_foreign_type_is_read() -> None:
    pieces: list[bytes] = []
    encode_table(pieces, {"list": [1, [True, None]], "table": {"a": {"b": "c"}}})
    properties = b"\x20\x00" + b"".join(pieces)
    message, failure = decode(properties, b"", b"", b"q", False, NOW, Rules())
    assert failure is None
    assert message.header("list") == "[1,[true,null]]"
    assert message.header("table") == '{"a":{"b":"c"}}'


def sized(code: bytes, data: bytes) -> bytes:
    return code + struct.pack(">I", len(data)) + data


def packed(code: str, form: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    return values.map(lambda value: struct.pack(">c" + form, code.encode(), value))


KEYS = st.sampled_from([b"a", b"b", b"$byte", b"$table", "ü".encode()]) | st.text(max_size=20).map(str.encode)
SCALARS = st.one_of(
    st.just(b"V"),
    packed("t", "?", st.booleans()),
    packed("b", "b", st.integers(-(2**7), 2**7 - 1)),
    packed("B", "B", st.integers(0, 2**8 - 1)),
    packed("s", "h", st.integers(-(2**15), 2**15 - 1)),
    packed("u", "H", st.integers(0, 2**16 - 1)),
    packed("I", "i", st.integers(-(2**31), 2**31 - 1)),
    packed("i", "I", st.integers(0, 2**32 - 1)),
    packed("l", "q", st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5)),
    packed("f", "f", st.floats(width=32, allow_nan=False, allow_infinity=False)),
    packed("d", "d", st.floats(allow_nan=False, allow_infinity=False)),
    packed("T", "Q", st.integers(0, 2**40)),
    st.builds(
        lambda scale, digits: struct.pack(">cBi", b"D", scale, digits),
        st.integers(0, 255),
        st.integers(-(2**31), 2**31 - 1),
    ),
    st.binary(max_size=20).map(lambda value: sized(b"x", value)),
    st.text(max_size=20).map(lambda value: sized(b"S", value.encode())),
)
FIELDS = st.recursive(
    SCALARS | st.binary(max_size=9).map(lambda value: sized(b"S", value)),
    lambda inner: (
        st.lists(inner, max_size=4).map(lambda items: sized(b"A", b"".join(items)))
        | st.lists(st.tuples(KEYS, inner), max_size=4).map(
            lambda pairs: sized(b"F", b"".join(bytes((len(key),)) + key + value for key, value in pairs))
        )
    ),
    max_leaves=8,
)


@given(
    st.lists(st.tuples(names.map(str.encode), SCALARS | FIELDS.filter(lambda field: field[:1] in b"AF")), max_size=5)
)
def test_every_field_type_survives_the_hub_bit_for_bit(fields: list[tuple[bytes, bytes]]) -> None:
    table = b"".join(bytes((len(key),)) + key + value for key, value in fields)
    properties = b"\x20\x00" + sized(b"", table)
    message, failure = decode(properties, b"", b"", b"q", False, NOW, Rules())
    assert failure is None
    stored = replace(message, headers=decode_headers(encode_headers(message.headers)))
    assert table in encode(stored, NOW, Rules()).properties


# -- frames -----------------------------------------------------------------------------------------------------------


def deliver(item: tuple[int, bool, str, str, bytes], limit: int) -> bytes:
    """A delivery as pika marshals it."""
    tag, redelivered, exchange, key, body = item
    method = spec.Basic.Deliver("ctag", tag, redelivered, exchange, key)
    pieces = [
        frame.Method(HOT, method).marshal(),
        frame.Header(HOT, len(body), spec.BasicProperties(message_id=str(tag))).marshal(),
    ]
    pieces += [frame.Body(HOT, body[at : at + limit]).marshal() for at in range(0, len(body), limit)]
    return b"".join(pieces)


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    """The bytes in pieces of these sizes, over and over."""
    pieces, at, turn = [], 0, 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        pieces.append(data[at : at + size])
        at, turn = at + size, turn + 1
    return pieces


deliveries = st.lists(
    st.tuples(st.integers(1, 2**63), st.booleans(), short.map(lambda t: t[:20]), short.map(lambda t: t[:20]), bodies),
    max_size=6,
)


@looks_at(200)
@given(deliveries, st.lists(st.integers(1, 900), min_size=1, max_size=5), st.integers(1, 1000))
def test_deliveries_are_found_however_the_bytes_are_cut(
    sent: list[tuple[int, bool, str, str, bytes]], sizes: list[int], limit: int
) -> None:
    others: list[bytes] = []
    strange = [
        frame.Heartbeat().marshal(),
        frame.Method(2, spec.Queue.DeclareOk("q", 1, 2)).marshal(),
        frame.Method(HOT, spec.Basic.ConsumeOk("ctag")).marshal(),
    ]
    stream, expected = b"", []
    for number, item in enumerate(sent):
        other = strange[number % 3]
        expected.append(other)
        stream += deliver(item, limit) + other
    scanner = FrameScanner(HOT, others.append)
    for piece in cut(stream, sizes):
        scanner.feed(piece)
    assert others == expected
    assert [(tag, again, e.decode(), k.decode(), body) for tag, again, e, k, _, body in scanner.deliveries] == sent
    for tag, _, _, _, properties, _ in scanner.deliveries:
        assert properties == b"".join(spec.BasicProperties(message_id=str(tag)).encode())


@given(st.lists(st.tuples(st.integers(1, 2**63), st.booleans(), st.booleans()), max_size=10), st.integers(1, 40))
def test_confirmations_are_found(sent: list[tuple[int, bool, bool]], size: int) -> None:
    stream = b"".join(
        frame.Method(
            HOT, spec.Basic.Ack(tag, multiple) if positive else spec.Basic.Nack(tag, multiple, False)
        ).marshal()
        for tag, multiple, positive in sent
    )
    found: list[tuple[int, bool, bool]] = []
    scanner = FrameScanner(HOT, lambda _: None, confirmed=lambda *what: found.append(what))
    for piece in cut(stream, [size]):
        scanner.feed(piece)
    assert found == sent


@given(short, short, bodies, st.integers(1, 200))
def test_returned_message_is_told_and_not_delivered(exchange: str, key: str, body: bytes, size: int) -> None:
    stream = frame.Method(HOT, spec.Basic.Return(312, "NO_ROUTE", exchange, key)).marshal()
    stream += frame.Header(HOT, len(body), spec.BasicProperties()).marshal()
    stream += frame.Body(HOT, body).marshal() if body else b""
    returned: list[Returned] = []
    scanner = FrameScanner(HOT, lambda _: None, returned=returned.append)
    for piece in cut(stream, [size]):
        scanner.feed(piece)
    assert returned == [Returned(312, "NO_ROUTE", exchange, key)]
    assert not scanner.deliveries


@given(short, short, st.booleans(), messages, st.integers(200, 4000))
def test_pika_reads_the_frames_we_publish(
    exchange: str, key: str, mandatory: bool, message: Message, frame_max: int
) -> None:
    content = encode(message, NOW, Rules())
    pieces: list[bytes] = []
    method = publish_method(HOT, exchange.encode(), key.encode(), mandatory=mandatory)
    message_frames(pieces, HOT, frame_max, [(method, content.properties, content.body)])
    data, frames = b"".join(pieces), []
    while data:
        used, value = frame.decode_frame(data)
        assert used, "an incomplete frame"
        frames.append(value)
        data = data[used:]
    published, header, *parts = frames
    assert isinstance(published, frame.Method)
    assert (published.method.exchange, published.method.routing_key) == (exchange, key)
    assert published.method.mandatory is mandatory
    assert isinstance(header, frame.Header)
    assert header.body_size == len(content.body)
    assert b"".join(part.fragment for part in parts if isinstance(part, frame.Body)) == content.body
    assert all(len(part.marshal()) <= frame_max for part in parts if isinstance(part, frame.Body))


@given(st.integers(1, 65535), st.integers(0, 2**64 - 1), st.booleans())
def test_acknowledgement_is_pikas(channel: int, tag: int, multiple: bool) -> None:
    assert ack_frame(channel, tag, multiple=multiple) == frame.Method(channel, spec.Basic.Ack(tag, multiple)).marshal()


@given(st.binary(max_size=200))
def test_garbage_is_refused_or_waits(data: bytes) -> None:
    scanner = FrameScanner(HOT, lambda _: None)
    try:
        scanner.feed(data)
    except (ValueError, IndexError, struct.error):
        return
    assert not scanner.deliveries or b"\xce" in data
