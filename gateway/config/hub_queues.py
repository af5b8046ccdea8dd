"""Hub queues and their queue tables, as configurations describe them; each call is one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mgw.gateway.aq import (
    INFINITE,
    SUBSCRIBER_OPTIONS,
    Hub,
    QueueAdmin,
    QueueInUse,
    SubscriberInfo,
    is_of_job,
    resolve_queue,
)
from mgw.gateway.config.forms import hub_name, inline_table, queue_table_of
from mgw.gateway.config.holding import made_for
from mgw.gateway.config.models import Document, QueueModel, QueueTableModel, SubscriberModel
from mgw.gateway.config.queue_users import refuse_use
from mgw.gateway.config.unchanged import Seen
from mgw.links.options import typed
from mgw.transforms.errors import AqError, ConfigInvalid

__all__ = ["alter_queue", "alter_queue_table", "create_queue", "create_queue_table", "drop_queue", "drop_queue_table"]

_DIRECTIONS = ("enqueue", "dequeue")
_BY_ITSELF = {"payload_type", "jms_types"}  # what create_queue_table takes otherwise, or not
_OPTION = "options."
_WAIT = 30.0  # seconds for the transactions on a queue to end before it is stopped


def create_queue_table(hub: Hub, name: str, table: QueueTableModel, seen: Seen) -> None:
    """Create a queue table.

    Raises:
        AqError: refused.
        Overtaken: it exists.
    """
    with hub.write() as conn:
        seen.require(hub, conn)
        _create_table(QueueAdmin(hub, conn), name, table)


def create_queue(hub: Hub, name: str, queue: QueueModel, seen: Seen) -> None:
    """Make a queue, with its queue table if it names none, and start it.

    Raises:
        AqError: refused; nothing was made.
        Overtaken: it exists.
    """
    with hub.write() as conn:
        seen.require(hub, conn)
        admin = QueueAdmin(hub, conn)
        table = queue_table_of(name, queue)
        if queue.queue_table is None and admin.queue_table(table) is None:
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
        _subscribe(admin, name, queue.subscribers or {})


def alter_queue(
    hub: Hub, name: str, queue: QueueModel, changed: dict[str, Any], seen: Seen, *, force: bool = False
) -> None:
    """Change settings of a queue, of the queue table that was made for it, and its subscribers.

    ``force``: messages that wait for a subscriber that goes are deleted.

    A direction that is stopped is stopped first, in a transaction of its own: those who work on the queue may end.

    Raises:
        AqError: refused; nothing was changed, apart from the direction that was stopped.
        Overtaken: it is not as it was seen.
    """
    stopped = {key: changed.get(key) is False for key in _DIRECTIONS}
    if any(stopped.values()):
        with hub.write() as conn:
            seen.require(hub, conn)
        QueueAdmin(hub).stop_queue(name, **stopped, wait=_WAIT)
    with hub.write() as conn:
        seen.require(hub, conn, **{key: False for key, stops in stopped.items() if stops})
        admin = QueueAdmin(hub, conn)
        values = {key: value for key, value in changed.items() if key in ("max_retries", "retry_delay")}
        if "retention_time" in changed:
            values["retention_time"] = _retention(changed["retention_time"])
        if "comment" in changed:
            values["comment"] = changed["comment"] or ""
        if values:
            admin.alter_queue(name, **values)
        found = admin.queue(name)
        if found is not None:
            _alter_table(admin, found.queue_table, changed)
        if "subscribers" in changed:
            _subscribe(admin, name, queue.subscribers or {}, force=force)
        started = {key: changed.get(key) is True for key in _DIRECTIONS}
        if any(started.values()):
            admin.start_queue(name, **started)


def alter_queue_table(hub: Hub, name: str, changed: dict[str, Any], seen: Seen) -> None:
    """Change settings of a queue table.

    Raises:
        AqError: refused; nothing was changed.
        Overtaken: it is not as it was seen.
    """
    with hub.write() as conn:
        seen.require(hub, conn)
        admin = QueueAdmin(hub, conn)
        _alter_table(admin, name, changed)
        if "comment" in changed:
            admin.alter_queue_table(name, comment=changed["comment"] or "")


def _alter_table(admin: QueueAdmin, name: str, changed: dict[str, Any]) -> None:
    if "primary_instance" in changed or "secondary_instance" in changed:
        table = admin.queue_table(name)
        held = 0 if table is None else table.primary_instance
        other = 0 if table is None else table.secondary_instance
        admin.alter_queue_table(
            name,
            primary_instance=changed.get("primary_instance", held),
            secondary_instance=changed.get("secondary_instance", other),
        )
    options = {key.removeprefix(_OPTION): value for key, value in changed.items() if key.startswith(_OPTION)}
    if options:
        admin.alter_queue_table(name, options=options)
    if changed.get("jms_types"):
        admin.enable_jms_types(name)
    if "compatible" in changed:
        admin.migrate_queue_table(name, changed["compatible"])


def _subscribe(admin: QueueAdmin, queue: str, wanted: Mapping[str, SubscriberModel], *, force: bool = False) -> None:
    """Bring the subscribers of a queue, apart from those of jobs, to what is wanted."""
    found = admin.queue_subscribers(queue)
    held = {each.name.upper(): each for each in found if each.name and not is_of_job(each.name)}
    for name, each in wanted.items():
        known = held.pop(name.upper(), None)
        if known is not None and known.delivery_mode != each.delivery_mode:
            raise ConfigInvalid(
                f"subscriber {name} of queue {queue} cannot get delivery_mode {each.delivery_mode}",
                cause="this is fixed when the subscriber is added",
                cure="remove the subscriber and apply again; messages that wait for it are lost",
            )
        if known is None:
            admin.add_subscriber(
                queue,
                name,
                rule=each.rule,
                transformation=each.transformation,
                delivery_mode=each.delivery_mode,
                options=each.options,
            )
        elif _subscription(known) != _subscription(each):
            admin.alter_subscriber(
                queue, name, rule=each.rule, transformation=each.transformation, options={"*": None} | each.options
            )
    for known in held.values():
        admin.remove_subscriber(queue, known.name or "", force=force)


def _subscription(each: SubscriberModel | SubscriberInfo) -> tuple[object, ...]:
    """What of a subscriber can be altered, in a form that compares."""
    return each.rule, _folded(each.transformation), typed(each.options, SUBSCRIBER_OPTIONS)


def _folded(name: str | None) -> str | None:
    return None if name is None else hub_name(name)


def drop_queue(hub: Hub, document: Document, name: str, seen: Seen, *, force: bool = False) -> None:
    """Stop and drop a queue, and its queue table if it was made for this queue, and neither another queue uses it nor
    ``document`` describes it by itself. ``force``: their messages are deleted with them.

    Raises:
        QueueIsUsed: something uses it; nothing was done.
        AqError: refused; nothing was dropped, and the queue is open as it was.
        Overtaken: it is not as it was seen.
    """
    try:
        _drop_queue(hub, document, name, seen, force=force)
    except QueueInUse:
        QueueAdmin(hub).stop_queue(name, wait=_WAIT)
        try:
            _drop_queue(hub, document, name, seen, force=force, enqueue=False, dequeue=False)
        except AqError:
            _open_again(hub, name, seen.model)
            raise


def _open_again(hub: Hub, name: str, model: QueueModel | None) -> None:
    """Start a queue that was stopped for its removal, and stays."""
    if model is not None:
        QueueAdmin(hub).start_queue(name, enqueue=model.enqueue and model.type == "NORMAL", dequeue=model.dequeue)


def _drop_queue(hub: Hub, document: Document, name: str, seen: Seen, *, force: bool, **stopped: bool) -> None:
    """In one transaction: SQLite reads all definitions again where another connection has changed any."""
    table = made_for(hub, document, name)
    with hub.write() as conn:
        seen.require(hub, conn, **stopped)
        queue = resolve_queue(conn, name)
        refuse_use(conn, f"queue {queue.full_name}", [queue])  # before it is stopped under those who use it
        admin = QueueAdmin(hub, conn)
        admin.stop_queue(name, wait=False)
        admin.drop_queue(name, force=force)
        if table is not None:
            admin.drop_queue_table(table, force=force)


def drop_queue_table(hub: Hub, name: str, seen: Seen, *, force: bool = False) -> None:
    """Drop a queue table without queues, unless it went with the queue that it was made for. ``force``: the messages of
    its exception queue are deleted with it.

    Raises:
        AqError: refused.
        Overtaken: it is not as it was seen.
    """
    with hub.write() as conn:
        admin = QueueAdmin(hub, conn)
        if admin.queue_table(name) is None:
            return
        seen.require(hub, conn)
        own = [each for each in admin.queues(name) if not each.name.upper().startswith("AQ$_")]
        admin.drop_queue_table(name, force=force and not own)


def _create_table(admin: QueueAdmin, name: str, table: QueueTableModel) -> None:
    attributes = {each: getattr(table, each) for each in QueueTableModel.model_fields.keys() - _BY_ITSELF}
    admin.create_queue_table(name, table.payload_type, **attributes)
    if table.jms_types:
        admin.enable_jms_types(name)


def _retention(value: float | str) -> float:
    return INFINITE if isinstance(value, str) else value
