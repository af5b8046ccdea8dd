"""Coordinates of batches at their destination, kept as ranges."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.gateway.ledger.history import lasting
from mgw.links.mqtt.codec import encode_publish, topic_of
from mgw.links.placement import NOWHERE, Placement, placed, runs_of
from mgw.links.rabbitmq.frames import publish_method, routing_key_of
from mgw.transforms.mqtt import NO_PROPERTIES, Publish

_NAMES = {0: "log/0@", 1: "log/1@", 2: "queue#"}


@given(st.lists(st.tuples(st.sampled_from(sorted(_NAMES)), st.integers(NOWHERE, 40)), min_size=1))
def test_every_message_gets_its_coordinates_back(found: list[tuple[int, int]]) -> None:
    ascending: dict[int, int] = {}
    numbered = []
    for key, number in found:
        ascending[key] = ascending.get(key, -1) + 1 + number % 3
        numbered.append((key, NOWHERE if number == NOWHERE else ascending[key]))
    placement = placed([key for key, _ in numbered], [number for _, number in numbered], _NAMES)
    stored = Placement(*json.loads(json.dumps(placement)))
    expected = [f"{_NAMES[key]}{number}" if number >= 0 else _NAMES[key][:-1] for key, number in numbered]
    assert stored.coordinates() == expected


def test_numbers_without_gaps_are_one_range() -> None:
    assert runs_of(range(700, 1200)) == [700, 500]
    assert runs_of([65535, 1, 2, 7]) == [65535, 1, 1, 2, 7, 1]


@given(st.text(max_size=60), st.text(max_size=60))
def test_a_routing_key_is_read_back_from_its_frame(exchange: str, key: str) -> None:
    assert routing_key_of(publish_method(1, exchange.encode(), key.encode(), mandatory=True)) == key


@given(st.text(min_size=1, max_size=200), st.sampled_from([0, 1, 100, 127, 128, 20_000, 3_000_000]), st.booleans())
def test_a_topic_is_read_back_from_its_frame(topic: str, size: int, confirmed: bool) -> None:
    publish = Publish(topic, b"x" * size, int(confirmed), False, False, NO_PROPERTIES, "")
    assert topic_of(encode_publish(publish, 5)[0]) == topic


@pytest.mark.parametrize(
    ("origin", "names_it_for_ever"),
    [("log/0@4711", True), ("a#b@7", True), ("queue#7", False), ("user@host#7", False), ("user@host", False)],
)
def test_only_a_position_names_a_message_for_ever(origin: str, names_it_for_ever: bool) -> None:
    assert lasting(origin) is names_it_for_ever


def test_topic_with_an_at_sign_is_no_position_where_messages_have_no_number() -> None:
    """MQTT at QoS 0."""
    assert not any(lasting(place) for place in Placement(["user@host#"], [[NOWHERE, 2]]).coordinates())
