"""Subscriber rules."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from mgw.gateway.aq.conditions.rules import compile_rule, register_function, unregister_function
from mgw.transforms.errors import AqError, ConfigInvalid, ExpressionFailed, ExpressionInvalid
from mgw.transforms.language.compiler import compile_condition
from mgw.transforms.language.expression import Row
from mgw.transforms.message import Header, Message, ValueType
from mgw.transforms.objects import AnyData, ObjectValue


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


@pytest.fixture
def doubled() -> Iterator[list[object]]:
    """A function ``hr.doubled``; what it was called with."""
    seen: list[object] = []

    def function(value: object) -> object:
        seen.append(value)
        return value * 2  # type: ignore[operator]

    register_function("hr.Doubled", function)
    yield seen
    unregister_function("HR.DOUBLED")


def test_a_registered_function_is_called_with_values(doubled: list[object]) -> None:
    rule = compile_rule("HR.doubled(priority) = 6 AND hr.doubled(tab.user_data) LIKE '%ab'")
    assert rule.matches(Message(body="ab", priority=3))
    fields = (Header("n", ValueType.INTEGER, 1), Header("n", ValueType.INTEGER, 2))
    with pytest.raises(AqError, match=r"function hr\.doubled failed: TypeError") as caught:
        compile_rule("hr.doubled(tab.user_data) IS NULL").matches(Message(body=fields))
    assert caught.value.number == 25449
    assert doubled == [3, "ab", {"n": 1}]


def test_a_null_argument_reaches_the_function() -> None:
    register_function("given", lambda value: value is None)
    try:
        assert compile_rule("given(corrid)").matches(Message())
        assert not compile_rule("given(corrid)").matches(Message(correlation="c"))
    finally:
        unregister_function("given")


def test_a_function_that_returns_no_value_of_the_language_fails() -> None:
    for result in ([1], {"a": 1}, float("nan"), object()):
        register_function("odd", lambda result=result: result)
        try:
            with pytest.raises(AqError, match="not a text, number or boolean"):
                compile_rule("odd() = 1").matches(Message())
        finally:
            unregister_function("odd")


def test_a_rule_knows_the_functions_of_the_moment(doubled: list[object]) -> None:
    text = "hr.doubled(priority) = 6"
    assert compile_rule(text).matches(Message(priority=3))
    register_function("hr.doubled", lambda value: value + 3)
    assert not compile_rule(text).matches(Message(priority=4))
    unregister_function("hr.doubled")
    with pytest.raises(AqError, match=r"line 1, column 1.*there is no function hr\.doubled"):
        compile_rule(text)
    assert doubled == [3]


@pytest.mark.parametrize("name", ["", "1a", "a b", "a.b.c.d", "UPPER", "nvl", "tab.f", "a;b", "x'"])
def test_a_function_needs_a_name_of_its_own(name: str) -> None:
    with pytest.raises(ConfigInvalid, match="cannot be registered"):
        register_function(name, lambda: None)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("tab.userdata.a = 1 and PRIORITY<3", "user_data.a = 1 AND source.priority < 3"),
        ("corrid  not like 'a%'", "NOT correlation LIKE 'a%'".replace("correlation", "corrid")),
        ("nvl(corrid, 'x') != 'y'", "COALESCE(corrid, 'x') <> 'y'"),
    ],
)
def test_equal_rules_are_equal_in_canonical_form(left: str, right: str) -> None:
    assert compile_rule(left).canonical == compile_rule(right).canonical


def test_rules_that_differ_are_not_equal_in_canonical_form() -> None:
    texts = ["tab.user_data.a = 1", "tab.user_data.A = 1", "tab.user_data.a = '1'", "tab.user_data.a = 1.0"]
    texts += ["(priority = 1 OR priority = 2) AND corrid = 'a'", "priority = 1 OR priority = 2 AND corrid = 'a'"]
    texts += ["HEADER('a') = 1", 'user_data."header".a = 1', "user_data.header.a = 1", "corrid = 'A'", "corrid = 'a'"]
    assert len({compile_rule(text).canonical for text in texts}) == len(texts)


ORDER = (
    """<order xmlns:p="urn:x"><line n="1"><name>P&amp;p</name><qty>2.5</qty></line><line n="2"/><p:x>7</p:x></order>"""
)


@pytest.mark.parametrize(
    ("condition", "truth"),
    [
        ("tab.user_data.existsNode('/order/line[@n=\"2\"]') = 1", True),
        ("tab.user_data.EXISTSNODE('/order/nothing') = 1", False),
        ("tab.userdata.existsNode('count(//line) > 1') = 1", True),
        ("tab.user_data.extract('/order/line[1]/name/text()').getStringVal() = 'P&p'", True),
        ("tab.user_data.extract('//qty/text()').getNumberVal() BETWEEN 2 AND 3", True),
        ("tab.user_data.extract('//q:x/text()', 'xmlns:q=\"urn:x\"') = '7'", True),
        ("tab.user_data.extract('/order/line/@n') = '12'", True),
        ("tab.user_data.extract('count(//line)').getNumberVal() = 2", True),
        ("tab.user_data.extract('//line[2]').getStringVal() LIKE '<line %n=\"2\"/>'", True),
        ("tab.user_data.extract('/order/nothing') IS NULL", True),
        ("tab.user_data.extract('/order/nothing') = 'x'", None),
        ("user_data.existsNode('/order') = 1 AND priority = 1", True),
    ],
)
def test_a_rule_asks_an_xml_payload(condition: str, truth: bool | None) -> None:
    assert compile_condition(condition).holds(Row(Message(ORDER))) is truth
    assert compile_condition(condition).holds(Row(Message(ORDER.encode()))) is truth
    for body in ("no XML", None, b"\xff", '<!DOCTYPE a [<!ENTITY e "x">]><order>&e;</order>', ""):
        found = compile_condition(condition).holds(Row(Message(body)))
        assert found is (True if "IS NULL" in condition else None)


def test_an_xml_payload_is_parsed_once_for_all_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []
    original = Row._parse_xml
    monkeypatch.setattr(Row, "_parse_xml", lambda row: parsed.append(1) or original(row))
    row = Row(Message(ORDER))
    for _ in range(3):
        assert compile_rule("tab.user_data.existsNode('//line') = 1 AND user_data.existsNode('//p') = 0").matches(row)
    assert parsed == [1]


@pytest.mark.parametrize(
    ("condition", "cause"),
    [
        ("tab.user_data.existsNode('//[') = 1", "is not an XPath"),
        ("tab.user_data.existsNode('//p:x') = 1", "is not an XPath.*[Uu]ndefined namespace"),
        ("tab.user_data.existsNode('re:test(., \"x\")') = 1", "is not an XPath"),
        ("tab.user_data.existsNode('document(\"file:///etc/passwd\")') = 1", "is not an XPath"),
        ("tab.user_data.existsNode(corrid) = 1", "an XPath in quotes"),
        ("tab.user_data.existsNode('/a', 'p=urn:x') = 1", "declares no namespaces"),
        ("tab.user_data.existsNode() = 1", "an XPath in quotes"),
        ("tab.user_data.deleteNode('/a') = 1", "no method deleteNode"),
        ("tab.user_data.extract('/a').getBlobVal() = 1", "no method"),
        ("tab.user_data.GetTypeName('x') = 'a'", "no method GetTypeName"),
        ("priority.getTypeName() = 'a'", "there is no function priority.getTypeName"),
        ("tab.user_data.a.GetTypeName() = 'a'", "there is no function"),
    ],
)
def test_what_a_payload_cannot_be_asked_is_refused(condition: str, cause: str) -> None:
    with pytest.raises(AqError, match=cause) as caught:
        compile_rule(condition).matches(Message(ORDER))
    assert caught.value.number == 25448
    assert re.search("line 1, column (1|15) at '.*'", str(caught.value).replace('"', "'"))


def test_type_name_of_anydata_and_objects_is_known_to_rules() -> None:
    rule = compile_rule("TAB.USER_DATA.GetTypeName()='OE.ADDRESS'")
    address = ObjectValue("oe.address", {"street": "High Street"})
    assert rule.matches(Message(address))
    assert rule.matches(Message(AnyData("OE.ADDRESS", address)))
    assert not rule.matches(Message(AnyData("SYS.NUMBER", 16)))
    assert compile_rule("user_data.gettypename() IS NULL").matches(Message("text"))
    assert compile_rule("tab.user_data.GetTypeName() = 'OE.ADDRESS' AND tab.user_data.street LIKE 'High%'").matches(
        Message(AnyData("OE.ADDRESS", address))
    )


@pytest.mark.parametrize(
    "function", ["ROUND(HEADER('n'))", "FLOOR(HEADER('n'))", "CEIL(HEADER('n'))", "SUBSTR('a', HEADER('n'))"]
)
def test_a_number_that_is_none_is_an_error_of_the_rule(function: str) -> None:
    message = Message(headers=(Header("n", ValueType.DOUBLE, float("nan")),))
    with pytest.raises(AqError, match="NaN is not a number") as caught:
        compile_rule(f"{function} = 1").matches(message)
    assert caught.value.number == 25449


def test_the_remainder_of_what_is_out_of_range_is_an_error_of_the_rule() -> None:
    with pytest.raises(AqError, match="out of the range of numbers") as caught:
        compile_rule("MOD(tab.user_data.n, 2) = 1").matches(Message('{"n": 1E400}'))
    assert caught.value.number == 25449


@pytest.mark.parametrize(
    ("condition", "truth"),
    [
        ("hr.asked(priority) BETWEEN 1 AND 9", True),
        ("hr.asked(priority) IN (1, 2, '3', NULL)", True),
        ("hr.asked(priority) NOT IN ('a', priority + 1, 7)", None),
        ("NULLIF(hr.asked(priority), 7) = 3", True),
        ("CASE hr.asked(priority) WHEN 1 THEN FALSE WHEN 2 THEN FALSE ELSE TRUE END", True),
        ("CASE WHEN hr.asked(priority) = 1 THEN FALSE ELSE TRUE END", True),
    ],
)
def test_what_is_compared_with_several_values_is_computed_once(condition: str, truth: bool | None) -> None:
    asked: list[int] = []
    register_function("hr.asked", lambda number: asked.append(number) or number)
    try:
        row = Row(Message(None, priority=3))
        if truth is None:
            with pytest.raises(ExpressionFailed):
                compile_condition(condition).holds(row)
        else:
            assert compile_condition(condition).holds(row) is truth
    finally:
        unregister_function("hr.asked")
    assert asked == [3]


@pytest.mark.parametrize("after", [" BETWEEN TRUE AND TRUE)", " IN (TRUE, TRUE, TRUE))", " IN (TRUE, priority = 3))"])
def test_nesting_does_not_multiply_the_work(after: str) -> None:
    condition = compile_condition("(" * 22 + "(priority = 3)" + after * 22)
    assert condition.holds(Row(Message(None, priority=3))) is True


@pytest.mark.parametrize(
    ("text", "line", "column", "offending", "cause"),
    [
        ("(priority = 3", 1, 13, "3", "something is missing after it"),
        ("CASE WHEN priority = 3 THEN 1", 1, 29, "1", "something is missing after it"),
        ("priority = 3)", 1, 13, ")", "not expected"),
        ("priority = 3 AND\n  DECODE(priority, 2, 'a') = 'a'", 2, 3, "DECODE(priority, 2, 'a')", "DECODE is not part"),
        ("priority = 3 AND GREATEST((priority), (5)) = 5", 1, 18, "GREATEST((priority), (5))", "GREATEST is not part"),
        ("priority = 3 AND CAST(priority AS VARCHAR2(3)) = '3'", 1, 18, "CAST(priority AS VARCHAR2(3))", "CAST is not"),
        ("1 = 1 OR EXISTS (SELECT 1 FROM aq_hub)", 1, 10, "EXISTS (SELECT 1 FROM aq_hub)", "EXISTS is not part"),
        ("priority = 3 AND corrid = SYSDATE", 1, 27, "SYSDATE", "SYSDATE is not part"),
        ("priority = 3 AND corrid = ?", 1, 27, "?", "? is not part"),
        ("corrid = 'a' AND nofunc(corrid) = 1", 1, 18, "nofunc(corrid)", "no function nofunc"),
        ("corrid = 'a' AND UPPER() = 'X'", 1, 24, ")", "missing before it"),
        ("corrid = 'a' AND UPPER(corrid, 1) = 'X'", 1, 33, ")", "too many arguments"),
        ("corrid = 'a' AND NVL(corrid) = 'X'", 1, 18, "NVL(corrid)", "NVL takes two arguments"),
        ("corrid LIKE '%x' AND\n\n  upper(corrid) = lower(nme)", 3, 25, "nme", "no message property nme"),
    ],
)
def test_the_place_of_an_error_is_where_a_reader_would_put_it(
    text: str, line: int, column: int, offending: str, cause: str
) -> None:
    with pytest.raises(ExpressionInvalid) as caught:
        compile_condition(text)
    assert (caught.value.line, caught.value.column, caught.value.offending) == (line, column, offending)
    assert cause in caught.value.cause
