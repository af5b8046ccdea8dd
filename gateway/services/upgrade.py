"""Bring a hub of an older release forward, or say what that would do.

The parts of the schema that other packages keep in the hub are found by entry points of the group ``mgw.schema``: each
names a :class:`~mgw.gateway.aq.store.schema_part.SchemaPart` or several in a sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Final

from mgw.gateway.aq import PartPlan, SchemaPart, Step, parse_url
from mgw.gateway.aq import postgresql_upgrade as postgresql
from mgw.gateway.aq import sqlite_upgrade as sqlite
from mgw.gateway.state.gateway_hub import GATEWAY_PART
from mgw.transforms.clock import SYSTEM_CLOCK, Clock
from mgw.transforms.errors import ConfigInvalid

__all__ = ["GROUP", "Outlook", "PartOutlook", "look", "parts", "upgrade"]

GROUP: Final = "mgw.schema"


@dataclass(frozen=True, slots=True)
class PartOutlook:
    """One part of a hub's schema.

    Attributes:
        name: ``aq``, ``gateway`` or the name of another package's part.
        stored: version of its tables in the hub, before the upgrade.
        needed: version that this release works with.
        steps: (version, what changes) from the one to the other.
    """

    name: str
    stored: int
    needed: int
    steps: Sequence[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class Outlook:
    """What an upgrade does, or did.

    Attributes:
        hub: the database as shown to people.
    """

    hub: str
    parts: Sequence[PartOutlook]

    @property
    def needed(self) -> bool:
        """Whether a part of the hub is older than this release."""
        return any(part.steps for part in self.parts)


def parts() -> list[SchemaPart]:
    """The parts of the schema that installed packages know, the queues' own excepted, in the order of their upgrade."""
    found: list[SchemaPart] = [GATEWAY_PART]
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        given = point.load()
        found += [given] if isinstance(given, SchemaPart) else given
    return found


def look(url: str, *, clock: Clock = SYSTEM_CLOCK) -> Outlook:
    """What an upgrade of the hub would do; nothing is changed.

    Args:
        url: as for :meth:`mgw.gateway.aq.hub.Hub.open`.

    Raises:
        HubVersionMismatch: it is not a hub, or a newer release wrote it.
        HubUnavailable: it cannot be reached.
        HubError: there is none; nobody here knows a part of it.
    """
    address = parse_url(url)
    if address.postgresql:
        return _outlook(address.shown, postgresql.look(address, parts(), clock))
    return _outlook(address.shown, sqlite.look(address, parts()))


def upgrade(
    url: str,
    *,
    backup: str | None = None,
    told: Callable[[str, Step], None] = lambda *_: None,
    clock: Clock = SYSTEM_CLOCK,
) -> Outlook:
    """Bring the hub forward to this release, whole or not at all; what was done.

    On PostgreSQL everything is one transaction. On SQLite a copy is changed, and replaces the file when it is complete
    and on disk. A kill at any moment leaves the old hub or the new one. Nobody may have the hub open.

    Args:
        url: as for :meth:`mgw.gateway.aq.hub.Hub.open`; the login must be the owner of the tables (PostgreSQL).
        backup: path of a copy of the hub as it was; SQLite only. Nothing may be there.
        told: called before every step with the name of its part.

    Raises:
        HubVersionMismatch: as :func:`look`.
        HubUnavailable: the hub is in use, or cannot be reached.
        HubFull: there is no room for the copy.
        HubError: a row breaks a rule of a step; views of others need those of the hub; a right is missing.
        ConfigInvalid: ``backup`` is given for PostgreSQL.
    """
    address = parse_url(url)
    where = address.shown
    if not address.postgresql:
        return _outlook(where, sqlite.upgrade(address, parts(), clock, told, backup))
    if backup is not None:
        raise ConfigInvalid(
            f"hub {where} was not upgraded",
            cause="a backup to a file is for hubs on SQLite",
            cure="make one with pg_dump, and leave --backup out",
        )
    return _outlook(where, postgresql.upgrade(address, parts(), clock, told))


def _outlook(where: str, plans: Sequence[PartPlan]) -> Outlook:
    return Outlook(
        where,
        [
            PartOutlook(
                entry.part.name, entry.stored, entry.part.version, [(step.version, step.title) for step in entry.steps]
            )
            for entry in plans
        ],
    )
