"""The MQTT maps are inverse to each other: through the bytes of a PUBLISH and back nothing is lost or retyped."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.links.mqtt.codec import encode_publish, parse_publish
from mgw.links.mqtt.plain_frames import PlainFrames
from mgw.links.mqtt.plain_publish import PlainPublishes
from mgw.links.mqtt.receiving_log import digest_of
from mgw.transforms.errors import ConversionFailure
from mgw.transforms.message import Header, HeaderValue, Message, PayloadKind, ValueType
from mgw.transforms.mqtt import NO_PROPERTIES, Inbound, Outbound, Properties, Publish, inbound, outbound
from mgw.transforms.mqtt.table import OTHERS, RENAMED
from mgw.transforms.mqtt.topic import TopicTemplate, check_filter, check_topic

TOPIC = TopicTemplate("t")
NOW = 1_700_000_000.0

FIELDS = {
    f"MGW_MQTT_{field}"
    for field in ("topic", "qos", "retain", "dup", "responseTopic", "contentType", "payloadFormat", "correlationData")
} | {"MGW_AQ_messageID", "MGW_AQ_original_msgid"}  # not carried as they are

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
names = st.one_of(
    st.sampled_from(
        ["h", "MGW_KAFKA_H_x", "MGW_AMQP_type", "MGW_MQTT_U_x", "MGW_MQTT_U_MGW_x", "MGW_MQTT_U_MGW_MQTT_topic"]
    ),
    st.text(st.characters(categories=["L", "N", "P", "Zs"]), min_size=1, max_size=30).filter(
        lambda name: not name.startswith("MGW_") and name not in OTHERS  # which Hypothesis knows from the code
    ),
).filter(lambda name: name.removeprefix("MGW_MQTT_U_") not in ("", "MGW_types", "MGW_nullBody") and name not in FIELDS)
_VALUES: dict[ValueType, st.SearchStrategy[HeaderValue]] = {
    ValueType.TEXT: texts,
    ValueType.RAW: st.binary(max_size=40),
    ValueType.BOOLEAN: st.booleans(),
    ValueType.BYTE: st.integers(-128, 127),
    ValueType.SHORT: st.integers(-(2**15), 2**15 - 1),
    ValueType.INTEGER: st.integers(-(2**31), 2**31 - 1),
    ValueType.LONG: st.integers(-(2**63), 2**63 - 1),
    ValueType.FLOAT: st.floats(width=32, allow_nan=False),
    ValueType.DOUBLE: st.floats(allow_nan=False),
    ValueType.DATE: st.floats(0, 4e9),
    ValueType.JSON: st.lists(st.none() | texts, max_size=3).map(json.dumps),
    ValueType.DECIMAL: st.decimals(allow_nan=False, allow_infinity=False).map(str),
    ValueType.UBYTE: st.integers(0, 2**8 - 1),
    ValueType.USHORT: st.integers(0, 2**16 - 1),
    ValueType.UINT: st.integers(0, 2**32 - 1),
}
headers = st.lists(
    st.sampled_from(list(ValueType)).flatmap(
        lambda kind: st.builds(lambda name, value: Header(name, kind, value), names, _VALUES[kind])
    ),
    max_size=8,
).map(tuple)
bodies = st.one_of(st.none(), st.binary(max_size=100), texts, headers)
correlations = st.one_of(st.none(), texts.filter(lambda text: len(text.encode()) <= 128))


def through(message: Message, rules: Outbound, back: Inbound) -> Message:
    """Out, over the wire, and in again."""
    publish = outbound(message, rules, NOW)
    head, tail = encode_publish(publish, rules.version)
    frame = head + b"\x00\x07" + tail
    start = 2
    while frame[start - 1] > 127:
        start += 1
    mid, parsed = parse_publish(frame[0], frame[start:], rules.version)
    assert mid == 7
    arrived, failure = inbound(parsed, back)
    assert failure is None
    return arrived


def plain(header: Header) -> Header:
    """A header with the name that its application gave it."""
    return header._replace(name="x") if header.name in {"MGW_KAFKA_H_x", "MGW_MQTT_U_x"} else header


def own(message: Message) -> list[Header]:
    """Headers without those the hop itself adds."""
    fields = ("topic", "qos", "retain", "dup", "correlationData", "payloadFormat", "contentType")
    return [h for h in message.headers if h.name not in {"MGW_MQTT_" + field for field in fields}]


@given(bodies, headers, correlations, st.integers(1, 10**9))
def test_message_survives_mqtt_5(
    body: bytes | str | tuple[Header, ...] | None, sent: tuple[Header, ...], correlation: str | None, seconds: int
) -> None:
    kind = PayloadKind.FIELDS if isinstance(body, tuple) else PayloadKind.BASIC
    message = Message(body, sent, kind, correlation=correlation, expiration=seconds)
    for documented in (False, True):
        arrived = through(message, Outbound(TOPIC, documented=documented), Inbound(documented=documented))
        assert (arrived.body, arrived.kind, arrived.correlation) == (body, kind, correlation)
        assert own(arrived) == (list(sent) if documented else [plain(header) for header in sent])
        assert arrived.expiration == seconds


@given(bodies, headers, correlations, st.sampled_from([4, 5]))
def test_message_survives_the_envelope(
    body: bytes | str | tuple[Header, ...] | None, sent: tuple[Header, ...], correlation: str | None, version: int
) -> None:
    kind = PayloadKind.FIELDS if isinstance(body, tuple) else PayloadKind.BASIC
    message = Message(body, sent, kind, correlation=correlation, msgid=bytes(16))
    arrived = through(message, Outbound(TOPIC, version=version, envelope=True), Inbound(envelope=True))
    assert (arrived.body, arrived.kind, arrived.correlation) == (body, kind, correlation)
    assert own(arrived) == [Header("MGW_AQ_messageID", ValueType.TEXT, "AQMSGID:" + "00" * 16), *sent]


@given(headers, st.integers(1, 3))
def test_headers_survive_many_hops(sent: tuple[Header, ...], hops: int) -> None:
    message = Message(b"x", sent)
    for _ in range(hops):
        message = through(message, Outbound(TOPIC), Inbound())
    assert own(message) == [plain(header) for header in sent]


@given(st.integers(-1000, 1000), st.floats(0, 1e6), st.one_of(st.none(), texts.filter(bool)))
def test_aq_properties_survive_on_request(priority: int, delay: float, exception_queue: str | None) -> None:
    message = Message(b"x", priority=priority, delay=delay, exception_queue=exception_queue, enqueue_time=NOW)
    arrived = through(message, Outbound(TOPIC, aq_properties=True), Inbound(aq_properties=True))
    assert (arrived.priority, arrived.delay, arrived.exception_queue) == (priority, delay, exception_queue)
    assert arrived.expiration is None
    plain = through(message, Outbound(TOPIC), Inbound())
    assert (plain.priority, own(plain)) == (1, [])


@given(st.binary(max_size=200), st.sampled_from([4, 5]))
def test_any_bytes_are_a_message_or_malformed(data: bytes, version: int) -> None:
    from mgw.links.mqtt.codec import Malformed

    try:
        _, publish = parse_publish(0x32, data, version)
    except Malformed:
        return
    message, failure = inbound(publish, Inbound())
    assert failure is not None or message.body is not None or publish.payload == b""


@given(st.lists(st.tuples(texts, texts), max_size=6))
def test_any_user_properties_are_headers_or_a_failure(user: list[tuple[str, str]]) -> None:
    from mgw.transforms.mqtt import Properties

    message, failure = inbound(Publish("t", b"x", properties=Properties(user=user)), Inbound(aq_properties=True))
    assert message.body == b"x"
    assert failure is not None or len(message.headers) == 4 + len(user)


@given(texts, texts)
def test_placeholder_never_leaves_its_level(value: str, prefix: str) -> None:
    template = TopicTemplate("a/{h}/c")
    try:
        topic = template.fill(Message(headers=(Header("h", ValueType.TEXT, value),)))
    except ConversionFailure:
        return
    assert topic.split("/") == ["a", value, "c"]
    assert check_topic(topic) is None
    del prefix


def test_remaining_time_counts_from_now_and_is_at_least_a_second() -> None:
    limited = Message(b"x", expires_at=NOW + 10.2)
    assert outbound(limited, Outbound(TOPIC), NOW).properties.expiry == 11
    assert outbound(limited, Outbound(TOPIC), NOW + 60).properties.expiry == 1
    assert outbound(Message(b"x", expiration=math.inf), Outbound(TOPIC), NOW).properties.expiry is None


def test_id_of_an_earlier_hop_becomes_the_original_id() -> None:
    first = Header("MGW_AQ_messageID", ValueType.RAW, b"\x01")
    arrived = through(Message(b"x", (first,), msgid=bytes(16)), Outbound(TOPIC), Inbound())
    assert own(arrived) == [
        Header("MGW_AQ_messageID", ValueType.TEXT, "AQMSGID:" + "00" * 16),
        Header("MGW_AQ_original_msgid", ValueType.RAW, b"\x01"),
    ]


def test_qos_of_an_earlier_hop_does_not_weaken_this_one() -> None:
    sent = Message(b"x", (Header("MGW_MQTT_qos", ValueType.INTEGER, 0),))
    assert outbound(sent, Outbound(TOPIC), NOW).qos == 1


@pytest.mark.parametrize(
    "header",
    [
        Header("MGW_MQTT_retain", ValueType.TEXT, "true"),
        Header("MGW_MQTT_payloadFormat", ValueType.INTEGER, 2),
        Header("MGW_MQTT_payloadFormat", ValueType.TEXT, "1"),
        Header("MGW_MQTT_contentType", ValueType.TEXT, "a\nb"),
        Header("MGW_MQTT_responseTopic", ValueType.TEXT, "a/#"),
        Header("MGW_MQTT_correlationData", ValueType.TEXT, "x"),
        Header("MGW_types", ValueType.TEXT, "x"),
        Header("MGW_MQTT_U_MGW_types", ValueType.TEXT, "x"),
        Header("a\nb", ValueType.TEXT, "x"),
        Header("h", ValueType.TEXT, "\ud800"),
    ],
    ids=lambda header: header.name,
)
def test_header_that_cannot_be_sent_is_a_conversion_failure(header: Header) -> None:
    with pytest.raises(ConversionFailure) as raised:
        outbound(Message(b"x", (header,)), Outbound(TOPIC), NOW)
    assert raised.value.cause
    assert raised.value.cure


@pytest.mark.parametrize("types", ["", "[]", "{", '{"h":"x"}', '{"h":99}', '{"h":5}', '{"h":2}', "[" * 5000])
def test_forged_types_are_a_failure_of_that_message(types: str) -> None:
    from mgw.transforms.mqtt import Properties

    publish = Publish("t", b"x", properties=Properties(user=[("h", "a!"), ("MGW_types", types)]))
    message, failure = inbound(publish, Inbound())
    assert isinstance(failure, ConversionFailure)
    assert (message.body, message.header("h")) == (b"x", "a!")


@pytest.mark.parametrize(
    "payload", [b"", b"x", b"{}", b'{"mgw":2}', b'{"mgw":1,"headers":[],"body_type":"raw","body":1}']
)
def test_payload_that_is_no_envelope_is_a_failure(payload: bytes) -> None:
    message, failure = inbound(Publish("t", payload), Inbound(envelope=True))
    assert isinstance(failure, ConversionFailure)
    assert failure.cure
    assert message.body == payload


@pytest.mark.parametrize(
    ("template", "topic"),
    [("a/b", "a/b"), ("a/{h}", "a/v"), ("{{a}}/{h}", "{a}/v"), ("a/{correlation}/{h}", "a/c/v"), ("{h}{h}", "vv")],
)
def test_template_is_filled(template: str, topic: str) -> None:
    message = Message(headers=(Header("MGW_AMQP_H_h", ValueType.RAW, b"v"),), correlation="c")
    assert TopicTemplate(template).fill(message) == topic


def test_last_placeholder_may_bring_levels() -> None:
    message = Message(headers=(Header("MGW_MQTT_topic", ValueType.TEXT, "plant/a/b"),))
    assert TopicTemplate("mirror/{MGW_MQTT_topic}").fill(message) == "mirror/plant/a/b"
    with pytest.raises(ConversionFailure, match="would change the levels"):
        TopicTemplate("mirror/{MGW_MQTT_topic}/x").fill(message)


def test_broker_topics_are_out_of_reach() -> None:
    with pytest.raises(ConversionFailure, match="belong to the broker"):
        TopicTemplate("{h}").fill(Message(headers=(Header("h", ValueType.TEXT, "$SYS/x"),)))


@pytest.mark.parametrize("topic_filter", ["a", "+", "#", "a/+/b", "a/#", "/", "+/+/#"])
def test_filters_of_the_standard_are_accepted(topic_filter: str) -> None:
    assert check_filter(topic_filter) is None


def test_message_is_untouched_by_sending_it() -> None:
    message = Message(b"x", (Header("h", ValueType.INTEGER, 1),), msgid=bytes(16))
    before = dataclasses.replace(message)
    outbound(message, Outbound(TOPIC, aq_properties=True), NOW)
    assert message == before


# -- the short way --------------------------------------------------------------------------------------------------

_plain_values = {**_VALUES, ValueType.TEXT: texts | st.sampled_from(["", "plain", "x" * 4001])}
_more_headers = st.lists(
    st.sampled_from(list(ValueType)).flatmap(
        lambda kind: st.builds(
            lambda name, value: Header(name, kind, value),
            names
            | st.sampled_from([*sorted(FIELDS), "MGW_types", "MGW_MQTT_U_MGW_types", "MGW_KAFKA_offset"])
            | st.sampled_from([*sorted(OTHERS), *sorted(RENAMED)]),
            _plain_values[kind],
        )
    ),
    max_size=8,
).map(tuple)
_retained = st.booleans().map(lambda retain: Header("MGW_MQTT_retain", ValueType.BOOLEAN, retain))


@given(
    st.lists(
        st.builds(
            Message,
            bodies,
            st.one_of(_more_headers, headers, st.builds(lambda array, retain: (*array, retain), headers, _retained)),
            msgid=st.one_of(st.none(), st.binary(min_size=16, max_size=16), st.binary(max_size=20)),
            correlation=correlations,
            expiration=st.one_of(st.none(), st.just(60.0)),
        ),
        min_size=1,
        max_size=4,
    ),
    st.builds(
        Outbound,
        st.just(TOPIC),
        version=st.sampled_from([5, 4]),
        qos=st.integers(0, 1),
        retain=st.booleans(),
        envelope=st.booleans(),
        topic_from_header=st.booleans(),
        aq_properties=st.booleans(),
        original=st.booleans(),
        documented=st.booleans(),
    ),
)
def test_the_short_way_leads_to_the_frame_of_the_long_way(messages: list[Message], rules: Outbound) -> None:
    short = PlainFrames(rules)
    for message in [*messages, *messages]:  # the second time all is known
        frame = short.of(message)
        if frame is not None:
            assert frame == encode_publish(outbound(message, rules, NOW), rules.version)


@pytest.mark.parametrize("size", [0, 1, 50, 60, 61, 127, 128, 16300, 16384, 300_000])
@pytest.mark.parametrize("qos", [0, 1])
def test_messages_as_hubs_have_them_take_the_short_way(size: int, qos: int) -> None:
    text, whole = ValueType.TEXT, ValueType.LONG
    kafka = (
        Header("MGW_KAFKA_topic", text, "t"),
        Header("MGW_KAFKA_offset", whole, 7),
        Header("MGW_KAFKA_key", ValueType.RAW, b"\0"),
    )
    hop = (
        Header("MGW_MQTT_topic", text, "é"),
        Header("MGW_MQTT_qos", ValueType.INTEGER, 1),
        Header("MGW_MQTT_retain", ValueType.BOOLEAN, value=True),
        Header("MGW_MQTT_dup", ValueType.BOOLEAN, value=False),
    )
    rules = Outbound(TOPIC, qos=qos)
    short = PlainFrames(rules)
    rabbit = (
        Header("MGW_AMQP_contentType", text, "text/plain"),
        Header("MGW_AMQP_contentEncoding", text, "utf-8"),
        Header("MGW_AMQP_deliveryMode", ValueType.INTEGER, 2),
        Header("MGW_AMQP_replyTo", text, "answers"),
        Header("tenant", text, "a"),
    )
    for array in ((), kafka, hop, (*hop, *kafka), kafka, rabbit, rabbit):
        for body in (b"x" * size, "x" * size):
            for msgid in (b"0123456789abcdef", None):
                message = Message(body, array, msgid=msgid)
                assert short.of(message) == encode_publish(outbound(message, rules, NOW), 5), array


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a/b", "é", "x" * 4000, "x" * 4001]),
            st.binary(max_size=20) | texts.map(str.encode),
            st.integers(0, 2),
            st.booleans(),
            st.booleans(),
            st.sampled_from([NO_PROPERTIES, Properties(1), Properties(user=[("a", "b")])]),
        ),
        min_size=1,
        max_size=4,
    ),
    st.builds(Inbound, text=st.booleans(), envelope=st.booleans(), aq_properties=st.booleans()),
    st.sampled_from([5, 4]),
    st.integers(0, 65535),
)
def test_the_short_way_leads_to_the_message_of_the_long_way(
    published: list[tuple[str, bytes, int, bool, bool, Properties]], rules: Inbound, version: int, packet: int
) -> None:
    short = PlainPublishes(rules, version, digests=True)
    for topic, payload, qos, retain, dup, properties in [*published, *published]:  # the second time all is known
        head, tail = encode_publish(Publish(topic, payload, qos, retain, dup, properties), version)
        start = next(at for at in range(1, 5) if head[at] < 0x80) + 1
        data = head[start:] + packet.to_bytes(2, "big") + tail if qos else head[start:]
        first = head[0] | dup << 3
        read = short.read(first, data)
        mid, publish = parse_publish(first, data, version)
        if read is not None:
            assert read == (mid, inbound(publish, rules)[0], digest_of(publish), f"{topic}#{mid}")
            assert inbound(publish, rules)[1] is None
        for size in range(min(len(data), 8)):
            assert short.read(first, data[:size]) is None or parse_publish(first, data[:size], version)


def test_a_plain_publish_takes_the_short_way() -> None:
    for version, none in ((5, b"\0"), (4, b"")):
        short = PlainPublishes(Inbound(), version, digests=True)
        assert short.read(0x32, b"\0\1t\1\2" + none + b"body") is not None
