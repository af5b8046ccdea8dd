"""Registered transformations: definitions, set and unset, functions, failures."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mgw.transforms import builtin
from mgw.transforms.errors import ConfigInvalid, ExpressionInvalid, GatewayError, TransformFailed
from mgw.transforms.message import Header, Message, PayloadKind, ValueType
from mgw.transforms.steps.registry import Transform, TransformationDefinition, compile_transformation

SAMPLES = "tests.support.transform_samples"
BODY = '{"fahrenheit":212,"machine":"m1","inner":{"a":1,"b":2},"none":null}'
MESSAGE = Message(
    body=BODY,
    headers=(
        Header("a", ValueType.TEXT, "1"),
        Header("debug", ValueType.TEXT, "x"),
        Header("a", ValueType.TEXT, "2"),
        Header("raw", ValueType.RAW, b"\x01"),
    ),
    msgid=bytes(16),
    priority=5,
    correlation="c",
    expiration=10,
    expires_at=99,
)


def compiled(**definition: Any) -> Transform:
    return compile_transformation(
        TransformationDefinition.from_mapping("T1", definition), job="J1", modules=["tests.support"]
    )


def changed(message: Message = MESSAGE, **definition: Any) -> Message:
    result = compiled(**definition)(message)
    assert isinstance(result, Message)
    return result


def assigned(target: str, value: Any, message: Message = MESSAGE) -> Message:
    return changed(message, set={target: value})


# -- set, unset, where


def test_attributes_of_a_json_body_are_set_removed_and_kept_in_order() -> None:
    result = changed(
        set={
            "body.celsius": "(tab.user_data.fahrenheit - 32) / 1.8",
            "body.machine": "UPPER(tab.user_data.machine)",
            "body.new.deep": "tab.user_data.inner",
            "body.inner.c": "3",
        },
        unset=["body.fahrenheit", "body.inner.a", "body.not.there"],
    )
    assert json.loads(str(result.body)) == {
        "machine": "M1", "inner": {"b": 2, "c": 3}, "none": None, "celsius": 100.0,
        "new": {"deep": {"a": 1, "b": 2}},
    }  # fmt: skip
    assert list(json.loads(str(result.body))) == ["machine", "inner", "none", "celsius", "new"]


def test_all_expressions_see_the_message_as_it_came() -> None:
    result = changed(set={"priority": "priority + 1", "body.p": "priority", "correlation": "'p' || priority"})
    assert result.priority == 6
    assert json.loads(str(result.body))["p"] == 5
    assert result.correlation == "p5"


@pytest.mark.parametrize(
    ("target", "expression", "attribute", "expected"),
    [
        ("priority", "2", "priority", 2),
        ("priority", "2.0", "priority", 2),
        ("priority", "'7'", "priority", 7),
        ("priority", "NULL", "priority", 1),
        ("correlation", "tab.user_data.machine", "correlation", "m1"),
        ("correlation", "17", "correlation", "17"),
        ("corrid", "NULL", "correlation", None),
        ("expiration", "60", "expiration", 60),
        ("expiration", "60", "expires_at", None),
        ("expiration", "NULL", "expiration", None),
        ("delay", "1.5", "delay", 1.5),
        ("delay", "NULL", "delay", 0),
        ("body", "tab.user_data.machine", "body", "m1"),
        ("body", "tab.user_data.inner", "body", '{"a":1,"b":2}'),
        ("body", "tab.user_data.fahrenheit", "body", "212"),
        ("body", "HEADER('raw')", "body", b"\x01"),
        ("body", "NULL", "body", None),
        ("body.machine", "NULL", "body", BODY.replace('"m1"', "null")),
        ("body", 5, "body", "5"),
        ("body", True, "body", "true"),
        ("body", None, "body", None),
    ],
)
def test_a_target_takes_the_value_of_its_expression(
    target: str, expression: Any, attribute: str, expected: Any
) -> None:
    assert getattr(assigned(target, expression), attribute) == expected


@pytest.mark.parametrize(
    ("expression", "header"),
    [
        ("'t'", Header("n", ValueType.TEXT, "t")),
        ("5", Header("n", ValueType.INTEGER, 5)),
        ("3000000000", Header("n", ValueType.LONG, 3_000_000_000)),
        ("1.5", Header("n", ValueType.DOUBLE, 1.5)),
        ("1 = 1", Header("n", ValueType.BOOLEAN, True)),
        ("HEADER('raw')", Header("n", ValueType.RAW, b"\x01")),
        ("tab.user_data.inner", Header("n", ValueType.TEXT, '{"a":1,"b":2}')),
    ],
)
def test_a_header_gets_the_type_of_its_value(expression: str, header: Header) -> None:
    assert assigned("header.n", expression).headers == (*MESSAGE.headers, header)


def test_a_header_that_is_set_replaces_all_of_its_name_in_place() -> None:
    result = changed(set={"header.a": "'new'", "header.x.y": "1"}, unset=["header.debug"])
    assert [(h.name, h.value) for h in result.headers] == [("a", "new"), ("raw", b"\x01"), ("x.y", 1)]
    assert "a" not in [h.name for h in assigned("header.a", "NULL").headers]


def test_a_body_can_be_built_from_nothing() -> None:
    message = Message(body=b"\xff\xfe", headers=MESSAGE.headers, kind=PayloadKind.RAW)
    result = changed(message, set={"body": "'{}'", "body.from.header": "HEADER('a')"})
    assert (result.body, result.kind) == ('{"from":{"header":"1"}}', PayloadKind.BASIC)


def test_fields_are_set_and_removed_as_attributes() -> None:
    fields = (Header("speed", ValueType.SHORT, 7), Header("x", ValueType.TEXT, "y"), Header("z", ValueType.TEXT, ""))
    message = Message(body=fields, kind=PayloadKind.FIELDS)
    result = changed(
        message, set={"body.speed": "tab.user_data.speed * 2", "body.n": "'new'", "body.z": "NULL"}, unset=["body.x"]
    )
    assert result.body == (Header("speed", ValueType.INTEGER, 14), Header("n", ValueType.TEXT, "new"))
    assert result.kind is PayloadKind.FIELDS


def test_where_filters_and_unknown_filters_too() -> None:
    for where, passes in [("priority = 5", True), ("priority = 4", False), ("tab.user_data.none = 1", False)]:
        assert (compiled(where=where)(MESSAGE) is MESSAGE) is passes
        result = compiled(where=where, function="mgw.transforms.builtin:uppercase")(MESSAGE)
        assert (result is not None) is passes


@pytest.mark.parametrize(
    ("definition", "cause"),
    [
        ({"set": {"body.x": "1 / 0"}}, "division by zero"),
        ({"set": {"priority": "'high'"}}, "priority: 'high' is not a number"),
        ({"set": {"priority": "1.5"}}, "not a 32-bit integer"),
        ({"set": {"priority": "3000000000"}}, "32-bit"),
        ({"set": {"expiration": "-1"}}, "not in the range"),
        ({"set": {"correlation": "REPLACE('%', '%', '" + "x" * 129 + "')"}}, "129 characters"),
        ({"set": {"header.h": "REPLACE('aaaaa', 'a', '" + "x" * 1000 + "')"}}, "5000 long"),
        ({"set": {"header.h": "9223372036854775808"}}, "64 bits"),
        ({"set": {"body.x": "HEADER('raw')"}}, "raw bytes"),
        ({"set": {"body.machine.x": "1"}}, "machine is 'm1'"),
        ({"where": "tab.user_data.machine"}, "neither true nor false"),
        ({"set": {"correlation": "tab.user_data.inner"}}, "text is needed"),
    ],
)
def test_a_value_that_does_not_fit_fails_naming_transformation_job_and_message(
    definition: dict[str, Any], cause: str
) -> None:
    with pytest.raises(TransformFailed) as caught:
        compiled(**definition)(MESSAGE)
    assert caught.value.number == 722
    assert cause in caught.value.cause
    assert str(caught.value).startswith(f"[722] transformation T1 of job J1 failed for the message {'00' * 16}")


@pytest.mark.parametrize("body", [None, b"\xff", "plain", "[1]", "{", '{"a":NaN}'])
def test_a_body_that_is_no_json_object_fails_where_attributes_are_used(body: bytes | str | None) -> None:
    for definition in (
        {"set": {"body.x": "1"}},
        {"set": {"priority": "tab.user_data.p"}},
        {"where": "user_data.p = 1"},
    ):
        with pytest.raises(TransformFailed, match="must be a JSON object"):
            compiled(**definition)(Message(body=body, correlation="order-1"))
    assert changed(Message(body=body), set={"priority": "2"}).body == body


# -- functions


def test_a_function_is_called_with_its_options() -> None:
    assert changed(Message(body="a"), function=f"{SAMPLES}:shout", options={"mark": "?", "times": 2}).body == "a??"


def test_a_function_may_filter_and_may_make_several_messages() -> None:
    assert compiled(function=f"{SAMPLES}:only_urgent")(MESSAGE) is None
    assert compiled(function=f"{SAMPLES}:only_urgent")(Message(priority=1)) == Message(priority=1)
    results = compiled(function=f"{SAMPLES}:twice")(MESSAGE)
    assert isinstance(results, list)
    assert [each.correlation for each in results] == ["c", "second"]
    assert compiled(function=f"{SAMPLES}:nothing")(MESSAGE) == []


@pytest.mark.parametrize(
    ("function", "cause"),
    [
        ("raises", "KeyError: 'order-1' (transform_samples.py line "),
        ("exits", "SystemExit: 3"),
        ("runs_forever_down", "RecursionError"),
        ("returns_text", "returned str"),
        ("returns_mixed", "returned list"),
        ("changes_msgid", "changed the message id"),
        ("body_of_wrong_type", "is dict"),
        ("half_a_character", "surrogates not allowed"),
        ("list_of_headers", "tuple of Header, not list"),
        ("header_of_wrong_type", "has a value of str"),
        ("plain_tuple_as_header", "is not a Header"),
        ("huge_header", "4001 long"),
        ("long_correlation", "129 characters"),
    ],
)
def test_whatever_a_function_does_wrong_fails_the_message_only(function: str, cause: str) -> None:
    with pytest.raises(TransformFailed) as caught:
        compiled(function=f"{SAMPLES}:{function}")(Message(body="b", correlation="order-1"))
    assert caught.value.number == 722
    assert cause in caught.value.cause
    assert "transformation T1 of job J1 failed for the message with correlation 'order-1'" in str(caught.value)


@pytest.mark.parametrize(
    ("definition", "cause"),
    [
        ({}, "does nothing"),
        ({"sett": {}}, "unknown key sett"),
        ({"set": ["a"]}, "set is list"),
        ({"set": {"priority": [1]}}, "set to list"),
        ({"unset": "header.a"}, "not a list"),
        ({"where": 5}, "where is int"),
        ({"function": 5}, "function is int"),
        ({"function": f"{SAMPLES}:shout", "unset": ["body"]}, "as well as"),
        ({"unset": ["body"], "options": {"a": 1}}, "options are for a function"),
        ({"set": {"msgid": "'x'"}}, "not a target"),
        ({"set": {"header": "'x'"}}, "not a target"),
        ({"set": {"priority.x": "1"}}, "not a target"),
        ({"set": {"body..x": "1"}}, "no name"),
        ({"set": {"header." + "n" * 251: "1"}}, "250"),
        ({"set": {"header.a": "1"}, "unset": ["header.a"]}, "twice"),
        ({"set": {"corrid": "1", "correlation": "2"}}, "twice"),
        ({"function": "os:system"}, "not allowed"),
        ({"function": "transforms.builtins:x"}, "not allowed"),
        ({"function": "tests.supporter:x"}, "not allowed"),
        ({"function": "no_colon"}, "package.module:function"),
        ({"function": f"{SAMPLES}:"}, "package.module:function"),
        ({"function": f"{SAMPLES}:_hidden"}, "package.module:function"),
        ({"function": f"{SAMPLES}:a.b"}, "package.module:function"),
        ({"function": f"{SAMPLES}:missing"}, "no function missing"),
        ({"function": f"{SAMPLES}:NOT_A_FUNCTION"}, "no function NOT_A_FUNCTION"),
        ({"function": "tests.support.no_such_module:f"}, "ModuleNotFoundError"),
        ({"function": "mgw.transforms.builtin:replace"}, "no function replace"),
        ({"function": f"{SAMPLES}:shout", "options": {"marks": "?"}}, "unexpected keyword argument 'marks'"),
        ({"function": f"{SAMPLES}:shout", "options": {"times": "many"}}, "option times"),
        ({"function": "mgw.transforms.builtin:json_pick"}, "missing a required argument"),
        ({"function": "mgw.transforms.builtin:json_pick", "options": {"attributes": "a"}}, "option attributes"),
    ],
)
def test_a_definition_that_cannot_work_is_refused_before_any_message(definition: dict[str, Any], cause: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        compiled(**definition)
    assert cause in caught.value.cause
    assert "T1" in caught.value.what
    assert caught.value.cure


@pytest.mark.parametrize("definition", [{"set": {"body.x": "1 +"}}, {"where": "1 +"}])
def test_an_expression_that_cannot_be_compiled_is_refused_with_its_position(definition: dict[str, Any]) -> None:
    with pytest.raises(ExpressionInvalid, match="line 1, column 3"):
        compiled(**definition)


def test_a_definition_survives_storage() -> None:
    for mapping in (
        {"set": {"body.x": "1", "priority": "2"}, "unset": ["header.a"], "where": "1 = 1"},
        {"function": f"{SAMPLES}:shout", "options": {"times": 2}},
    ):
        definition = TransformationDefinition.from_mapping("T1", mapping)
        stored = json.dumps(definition.to_mapping())
        assert json.loads(stored) == mapping
        assert TransformationDefinition.from_mapping("T1", json.loads(stored)) == definition


# -- built-in functions


@pytest.mark.parametrize(
    ("function", "options", "body", "expected"),
    [
        ("json_pick", {"attributes": ["machine", "absent"]}, BODY, '{"machine":"m1"}'),
        ("json_drop", {"attributes": ["inner", "none", "machine"]}, BODY.encode(), '{"fahrenheit":212}'),
        ("json_rename", {"names": {"a": "b"}}, '{"a":1,"c":2}', '{"b":1,"c":2}'),
        ("json_rename", {"names": {"a": "c", "c": "a"}}, '{"a":1,"c":2}', '{"c":1,"a":2}'),
        ("text_to_json", {}, "hello", '{"text":"hello"}'),
        ("text_to_json", {"attribute": "line"}, "süd".encode(), '{"line":"süd"}'),
        ("decode_text", {"encoding": "latin-1"}, b"s\xfcd", "süd"),
        ("decode_text", {}, "süd", "süd"),
        ("uppercase", {}, "süd", "SÜD"),
    ],
)
def test_built_in_functions_change_the_body(
    function: str, options: dict[str, Any], body: bytes | str, expected: str
) -> None:
    message = Message(body=body, kind=PayloadKind.RAW if isinstance(body, bytes) else PayloadKind.BASIC)
    result = changed(message, function=f"mgw.transforms.builtin:{function}", options=options)
    assert (result.body, result.kind) == (expected, PayloadKind.BASIC)


@pytest.mark.parametrize(
    ("function", "options", "expected"),
    [
        ("rename_header", {"old": "a", "new": "b"}, [("b", "1"), ("debug", "x"), ("b", "2"), ("raw", b"\x01")]),
        ("copy_header", {"source": "a", "target": "debug"}, [("a", "1"), ("a", "2"), ("raw", b"\x01"), ("debug", "1")]),
        ("drop_headers", {"names": ["d*", "ra?"]}, [("a", "1"), ("a", "2")]),
    ],
)
def test_built_in_functions_change_the_headers(
    function: str, options: dict[str, Any], expected: list[tuple[str, object]]
) -> None:
    result = changed(function=f"mgw.transforms.builtin:{function}", options=options)
    assert [(header.name, header.value) for header in result.headers] == expected
    assert result.body == BODY


def test_a_header_that_is_not_there_is_not_copied() -> None:
    assert changed(function="mgw.transforms.builtin:copy_header", options={"source": "no", "target": "a"}) is MESSAGE


@pytest.mark.parametrize(
    ("function", "options", "body"),
    [
        ("json_pick", {"attributes": []}, "[1]"),
        ("json_drop", {"attributes": []}, None),
        ("json_rename", {"names": {"a": "c"}}, '{"a":1,"c":2}'),
        ("decode_text", {}, b"\xff"),
        ("uppercase", {}, None),
        ("text_to_json", {}, b"\xff"),
    ],
)
def test_built_in_functions_refuse_a_body_that_is_not_for_them(
    function: str, options: dict[str, Any], body: bytes | str | None
) -> None:
    with pytest.raises(TransformFailed, match=r"\[722\]"):
        compiled(function=f"mgw.transforms.builtin:{function}", options=options)(Message(body=body))


def test_every_built_in_function_is_registered_and_described() -> None:
    for name in builtin.__all__:
        assert getattr(builtin, name).__doc__
        try:
            compiled(function=f"mgw.transforms.builtin:{name}")
        except GatewayError as error:
            # Some have no required option, and those with schemas require one of three.
            wanted = (
                "exactly one of the options"
                if name.startswith(("avro_", "protobuf_"))
                else "missing a required argument"
            )
            assert wanted in error.cause  # noqa: PT017
