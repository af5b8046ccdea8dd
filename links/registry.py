"""The messaging systems the gateway knows: one line each.

A driver module is imported when a link of its type is first used, never at start: a client library costs 40 to 90 ms.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import cast

from links.contract import Link, LinkConfig, LinkSpec
from transforms.errors import ConfigInvalid, LinkError

__all__ = ["open_link", "spec", "types"]

_MODULES = {
    "RABBITMQ": "links.rabbitmq",
    "KAFKA": "links.kafka",
    "MQTT": "links.mqtt",
    "MEMORY": "links.memory",
}


def types() -> tuple[str, ...]:
    """The link types, in the order of the documentation."""
    return tuple(_MODULES)


def spec(link_type: str) -> LinkSpec:
    """What a link type is called, takes and can do; ``link_type`` compares case-insensitively.

    Raises:
        ConfigInvalid: there is no such type.
        LinkError: the client library of this type is not installed.
    """
    return cast(LinkSpec, _driver(link_type).SPEC)


def open_link(config: LinkConfig) -> Link:
    """A link from its configuration; connects nothing yet.

    Raises:
        ConfigInvalid: unknown type, or an attribute or option that can never work.
        LinkError: the client library of this type is not installed.
    """
    return cast(Link, _driver(config.type).open_link(config))


def _driver(link_type: str) -> ModuleType:
    module = _MODULES.get(link_type.upper())
    if module is None:
        raise ConfigInvalid(
            f"link type {link_type!r} is unknown",
            cause="the gateway has no driver of that name",
            cure=f"use one of {', '.join(_MODULES)}",
        )
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] in {"links", "transforms", "gateway"}:
            raise
        raise LinkError(
            f"link type {link_type.upper()} cannot be used",
            cause=f"the Python package {error.name!r} is not installed",
            cure=f"pip install 'messaging-gateway[{link_type.lower()}]'",
        ) from error
