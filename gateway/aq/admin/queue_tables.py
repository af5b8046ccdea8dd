"""Procedures on queue tables (AQ guide 12.2 §8.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from mgw.gateway.aq.admin import admin_sql, removal_sql
from mgw.gateway.aq.admin.audit import shown_object
from mgw.gateway.aq.admin.base import choice
from mgw.gateway.aq.admin.queues import QueueProcedures, queue_values, require_off
from mgw.gateway.aq.admin.removal import Held, Removal
from mgw.gateway.aq.admin.stopping import Stop
from mgw.gateway.aq.errors import (
    CannotMigrate,
    CompatibleInvalid,
    InstanceInvalid,
    QueueInUse,
    QueueTableExists,
    QueueTableNotEmpty,
    SortListInvalid,
)
from mgw.gateway.aq.model import PayloadType, QueueRef, QueueTableInfo, QueueType, SortList
from mgw.gateway.aq.names import QualifiedName, qualified
from mgw.gateway.aq.options import QUEUE_TABLE_OPTIONS, changed_options
from mgw.gateway.aq.payloads.forms import payload_of
from mgw.gateway.aq.queues import catalog_sql as catalog
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.aq.views import create_table_views, drop_queue_views, drop_table_views
from mgw.transforms.errors import AqError

__all__ = ["COMPATIBLE", "MAX_PAYLOAD", "QueueTableProcedures", "check_shape"]

MAX_RAW_12_2 = 32512  # bytes, AQ guide 12.2 §4.6
MAX_PAYLOAD = 128 * 1024 * 1024
COMPATIBLE = ("8.1", "10.0", "12.2")
MAX_INSTANCE = 2**31 - 1


class Shape(NamedTuple):
    """What of a queue table is fixed when it is made, in the words of the caller."""

    sort_list: str | None
    multiple_consumers: bool
    message_grouping: str
    compatible: str | None
    secure: bool


class QueueTableProcedures(QueueProcedures):
    """Make, change, drop, migrate and list queue tables."""

    def create_queue_table(
        self,
        queue_table: str,
        queue_payload_type: str = PayloadType.BASIC,
        *,
        storage_clause: str | None = None,
        sort_list: str | None = None,
        multiple_consumers: bool = False,
        message_grouping: str = "NONE",
        comment: str | None = None,
        auto_commit: bool | None = None,
        primary_instance: int = 0,
        secondary_instance: int = 0,
        compatible: str | None = None,
        secure: bool = False,
        replication_mode: str | None = None,
        max_payload: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> QueueTableInfo:
        """Make a queue table with its default exception queue and its view (AQ guide 12.2 §8.1.1).

        Args:
            queue_table: at most 122 bytes.
            queue_payload_type: RAW, BASIC, FIELDS, TEXT, JSON, XMLTYPE, ANYDATA, the name of an object type, or a JMS
                type: SYS.AQ$_JMS_TEXT_MESSAGE, BYTES, MAP, STREAM, OBJECT, or SYS.AQ$_JMS_MESSAGE for all of them.
            storage_clause: free text; it is stored and shown, the hub's database decides where messages are stored.
            sort_list: ENQ_TIME (default), ``ENQ_TIME,PRIORITY``, PRIORITY, ``PRIORITY,ENQ_TIME``, COMMIT_TIME or
                ``PRIORITY,COMMIT_TIME``; it cannot be changed. The last two need multiple consumers and TRANSACTIONAL.
            multiple_consumers: every message goes to every subscriber, instead of to one reader.
            message_grouping: NONE, or TRANSACTIONAL: the messages of one transaction are taken by one consumer.
            auto_commit: see :class:`~mgw.gateway.aq.admin.base.Administration`.
            primary_instance: owner instance, 0 = any; stored and shown.
            secondary_instance: instance that takes over, 0 = any; needs a primary one.
            compatible: ``8.1``, ``10.0`` (default) or ``12.2``.
            secure: users other than the owner need AQ agents to work with its queues (AQ guide 12.2 §10.1).
            replication_mode: reserved; only NONE.
            max_payload: bytes of a body, 1 to 128 MiB; default 128 MiB, 32512 for RAW tables with compatible 12.2.
            options: see :data:`mgw.gateway.aq.options.QUEUE_TABLE_OPTIONS`.

        Raises:
            AqError: 24001 exists, 24019 name too long, 24015 payload type, 24016 the type is another's, 24036 sort
                list, 24059 compatible, 24078 instances, 1031 the schema is neither the user's nor does the user hold
                MANAGE_ANY.
        """
        name = qualified(queue_table, self.schema, what="queue table", system=False)
        shape = Shape(sort_list, multiple_consumers, message_grouping, compatible, secure)
        values = check_shape(name, shape)
        _check_instances(name, primary_instance, secondary_instance)
        _check_replication(name, replication_mode)
        values |= {
            "schema": name.schema,
            "name": name.name,
            "name_key": name.key,
            "storage_clause": storage_clause,
            "primary_instance": primary_instance,
            "secondary_instance": secondary_instance,
            "comment": comment,
            "options": changed_options(QUEUE_TABLE_OPTIONS, {}, options, f"queue table {name.shown}"),
        }
        with self.change(auto_commit) as conn:
            db = Db(conn)
            if self.rights is not None:
                self.rights.require_schema(db, name, "queue table")
            payload = payload_of(db, queue_payload_type, self.schema, f"queue table {name.shown}")
            if self.rights is not None:
                self.rights.require_type(db, payload.object_type, f"queue table {name.shown}")
            values |= {
                "payload_type": payload.kind.value,
                "object_type": payload.declared,
                "type_id": payload.type_id,
                "jms_types": int(payload.jms is not None),
                "max_payload": _max_payload(name, payload.kind, values["compatible"], max_payload),
            }
            if catalog.find_queue_table(db, name.key) is not None:
                raise QueueTableExists(
                    f"queue table {name.shown} already exists",
                    cause="a queue table of that name is in the hub",
                    cure="choose another name, or drop it first",
                )
            now = self.hub.clock.now()
            table_id = catalog.insert_queue_table(db, values | {"created": now})
            exceptions = QualifiedName(name.schema, f"AQ$_{name.name}_E")
            catalog.insert_queue(db, queue_values(exceptions, table_id, QueueType.EXCEPTION, None, 0, 0, None, now))
            found = self.need_queue_table(db, name)
            if self.hub.object_views:
                create_table_views(conn, found)
            self._keep(conn, "create", "queue table", None, found)
            return found

    def alter_queue_table(
        self,
        queue_table: str,
        *,
        comment: str | None = None,
        primary_instance: int | None = None,
        secondary_instance: int | None = None,
        replication_mode: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> QueueTableInfo:
        """Change what may change of a queue table; None keeps a value (AQ guide 12.2 §8.1.2).

        Args:
            primary_instance: 0 = any, which takes the secondary one away too.
            secondary_instance: only together with a primary one.
            replication_mode: reserved; only NONE.
            options: merged element by element, a value of None removes one; None as a whole keeps all.

        Raises:
            AqError: 24002 unknown, 24078 a secondary instance without a primary one.
        """
        name = qualified(queue_table, self.schema, what="queue table")
        _check_replication(name, replication_mode)
        values: dict[str, Any] = {} if comment is None else {"comment": comment}
        if primary_instance is not None or secondary_instance is not None:
            _check_instances(name, primary_instance or 0, secondary_instance or 0)
            if primary_instance is not None:
                values["primary_instance"] = primary_instance
            if secondary_instance is not None or primary_instance == 0:
                values["secondary_instance"] = secondary_instance or 0
        with self.change() as conn:
            db = Db(conn)
            found = self.need_queue_table(db, name)
            if options is not None:
                owner = f"queue table {name.shown}"
                values["options"] = changed_options(QUEUE_TABLE_OPTIONS, found.options, options, owner)
            if values:
                admin_sql.update_queue_table(db, found.id, values)
            after = self.need_queue_table(db, name)
            self._keep(conn, "alter", "queue table", found, after)
            return after

    def drop_queue_table(
        self,
        queue_table: str,
        *,
        force: bool = False,
        move_to: str | None = None,
        auto_commit: bool | None = None,
    ) -> Held:
        """Drop a queue table; its queues must be dropped before, unless ``force`` (AQ guide 12.2 §8.1.3).

        Args:
            force: stop and drop its queues too, with their messages, as soon as the transactions on them have ended.
                Messages on their way with gateway jobs are not waited for.
            move_to: a queue that their messages go to first, in the same transaction.

        Returns:
            What it held.

        Raises:
            AqError: 24002 unknown, 24012 it has queues, 24011 one of them was started or made again meanwhile, 24018
                transactions are using them (as part of an application's transaction on SQLite, where the call cannot
                wait); its default exception queue holds messages; the other queue does not take them.
        """
        name = qualified(queue_table, self.schema, what="queue table")
        self._check_commit(auto_commit)
        with self.look() as db:
            queues = self._queues_to_drop(db, name, force=force)
            before = self.need_queue_table(db, name)
        if force:
            for queue in queues:
                self._stop(Stop(queue, enqueue=True, dequeue=True, plans=False), wait=True)
        told = None
        if force:
            told = self._told("drop queue table", before, queues, force=force, move_to=move_to)
        with self.change(auto_commit) as conn:
            db = Db(conn)
            queues = self._queues_to_drop(db, name, force=force)
            found = self.need_queue_table(db, name)
            if not admin_sql.try_exclusive(db, [queue.id for queue in queues]):
                raise QueueInUse(
                    f"queue table {name.shown} cannot be dropped now",
                    cause="a transaction is using one of its queues",
                    cure="try again after it has ended",
                )
            for queue in queues if force else ():
                require_off(db, queue)
            held = told or removal_sql.held_by_queues(db, [queue.id for queue in queues])
            if told is None:
                removal = Removal("drop queue table", found.full_name, held, move_to)
                removal = replace(removal, kind="queue table", before=shown_object(found))
                self._settle(conn, removal, [(queue, 0) for queue in queues], force=force)
            drop_table_views(conn, found)
            for queue in queues:
                drop_queue_views(conn, queue.id)
                catalog.delete_queue(db, queue.id)
            catalog.delete_queue_table(db, found.id)
            return held

    def _queues_to_drop(self, db: Db, name: QualifiedName, *, force: bool) -> list[QueueRef]:
        found = self.need_queue_table(db, name)
        queues = catalog.list_queues(db, "WHERE q.queue_table_id = ?", (found.id,))
        own = [queue for queue in queues if not queue.name.upper().startswith("AQ$_")]
        if own and not force:
            raise QueueTableNotEmpty(
                f"queue table {name.shown} has queues",
                cause=", ".join(queue.full_name for queue in own[:5]),
                cure="stop and drop them first, or use force",
            )
        refs = (catalog.find_queue_by_id(db, queue.id) for queue in queues)
        going = [ref for ref in refs if ref is not None]
        if self.may_go is not None:
            self.may_go(db.connection, f"queue table {name.shown}", going)
        return going

    def migrate_queue_table(self, queue_table: str, compatible: str) -> QueueTableInfo:
        """Give a queue table another compatible setting (AQ guide 12.2 §8.1.5).

        RAW queue tables that were made without ``max_payload`` get the limit of the new setting.

        Args:
            compatible: ``8.1``, ``10.0`` or ``12.2``.

        Raises:
            AqError: 24002 unknown, 24059 compatible, 24060 a message is larger than the new setting allows, 24072 the
                user administers the queue table, but does not own it.
        """
        name = qualified(queue_table, self.schema, what="queue table")
        version = _compatible(name, compatible)
        with self.change() as conn:
            db = Db(conn)
            found = self.need_queue_table(db, name)
            if self.rights is not None:
                self.rights.require_owner(name, "migrate queue table")
            limit = found.max_payload
            if limit == _max_payload(name, found.payload_type, found.compatible, None):
                limit = _max_payload(name, found.payload_type, version, None)
            if limit < found.max_payload and admin_sql.body_over(db, found.id, limit):
                raise CannotMigrate(
                    f"queue table {name.shown} cannot be migrated from compatible {found.compatible} to {version}",
                    cause=f"it holds messages of more than {limit} bytes, the limit of {version}",
                    cure="consume or purge them first",
                )
            admin_sql.update_queue_table(db, found.id, {"compatible": version, "max_payload": limit})
            after = self.need_queue_table(db, name)
            self._keep(conn, "migrate", "queue table", found, after)
            return after

    def queue_tables(self) -> list[QueueTableInfo]:
        """Every queue table, by name; a user sees the user's own and those of queues the user sees."""
        with self.look() as db:
            found = catalog.list_queue_tables(db)
            if self.rights is None:
                return found
            seen = {queue.queue_table for queue in self.visible(db, catalog.list_queues(db))}
            return [each for each in found if each.full_name in seen or self.rights.manages(db, each.schema)]

    def queue_table(self, queue_table: str) -> QueueTableInfo | None:
        """One queue table, or None; a user does not see those of others."""
        name = qualified(queue_table, self.schema, what="queue table")
        with self.look() as db:
            found = catalog.find_queue_table(db, name.key)
            if found is None or self.rights is None or self.rights.manages(db, found.schema):
                return found
            return found if self.visible(db, catalog.queues_of(db, found.id)) else None


def check_shape(name: QualifiedName, shape: Shape) -> dict[str, Any]:
    """The columns of what is fixed when a queue table is made.

    Raises:
        AqError: 24036 sort list, 24059 compatible, an unknown grouping.
    """
    version = _compatible(name, shape.compatible or "10.0")
    order = choice(
        SortList,
        (shape.sort_list or "ENQ_TIME").replace(" ", ""),
        f"sort list of queue table {name.shown}",
        SortListInvalid,
    )
    grouping = str(shape.message_grouping).upper()
    if grouping not in ("NONE", "TRANSACTIONAL"):
        raise AqError(
            f"message grouping of queue table {name.shown} is {shape.message_grouping!r}",
            cause="allowed are NONE, TRANSACTIONAL",
        )
    if "COMMIT_TIME" in order.value and not (shape.multiple_consumers and grouping == "TRANSACTIONAL"):
        raise SortListInvalid(
            f"queue table {name.shown} cannot be sorted by {order.value}",
            cause="commit time needs multiple consumers and message grouping TRANSACTIONAL",
            cure="create it with both, or use another sort list",
        )
    return {
        "sort_list": order.value,
        "multiple_consumers": int(shape.multiple_consumers),
        "message_grouping": grouping,
        "compatible": version,
        "secure": int(shape.secure),
    }


def _compatible(name: QualifiedName, version: str) -> str:
    if version not in COMPATIBLE:
        raise CompatibleInvalid(
            f"compatible of queue table {name.shown} is {version!r}",
            cause=f"allowed are {', '.join(COMPATIBLE)}",
            cure="8.0 is not supported; use 8.1" if version == "8.0" else "name one of them",
        )
    return version


def _check_instances(name: QualifiedName, primary: int, secondary: int) -> None:
    for instance in (primary, secondary):
        if not 0 <= instance <= MAX_INSTANCE:
            raise InstanceInvalid(
                f"instance of queue table {name.shown} is {instance}", cause=f"allowed are 0 to {MAX_INSTANCE}"
            )
    if secondary and not primary:
        raise InstanceInvalid(
            f"queue table {name.shown} cannot have secondary instance {secondary}",
            cause="there is no primary instance",
            cure="give the primary instance too",
        )


def _check_replication(name: QualifiedName, mode: str | None) -> None:
    if mode is not None and str(mode).upper() != "NONE":
        raise AqError(
            f"replication mode of queue table {name.shown} is {mode!r}", cause="it is reserved", cure="leave it out"
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
