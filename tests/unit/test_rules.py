"""Subscriber rules."""

from __future__ import annotations

import pytest

from gateway.aq.rules import compile_rule
from transforms.errors import AqError, ExpressionInvalid
from transforms.expression import Row
from transforms.message import Header, Message, ValueType


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("priority = 3 AND corrid = 'c'", True),
        ("tab.user_data.temperature > 80", True),
        ("tab.user_data.missing > 80", False),
        ("NOT tab.user_data.missing > 80", False),
        ("tab.user_data.missing > 80 OR 1 = 1", True),
        ("HEADER('MGW_MQTT_topic') LIKE 'plant/%/telemetry'", True),
        ("tab.user_data.alarm", True),
        ("1=1", True),
        ("NULL = 1", False),
    ],
)
def test_a_rule_selects_when_it_is_true_and_not_when_it_is_unknown(text: str, matches: bool) -> None:
    headers = (Header("MGW_MQTT_topic", ValueType.TEXT, "plant/7/telemetry"),)
    message = Message(body=b'{"temperature": 81.5, "alarm": true}', priority=3, correlation="c", headers=headers)
    rule = compile_rule(text)
    assert rule.text == text
    assert rule.matches(message) is matches
    assert rule.matches(Row(message)) is matches


def test_an_invalid_rule_is_refused_with_number_and_position() -> None:
    with pytest.raises(AqError) as caught:
        compile_rule("priority = 1 AND colour = 'red'")
    assert caught.value.number == 25448
    assert "line 1, column 18" in str(caught.value)
    assert "'colour'" in str(caught.value)
    assert isinstance(caught.value.__cause__, ExpressionInvalid)
    assert caught.value.__cause__.column == 18


def test_a_rule_that_has_no_value_for_a_message_fails_by_name() -> None:
    rule = compile_rule("tab.user_data.n / tab.user_data.d > 1")
    assert rule.matches(Message(body='{"n": 3, "d": 2}'))
    with pytest.raises(AqError, match="division by zero") as caught:
        rule.matches(Message(body='{"n": 3, "d": 0}'))
    assert caught.value.number == 25449
    assert rule.text in str(caught.value)


def test_the_same_text_is_compiled_once() -> None:
    assert compile_rule("priority < 4") is compile_rule("priority < 4")
