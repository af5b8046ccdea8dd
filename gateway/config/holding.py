"""Messages that a plan would delete: counted for every step that removes something."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mgw.gateway.aq import Held, Hub, QueueAdmin
from mgw.gateway.config.forms import hub_name, queue_table_of
from mgw.gateway.config.models import Document, QueueModel
from mgw.gateway.config.plan import Action, Verb
from mgw.gateway.services.admin import GatewayAdmin
from mgw.transforms.errors import GatewayError

__all__ = ["FILE_CURE", "WouldDelete", "made_for", "refuse_losses", "with_held"]

#: How a file, or the command line, has messages deleted.
FILE_CURE = "to delete them: --force, or settings.prune: force in the file"


def with_held(hub: Hub, document: Document, actions: Sequence[Action]) -> list[Action]:
    """The actions, each with the messages that it would delete."""
    now = hub.clock.now()
    counted = []
    for action in actions:
        held = _held(hub, document, action)
        counted.append(action if held is None else replace(action, held=held, seen=now))
    return counted


class WouldDelete(GatewayError):
    """Messages would be deleted with what is removed, and nobody has asked for it."""


def refuse_losses(actions: Sequence[Action], cure: str = FILE_CURE) -> None:
    """Refuse a plan that deletes messages.

    Args:
        cure: how to have them deleted.

    Raises:
        WouldDelete: it does; nothing was changed.
    """
    if lost := [action for action in actions if action.deletes]:
        raise WouldDelete(
            "nothing was applied: messages would be deleted",
            cause="; ".join(f"{action.verb} {action.object}: {action.held_text}" for action in lost),
            cure="consume them, or move them first (--move-to of mgw jobs remove, mgw aq drop, mgw aq "
            f"subscribers remove); {cure}",
        )


def made_for(hub: Hub, document: Document, name: str) -> str | None:
    """The queue table that was made for a queue alone and goes with it; None: there is none."""
    admin = QueueAdmin(hub)
    found = admin.queue(name)
    if found is None or hub_name(found.queue_table) != hub_name(queue_table_of(name, QueueModel())):
        return None
    if hub_name(found.queue_table) in {hub_name(each) for each in document.queue_tables}:
        return None
    others = [each for each in admin.queues(found.queue_table) if each.full_name != found.full_name]
    return found.queue_table if all(each.name.upper().startswith("AQ$_") for each in others) else None


def _held(hub: Hub, document: Document, action: Action) -> Held | None:
    queues = QueueAdmin(hub)
    if action.verb is Verb.ALTER and action.section == "queues":
        return _of_subscribers(queues, action)
    if action.verb is not Verb.REMOVE:
        return None
    if action.section == "jobs":
        return GatewayAdmin(hub).held_for_job(action.name)
    if action.section == "queues":
        table = made_for(hub, document, action.name)
        return queues.held_by_queue(action.name) if table is None else queues.held_by_queue_table(table)
    if action.section == "queue_tables":  # its other queues have steps of their own
        own = [each.full_name for each in queues.queues(action.name) if each.name.upper().startswith("AQ$_")]
        return sum(map(queues.held_by_queue, own), Held(0))
    return None


def _of_subscribers(queues: QueueAdmin, action: Action) -> Held | None:
    """What waits for the subscribers that are not in the file any more."""
    for change in action.changes:
        if change.setting == "subscribers":
            left = {name.upper() for name in change.new or {}}
            gone = [name for name in change.old or {} if name.upper() not in left]
            return sum((queues.held_by_subscriber(action.name, name) for name in gone), Held(0))
    return None
