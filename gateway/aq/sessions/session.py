"""Enqueue and dequeue in a transaction (AQ guide 12.2 §10)."""

from __future__ import annotations

import functools
import itertools
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar, cast

from mgw.gateway.aq.model import FOREVER, Agent, DeliveryMode, Dequeued, DequeueOptions, EnqueueOptions, QueueRef
from mgw.gateway.aq.names import DEFAULT_SCHEMA
from mgw.gateway.aq.payloads import transformations
from mgw.gateway.aq.queues import catalog_sql as catalog
from mgw.gateway.aq.queues import consumers_sql
from mgw.gateway.aq.queues.intake import store
from mgw.gateway.aq.queues.prepared import Prepared
from mgw.gateway.aq.security.privileges import rights_of
from mgw.gateway.aq.sessions.application import Application
from mgw.gateway.aq.sessions.arguments import check_messages, check_options_type, no_message
from mgw.gateway.aq.sessions.dequeue import DequeueCalls
from mgw.gateway.aq.sessions.enqueue import DEFAULT_OPTIONS, EnqueueCall, prepare_enqueue, read_call
from mgw.gateway.aq.sessions.ground import SessionGround
from mgw.gateway.aq.sessions.listen import listen
from mgw.gateway.aq.sessions.navigation import Finder, check_options
from mgw.gateway.aq.sessions.unit_of_work.application import ApplicationWork
from mgw.gateway.aq.sessions.unit_of_work.base import Work
from mgw.gateway.aq.sessions.unit_of_work.postgres import TransactionWork
from mgw.gateway.aq.sessions.unit_of_work.sqlite_claims import ClaimWork
from mgw.gateway.aq.store.fast_transaction import Writing
from mgw.gateway.aq.store.statements import Db
from mgw.transforms.errors import HubError, SessionClosed
from mgw.transforms.message import Message

if TYPE_CHECKING:
    from mgw.gateway.aq.sessions.application import Given

__all__ = ["Session"]

_serial = itertools.count(1)
_DEQUEUE = DequeueOptions()
P = ParamSpec("P")
T = TypeVar("T")


def _call(method: Callable[Concatenate[Session, P], T]) -> Callable[Concatenate[Session, P], T]:
    """A call of a session: one at a time, and none when it, or the hub, is closed."""

    @functools.wraps(method)
    def call(self: Session, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._mutex:
            self._require_open()
            return method(self, *args, **kwargs)

    return call


class Session(DequeueCalls):
    """One transaction after another; made by :meth:`mgw.gateway.aq.hub.Hub.session`. For one thread at a time.

    As a context manager it rolls back what was not committed when it ends. On SQLite a session of its own sees the
    messages it enqueued only after its commit.
    """

    def __init__(
        self,
        hub: SessionGround,
        connection: Given | None = None,
        *,
        user: str | None = None,
        schema: str = DEFAULT_SCHEMA,
    ) -> None:
        self.hub = hub
        self.user = hub.user_for(user)
        self.schema = schema
        self._rights = rights_of(self.user)
        self._application = None if connection is None else Application(hub, connection)
        self._mutex = threading.RLock()  # who closes the hub ends a session in no call's midst
        self._open = True
        self._work: Work
        if self._application is not None:
            self._work = ApplicationWork(hub, self._application)
        elif hub.postgresql:
            self._work = TransactionWork(hub)
        else:
            self._work = ClaimWork(hub)
        self._number = next(_serial)
        self._transaction = 1
        self._finder = Finder(self._work)
        self._forgotten: weakref.finalize[[Work], Session] | None = None
        if self._application is None:
            hub.began(self)
            self._forgotten = weakref.finalize(self, hub.attempts.forgotten, self._work)
            self._forgotten.atexit = False  # the hub ends what is left then

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @_call
    def commit(self) -> None:
        """Commit everything since the last commit or rollback.

        Raises:
            LeaseLost: messages taken no longer belong to this session (SQLite); roll back.
            AqError: the session works inside the application's transaction, which the application commits.
            HubError: the database refused. On SQLite nothing was done, and the session may commit again; on PostgreSQL
                it must roll back and repeat (if the connection was lost during the commit, its outcome is unknown).
            HubMoved: the file of the hub is not where it was (SQLite); the text says where the outcome is unknown.
        """
        self._work.commit()
        self._transaction += 1
        self._finder.committed()
        self.hub.statistics.flush_sometimes(self.hub)

    @_call
    def rollback(self) -> None:
        """Undo everything since the last commit; a message that was removed counts a failed attempt.

        Raises:
            AqError: the session works inside the application's transaction.
            HubError: the database refused.
        """
        self._work.rollback()
        self._transaction += 1
        self._finder.rolled_back()

    @_call
    def savepoint(self, name: str) -> None:
        """Set a savepoint at the current point of the transaction; a name that is set again moves. Savepoints end with
        the transaction.

        Raises:
            AqError: the session works inside the application's transaction (use ``begin_nested`` there).
            HubError: the database refused.
        """
        self._work.savepoint(name)

    @_call
    def rollback_to(self, name: str) -> None:
        """Undo what was done after a savepoint, which stays; the transaction continues (AQ guide 12.2 §11.7.5).

        Messages enqueued after it are gone. Those removed after it are back, with a failed attempt counted, whatever
        happens to the transaction; those locked after it are free again.

        Raises:
            AqError: 1086 no such savepoint; the session works inside the application's transaction.
            HubError: the database refused; on SQLite nothing was undone, and the session may try again.
        """
        self._work.rollback_to(name)
        self._finder.rolled_back()

    @_call
    def release(self, name: str) -> None:
        """Release a savepoint and those set after it; nothing is undone.

        Raises:
            AqError: 1086 no such savepoint; the session works inside the application's transaction.
            HubError: the database refused.
        """
        self._work.release(name)

    def close(self) -> None:
        """Roll back and release everything; every later call is refused. Idempotent.

        Raises:
            HubError: the database refused. What was taken comes back all the same, in time.
        """
        self._open = False  # who waits in another thread learns it
        with self._mutex:
            if self._forgotten is not None and self._forgotten.detach() is None:
                return
            self._work.close()
        if self._application is None and self.hub.is_open:  # else the application might be what a flush waits for
            self.hub.statistics.flush_sometimes(self.hub)

    def close_idle(self) -> None:
        """:meth:`close`, unless a call is under way: that call detects by itself that the hub was closed."""
        if self._mutex.acquire(blocking=False):
            try:
                with suppress(HubError):  # the claims end with their lease, the transaction with its connection
                    self.close()
            finally:
                self._mutex.release()

    def _require_open(self) -> None:
        self.hub.require_open()
        if not self._open:
            raise SessionClosed(
                f"the session on hub {self.hub.name} is closed",
                cause="close was called, or its with block has ended",
                cure="create another with hub.session()",
            )

    # -- enqueue ---------------------------------------------------------------------------------------------------

    def enqueue(
        self,
        queue_name: str,
        message: Message,
        options: EnqueueOptions = DEFAULT_OPTIONS,
        *,
        recipients: Sequence[Agent | str] = (),
    ) -> bytes:
        """Enqueue a message and return its id (AQ guide 12.2 §10.2).

        What the hub sets itself (id, enqueue time, attempts, original id) is ignored in the message.

        Args:
            recipients: consumers of this message, or one; they replace the subscribers (multi-consumer queues only).

        Raises:
            AqError: the first that applies of 25205 no such queue, 25206 exception queue, 25207 not enabled, 25201,
                25204 unknown option, 25203, 25209 delay or expiration, a header over its limit, 25224, 24093
                sender on a secure queue, 25299 delivery mode, 24094, 24095, 25229 transformation, 25215 the body does
                not fit, 25208, 25210, 25213 reference of a sequence deviation, 25211, 25212 delay or priority does not
                go with it, 25251, 25216, 24045, 25232 recipient list, 24033 no recipient.
            HubError: the database refused; the message is not stored.
        """
        if not isinstance(message, Message):
            raise no_message(message)
        return self.enqueue_array(queue_name, [message], options, recipients=recipients)[0]

    @_call
    def enqueue_array(
        self,
        queue_name: str,
        messages: Sequence[Message],
        options: EnqueueOptions = DEFAULT_OPTIONS,
        *,
        recipients: Sequence[Agent | str] = (),
        recipient_lists: Sequence[Sequence[Agent | str]] | None = None,
        array_size: int | None = None,
    ) -> list[bytes]:
        """Enqueue messages, all or none, and return their ids in order (AQ guide 12.2 §10.3).

        Args:
            recipients: consumers of every message.
            recipient_lists: consumers of each message by itself; an empty list stands for ``recipients``, or for the
                subscribers where that is empty too.
            array_size: only the first so many messages; None: all of them.

        Raises:
            AqError: as :meth:`enqueue`; 25286 array size, 25287 not one recipient list for each message.
            HubError: the database refused; no message is stored.
        """
        check_options_type(options, EnqueueOptions)
        messages = check_messages(messages)
        if not messages and array_size is None:
            return []
        call = read_call(messages, options, recipients, recipient_lists, array_size)
        if call.immediate:
            self._require_autonomous()
            with Writing(self.hub) as db:
                prepared = self._prepare(db, queue_name, call, None)
                store(db, prepared)
            if prepared.ready:
                self.hub.notifier.committed((prepared.queue.id,))
        else:
            with self._work.transaction() as db:
                prepared = self._prepare(db, queue_name, call, self._work)
                self._work.store(db, prepared)
        return cast("list[bytes]", prepared.msgids)  # nobody asked to leave out what has no recipient

    def _prepare(self, db: Db, queue_name: str, call: EnqueueCall, work: Work | None) -> Prepared:
        queue, rights = self._enqueue_target(db, queue_name), self._rights
        now = self.hub.clock.now()
        enrol = None
        if work is not None and self.hub.postgresql:  # else nobody could name the same recipient before the commit

            def enrol(name: str) -> int:
                with self.hub.write() as conn:
                    return consumers_sql.ensure_consumer(Db(conn), queue, name, address="", protocol=0, now=now)

        def transform(messages: Sequence[Message], name: str) -> Sequence[Message]:
            modules = self.hub.transform_modules
            found = transformations.of_queue(db, queue, name, self.schema, modules, into=True)
            started = perf_counter()
            results = found.apply(messages)
            self.hub.statistics.transformed(queue.id, perf_counter() - started)
            return results

        return prepare_enqueue(
            db,
            queue,
            call,
            work,
            now=now,
            user=self.user,
            txn=self.transaction_id,
            transform=transform,
            senders=None if rights is None else lambda messages: rights.check_senders(db, queue, messages),
            enrol=enrol,
        )

    def _enqueue_target(self, db: Db, queue_name: str) -> QueueRef:
        if self._rights is None:
            return catalog.require_queue(db, queue_name, self.schema, hold="enqueue")
        return self._rights.enqueue_target(db, queue_name, self.schema)

    # -- dequeue ---------------------------------------------------------------------------------------------------

    @_call
    def dequeue(self, queue_name: str, options: DequeueOptions = _DEQUEUE) -> Dequeued:
        """Dequeue (or browse) one message (AQ guide 12.2 §10.5). Messages that other sessions hold are skipped.

        Raises:
            AqError: 25228 nothing there within ``wait`` seconds, 25263 no such msgid, 25205 no such queue, 25226 not
                enabled for dequeue, 25231, 25243, 25256 consumer missing or not allowed, 25239 msgid needed, 25240
                msgid with a condition, 25230 bad wait, 25225 mode, 25233 navigation, 25201 visibility, 25298, 25299
                delivery mode, 25234 the queue has no transaction groups, 25235 the group is used up, 25241, 25242
                correlation, condition or consumer changed without FIRST_MESSAGE, 25237 NEXT_MESSAGE after the end,
                24094, 24095 the transformation cannot be used, 25229 it failed: the message stays as it is, and
                NEXT_MESSAGE continues behind it.
            HubError: the database refused.
        """
        check_options_type(options, DequeueOptions)
        return self._dequeue(queue_name, check_options(options, 1, array=False), 1)[0]._replace(transaction_group=None)

    @_call
    def dequeue_array(
        self, queue_name: str, options: DequeueOptions = _DEQUEUE, array_size: int = 100
    ) -> list[Dequeued]:
        """Dequeue (or browse) up to ``array_size`` messages that are there; waits for the first only (§10.6).

        Where messages are grouped by transaction, the messages are of one group (an array smaller than the group gets
        the rest by the next calls), unless the navigation is one of those with MULTI_GROUP. Where a transformation
        fails, only the messages before that one are taken.

        Raises:
            AqError: as :meth:`dequeue`; 25286 array size.
        """
        check_options_type(options, DequeueOptions)
        return self._dequeue(queue_name, check_options(options, array_size, array=True), array_size)

    @_call
    def listen(
        self,
        agents: Sequence[Agent],
        wait: float = FOREVER,
        listen_delivery_mode: str = DeliveryMode.PERSISTENT,
    ) -> Agent:
        """Wait until one of the agents has a READY message, and return that agent (AQ guide 12.2 §1.7, §10.4).

        Nothing is taken and nothing is locked, so another session may be faster than the dequeue that follows. Where
        several have one, the first in the list is returned: change the order of the list to let nobody starve.

        Args:
            agents: ``address`` is the queue, ``name`` the consumer of a multi-consumer queue and None on others.
                A message of an exception queue counts when it is there (EXPIRED).
            wait: seconds, :data:`FOREVER` or :data:`NO_WAIT`.
            listen_delivery_mode: PERSISTENT, or PERSISTENT_OR_BUFFERED, which finds the persistent ones.

        Raises:
            AqError: 25254 no message within ``wait`` seconds, 25245 name given on a single-consumer or exception queue,
                25262 name missing on a multi-consumer queue, 24035 unknown consumer, 25248 an agent is listed twice,
                25253 a queue is not enabled for dequeue, 25205 no such queue, 25230 bad wait, 25299 delivery mode.
            HubError: the database refused.
        """
        return listen(self.hub, agents, wait, listen_delivery_mode, target=self._dequeue_target, pause=self._work.pause)
