"""Transformations one after the other, and the time that one may take."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from mgw.transforms.errors import ConfigInvalid, TransformFailed
from mgw.transforms.message import Message
from mgw.transforms.steps.registry import Transform, TransformationDefinition, compile_transformation, with_steps

SAMPLES = "tests.support.transform_samples"
STEPS: Mapping[str, Mapping[str, Any]] = {
    "wrap": {"set": {"body": "'{}'", "body.n": "tab.user_data"}},
    "twice": {"function": f"{SAMPLES}:twice"},
    "hot": {"where": "tab.user_data.n > 10"},
    "plus_ten": {"function": f"{SAMPLES}:plus_ten"},
    "half": {"set": {"body.n": "tab.user_data.n / 2"}},
    "bad": {"set": {"body.n": "tab.user_data.n + 'x'"}},
    "ring": {"steps": ["wrap"]},
}


def find(name: str) -> TransformationDefinition | None:
    return TransformationDefinition.from_mapping(name, STEPS[name]) if name in STEPS else None


def defined(**definition: Any) -> TransformationDefinition:
    return with_steps(TransformationDefinition.from_mapping("flow", definition), find)


def compiled(**definition: Any) -> Transform:
    return compile_transformation(defined(**definition), job="J1", modules=["tests.support"])


def numbers(result: Any) -> list[Any]:
    messages = [result] if isinstance(result, Message) else result or []
    return [json.loads(str(message.body))["n"] for message in messages]


def test_steps_are_applied_in_their_order() -> None:
    assert numbers(compiled(steps=["wrap", "half"])(Message(body="24"))) == [12]
    with pytest.raises(TransformFailed):
        compiled(steps=["half", "wrap"])(Message(body="24"))


def test_each_step_sees_every_message_that_the_step_before_it_made() -> None:
    assert numbers(compiled(steps=["wrap", "twice", "half", "twice"])(Message(body="24"))) == [12] * 4


def test_what_a_step_filters_is_seen_by_no_later_step() -> None:
    flow = compiled(steps=["wrap", "hot", "bad"])
    assert flow(Message(body="3")) is None
    with pytest.raises(TransformFailed):
        flow(Message(body="11"))


def test_a_step_may_filter_some_of_the_messages_that_one_became() -> None:
    assert numbers(compiled(steps=["wrap", "plus_ten", "hot", "half"])(Message(body="4"))) == [7]


def test_a_filter_of_the_whole_comes_before_its_steps() -> None:
    flow = compiled(where="priority = 5", steps=["wrap", "bad"])
    assert flow(Message(body="3", priority=1)) is None


def test_a_failure_names_the_chain_its_step_and_the_message() -> None:
    with pytest.raises(TransformFailed) as failure:
        compiled(steps=["wrap", "bad"])(Message(body="3", correlation="order-17"))
    assert failure.value.number == 722
    assert failure.value.what == (
        "transformation flow, step bad of job J1 failed for the message with correlation 'order-17'"
    )


def test_a_definition_is_written_as_it_was_read() -> None:
    definition = {"steps": ["wrap", "half"], "where": "priority = 5", "time_limit": 2.5}
    assert TransformationDefinition.from_mapping("flow", definition).to_mapping() == definition


@pytest.mark.parametrize(
    ("definition", "cause"),
    [
        ({"steps": "wrap"}, "steps is not a list of names"),
        ({"steps": [1]}, "steps is not a list of names"),
        ({"steps": ["wrap"], "set": {"priority": "1"}}, "it has steps as well as a change of its own"),
        ({"steps": ["wrap"], "function": f"{SAMPLES}:twice"}, "it has steps as well as a change of its own"),
        ({"steps": ["wrap"] * 33}, "it has 33 steps, 32 are allowed"),
        ({"steps": ["wrap", "missing"]}, "its step missing does not exist"),
        ({"steps": ["ring"]}, "its step ring has steps itself"),
        ({"time_limit": 2}, "it does nothing"),
        ({"where": "priority = 1", "time_limit": 0}, "time_limit 0 is not a number of seconds"),
        ({"where": "priority = 1", "time_limit": True}, "time_limit True is not a number of seconds"),
        ({"where": "priority = 1", "time_limit": 3601}, "time_limit 3601 is not a number of seconds"),
        ({"where": "priority = 1", "time_limit": float("nan")}, "time_limit nan is not a number of seconds"),
    ],
)
def test_what_cannot_be_meant_is_refused(definition: dict[str, Any], cause: str) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        defined(**definition)
    assert refused.value.cause.startswith(cause)
    assert refused.value.cure


def test_steps_that_were_not_looked_up_are_not_compiled() -> None:
    with pytest.raises(ConfigInvalid, match="were not looked up"):
        compile_transformation(TransformationDefinition.from_mapping("flow", {"steps": ["wrap"]}))


def test_an_error_in_a_step_names_the_chain_and_the_step() -> None:
    with pytest.raises(ConfigInvalid, match="transformation flow, step twice is invalid"):
        compile_transformation(defined(steps=["twice"]))  # its module is not allowed


def test_a_message_fails_whose_change_takes_longer_than_its_limit() -> None:
    slow = compiled(function=f"{SAMPLES}:slow", options={"seconds": 0.05}, time_limit=0.01)
    with pytest.raises(TransformFailed) as failure:
        slow(Message(body="{}"))
    assert failure.value.number == 722
    assert failure.value.cause.endswith("s, and its time_limit is 0.01 s")


def test_the_limit_of_a_chain_is_that_of_all_its_steps() -> None:
    slow = compiled(steps=["wrap", "half"], time_limit=1e-9)
    with pytest.raises(TransformFailed, match="transformation flow of job J1 failed"):
        slow(Message(body="2"))


def test_a_message_within_the_limit_is_as_without_one() -> None:
    assert numbers(compiled(steps=["wrap", "half"], time_limit=3600)(Message(body="24"))) == [12]
