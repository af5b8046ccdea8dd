"""The dequeue calls of a session: from what is asked for to the messages that are handed out (AQ guide 12.2 §10.5)."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING

from mgw.gateway.aq.errors import (
    ConsumerForExceptionQueue,
    MessageIdMissing,
    NoMessage,
    TransformationFailed,
    VisibilityInvalid,
)
from mgw.gateway.aq.model import DeliveryMode, Dequeued, DequeueMode, DequeueOptions, QueueRef, QueueType, Visibility
from mgw.gateway.aq.payloads import transformations
from mgw.gateway.aq.queues import catalog_sql as catalog
from mgw.gateway.aq.queues import consumers_sql
from mgw.gateway.aq.queues.codec import decode, message_number
from mgw.gateway.aq.queues.consuming import consume
from mgw.gateway.aq.queues.messages_sql import BY_LOCK, Finisher
from mgw.gateway.aq.queues.search import Found, Request, no_such_message, upto
from mgw.gateway.aq.queues.transfer import check_dequeue
from mgw.gateway.aq.security.privileges import Rights
from mgw.gateway.aq.sessions.attempts import count_rolled_back
from mgw.gateway.aq.sessions.ground import SessionGround
from mgw.gateway.aq.sessions.navigation import Finder
from mgw.gateway.aq.sessions.unit_of_work.base import Work
from mgw.gateway.aq.store.columns import ENQ_TIME, GROUP, ID, STATE
from mgw.gateway.aq.store.fast_transaction import Writing
from mgw.gateway.aq.store.ground import require_own_thread
from mgw.gateway.aq.store.statements import Db, Row
from mgw.gateway.aq.store.tables import State
from mgw.transforms.message import Message

if TYPE_CHECKING:
    from mgw.gateway.aq.sessions.application import Application


__all__ = ["DequeueCalls"]

_LOOK_AGAIN = 1.0  # seconds; a waiting call looks by itself that often, should a wake-up get lost
_STATES = {int(state): State.READY if state is State.CLAIMED else state for state in State}  # in hand: as it was
_STATES_OF_EXCEPTIONS = _STATES | {int(State.CLAIMED): State.EXPIRED}

_TAKES = (DequeueMode.REMOVE, DequeueMode.REMOVE_NODATA)


class DequeueCalls:
    """What a session finds, takes, locks and looks at; the session says who works, where, and in which transaction."""

    hub: SessionGround
    user: str | None
    schema: str
    _rights: Rights | None
    _application: Application | None
    _work: Work
    _finder: Finder
    _number: int  # of the session
    _transaction: int  # of the session's

    @property
    def transaction_id(self) -> str:
        """Recorded with the messages enqueued and dequeued in the present transaction."""
        return f"{os.getpid()}.{self._number}.{self._transaction}"

    def _require_open(self) -> None:
        raise NotImplementedError

    def _dequeue_target(self, db: Db, queue_name: str, consumer: str | None) -> QueueRef:
        if self._rights is None:
            return catalog.require_queue(db, queue_name, self.schema)
        return self._rights.dequeue_target(db, queue_name, consumer, self.schema)

    def _require_autonomous(self) -> None:
        require_own_thread(self.hub)
        application = self._application
        if application is not None and not self.hub.postgresql and application.in_transaction():
            raise VisibilityInvalid(
                "visibility IMMEDIATE cannot be used here",
                cause="the application's transaction may hold SQLite's one write lock",
                cure="end the application's transaction first, or use ON_COMMIT",
            )

    def _dequeue(self, queue_name: str, options: DequeueOptions, array_size: int) -> list[Dequeued]:
        if self.hub.attempts.pending and self._may_count():
            count_rolled_back(self.hub.attempts)
        found = self._attempt(queue_name, options, array_size)
        if found:
            return found
        if options.wait <= 0:
            self._work.pause()  # who took nothing holds nothing up
            return self._nothing(queue_name, options)
        deadline = self.hub.clock.monotonic() + options.wait
        woken = threading.Event()
        with self._work.transaction() as db:
            queue_id = self._dequeue_target(db, queue_name, options.consumer_name).id
        unsubscribe = self.hub.notifier.subscribe((queue_id,), woken.set)
        try:
            while True:
                woken.clear()
                self._require_open()
                self._finder.restart(queue_id)
                found = self._attempt(queue_name, options, array_size)
                if found:
                    return found
                left = deadline - self.hub.clock.monotonic()
                if left <= 0:
                    return self._nothing(queue_name, options)
                self._work.pause()
                woken.wait(min(left, _LOOK_AGAIN))
        finally:
            unsubscribe()

    def _may_count(self) -> bool:
        """Whether a transaction beside this session's would not wait for it (SQLite's one writer)."""
        return self._application is None or self.hub.postgresql or not self._application.in_transaction()

    def _nothing(self, queue_name: str, options: DequeueOptions) -> list[Dequeued]:
        who = f" for consumer {options.consumer_name}" if options.consumer_name else ""
        raise NoMessage(
            f"no message in queue {queue_name}{who}",
            cause="the wait ended" if options.wait > 0 else "nothing matches, or other sessions hold the rest",
            cure="try again later, or wait longer",
        )

    def _attempt(self, queue_name: str, options: DequeueOptions, limit: int) -> list[Dequeued]:
        started = perf_counter()
        if options.visibility is Visibility.IMMEDIATE and options.dequeue_mode is not DequeueMode.BROWSE:
            self._require_autonomous()
            with Writing(self.hub) as db:
                request = self._request(db, queue_name, options, limit)
                found, messages = self._find(db, request, autonomous=True)
                rows = found.rows
                if rows and options.dequeue_mode is not DequeueMode.LOCKED:
                    ids = [row[ID] for row in rows]
                    consume(db, request.queue, request.consumer, ids, self._finisher(request), BY_LOCK)
        else:
            if self._application is not None and options.dequeue_mode in _TAKES:
                self._application.require_told()
            with self._work.transaction() as db:
                request = self._request(db, queue_name, options, limit)
                found, messages = self._find(db, request)
                rows = found.rows
                if found.held:
                    self._work.hold(db, request.queue, request.consumer, found.held)
                if rows and not request.browse:
                    ids = [row[ID] for row in rows]
                    if options.dequeue_mode is DequeueMode.LOCKED:
                        self._work.hold(db, request.queue, request.consumer, ids, rows[0][STATE])
                    else:
                        self._work.take(db, request.queue, request.consumer, ids, self._finisher(request))
        self._count(request, rows, perf_counter() - started)
        self._finder.keep(request.queue.id, found)
        if messages is None:
            with_body = options.dequeue_mode is not DequeueMode.REMOVE_NODATA
            messages = decode(rows, request.queue.hub_id, with_body=with_body)
        states = _STATES_OF_EXCEPTIONS if request.exceptions else _STATES
        if request.queue.grouped and not request.exceptions:
            return [
                Dequeued(message.msgid or b"", message, states[row[STATE]], str(row[GROUP]))
                for message, row in zip(messages, rows, strict=True)
            ]
        make, persistent = tuple.__new__, DeliveryMode.PERSISTENT
        return [
            make(Dequeued, (message.msgid or b"", message, states[row[STATE]], None, persistent))
            for message, row in zip(messages, rows, strict=True)
        ]

    def _find(self, db: Db, request: Request, *, autonomous: bool = False) -> tuple[Found, list[Message] | None]:
        """What is handed out, and the messages where a transformation makes them (AQ guide 12.2 §1.9)."""
        name, modules = request.options.transformation, self.hub.transform_modules
        if (name or request.transformation) is None or request.options.dequeue_mode is DequeueMode.REMOVE_NODATA:
            return self._finder.find(db, request, autonomous=autonomous), None
        with db.undone_on_error():
            if name is not None:
                applied = transformations.of_queue(db, request.queue, name, self.schema, modules, into=False)
            else:
                applied = transformations.of_subscriber(db, request.queue, request.transformation or "", modules)
            found = self._finder.find(db, request, autonomous=autonomous)
            messages: list[Message] = []
            started = perf_counter()
            try:
                for message in decode(found.rows, request.queue.hub_id):
                    messages.append(applied.run(message))  # noqa: PERF401  (those before one that fails are kept)
            except TransformationFailed:
                if not messages:
                    self._finder.skip(request, found)
                    raise
                return upto(request, found, len(messages)), messages
            finally:
                if found.rows:
                    self.hub.statistics.transformed(request.queue.id, perf_counter() - started)
            return found, messages

    def _count(self, request: Request, rows: Sequence[Row], seconds: float) -> None:
        now = self.hub.clock.now()
        latency = max(now - rows[-1][ENQ_TIME], 0.0) if rows else 0.0
        count = self.hub.statistics.handed_out
        count(request.queue.id, request.consumer, now, len(rows), request.browse, seconds, latency)

    def _finisher(self, request: Request) -> Finisher:
        return Finisher(self.hub.clock.now(), self.user, self.transaction_id, request.retention, request.at_once)

    def _request(self, db: Db, queue_name: str, options: DequeueOptions, limit: int) -> Request:
        browse = options.dequeue_mode is DequeueMode.BROWSE
        if self._rights is None and not browse:
            queue = catalog.require_queue(db, queue_name, self.schema, hold="dequeue")
        else:
            queue = self._dequeue_target(db, queue_name, options.consumer_name)
        settings = check_dequeue(db, queue, browse=browse)
        exceptions = queue.queue_type is QueueType.EXCEPTION
        number = None
        if options.msgid is not None:
            number = message_number(queue.hub_id, options.msgid)
            if number is None:
                raise no_such_message(queue, options.msgid)
        if exceptions:
            if options.consumer_name is not None:
                raise ConsumerForExceptionQueue(
                    f"consumer {options.consumer_name!r} given for exception queue {queue.full_name}",
                    cause="each message of an exception queue is dequeued once, not per consumer",
                    cure="leave the consumer name out",
                )
            if number is None and not queue.multiple_consumers and options.dequeue_mode is not DequeueMode.BROWSE:
                raise MessageIdMissing(
                    f"no message id given for exception queue {queue.full_name}",
                    cause="its messages can only be dequeued by message id",
                    cure="browse it, then dequeue by msgid",
                )
            return Request(queue, 0, options, number, limit)
        consumer, transformation = consumers_sql.require_consumer_of(db, queue, options.consumer_name)
        return Request(
            queue,
            consumer,
            options,
            number,
            limit,
            transformation,
            reopened=settings.reopened,
            retention=settings.retention_time,
            last_id=settings.last_id,
            at_once=number is None and _at_once(db, queue, options, settings.retention_time),
        )


def _at_once(db: Db, queue: QueueRef, options: DequeueOptions, retention: float) -> bool:
    """Whether what a search finds can be removed by the same statement: nobody looks at it before, nothing is kept."""
    return (
        db.postgresql
        and db.settled
        and not (retention or queue.multiple_consumers or queue.grouped)
        and options.dequeue_mode in _TAKES
        and options.transformation is None
        and options.deq_condition is None
    )
