"""The expression language: values, three-valued logic, names, functions and refusals."""

from __future__ import annotations

import time

import pytest

from mgw.transforms.errors import ExpressionFailed, ExpressionInvalid
from mgw.transforms.language.compiler import compile_condition, compile_expression
from mgw.transforms.language.expression import FUNCTIONS, PROPERTIES, Row
from mgw.transforms.message import Header, Message, PayloadKind, ValueType

BODY = (
    b'{"a":1,"text":"it\'s","none":null,"o":{"list":[1,2],"name":"x y"},"yes":true,"code":"007",'
    b'"header":{"q":5},"order":"o1","big":12345678901234567890}'
)
MESSAGE = Message(
    body=BODY,
    headers=(
        Header("K", ValueType.TEXT, "first"),
        Header("K", ValueType.TEXT, "second"),
        Header("R", ValueType.RAW, b"\x01\xff"),
        Header("a.b", ValueType.DOUBLE, 1.5),
    ),
    priority=3,
    correlation="order-17",
    delay=5,
    msgid=bytes(range(16)),
    enqueue_time=1000.5,
    attempts=2,
    sender_name="SCOTT",
    original_msgid=b"\xab" * 16,
)


def value(text: str, message: Message = MESSAGE) -> object:
    return compile_expression(text).value(Row(message))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # literals and arithmetic
        ("42", 42),
        ("1.5e2", 150.0),
        ("'it''s'", "it's"),
        ("''", ""),
        ("NULL", None),
        ("TRUE", True),
        ("false", False),
        ("-5", -5),
        ("- (2 + 3)", -5),
        ("2 + 3 * 4", 14),
        ("(2 + 3) * 4", 20),
        ("10 - 3 - 2", 5),
        ("7 / 2", 3.5),
        ("6 / 2", 3),
        ("-7 % 3", -1),
        ("'10' + '5'", 15),
        ("1 + NULL", None),
        ("'a' || 1 || TRUE", "a1true"),
        ("'a' || NULL", None),
        ("0.5 || ''", "0.5"),
        ("2.0 || ''", "2"),
        # comparisons
        ("1 = 1.0", True),
        ("1 <> 2", True),
        ("1 != 1", False),
        ("2 >= 2", True),
        ("'a' < 'b'", True),
        ("'10' < 9", False),
        ("'10' < '9'", True),
        ("TRUE = 'true'", True),
        ("1 = TRUE", True),
        ("NULL = NULL", None),
        ("1 = NULL", None),
        ("NULL <> 1", None),
        ("NULL IS NULL", True),
        ("1 IS NOT NULL", True),
        ("(1 = NULL) IS TRUE", False),
        ("(1 = 2) IS FALSE", True),
        ("(1 = NULL) IS NOT TRUE", True),
        # logic
        ("1 = 1 AND NULL = 1", None),
        ("1 = 2 AND NULL = 1", False),
        ("1 = 1 OR NULL = 1", True),
        ("1 = 2 OR NULL = 1", None),
        ("NOT NULL = 1", None),
        ("NOT 1 = 2", True),
        ("1 = 2 AND 1 / 0 = 1", False),
        # IN, BETWEEN
        ("2 IN (1, 2)", True),
        ("3 IN (1, 2)", False),
        ("3 IN (1, NULL)", None),
        ("1 IN (1, NULL)", True),
        ("3 NOT IN (1, NULL)", None),
        ("NULL IN (1)", None),
        ("'2' IN (1, 2)", True),
        ("2 IN ('1', '2')", True),
        ("'b' IN ('a', 'b')", True),
        ("2 BETWEEN 1 AND 3", True),
        ("2 NOT BETWEEN 1 AND 3", False),
        ("NULL BETWEEN 1 AND 3", None),
        ("2 BETWEEN NULL AND 1", False),
        ("2 BETWEEN NULL AND 3", None),
        # LIKE
        ("'abc' LIKE 'a%'", True),
        ("'abc' LIKE '_b_'", True),
        ("'ABC' LIKE 'a%'", False),
        ("'abc' NOT LIKE 'a%'", False),
        ("'abc' LIKE NULL", None),
        ("NULL LIKE '%'", None),
        ("'' LIKE '%'", True),
        ("'' LIKE '_'", False),
        ("'a\nb' LIKE 'a_b'", True),
        ("'a%b' LIKE 'a!%b' ESCAPE '!'", True),
        ("'axb' LIKE 'a!%b' ESCAPE '!'", False),
        ("'a!b' LIKE 'a!!b' ESCAPE '!'", True),
        ("'a.b' LIKE 'a.b'", True),
        ("'axb' LIKE 'a.b'", False),
        ("'a\\' LIKE 'a\\'", True),
        ("'x' NOT LIKE 'a!%' ESCAPE '!'", True),
        ("17 LIKE '1%'", True),
        ("corrid LIKE 'order-' || '%'", True),
        # CASE and choices
        ("CASE WHEN NULL = 1 THEN 'u' WHEN 1 = 1 THEN 't' ELSE 'f' END", "t"),
        ("CASE WHEN 1 = 2 THEN 1 END", None),
        ("CASE 2 WHEN 1 THEN 'one' WHEN 2 THEN 'two' END", "two"),
        ("CASE NULL WHEN NULL THEN 1 ELSE 2 END", 2),
        ("COALESCE(NULL, NULL, 3)", 3),
        ("NVL(NULL, 'd')", "d"),
        ("NULLIF(1, 1)", None),
        ("NULLIF(1, 2)", 1),
        # functions
        ("UPPER('abc')", "ABC"),
        ("LOWER('ABC')", "abc"),
        ("LENGTH('abc')", 3),
        ("SUBSTR('hello', 2)", "ello"),
        ("SUBSTR('hello', 2, 3)", "ell"),
        ("SUBSTR('hello', 0, 2)", "he"),
        ("SUBSTR('hello', -3, 2)", "ll"),
        ("SUBSTR('hello', -9)", ""),
        ("SUBSTR('hello', 9)", ""),
        ("SUBSTR('hello', 2, -1)", ""),
        ("TRIM('  a ')", "a"),
        ("LTRIM('xxax', 'x')", "ax"),
        ("RTRIM('xxax', 'x')", "xxa"),
        ("TRIM(BOTH 'x' FROM 'xax')", "a"),
        ("ABS(-2.5)", 2.5),
        ("ROUND(2.5)", 3),
        ("ROUND(-2.5)", -3),
        ("ROUND(1.005, 2)", 1.01),
        ("ROUND(1250, -2)", 1300),
        ("ROUND(-1249.9, -2)", -1200),
        ("FLOOR(-1.5)", -2),
        ("CEIL(-1.5)", -1),
        ("MOD(-7, 3)", -1),
        ("MOD(7.5, 2)", 1.5),
        ("INSTR('hello', 'l')", 3),
        ("INSTR('hello', 'l', 4)", 4),
        ("INSTR('hello', 'l', 1, 2)", 4),
        ("INSTR('hello', 'l', 1, 3)", 0),
        ("INSTR('hello', 'l', -1)", 4),
        ("INSTR('hello', 'l', -1, 2)", 3),
        ("INSTR('hello', 'z')", 0),
        ("REPLACE('aXbX', 'X', '--')", "a--b--"),
        ("REPLACE('aXb', 'X')", "ab"),
        ("TO_NUMBER(' 12.5 ')", 12.5),
        ("TO_CHAR(12)", "12"),
        ("CONCAT('a', NULL, 1)", "a1"),
        ("UPPER(NULL)", None),
        # names
        ("Priority + tab.PRIORITY", 6),
        ("corrid", "order-17"),
        ("correlation", "order-17"),
        ("msgid", "000102030405060708090A0B0C0D0E0F"),
        ("enq_time", 1000.5),
        ("expiration", None),
        ("delay", 5),
        ("retry_count + attempts", 4),
        ("sender_name", "SCOTT"),
        ("sender_address", None),
        ("exception_queue", None),
        ("original_msgid", "AB" * 16),
        ("tab.user_data.a", 1),
        ("tab.userdata.a", 1),
        ("source.user_data.a", 1),
        ("USER_DATA.a", 1),
        ("tab.user_data.A", None),
        ("tab.user_data.missing", None),
        ("tab.user_data.none", None),
        ("tab.user_data.text", "it's"),
        ("tab.user_data.o.name", "x y"),
        ("tab.user_data.o.name.deeper.and.deeper", None),
        ("tab.user_data.o.list", [1, 2]),
        ("tab.user_data.o.list IS NULL", False),
        ("tab.user_data.order", "o1"),
        ("tab.user_data.yes", True),
        ("tab.user_data.yes AND priority = 3", True),
        ("tab.user_data.code = 7", True),
        ("tab.user_data.code = '7'", False),
        ("tab.user_data.big = 12345678901234567890", True),
        ("tab.user_data.header.K", "first"),
        ("HEADER('K')", "first"),
        ("HEADER('missing')", None),
        ("HEADER('a.b') * 2", 3.0),
        ("HEADER('R')", b"\x01\xff"),
        ("HEADER('R') = '01FF'", True),
        ("HEADER(UPPER('k'))", "first"),
        ('tab.user_data."header".q', 5),
        ("1 = 1 -- a comment", True),
    ],
)
def test_an_expression_has_the_value_that_sql_gives_it(text: str, expected: object) -> None:
    result = value(text)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("1 / 0", "division by zero"),
        ("MOD(1, 0)", "division by zero"),
        ("'abc' < 5", "'abc' is not a number"),
        ("TO_NUMBER('nan')", "'nan' is not a number"),
        ("TO_NUMBER('1_000')", "is not a number"),
        ("tab.user_data.o = 1", "JSON object and cannot be compared"),
        ("tab.user_data.o.list LIKE 'a'", "JSON array"),
        ("tab.user_data.text AND 1 = 1", "neither true nor false"),
        ("1e308 * 10", "out of the range"),
        ("tab.user_data.text = TRUE", "neither true nor false"),
        ("REPLACE(REPLACE(REPLACE(LONG, 'a', LONG), 'a', LONG), 'a', 'aa')", "longer than"),
        ("'a' LIKE corrid || '!' ESCAPE '!'", "escape character"),
        ("INSTR('a', 'a', 1, 0)", "at least 1"),
    ],
)
def test_an_expression_without_value_fails_naming_itself_and_the_cause(text: str, cause: str) -> None:
    text = text.replace("LONG", f"'{'a' * 900}'")
    with pytest.raises(ExpressionFailed) as caught:
        value(text)
    assert cause in caught.value.cause
    assert repr(text) in str(caught.value)
    assert caught.value.cure


@pytest.mark.parametrize(
    ("text", "line", "column", "offending"),
    [
        ("", 1, 1, ""),
        ("   ", 1, 1, ""),
        ("priority = ", 1, 10, "="),
        ("priority = 1 AND\n  tab.bar > 2", 2, 3, "tab.bar"),
        ("priority === 1", 1, 12, "="),
        ("foo = 1", 1, 1, "foo"),
        ("corrid = 'abc", 1, 10, "'abc"),
        ("priority = 1 /* why", 1, 14, "/* why"),
        ("hr.get_type(tab.user_data) = 1", 1, 1, None),
        ("nope(1) = 1", 1, 1, None),
        ("corrid LIKE 'x' ESCAPE 'xx'", 1, 1, None),
        ("corrid LIKE 'x!a' ESCAPE '!'", 1, 1, None),
        ("priority IN (SELECT 1 FROM dual)", 1, 1, None),
        ("EXISTS (SELECT 1 FROM dual)", 1, 1, None),
        ("priority = 1; DROP TABLE aq_message", 1, 15, "DROP"),
        ("CAST(priority AS NUMBER) = 1", 1, 1, None),
        ("corrid = 'a' 'b'", 1, 10, None),
        ("corrid(+) = 1", 1, 1, None),
        (":name = 1", 1, 1, None),
        ("TO_CHAR(priority, '9') = '1'", 1, 1, None),
        ("SUBSTR(corrid) = 'x'", 1, 1, None),
        ("HEADER() = 'x'", 1, 1, None),
        ("user_data.header = 1", 1, 1, None),
        ("user_data.* = 1", 1, 1, None),
        ("user_data.a[0] = 1", 1, 1, None),
        ("priority IS 5", 1, 1, None),
        ("priority = SYSDATE", 1, 12, None),
        ("1e999 = 1", 1, 1, "1e999"),
        ("corrid = '\ud800'", 1, 11, ""),
        ("COUNT(1) = 1", 1, 1, None),
        ("priority = ANY(1, 2)", 1, 16, None),
        ("tab", 1, 1, "tab"),
        (")", 1, 1, ")"),
        ("(" * 40 + "1 = 1" + ")" * 40, 1, 25, ""),
        ("NOT " * 900 + "1 = 1", 1, 1, ""),
        ("- " * 900 + "1 = 1", 1, 1, ""),
        ("CASE " * 30, 1, 121, ""),
        ("x" * 4001, 1, 1, ""),
    ],
)
def test_an_invalid_condition_is_refused_with_the_position(
    text: str, line: int, column: int, offending: str | None
) -> None:
    with pytest.raises(ExpressionInvalid) as caught:
        compile_condition(text)
    error = caught.value
    assert (error.line, error.column) == (line, column), str(error)
    assert offending is None or error.offending == offending
    assert error.cause
    assert error.cure
    assert f"line {line}, column {column}" in str(error)


@pytest.mark.parametrize("text", ["1", "'x'", "priority + 1", "UPPER(corrid)", "1 AND 1 = 1", "NOT 5"])
def test_a_number_or_text_is_no_condition(text: str) -> None:
    with pytest.raises(ExpressionInvalid, match="condition"):
        compile_condition(text)


def test_a_condition_over_an_attribute_that_is_no_truth_value_fails() -> None:
    with pytest.raises(ExpressionFailed, match="neither true nor false"):
        compile_condition("tab.user_data.text").holds(Row(MESSAGE))


def test_long_chains_of_and_or_and_plus_compile_and_run() -> None:
    assert value(" OR ".join(["priority = 1"] * 240)) is False
    assert value(" AND ".join(["priority = 3"] * 220)) is True
    assert value("+".join(["1"] * 2000)) == 2000
    assert value("||".join(["'a'"] * 700)) == "a" * 700


def test_like_with_many_wildcards_stays_fast() -> None:
    text = "a" * 100_000
    started = time.process_time()
    for pattern in ("%a" * 30 + "%b", "%a_a%" * 20 + "b", "%aa%aaa%ab%a%"):
        assert value(f"tab.user_data LIKE '{pattern}'", Message(body=text)) is False
    assert time.process_time() - started < 5


@pytest.mark.parametrize("body", [None, b"", b"\xff\xfe", "plain text", "[1]", "5", '{"a": NaN}', "[" * 100_000])
def test_attributes_of_a_body_that_is_no_json_object_are_null_unless_strict(body: bytes | str | None) -> None:
    message = Message(body=body)
    assert value("tab.user_data.a IS NULL", message) is True
    with pytest.raises(ExpressionFailed, match="JSON object"):
        compile_expression("tab.user_data.a").value(Row(message, strict=True))


def test_the_body_is_parsed_once_for_all_expressions_of_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []
    original = Row._parse
    monkeypatch.setattr(Row, "_parse", lambda row: parsed.append(1) or original(row))
    row = Row(MESSAGE)
    for _ in range(3):
        assert compile_condition("tab.user_data.a = 1 AND tab.user_data.o.name = 'x y'").holds(row) is True
    assert parsed == [1]


def test_fields_are_attributes_and_the_first_of_a_name_counts() -> None:
    fields = (Header("speed", ValueType.INTEGER, 7), Header("speed", ValueType.INTEGER, 8))
    message = Message(body=fields, kind=PayloadKind.FIELDS)
    assert value("tab.user_data.speed", message) == 7
    assert value("tab.user_data.other", message) is None
    assert value("tab.user_data", message) is None


def test_the_whole_body_is_text_where_it_can_be() -> None:
    assert value("tab.user_data || '!'", Message(body="grüß".encode())) == "grüß!"
    assert value("tab.user_data", Message(body=b"\xff")) == b"\xff"
    assert value("tab.user_data = 'FF'", Message(body=b"\xff")) is True


def test_every_listed_function_and_property_compiles() -> None:
    arguments = {"COALESCE": "1, 2", "CONCAT": "'a', 'b'", "HEADER": "'a'", "INSTR": "'a', 'b'", "MOD": "3, 2"}
    arguments |= {"NULLIF": "1, 2", "NVL": "1, 2", "REPLACE": "'a', 'b'", "SUBSTR": "'a', 1"}
    for name in FUNCTIONS:
        compile_expression(f"{name}({arguments.get(name, '1')})").value(Row(MESSAGE))
    for name in PROPERTIES:
        compile_expression(name).value(Row(Message()))
