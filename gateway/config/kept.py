"""Secrets that a configuration leaves out because the hub keeps them."""

from __future__ import annotations

from typing import Any

from mgw.gateway.config.findings import Path
from mgw.gateway.config.forms import folded, spec_of
from mgw.gateway.config.load import Source
from mgw.gateway.config.models import NOUNS, Document, LinkModel
from mgw.gateway.definitions.objects import key

__all__ = ["STAND_IN", "complete", "missing_secrets", "missing_variables"]

#: Stands for a secret that is known only where the configuration is applied.
STAND_IN = "a secret that is known where this is applied"


def complete(source: Source, document: Document, held: Document | None) -> Document:
    """The document with the secrets that its links and agents will have once it is applied.

    Args:
        held: what the hub holds; None: nobody knows yet, so a secret whose variable may be empty gets a stand-in.
    """
    stored = folded(held.links) if held is not None else {}
    links = {
        name: _completed(source, ("links", name), link, stored.get(key(name)), known=held is not None)
        for name, link in document.links.items()
    }
    passwords = folded(held.agents) if held is not None else {}
    agents = dict(document.agents)
    for name, agent in document.agents.items():
        if agent.password is None and agent.username is not None:
            stored_agent = passwords.get(key(name))
            stand_in = STAND_IN if held is None and ("agents", name, "password") in source.kept else None
            agents[name] = agent.model_copy(update={"password": stored_agent.password if stored_agent else stand_in})
    return document.model_copy(update={"links": links, "agents": agents})


def missing_variables(source: Source, path: Path) -> str:
    """The variables that would give the secrets below a place: ``A or A_FILE``; empty if none was left out."""
    names = sorted({name for place, name in source.kept.items() if place[: len(path)] == path})
    return ", ".join(f"{name} or {name}_FILE" for name in names)


def missing_secrets(source: Source, held: Document) -> list[tuple[str, str, str]]:
    """Secrets that a configuration leaves to the hub, and that the hub has not: object, key, and the variable."""
    missing = []
    for place, variable in sorted(source.kept.items()):
        section, name, *keys = map(str, place)
        object_: Any = folded(getattr(held, section)).get(key(name))
        found = {} if object_ is None else object_.model_dump(include={"password", "attributes", "options"})
        values = {each.lower(): value for each, value in {**found.get("attributes", {}), **found}.items()}
        if keys[0] == "options":
            values = {f"options.{each}".lower(): value for each, value in (found.get("options") or {}).items()}
        if values.get(".".join(keys).lower()) is None:
            missing.append((f"{NOUNS[section]} {name}", ".".join(keys), variable))
    return missing


def _completed(source: Source, path: Path, link: LinkModel, held: LinkModel | None, *, known: bool) -> LinkModel:
    spec = spec_of(link.type)
    updates: dict[str, Any] = {}

    def found(place: Path, stored: Any) -> Any:
        return stored if known or place not in source.kept else STAND_IN

    if link.password is None and link.username is not None:
        updates["password"] = found((*path, "password"), held.password if held else None)
    for part, fields in (("attributes", spec.attributes), ("options", spec.options)) if spec else ():
        given: dict[str, Any] = dict(getattr(link, part))
        stored = {name.lower(): value for name, value in getattr(held, part).items()} if held else {}
        names = {name.lower() for name, value in given.items() if value is not None}
        for field in fields:
            if field.secret and field.name.lower() not in names:
                place = (*path, *(("options",) if part == "options" else ()), field.name)
                value = found(place, stored.get(field.name.lower()))
                if value is not None:
                    given[field.name] = value
        updates[part] = given
    return link.model_copy(update=updates)
