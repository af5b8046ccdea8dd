"""Removal of what may hold messages: refused, reported and recorded in the audit, or the messages go to another queue
first."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from mgw.gateway.aq.admin import admin_sql, removal_sql
from mgw.gateway.aq.admin.audit import account, as_text, author, enter
from mgw.gateway.aq.admin.audit_sql import Kept
from mgw.gateway.aq.admin.base import Administration
from mgw.gateway.aq.admin.removal_sql import Held
from mgw.gateway.aq.admin.stopping import wait_alone
from mgw.gateway.aq.errors import HoldsMessages, QueueInUse
from mgw.gateway.aq.model import QueueRef
from mgw.gateway.aq.queues import consumers_sql, transfer
from mgw.gateway.aq.store.statements import Db
from mgw.transforms.message import Message

__all__ = ["Held", "Removal", "RemovalProcedures", "actor", "moved", "record", "refuse"]

_log = logging.getLogger(__name__)
_BATCH = 500  # messages moved at a time
_WAIT = 5.0  # seconds for the transactions on a queue to end


@dataclass(frozen=True, slots=True)
class Removal:
    """Something that was removed, and what it held."""

    action: str  # drop queue, remove subscriber, ...
    name: str
    held: Held
    moved_to: str | None = None
    kind: str | None = None  # of the object, where it is one that can be defined again
    before: Mapping[str, Any] | None = None  # its settings without secrets

    def told(self, now: float, who: str) -> str:
        """In words."""
        what = f"{self.action} {self.name}, by {who}"
        if not self.held.messages:
            return f"{what}: no message was in it"
        return f"{what}: {self.held.told(now)}; " + (
            "deleted with it" if self.moved_to is None else f"moved to queue {self.moved_to}"
        )


class RemovalProcedures(Administration):
    """What the procedures share that remove queues, queue tables and subscribers."""

    #: Whether they write the audit; a caller that removes more than that writes it itself (:func:`record`).
    audited = True

    def held_by_queue(self, queue_name: str) -> Held:
        """What a queue holds that nobody has consumed.

        Raises:
            AqError: 24010 unknown.
        """
        with self.look() as db:
            return removal_sql.held_by_queues(db, [self.need_queue(db, queue_name).id])

    def held_by_subscriber(self, queue_name: str, subscriber: str) -> Held:
        """Messages that wait for a subscriber of a queue, or that it holds; none if there is no such subscriber.

        Raises:
            AqError: 24010 unknown queue.
        """
        with self.look() as db:
            queue = self.need_queue(db, queue_name)
            found = consumers_sql.consumer_id(db, queue, subscriber)
            return Held(0) if found is None else removal_sql.held_by_consumer(db, found)

    def held_by_queue_table(self, queue_table: str) -> Held:
        """What the queues of a queue table hold, its exception queues included."""
        with self.look() as db:
            queues = [queue.id for queue in self._queues_of(db, queue_table)]
            return removal_sql.held_by_queues(db, queues) if queues else Held(0)

    def _queues_of(self, db: Db, queue_table: str) -> Sequence[QueueRef]:
        """The queues of a queue table."""
        raise NotImplementedError

    def _settle(
        self, conn: sa.Connection, removal: Removal, sources: Sequence[tuple[QueueRef, int]], *, force: bool
    ) -> None:
        """Before something is deleted, in its transaction: refuse it, or move the messages, and write it down.

        Args:
            sources: queues and consumers (0: all) whose messages go with it.

        Raises:
            AqError: it holds messages, and neither ``force`` nor a queue for them was given; or the queue does not take
                them.
        """
        db = Db(conn)
        if removal.held.messages and removal.moved_to is not None:
            target = self.need_queue(db, removal.moved_to)
            removal = replace(removal, moved_to=target.full_name)
            for queue, consumer in sources:
                self._move(conn, queue, consumer, target)
        elif removal.held.messages and not force:
            raise refuse(removal, self.hub.clock.now())
        elif removal.moved_to is not None:
            removal = replace(removal, moved_to=None)
        if self.audited:
            record(self, conn, removal)

    def _alone(self, db: Db, queue: QueueRef) -> None:
        """Lock a queue exclusively until the transaction ends, so that no message comes after they were counted.

        Raises:
            AqError: 24018 transactions work on it.
        """
        if self.hub.postgresql:
            wait_alone(self.hub, db, queue, _WAIT)
        if not admin_sql.try_exclusive(db, [queue.id]):
            raise QueueInUse(
                f"the messages of queue {queue.full_name} cannot be counted now",
                cause="transactions work on it",
                cure="try again when they have ended",
            )

    def _move(self, conn: sa.Connection, queue: QueueRef, consumer: int, target: QueueRef) -> None:
        db = Db(conn)
        if target.id == queue.id:
            raise QueueInUse(
                f"messages of queue {queue.full_name} cannot be moved to itself", cure="name another queue"
            )
        taken = removal_sql.in_hands_of(db, consumer) if consumer else sum(admin_sql.in_hands(db, [queue.id]))
        if taken:
            raise QueueInUse(
                f"messages of queue {queue.full_name} cannot be moved now",
                cause=f"{taken} of them are held by sessions or jobs",
                cure="try again when they have been consumed or released; disable the job first",
            )
        now = self.hub.clock.now()
        left = removal_sql.messages_left(db, queue.id, consumer)
        for start in range(0, len(left), _BATCH):
            numbers, times = zip(*left[start : start + _BATCH], strict=True)
            found = removal_sql.messages_of(db, self.hub.hub_id, numbers)
            messages = [moved(message, now, ready) for message, ready in zip(found, times, strict=True)]
            transfer.put(conn, target, messages, now=now)


def moved(message: Message, now: float, ready: float = 0.0) -> Message:
    """A message as it goes into another queue of the hub, where it gets an id of its own.

    ``ready``: when its delay is over; it is not over any earlier there.
    """
    delay = max(0.0, ready - now)
    left = message.remaining(now + delay)
    return replace(
        message,
        msgid=None,
        original_msgid=message.original_msgid or message.msgid,
        expiration=None if left is None else max(1, math.ceil(left)),
        expires_at=None,
        delay=delay,
        attempts=0,
    )


def refuse(removal: Removal, now: float) -> HoldsMessages:
    """The error for what holds messages."""
    return HoldsMessages(
        f"{removal.action} {removal.name} was refused",
        cause=f"it holds {removal.held.told(now)}; they would be deleted with it",
        cure="consume them, move them to another queue (--move-to QUEUE, in Python move_to), or delete them "
        "with it (--force, in Python force)",
    )


def record(
    admin: Administration,
    conn: sa.Connection,
    removal: Removal,
    *,
    version: int | None = None,
) -> None:
    """Keep a removal in the audit, in its transaction, and notify those who keep events.

    Args:
        version: of the gateway's definitions, with this change.
    """
    hub, who = admin.hub, actor(admin)
    now = hub.clock.now()
    entry = Kept(now, who, "", removal.action, removal.name, removal.held.messages, removal.held.oldest)
    entry = entry._replace(
        moved_to=removal.moved_to, kind=removal.kind, before_change=as_text(removal.before), version=version
    )
    enter(conn, entry, who)
    text = removal.told(now, who)
    _log.log(logging.WARNING if removal.held.messages else logging.INFO, "%s", text)
    if hub.on_removal is not None:
        hub.on_removal(conn, removal.name, text, removal.held.messages)


def actor(admin: Administration) -> str:
    """Who administers: who was named, the user of the hub, or the account of the program and its host."""
    if admin.by is not None:
        return admin.by
    if admin.rights is not None:
        return admin.rights.user
    return author().name or account()
