"""The hub that a command works on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mgw.gateway.aq import Dropped, Hub, parse_url
from mgw.gateway.aq import drop_hub as drop
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.upgrade import parts
from mgw.gateway.state import gateway_hub
from mgw.transforms.clock import SYSTEM_CLOCK, Clock

__all__ = ["Dropped", "Hub", "administration", "drop_hub", "open_hub"]


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
