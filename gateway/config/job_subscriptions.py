"""Jobs that stay, and have lost their subscription to a multi-consumer queue of the hub: a plan gives it back.

It goes with its queue where a program dropped that by the procedures on queues; nothing but its job makes it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mgw.gateway.aq import Hub, QueueAdmin
from mgw.gateway.config.forms import hub_folded, hub_name, queue_table_of
from mgw.gateway.config.models import Document, QueueModel
from mgw.gateway.config.plan import Action, Change, Verb
from mgw.gateway.definitions.objects import key
from mgw.gateway.state import catalog

__all__ = ["SUBSCRIPTION", "with_subscriptions"]

#: What a plan calls it.
SUBSCRIPTION = "subscription"


def with_subscriptions(hub: Hub, document: Document, actions: Sequence[Action]) -> list[Action]:
    """The steps; a job that lacks its subscription is altered by its step, which makes it again."""
    staying = [each for each in actions if each.section == "jobs" and each.verb in (Verb.NONE, Verb.ALTER)]
    if not staying:
        return list(actions)
    with hub.read() as conn:
        admin = QueueAdmin(hub, conn)
        jobs = {key(job.name): job for job in catalog.list_jobs(conn) if not job.propagation_type.from_link}
        queues = {hub_name(each.full_name): each.multiple_consumers for each in admin.queues()}
        queues |= {
            hub_name(each.name): _is_multiple(admin, document, document.queues[each.given])
            for each in actions
            if (each.verb, each.section) == (Verb.CREATE, "queues")
        }
        held = {(hub_name(each.queue), key(each.name)) for each in admin.queue_subscribers() if each.name}
    gone = {
        job.name: job.subscriber
        for each in staying
        if (job := jobs.get(key(each.name))) is not None
        and queues.get(source := hub_name(job.source))
        and (source, key(job.subscriber)) not in held
    }
    return [
        replace(each, verb=Verb.ALTER, changes=(*each.changes, Change(SUBSCRIPTION, None, gone[each.name])))
        if each.section == "jobs" and each.name in gone and each.verb in (Verb.NONE, Verb.ALTER)
        else each
        for each in actions
    ]


def _is_multiple(admin: QueueAdmin, document: Document, queue: QueueModel) -> bool:
    """Whether a queue that is to be made has subscribers."""
    if queue.queue_table is None:
        return bool(queue.multiple_consumers)
    wanted = hub_name(queue.queue_table)
    if (table := hub_folded(document.queue_tables).get(wanted)) is not None:
        return table.multiple_consumers
    for name, each in document.queues.items():  # that of another queue, which describes it
        if each.queue_table is None and hub_name(queue_table_of(name, each)) == wanted:
            return bool(each.multiple_consumers)
    found = admin.queue_table(queue.queue_table)
    return found is not None and found.multiple_consumers
