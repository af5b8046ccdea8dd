"""Options as values of their types: the hub keeps them as texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from mgw.gateway.aq import QUEUE_TABLE_OPTIONS, SUBSCRIBER_OPTIONS, QueueTableInfo, SubscriberInfo
from mgw.gateway.config.redacted import link_settings
from mgw.gateway.definitions.agent_options import AGENT_OPTIONS, NO_EFFECT
from mgw.gateway.definitions.job_options import JOB_OPTIONS
from mgw.gateway.definitions.objects import AgentDef, ForeignQueueDef
from mgw.gateway.services.admin import GatewayAdmin
from mgw.links import registry
from mgw.links.contract import Field
from mgw.links.options import typed
from mgw.transforms.errors import GatewayError

__all__ = [
    "agent_view",
    "foreign_queue_view",
    "job_options",
    "link_settings",
    "queue_options",
    "queue_table_view",
    "record",
    "subscriber_view",
    "typed_options",
]


def record(value: Any) -> dict[str, Any]:
    """What a definition says, without what it hides."""
    return {field.name: getattr(value, field.name) for field in fields(value) if field.repr}


def agent_view(admin: GatewayAdmin, agent: AgentDef) -> dict[str, Any]:
    """An agent with its options; ``no_effect`` lists what is stored and means nothing."""
    state = admin.agent_state(agent.name)
    options = {option.name: option.value for option in admin.list_agent_options(agent.name)}
    return (
        record(agent)
        | {"no_effect": [each for each in NO_EFFECT if getattr(agent, each, None) is not None]}
        | {"status": str(state.status), "last_error": state.last_error_msg, "options": typed(options, AGENT_OPTIONS)}
    )


def foreign_queue_view(queue: ForeignQueueDef, link_type: str | None) -> dict[str, Any]:
    """A registration with its options as values of their types."""
    return record(queue) | {"options": queue_options(queue.options, link_type)}


def job_options(given: Mapping[str, str], link_type: str | None) -> dict[str, Any]:
    """Options of a job under their documented names."""
    known = {each.name.lower() for each in JOB_OPTIONS}
    own = () if known.issuperset(name.lower() for name in given) else _fields(link_type, "job_options")
    return typed(given, (*JOB_OPTIONS, *own))


def queue_options(given: Mapping[str, str], link_type: str | None) -> dict[str, Any]:
    """Options of a foreign queue under their documented names."""
    return typed(given, _fields(link_type, "queue_options")) if given else {}


def queue_table_view(table: QueueTableInfo) -> dict[str, Any]:
    """A queue table with its options as values of their types."""
    return record(table) | {"options": typed(table.options, QUEUE_TABLE_OPTIONS)}


def subscriber_view(subscriber: SubscriberInfo) -> dict[str, Any]:
    """A subscriber with its options as values of their types."""
    return record(subscriber) | {"options": typed(subscriber.options, SUBSCRIBER_OPTIONS)}


def typed_options(section: str, name: str, config: Mapping[str, Any], types: Mapping[str, str]) -> dict[str, Any]:
    """What a file would say of an object, its options under their documented names with the types they have.

    Args:
        types: type of each link by its name in upper case.
    """
    found = dict(config)
    if given := found.get("options"):
        found["options"] = given if section == "transformations" else typed(given, _own(section, name, config, types))
    for subscriber, values in found.get("subscribers", {}).items():
        if given := values.get("options"):
            found["subscribers"][subscriber] = values | {"options": typed(given, SUBSCRIBER_OPTIONS)}
    return found


def _own(section: str, name: str, config: Mapping[str, Any], types: Mapping[str, str]) -> tuple[Field, ...]:
    """The options that an object may have."""
    if section == "agents":
        return AGENT_OPTIONS
    if section == "links":
        return _fields(config["type"], "options")
    if section == "foreign_queues":
        return _fields(types.get(name.rpartition("@")[2].upper()), "queue_options")
    if section == "jobs":
        links = [config[end].rpartition("@")[2].upper() for end in ("source", "destination") if "@" in config[end]]
        return (*JOB_OPTIONS, *(each for link in links for each in _fields(types.get(link), "job_options")))
    return QUEUE_TABLE_OPTIONS


def _fields(link_type: str | None, kind: str) -> tuple[Field, ...]:
    try:
        return getattr(registry.spec(link_type), kind) if link_type else ()
    except GatewayError:  # its client is not installed here
        return ()
