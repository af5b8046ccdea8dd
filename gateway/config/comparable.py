"""The settings of an object in a form in which what the file says and what the hub holds can be compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mgw.gateway.aq import QUEUE_TABLE_OPTIONS, SUBSCRIBER_OPTIONS
from mgw.gateway.config.fields import Strict
from mgw.gateway.config.forms import folded, hub_folded, hub_name, inline_table, queue_table_of
from mgw.gateway.config.models import (
    AqAgentModel,
    Document,
    ForeignQueueModel,
    GrantModel,
    JobModel,
    LinkModel,
    ObjectTypeModel,
    QueueModel,
    QueueTableModel,
    SubscriberModel,
    TransformationModel,
)
from mgw.gateway.config.object_types import type_settings
from mgw.gateway.config.security import agent_settings, grant_settings
from mgw.gateway.definitions.job_options import JOB_OPTIONS
from mgw.gateway.definitions.objects import key
from mgw.links import options as settings
from mgw.links import registry
from mgw.links.contract import Field
from mgw.transforms.errors import ConfigInvalid, GatewayError
from mgw.transforms.steps.registry import TransformationDefinition

__all__ = ["DEFAULT_MAX_RETRIES", "TABLE_CHANGES", "Comparable", "Settings"]

#: What of a queue table can be altered, in addition to its comment.
TABLE_CHANGES = frozenset(("compatible", "jms_types", "primary_instance", "secondary_instance"))

DEFAULT_MAX_RETRIES = 5  # AQ guide 12.2 §11.7.5


@dataclass(frozen=True, slots=True)
class Settings:
    """Values by setting, all defaults filled in; ``secret`` ones are never shown, ``fixed`` ones cannot be altered."""

    values: dict[str, Any]
    secret: frozenset[str] = frozenset()
    fixed: frozenset[str] = frozenset()


class Comparable:
    """Makes settings comparable. ``documents``: where links and queue tables are looked up, the last one wins."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._links: dict[str, LinkModel] = {}
        self._tables: dict[str, QueueTableModel] = {}
        for document in documents:
            self._links |= folded(document.links)
            self._tables |= hub_folded(document.queue_tables)

    def settings(self, name: str, model: Strict) -> Settings:
        """Settings of one object."""
        if isinstance(model, LinkModel):
            found = _link(name, model)
        elif isinstance(model, ForeignQueueModel):
            found = self._foreign_queue(name, model)
        elif isinstance(model, QueueModel):
            found = self._queue(name, model)
        elif isinstance(model, ObjectTypeModel):
            values = type_settings(model)
            found = Settings(values, fixed=frozenset(values))
        elif isinstance(model, QueueTableModel):
            values = _shape(model) | {"comment": model.comment}
            found = Settings(values, fixed=_fixed(values) - {"comment"})
        elif isinstance(model, JobModel):
            found = self._job(model)
        elif isinstance(model, TransformationModel):
            found = _transformation(name, model)
        elif isinstance(model, GrantModel):
            found = Settings(dict(grant_settings(model)))
        elif isinstance(model, AqAgentModel):
            found = Settings(agent_settings(model))
        else:
            values = model.model_dump(exclude={"options", "password_file"}) | _options(getattr(model, "options", {}))
            found = Settings(values, secret=frozenset(("password",)))
        return found

    def _foreign_queue(self, name: str, queue: ForeignQueueModel) -> Settings:
        own, _, link = name.rpartition("@")
        fields = self._fields(link, "queue_options")
        values = {"provider_queue": queue.provider_queue or own, "domain": queue.domain, "comment": queue.comment}
        values |= _options(queue.options, fields)
        return Settings(values, fixed=frozenset((*values, *(_option(each.name) for each in fields))))

    def _queue(self, name: str, queue: QueueModel) -> Settings:
        table = self._tables.get(hub_name(queue.queue_table)) if queue.queue_table else None
        values: dict[str, Any] = {
            "type": queue.type,
            "enqueue": queue.enqueue and queue.type == "NORMAL",
            "dequeue": queue.dequeue,
            "comment": queue.comment,
        }
        if queue.type == "NORMAL":
            values["max_retries"] = DEFAULT_MAX_RETRIES if queue.max_retries is None else queue.max_retries
            values |= {"retry_delay": queue.retry_delay, "retention_time": queue.retention_time}
        if queue.subscribers is not None:
            values["subscribers"] = _subscribers(queue.subscribers)
        # The queue table that was made for a queue is its own, also when others are stored there, too.
        if table is None:
            storage = _shape(inline_table(queue))
        elif hub_name(queue.queue_table or "") == hub_name(queue_table_of(name, QueueModel())):
            storage = _shape(table)
        else:
            storage = {"queue_table": queue.queue_table}
        return Settings(values | storage, fixed=_fixed(("type", "queue_table", *storage)))

    def _job(self, job: JobModel) -> Settings:
        links = [end.rpartition("@")[2] for end in (job.source, job.destination) if "@" in end]
        own = tuple(each for link in dict.fromkeys(links) for each in self._fields(link, "job_options"))
        values = job.model_dump(exclude={"options", "batch_size"}) | _options(job.options, (*JOB_OPTIONS, *own))
        if job.batch_size is not None:
            values[_option("MsgBatchSize")] = job.batch_size
        return Settings(values, fixed=frozenset(("type", "source", "destination")))

    def _fields(self, link: str, kind: str) -> tuple[Field, ...]:
        found = self._links.get(key(link))
        try:
            return getattr(registry.spec(found.type), kind) if found else ()
        except GatewayError:  # its client is not installed here: options compare as they are written
            return ()


def _link(name: str, link: LinkModel) -> Settings:
    spec = registry.spec(link.type)
    given = {attribute.lower() for attribute in link.attributes}
    attributes = settings.parse(spec.attributes, link.attributes, f"link {name}")
    values = {each.name: attributes[each.name.lower()] for each in spec.attributes}
    for each in spec.attributes:
        if each.secret and each.name.lower() not in given:
            values[each.name] = None
    values |= link.model_dump(exclude={"attributes", "options", "password_file", "prepare"}) | _options(
        link.options, spec.options
    )
    named = {each.name: each for each in spec.attributes} | {_option(each.name): each for each in spec.options}
    return Settings(
        values,
        secret=frozenset(("password", *(setting for setting, each in named.items() if each.secret))),
        fixed=frozenset(("type", "agent", *(setting for setting, each in named.items() if not each.alterable))),
    )


def _transformation(name: str, each: TransformationModel) -> Settings:
    try:
        definition = TransformationDefinition.from_mapping(name, each.definition).to_mapping()
    except ConfigInvalid:  # stored by another release; it differs from whatever the file says
        definition = each.definition
    return Settings(each.model_dump(exclude={"definition"}) | {"definition": definition})


def _subscribers(given: Mapping[str, SubscriberModel]) -> dict[str, dict[str, Any]]:
    """Subscribers by name, without what is left at its default."""
    result = {
        key(name): each.model_dump(exclude_defaults=True, exclude={"options"})
        | _options(each.options, SUBSCRIBER_OPTIONS)
        for name, each in sorted(given.items())
    }
    for each in result.values():
        if "transformation" in each:
            each["transformation"] = hub_name(each["transformation"])
    return result


def _shape(table: QueueTableModel) -> dict[str, Any]:
    values = table.model_dump(exclude={"comment", "options"}) | {"sort_list": table.sort_list or "ENQ_TIME"}
    return values | _options(table.options, QUEUE_TABLE_OPTIONS)


def _fixed(names: Iterable[str]) -> frozenset[str]:
    """Those settings of a queue table that cannot be altered."""
    return frozenset(name for name in names if name not in TABLE_CHANGES and not name.startswith("options."))


def _option(name: str) -> str:
    return f"options.{name.lower()}"


def _options(options: Mapping[str, str | None], fields: Sequence[Field] = ()) -> dict[str, Any]:
    """Options that are set, as typed values where their type is known."""
    known = folded({each.name: each for each in fields})
    result: dict[str, Any] = {}
    for name, value in options.items():
        if value is None:
            continue
        field = known.get(key(name))
        try:
            result[_option(name)] = value if field is None else settings.parse_value(field, value, name)
        except ConfigInvalid:  # stored by another release
            result[_option(name)] = value
    return result
