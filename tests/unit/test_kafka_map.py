"""Canonical message <-> Kafka record, row by row."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest

from mgw.transforms.errors import ConversionFailure
from mgw.transforms.kafka import (
    MESSAGE_ID,
    TYPES,
    KeyFrom,
    Record,
    Rules,
    from_record,
    origin_headers,
    to_record,
)
from mgw.transforms.message import Header, Message, PayloadKind, ValueType

NOW = 1_700_000_000.0
PLAIN = Rules()
DOCUMENTED = Rules(documented=True)
NULL = (ValueType.JSON, "null")
FULL = Rules(properties=True)
ORIGIN = origin_headers("t", 3)


class Received(NamedTuple):
    """A record as read."""

    value: bytes | None = b"v"
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    offset: int = 7
    timestamp: int = -1
    timestamp_type: int = 0


def out(message: Message, rules: Rules = PLAIN) -> Record:
    return to_record(message, rules, NOW)


def into(record: Received, rules: Rules = PLAIN) -> Message:
    message, failure = from_record(record, ORIGIN, rules, NOW)
    assert failure is None
    return message


def failed(record: Received, rules: Rules = PLAIN) -> tuple[Message, str]:
    message, failure = from_record(record, ORIGIN, rules, NOW)
    assert failure is not None
    assert failure.cause
    assert failure.cure
    return message, str(failure)


def again(message: Message, rules: Rules = PLAIN) -> Message:
    """Out and in, without the headers that say where it came from."""
    record = out(message, rules)
    found = into(Received(record.value, record.key, tuple(record.headers), timestamp=record.timestamp or -1), rules)
    return replace(found, headers=tuple(header for header in found.headers if not _origin(header.name)))


def _origin(name: str) -> bool:
    return name.startswith("MGW_KAFKA_") and not name.startswith(("MGW_KAFKA_H_", "MGW_KAFKA_N_"))


class TestKey:
    @pytest.mark.parametrize(
        ("rules", "key"),
        [
            (Rules(KeyFrom.CORRELATION), "Grüße".encode()),
            (Rules(KeyFrom.MSGID), b"i" * 16),
            (Rules(KeyFrom.NONE), None),
            (Rules(KeyFrom.HEADER), None),
        ],
    )
    def test_option_says_what_the_key_is(self, rules: Rules, key: bytes | None) -> None:
        assert out(Message(b"x", correlation="Grüße", msgid=b"i" * 16), rules).key == key

    @pytest.mark.parametrize("key", list(KeyFrom))
    def test_header_wins_over_every_option(self, key: KeyFrom) -> None:
        message = Message(b"x", (Header("MGW_KAFKA_key", ValueType.RAW, b"k"),), correlation="c", msgid=b"i" * 16)
        assert out(message, Rules(key)).key == b"k"

    def test_text_header_is_a_key_too(self) -> None:
        assert out(Message(b"x", (Header("MGW_KAFKA_key", ValueType.TEXT, "ü"),))).key == "ü".encode()

    def test_correlation_that_is_not_the_key_travels_in_a_header(self) -> None:
        for rules in (Rules(KeyFrom.NONE), Rules(KeyFrom.MSGID)):
            assert ("MGW_AQ_correlation", b"c") in out(Message(b"x", correlation="c"), rules).headers
        assert again(Message(b"x", correlation="c"), Rules(KeyFrom.NONE, properties=True)).correlation == "c"

    @pytest.mark.parametrize(
        ("key", "correlation"),
        [(b"abc", "abc"), (b"", ""), (b"\xff", None), (b"x" * 128, "x" * 128), (b"x" * 129, None), (None, None)],
    )
    def test_key_is_the_correlation_where_it_can_be(self, key: bytes | None, correlation: str | None) -> None:
        message = into(Received(key=key))
        assert message.correlation == correlation
        assert message.header("MGW_KAFKA_key") == key

    def test_key_is_no_correlation_where_the_option_says_so(self) -> None:
        assert into(Received(key=b"k"), Rules(KeyFrom.NONE)).correlation is None

    def test_key_too_long_for_a_header_is_a_failure(self) -> None:
        message, text = failed(Received(b"body", key=b"k" * 2001))
        assert "2001" in text
        assert message.body == b"body"

    def test_key_of_2000_bytes_is_kept(self) -> None:
        assert into(Received(key=b"\xff" * 2000)).header("MGW_KAFKA_key") == b"\xff" * 2000


class TestPlaceAndTime:
    def test_coordinates_arrive_as_headers(self) -> None:
        assert into(Received(offset=2**40, timestamp=1_234, timestamp_type=1)).headers == (
            Header("MGW_KAFKA_topic", ValueType.TEXT, "t"),
            Header("MGW_KAFKA_partition", ValueType.INTEGER, 3),
            Header("MGW_KAFKA_offset", ValueType.LONG, 2**40),
            Header("MGW_KAFKA_timestamp", ValueType.LONG, 1_234),
            Header("MGW_KAFKA_timestampType", ValueType.TEXT, "LogAppendTime"),
        )

    def test_coordinates_are_not_sent_but_partition_and_timestamp_are(self) -> None:
        record = out(into(Received(timestamp=1_234, key=b"k")))
        assert record == Record(b"v", b"k", [], 3, 1_234)

    def test_option_leaves_the_partition_to_the_key(self) -> None:
        assert out(into(Received()), Rules(take_partition=False)).partition is None

    def test_enqueue_time_is_the_timestamp_unless_a_header_says_it(self) -> None:
        assert out(Message(b"x", enqueue_time=12.3456)).timestamp == 12_345
        header = Header("MGW_KAFKA_timestamp", ValueType.LONG, 99)
        assert out(Message(b"x", (header,), enqueue_time=12.3)).timestamp == 99
        assert out(Message(b"x")).timestamp is None

    @pytest.mark.parametrize(
        "header",
        [
            Header("MGW_KAFKA_partition", ValueType.TEXT, "1"),
            Header("MGW_KAFKA_partition", ValueType.INTEGER, -1),
            Header("MGW_KAFKA_partition", ValueType.BOOLEAN, True),
            Header("MGW_KAFKA_timestamp", ValueType.DOUBLE, 1.5),
            Header("MGW_KAFKA_key", ValueType.INTEGER, 5),
            Header("MGW_types", ValueType.TEXT, "{}"),
        ],
    )
    def test_reserved_header_of_the_wrong_type_is_a_failure(self, header: Header) -> None:
        with pytest.raises(ConversionFailure, match=header.name):
            out(Message(b"x", (header,)))


class TestBody:
    def test_bytes_text_and_nothing(self) -> None:
        assert out(Message(b"\x00\xff")).value == b"\x00\xff"
        assert out(Message("ü")).value == "ü".encode()
        assert out(Message(None, correlation="k")).value is None
        assert out(Message(b"", correlation="k")).value == b""

    def test_nothing_without_a_key_comes_back_as_nothing(self) -> None:
        record = out(Message(None))
        assert (record.value, record.key) == (b"", None)
        assert again(Message(None)).body is None
        assert again(Message(b"")).body == b""

    def test_text_is_read_where_the_option_says_so(self) -> None:
        rules = Rules(text_value=True)
        assert into(Received("ü".encode()), rules).body == "ü"
        assert into(Received(b""), rules).body == ""
        assert into(Received(None, key=b"k"), rules).body is None
        message, text = failed(Received(b"ok\xff"), rules)
        assert "byte 2" in text
        assert message.body == b"ok\xff"

    def test_half_a_character_is_a_failure(self) -> None:
        with pytest.raises(ConversionFailure, match="UTF-8"):
            out(Message("\ud800"))

    def test_fields_are_sent_as_json(self) -> None:
        fields = (Header("n", ValueType.INTEGER, 5), Header("r", ValueType.RAW, b"\x00"))
        assert out(Message(fields, kind=PayloadKind.FIELDS)).value == b'{"n":5,"r":"AA=="}'
        twice = Message((Header("n", ValueType.INTEGER, 5), Header("n", ValueType.DOUBLE, float("nan"))))
        assert out(twice).value == b'[["n","INTEGER",5],["n","DOUBLE","nan"]]'


class TestHeaders:
    def test_message_id_is_the_first_header_always(self) -> None:
        headers = (Header(MESSAGE_ID, ValueType.RAW, b"o" * 16), Header("a", ValueType.TEXT, "b"))
        record = out(Message(b"x", headers, msgid=b"i" * 16))
        assert record.headers[:2] == [(MESSAGE_ID, b"i" * 16), (MESSAGE_ID, b"o" * 16)]

    def test_plain_message_has_no_other_header(self) -> None:
        assert out(Message(b"x", msgid=b"i" * 16)).headers == [(MESSAGE_ID, b"i" * 16)]
        assert out(Message(b"x")).headers == []

    def test_headers_of_others_come_in_with_their_names_in_order_with_repetitions(self) -> None:
        sent = (("b", b"1"), ("a", b"\xff"), ("b", b""), ("c", b"a\nb"))
        message = into(Received(headers=sent))
        assert message.headers[3:] == (
            Header("b", ValueType.TEXT, "1"),
            Header("a", ValueType.RAW, b"\xff"),
            Header("b", ValueType.TEXT, ""),
            Header("c", ValueType.RAW, b"a\nb"),
        )
        assert out(message).headers == list(sent)

    def test_documented_names_have_a_prefix_and_bytes(self) -> None:
        message = into(Received(headers=(("b", b"1"), ("a", b"\xff"), ("b", b""))), DOCUMENTED)
        assert message.headers[3:] == (
            Header("MGW_KAFKA_H_b", ValueType.RAW, b"1"),
            Header("MGW_KAFKA_H_a", ValueType.RAW, b"\xff"),
            Header("MGW_KAFKA_H_b", ValueType.RAW, b""),
        )
        assert out(message, DOCUMENTED).headers == [("b", b"1"), ("a", b"\xff"), ("b", b"")]

    def test_foreign_headers_come_in_as_text_where_the_option_says_so(self) -> None:
        message = into(Received(headers=(("a", "ü".encode()), ("b", b"\xff"))), Rules(text_headers=True))
        assert message.headers[3:] == (
            Header("a", ValueType.TEXT, "ü"),
            Header("b", ValueType.RAW, b"\xff"),
        )

    def test_numbers_are_readable_for_everybody(self) -> None:
        headers = (
            Header("i", ValueType.INTEGER, -5),
            Header("d", ValueType.DOUBLE, 0.1),
            Header("b", ValueType.BOOLEAN, True),
            Header("MGW_AMQP_type", ValueType.TEXT, "order"),
        )
        assert out(Message(b"x", headers)).headers == [
            ("i", b"-5"),
            ("d", b"0.1"),
            ("b", b"true"),
            ("MGW_AMQP_type", b"order"),
            (TYPES, b'{"i":"I","d":"D","b":"B","MGW_AMQP_type":"T"}'),
        ]

    def test_one_name_with_several_types_and_owners(self) -> None:
        headers = (
            Header("n", ValueType.TEXT, "1"),
            Header("MGW_KAFKA_H_n", ValueType.RAW, b"2"),
            Header("n", ValueType.LONG, 3),
            Header("MGW_KAFKA_H_n", ValueType.SHORT, 4),
            Header("MGW_KAFKA_N_n", ValueType.TEXT, ""),
        )
        assert out(Message(b"x", headers), DOCUMENTED).headers[-1] == (TYPES, b'{"n":"TrLsn"}')
        assert again(Message(b"x", headers), DOCUMENTED).headers == headers
        plain = [header._replace(name="n") for header in headers[:4]]
        assert list(again(Message(b"x", headers)).headers) == [*plain, Header("n", *NULL)]

    def test_null_header_is_marked_and_never_lost(self) -> None:
        message = into(Received(headers=(("n", None), ("e", b""))))
        null = Header("n", *NULL)
        assert null in message.headers
        assert again(message).headers == (null, Header("e", ValueType.TEXT, ""))
        documented = into(Received(headers=(("n", None), ("e", b""))), DOCUMENTED)
        assert again(documented, DOCUMENTED).headers == (
            Header("MGW_KAFKA_N_n", ValueType.TEXT, ""),
            Header("MGW_KAFKA_H_e", ValueType.RAW, b""),
        )

    def test_unknown_kafka_header_keeps_its_name(self) -> None:
        header = Header("MGW_KAFKA_else", ValueType.TEXT, "x")
        assert again(Message(b"x", (header,))).headers == ()  # of the family that says where a record came from
        assert header in into(Received(headers=tuple(out(Message(b"x", (header,))).headers))).headers

    def test_types_are_found_before_headers_that_others_add(self) -> None:
        record = out(Message(b"x", (Header("n", ValueType.INTEGER, 1),)))
        message = into(Received(headers=(*record.headers, ("traceparent", b"00"))))
        assert message.headers[3:] == (
            Header("n", ValueType.INTEGER, 1),
            Header("traceparent", ValueType.TEXT, "00"),
        )

    @pytest.mark.parametrize("value", [b"", b"{", b"[1]", b'{"a":1}', b'{"a":""}', b"\xff", None])
    def test_types_that_no_gateway_wrote_are_a_header_like_any_other(self, value: bytes | None) -> None:
        message = into(Received(headers=(("a", b"1"), (TYPES, value))))
        kind = (
            NULL if value is None else (ValueType.RAW, value) if value == b"\xff" else (ValueType.TEXT, value.decode())
        )
        assert message.headers[3:] == (Header("a", ValueType.TEXT, "1"), Header("MGW_KAFKA_H_" + TYPES, *kind))

    def test_value_that_is_not_of_its_type_stays_raw(self) -> None:
        message = into(Received(headers=(("n", b"x"), ("z", b"9"), (TYPES, b'{"n":"I","z":"?"}'))))
        assert message.headers[3:] == (Header("n", ValueType.RAW, b"x"), Header("z", ValueType.RAW, b"9"))

    @pytest.mark.parametrize(
        ("name", "value"), [("n" * 251, b""), ("n" * 300, b""), ("n", b"\xff" * 2001)], ids=["251", "300", "value"]
    )
    def test_oversized_header_is_a_failure_that_keeps_the_body(self, name: str, value: bytes) -> None:
        message, text = failed(Received(b"body", headers=((name, value),)))
        assert message.body == b"body"
        assert str(len(name) if len(name) > 1 else len(value)) in text

    def test_oversized_header_is_not_sent(self) -> None:
        with pytest.raises(ConversionFailure, match="4001"):
            out(Message(b"x", (Header("n", ValueType.TEXT, "v" * 4001),)))

    def test_name_that_is_not_text_is_a_failure(self) -> None:
        class Bad(str):
            raw = b"\xff\xfe"

        message, text = failed(Received(b"body", headers=(("a", b"1"), (Bad("\ufffd"), b"2"))))
        assert "xff" in text
        assert Header("a", ValueType.TEXT, "1") in message.headers


class TestProperties:
    MESSAGE = Message(
        b"x",
        priority=-3,
        correlation="c",
        delay=2.5,
        exception_queue="S.E",
        original_msgid=b"o" * 16,
        sender_name="me",
        sender_address="S.Q",
    )

    def test_they_travel_both_ways_with_the_option(self) -> None:
        assert again(self.MESSAGE, FULL) == self.MESSAGE

    def test_they_stay_at_home_without_it(self) -> None:
        assert out(self.MESSAGE).headers == []

    def test_headers_are_readable_for_everybody(self) -> None:
        message = replace(self.MESSAGE, expiration=90.2)
        assert dict(out(message, FULL).headers) == {
            "MGW_AQ_priority": b"-3",
            "MGW_AQ_delay": b"2.5",
            "MGW_AQ_expiration": b"91",
            "MGW_AQ_expires_at": b"1700000090200",
            "MGW_AQ_exception_queue": b"S.E",
            "MGW_AQ_original_msgid": b"o" * 16,
            "MGW_AQ_sender": b'{"name": "me", "address": "S.Q"}',
        }

    def test_they_are_headers_of_their_type_where_the_reader_does_not_ask_for_them(self) -> None:
        record = out(self.MESSAGE, FULL)
        message = into(Received(headers=tuple(record.headers)))
        assert message.priority == 1
        assert Header("MGW_AQ_priority", ValueType.INTEGER, -3) in message.headers
        assert Header("MGW_AQ_delay", ValueType.DOUBLE, 2.5) in message.headers

    def test_explicit_header_wins_over_the_property(self) -> None:
        message = Message(b"x", (Header("MGW_AQ_priority", ValueType.INTEGER, 9),), priority=2)
        assert out(message, FULL).headers == [("MGW_AQ_priority", b"9")]

    def test_first_header_of_a_name_wins(self) -> None:
        assert into(Received(headers=(("MGW_AQ_priority", b"4"), ("MGW_AQ_priority", b"5"))), FULL).priority == 4

    def test_time_left_is_counted_from_the_moment_of_expiry(self) -> None:
        record = out(replace(self.MESSAGE, expires_at=NOW + 60), FULL)
        late, failure = from_record(Received(headers=tuple(record.headers)), ORIGIN, FULL, NOW + 45)
        assert failure is None
        assert late.expiration == pytest.approx(15)

    def test_time_left_alone_is_counted_from_the_timestamp(self) -> None:
        received = Received(
            headers=(("MGW_AQ_expiration", b"60"),), timestamp=int(NOW * 1000) - 20_000, timestamp_type=1
        )
        assert into(received, FULL).expiration == pytest.approx(40)
        assert into(received._replace(timestamp=-1), FULL).expiration == 60

    def test_an_applications_timestamp_says_nothing_of_the_time_that_passed(self) -> None:
        hour_old = Received(headers=(("MGW_AQ_expiration", b"60"),), timestamp=int(NOW * 1000) - 3_600_000)
        assert into(hour_old, FULL).expiration == 60

    def test_expired_message_says_so(self) -> None:
        message = into(Received(headers=(("MGW_AQ_expires_at", b"1600000000000"),)), FULL)
        assert message.expiration is not None
        assert message.expiration <= 0

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("MGW_AQ_priority", b"high"),
            ("MGW_AQ_priority", b"1.5"),
            ("MGW_AQ_delay", b"-1"),
            ("MGW_AQ_delay", b"nan"),
            ("MGW_AQ_expiration", b"inf"),
            ("MGW_AQ_expires_at", b""),
            ("MGW_AQ_exception_queue", b"\xff"),
            ("MGW_AQ_original_msgid", b"short"),
            ("MGW_AQ_correlation", b"c" * 129),
        ],
    )
    def test_reserved_header_of_the_wrong_type_is_a_failure(self, name: str, value: bytes) -> None:
        message, text = failed(Received(b"body", headers=((name, value),)), FULL)
        assert name in text
        assert message.body == b"body"
        assert into(Received(headers=((name, value),))).header(name) is not None

    @pytest.mark.parametrize(
        ("text", "name", "address"),
        [
            (b'{"name":"n"}', "n", None),
            (b'{"address":"a"}', None, "a"),
            (b"plain", "plain", None),
            (b"[1]", "[1]", None),
        ],
    )
    def test_sender_is_json_or_a_plain_name(self, text: bytes, name: str | None, address: str | None) -> None:
        message = into(Received(headers=(("MGW_AQ_sender", text),)), FULL)
        assert (message.sender_name, message.sender_address) == (name, address)
