"""Payload types that the functions of transformations declare: in a chain, and at every message."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from mgw.gateway.runtime.job_steps import Conversion
from mgw.transforms import builtin
from mgw.transforms.errors import ConfigInvalid, TransformFailed
from mgw.transforms.message import Header, Message, PayloadKind, ValueType
from mgw.transforms.objects import AnyData
from mgw.transforms.payloads.convert import fit_into
from mgw.transforms.steps.declared import UNDECLARED, declared_types
from mgw.transforms.steps.registry import Transform, TransformationDefinition, compile_transformation, with_steps
from tests.support import transform_samples as samples

SAMPLES = "tests.support.transform_samples"
BUILTIN = "mgw.transforms.builtin"
STEPS: dict[str, dict[str, Any]] = {
    "decoded": {"function": f"{SAMPLES}:decoded"},
    "one_field": {"function": f"{SAMPLES}:one_field"},
    "shout": {"function": f"{SAMPLES}:shout"},
    "set": {"set": {"body": "'{}'"}},
    "urgent": {"where": "priority < 3"},
    "from_xml": {"function": f"{BUILTIN}:xml_to_lcr"},
    "to_xml": {"function": f"{BUILTIN}:lcr_to_xml"},
    "upper": {"function": f"{BUILTIN}:uppercase"},
}
FIELDS = (Header("a", ValueType.TEXT, "good"),)


def compiled(**definition: Any) -> Transform:
    def find(name: str) -> TransformationDefinition:
        return TransformationDefinition.from_mapping(name, STEPS[name])

    whole = with_steps(TransformationDefinition.from_mapping("flow", definition), find)
    return compile_transformation(whole, job="J1", modules=["tests.support"])


def test_the_hints_of_a_function_declare_its_types() -> None:
    fields = (PayloadKind.FIELDS,)
    assert declared_types(samples.decoded) == ((PayloadKind.RAW,), (PayloadKind.BASIC,))
    assert declared_types(samples.several_fields) == ((), fields)
    assert declared_types(builtin.lcr_to_xml) == ((PayloadKind.ANYDATA,), (PayloadKind.BASIC, PayloadKind.FIELDS))
    for function in (samples.shout, samples.only_urgent, samples.twice, len, str.upper, lambda message: message):
        assert declared_types(function) == UNDECLARED


@pytest.mark.parametrize(
    ("steps", "taker", "takes", "giver", "gives"),
    [
        (["from_xml", "upper"], "upper", "BASIC", "from_xml", "ANYDATA"),
        (["from_xml", "urgent", "upper"], "upper", "BASIC", "from_xml", "ANYDATA"),
        (["upper", "decoded"], "decoded", "RAW", "upper", "BASIC"),
        (["to_xml", "upper"], "upper", "BASIC", "to_xml", "BASIC or FIELDS"),
    ],
)
def test_a_chain_whose_functions_do_not_fit_is_refused_with_both_and_the_cure(
    steps: list[str], taker: str, takes: str, giver: str, gives: str
) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        compiled(steps=steps)
    cause = f"its step {taker} takes {takes}, and that of step {giver} before it gives {gives}"
    assert cause in refused.value.cause
    assert f"put a step between {giver} and {taker}" in refused.value.cure


@pytest.mark.parametrize(
    "steps",
    [
        ["decoded", "upper", "one_field"],  # what is BASIC takes what RAW gives
        ["from_xml", "to_xml", "from_xml"],
        ["from_xml", "set", "upper"],  # what a step of expressions makes is known at each message only
        ["from_xml", "shout", "upper"],
    ],
)
def test_a_chain_whose_functions_fit_or_declare_nothing_is_taken(steps: list[str]) -> None:
    compiled(steps=steps)


@pytest.mark.parametrize(
    ("function", "body", "cause"),
    [
        ("decoded", "text", "its function takes RAW, and the body is text"),
        ("decoded", FIELDS, "its function takes RAW, and the body is named fields"),
        ("one_field", AnyData("SYS.VARCHAR2", "x"), "its function takes BASIC, and the body is ANYDATA"),
        ("one_field", b"bad", "its function declares FIELDS, and it gave bytes"),
        ("one_field", None, "its function declares FIELDS, and it gave missing"),
        ("several_fields", "text", "its function declares FIELDS, and it gave text"),
    ],
)
def test_a_message_of_another_type_fails_with_both_types(function: str, body: Any, cause: str) -> None:
    with pytest.raises(TransformFailed) as failed:
        compiled(function=f"{SAMPLES}:{function}")(Message(body=body, correlation="order-17"))
    assert failed.value.number == 722
    assert failed.value.cause == cause
    assert failed.value.what == "transformation flow of job J1 failed for the message with correlation 'order-17'"


def test_a_function_that_declares_what_it_gives_may_still_filter() -> None:
    assert compiled(function=f"{SAMPLES}:several_fields")(Message(body=None)) is None


def test_one_message_of_another_type_among_500_fails_alone() -> None:
    job = Conversion(fit_into("FIELDS"), None, compiled(function=f"{SAMPLES}:one_field"), inbound=True)
    sent, failed = 0, []
    for number in range(500):
        try:
            results = job.apply(Message(body="bad" if number == 250 else "good", correlation=str(number)))
        except TransformFailed as error:
            failed.append((number, error.cause))
        else:
            sent += [result.body for result in results] == [FIELDS]
    assert sent == 499
    assert failed == [(250, "its function declares FIELDS, and it gave text")]


def test_the_page_has_the_types_of_the_functions_that_come_with_the_gateway() -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/transformations.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\| ([A-Z or]*) ?\| ([A-Z or]*) ?\|", page, re.MULTILINE)
    found = {name: (takes.strip(), gives.strip()) for name, takes, gives in rows}
    for name in builtin.__all__:
        types = declared_types(getattr(builtin, name))
        assert found[name] == (" or ".join(types.takes), " or ".join(types.gives)), name
