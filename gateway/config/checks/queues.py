"""Checks of what the hub keeps: queue tables, queues, subscribers, transformations, grants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from mgw.gateway.aq import COMPATIBLE, QUEUE_TABLE_OPTIONS, SUBSCRIBER_OPTIONS, is_of_job, qualified
from mgw.gateway.config.checks.context import Context
from mgw.gateway.config.findings import Path, errors
from mgw.gateway.config.forms import hub_name, inline_table
from mgw.gateway.config.models import (
    GrantModel,
    ObjectTypeModel,
    QueueModel,
    QueueTableModel,
    SubscriberModel,
    TransformationModel,
)
from mgw.gateway.config.object_types import in_order, types_within
from mgw.transforms.errors import AqError, ConfigInvalid, GatewayError
from mgw.transforms.payloads.sql_types_parser import DeclarationInvalid

if TYPE_CHECKING:
    from mgw.transforms.steps.registry import TransformationDefinition

__all__ = [
    "check_grants",
    "check_object_types",
    "check_queue",
    "check_queue_shape",
    "check_rule_function",
    "check_transformation",
]


def check_object_types(ctx: Context) -> None:
    """Object types: what they are declared as, and of which others they are made."""
    types = ctx.document.object_types
    for name, wanted in types.items():
        path: Path = ("object_types", name)
        ctx.name(path, name)
        places = {(*path, "array"): wanted.array} if wanted.array is not None else {}
        places |= {(*path, "attributes", each): declared for each, declared in wanted.attributes.items()}
        for place, declared in places.items():
            if place not in ctx.source.unresolved:
                _declaration(ctx, place, declared)
    try:
        in_order(types)
    except ConfigInvalid as error:
        ctx.refused("bad-type", ("object_types",), error)


def _declaration(ctx: Context, place: Path, declared: str) -> None:
    try:
        named = types_within(ObjectTypeModel(array=declared))
    except DeclarationInvalid as error:
        ctx.source.error("bad-type", place, error.cause, error.cure)
    except AqError as error:
        ctx.refused("bad-type", place, error)
    else:
        for each in sorted(named - ctx.types):
            ctx.unknown("unknown-object-type", place, "object_types", each)


def check_queue_shape(ctx: Context, path: Path, table: QueueTableModel) -> None:
    """Attributes of a queue table that do not go together, and its options."""
    ctx.values((*path, "options"), QUEUE_TABLE_OPTIONS, table.options, f"queue table of {path[1]}")
    ctx.payload_type((*path, "payload_type"), table.payload_type)
    if table.jms_types and table.payload_type != "ANYDATA":
        ctx.source.error(
            "bad-value",
            (*path, "jms_types"),
            f"JMS and XML types are for payload type ANYDATA, this is {table.payload_type}",
            "leave out jms_types, or set payload_type: anydata",
        )
    transactional = table.multiple_consumers and table.message_grouping == "TRANSACTIONAL"
    if table.sort_list and "COMMIT_TIME" in table.sort_list and not transactional:
        ctx.source.error(
            "bad-value",
            (*path, "sort_list"),
            "COMMIT_TIME needs multiple_consumers and message_grouping TRANSACTIONAL",
            "set both, or sort by ENQ_TIME",
        )
    if table.compatible is not None and table.compatible not in COMPATIBLE:
        ctx.source.error(
            "bad-value",
            (*path, "compatible"),
            f"compatible {table.compatible!r} is not supported",
            f"write one of {', '.join(repr(each) for each in COMPATIBLE)}",
        )
    if table.secondary_instance and not table.primary_instance:
        ctx.source.error(
            "bad-value",
            (*path, "secondary_instance"),
            "a secondary instance needs a primary one",
            "give primary_instance too",
        )


def check_queue(ctx: Context, name: str, queue: QueueModel) -> None:
    """A queue, where it is stored, and its subscribers."""
    path: Path = ("queues", name)
    ctx.name(path, name)
    given = {each for each in QueueTableModel.model_fields if each != "comment" and each in queue.model_fields_set}
    if queue.queue_table is not None and hub_name(queue.queue_table) in ctx.tables:
        for each in sorted(given):
            ctx.source.error(
                "conflicting-keys",
                (*path, each),
                f"{each} belongs to queue table {queue.queue_table!r}",
                "give it there, or leave out queue_table",
            )
    elif queue.queue_table is not None:
        ctx.unknown("unknown-queue-table", (*path, "queue_table"), "queue_tables", queue.queue_table)
    else:
        check_queue_shape(ctx, path, inline_table(queue))
    if queue.type == "EXCEPTION":
        for each in ("max_retries", "retry_delay", "retention_time"):
            if each in queue.model_fields_set:
                ctx.source.error("bad-value", (*path, each), f"an EXCEPTION queue has no {each}", f"leave out {each}")

    if queue.subscribers:
        _subscribers(ctx, path, queue, queue.subscribers)


def _subscribers(ctx: Context, path: Path, queue: QueueModel, subscribers: Mapping[str, SubscriberModel]) -> None:
    from mgw.gateway.aq import agent_name, compile_rule

    below: Path = (*path, "subscribers")
    if queue.type == "EXCEPTION" or not ctx.shape(queue).multiple_consumers:
        kind = "an EXCEPTION queue" if queue.type == "EXCEPTION" else "a single-consumer queue"
        cure = "leave them out" if queue.type == "EXCEPTION" else "set multiple_consumers: true"
        ctx.source.error("bad-value", below, f"{kind} has no subscribers", cure)
    for name, each in subscribers.items():
        place = (*below, name)
        if is_of_job(name):
            ctx.source.error("bad-value", place, f"{name!r}: names with MGW_ belong to jobs", "use another name")
        try:
            agent_name(name, what="subscriber")
        except AqError as error:
            ctx.refused("bad-value", place, error)
        ctx.transformation((*place, "transformation"), each.transformation)
        ctx.values((*place, "options"), SUBSCRIBER_OPTIONS, each.options, f"subscriber {name}")
        known = ctx.as_held("queues", str(path[1]), partial(_rule_of, name))
        if each.rule is not None and (*place, "rule") not in ctx.source.unresolved and not known:
            try:
                compile_rule(each.rule, bindings=ctx.bindings)
            except AqError as error:
                ctx.refused("bad-rule", (*place, "rule"), error)


def _rule_of(subscriber: str, queue: QueueModel) -> str | None:
    found = {name.upper(): each.rule for name, each in (queue.subscribers or {}).items()}
    return found.get(subscriber.upper())


def check_rule_function(ctx: Context, name: str, function: str) -> None:
    """A function that rules may call: it must be there, in a module that is allowed. Rules are checked with it."""
    from mgw.transforms.language.functions import check_name
    from mgw.transforms.steps.registry import load_rule_function

    path: Path = ("settings", "rule_functions", name)
    if path in ctx.source.unresolved:
        return
    try:
        check_name(name)
        load_rule_function(name, function, ctx.modules)
    except GatewayError as error:
        ctx.refused("bad-function", path, error)
    else:
        ctx.functions[name.upper()] = function


def check_transformation(ctx: Context, name: str, transformation: TransformationModel) -> None:
    """A transformation: what it does must compile."""
    from mgw.gateway.aq import bound_functions as bound
    from mgw.transforms.steps.registry import TransformationDefinition, compile_transformation, with_steps

    path: Path = ("transformations", name)
    ctx.name(path, name)
    for each in ("from_type", "to_type"):
        ctx.payload_type((*path, each), getattr(transformation, each))
    if ctx.unresolved_below(path) or ctx.as_held("transformations", name, lambda each: _definition(name, each)):
        return
    try:
        definition = TransformationDefinition.from_mapping(name, transformation.definition)
        if any(_is_wrong(ctx, step) for step in definition.steps):
            return  # that is said of the step
        definition = with_steps(definition, lambda step: _step(ctx, step))
        compile_transformation(definition, modules=ctx.modules, functions=bound(ctx.bindings))
        _check_types(ctx, name, transformation, definition.steps)
    except GatewayError as error:
        ctx.refused("bad-transformation", path, error)


def _is_wrong(ctx: Context, step: str) -> bool:
    """Whether a step is in the files with errors of its own."""
    found = ctx.transformations.get(hub_name(step))
    if found is None:
        return ctx.is_written("transformations", step)
    return any(each.object == f"transformations {found[0]}" for each in errors(ctx.source.findings))


def _step(ctx: Context, name: str) -> TransformationDefinition | None:
    from mgw.transforms.steps.registry import TransformationDefinition

    found = ctx.transformations.get(hub_name(name))
    return None if found is None else TransformationDefinition.from_mapping(found[0], found[1].definition)


def _check_types(ctx: Context, name: str, chain: TransformationModel, steps: Sequence[str]) -> None:
    """Each step of a chain takes what the step before it gives."""
    if not steps:
        return
    given, before = chain.from_type, f"transformation {name} takes"
    for step in steps:
        _, found = ctx.transformations[hub_name(step)]
        if not _same_type(found.from_type, given):
            raise ConfigInvalid(
                f"transformation {name} is invalid",
                cause=f"its step {step} takes {found.from_type}, {before} {given}",
                cure="put a step between them, or correct from_type and to_type",
            )
        given, before = found.to_type, f"step {step} before it gives"
    if not _same_type(given, chain.to_type):
        raise ConfigInvalid(
            f"transformation {name} is invalid",
            cause=f"its last step {steps[-1]} gives {given}, it gives {chain.to_type}",
            cure=f"give it to_type {given}, or another last step",
        )


def _same_type(one: str, other: str) -> bool:
    return hub_name(one) == hub_name(other)


def _definition(name: str, each: TransformationModel) -> Mapping[str, object]:
    from mgw.transforms.steps.registry import TransformationDefinition

    try:
        return TransformationDefinition.from_mapping(name, each.definition).to_mapping()
    except ConfigInvalid:
        return each.definition


def check_grants(ctx: Context, name: str, grants: GrantModel) -> None:
    """The queues of grants."""
    for queue in grants.queues:
        if hub_name(queue) not in ctx.queues and not _made_by_hub(queue):
            ctx.unknown("undefined-queue", ("grants", name, "queues", queue), "queues", queue)
    for each in grants.object_types:
        if hub_name(each) not in ctx.types:
            ctx.unknown("unknown-object-type", ("grants", name, "object_types"), "object_types", each)


def _made_by_hub(queue: str) -> bool:
    try:
        return qualified(queue).name.upper().startswith("AQ$_")
    except AqError:
        return False
