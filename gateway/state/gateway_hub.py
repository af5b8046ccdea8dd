"""The hub as the gateway uses it: the queues, with the gateway's own tables and views next to them."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from mgw.gateway.aq import Durability, Hub, SchemaPart, hub_clock
from mgw.gateway.state import catalog, lease, run_state
from mgw.gateway.state.mgwadm.mgwadm_sql import MGWADM
from mgw.gateway.state.migrations import STEPS
from mgw.gateway.state.tables import metadata
from mgw.gateway.state.triggers import create_triggers, drop_triggers
from mgw.gateway.state.views import create_views, drop_views
from mgw.transforms.clock import SYSTEM_CLOCK, Clock

__all__ = ["GATEWAY_PART", "complete", "open_hub"]


def _create(conn: sa.Connection) -> None:
    metadata.create_all(conn, checkfirst=False)
    catalog.insert_defaults(conn)


def _make_derived(conn: sa.Connection) -> None:
    create_triggers(conn)
    create_views(conn)


def _drop_derived(conn: sa.Connection) -> None:
    drop_views(conn)
    drop_triggers(conn)


GATEWAY_PART = SchemaPart(
    "gateway",
    _create,
    catalog.jobs_with_transformations,
    STEPS,
    _make_derived,
    _drop_derived,
    lease.agents_at_work,
    MGWADM,
)


def open_hub(
    url: str,
    *,
    create: bool = False,
    durability: Durability = "full",
    clock: Clock = SYSTEM_CLOCK,
    transform_modules: Sequence[str] = (),
    parts: Sequence[SchemaPart] = (),
) -> Hub:
    """Open the gateway's hub, or create it: the queues, and the gateway's own tables and views.

    Args:
        url: SQLAlchemy URL of the database, such as ``sqlite:///hub.db`` or ``postgresql+psycopg://user@host/name``.
        create: create what is missing: the database file (SQLite), tables, views, functions.
        durability: ``full``: a commit is on disk before it returns. With any other value no job is exact.
        clock: source of all times.
        transform_modules: packages and modules whose functions transformations may call.
        parts: tables and views of other modules next to the gateway's.

    Raises:
        HubUnavailable: the database cannot be reached.
        HubVersionMismatch: another release made the hub.
        HubMissing: there is no hub, and ``create`` is not set.
        HubIncomplete: the hub has only queues, and ``create`` is not set.
        HubError: the place cannot be used for a hub.
    """
    hub = Hub.open(
        url,
        create=create,
        durability=durability,
        clock=clock,
        schemas=[GATEWAY_PART, *parts],
        transform_modules=transform_modules,
    )
    hub.on_removal = _keep_event
    if hub.postgresql:
        lease.sign_connections(hub.engine)
    return hub


def _keep_event(conn: sa.Connection, name: str, text: str, messages: int) -> None:
    """A removal of what may hold messages, in its transaction."""
    level = "WARNING" if messages else "INFO"
    now = hub_clock(conn).now()
    run_state.add_event(conn, agent_name=None, level=level, name="Removal", object_name=name, text=text, now=now)


def complete(hub: Hub) -> None:
    """See to it that a hub has the gateway's tables, also one that :meth:`mgw.gateway.aq.hub.Hub.open` has opened.

    Raises:
        HubVersionMismatch: another release made them.
        HubIncomplete: they are not there, and the hub was not opened with ``create``.
    """
    hub.add_part(GATEWAY_PART)
