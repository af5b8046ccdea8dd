"""The SQL views of links, one per type of the gateway itself, as the descriptions of the types say."""

from __future__ import annotations

from mgw.links import registry
from mgw.links.contract import Field, LinkSpec

__all__ = ["column_texts", "link_views", "shown_attributes", "view_texts"]


def link_views() -> dict[str, LinkSpec]:
    """Names of the views, in the order of the types, with the types; one that shows no attribute has none."""
    specs = [registry.spec(name) for name in registry.types(own=True)]
    return {f"MGW_{spec.type}_LINKS": spec for spec in specs if shown_attributes(spec)}


def shown_attributes(spec: LinkSpec) -> list[Field]:
    """The attributes that are columns."""
    return [field for field in spec.attributes if field.shown]


def view_texts() -> dict[str, str]:
    """What each view shows."""
    return {name: f"Links of type {spec.type} with their attributes." for name, spec in link_views().items()}


def column_texts() -> dict[str, str]:
    """What each column of an attribute means, by ``VIEW.COLUMN``."""
    return {
        f"{view}.{field.name.upper()}": field.description
        for view, spec in link_views().items()
        for field in shown_attributes(spec)
    }
