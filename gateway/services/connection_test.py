"""Whether a messaging system can be reached and used, asked of it in this process."""

from __future__ import annotations

from dataclasses import dataclass

from mgw.gateway.services import lookup
from mgw.gateway.services.admin import GatewayAdmin
from mgw.links import registry

__all__ = ["Check", "test_link"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was tried; the texts hold no secret. ``cure`` is empty where nothing is wrong."""

    name: str
    ok: bool
    detail: str
    cure: str = ""


def test_link(admin: GatewayAdmin, name: str) -> list[Check]:
    """Connect with the settings of a link and try what jobs need.

    Raises:
        NotFound: there is no link of that name.
        ConfigInvalid: its type is unknown, its client is not installed, or its secrets cannot be decrypted.
    """
    link = registry.open_link(lookup.link(admin, name).config())
    hidden = admin.secrets.redact
    return [Check(hidden(each.name), each.ok, hidden(each.detail), hidden(each.cure)) for each in link.test()]
