"""Hub queues and their queue tables, as configurations describe them; each call is one transaction."""

from __future__ import annotations

from typing import Any

from gateway.aq.admin import QueueAdmin
from gateway.aq.hub import Hub
from gateway.aq.model import INFINITE
from gateway.config.checks import hub_name, inline_table, queue_table_of
from gateway.config.models import Document, QueueModel, QueueTableModel

__all__ = ["alter_queue", "create_queue", "create_queue_table", "drop_queue", "drop_queue_table"]


def create_queue_table(hub: Hub, name: str, table: QueueTableModel) -> None:
    """Make a queue table.

    Raises:
        AqError: refused.
    """
    with hub.write() as conn:
        _create_table(QueueAdmin(hub, conn), name, table)


def create_queue(hub: Hub, document: Document, name: str, queue: QueueModel) -> None:
    """Make a queue, with its queue table if it names none, and start it.

    Raises:
        AqError: refused; nothing was made.
    """
    with hub.write() as conn:
        admin = QueueAdmin(hub, conn)
        table = queue_table_of(name, queue)
        shared = {hub_name(each) for each in document.queue_tables}
        held = {hub_name(each.full_name) for each in admin.queue_tables()}
        if queue.queue_table is None and hub_name(table) not in shared | held:
            _create_table(admin, table, inline_table(queue))
        admin.create_queue(
            name,
            table,
            queue_type=queue.type,
            max_retries=queue.max_retries,
            retry_delay=queue.retry_delay,
            retention_time=_retention(queue.retention_time),
            comment=queue.comment,
        )
        enqueue = queue.enqueue and queue.type == "NORMAL"
        if enqueue or queue.dequeue:
            admin.start_queue(name, enqueue=enqueue, dequeue=queue.dequeue)


def alter_queue(hub: Hub, name: str, changed: dict[str, Any]) -> None:
    """Change settings of a queue (``max_retries``, ``retry_delay``, ``retention_time``, ``comment``, ``enqueue``,
    ``dequeue``).

    Raises:
        AqError: refused; nothing was changed.
    """
    with hub.write() as conn:
        admin = QueueAdmin(hub, conn)
        values = {key: value for key, value in changed.items() if key in ("max_retries", "retry_delay")}
        if "retention_time" in changed:
            values["retention_time"] = _retention(changed["retention_time"])
        if "comment" in changed:
            values["comment"] = changed["comment"] or ""
        if values:
            admin.alter_queue(name, **values)
        switches = {key: value for key, value in changed.items() if key in ("enqueue", "dequeue")}
        for wanted, switch in ((True, admin.start_queue), (False, admin.stop_queue)):
            chosen = {key: switches.get(key) is wanted for key in ("enqueue", "dequeue")}
            if any(chosen.values()):
                switch(name, **chosen)


def drop_queue(hub: Hub, name: str) -> None:
    """Stop and drop a queue, and its queue table if no other queue uses it and it was made for this queue.

    Raises:
        AqError: refused; nothing was dropped.
    """
    with hub.write() as conn:
        admin = QueueAdmin(hub, conn)
        found = admin.queue(name)
        admin.stop_queue(name)
        admin.drop_queue(name)
        if found is None or hub_name(found.queue_table) != hub_name(queue_table_of(name, QueueModel())):
            return
        users = [each for each in admin.queues() if hub_name(each.queue_table) == hub_name(found.queue_table)]
        if all(each.name.upper().startswith("AQ$_") for each in users):
            admin.drop_queue_table(found.queue_table)


def drop_queue_table(hub: Hub, name: str) -> None:
    """Drop a queue table without queues.

    Raises:
        AqError: refused.
    """
    with hub.write() as conn:
        QueueAdmin(hub, conn).drop_queue_table(name)


def _create_table(admin: QueueAdmin, name: str, table: QueueTableModel) -> None:
    admin.create_queue_table(
        name,
        table.payload_type,
        sort_list=table.sort_list,
        multiple_consumers=table.multiple_consumers,
        message_grouping=table.message_grouping,
        comment=table.comment,
        compatible=table.compatible,
        secure=table.secure,
        max_payload=table.max_payload,
    )


def _retention(value: float | str) -> float:
    return INFINITE if isinstance(value, str) else value
