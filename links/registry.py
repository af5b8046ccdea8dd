"""The messaging systems the gateway knows: one line each, and the entry points of other packages.

A driver module is imported when a link of its type is first used, never at start: a client library costs 40 to 90 ms.
A package of somebody else offers a link by an entry point of the group ``mgw.links``: its name is the link type, its
value the driver module, which has ``SPEC`` (:class:`~mgw.links.contract.LinkSpec`) and ``open_link``. A type that the
gateway brings itself cannot be replaced.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType, ModuleType
from typing import Any, Final, cast

from mgw.links.contract import Link, LinkConfig, LinkSpec
from mgw.transforms.errors import ConfigInvalid, LinkError

__all__ = ["GROUP", "check_client", "open_link", "spec", "types"]

GROUP: Final = "mgw.links"

#: Of each package, ``spec`` has SPEC and needs no client library, and ``link`` has open_link.
_PACKAGES = {
    "RABBITMQ": "mgw.links.rabbitmq",
    "KAFKA": "mgw.links.kafka",
    "MQTT": "mgw.links.mqtt",
    "MEMORY": "mgw.links.memory",
}


def types(*, own: bool = False) -> tuple[str, ...]:
    """The link types: the gateway's own in the order of the documentation, then, unless only those are asked for, those
    of other packages by name."""
    if own:
        return tuple(_PACKAGES)
    return (*_PACKAGES, *(name for name in _others() if name not in _PACKAGES))


def spec(link_type: str) -> LinkSpec:
    """What a link type is called, takes and can do; ``link_type`` compares case-insensitively.

    Raises:
        ConfigInvalid: there is no such type.
        LinkError: another package offers it, and cannot be imported.
    """
    package = _PACKAGES.get(link_type.upper())
    module = importlib.import_module(f"{package}.spec") if package else _driver(link_type)
    return cast(LinkSpec, module.SPEC)


def check_client(link_type: str, attributes: Mapping[str, Any] = MappingProxyType({})) -> None:
    """See that links of this type can be opened here; ``attributes`` may choose among client libraries.

    Raises:
        ConfigInvalid: there is no such type.
        LinkError: the client library of this type is not installed.
    """
    driver = _driver(link_type)
    if hasattr(driver, "check_client"):
        driver.check_client(attributes)


def open_link(config: LinkConfig) -> Link:
    """A link from its configuration; connects nothing yet.

    Raises:
        ConfigInvalid: unknown type, or an attribute or option that can never work.
        LinkError: the client library of this type is not installed.
    """
    return cast(Link, _driver(config.type).open_link(config))


def _driver(link_type: str) -> ModuleType:
    name = link_type.upper()
    package = _PACKAGES.get(name)
    if package is None:
        return _foreign_driver(name, link_type)
    try:
        return importlib.import_module(f"{package}.link")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "mgw":
            raise
        raise LinkError(
            f"link type {name} cannot be used",
            cause=f"the Python package {error.name!r} is not installed",
            cure=f"pip install 'messaging-gateway[{link_type.lower()}]'",
        ) from error


def _others() -> dict[str, list[EntryPoint]]:
    return _found(tuple(sys.path))


@lru_cache(maxsize=4)
def _found(_: tuple[str, ...]) -> dict[str, list[EntryPoint]]:
    """Entry points by link type; a path that is read once is not read again."""
    found: dict[str, list[EntryPoint]] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda each: (each.name, each.value)):
        known = found.setdefault(point.name.upper(), [])
        if all(point.value != each.value for each in known):  # a package may be on the path twice
            known.append(point)
    return found


def _foreign_driver(name: str, link_type: str) -> ModuleType:
    points = _others().get(name, [])
    if not points:
        raise ConfigInvalid(
            f"link type {link_type!r} is unknown",
            cause="the gateway has no driver of that name",
            cure=f"use one of {', '.join(types())}",
        )
    owners = " and ".join(f"package {point.dist.name if point.dist else point.value}" for point in points)
    if len(points) > 1:
        raise ConfigInvalid(
            f"link type {name} cannot be used", cause=f"{owners} both provide it", cure="uninstall one of them"
        )
    try:
        module = importlib.import_module(points[0].value)
    except Exception as error:  # whatever the module of somebody else does when it is imported
        raise LinkError(
            f"link type {name} cannot be used",
            cause=f"{owners} cannot be imported: {type(error).__name__}: {error}",
            cure="reinstall it with its dependencies",
        ) from error
    offered = getattr(module, "SPEC", None)
    if not isinstance(offered, LinkSpec) or offered.type != name or not callable(getattr(module, "open_link", None)):
        raise ConfigInvalid(
            f"link type {name} cannot be used",
            cause=f"{points[0].value} of {owners} has no SPEC, a LinkSpec of type {name}, or no open_link",
            cure="ask its author for a corrected version",
        )
    return module
