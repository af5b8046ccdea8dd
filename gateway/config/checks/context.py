"""What the checks share: everything that references may point to, and how findings are added."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mgw.gateway.aq import Bindings, qualified
from mgw.gateway.aq import payload_forms as payloads
from mgw.gateway.config.findings import Path, nearest
from mgw.gateway.config.forms import (
    endpoint,
    fold_of,
    folded,
    hub_folded,
    hub_name,
    inline_table,
    link_config,
    queue_table_of,
)
from mgw.gateway.config.load import Source
from mgw.gateway.config.models import (
    NOUNS,
    Document,
    ForeignQueueModel,
    LinkModel,
    QueueModel,
    QueueTableModel,
    TransformationModel,
)
from mgw.gateway.definitions.objects import DEFAULT_AGENT, key, split_foreign
from mgw.gateway.services.admin.base import check_identifier
from mgw.links import options as settings
from mgw.links import registry
from mgw.links.contract import Direction, Field, Link
from mgw.links.job_checks import ChecksJobs
from mgw.transforms.errors import AdminError, ConfigInvalid, GatewayError

__all__ = ["Context"]


_MAX_GUESSES = 50  # unknown names that a likely one is looked for; it costs a comparison with all


@dataclass(slots=True)
class Context:
    """One run; the fields in addition to the arguments are everything that references may point to."""

    source: Source
    document: Document
    existing: Document
    held: Document
    agents: set[str] = field(init=False)
    links: dict[str, LinkModel] = field(init=False)
    foreign: dict[str, ForeignQueueModel] = field(init=False)
    tables: dict[str, QueueTableModel] = field(init=False)
    queues: dict[str, tuple[str, QueueModel]] = field(init=False)
    types: set[str] = field(init=False)
    transformations: dict[str, tuple[str, TransformationModel]] = field(init=False)
    drivers: dict[str, Link | None] = field(init=False, default_factory=dict)
    modules: list[str] = field(init=False)
    functions: dict[str, str] = field(init=False)  # by name in upper case, those that rules may call
    _keys: dict[tuple[Path, str], str] = field(init=False, default_factory=dict)
    _written: dict[str, set[str]] = field(init=False, default_factory=dict)
    _guesses: int = field(init=False, default=0)
    _held: dict[str, dict[str, Any]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        old, new = self.existing, self.document
        self.modules = [*old.settings.transform_modules, *new.settings.transform_modules]
        self.functions = {name.upper(): path for name, path in old.settings.rule_functions.items()}
        self.agents = {DEFAULT_AGENT, *folded(old.agents), *folded(new.agents)}
        self.links = folded(old.links) | folded(new.links)
        self.foreign = folded(old.foreign_queues) | folded(new.foreign_queues)
        self.types = {hub_name(name) for name in (*old.object_types, *new.object_types)}
        self.queues = {hub_name(name): (name, queue) for name, queue in (dict(old.queues) | dict(new.queues)).items()}
        own = {
            hub_name(queue_table_of(name, queue)): inline_table(queue)
            for name, queue in self.queues.values()
            if queue.queue_table is None
        }
        self.tables = own | hub_folded(old.queue_tables) | hub_folded(new.queue_tables)
        defined = dict(old.transformations) | dict(new.transformations)
        self.transformations = {hub_name(name): (name, model) for name, model in defined.items()}

    @property
    def bindings(self) -> Bindings:
        """The functions that rules may call."""
        return tuple(sorted(self.functions.items()))

    # Names that are missing although an object of that name is in the file, with errors of its own, are no news.
    def is_written(self, section: str, name: str) -> bool:
        """Whether the files have an object of that name, right or wrong."""
        fold = fold_of(section)
        if section not in self._written:
            raw = self.source.tree.get(section)
            self._written[section] = {fold(str(known)) for known in raw} if isinstance(raw, dict) else set()
        return fold(name) in self._written[section]

    def unknown(self, finding: str, path: Path, section: str, name: str) -> None:
        """A reference to nothing."""
        if path in self.source.unresolved or self.is_written(section, name):
            return
        self._guesses += 1
        guess = nearest(name, self._names(section)) if self._guesses <= _MAX_GUESSES else ""
        cure = f"did you mean {guess!r}?" if guess else f"define it under {section}"
        if section == "queues" and self._was_dropped(path, name):
            message = f"queue {name!r}, which job {path[1]} needs, was dropped since the job was made"
            self.source.error(finding, path, message, f"create it first (mgw aq create {name} --table TABLE)")
            return
        if section == "queues" and "@" in name:
            cure = "name a queue of the hub; queue@link is a foreign queue"
        self.source.error(finding, path, f"{NOUNS[section]} {name!r} is not defined", cure)

    def _was_dropped(self, path: Path, name: str) -> bool:
        """Whether a job of the hub has that queue in that place: there was one when the job was made."""
        job = folded(self.held.jobs).get(key(str(path[1]))) if path[0] == "jobs" else None
        known = None if job is None else getattr(job, str(path[2]), None)
        return isinstance(known, str) and hub_name(known) == hub_name(name)

    def _names(self, section: str) -> Iterator[str]:
        yield from getattr(self.document, section)
        yield from getattr(self.existing, section)

    def plain_password(self, path: Path, password: str | None) -> None:
        """Warn of a secret that is written in the file."""
        if password and not self.source.remote and path not in self.source.variables:
            self.source.warning(
                "plain-text-password",
                path,
                f"the {path[-1]} is written in the file",
                f"write {path[-1]}: ${{SOME_VARIABLE}}, or keep it in a file of its own",
            )

    def driver(self, name: str) -> Link | None:
        """The opened link, if it is good."""
        if key(name) not in self.drivers:
            link = folded(self.existing.links).get(key(name))
            try:
                self.drivers[key(name)] = registry.open_link(link_config(name, link)) if link else None
            except GatewayError:
                self.drivers[key(name)] = None
        return self.drivers[key(name)]

    def as_held(self, section: str, name: str, settings: Callable[[Any], Any]) -> bool:
        """Whether the hub holds an object of that name with the same ``settings``."""
        fold = fold_of(section)
        if section not in self._held:
            self._held[section] = {fold(known): model for known, model in getattr(self.held, section).items()}
        model = self._held[section].get(fold(name))
        return model is not None and settings(model) == settings(getattr(self.document, section)[name])

    def unresolved_below(self, path: Path) -> bool:
        """Whether a variable below a place is not set."""
        return any(place[: len(path)] == path for place in self.source.unresolved)

    def values(self, path: Path, fields: tuple[Field, ...], values: Mapping[str, Any], owner: str) -> None:
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
                    self.refused("bad-value", place, error)
        given = {name.lower() for name, value in values.items() if value not in (None, "")}
        for each in fields:
            if each.required and given.isdisjoint((each.name.lower(), each.instead.lower())):
                place = (*path, self._spelled(path, each.name))
                if place not in self.source.unresolved:
                    advice = f"set {each.name}: {each.description}"
                    self.source.error("missing-key", path, f"{owner}: {each.name} is missing", advice)

    def place(self, path: Path, name: str) -> Path:
        """Where the file has a key, however it writes it."""
        return (*path, self._spelled(path, name))

    def _spelled(self, path: Path, name: str) -> str:
        """The key as the file writes it."""
        if not self._keys:
            for place in self.source.marks:
                self._keys.setdefault((place[:-1], str(place[-1]).lower()), str(place[-1]))
        return self._keys.get((path, name.lower()), name)

    def refused(self, finding: str, path: Path, error: GatewayError) -> None:
        """What creating the object would refuse."""
        message = f"{error.what}: {error.cause}" if error.cause else error.what
        self.source.error(finding, path, message, error.cure)

    def name(self, path: Path, name: str) -> None:
        """A name that every statement, client id and queue name can carry."""
        try:
            if path[0] in ("queues", "queue_tables", "object_types"):
                qualified(name, what=NOUNS[str(path[0])], system=False)
            else:
                check_identifier(NOUNS[str(path[0])], name)
        except GatewayError as error:
            self.refused("bad-name", path, error)

    def endpoint(self, finding: str, path: Path, name: str, direction: Direction | None) -> None:
        """Ask the link what it would refuse without looking at the broker."""
        parts = split_foreign(name)
        queue = self.foreign.get(key(name))
        driver = self.driver(parts[1]) if parts else None
        if parts is None or queue is None or driver is None:
            return
        try:
            driver.check_endpoint(endpoint(name, queue), direction)
        except (AdminError, ConfigInvalid) as error:
            self.refused(finding, path, error)

    def job_end(self, path: Path, name: str, options: Mapping[str, Any], direction: Direction) -> None:
        """Ask the link which options of a job it would refuse at that end."""
        parts = split_foreign(name)
        queue = self.foreign.get(key(name))
        driver = self.driver(parts[1]) if parts else None
        if queue is None or not isinstance(driver, ChecksJobs):
            return
        try:
            driver.check_job(endpoint(name, queue), options, direction)
        except (AdminError, ConfigInvalid) as error:
            self.refused("bad-value", path, error)

    def transformation(self, path: Path, name: str | None) -> None:
        """A reference to a transformation."""
        if name is not None and hub_name(name) not in self.transformations:
            self.unknown("unknown-transformation", path, "transformations", name)

    def payload_type(self, path: Path, name: str | None) -> None:
        """A payload type, which may be an object type."""
        if name is not None and "." in name and hub_name(name) not in self.types and payloads.jms_type(name) is None:
            self.unknown("unknown-object-type", path, "object_types", name)

    def shape(self, queue: QueueModel) -> QueueTableModel:
        """Payload type, consumers and sort list of a hub queue, wherever they were written."""
        return self.tables.get(hub_name(queue.queue_table or "")) or inline_table(queue)
