"""Transactions that work on a queue, and administration that waits for them to end (AQ guide 12.2 §8.1.4, §8.2.4).

A queue that is being stopped lets nobody begin: calls are refused as if it were stopped already, and what was taken or
enqueued before may be committed or rolled back.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import sqlalchemy as sa

from mgw.gateway.aq.admin import admin_sql
from mgw.gateway.aq.admin.audit import keep_object
from mgw.gateway.aq.errors import QueueInUse, QueueMissing
from mgw.gateway.aq.model import QueueRef
from mgw.gateway.aq.queues import catalog_sql as catalog
from mgw.gateway.aq.store.database_errors import lock_timed_out
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.aq.store.tables import Enabled
from mgw.gateway.aq.upkeep.time_manager import return_claims

if TYPE_CHECKING:
    from mgw.gateway.aq.hub import Hub

__all__ = ["Patience", "Stop", "exclusively", "stop_after", "stop_and_keep", "stop_at_once", "wait_alone"]

_LOOK_AGAIN = 0.05  # seconds between two looks at whether a transaction has ended
_CLAIMS_AGAIN = 1.0  # seconds between two looks for sessions that died
_LOCK_MILLISECONDS = 400  # less than PostgreSQL waits before it ends somebody's transaction for a deadlock


class Patience:
    """How long a call may wait: True = for as long as it takes, False = not at all, or a number of seconds."""

    def __init__(self, hub: Hub, wait: bool | float) -> None:
        self._hub = hub
        self._limit = float("inf") if wait is True else float(wait)
        self._begun = hub.clock.monotonic()
        self._looked = self._begun
        self.waits = self._limit > 0

    def over(self) -> bool:
        """Whether there is no time left."""
        return self._hub.clock.monotonic() - self._begun >= self._limit

    def rest(self) -> None:
        """Wait a moment; what dead sessions hold is returned meanwhile."""
        now = self._hub.clock.monotonic()
        if now - self._looked >= _CLAIMS_AGAIN:
            self._looked = now
            return_claims(self._hub, self._hub.clock.now())
        threading.Event().wait(_LOOK_AGAIN)


class Stop(NamedTuple):
    """A queue to be stopped, in one direction or both.

    ``plans``: whether messages in plans of gateway jobs keep the dequeue direction from being stopped.
    """

    queue: QueueRef
    enqueue: bool
    dequeue: bool
    plans: bool = True
    by: str | None = None  # who asks for it, where that is not who acts in this context


def wait_alone(hub: Hub, db: Db, queue: QueueRef, wait: bool | float) -> None:
    """Wait in the transaction of ``db`` until no other one works on the queue, or the time is over (PostgreSQL)."""
    patience = Patience(hub, wait)
    while not (admin_sql.try_exclusive(db, [queue.id]) or patience.over()):
        patience.rest()


def stop_at_once(db: Db, stop: Stop) -> None:
    """Stop a queue that nobody works on.

    Raises:
        AqError: 24018 somebody does; 24010 the queue is gone.
    """
    if catalog.find_queue_by_id(db, stop.queue.id) is None:
        raise QueueMissing(f"queue {stop.queue.full_name} does not exist", cause="it was dropped in the meantime")
    refusal = _refusal(db, stop, alone=admin_sql.try_exclusive(db, [stop.queue.id]))
    if refusal is not None:
        raise refusal
    values = {"enqueue_enabled": int(Enabled.STOPPED)} if stop.enqueue else {}
    values |= {"dequeue_enabled": int(Enabled.STOPPED)} if stop.dequeue else {}
    catalog.update_queue(db, stop.queue.id, values)


def stop_and_keep(hub: Hub, conn: sa.Connection, stop: Stop) -> None:
    """The same, and it is kept in the audit.

    Raises:
        AqError: as :func:`stop_at_once`.
    """
    db = Db(conn)
    before = catalog.list_queues(db, "WHERE q.id = ?", (stop.queue.id,))
    stop_at_once(db, stop)
    after = catalog.list_queues(db, "WHERE q.id = ?", (stop.queue.id,))
    keep_object(conn, "stop", "queue", before[0], after[0], hub.clock.now(), stop.by)


def _refusal(db: Db, stop: Stop, *, alone: bool) -> QueueInUse | None:
    taken = admin_sql.in_hands(db, [stop.queue.id])
    what = f"queue {stop.queue.full_name} cannot be stopped now"
    if not alone or taken.sessions:
        messages = f", {taken.sessions} of its messages are held by sessions" if taken.sessions else ""
        return QueueInUse(
            what, cause=f"transactions are using it{messages}", cure="end them, or have the call wait for them"
        )
    if stop.dequeue and stop.plans and taken.plans:
        return QueueInUse(
            what,
            cause=f"{taken.plans} of its messages are in flight in gateway jobs or streams of pipelines",
            cure="have the call wait while they run, or remove the jobs and release the streams",
        )
    return None


def stop_after(hub: Hub, stop: Stop, wait: bool | float) -> None:
    """Stop a queue, in transactions of its own, when those who work on it have ended.

    Raises:
        AqError: 24018 somebody still works on it when the time is over, and the queue is as it was; 24010 it is gone.
    """
    patience = Patience(hub, wait)
    refusal = _attempt(hub, stop)
    if refusal is not None and return_claims(hub, hub.clock.now()):
        refusal = _attempt(hub, stop)
    if refusal is None:
        return
    if not patience.waits:
        raise refusal
    with hub.write() as conn:
        admin_sql.close(Db(conn), stop.queue.id, enqueue=stop.enqueue, dequeue=stop.dequeue)
    try:
        while (refusal := _attempt(hub, stop)) is not None:
            if patience.over():
                raise refusal
            patience.rest()
    except BaseException:
        with hub.write() as conn:
            admin_sql.open_again(Db(conn), stop.queue.id, enqueue=stop.enqueue, dequeue=stop.dequeue)
        raise


def _attempt(hub: Hub, stop: Stop) -> QueueInUse | None:
    with hub.read() as conn:  # most looks find what the last one found; they need no turn as a writer
        refusal = _refusal(Db(conn), stop, alone=True)
    if refusal is not None:
        return refusal
    try:
        with hub.write() as conn:
            stop_and_keep(hub, conn, stop)
    except QueueInUse as again:
        return again
    return None


@contextmanager
def exclusively(hub: Hub, queue_ids: Sequence[int], patience: Patience) -> Iterator[None]:
    """Nobody else enqueues into or dequeues from these queues meanwhile: they wait (PostgreSQL).

    On SQLite nothing is held; what sessions hold is found by its claims.

    Raises:
        AqError: 24018 somebody still works on a queue when the time is over.
    """
    if not hub.postgresql:
        yield
        return
    while True:
        with hub.translated(), hub.engine.connect() as conn:
            try:
                admin_sql.exclusive(Db(conn), queue_ids, _LOCK_MILLISECONDS)
            except Exception as error:
                if not lock_timed_out(error):
                    raise
            else:
                yield
                return
        if patience.over():
            raise QueueInUse(
                "the queues cannot be locked now",
                cause="transactions are using them",
                cure="end them, or wait longer",
            )
        patience.rest()
