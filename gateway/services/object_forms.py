"""Forms for the objects that somebody adds first: made from the descriptions that files and commands use.

A form has flat names: ``hostname``, ``options.MsgBatchSize``. What is empty is left out, so that defaults and secrets
that are kept stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mgw.gateway.aq import Hub
from mgw.gateway.config.export import document_text
from mgw.gateway.config.models import Document, QueueModel
from mgw.gateway.config.running import read_running
from mgw.gateway.definitions.job_options import JOB_OPTIONS
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.attributes import (
    FOREIGN_QUEUE_ATTRIBUTES,
    JOB_ATTRIBUTES,
    LINK_ATTRIBUTES,
    QUEUE_ATTRIBUTES,
    QUEUE_TABLE_ATTRIBUTES,
    Attribute,
    meaning,
)
from mgw.gateway.services.definitions import Definition
from mgw.links import registry
from mgw.transforms.errors import GatewayError

__all__ = [
    "OFFERED",
    "Entry",
    "Group",
    "Offer",
    "flat",
    "groups_of",
    "kinds",
    "nested",
    "offers",
    "secret_keys",
    "with_errors",
    "yaml_of",
]

#: What may be added with a form, in the order in which it is needed, and what it is.
OFFERED: Mapping[str, str] = {
    "links": "A link is a broker that the gateway connects to.",
    "foreign_queues": "A foreign queue is a queue, exchange or topic of a link, under a name of its own.",
    "queues": "A queue of the hub keeps messages on disk until everybody who wants them has them.",
    "jobs": "A job carries messages from one place to another.",
}

_OPTION = "options."
_OF_QUEUES = ("payload_type", "multiple_consumers", "sort_list")  # of the table that a queue gets of its own
_LONG = ("rule",)
_BATCH_SIZE = "MsgBatchSize"  # which the attribute batch_size sets


@dataclass(frozen=True, slots=True)
class Entry:
    """A field of a form.

    Attributes:
        key: flat.
        kind: text, number, choice, flag, secret, long or fixed (cannot be changed any more).
        choices: what may be chosen, or what a text is likely to be.
    """

    key: str
    attribute: Attribute
    kind: str
    value: str = ""
    choices: Sequence[str] = ()
    errors: Sequence[str] = ()

    @property
    def help(self) -> str:
        """What it means."""
        return meaning(self.attribute)

    @property
    def default(self) -> str:
        """What holds where it is left empty; empty: nothing."""
        value = self.attribute.default
        return "" if value is None or value == "" else _text(value)


@dataclass(frozen=True, slots=True)
class Group:
    """Fields that belong together."""

    title: str
    entries: Sequence[Entry]
    is_open: bool = True


@dataclass(frozen=True, slots=True)
class Offer:
    """What there is of a kind, and which forms add one.

    Attributes:
        kinds: of what a link can be of: types; of foreign queues: links.
    """

    section: str
    about: str
    names: Sequence[str]
    kinds: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class _Known:
    """Names that a text is likely to be."""

    agents: Sequence[str] = ()
    hub_queues: Sequence[str] = ()
    foreign_queues: Sequence[str] = ()
    transformations: Sequence[str] = ()
    link_types: Mapping[str, str] = field(default_factory=dict)

    @property
    def ends(self) -> list[str]:
        return [*self.hub_queues, *self.foreign_queues]

    def of(self, key: str) -> Sequence[str]:
        if key in ("source", "destination", "exception_queue"):
            return self.ends
        return {"agent": self.agents, "transformation": self.transformations}.get(key, ())


def offers(hub: Hub) -> list[Offer]:
    """What there is, and what may be added next."""
    held = read_running(hub)
    return [
        Offer(section, about, sorted(getattr(held, section)), kinds(hub, section) or ())
        for section, about in OFFERED.items()
    ]


def kinds(hub: Hub, section: str) -> Sequence[str] | None:
    """What has to be chosen before the form of a section: types of links, links of foreign queues; None: nothing."""
    if section == "links":
        return [each.lower() for each in registry.types()]
    return sorted(GatewayAdmin(hub).link_names()) if section == "foreign_queues" else None


def groups_of(
    hub: Hub, section: str, kind: str, values: Mapping[str, str], *, held: Definition | None = None
) -> list[Group]:
    """The form of an object.

    Args:
        kind: type of a link, link of a foreign queue; empty otherwise.
        values: what is in its fields.
        held: the object that is changed; None: it is a new one.

    Raises:
        GatewayError: there is no such type or link.
    """
    known = _known(hub)
    made = [
        Group(title, [_entry(prefix, each, values, known, held) for each in attributes], title == "")
        for title, prefix, attributes in _attributes(section, kind, known)
    ]
    return [group for group in made if group.entries]


def _known(hub: Hub) -> _Known:
    held, admin = read_running(hub), GatewayAdmin(hub)
    return _Known(
        sorted(each.name for each in admin.list_agents()),
        sorted(held.queues),
        sorted(held.foreign_queues),
        sorted(held.transformations),
        admin.link_types(),
    )


def _attributes(section: str, kind: str, known: _Known) -> list[tuple[str, str, Iterable[Attribute]]]:
    """Title, prefix of the keys and attributes of each group; the first has no title."""
    if section == "links":
        spec = registry.spec(kind)
        general = [each for name, each in LINK_ATTRIBUTES.items() if name != "type"]
        first = [each for each in spec.attributes if each.required or each.name in ("hostname", "port")]
        more = [each for each in spec.attributes if each not in first]
        login = [each for each in general if each.name in ("username", "password")]
        rest = [each for each in general if each not in login]
        return [("", "", [*first, *login]), ("More settings", "", [*more, *rest]), ("Options", _OPTION, spec.options)]
    if section == "foreign_queues":
        spec = registry.spec(known.link_types[kind.upper()])
        return [("", "", FOREIGN_QUEUE_ATTRIBUTES.values()), ("Options", _OPTION, spec.queue_options)]
    if section == "queues":
        own = [each for name, each in QUEUE_ATTRIBUTES.items() if name in QueueModel.model_fields]
        table = [QUEUE_TABLE_ATTRIBUTES[name] for name in _OF_QUEUES]
        return [("", "", table), ("More settings", "", own)]
    first = [JOB_ATTRIBUTES[name] for name in ("type", "source", "destination", "exception_queue", "rule")]
    options = {each.name: each for each in JOB_OPTIONS if each.name != _BATCH_SIZE}
    for link_type in dict.fromkeys(known.link_types.values()):
        options |= {each.name: each for each in registry.spec(link_type).job_options}
    return [
        ("", "", first),
        ("More settings", "", [each for each in JOB_ATTRIBUTES.values() if each not in first]),
        ("Options", _OPTION, options.values()),
    ]


def _entry(
    prefix: str, attribute: Attribute, values: Mapping[str, str], known: _Known, held: Definition | None
) -> Entry:
    key = f"{prefix}{attribute.name}"
    value = values.get(key, "")
    kind, choices = "text", list(known.of(key))
    if held is not None and not attribute.alterable:
        kind = "fixed"
    elif attribute.secret:
        kind, value = "secret", ""
    elif attribute.type is bool:
        kind = "flag"
    elif attribute.choices:
        kind, choices = "choice", [each.lower() if attribute.name == "type" else each for each in attribute.choices]
    elif attribute.type in (int, float):
        kind = "number"
    elif attribute.name in _LONG:
        kind = "long"
    return Entry(key, attribute, kind, value, choices)


def with_errors(groups: Sequence[Group], errors: Mapping[str, Sequence[str]]) -> list[Group]:
    """The same with what is wrong at each field, by its key in lower case; a group with an error is open."""
    found = []
    for group in groups:
        entries = [replace(each, errors=errors.get(each.key.lower(), ())) for each in group.entries]
        found.append(replace(group, entries=entries, is_open=group.is_open or any(each.errors for each in entries)))
    return found


def secret_keys(groups: Sequence[Group]) -> list[str]:
    """The fields of a form that hold secrets."""
    return [entry.key for group in groups for entry in group.entries if entry.kind == "secret"]


def flat(config: Mapping[str, Any]) -> dict[str, str]:
    """The settings of an object as fields of its form."""
    found: dict[str, str] = {}
    for name, value in config.items():
        if name == "options" and isinstance(value, Mapping):
            found |= {f"{_OPTION}{each}": _text(held) for each, held in value.items()}
        elif isinstance(value, str | int | float | bool):
            found[name] = _text(value)
    return found


def nested(
    values: Mapping[str, str], groups: Sequence[Group], *, kind: str = "", held: Definition | None = None
) -> dict[str, Any]:
    """The settings behind the fields of a form; what the form has no field for stays as it is held.

    Args:
        kind: type of a link; empty otherwise.
    """
    entries = {each.key: each for group in groups for each in group.entries}
    found: dict[str, Any] = {} if held is None else dict(held.config)
    options: dict[str, Any] = dict(found.pop("options", {}))
    for key, entry in entries.items():
        name = key.removeprefix(_OPTION)
        place = options if key.startswith(_OPTION) else found
        if entry.kind == "fixed":
            continue
        place.pop(name, None)
        if (value := values.get(key, "").strip()) != "":
            place[name] = {"true": True, "false": False}.get(value, value) if entry.kind == "flag" else value
    if kind:
        found["type"] = kind
    return found | ({"options": options} if options else {})


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def yaml_of(section: str, name: str, document: Document) -> str:
    """One object of a document as a file would hold it; a secret is a variable."""
    objects = getattr(document, section)
    found = next((key for key in objects if key.upper() == name.upper()), None)
    if found is None:
        raise GatewayError(f"{section} {name} is not in the document", cause="it was left out", cure="check it again")
    return document_text(Document().model_copy(update={section: {found: objects[found]}}))
