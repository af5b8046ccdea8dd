"""The maps between canonical messages and AMQP 0-9-1, row by row."""

from __future__ import annotations

import struct

import pytest

from mgw.transforms.amqp import Rules, decode, encode
from mgw.transforms.errors import ConversionFailure
from mgw.transforms.message import Header, Message, ValueType

NOW = 1_700_000_000.0
PLAIN = Rules()
DOCUMENTED = Rules(documented=True)


def text(name: str, value: str) -> Header:
    return Header(name, ValueType.TEXT, value)


def again(message: Message, *, rules: Rules = PLAIN, later: float = 0.0, redelivered: bool = False) -> Message:
    """Out at NOW, in again some seconds later."""
    content = encode(message, NOW, rules)
    found, failure = decode(content.properties, content.body, b"", b"q", redelivered, NOW + later, rules)
    assert failure is None
    return found


def wire(message: Message, rules: Rules = PLAIN) -> bytes:
    return encode(message, NOW, rules).properties


def table(*entries: bytes) -> bytes:
    """Properties that hold nothing but a headers table."""
    data = b"".join(entries)
    return b"\x20\x00" + struct.pack(">I", len(data)) + data


def read(properties: bytes, body: bytes = b"", rules: Rules = PLAIN) -> Message:
    message, failure = decode(properties, body, b"", b"q", False, NOW, rules)
    assert failure is None, failure
    return message


class TestPriority:
    @pytest.mark.parametrize(
        ("top", "aq", "amqp"),
        [(9, 0, 9), (9, 9, 0), (9, 1, 8), (9, -1, 9), (9, 10, 0), (255, 255, 0), (255, -7, 255), (0, 5, 0), (3, 2, 1)],
    )
    def test_more_important_is_larger_in_amqp(self, top: int, aq: int, amqp: int) -> None:
        properties = wire(Message(None, priority=aq), Rules(max_priority=top))
        assert properties == b"\x18\x00\x02" + bytes((amqp,))

    @pytest.mark.parametrize(("amqp", "aq"), [(0, 9), (9, 0), (4, 5), (200, 0)])
    def test_inbound_is_counted_from_the_top(self, amqp: int, aq: int) -> None:
        assert read(b"\x08\x00" + bytes((amqp,))).priority == aq

    def test_absent_priority_counts_as_zero(self) -> None:
        assert read(b"\x00\x00").priority == 9


class TestExpiration:
    def test_remaining_time_travels_in_milliseconds(self) -> None:
        assert b"\x0510500" in wire(Message(None, expires_at=NOW + 10.5))

    def test_never_is_left_out(self) -> None:
        assert again(Message(b"x")).expiration is None

    def test_inbound_is_what_is_left_after_the_time_in_the_queue(self) -> None:
        content = encode(Message(b"x", expiration=60), NOW, PLAIN)
        message, _ = decode(content.properties, content.body, b"", b"q", False, NOW + 50, PLAIN)
        assert message.expiration == 10

    def test_time_spent_in_the_hub_is_not_subtracted_twice(self) -> None:
        waited = Message(b"x", enqueue_time=NOW - 50, expires_at=NOW + 10)
        assert again(waited, later=4).expiration == 6

    def test_explicit_timestamp_does_not_shorten_life(self) -> None:
        header = Header("MGW_AMQP_timestamp", ValueType.DATE, NOW - 1000)
        message = again(Message(b"x", headers=(header,), expires_at=NOW + 10), later=4)
        assert message.expiration == 6
        assert header in message.headers
        assert message.header("MGW_AQ_expires_at") is None

    def test_without_timestamp_the_whole_time_counts(self) -> None:
        assert read(b"\x01\x00\x041500").expiration == 2

    @pytest.mark.parametrize("behind", [-500, 0, 3600])
    def test_an_applications_timestamp_changes_nothing(self, behind: int) -> None:
        assert read(b"\x01\x40\x071800000" + struct.pack(">Q", int(NOW) - behind)).expiration == 1800

    @pytest.mark.parametrize(("later", "left"), [(-500, 60), (50, 10), (500, 1)])
    def test_the_moment_of_expiry_shortens_a_life_and_never_ends_or_lengthens_it(self, later: int, left: int) -> None:
        assert again(Message(b"x", expiration=60), later=later).expiration == left

    def test_the_moment_of_expiry_says_more_than_the_time_that_was_left(self) -> None:
        properties = Rules(aq_properties=True)
        assert again(Message(b"x", expiration=60), later=50, rules=properties).expiration == 10

    def test_expiration_that_is_no_number_is_kept_as_header(self) -> None:
        message = read(b"\x01\x00\x04soon")
        assert message.expiration is None
        assert message.header("MGW_AMQP_expiration") == "soon"


class TestProperties:
    def test_every_property_header_makes_the_round(self) -> None:
        headers = (
            text("MGW_AMQP_contentType", "application/x-thing"),
            text("MGW_AMQP_contentEncoding", "gzip"),
            text("MGW_AMQP_replyTo", "answers"),
            text("MGW_AMQP_messageId", "my-id"),
            Header("MGW_AMQP_timestamp", ValueType.DATE, 1_600_000_000.0),
            text("MGW_AMQP_type", "order"),
            text("MGW_AMQP_userId", "me"),
            text("MGW_AMQP_appId", "shop"),
            text("MGW_AMQP_clusterId", "c"),
        )
        found = again(Message(b"x", headers=headers, correlation="c"), rules=Rules(user="me"))
        assert set(headers) <= set(found.headers)
        assert found.correlation == "c"
        extra = {header.name for header in found.headers} - {header.name for header in headers}
        assert extra == {"MGW_AMQP_deliveryMode", "MGW_AMQP_routingKey"}

    def test_message_id_of_the_hub_is_always_sent(self) -> None:
        assert again(Message(msgid=bytes(16))).header("MGW_AMQP_messageId") == "AQMSGID:" + "00" * 16

    def test_explicit_message_id_wins(self) -> None:
        message = Message(msgid=bytes(16), headers=(text("MGW_AMQP_messageId", "mine"),))
        assert again(message).header("MGW_AMQP_messageId") == "mine"

    def test_enqueue_time_and_sender_travel(self) -> None:
        found = again(Message(enqueue_time=1_600_000_000.75, sender_name="shop"))
        assert found.header("MGW_AMQP_timestamp") == 1_600_000_000.0
        assert found.header("MGW_AMQP_appId") == "shop"

    def test_long_correlation_becomes_a_header(self) -> None:
        properties = b"\x04\x00\xc8" + b"c" * 200
        message = read(properties)
        assert message.correlation is None
        assert message.header("MGW_AMQP_correlationId") == "c" * 200
        assert properties[:3] in wire(message).replace(b"\x1c\x00\x02\x00", b"\x04\x00")

    def test_correlation_that_is_not_utf8_stays_bytes(self) -> None:
        message = read(b"\x04\x00\x02\xff\xfe")
        assert message.header("MGW_AMQP_correlationId") == b"\xff\xfe"
        assert wire(message).endswith(b"\x02\xff\xfe")

    def test_correlation_over_255_bytes_is_refused(self) -> None:
        with pytest.raises(ConversionFailure, match="correlationId has 384 bytes"):
            wire(Message(correlation="世" * 128))

    def test_another_users_id_is_refused(self) -> None:
        with pytest.raises(ConversionFailure, match="'bob'"):
            wire(Message(headers=(text("MGW_AMQP_userId", "bob"),)), Rules(user="alice"))

    @pytest.mark.parametrize("name", ["messageId", "timestamp", "contentType", "routingKey"])
    def test_reserved_header_of_the_wrong_type_is_refused(self, name: str) -> None:
        with pytest.raises(ConversionFailure, match=name):
            wire(Message(b"x", headers=(Header("MGW_AMQP_" + name, ValueType.INTEGER, 1),)))

    def test_messages_are_persistent_whatever_they_were(self) -> None:
        transient = read(b"\x10\x00\x01", b"x")
        assert transient.header("MGW_AMQP_deliveryMode") == 1
        assert again(transient).header("MGW_AMQP_deliveryMode") == 2

    def test_envelope_is_shown(self) -> None:
        message, _ = decode(b"\x00\x00", b"x", b"amq.topic", b"a.b", True, NOW, PLAIN)
        assert message.header("MGW_AMQP_exchange") == "amq.topic"
        assert message.header("MGW_AMQP_routingKey") == "a.b"
        assert message.header("MGW_AMQP_redelivered") is True

    def test_routing_key_of_the_message_is_reported(self) -> None:
        content = encode(Message(b"x", headers=(text("MGW_AMQP_routingKey", "a.b"),)), NOW, PLAIN)
        assert content.routing_key == "a.b"
        assert content.properties == encode(Message(b"x"), NOW, PLAIN).properties


class TestHeaders:
    def test_foreign_header_gets_the_prefix_and_loses_it_again(self) -> None:
        properties = table(b"\x01xS\x00\x00\x00\x01v")
        message = read(properties, b"")
        assert message.headers[-1] == text("x", "v")
        assert b"\x01xS\x00\x00\x00\x01v" in wire(message)

    def test_headers_of_other_systems_keep_name_and_type(self) -> None:
        headers = (text("MGW_KAFKA_key", "k"), Header("MGW_MQTT_qos", ValueType.INTEGER, 1))
        assert set(headers) <= set(again(again(Message(b"x", headers=headers))).headers)

    def test_no_header_is_prefixed_twice(self) -> None:
        message = Message(b"x", headers=(text("colour", "red"),))
        for _ in range(3):
            message = again(message)
        assert [header.name for header in message.headers if "colour" in header.name] == ["colour"]

    @pytest.mark.parametrize(
        ("field", "kind", "value"),
        [
            (b"B\xff", ValueType.UBYTE, 255),
            (b"u\xff\xff", ValueType.USHORT, 65535),
            (b"U\xff\xff", ValueType.SHORT, -1),
            (b"i\xff\xff\xff\xff", ValueType.UINT, 2**32 - 1),
            (b"L" + b"\xff" * 8, ValueType.LONG, -1),
            (b"D\x02\x00\x00\x01\x3a", ValueType.DECIMAL, "3.14"),
            (b"f\x3f\x00\x00\x00", ValueType.FLOAT, 0.5),
            (b"V", ValueType.JSON, "null"),
            (b"S\x00\x00\x00\x02\xff\xfe", ValueType.RAW, b"\xff\xfe"),
            (b"A\x00\x00\x00\x04t\x01b\xff", ValueType.JSON, '[true,{"$byte":-1}]'),
            (b"F\x00\x00\x00\x08\x01aS\x00\x00\x00\x01b", ValueType.JSON, '{"a":"b"}'),
            (b"A\x00\x00\x00\x06x\x00\x00\x00\x01\xff", ValueType.JSON, '[{"$bytes":"/w=="}]'),
        ],
        ids=lambda value: repr(value) if isinstance(value, bytes) else None,
    )
    def test_foreign_types(self, field: bytes, kind: ValueType, value: object) -> None:
        assert read(table(b"\x01h" + field)).headers[-1] == ("h", kind, value)

    def test_what_the_broker_wrote_about_one_hop_is_shown_and_not_sent_on(self) -> None:
        message = read(table(b"\x10x-delivery-countl" + struct.pack(">q", 3), b"\x07x-deathA\x00\x00\x00\x00"), b"x")
        assert message.header("MGW_AMQP_H_x-delivery-count") == 3
        assert message.header("MGW_AMQP_H_x-death") == "[]"
        assert b"x-de" not in wire(message)

    @pytest.mark.parametrize(
        ("name", "rules"), [("MGW_AMQP_H_CC", PLAIN), ("MGW_AMQP_H_BCC", DOCUMENTED), ("CC", DOCUMENTED)]
    )
    def test_sender_selected_distribution_is_refused(self, name: str, rules: Rules) -> None:
        with pytest.raises(ConversionFailure, match="routing keys"):
            wire(Message(headers=(text(name, "a"),)), rules)

    def test_repeated_headers_stay_in_order(self) -> None:
        found = again(Message(b"x", headers=(text("h", "b"), text("i", "-"), text("h", "a"))))
        assert [header.value for header in found.headers if header.name == "h"] == ["b", "a"]

    @pytest.mark.parametrize(
        "header",
        [
            Header("h", ValueType.DOUBLE, float("inf")),
            Header("h", ValueType.FLOAT, float("nan")),
            Header("h", ValueType.TEXT, 7),
            Header("h", ValueType.JSON, "{"),
            Header("h", ValueType.JSON, "[" * 2000),
            Header("h", ValueType.JSON, str(2**63)),
            Header("h", ValueType.JSON, '{"$byte":200}'),
            Header("h", ValueType.JSON, '{"$float":"nan"}'),
            Header("h", ValueType.JSON, '{"$bytes":"?"}'),
            Header("h", ValueType.JSON, '{"$table":[1]}'),
            Header("h", ValueType.DECIMAL, "1e300"),
            Header("h", ValueType.DECIMAL, "NaN"),
            Header("h", ValueType.UINT, -1),
            text("h", "\ud800"),
            text("ü" * 128, "v"),
            text("n" * 251, "v"),
            text("n", "v" * 4001),
            Header("n", ValueType.RAW, b"v" * 2001),
            text("", "v"),
        ],
        ids=str,
    )
    def test_header_amqp_cannot_carry_is_refused(self, header: Header) -> None:
        with pytest.raises(ConversionFailure) as raised:
            wire(Message(b"x", headers=(header,)))
        assert raised.value.cause

    def test_foreign_header_over_the_limits_is_a_failure_with_the_body(self) -> None:
        name = b"n" * 255
        message, failure = decode(table(b"\xff" + name + b"t\x01"), b"\x00body", b"", b"q", False, NOW, PLAIN)
        assert failure is not None
        assert "255 characters" in str(failure)
        assert message.body == b"\x00body"
        assert message.headers[-1].name == name.decode()

    @pytest.mark.parametrize(
        "properties", [b"", b"\x80", b"\x80\x00", b"\x20\x00\xff\xff\xff\xff", table(b"\x01h?"), b"\x00\x01"]
    )
    def test_broken_properties_are_a_failure_with_the_body(self, properties: bytes) -> None:
        message, failure = decode(properties, b"body", b"", b"q", False, NOW, PLAIN)
        assert failure is not None
        assert message.body == b"body"


class TestBody:
    @pytest.mark.parametrize(
        ("kind", "coding", "is_text"),
        [
            ("text/plain", None, True),
            ("text/csv; header=present", "utf-8", True),
            ("application/json", None, True),
            ("application/problem+json", None, True),
            ("image/svg+xml", None, True),
            ("TEXT/PLAIN", "UTF8", True),
            ("application/json", "gzip", False),
            ("text/plain", "base64", False),
            ("text/plain; charset=nonsense", None, False),
            ("application/octet-stream", "utf-8", False),
            (None, None, False),
        ],
    )
    def test_text_is_what_says_so(self, kind: str | None, coding: str | None, is_text: bool) -> None:
        headers = [text("MGW_AMQP_contentType", kind)] if kind else []
        headers += [text("MGW_AMQP_contentEncoding", coding)] if coding else []
        assert again(Message(b"body", headers=tuple(headers))).body == ("body" if is_text else b"body")

    def test_charset_of_the_content_type_is_used_both_ways(self) -> None:
        message = Message("Größe", headers=(text("MGW_AMQP_contentType", "text/plain; charset=iso-8859-1"),))
        assert encode(message, NOW, PLAIN).body == b"Gr\xf6\xdfe"
        assert again(message).body == "Größe"

    def test_text_that_is_not_valid_stays_bytes(self) -> None:
        assert again(Message(b"\xff", headers=(text("MGW_AMQP_contentType", "text/plain"),))).body == b"\xff"

    @pytest.mark.parametrize("coding", ["gzip", "latin-1"])
    def test_text_that_its_encoding_cannot_carry_is_refused(self, coding: str) -> None:
        with pytest.raises(ConversionFailure):
            encode(Message("世", headers=(text("MGW_AMQP_contentEncoding", coding),)), NOW, PLAIN)

    def test_no_body_has_no_content_type(self) -> None:
        assert again(Message(None)).body is None
        assert again(Message(b"")).body == b""
        assert again(Message("")).body == ""

    def test_fields_travel_as_json(self) -> None:
        message = Message((Header("a", ValueType.INTEGER, 1), text("b", "x")))
        assert again(message).body == '{"a":1,"b":"x"}'


class TestJobOptions:
    def test_aq_properties_make_the_round(self) -> None:
        rules = Rules(aq_properties=True)
        sent = Message(
            b"x", priority=77, expiration=60, correlation="c", exception_queue="q.exc", original_msgid=b"o" * 16
        )
        found = again(sent, rules=rules)
        assert (found.priority, found.expiration, found.correlation, found.exception_queue) == (77, 60, "c", "q.exc")
        assert found.header("MGW_AQ_original_msgid") == b"o" * 16

    def test_never_makes_the_round(self) -> None:
        assert again(Message(b"x"), rules=Rules(aq_properties=True)).expiration is None

    def test_wrong_type_is_a_failure(self) -> None:
        content = encode(Message(b"x", headers=(text("MGW_AQ_priority", "high"),)), NOW, PLAIN)
        _, failure = decode(content.properties, b"x", b"", b"q", False, NOW, Rules(aq_properties=True))
        assert failure is not None
        assert "MGW_AQ_priority" in str(failure)

    def test_preserved_message_id_is_a_header_too(self) -> None:
        assert again(Message(msgid=b"i" * 16), rules=Rules(preserve_id=True)).header("MGW_AQ_messageID") == b"i" * 16
