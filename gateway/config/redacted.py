"""Objects as they may be shown."""

from __future__ import annotations

from typing import Any

from mgw.gateway.definitions.objects import LinkDef
from mgw.gateway.state.secrets import HIDDEN
from mgw.links import registry
from mgw.links.options import typed
from mgw.transforms.errors import GatewayError

__all__ = ["link_settings"]


def link_settings(link: LinkDef) -> dict[str, Any]:
    """Settings of a link for people; every secret is ``***``."""
    try:
        spec = registry.spec(link.type)
        secret = {field.name.lower() for field in (*spec.attributes, *spec.options) if field.secret}
        options, safe = typed(link.options, spec.options), True
    except GatewayError:  # without its client nobody knows what is secret
        secret, options, safe = set(), dict(link.options), False

    def shown(values: dict[str, Any]) -> dict[str, Any]:
        return {name: value if safe and name.lower() not in secret else HIDDEN for name, value in values.items()}

    return {
        "name": link.name,
        "type": link.type.lower(),
        "agent": link.agent,
        **shown(dict(link.attributes)),
        "username": link.username,
        "password": HIDDEN if link.password else None,
        "max_connections": link.max_connections,
        "inbound_log_queue": link.inbound_log_queue,
        "outbound_log_queue": link.outbound_log_queue,
        "options": shown(options),
        "comment": link.comments,
    }
