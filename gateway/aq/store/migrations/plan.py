"""What an upgrade of a hub would do, and whether it may: decided before anything is touched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata

from mgw.gateway.aq.store.schema_part import SchemaPart, Step
from mgw.transforms.errors import HubError, HubVersionMismatch

__all__ = ["DISTRIBUTION", "NO_PART", "QUEUES", "PartPlan", "newer", "older", "plan", "this_release"]

DISTRIBUTION = "messaging-gateway"
#: The part that every hub has: its version is in ``aq_hub``.
QUEUES = "aq"
#: Beginning of the names of rows of ``aq_part`` that are no parts: versions and checksums of SQL functions.
NO_PART = "functions"


@dataclass(frozen=True, slots=True)
class PartPlan:
    """One part of a hub: the version it has, the one that this release needs, and the steps between them."""

    part: SchemaPart
    stored: int
    steps: tuple[Step, ...]


def this_release() -> str:
    """Version of the installed package; ``unknown`` where it is not installed."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "unknown"


def plan(
    versions: Mapping[str, int], parts: Sequence[SchemaPart], where: str, written_by: str | None
) -> list[PartPlan]:
    """The parts of a hub in the order in which they are upgraded.

    Args:
        versions: of the parts that the hub has, the queues' among them.
        written_by: the release that made it or upgraded it last, if it says so.

    Raises:
        HubVersionMismatch: a newer release made a part of it.
        HubError: nobody here knows a part of it.
    """
    known = {part.name: part for part in parts}
    unknown = sorted(name for name in versions.keys() - known.keys() if not name.startswith(NO_PART))
    if unknown:
        raise HubError(
            f"hub {where} cannot be upgraded",
            cause=f"it has tables of {', '.join(unknown)}, which no installed package knows",
            cure="install the package that created them (or reinstall this one, if they are its own); the hub was not "
            "touched",
        )
    return list(_plans(versions, parts, where, written_by))


def _plans(
    versions: Mapping[str, int], parts: Sequence[SchemaPart], where: str, written_by: str | None
) -> Iterator[PartPlan]:
    for part in parts:
        stored = versions.get(part.name)
        if stored is None:
            continue
        if stored > part.version:
            raise newer(where, part.name, stored, part.version, written_by)
        steps = tuple(step for step in part.steps if step.version > stored)
        if [step.version for step in steps] != list(range(stored + 1, part.version + 1)):
            raise HubError(
                f"hub {where} cannot be upgraded",
                cause=f"there is no upgrade from version {stored} of its {part.name} tables to version {part.version}",
                cure="upgrade it with the previous release first",
            )
        yield PartPlan(part, stored, steps)


def newer(where: str, part: str, stored: int, known: int, written_by: str | None) -> HubVersionMismatch:
    """The refusal of a hub that a newer release has made or upgraded."""
    by = f", made by release {written_by}" if written_by else ""
    which = f", {written_by} or a later one" if written_by else ""
    return HubVersionMismatch(
        f"hub {where} was written by a newer release",
        cause=f"its {part} tables have version {stored}{by}; this release, {this_release()}, knows {known}",
        cure=f"install the newer release{which}; the database was not touched",
    )


def older(where: str, part: str, stored: int, known: int) -> HubVersionMismatch:
    """The refusal of a hub that an older release has made, by everything but the upgrade."""
    return HubVersionMismatch(
        f"hub {where} was written by an older release",
        cause=f"its {part} tables have version {stored}, this release needs {known}",
        cure=f"stop every program that uses it, make a backup, then run: mgw upgrade --hub {where}",
    )
