"""The hub as the gateway uses it: the queues, with the gateway's own tables and views beside them."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from gateway import catalog, lease
from gateway.aq.hub import Durability, Hub
from gateway.aq.model import SchemaPart
from gateway.tables import GATEWAY_SCHEMA_VERSION, metadata
from gateway.views import create_views
from transforms.clock import SYSTEM_CLOCK, Clock

__all__ = ["GATEWAY_PART", "complete", "open_hub"]


def _create(conn: sa.Connection) -> None:
    metadata.create_all(conn, checkfirst=False)
    catalog.insert_defaults(conn)
    create_views(conn)


GATEWAY_PART = SchemaPart("gateway", GATEWAY_SCHEMA_VERSION, _create, catalog.jobs_with_transformations)


def open_hub(
    url: str,
    *,
    create: bool = False,
    durability: Durability = "full",
    clock: Clock = SYSTEM_CLOCK,
    transform_modules: Sequence[str] = (),
    parts: Sequence[SchemaPart] = (),
) -> Hub:
    """Open the gateway's hub, or make it; arguments and errors as :meth:`gateway.aq.hub.Hub.open`.

    Args:
        parts: tables and views of other modules beside the gateway's.
    """
    hub = Hub.open(
        url,
        create=create,
        durability=durability,
        clock=clock,
        schemas=[GATEWAY_PART, *parts],
        transform_modules=transform_modules,
    )
    if hub.postgresql:
        lease.sign_connections(hub.engine)
    return hub


def complete(hub: Hub) -> None:
    """See to it that a hub has the gateway's tables, also one that :meth:`gateway.aq.hub.Hub.open` has opened.

    Raises:
        HubVersionMismatch: another release made them.
        HubError: they are not there, and the hub was not opened with ``create``.
    """
    hub.add_part(GATEWAY_PART)
