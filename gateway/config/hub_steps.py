"""The steps of a plan on object types, queue tables, queues, AQ agents and grants: each in one transaction, and only
where the object still is as the plan saw it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mgw.gateway.aq import Hub, QueueAdmin
from mgw.gateway.config import hub_queues, object_types, security
from mgw.gateway.config.models import Document, GrantModel
from mgw.gateway.config.plan import Action
from mgw.gateway.config.unchanged import Seen, seen_of

__all__ = ["HUB_STEPS", "alter_queue", "remove_from_hub"]


def alter_queue(hub: Hub, document: Document, action: Action, *, force: bool) -> None:
    """Change a queue; ``force``: messages are deleted with subscribers that go.

    Raises:
        AqError, Overtaken: as for :func:`mgw.gateway.config.hub_queues.alter_queue`.
    """
    queue = document.queues[action.given]
    hub_queues.alter_queue(hub, action.name, queue, action.new_values, seen_of(action), force=force)


def remove_from_hub(hub: Hub, document: Document, action: Action, *, force: bool) -> None:
    """Remove an object of :data:`HUB_STEPS`; ``force``: messages are deleted with it.

    Raises:
        AqError: refused; nothing was removed.
        Overtaken: it is not as the plan saw it.
    """
    name, seen = action.name, seen_of(action)
    if action.section == "queues":
        hub_queues.drop_queue(hub, document, name, seen, force=force)
    elif action.section == "queue_tables":
        hub_queues.drop_queue_table(hub, name, seen, force=force)
    else:
        with hub.write() as conn:
            seen.require(hub, conn)
            _REMOVALS[action.section](QueueAdmin(hub, conn), name)


_REMOVALS: dict[str, Callable[[QueueAdmin, str], None]] = {
    "object_types": QueueAdmin.drop_type,
    "aq_agents": QueueAdmin.drop_aq_agent,
    "grants": lambda admin, name: security.set_grants(admin, name, GrantModel()),
}


def _object_type(hub: Hub, name: str, each: Any, change: Action | None, seen: Seen) -> None:
    assert change is None  # noqa: S101  comparing refuses every change of a type
    with hub.write() as conn:
        seen.require(hub, conn)
        object_types.create_type(QueueAdmin(hub, conn), name, each)


def _queue(hub: Hub, name: str, queue: Any, change: Action | None, seen: Seen) -> None:
    assert change is None  # noqa: S101  what is altered may lose messages: apply_action does it
    hub_queues.create_queue(hub, name, queue, seen)


def _queue_table(hub: Hub, name: str, table: Any, change: Action | None, seen: Seen) -> None:
    if change is None:
        hub_queues.create_queue_table(hub, name, table, seen)
    else:
        hub_queues.alter_queue_table(hub, name, change.new_values, seen)


def _aq_agent(hub: Hub, name: str, agent: Any, _: Action | None, seen: Seen) -> None:
    with hub.write() as conn:
        seen.require(hub, conn)
        security.set_agent(QueueAdmin(hub, conn), name, agent)


def _grants(hub: Hub, name: str, grants: Any, change: Action | None, seen: Seen) -> None:
    with hub.write() as conn:
        seen.require(hub, conn)
        security.set_grants(QueueAdmin(hub, conn), name, grants, new=change is None)


#: How each is made, or altered.
HUB_STEPS: dict[str, Callable[[Hub, str, Any, Action | None, Seen], None]] = {
    "object_types": _object_type,
    "queue_tables": _queue_table,
    "queues": _queue,
    "aq_agents": _aq_agent,
    "grants": _grants,
}
