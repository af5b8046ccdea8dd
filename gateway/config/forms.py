"""Names and settings of configured objects in the forms that compare, and that links and queue tables take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from mgw.gateway.aq import QualifiedName, qualified, user_name
from mgw.gateway.config.models import ForeignQueueModel, LinkModel, QueueModel, QueueTableModel
from mgw.gateway.definitions.objects import key
from mgw.links import registry
from mgw.links.contract import Domain, Endpoint, LinkConfig, LinkSpec
from mgw.transforms.errors import AqError, GatewayError

__all__ = [
    "endpoint",
    "fold_of",
    "folded",
    "hub_folded",
    "hub_name",
    "inline_table",
    "link_config",
    "queue_table_of",
    "spec_of",
    "user_key",
]

T = TypeVar("T")
_OF_THE_HUB = frozenset(("object_types", "queue_tables", "transformations", "queues"))


def folded(objects: Mapping[str, T]) -> dict[str, T]:
    """The same objects under the names that compare."""
    return {key(name): value for name, value in objects.items()}


def hub_folded(objects: Mapping[str, T]) -> dict[str, T]:
    """The same objects of the hub under the names that compare."""
    return {hub_name(name): value for name, value in objects.items()}


def hub_name(name: str) -> str:
    """The name of a queue in the form that compares: with its schema; foreign queues and bad names as they are."""
    if "@" in name:
        return key(name)
    try:
        return qualified(name).key
    except AqError:
        return key(name)


def user_key(name: str) -> str:
    """The name of a user, role or AQ agent in the form that compares; bad names as they are."""
    try:
        return key(user_name(name))
    except AqError:
        return key(name)


def fold_of(section: str) -> Callable[[str], str]:
    """How the names of a section compare: those of the hub have a schema."""
    if section in _OF_THE_HUB:
        return hub_name
    if section == "modules":  # Python tells letter cases apart
        return str
    return user_key if section in ("grants", "aq_agents") else key


def queue_table_of(name: str, queue: QueueModel) -> str:
    """Name of the queue table that stores a queue."""
    if queue.queue_table:
        return queue.queue_table
    try:
        own = qualified(name)
    except AqError:
        return f"{name}_TAB"
    return QualifiedName(own.schema, f"{own.name}_TAB").shown


def inline_table(queue: QueueModel) -> QueueTableModel:
    """The queue table that a queue describes in place."""
    given = {
        name: getattr(queue, name)
        for name in QueueTableModel.model_fields
        if name != "comment" and getattr(queue, name, None) is not None
    }
    return QueueTableModel(**given)


def endpoint(name: str, queue: ForeignQueueModel) -> Endpoint:
    """A foreign queue as a link sees it; ``name`` is ``queue@link``."""
    own, _, link = name.rpartition("@")
    options = {option: value for option, value in queue.options.items() if value is not None}
    return Endpoint(own, link, queue.provider_queue or own, Domain(queue.domain) if queue.domain else None, options)


def link_config(name: str, link: LinkModel) -> LinkConfig:
    """A link as its driver takes it."""
    options = {option: value for option, value in link.options.items() if value is not None}
    attributes = {attribute: value for attribute, value in link.attributes.items() if value is not None}
    return LinkConfig(
        name,
        link.type,
        attributes,
        options,
        link.username,
        link.password,
        inbound_log_queue=link.inbound_log_queue,
        outbound_log_queue=link.outbound_log_queue,
    )


def with_logs(link: LinkModel) -> LinkModel:
    """The link with a name for each log that is to be prepared."""
    spec = spec_of(link.type) if link.prepare else None
    if spec is None:
        return link
    return link.model_copy(
        update={
            "inbound_log_queue": link.inbound_log_queue or spec.inbound_log or None,
            "outbound_log_queue": link.outbound_log_queue or spec.outbound_log or None,
        }
    )


def spec_of(link_type: str) -> LinkSpec | None:
    """What a link type is and takes; None where it is unknown, or its client is not installed."""
    try:
        return registry.spec(link_type)
    except GatewayError:
        return None
