"""Attributes are described once; what is typed by hand, procedures and choices, is held to the description."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any, get_args, get_origin

import pytest
from typer.main import get_command

from mgw.gateway.aq import QUEUE_ATTRIBUTES, QUEUE_TABLE_ATTRIBUTES, SUBSCRIBER_ATTRIBUTES, QueueAdmin
from mgw.gateway.cli.main import app
from mgw.gateway.config import models
from mgw.gateway.config.fields import Strict
from mgw.gateway.definitions.attributes import (
    AGENT_ATTRIBUTES,
    FOREIGN_QUEUE_ATTRIBUTES,
    JOB_ATTRIBUTES,
    LINK_ATTRIBUTES,
)
from mgw.gateway.definitions.job_options import JOB_OPTIONS
from mgw.gateway.definitions.objects import AgentDef
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.attributes import meaning
from mgw.links.contract import Field

Attributes = Mapping[str, Field]
#: Keys of a model that are no attributes of the object: how its secret is given, and what has a description elsewhere.
OF_THE_FILE = {"options", "password_file", "attributes", "prepare", "queue_table", "subscribers"}
MODELS: Mapping[type[Strict], Attributes] = {
    models.AgentModel: AGENT_ATTRIBUTES,
    models.LinkModel: LINK_ATTRIBUTES,
    models.ForeignQueueModel: FOREIGN_QUEUE_ATTRIBUTES,
    models.QueueTableModel: QUEUE_TABLE_ATTRIBUTES,
    models.QueueModel: {**QUEUE_TABLE_ATTRIBUTES, **QUEUE_ATTRIBUTES},
    models.SubscriberModel: SUBSCRIBER_ATTRIBUTES,
    models.JobModel: JOB_ATTRIBUTES,
}
#: Where a procedure has another name for an attribute: the documented one.
PROCEDURES: list[tuple[Callable[..., Any], Attributes, Mapping[str, str]]] = [
    (QueueAdmin.create_queue_table, QUEUE_TABLE_ATTRIBUTES, {"queue_payload_type": "payload_type"}),
    (QueueAdmin.create_queue, QUEUE_ATTRIBUTES, {}),
    (QueueAdmin.add_subscriber, SUBSCRIBER_ATTRIBUTES, {}),
    (GatewayAdmin.create_agent, AGENT_ATTRIBUTES, {}),
    (GatewayAdmin.create_msgsystem_link, LINK_ATTRIBUTES, {"agent_name": "agent", "comments": "comment"}),
    (GatewayAdmin.create_job, JOB_ATTRIBUTES, {"comments": "comment"}),
]
#: The default of the procedure says "as documented": None for what the description gives a number.
LEFT_TO_THE_HUB = {("create_agent", "max_threads"), ("create_agent", "max_memory")}


def _choices(annotation: Any) -> set[str]:
    if get_origin(annotation) is not None and str(get_origin(annotation)).endswith("Literal"):
        return set(get_args(annotation))
    return set().union(*map(_choices, get_args(annotation)), set())


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_a_file_has_the_attributes_that_are_described_and_no_other(model: type[Strict]) -> None:
    described = MODELS[model]
    assert set(model.model_fields) - OF_THE_FILE == set(described)
    for name, field in model.model_fields.items():
        if name in OF_THE_FILE:
            continue
        attribute = described[name]
        of_the_table = model is models.QueueModel and name not in QUEUE_ATTRIBUTES
        assert attribute.description == field.description or of_the_table, name
        assert field.is_required() is attribute.required, name
        assert of_the_table or attribute.required or field.default == attribute.default, name
        choices = _choices(field.annotation) | _choices(tuple(field.metadata))
        assert choices - {"INFINITE"} == set(attribute.choices), name


@pytest.mark.parametrize(
    ("procedure", "described", "names"), PROCEDURES, ids=lambda each: getattr(each, "__name__", "")
)
def test_a_procedure_has_the_defaults_that_are_described(
    procedure: Callable[..., Any], described: Attributes, names: Mapping[str, str]
) -> None:
    found = 0
    for name, parameter in inspect.signature(procedure).parameters.items():
        attribute = described.get(names.get(name, name))
        if attribute is None or (procedure.__name__, name) in LEFT_TO_THE_HUB:
            continue
        found += 1
        if not attribute.required:
            given = parameter.default
            assert given == attribute.default or str(given) == str(attribute.default), name
    assert found > 1


def test_an_agent_without_settings_is_the_one_that_is_described() -> None:
    for field in fields(AgentDef):
        name = {"comments": "comment"}.get(field.name, field.name)
        if field.default is not MISSING:
            assert field.default == AGENT_ATTRIBUTES[name].default, name


def test_the_batch_size_is_the_option_of_that_meaning() -> None:
    option = next(each for each in JOB_OPTIONS if each.name == "MsgBatchSize")
    attribute = JOB_ATTRIBUTES["batch_size"]
    assert (attribute.minimum, attribute.maximum) == (option.minimum, option.maximum)
    assert f"default {option.default}." in attribute.description


#: Command to the descriptions that its options come from, and those that mean something else.
COMMANDS: dict[tuple[str, ...], tuple[Attributes, set[str]]] = {
    ("aq", "tables", "create"): (QUEUE_TABLE_ATTRIBUTES, {"option"}),
    ("aq", "tables", "alter"): (QUEUE_TABLE_ATTRIBUTES, {"option"}),
    ("aq", "create"): (QUEUE_ATTRIBUTES, {"table", "started"}),
    ("aq", "alter"): (QUEUE_ATTRIBUTES, set()),
    ("aq", "subscribers", "add"): (SUBSCRIBER_ATTRIBUTES, {"option"}),
    ("agents", "create"): (AGENT_ATTRIBUTES, {"option", "encrypted_option", "password_file"}),
    ("agents", "alter"): (AGENT_ATTRIBUTES, {"option", "encrypted_option", "password_file"}),
    ("links", "create"): (LINK_ATTRIBUTES, {"option", "settings", "password_file"}),
    ("links", "alter"): (LINK_ATTRIBUTES, {"option", "settings", "password_file"}),
    ("jobs", "create"): (JOB_ATTRIBUTES, {"option", "disabled"}),
    ("jobs", "alter"): (JOB_ATTRIBUTES, {"option"}),
}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_says_of_an_attribute_what_is_described(words: tuple[str, ...]) -> None:
    described, others = COMMANDS[words]
    command: Any = get_command(app)
    for word in words:
        command = command.commands[word]
    texts = {meaning(attribute) for attribute in described.values()}
    options = {each.name: each.help for each in command.params if each.param_type_name == "option"}
    options = {name: text for name, text in options.items() if name not in {*others, "help"}}
    assert options
    for name, text in options.items():
        assert any(str(text).startswith(each) for each in texts), f"{name}: {text}"


def test_a_range_is_told_with_the_meaning() -> None:
    assert meaning(Field("x", "Seconds.", float, minimum=0.1, maximum=60)) == "Seconds. 0.1 to 60."
    assert meaning(Field("x", "Bytes, of `RAW`.", int, minimum=1)) == "Bytes, of RAW. At least 1."
    assert meaning(Field("x", "Seconds.", float, minimum=0)) == "Seconds."
    assert meaning(Field("x", "Failures.", int, minimum=0, maximum=2**31 - 1)) == "Failures."
