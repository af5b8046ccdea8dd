"""Procedures on queue tables (AQ guide 12.2 §8.1)."""

from __future__ import annotations

from gateway.aq import statements_catalog as catalog
from gateway.aq.admin.base import Administration, choice
from gateway.aq.admin.queues import queue_values
from gateway.aq.errors import (
    CompatibleInvalid,
    QueueTableExists,
    QueueTableNotEmpty,
    SortListInvalid,
)
from gateway.aq.model import PayloadType, QueueTableInfo, QueueType, SortList
from gateway.aq.names import QualifiedName, qualified
from gateway.aq.payloads import payload_of
from gateway.aq.statements import Db
from gateway.aq.views import create_table_views, drop_queue_views, drop_table_views
from transforms.errors import AqError

__all__ = ["MAX_PAYLOAD", "QueueTableProcedures"]

MAX_RAW_12_2 = 32512  # bytes, AQ guide 12.2 §4.6
MAX_PAYLOAD = 128 * 1024 * 1024
_COMPATIBLE = ("8.1", "10.0", "12.2")


class QueueTableProcedures(Administration):
    """Make, drop and list queue tables."""

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
            queue_payload_type: RAW, BASIC, FIELDS, TEXT, JSON, XMLTYPE, ANYDATA, or the name of an object type.
            sort_list: ENQ_TIME (default), ``ENQ_TIME,PRIORITY``, PRIORITY or ``PRIORITY,ENQ_TIME``; fixed for ever.
                COMMIT_TIME and ``PRIORITY,COMMIT_TIME`` need multiple_consumers and message_grouping TRANSACTIONAL.
            message_grouping: NONE, or TRANSACTIONAL: the messages of one transaction are taken by one consumer.
            compatible: ``8.1``, ``10.0`` (default) or ``12.2``.
            secure: users other than the owner need AQ agents to work with its queues (AQ guide 12.2 §10.1).
            max_payload: bytes of a body, 1 to 128 MiB; default 128 MiB, 32512 for RAW tables with compatible 12.2.

        Raises:
            AqError: 24001 exists, 24019 name too long, 24015 payload type, 24036 sort list, 24059 compatible;
                1031 the schema is neither the user's nor does the user hold MANAGE_ANY.
        """
        name = qualified(queue_table, self.schema, what="queue table", system=False)
        order = choice(
            SortList,
            (sort_list or "ENQ_TIME").replace(" ", ""),
            f"sort list of queue table {name.shown}",
            SortListInvalid,
        )
        version = compatible or "10.0"
        _check_table(name, order, message_grouping, version, multiple_consumers)
        with self.change() as conn:
            db = Db(conn)
            if self.rights is not None:
                self.rights.require_schema(db, name, "queue table")
            payload = payload_of(db, queue_payload_type, self.schema, f"queue table {name.shown}")
            limit = _max_payload(name, payload.kind, version, max_payload)
            if catalog.find_queue_table(db, name.key) is not None:
                raise QueueTableExists(
                    f"queue table {name.shown} exists", cause="a queue table of that name is in the hub"
                )
            now = self.hub.clock.now()
            table_id = catalog.insert_queue_table(
                db,
                {
                    "schema": name.schema,
                    "name": name.name,
                    "name_key": name.key,
                    "payload_type": payload.kind.value,
                    "object_type": payload.object_type and payload.name,
                    "type_id": payload.object_type and payload.object_type.id,
                    "sort_list": order.value,
                    "multiple_consumers": int(multiple_consumers),
                    "message_grouping": message_grouping.upper(),
                    "compatible": version,
                    "secure": int(secure),
                    "max_payload": limit,
                    "comment": comment,
                    "created": now,
                },
            )
            exceptions = QualifiedName(name.schema, f"AQ$_{name.name}_E")
            catalog.insert_queue(db, queue_values(exceptions, table_id, QueueType.EXCEPTION, None, 0, 0, None, now))
            found = self.need_queue_table(db, name)
            create_table_views(conn, found)
            return found

    def drop_queue_table(self, queue_table: str, *, force: bool = False) -> None:
        """Drop a queue table; its queues must be dropped before, unless ``force`` (AQ guide 12.2 §8.1.3).

        Raises:
            AqError: 24002 unknown, 24012 it has queues.
        """
        name = qualified(queue_table, self.schema, what="queue table")
        with self.change() as conn:
            db = Db(conn)
            found = self.need_queue_table(db, name)
            queues = catalog.list_queues(db, "WHERE q.queue_table_id = ?", (found.id,))
            own = [queue for queue in queues if not queue.name.upper().startswith("AQ$_")]
            if own and not force:
                raise QueueTableNotEmpty(
                    f"queue table {name.shown} has queues",
                    cause=", ".join(queue.full_name for queue in own[:5]),
                    cure="stop and drop them first, or use force",
                )
            drop_table_views(conn, found)
            for queue in queues:
                drop_queue_views(conn, queue.id)
                catalog.delete_queue(db, queue.id)
            catalog.delete_queue_table(db, found.id)

    def queue_tables(self) -> list[QueueTableInfo]:
        """Every queue table, by name; a user sees the own ones and those of queues the user sees."""
        with self.look() as db:
            found = catalog.list_queue_tables(db)
            if self.rights is None:
                return found
            seen = {queue.queue_table for queue in self.visible(db, catalog.list_queues(db))}
            return [each for each in found if each.full_name in seen or self.rights.manages(db, each.schema)]


def _check_table(name: QualifiedName, order: SortList, grouping: str, version: str, multiple_consumers: bool) -> None:
    if version not in _COMPATIBLE:
        raise CompatibleInvalid(
            f"compatible of queue table {name.shown} is {version!r}",
            cause=f"allowed are {', '.join(_COMPATIBLE)}",
        )
    if str(grouping).upper() not in ("NONE", "TRANSACTIONAL"):
        raise AqError(
            f"message grouping of queue table {name.shown} is {grouping!r}", cause="allowed are NONE, TRANSACTIONAL"
        )
    if "COMMIT_TIME" in order.value and not (multiple_consumers and str(grouping).upper() == "TRANSACTIONAL"):
        raise SortListInvalid(
            f"queue table {name.shown} cannot be sorted by {order.value}",
            cause="commit-time order needs multiple consumers and transactional grouping",
            cure="give multiple_consumers true and message_grouping TRANSACTIONAL, or another sort list",
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
