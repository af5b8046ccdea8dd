"""The quick form of messages that share a header array is the general one, whatever the messages are."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from mgw.transforms.amqp import Rules, encode, encode_known
from mgw.transforms.errors import ConversionFailure
from mgw.transforms.message import Header, Message, ValueType

NOW = 1_700_000_000.0
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
headers = st.one_of(
    st.builds(
        Header,
        st.sampled_from(
            [
                "MGW_AMQP_contentType",
                "MGW_AMQP_contentEncoding",
                "MGW_AMQP_correlationId",
                "MGW_AMQP_messageId",
                "MGW_AMQP_replyTo",
                "MGW_AMQP_appId",
                "MGW_AMQP_userId",
                "MGW_AMQP_clusterId",
                "MGW_AMQP_routingKey",
                "own",
                "MGW_MQTT_contentType",
                "content-encoding",
                "message-id",
                "MGW_MQTT_responseTopic",
                "correlation-id",
            ]
        ),
        st.just(ValueType.TEXT),
        st.sampled_from(["", "gw", "text/plain; charset=latin-1", "utf-16", "gzip"]) | text,
    ),
    st.builds(
        Header,
        st.sampled_from(["MGW_AMQP_timestamp", "when"]),
        st.just(ValueType.DATE),
        st.integers(0, 2**40).map(float),
    ),
    st.builds(
        Header,
        st.sampled_from(["number", "MGW_KAFKA_timestamp", "content-type"]),
        st.just(ValueType.LONG),
        st.integers(-(2**63), 2**63 - 1),
    ),
)
messages = st.builds(
    Message,
    body=st.none() | st.binary(max_size=20) | text,
    priority=st.integers(-1, 11),
    correlation=st.none() | text,
    expiration=st.none() | st.integers(1, 100),
    msgid=st.none() | st.binary(min_size=16, max_size=16),
    enqueue_time=st.none() | st.floats(-1, 2**40),
    sender_name=st.none() | text,
)
rules = st.builds(
    Rules,
    max_priority=st.integers(1, 9),
    user=st.sampled_from([None, "gw"]),
    aq_properties=st.booleans(),
    preserve_id=st.booleans(),
    original=st.booleans(),
    documented=st.booleans(),
)


def outcome(message: Message, rules: Rules, *, quick: bool) -> object:
    try:
        return (encode_known(message, rules) if quick else None) or encode(message, NOW, rules)
    except ConversionFailure as failure:
        return str(failure)


@given(
    st.lists(headers, max_size=5).map(tuple), st.lists(messages, min_size=3, max_size=6), st.lists(rules, min_size=1)
)
def test_messages_with_one_header_array_are_encoded_as_each_by_itself(
    array: tuple[Header, ...], given: list[Message], several: list[Rules]
) -> None:
    for message in given * 2:
        for each in several[:2]:
            same = replace(message, headers=array)
            assert outcome(same, each, quick=True) == outcome(replace(message, headers=(*array,)), each, quick=False)
