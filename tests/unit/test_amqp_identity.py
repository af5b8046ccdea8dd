"""Keys from message ids, and digests that stay the same from delivery to delivery."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pika import BasicProperties

from mgw.transforms.amqp.identity import DIGEST_SIZE, content_digest, message_key


def wire(**values: object) -> bytes:
    return b"".join(BasicProperties(**values).encode())


def digest(body: bytes = b"body", exchange: bytes = b"", key: bytes = b"q", **values: Any) -> bytes:
    return content_digest(wire(**values), body, exchange, key)


FULL: dict[str, Any] = {
    "content_type": "text/plain",
    "content_encoding": "utf-8",
    "headers": {"a": 1, "b": "two", "c": [True, {"d": None}]},
    "delivery_mode": 2,
    "priority": 4,
    "correlation_id": "c",
    "reply_to": "r",
    "expiration": "1000",
    "timestamp": 17,
    "type": "t",
    "app_id": "a",
}


def test_message_id_is_found_behind_all_other_properties() -> None:
    assert message_key(wire(message_id="the id", **FULL)) == "the id"
    assert message_key(wire(message_id="alone")) == "alone"
    assert message_key(wire(**FULL)) is None
    assert message_key(b"") is None


@pytest.mark.parametrize("identity", ["x" * 65, "with\0nul", "line\nbreak", "", "é" * 40])
def test_ids_that_are_long_or_no_plain_text_become_digests_of_their_own(identity: str) -> None:
    key = message_key(wire(message_id=identity))
    assert key is not None
    assert key.startswith("blake2b:")
    assert len(key) <= 64
    assert key != message_key(wire(message_id=identity + "1"))


def test_id_that_is_not_unicode_has_a_key() -> None:
    raw = struct.pack(">HB", 0x0080, 2) + b"\xff\xfe"
    assert (message_key(raw) or "").startswith("blake2b:")


@given(st.binary(max_size=60))
def test_properties_that_cannot_be_read_raise_nothing(raw: bytes) -> None:
    message_key(raw)
    assert len(content_digest(raw, b"", b"", b"")) == DIGEST_SIZE


def test_every_part_of_the_content_changes_the_digest() -> None:
    found = {
        digest(**FULL),
        digest(b"other", **FULL),
        digest(exchange=b"e", **FULL),
        digest(key=b"k", **FULL),
        digest(),
    }
    for name, value in (("priority", 5), ("message_id", "m"), ("headers", {"a": 2}), ("headers", {}), ("type", "u")):
        found.add(digest(**FULL | {name: value}))
    assert len(found) == 10


def test_parts_do_not_flow_into_each_other() -> None:
    assert digest(exchange=b"ab", key=b"c") != digest(exchange=b"a", key=b"bc")
    assert digest(b"body", key=b"k") != digest(b"ody", key=b"kb")


def test_delivery_counts_do_not_change_the_digest() -> None:
    counted = FULL | {"headers": {"x-delivery-count": 3, **FULL["headers"], "x-acquired-count": 4}}
    assert digest(**counted) == digest(**FULL)
    assert digest(headers={"x-delivery-count": 1}) == digest()


def test_order_of_differently_named_headers_does_not_change_the_digest() -> None:
    assert digest(headers={"b": 1, "a": 2}) == digest(headers={"a": 2, "b": 1})
    assert digest(headers={"b": 1, "a": 2}) != digest(headers={"b": 2, "a": 1})
