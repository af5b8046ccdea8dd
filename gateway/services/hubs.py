"""The hub that a command works on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from mgw.gateway.aq import Copied, Dropped, Hub, parse_url
from mgw.gateway.aq import copy_hub as copy
from mgw.gateway.aq import drop_hub as drop
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.upgrade import parts
from mgw.gateway.state import gateway_hub
from mgw.gateway.state.secrets import Secrets
from mgw.transforms.clock import SYSTEM_CLOCK, Clock
from mgw.transforms.errors import HubIncomplete, HubMissing

__all__ = ["Backup", "Dropped", "Hub", "Made", "administration", "back_up", "create_hub", "drop_hub", "open_hub"]


@dataclass(frozen=True, slots=True)
class Made:
    """What :func:`create_hub` found or made.

    Attributes:
        hub: the database as shown to people.
        schema: where its tables are in a PostgreSQL database; None on SQLite.
        done: ``nothing``: it was there; ``gateway``: queues were there, and the gateway's tables were added to them.
    """

    hub: str
    schema: str | None
    done: Literal["nothing", "gateway", "hub"]


@dataclass(frozen=True, slots=True)
class Backup:
    """What :func:`back_up` made.

    Attributes:
        copied: the copy of the hub.
        key_file: the file with the key of its secrets, which the copy does not hold; None: there is none.
    """

    copied: Copied
    key_file: str | None


@contextmanager
def open_hub(url: str, *, create: bool = False) -> Iterator[Hub]:
    """The hub at ``url``, closed at the end.

    Raises:
        HubError: it is not there, cannot be reached, or is of another release.
    """
    hub = gateway_hub.open_hub(url, create=create)
    try:
        yield hub
    finally:
        hub.close()


@contextmanager
def administration(url: str) -> Iterator[GatewayAdmin]:
    """The procedures of the hub at ``url``, which is closed at the end.

    Raises:
        HubError: as :func:`open_hub`.
    """
    with open_hub(url) as hub:
        yield GatewayAdmin(hub)


def create_hub(url: str) -> Made:
    """Create the hub at ``url``, empty but for the default agent; one that is there stays as it is.

    Args:
        url: as for :meth:`mgw.gateway.aq.hub.Hub.open`.

    Raises:
        HubVersionMismatch: something else is there, or a hub of another release; it was not touched.
        HubUnavailable: it cannot be reached.
        HubError: the place cannot be used for a hub; a right is missing.
    """
    try:
        with open_hub(url) as hub:
            return Made(hub.name, hub.schema, "nothing")
    except HubIncomplete:
        done: Literal["gateway", "hub"] = "gateway"
    except HubMissing:
        done = "hub"
    with open_hub(url, create=True) as hub:
        return Made(hub.name, hub.schema, done)


def back_up(url: str, file: str) -> Backup:
    """Copy the hub at ``url`` to a file, while agents and applications use it.

    Args:
        url: as for :meth:`mgw.gateway.aq.hub.Hub.open`; of an SQLite file.
        file: where the copy is made; nothing may be there.

    Raises:
        HubVersionMismatch: it is not a hub.
        HubUnavailable: it cannot be read.
        HubError: it is on PostgreSQL, or there is none; the file exists or cannot be written; the hub is damaged.
    """
    copied = copy(parse_url(url), file)
    key_file = Secrets.for_hub(url).keys.file
    return Backup(copied, str(key_file) if key_file is not None and key_file.exists() else None)


def drop_hub(url: str, *, force: bool = False, clock: Clock = SYSTEM_CLOCK) -> Dropped:
    """Drop the hub with everything in it; what an application has in the same database stays as it is.

    Args:
        url: as for :meth:`mgw.gateway.aq.hub.Hub.open`.
        force: also if messages wait in it; they are lost.

    Raises:
        HubVersionMismatch: it is not a hub, or of another release.
        HubUnavailable: it is in use, or cannot be reached.
        HubError: there is none; messages wait in it; something of the application's needs it; a right is missing.
    """
    return drop(parse_url(url), parts(), clock, force=force)
