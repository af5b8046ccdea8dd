"""Whether a source reads what is written to a destination."""

from __future__ import annotations

import pytest

from mgw.links.patterns import amqp_covers, mqtt_covers


@pytest.mark.parametrize(
    ("source", "target", "covered"),
    [
        ("a/b", "a/b", True),
        ("a/+", "a/b", True),
        ("a/+", "a/b/c", False),
        ("a/#", "a/b/c", True),
        ("a/#", "a", True),
        ("#", "x", True),
        ("a/+/c", "a/b/d", False),
        ("a/b/c", "a/b", False),
        ("$share/g/a/+", "a/b", True),
    ],
)
def test_a_topic_filter_takes_in_what_the_standard_says(source: str, target: str, covered: bool) -> None:
    assert mqtt_covers(source, target) is covered


@pytest.mark.parametrize(
    ("source", "target", "covered"),
    [
        ("q", "q", True),
        ("q", "p", False),
        ("x/a.*", "x/a.b", True),
        ("x/a.*", "x/a.b.c", False),
        ("x/a.#", "x/a.b.c", True),
        ("x/a.#.z", "x/a.z", True),
        ("x/#", "x", True),
        ("x/a.b", "x", False),
        ("x/#", "y/a", False),
        ("x/a", "x/a", True),
        ("x", "x/a", False),
    ],
)
def test_a_binding_takes_in_what_a_topic_exchange_does(source: str, target: str, covered: bool) -> None:
    assert amqp_covers(source, target) is covered
