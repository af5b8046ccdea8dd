"""What the objects of a configuration must agree on, as far as it can be known without a broker.

Each check refuses what the administration procedure for that object would refuse, before anything is created, and says
where in the file the reason stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gateway.admin.base import check_identifier
from gateway.aq.admin import COMPATIBLE
from gateway.aq.names import QualifiedName, qualified, user_name
from gateway.config.findings import Path, nearest
from gateway.config.load import Source
from gateway.config.models import (
    NOUNS,
    Document,
    ForeignQueueModel,
    GrantModel,
    JobModel,
    LinkModel,
    QueueModel,
    QueueTableModel,
    SubscriberModel,
    TransformationModel,
)
from gateway.model import DEFAULT_AGENT, key, split_foreign
from links import options as settings
from links import registry
from links.contract import Direction, Domain, Endpoint, Field, Link, LinkConfig, LinkSpec
from transforms.errors import AdminError, AqError, ConfigInvalid, GatewayError

__all__ = ["check_meaning"]

T = TypeVar("T")


def check_meaning(source: Source, document: Document, existing: Document) -> None:
    """Add to ``source`` everything that is wrong between the objects of ``document``.

    References may also point to objects of ``existing``, which a hub holds already.
    """
    _Checks(source, document, existing).run()


def folded(objects: Mapping[str, T]) -> dict[str, T]:
    """The same objects under the names that compare."""
    return {key(name): value for name, value in objects.items()}


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
    """How the names of a section compare."""
    if section in ("queues", "queue_tables"):
        return hub_name
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


def _made_by_hub(queue: str) -> bool:
    try:
        return qualified(queue).name.upper().startswith("AQ$_")
    except AqError:
        return False


@dataclass(slots=True)
class _Checks:
    """One run; the fields beside the arguments are everything that references may point to."""

    source: Source
    document: Document
    existing: Document
    agents: set[str] = field(init=False)
    links: dict[str, LinkModel] = field(init=False)
    foreign: dict[str, ForeignQueueModel] = field(init=False)
    tables: dict[str, QueueTableModel] = field(init=False)
    queues: dict[str, tuple[str, QueueModel]] = field(init=False)
    transformations: dict[str, TransformationModel] = field(init=False)
    drivers: dict[str, Link | None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        old, new = self.existing, self.document
        self.agents = {DEFAULT_AGENT, *folded(old.agents), *folded(new.agents)}
        self.links = folded(old.links) | folded(new.links)
        self.foreign = folded(old.foreign_queues) | folded(new.foreign_queues)
        self.tables = folded(old.queue_tables) | folded(new.queue_tables)
        self.queues = {hub_name(name): (name, queue) for name, queue in (dict(old.queues) | dict(new.queues)).items()}
        self.transformations = folded(old.transformations) | folded(new.transformations)

    def run(self) -> None:
        for name, path in self.document.settings.rule_functions.items():
            self._function(name, path)
        for name, link in self.document.links.items():
            self._link(name, link)
        for name, queue in self.document.foreign_queues.items():
            self._foreign_queue(name, queue)
        for name, table in self.document.queue_tables.items():
            self._queue_shape(("queue_tables", name), table)
        for name, hub_queue in self.document.queues.items():
            self._queue(name, hub_queue)
        for name, transformation in self.document.transformations.items():
            self._transformation(name, transformation)
        for name, job in self.document.jobs.items():
            self._job(name, job)
        for name, grants in self.document.grants.items():
            self._grants(name, grants)
        self._sources()
        for name, agent in self.document.agents.items():
            self._plain_password(("agents", name, "password"), agent.password)

    # Names that are missing although an object of that name stands in the file, with errors of its own, are no news.
    def _defined_badly(self, section: str, name: str) -> bool:
        raw = self.source.tree.get(section)
        return isinstance(raw, dict) and key(name) in {key(known) for known in raw}

    def _unknown(self, finding: str, path: Path, section: str, name: str) -> None:
        if path in self.source.unresolved or self._defined_badly(section, name):
            return
        guess = nearest(name, self._names(section))
        cure = f"did you mean {guess!r}?" if guess else f"define it under {section}"
        self.source.error(finding, path, f"{NOUNS[section]} {name!r} is not defined", cure)

    def _names(self, section: str) -> Iterator[str]:
        yield from getattr(self.document, section)
        yield from getattr(self.existing, section)

    def _plain_password(self, path: Path, password: str | None) -> None:
        if password and path not in self.source.variables:
            self.source.warning(
                "plain-text-password",
                path,
                f"the {path[-1]} stands in the file",
                f"write {path[-1]}: ${{SOME_VARIABLE}}, or keep it in a file of its own",
            )

    def _link(self, name: str, link: LinkModel) -> None:
        path: Path = ("links", name)
        self._name(path, name)
        if key(link.agent) not in self.agents:
            self._unknown("unknown-agent", (*path, "agent"), "agents", link.agent)
        self._plain_password((*path, "password"), link.password)
        spec = _spec(link.type)
        if spec is None:
            return
        for each in spec.attributes:
            if each.secret and link.attributes.get(each.name):
                self._plain_password((*path, each.name), str(link.attributes[each.name]))
        before = len(self.source.findings)
        self._values(path, spec.attributes, link.attributes, f"link {name}")
        self._values((*path, "options"), spec.options, link.options, f"link {name}")
        if len(self.source.findings) > before or self._unresolved_below(path):
            self.drivers[key(name)] = None
            return
        try:
            self.drivers[key(name)] = registry.open_link(link_config(name, link))
        except GatewayError as error:
            self.drivers[key(name)] = None
            self._refused("bad-link", path, error)

    def _driver(self, name: str) -> Link | None:
        """The opened link, if it is good."""
        if key(name) not in self.drivers:
            link = folded(self.existing.links).get(key(name))
            try:
                self.drivers[key(name)] = registry.open_link(link_config(name, link)) if link else None
            except GatewayError:
                self.drivers[key(name)] = None
        return self.drivers[key(name)]

    def _unresolved_below(self, path: Path) -> bool:
        return any(place[: len(path)] == path for place in self.source.unresolved)

    def _values(self, path: Path, fields: tuple[Field, ...], values: Mapping[str, Any], owner: str) -> None:
        """Check settings against their specification, each at its own place."""
        known = {each.name.lower(): each for each in fields}
        for name, value in values.items():
            place = (*path, self._spelled(path, name))
            if place in self.source.unresolved:
                continue
            found = known.get(name.lower())
            if found is None:
                guess = nearest(name, (each.name for each in fields))
                allowed = ", ".join(each.name for each in fields) or "none"
                cure = f"did you mean {guess!r}?" if guess else f"known here: {allowed}"
                self.source.error("unknown-option", place, f"{owner}: option {name!r} is not known", cure)
            elif value is not None:
                try:
                    settings.parse_value(found, value, owner)
                except ConfigInvalid as error:
                    self._refused("bad-value", place, error)
        given = {name.lower() for name, value in values.items() if value not in (None, "")}
        for each in fields:
            if each.required and each.name.lower() not in given:
                place = (*path, self._spelled(path, each.name))
                if place not in self.source.unresolved:
                    self.source.error("missing-key", path, f"{owner}: {each.name} is missing", each.description)

    def _spelled(self, path: Path, name: str) -> str:
        """The key as the file writes it."""
        for place in self.source.marks:
            if len(place) == len(path) + 1 and place[:-1] == path and str(place[-1]).lower() == name.lower():
                return str(place[-1])
        return name

    def _refused(self, finding: str, path: Path, error: GatewayError) -> None:
        message = f"{error.what}: {error.cause}" if error.cause else error.what
        self.source.error(finding, path, message, error.cure)

    def _name(self, path: Path, name: str) -> None:
        """A name that every statement, client id and queue name can carry."""
        try:
            if path[0] == "queues":
                qualified(name, system=False)
            else:
                check_identifier(NOUNS[str(path[0])], name)
        except GatewayError as error:
            self._refused("bad-name", path, error)

    def _grants(self, name: str, grants: GrantModel) -> None:
        for queue in grants.queues:
            if hub_name(queue) not in self.queues and not _made_by_hub(queue):
                self._unknown("undefined-queue", ("grants", name, "queues", queue), "queues", queue)

    def _foreign_queue(self, name: str, queue: ForeignQueueModel) -> None:
        path: Path = ("foreign_queues", name)
        parts = split_foreign(name)
        if parts is None:
            self.source.error(
                "bad-name", path, f"{name!r} does not name a foreign queue", "write queue@link, e.g. orders@rabbit"
            )
            return
        link = self.links.get(key(parts[1]))
        if link is None:
            self._unknown("unknown-link", path, "links", parts[1])
            return
        spec = _spec(link.type)
        if spec is None:
            return
        domain = Domain(queue.domain) if queue.domain else None
        if domain is not None and domain not in spec.domains:
            allowed = ", ".join(str(each) for each in spec.domains if each) or "none"
            self.source.error("bad-domain", (*path, "domain"), f"{spec.title} has no domain {domain}", f"use {allowed}")
            return
        before = len(self.source.findings)
        self._values((*path, "options"), spec.queue_options, queue.options, f"foreign queue {name}")
        if len(self.source.findings) == before and not self._unresolved_below(path):
            self._endpoint("bad-foreign-queue", path, name, None)

    def _endpoint(self, finding: str, path: Path, name: str, direction: Direction | None) -> None:
        """Ask the link what it would refuse without looking at the broker."""
        parts = split_foreign(name)
        queue = self.foreign.get(key(name))
        driver = self._driver(parts[1]) if parts else None
        if parts is None or queue is None or driver is None:
            return
        try:
            driver.check_endpoint(endpoint(name, queue), direction)
        except (AdminError, ConfigInvalid) as error:
            self._refused(finding, path, error)

    def _queue_shape(self, path: Path, table: QueueTableModel) -> None:
        transactional = table.multiple_consumers and table.message_grouping == "TRANSACTIONAL"
        if table.sort_list and "COMMIT_TIME" in table.sort_list and not transactional:
            self.source.error(
                "bad-value",
                (*path, "sort_list"),
                "COMMIT_TIME needs multiple_consumers and message_grouping TRANSACTIONAL",
                "set both, or sort by ENQ_TIME",
            )
        if table.compatible is not None and table.compatible not in COMPATIBLE:
            self.source.error(
                "bad-value",
                (*path, "compatible"),
                f"compatible {table.compatible!r} is not supported",
                f"write one of {', '.join(repr(each) for each in COMPATIBLE)}",
            )
        if table.secondary_instance and not table.primary_instance:
            self.source.error(
                "bad-value",
                (*path, "secondary_instance"),
                "a secondary instance needs a primary one",
                "give primary_instance too",
            )

    def _queue(self, name: str, queue: QueueModel) -> None:
        path: Path = ("queues", name)
        self._name(path, name)
        given = {each for each in QueueTableModel.model_fields if each != "comment" and each in queue.model_fields_set}
        if queue.queue_table is not None and key(queue.queue_table) in self.tables:
            for each in sorted(given):
                self.source.error(
                    "conflicting-keys",
                    (*path, each),
                    f"{each} belongs to queue table {queue.queue_table!r}",
                    "give it there, or leave out queue_table",
                )
        elif queue.queue_table is not None:
            self._unknown("unknown-queue-table", (*path, "queue_table"), "queue_tables", queue.queue_table)
        else:
            self._queue_shape(path, inline_table(queue))
        if queue.type == "EXCEPTION":
            for each in ("max_retries", "retry_delay", "retention_time"):
                if each in queue.model_fields_set:
                    self.source.error(
                        "bad-value", (*path, each), f"an EXCEPTION queue has no {each}", f"leave out {each}"
                    )

        if queue.subscribers:
            self._subscribers(path, queue, queue.subscribers)

    def _subscribers(self, path: Path, queue: QueueModel, subscribers: Mapping[str, SubscriberModel]) -> None:
        from gateway.aq.names import agent_name
        from gateway.aq.rules import compile_rule

        below: Path = (*path, "subscribers")
        if queue.type == "EXCEPTION" or not self.shape(queue).multiple_consumers:
            kind = "an EXCEPTION queue" if queue.type == "EXCEPTION" else "a single-consumer queue"
            cure = "leave them out" if queue.type == "EXCEPTION" else "set multiple_consumers: true"
            self.source.error("bad-value", below, f"{kind} has no subscribers", cure)
        for name, each in subscribers.items():
            place = (*below, name)
            if name.upper().startswith("MGW_"):
                self.source.error("bad-value", place, f"{name!r}: names with MGW_ belong to jobs", "use another name")
            try:
                agent_name(name, what="subscriber")
            except AqError as error:
                self._refused("bad-value", place, error)
            if each.rule is not None and (*place, "rule") not in self.source.unresolved:
                try:
                    compile_rule(each.rule)
                except AqError as error:
                    self._refused("bad-rule", (*place, "rule"), error)

    def shape(self, queue: QueueModel) -> QueueTableModel:
        """Payload type, consumers and sort list of a hub queue, wherever they were written."""
        if queue.queue_table and key(queue.queue_table) in self.tables:
            return self.tables[key(queue.queue_table)]
        return inline_table(queue)

    def _function(self, name: str, function: str) -> None:
        """Rules are checked with the functions that the file registers, and run with them in this process."""
        from gateway.aq.rules import register_function
        from transforms.registry import load_rule_function

        path: Path = ("settings", "rule_functions", name)
        if path in self.source.unresolved:
            return
        try:
            register_function(name, load_rule_function(name, function, self.document.settings.transform_modules))
        except GatewayError as error:
            self._refused("bad-function", path, error)

    def _transformation(self, name: str, transformation: TransformationModel) -> None:
        from transforms.registry import TransformationDefinition, compile_transformation

        path: Path = ("transformations", name)
        self._name(path, name)
        if self._unresolved_below(path):
            return
        try:
            definition = TransformationDefinition.from_mapping(name, transformation.definition)
            compile_transformation(definition, modules=self.document.settings.transform_modules)
        except GatewayError as error:
            self._refused("bad-transformation", path, error)

    def _job(self, name: str, job: JobModel) -> None:
        path: Path = ("jobs", name)
        self._name(path, name)
        inbound = job.type == "INBOUND"
        foreign_end, hub_end = ("source", "destination") if inbound else ("destination", "source")
        foreign_name, hub_queue = getattr(job, foreign_end), getattr(job, hub_end)
        link = self._foreign_end(path, foreign_end, foreign_name, job)
        queue = self._hub_end(path, hub_end, hub_queue, job)
        if link is not None:
            self._options(path, link, job)
        if job.transformation is not None and key(job.transformation) not in self.transformations:
            self._unknown("unknown-transformation", (*path, "transformation"), "transformations", job.transformation)
        self._rule(path, job, queue)
        self._exception_queue(path, job, queue)

    def _foreign_end(self, path: Path, end: str, name: str, job: JobModel) -> LinkModel | None:
        place = (*path, end)
        if place in self.source.unresolved:
            return None
        parts = split_foreign(name)
        if parts is None:
            self.source.error(
                "bad-" + end,
                place,
                f"{end} {name!r} of an {job.type} job is no foreign queue",
                "write queue@link, or change the type of the job",
            )
            return None
        link = self.links.get(key(parts[1]))
        if link is None:
            self._unknown("unknown-link", place, "links", parts[1])
        elif key(name) not in self.foreign:
            self._unknown("undefined-foreign-queue", place, "foreign_queues", name)
        else:
            provider = self.foreign[key(name)].provider_queue or parts[0]
            wildcard = end == "destination" and any(letter in provider for letter in "+#*")
            finding = "wildcard-destination" if wildcard else "bad-" + end
            self._endpoint(finding, place, name, Direction(job.type))
        return link

    def _hub_end(self, path: Path, end: str, name: str, job: JobModel) -> QueueModel | None:
        place = (*path, end)
        if place in self.source.unresolved:
            return None
        if "@" in name:
            self.source.error(
                "bad-" + end,
                place,
                f"{end} {name!r} of an {job.type} job is a foreign queue",
                "name a queue of the hub, or change the type of the job",
            )
            return None
        found = self.queues.get(hub_name(name))
        if found is None:
            self._unknown("undefined-queue", place, "queues", name)
            return None
        if found[1].type == "EXCEPTION" and end == "destination":
            self.source.error(
                "bad-destination", place, f"{name!r} is an exception queue", "nothing but the hub may write into it"
            )
        return found[1]

    def _options(self, path: Path, link: LinkModel, job: JobModel) -> None:
        from gateway.admin.job_checks import JOB_OPTIONS

        spec = _spec(link.type)
        if spec is None:
            return
        names = {name.lower() for name in job.options}
        if job.batch_size is not None and "msgbatchsize" in names:
            self.source.error(
                "conflicting-keys",
                (*path, "batch_size"),
                "batch_size and MsgBatchSize are the same",
                "keep one of them",
            )
        own = {each.name.lower() for each in spec.job_options}
        common = tuple(each for each in JOB_OPTIONS if each.name.lower() not in own)
        self._values((*path, "options"), common + spec.job_options, job.options, f"job {path[1]}")

    def _rule(self, path: Path, job: JobModel, queue: QueueModel | None) -> None:
        place = (*path, "rule")
        if job.rule is None or place in self.source.unresolved:
            return
        from gateway.aq.rules import compile_rule

        try:
            compile_rule(job.rule)
        except GatewayError as error:
            self._refused("bad-rule", place, error)
            return
        if job.type == "OUTBOUND" and queue is not None and not self.shape(queue).multiple_consumers:
            self.source.error(
                "bad-rule",
                place,
                f"{job.source!r} has a single consumer, which takes every message",
                "set multiple_consumers: true on the queue, or remove the rule",
            )

    def _exception_queue(self, path: Path, job: JobModel, queue: QueueModel | None) -> None:
        name, place = job.exception_queue, (*path, "exception_queue")
        if name is None or place in self.source.unresolved:
            return
        same = key(name) == key(job.source) if job.type == "INBOUND" else hub_name(name) == hub_name(job.source)
        if same:
            self.source.error("bad-exception-queue", place, "it is the source of the job", "name another queue")
        elif job.type == "INBOUND":
            self._foreign_exception_queue(place, name, job)
        else:
            self._hub_exception_queue(place, name, queue)

    def _foreign_exception_queue(self, place: Path, name: str, job: JobModel) -> None:
        own, other = split_foreign(job.source), split_foreign(name)
        if own is None:
            return
        if other is None or key(other[1]) != key(own[1]):
            self.source.error(
                "bad-exception-queue",
                place,
                f"{name!r} is not on link {own[1]!r} of the source",
                f"register a queue there and write queue@{own[1]}",
            )
        elif key(name) not in self.foreign:
            self._unknown("undefined-foreign-queue", place, "foreign_queues", name)
        else:
            self._endpoint("bad-exception-queue", place, name, Direction.OUTBOUND)

    def _hub_exception_queue(self, place: Path, name: str, queue: QueueModel | None) -> None:
        found = self.queues.get(hub_name(name))
        if found is None:
            self._unknown("undefined-queue", place, "queues", name)
            return
        if found[1].type == "EXCEPTION":
            self.source.error(
                "bad-exception-queue", place, f"{name!r} has type EXCEPTION", "name a queue of type NORMAL"
            )
        elif queue is not None:
            wanted, has = self.shape(queue).payload_type, self.shape(found[1]).payload_type
            if wanted != has:
                self.source.error(
                    "bad-exception-queue",
                    place,
                    f"{name!r} holds {has}, the source holds {wanted}",
                    f"give {name!r} payload_type {wanted}",
                )

    def _sources(self) -> None:
        """One job per queue source, one job per (type, source, destination)."""
        by_source: dict[str, str] = {}
        triplets: dict[tuple[str, str, str], str] = {}
        new = set(folded(self.document.jobs))
        old = {name: job for name, job in self.existing.jobs.items() if key(name) not in new}
        for name, job in (old | dict(self.document.jobs)).items():
            path: Path = ("jobs", name)
            ends = (hub_name(job.source), hub_name(job.destination))
            twin = triplets.setdefault((job.type, *ends), name)
            if twin != name:
                self.source.error(
                    "duplicate-job", path, f"job {twin!r} has the same source and destination", "remove one of the two"
                )
                continue
            if not self._is_queue_source(job):
                continue
            owner = by_source.setdefault(ends[0], name)
            if owner != name:
                cure = "let one job read it"
                if job.type == "OUTBOUND":
                    cure = f"set multiple_consumers: true on {job.source!r}, then any number of jobs may read it"
                self.source.error(
                    "duplicate-source",
                    (*path, "source"),
                    f"job {owner!r} reads {job.source!r} already, and a queue gives each message to one reader",
                    cure,
                )

    def _is_queue_source(self, job: JobModel) -> bool:
        if job.type == "OUTBOUND":
            found = self.queues.get(hub_name(job.source))
            return found is not None and not self.shape(found[1]).multiple_consumers
        parts = split_foreign(job.source)
        link = self.links.get(key(parts[1])) if parts else None
        queue = self.foreign.get(key(job.source))
        spec = _spec(link.type) if link else None
        if spec is None or queue is None:
            return False
        domain = Domain(queue.domain) if queue.domain else next((each for each in spec.domains if each), None)
        return domain is not Domain.TOPIC


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


def _spec(link_type: str) -> LinkSpec | None:
    try:
        return registry.spec(link_type)
    except GatewayError:
        return None
