"""Procedures on queues (AQ guide 12.2 §8.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mgw.gateway.aq.admin import admin_sql, removal_sql
from mgw.gateway.aq.admin.audit import shown_object
from mgw.gateway.aq.admin.base import choice, queue_info
from mgw.gateway.aq.admin.removal import Held, Removal, RemovalProcedures
from mgw.gateway.aq.admin.stopping import Stop, stop_after, stop_and_keep, wait_alone
from mgw.gateway.aq.errors import (
    DefaultExceptionQueue,
    EnqueueOnExceptionQueue,
    QueueExists,
    QueueInUse,
    QueueMissing,
    QueueNotStopped,
    QueueTypeInvalid,
    RetentionInvalid,
    RetentionOnExceptionQueue,
    RetryInvalid,
    RetryOnExceptionQueue,
    SchemaDiffers,
)
from mgw.gateway.aq.model import INFINITE, QueueInfo, QueueRef, QueueTableInfo, QueueType
from mgw.gateway.aq.names import QualifiedName, qualified
from mgw.gateway.aq.queues import catalog_sql as catalog
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.aq.store.tables import Enabled
from mgw.gateway.aq.views import create_queue_views, drop_queue_views
from mgw.transforms.errors import AqError

__all__ = ["QueueProcedures", "queue_values", "require_off"]

MAX_RETRIES = 2**31 - 1
MAX_SECONDS = 10**11  # from now on still within the years that dates have
_BATCH = 2000  # messages of one transaction: other writers get in between
_MOMENT = 0.5  # seconds


class QueueProcedures(RemovalProcedures):
    """Make, change, start, stop, drop and list queues."""

    def create_queue(
        self,
        queue_name: str,
        queue_table: str,
        *,
        queue_type: str = QueueType.NORMAL,
        max_retries: int | None = None,
        retry_delay: float = 0,
        retention_time: float = 0,
        dependency_tracking: bool = False,
        comment: str | None = None,
        auto_commit: bool | None = None,
    ) -> QueueInfo:
        """Make a queue; it is stopped (AQ guide 12.2 §8.2.1).

        Args:
            queue_name: at most 122 bytes; in the schema of its queue table.
            queue_type: NORMAL_QUEUE, or EXCEPTION_QUEUE for one more exception queue in addition to the table's own.
            max_retries: failed attempts a message survives; None = 5. One more moves it to its exception queue.
            retry_delay: seconds a message waits after a failed attempt, 0 to 10**11.
            retention_time: seconds consumed messages are kept, 0 to 10**11, -1 forever.
            dependency_tracking: reserved; only False.
            auto_commit: see :class:`~mgw.gateway.aq.admin.base.Administration`.

        Raises:
            AqError: 24002 no such queue table, 24003 type, 24006 exists, 24019 name, 24013, 24014 times out of range,
                24073, 24074 not on an exception queue, 24037 schema differs from the table's.
        """
        name = qualified(queue_name, self.schema, system=False)
        table = qualified(queue_table, self.schema, what="queue table")
        short = str(queue_type).upper()
        kind = choice(
            QueueType,
            f"{short}_QUEUE" if short in ("NORMAL", "EXCEPTION") else short,
            f"type of queue {name.shown}",
            QueueTypeInvalid,
        )
        if dependency_tracking:
            raise AqError(
                f"queue {name.shown} cannot have dependency tracking", cause="it is reserved", cure="leave it out"
            )
        if kind is QueueType.EXCEPTION and (max_retries is not None or retry_delay or retention_time):
            raise (RetentionOnExceptionQueue if retention_time else RetryOnExceptionQueue)(
                f"exception queue {name.shown} cannot have retries or retention",
                cause="a message leaves an exception queue at its first dequeue",
                cure="leave max_retries, retry_delay and retention_time out",
            )
        _check_retry(name.shown, max_retries, retry_delay, retention_time)
        if name.schema.upper() != table.schema.upper():
            raise SchemaDiffers(
                f"queue {name.shown} is in another schema than queue table {table.shown}",
                cure="put both into one schema",
            )
        with self.change(auto_commit) as conn:
            db = Db(conn)
            found = self.need_queue_table(db, table)
            if catalog.find_queue(db, f'"{name.schema}"."{name.name}"') is not None:
                raise QueueExists(
                    f"queue {name.shown} already exists",
                    cause="a queue of that name is in the hub",
                    cure="choose another name, or alter that queue",
                )
            values = queue_values(
                name, found.id, kind, max_retries, retry_delay, retention_time, comment, self.hub.clock.now()
            )
            made = queue_info(db, catalog.insert_queue(db, values))
            if self.hub.object_views:
                create_queue_views(conn, made)
            self._keep(conn, "create", "queue", None, made)
            return made

    def alter_queue(
        self,
        queue_name: str,
        *,
        max_retries: int | None = None,
        retry_delay: float | None = None,
        retention_time: float | None = None,
        comment: str | None = None,
        auto_commit: bool | None = None,
    ) -> QueueInfo:
        """Change a queue; None keeps a value (AQ guide 12.2 §8.2.2).

        Raises:
            AqError: 24010 unknown, 24013, 24014 times out of range, 24073, 24074 not on an exception queue.
        """
        with self.change(auto_commit) as conn:
            db = Db(conn)
            queue = self.need_queue(db, queue_name)
            changes = {
                "max_retries": max_retries,
                "retry_delay": retry_delay,
                "retention_time": retention_time,
                "comment": comment,
            }
            values = {key: value for key, value in changes.items() if value is not None}
            if queue.queue_type is QueueType.EXCEPTION and values.keys() - {"comment"}:
                raise (RetryOnExceptionQueue if retention_time is None else RetentionOnExceptionQueue)(
                    f"exception queue {queue.full_name} cannot have retries or retention",
                    cause="a message leaves an exception queue at its first dequeue",
                )
            _check_retry(queue.full_name, max_retries, retry_delay or 0, retention_time or 0)
            before = queue_info(db, queue.id)
            if values:
                catalog.update_queue(db, queue.id, values)
            after = queue_info(db, queue.id)
            self._keep(conn, "alter", "queue", before, after)
            return after

    def start_queue(self, queue_name: str, *, enqueue: bool = True, dequeue: bool = True) -> None:
        """Enable a queue; False leaves a direction as it is (AQ guide 12.2 §8.2.3).

        Raises:
            AqError: 24010 unknown, 24017 enqueue on an exception queue.
        """
        with self.change() as conn:
            db = Db(conn)
            queue = self.need_queue(db, queue_name)
            if enqueue and queue.queue_type is QueueType.EXCEPTION:
                raise EnqueueOnExceptionQueue(
                    f"enqueue cannot be enabled on exception queue {queue.full_name}",
                    cause="only the hub moves messages into an exception queue",
                    cure="start it with enqueue false",
                )
            values = {"enqueue_enabled": int(Enabled.STARTED)} if enqueue else {}
            values |= {"dequeue_enabled": int(Enabled.STARTED)} if dequeue else {}
            if values:
                before = queue_info(db, queue.id)
                catalog.update_queue(db, queue.id, values)
                self._keep(conn, "start", "queue", before, queue_info(db, queue.id))

    def stop_queue(
        self, queue_name: str, *, enqueue: bool = True, dequeue: bool = True, wait: bool | float = True
    ) -> None:
        """Disable a queue; False leaves a direction as it is (AQ guide 12.2 §8.2.4, §12.10.2).

        Transactions that have taken messages from the queue or put some in may end first; no new ones can start
        meanwhile. Messages on their way with gateway jobs count, when the dequeue direction is stopped. On SQLite what
        a
        session of its own has enqueued and not committed is not seen by others: its commit is refused afterwards.

        Args:
            wait: True: for as long as it takes. A number: at most so many seconds. False: fail at once. As part of an
                application's transaction on SQLite the call never waits: nobody else could commit.

        Raises:
            AqError: 24010 unknown, 24018 transactions work on it and were not, or not long enough, waited for; nothing
                is changed.
        """
        with self.look() as db:
            queue = self.need_queue(db, queue_name)
        if enqueue or dequeue:
            who = self.by or (None if self.rights is None else self.rights.user)
            self._stop(Stop(queue, enqueue, dequeue, by=who), wait)

    def _stop(self, stop: Stop, wait: bool | float) -> None:
        """Stop a queue, in a transaction of its own if there is no other."""
        if self.connection is None:
            stop_after(self.hub, stop, wait)
            return
        with self.change() as conn:
            db = Db(conn)
            if wait and self.hub.postgresql:
                wait_alone(self.hub, db, stop.queue, wait)
            stop_and_keep(self.hub, conn, stop)

    def drop_queue(
        self, queue_name: str, *, force: bool = True, move_to: str | None = None, auto_commit: bool | None = None
    ) -> Held:
        """Drop a stopped queue with its messages and subscribers (AQ guide 12.2 §8.2.5); returns what it held.

        Args:
            force: False: refuse to drop a queue that holds messages.
            move_to: a queue that its messages go to first, in the same transaction; each once, however many
                subscribers it waited for.

        Raises:
            AqError: 24010 unknown, 24011 it is started, 24026 it is the default exception queue of its table, 24018 a
                transaction that began before it was stopped still works on it; it holds messages; 24010, 24033, 25207,
                25215 the other queue does not take them.
        """
        self._check_commit(auto_commit)
        with self.look() as db:
            queue = self._droppable(db, queue_name)
            before = queue_info(db, queue.id)
        told = self._told("drop queue", before, [queue], force=force, move_to=move_to)
        with self.change(auto_commit) as conn:
            db = Db(conn)
            queue = self._droppable(db, queue_name)
            self._require_stopped(db, queue)
            held = told or removal_sql.held_by_queues(db, [queue.id])
            if told is None:
                removal = Removal("drop queue", queue.full_name, held, move_to, "queue", shown_object(before))
                self._settle(conn, removal, [(queue, 0)], force=force)
            drop_queue_views(conn, queue.id)
            catalog.delete_queue(db, queue.id)
            return held

    def _told(
        self,
        action: str,
        what: QueueInfo | QueueTableInfo,
        queues: Sequence[QueueRef],
        *,
        force: bool,
        move_to: str | None,
    ) -> Held | None:
        """Empty stopped queues a batch at a time where that is asked for, after it was written down; else None."""
        if self.connection is not None or not force or move_to is not None:
            return None
        with self.hub.write() as conn:
            for queue in queues:
                self._require_stopped(Db(conn), queue)
            held = removal_sql.held_by_queues(Db(conn), [queue.id for queue in queues]) if queues else Held(0)
            if held.messages:
                kind = action.partition(" ")[2]
                self._settle(
                    conn, Removal(action, what.full_name, held, None, kind, shown_object(what)), [], force=True
                )
        self._empty(queues)
        return held if held.messages else None

    def _queues_of(self, db: Db, queue_table: str) -> list[QueueRef]:
        """The queues of a queue table."""
        name = qualified(queue_table, self.schema, what="queue table")
        queues = catalog.list_queues(db, "WHERE q.queue_table_id = ?", (self.need_queue_table(db, name).id,))
        refs = (catalog.find_queue_by_id(db, queue.id) for queue in queues)
        return [ref for ref in refs if ref is not None]

    def _droppable(self, db: Db, queue_name: str) -> QueueRef:
        queue = self.need_queue(db, queue_name)
        if queue.name.upper().startswith("AQ$_"):
            raise DefaultExceptionQueue(
                f"queue {queue.full_name} cannot be dropped",
                cause=f"it is the default exception queue of queue table {queue.queue_table}",
                cure="drop the queue table",
            )
        if self.may_go is not None:
            self.may_go(db.connection, f"queue {queue.full_name}", [queue])
        require_off(db, queue)
        return queue

    def _empty(self, queues: Sequence[QueueRef]) -> None:
        """Delete the messages of stopped queues a batch at a time: other writers get in between.

        Raises:
            AqError: 24011 a queue was started meanwhile, 24018 a transaction works on it, 24010 it is gone.
        """
        if self.connection is not None:
            return
        for queue in queues:
            deleted = _BATCH
            while deleted == _BATCH:
                with self.hub.write() as conn:
                    db = Db(conn)
                    self._require_stopped(db, queue)
                    deleted = admin_sql.delete_some_messages(db, queue.id, _BATCH)

    def _require_stopped(self, db: Db, queue: QueueRef) -> None:
        """Lock a stopped queue exclusively until the transaction ends, so that what is deleted is what it held when
        stopped.

        Raises:
            AqError: 24011 it is started, 24018 a transaction works on it, 24010 it is gone.
        """
        require_off(db, queue)
        if self.hub.postgresql:
            wait_alone(self.hub, db, queue, _MOMENT)  # calls that are being refused hold it, too
        if not admin_sql.try_exclusive(db, [queue.id]):
            raise QueueInUse(
                f"queue {queue.full_name} cannot be dropped now",
                cause="a transaction works on it",
                cure="try again after it has ended",
            )
        require_off(db, queue)

    def queues(self, queue_table: str | None = None) -> list[QueueInfo]:
        """Every queue, or those of a queue table, by name, exception queues included.

        A user sees those the user has any privilege on.
        """
        with self.look() as db:
            if queue_table is None:
                return self.visible(db, catalog.list_queues(db))
            name = qualified(queue_table, self.schema, what="queue table")
            found = catalog.find_queue_table(db, name.key)
            return self.visible(db, catalog.queues_of(db, found.id)) if found else []

    def queue(self, queue_name: str) -> QueueInfo | None:
        """One queue, or None if there is none or the user has no privilege on it."""
        name = qualified(queue_name, self.schema)
        with self.look() as db:
            found = catalog.list_queues(db, "WHERE q.name_key = ?", (name.key,))
            return next(iter(self.visible(db, found)), None)


def queue_values(  # noqa: PLR0917
    name: QualifiedName,
    table_id: int,
    kind: QueueType,
    max_retries: int | None,
    retry_delay: float,
    retention_time: float,
    comment: str | None,
    now: float,
) -> dict[str, Any]:
    """The row of a new, stopped queue."""
    return {
        "schema": name.schema,
        "name": name.name,
        "name_key": name.key,
        "queue_table_id": table_id,
        "queue_type": kind.value,
        "max_retries": max_retries,
        "retry_delay": retry_delay,
        "retention_time": retention_time,
        "enqueue_enabled": int(Enabled.STOPPED),
        "dequeue_enabled": int(Enabled.STOPPED),
        "comment": comment,
        "created": now,
    }


def require_off(db: Db, queue: QueueRef) -> None:
    """Refuse to drop a queue that is not stopped.

    Raises:
        AqError: 24011 it is not, 24010 it is gone.
    """
    found = catalog.enabled(db, queue.id)
    if found is None:
        raise QueueMissing(f"queue {queue.full_name} does not exist", cause="it was dropped in the meantime")
    if any(found):
        cause = "it is started" if Enabled.STARTED in found else "it is being stopped, or stopping it was interrupted"
        raise QueueNotStopped(f"queue {queue.full_name} cannot be dropped", cause=cause, cure="stop it first")


def _check_retry(queue: str, max_retries: int | None, retry_delay: float, retention_time: float) -> None:
    if max_retries is not None and (not isinstance(max_retries, int) or not 0 <= max_retries <= MAX_RETRIES):
        raise RetryInvalid(f"max_retries of queue {queue} is {max_retries!r}", cause=f"allowed are 0 to {MAX_RETRIES}")
    if not isinstance(retry_delay, int | float) or not 0 <= retry_delay <= MAX_SECONDS:
        raise RetryInvalid(
            f"retry_delay of queue {queue} is {retry_delay!r}", cause=f"allowed are 0 to {MAX_SECONDS} seconds"
        )
    if not isinstance(retention_time, int | float) or not (
        0 <= retention_time <= MAX_SECONDS or retention_time == INFINITE
    ):
        raise RetentionInvalid(
            f"retention_time of queue {queue} is {retention_time!r}",
            cause=f"allowed are 0 to {MAX_SECONDS} seconds, or -1 for no limit",
        )
