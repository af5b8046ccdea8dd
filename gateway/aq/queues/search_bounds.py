"""Where the search for the first message of a queue may begin (PostgreSQL).

While any transaction of the database server keeps an old snapshot, what was deleted stays in the tables and at the
front of the indexes, and every search from the head of a queue would walk over it. So each process remembers, for
queues in the order of arrival, a bound that no message that can be taken is below. It is only a hint for the search,
and holds whatever others do:

- A message that was there and in other hands is visible until its transaction is committed, so the bound stops at it.
- A message that is still being enqueued has an id that was handed out before; the bound goes up to ids whose
  transactions have all ended. They are known by the shared lock on the queue that each takes before it takes ids.
- A message that becomes READY later (its delay ends, a plan gives it back, it goes ahead of others) is noted in
  ``aq_reopened`` by a trigger, in the same transaction. A search begins at the lowest of these if that is below.
"""

from __future__ import annotations

import math
import threading
import time
from contextlib import suppress

import sqlalchemy as sa

from mgw.gateway.aq.model import QueueRef, QueueType, SortList
from mgw.gateway.aq.queues import search_bounds_sql as heads_sql
from mgw.gateway.aq.store.connection_state import state_of
from mgw.gateway.aq.store.statements import Db

__all__ = ["Heads", "heads_of"]

_STEP = 500  # ids: a bound less far behind is as good as one that is up to date
_LOOK = 1.0  # seconds between two looks of searches that find nothing
_SHARE = 30  # of the time at most one part in so many goes into keeping the bounds up to date


class _Head:
    """What is known of one queue: the bound; an id and who worked on the queue when it was the last one."""

    __slots__ = ("busy", "due", "holders", "last", "look", "low")

    def __init__(self) -> None:
        self.low = -math.inf
        self.last = -1
        self.holders: frozenset[str] | None = None
        self.due = self.look = 0.0
        self.busy = False


class Heads:
    """The bounds of one hub in this process; for any number of threads."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._heads: dict[int, _Head] = {}
        self._server: object = None

    def connected(self, server: object) -> None:
        """A connection was made. Another server, or one that was restarted, may hold another past of the hub."""
        with self._mutex:
            if server != self._server:
                self._server = server
                self._heads = {}

    def after(self, queue: QueueRef, reopened: float | None) -> tuple[float, float, float] | None:
        """Sort keys that everything to be taken comes after; None: nothing is known.

        ``reopened``: last key of the first message that became READY again, as of the same transaction or before.
        """
        head = self._heads.get(queue.id)
        if head is None or head.low == -math.inf:
            return None
        low = head.low if reopened is None else min(head.low, reopened)
        if low == -math.inf:
            return None
        return (0.0, 0.0, math.nextafter(low, -math.inf))

    def found(self, engine: sa.Engine, queue: QueueRef, first: float | None) -> None:
        """A search found this last key first, or nothing; have the bound follow if it is too far behind.

        Who finds nothing looks now and then whether the bound belongs to another past of the hub.
        """
        head = self._heads.get(queue.id)
        if head is None:
            if first is None:
                return
            with self._mutex:
                head = self._heads.setdefault(queue.id, _Head())
        now = time.monotonic()
        if now < head.due or (now < head.look if first is None else first - head.low < _STEP):
            return
        with self._mutex:
            if head.busy or self._heads.get(queue.id) is not head:
                return
            head.busy = True
        began = time.monotonic()
        try:
            with suppress(Exception), engine.connect().execution_options(isolation_level="READ COMMITTED") as conn:
                db = Db(conn)
                heads_sql.wait_for_nobody(
                    db
                )  # the caller's transaction is open: who waits for it must not be waited for
                self._advance(db, queue, head)
        finally:
            now = time.monotonic()
            head.due = now + (now - began) * _SHARE
            head.look = now + _LOOK
            head.busy = False

    def _advance(self, db: Db, queue: QueueRef, head: _Head) -> None:
        """Each statement sees what was committed before it, and they stand in the order that makes the bound true."""
        last = heads_sql.last_id(db)
        if last < head.last:  # somebody put the hub back to an earlier state
            head.low, head.last, head.holders = -math.inf, -1, None
            return
        holders = heads_sql.workers(db, queue)
        if holders is None:
            return
        if head.holders is not None:
            head.holders &= holders
        if not head.holders:
            if head.holders is not None:  # whoever took an id up to ``head.last`` has ended
                first = heads_sql.first_ready(db, queue, head.low)
                low = float(head.last) if first is None else min(first, float(head.last))
                head.low = max(head.low, low)
            head.last, head.holders = last, holders


def heads_of(db: Db, queue: QueueRef) -> Heads | None:
    """The bounds that serve searches in this queue; None where there are none."""
    if not db.postgresql or queue.sort_list is not SortList.ENQ_TIME or queue.multiple_consumers or queue.grouped:
        return None
    if queue.queue_type is not QueueType.NORMAL:
        return None
    state = state_of(db.connection)
    heads = None if state is None else state.memory
    return heads if isinstance(heads, Heads) else None
