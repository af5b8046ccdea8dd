"""Administration of queue tables, queues and subscribers: the procedures of DBMS_AQADM (AQ guide 12.2 §8)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from gateway.aq import statements_catalog as catalog
from gateway.aq.errors import (
    AgentAddressInvalid,
    CompatibleInvalid,
    DefaultExceptionQueue,
    DeliveryModeInvalid,
    EnqueueOnExceptionQueue,
    PayloadTypeUnknown,
    QueueExists,
    QueueMissing,
    QueueNotStopped,
    QueueTableExists,
    QueueTableMissing,
    QueueTableNotEmpty,
    QueueTypeInvalid,
    RetentionInvalid,
    RetentionOnExceptionQueue,
    RetryInvalid,
    RetryOnExceptionQueue,
    RuleInvalid,
    SchemaDiffers,
    SingleConsumerQueue,
    SortListInvalid,
    SubscriberExists,
    SubscriberMissing,
    SubscriberOfExceptionQueue,
    TooManySubscribers,
)
from gateway.aq.hub import Hub
from gateway.aq.model import (
    INFINITE,
    Agent,
    DeliveryMode,
    PayloadType,
    QueueInfo,
    QueueRef,
    QueueTableInfo,
    QueueType,
    SortList,
    SubscriberInfo,
)
from gateway.aq.names import DEFAULT_SCHEMA, QualifiedName, agent_name, qualified
from gateway.aq.statements import Db
from gateway.aq.views import create_message_view, drop_message_view
from transforms.errors import AqError

__all__ = ["QueueAdmin"]

MAX_RAW_12_2 = 32512  # bytes, AQ guide 12.2 §4.6
MAX_PAYLOAD = 128 * 1024 * 1024
MAX_SUBSCRIBERS = 1000  # local ones, AQ guide 12.2 §4.6.1
MAX_RULE = 4000
MAX_RETRIES = 2**31 - 1
_COMPATIBLE = ("8.1", "10.0", "12.2")


class QueueAdmin:
    """Every call is a transaction of its own, or part of the one of ``connection`` when that is given."""

    def __init__(self, hub: Hub, connection: sa.Connection | None = None, *, schema: str = DEFAULT_SCHEMA) -> None:
        self._hub = hub
        self._connection = connection
        self._schema = schema

    @contextmanager
    def _write(self) -> Iterator[sa.Connection]:
        if self._connection is not None:
            with self._hub.translated():
                yield self._connection
        else:
            with self._hub.write() as conn:
                yield conn

    @contextmanager
    def _read(self) -> Iterator[Db]:
        if self._connection is not None:
            with self._hub.translated():
                yield Db(self._connection)
        else:
            with self._hub.read() as conn:
                yield Db(conn)

    # -- queue tables ----------------------------------------------------------------------------------------------

    def create_queue_table(
        self,
        queue_table: str,
        queue_payload_type: str = PayloadType.BASIC,
        *,
        sort_list: str | None = None,
        multiple_consumers: bool = False,
        message_grouping: str = "NONE",
        comment: str | None = None,
        compatible: str | None = None,
        secure: bool = False,
        max_payload: int | None = None,
    ) -> QueueTableInfo:
        """Make a queue table with its default exception queue and its view (AQ guide 12.2 §8.1.1).

        Args:
            queue_table: at most 122 bytes.
            queue_payload_type: RAW, BASIC, FIELDS, TEXT or JSON.
            sort_list: ENQ_TIME (default), ``ENQ_TIME,PRIORITY``, PRIORITY or ``PRIORITY,ENQ_TIME``; fixed for ever.
            compatible: ``8.1``, ``10.0`` (default) or ``12.2``.
            max_payload: bytes of a body, 1 to 128 MiB; default 128 MiB, 32512 for RAW tables with compatible 12.2.

        Raises:
            AqError: 24001 exists, 24019 name too long, 24015 payload type, 24036 sort list, 24059 compatible.
        """
        name = qualified(queue_table, self._schema, what="queue table", system=False)
        payload = _choice(
            PayloadType, queue_payload_type, f"payload type of queue table {name.shown}", PayloadTypeUnknown
        )
        order = _choice(
            SortList,
            (sort_list or "ENQ_TIME").replace(" ", ""),
            f"sort list of queue table {name.shown}",
            SortListInvalid,
        )
        version = compatible or "10.0"
        _check_table(name, order, message_grouping, version, secure)
        limit = _max_payload(name, payload, version, max_payload)
        with self._write() as conn:
            db = Db(conn)
            if catalog.find_queue_table(db, name.key) is not None:
                raise QueueTableExists(
                    f"queue table {name.shown} exists", cause="a queue table of that name is in the hub"
                )
            now = self._hub.clock.now()
            table_id = catalog.insert_queue_table(
                db,
                {
                    "schema": name.schema,
                    "name": name.name,
                    "name_key": name.key,
                    "payload_type": payload.value,
                    "sort_list": order.value,
                    "multiple_consumers": int(multiple_consumers),
                    "message_grouping": "NONE",
                    "compatible": version,
                    "secure": int(secure),
                    "max_payload": limit,
                    "comment": comment,
                    "created": now,
                },
            )
            exceptions = QualifiedName(name.schema, f"AQ$_{name.name}_E")
            catalog.insert_queue(db, _queue_values(exceptions, table_id, QueueType.EXCEPTION, None, 0, 0, None, now))
            found = _table(db, name)
            create_message_view(conn, found)
            return found

    def drop_queue_table(self, queue_table: str, *, force: bool = False) -> None:
        """Drop a queue table; its queues must be dropped before, unless ``force`` (AQ guide 12.2 §8.1.3).

        Raises:
            AqError: 24002 unknown, 24012 it has queues.
        """
        name = qualified(queue_table, self._schema, what="queue table")
        with self._write() as conn:
            db = Db(conn)
            found = _table(db, name)
            queues = catalog.list_queues(db, "WHERE q.queue_table_id = ?", (found.id,))
            own = [queue for queue in queues if not queue.name.upper().startswith("AQ$_")]
            if own and not force:
                raise QueueTableNotEmpty(
                    f"queue table {name.shown} has queues",
                    cause=", ".join(queue.full_name for queue in own[:5]),
                    cure="stop and drop them first, or use force",
                )
            drop_message_view(conn, found)
            for queue in queues:
                catalog.delete_queue(db, queue.id)
            catalog.delete_queue_table(db, found.id)

    def queue_tables(self) -> list[QueueTableInfo]:
        """Every queue table, by name."""
        with self._read() as db:
            return catalog.list_queue_tables(db)

    # -- queues ----------------------------------------------------------------------------------------------------

    def create_queue(
        self,
        queue_name: str,
        queue_table: str,
        *,
        queue_type: str = QueueType.NORMAL,
        max_retries: int | None = None,
        retry_delay: float = 0,
        retention_time: float = 0,
        comment: str | None = None,
    ) -> QueueInfo:
        """Make a queue; it is stopped (AQ guide 12.2 §8.2.1).

        Args:
            max_retries: failed attempts a message survives; None = 5. One more moves it to its exception queue.
            retry_delay: seconds a message waits after a failed attempt.
            retention_time: seconds consumed messages are kept, -1 for ever.

        Raises:
            AqError: 24002 no such queue table, 24006 exists, 24019 name, 24013, 24014 negative times, 24073, 24074 not
                on an exception queue, 24037 schema differs from the table's.
        """
        name = qualified(queue_name, self._schema, system=False)
        table = qualified(queue_table, self._schema, what="queue table")
        kind = (
            QueueType.EXCEPTION if queue_type == "EXCEPTION" else QueueType.NORMAL if queue_type == "NORMAL" else None
        )
        kind = kind or _choice(QueueType, queue_type, f"type of queue {name.shown}", QueueTypeInvalid)
        if kind is QueueType.EXCEPTION and (max_retries is not None or retry_delay or retention_time):
            raise (RetentionOnExceptionQueue if retention_time else RetryOnExceptionQueue)(
                f"exception queue {name.shown} cannot have retries or retention",
                cause="messages leave an exception queue at the first dequeue",
                cure="leave max_retries, retry_delay and retention_time out",
            )
        _check_retry(name.shown, max_retries, retry_delay, retention_time)
        if name.schema.upper() != table.schema.upper():
            raise SchemaDiffers(
                f"queue {name.shown} is in another schema than queue table {table.shown}",
                cure="name both in one schema",
            )
        with self._write() as conn:
            db = Db(conn)
            found = _table(db, table)
            if catalog.find_queue(db, f'"{name.schema}"."{name.name}"') is not None:
                raise QueueExists(f"queue {name.shown} exists", cause="a queue of that name is in the hub")
            values = _queue_values(
                name, found.id, kind, max_retries, retry_delay, retention_time, comment, self._hub.clock.now()
            )
            return _queue(db, catalog.insert_queue(db, values))

    def alter_queue(
        self,
        queue_name: str,
        *,
        max_retries: int | None = None,
        retry_delay: float | None = None,
        retention_time: float | None = None,
        comment: str | None = None,
    ) -> QueueInfo:
        """Change a queue; None keeps a value (AQ guide 12.2 §8.2.2).

        Raises:
            AqError: 24010 unknown, 24013, 24014 negative times, 24073, 24074 not on an exception queue.
        """
        with self._write() as conn:
            db = Db(conn)
            queue = self._require(db, queue_name)
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
                    cause="messages leave an exception queue at the first dequeue",
                )
            _check_retry(queue.full_name, max_retries, retry_delay or 0, retention_time or 0)
            if values:
                catalog.update_queue(db, queue.id, values)
            return _queue(db, queue.id)

    def start_queue(self, queue_name: str, *, enqueue: bool = True, dequeue: bool = True) -> None:
        """Enable a queue; False leaves a direction as it is (AQ guide 12.2 §8.2.3).

        Raises:
            AqError: 24010 unknown, 24017 enqueue on an exception queue.
        """
        with self._write() as conn:
            db = Db(conn)
            queue = self._require(db, queue_name)
            if enqueue and queue.queue_type is QueueType.EXCEPTION:
                raise EnqueueOnExceptionQueue(
                    f"enqueue cannot be enabled on exception queue {queue.full_name}",
                    cause="only the hub moves messages into an exception queue",
                    cure="start it with enqueue false",
                )
            self._switch(db, queue, 1, enqueue, dequeue)

    def stop_queue(self, queue_name: str, *, enqueue: bool = True, dequeue: bool = True, wait: bool = True) -> None:
        """Disable a queue; False leaves a direction as it is (AQ guide 12.2 §8.2.4).

        Calls that are running are waited for by the database's own locks; ``wait`` changes nothing so far.

        Raises:
            AqError: 24010 unknown.
        """
        del wait
        with self._write() as conn:
            db = Db(conn)
            self._switch(db, self._require(db, queue_name), 0, enqueue, dequeue)

    def _switch(self, db: Db, queue: QueueRef, value: int, enqueue: bool, dequeue: bool) -> None:
        values = {}
        if enqueue:
            values["enqueue_enabled"] = value
        if dequeue:
            values["dequeue_enabled"] = value
        if values:
            catalog.update_queue(db, queue.id, values)

    def drop_queue(self, queue_name: str) -> None:
        """Drop a stopped queue with its messages and subscribers (AQ guide 12.2 §8.2.5).

        Raises:
            AqError: 24010 unknown, 24011 it is started, 24026 it is the default exception queue of its table.
        """
        with self._write() as conn:
            db = Db(conn)
            queue = self._require(db, queue_name)
            if queue.name.upper().startswith("AQ$_"):
                raise DefaultExceptionQueue(
                    f"queue {queue.full_name} cannot be dropped",
                    cause=f"it is the default exception queue of queue table {queue.queue_table}",
                    cure="drop the queue table",
                )
            settings = catalog.queue_settings(db, queue)
            if settings.enqueue_enabled or settings.dequeue_enabled:
                raise QueueNotStopped(
                    f"queue {queue.full_name} cannot be dropped",
                    cause="it is started",
                    cure="stop it first",
                )
            catalog.delete_queue(db, queue.id)

    def queues(self) -> list[QueueInfo]:
        """Every queue, by name, exception queues included."""
        with self._read() as db:
            return catalog.list_queues(db)

    def queue(self, queue_name: str) -> QueueInfo | None:
        """One queue, or None."""
        with self._read() as db:
            found = catalog.find_queue(db, queue_name, self._schema)
            return _queue(db, found.id) if found else None

    # -- subscribers -----------------------------------------------------------------------------------------------

    def add_subscriber(
        self,
        queue_name: str,
        subscriber: Agent | str,
        *,
        rule: str | None = None,
        transformation: str | None = None,
        queue_to_queue: bool = False,
        delivery_mode: str = DeliveryMode.PERSISTENT,
    ) -> None:
        """Subscribe an agent; it gets what is enqueued from now on and meets its rule (AQ guide 12.2 §8.6.1).

        Raises:
            AqError: 24010 unknown queue, 24034 subscribed already, 24039 single-consumer queue, 24050 exception queue,
                24047 name, 24067 too many, 25448 the rule is invalid (with line and column).
        """
        agent = Agent(subscriber) if isinstance(subscriber, str) else subscriber
        name = agent_name(agent.name, what="subscriber")
        _check_rule(rule)
        mode = _choice(DeliveryMode, delivery_mode, f"delivery mode of subscriber {name}", DeliveryModeInvalid)
        with self._write() as conn:
            db = Db(conn)
            queue = self._require(db, queue_name)
            _check_subscribable(queue)
            if agent.address or name is None or queue_to_queue:
                raise AgentAddressInvalid(
                    f"subscriber {name or agent.address!r} of queue {queue.full_name} cannot be served",
                    cause="propagation to other queues is not part of this release",
                    cure="subscribe a local agent by name, or use a gateway job",
                )
            taken = catalog.consumer_id(db, queue, name, "", agent.protocol)
            if taken is not None and catalog.is_subscriber(db, taken):
                raise SubscriberExists(f"subscriber {name} of queue {queue.full_name} exists", cure="alter_subscriber")
            if len(catalog.count_subscribers(db, queue)) >= MAX_SUBSCRIBERS:
                raise TooManySubscribers(
                    f"queue {queue.full_name} has too many subscribers",
                    cause=f"at most {MAX_SUBSCRIBERS} are allowed",
                )
            catalog.upsert_subscriber(
                db,
                {
                    "queue_id": queue.id,
                    "name": name,
                    "name_key": name.upper(),
                    "address": "",
                    "protocol": agent.protocol,
                    "is_subscriber": 1,
                    "rule": rule,
                    "transformation": transformation,
                    "delivery_mode": mode.value,
                    "queue_to_queue": 0,
                    "created": self._hub.clock.now(),
                },
            )

    def alter_subscriber(
        self, queue_name: str, subscriber: Agent | str, *, rule: str | None, transformation: str | None = None
    ) -> None:
        """Set rule and transformation of a subscriber, both (AQ guide 12.2 §8.6.2).

        Raises:
            AqError: 24010 unknown queue, 24035 unknown subscriber, 25448 the rule is invalid.
        """
        _check_rule(rule)
        with self._write() as conn:
            db = Db(conn)
            catalog.set_rule(db, self._subscriber(db, queue_name, subscriber), rule, transformation)

    def remove_subscriber(self, queue_name: str, subscriber: Agent | str) -> None:
        """End a subscription; messages that waited for it only are removed by the time manager (AQ guide 12.2 §8.6.3).

        Raises:
            AqError: 24010 unknown queue, 24035 unknown subscriber.
        """
        with self._write() as conn:
            db = Db(conn)
            catalog.remove_subscriber(db, self._subscriber(db, queue_name, subscriber))

    def queue_subscribers(self, queue_name: str | None = None) -> list[SubscriberInfo]:
        """Subscribers of one queue, or of all (AQ guide 12.2 §9.11).

        Raises:
            AqError: 24010 unknown queue.
        """
        with self._read() as db:
            return catalog.list_subscribers(db, None if queue_name is None else self._require(db, queue_name))

    # -- look-ups --------------------------------------------------------------------------------------------------

    def _require(self, db: Db, queue_name: str) -> QueueRef:
        return catalog.require_queue(db, queue_name, self._schema, error=QueueMissing)

    def _subscriber(self, db: Db, queue_name: str, subscriber: Agent | str) -> int:
        agent = Agent(subscriber) if isinstance(subscriber, str) else subscriber
        queue = self._require(db, queue_name)
        found = catalog.consumer_id(db, queue, agent.name or "", agent.address or "", agent.protocol)
        if found is None or not catalog.is_subscriber(db, found):
            raise SubscriberMissing(
                f"subscriber {agent.name} of queue {queue.full_name} does not exist",
                cure="add_subscriber",
            )
        return found


def _table(db: Db, name: QualifiedName) -> QueueTableInfo:
    found = catalog.find_queue_table(db, name.key)
    if found is None:
        raise QueueTableMissing(
            f"queue table {name.shown} does not exist",
            cause="no queue table of that name is in the hub",
            cure="create it: create_queue_table",
        )
    return found


def _queue(db: Db, queue_id: int) -> QueueInfo:
    return catalog.list_queues(db, "WHERE q.id = ?", (queue_id,))[0]


def _queue_values(  # noqa: PLR0917
    name: QualifiedName,
    table_id: int,
    kind: QueueType,
    max_retries: int | None,
    retry_delay: float,
    retention_time: float,
    comment: str | None,
    now: float,
) -> dict[str, Any]:
    return {
        "schema": name.schema,
        "name": name.name,
        "name_key": name.key,
        "queue_table_id": table_id,
        "queue_type": kind.value,
        "max_retries": max_retries,
        "retry_delay": retry_delay,
        "retention_time": retention_time,
        "enqueue_enabled": 0,
        "dequeue_enabled": 0,
        "comment": comment,
        "created": now,
    }


def _choice(kind: Any, value: str, what: str, error: type[AqError]) -> Any:
    try:
        return kind(str(value).upper())
    except ValueError:
        allowed = ", ".join(member.value for member in kind)
        raise error(f"{what} is {value!r}", cause=f"allowed are {allowed}") from None


def _check_table(name: QualifiedName, order: SortList, grouping: str, version: str, secure: bool) -> None:
    if version not in _COMPATIBLE:
        raise CompatibleInvalid(
            f"compatible of queue table {name.shown} is {version!r}",
            cause=f"allowed are {', '.join(_COMPATIBLE)}",
        )
    if str(grouping).upper() not in ("NONE", "TRANSACTIONAL"):
        raise AqError(
            f"message grouping of queue table {name.shown} is {grouping!r}", cause="allowed are NONE, TRANSACTIONAL"
        )
    if "COMMIT_TIME" in order.value or str(grouping).upper() == "TRANSACTIONAL":
        raise SortListInvalid(
            f"queue table {name.shown} cannot be made",
            cause="commit-time order and transactional grouping are not part of this release",
            cure="use another sort list, and message_grouping NONE",
        )
    if secure:
        raise AqError(
            f"queue table {name.shown} cannot be made",
            cause="secure queues are not part of this release",
            cure="leave secure false",
        )


def _max_payload(name: QualifiedName, payload: PayloadType, version: str, given: int | None) -> int:
    top = MAX_RAW_12_2 if payload is PayloadType.RAW and version == "12.2" else MAX_PAYLOAD
    if given is None:
        return top
    if not 1 <= given <= MAX_PAYLOAD:
        raise AqError(
            f"max_payload of queue table {name.shown} is {given}", cause=f"allowed are 1 to {MAX_PAYLOAD} bytes"
        )
    return given


def _check_retry(queue: str, max_retries: int | None, retry_delay: float, retention_time: float) -> None:
    if max_retries is not None and not 0 <= max_retries <= MAX_RETRIES:
        raise RetryInvalid(f"max_retries of queue {queue} is {max_retries}", cause=f"allowed are 0 to {MAX_RETRIES}")
    if retry_delay < 0:
        raise RetryInvalid(f"retry_delay of queue {queue} is {retry_delay}", cause="allowed are 0 and more seconds")
    if retention_time < 0 and retention_time != INFINITE:
        raise RetentionInvalid(
            f"retention_time of queue {queue} is {retention_time}",
            cause="allowed are 0 and more seconds, or -1 for ever",
        )


def _check_subscribable(queue: QueueRef) -> None:
    if queue.queue_type is QueueType.EXCEPTION:
        raise SubscriberOfExceptionQueue(
            f"exception queue {queue.full_name} cannot have subscribers",
            cause="its messages are taken once, without a consumer name",
        )
    if not queue.multiple_consumers:
        raise SingleConsumerQueue(
            f"queue {queue.full_name} cannot have subscribers",
            cause="it is a single-consumer queue",
            cure="make its queue table with multiple_consumers",
        )


def _check_rule(rule: str | None) -> None:
    if rule is None:
        return
    if len(rule) > MAX_RULE:
        raise RuleInvalid(f"rule has {len(rule)} characters", cause=f"at most {MAX_RULE} are allowed")
    from gateway.aq.rules import compile_rule

    compile_rule(rule)
