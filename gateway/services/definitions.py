"""The definitions of a hub, one object at a time: read, made, changed, removed. What is checked is what ``mgw lint``
checks, what is done is what ``mgw apply`` does.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mgw.gateway.aq import Hub
from mgw.gateway.config.export import object_values
from mgw.gateway.config.forms import fold_of
from mgw.gateway.config.models import NOUNS, SECTIONS
from mgw.gateway.config.running import read_section
from mgw.gateway.definitions.objects import Propagation
from mgw.gateway.services import lookup
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.lookup import NotFound
from mgw.gateway.services.options import typed_options
from mgw.links import registry

__all__ = [
    "NOUNS",
    "SECTIONS",
    "Definition",
    "Filter",
    "Page",
    "find",
    "find_model",
    "name_in",
    "page_of",
    "require_named",
    "shown",
    "types_of",
]


@dataclass(frozen=True, slots=True)
class Definition:
    """One object.

    Attributes:
        config: as a file would say it, without defaults and secrets.
        secrets: the keys of the secrets that it has.
    """

    section: str
    name: str
    config: Mapping[str, Any]
    secrets: tuple[str, ...] = ()

    @property
    def tag(self) -> str:
        """A digest of what is shown; another one after every change of that."""
        text = json.dumps([self.section, self.name, self.config, self.secrets], sort_keys=True)
        return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Filter:
    """Which objects are wanted; None: any.

    Attributes:
        name: pattern with ``*`` and ``?``, in whatever letter case.
        link: of foreign queues and jobs, a link that they use.
        kind: of links and jobs, their type.
    """

    name: str | None = None
    link: str | None = None
    kind: str | None = None
    names: frozenset[str] | None = None  # in upper case

    def among(self, names: Iterable[str]) -> Filter:
        """The same, and its name is one of these."""
        return replace(self, names=frozenset(name.upper() for name in names))

    def takes(self, name: str, model: Any) -> bool:
        """Whether an object is wanted."""
        if self.names is not None and name.upper() not in self.names:
            return False
        if self.name is not None and not re.match(fnmatch.translate(self.name.upper()), name.upper()):
            return False
        if self.kind is not None and model.type.upper() != self.kind.upper():
            return False
        ends = [name, getattr(model, "source", ""), getattr(model, "destination", "")]
        return self.link is None or self.link.upper() in {end.rpartition("@")[2].upper() for end in ends if "@" in end}


def types_of(section: str, *, own: bool = False) -> tuple[str, ...]:
    """The types that links or jobs can have, as a file writes them; ``own``: without those of other packages."""
    return tuple(each.lower() for each in (registry.types(own=own) if section == "links" else Propagation))


def require_named(hub: Hub, *, link: str | None = None, agent: str | None = None) -> None:
    """Check that the objects exist by which a list is filtered; an empty list would read as if they had none.

    Raises:
        NotFound: there is none of that name.
    """
    admin = GatewayAdmin(hub)
    if link is not None:
        lookup.link_name(admin, link)
    if agent is not None:
        lookup.agent(admin, agent)


@dataclass(frozen=True, slots=True)
class Page:
    """Some objects in the order of their names.

    Attributes:
        after: the last name, where there are more.
    """

    items: Sequence[Definition]
    after: str | None


def shown(section: str, name: str, model: Any, types: Mapping[str, str]) -> Definition:
    """An object as it may be shown.

    Args:
        types: type of each link by its name in upper case; foreign queues and jobs need it.
    """
    config, secrets = object_values(name, model)
    return Definition(section, name, typed_options(section, name, config, types), tuple(secrets))


def _types(hub: Hub, section: str) -> Mapping[str, str]:
    return GatewayAdmin(hub).link_types() if section in ("foreign_queues", "jobs") else {}


def find(hub: Hub, section: str, name: str) -> Definition:
    """One object, in whatever letter case it is named.

    Raises:
        NotFound: there is none of that name.
    """
    return find_model(hub, section, name)[0]


def find_model(hub: Hub, section: str, name: str) -> tuple[Definition, Any]:
    """One object as :func:`find` has it, and as a plan compares it.

    Raises:
        NotFound: there is none of that name.
    """
    held = read_section(hub, section)
    found = name_in(section, held, name)
    if found is None:
        raise NotFound(NOUNS[section], name[:200], list(held))
    return shown(section, found, held[found], _types(hub, section)), held[found]


def name_in(section: str, held: Mapping[str, Any], name: str) -> str | None:
    """The name of an object as it is defined."""
    fold = fold_of(section)
    if name in held:
        return name
    wanted = fold(name)
    return next((each for each in held if fold(each) == wanted), None)


def page_of(hub: Hub, section: str, wanted: Filter, *, limit: int, after: str | None = None) -> Page:
    """Objects in the order of their names, those behind ``after``."""
    held = read_section(hub, section)
    names = sorted((name for name in held if wanted.takes(name, held[name])), key=_place)
    if after is not None:
        names = [name for name in names if _place(name) > _place(after)]
    types = _types(hub, section)
    items = [shown(section, name, held[name], types) for name in names[:limit]]
    return Page(items, names[limit - 1] if len(names) > limit else None)


def _place(name: str) -> tuple[str, str]:
    return name.upper(), name
