"""The columns of the data source ``mgw``: the one table of what they are called, what they hold and where that is.

``reads`` names what is read from the database for a column. There ``m`` is the message; ``{a}`` is whichever row has
the state: the message, or the entry of the consumer that was asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mgw.transforms.errors import ConfigInvalid

__all__ = ["COLUMNS", "HEADERS", "NAMES", "ORIGIN", "READ", "Column", "chosen", "ddl"]

HEADERS = "ARRAY<STRUCT<name: STRING, type: STRING, value: STRING>>"
ORIGIN = "STRUCT<system: STRING, name: STRING, partition: INT, offset: BIGINT, timestamp: TIMESTAMP, msgid: BINARY>"


class Column(NamedTuple):
    """One column; ``required`` columns are never NULL."""

    name: str
    type: str  # as Spark's DDL writes it
    meaning: str
    reads: tuple[str, ...]
    required: bool = False


#: What is read, by the name it has in ``Column.reads``.
READ = {
    "id": "m.id",
    "queue_id": "m.queue_id",
    "state": "{a}.state",
    "priority": "m.priority",
    "correlation": "m.correlation",
    "kind": "m.kind",
    "enq_time": "m.enq_time",
    "enq_user": "m.enq_user",
    "deq_time": "{a}.deq_time",
    "deq_user": "{a}.deq_user",
    "ready_at": "{a}.ready_at",
    "expires_at": "{a}.expires_at",
    "expiration": "m.expiration",
    "attempts": "{a}.attempts",
    "exception_queue": "m.exception_queue",
    "expiration_reason": "m.expiration_reason",
    "original_queue_id": "m.original_queue_id",
    "original_msgid": "m.original_msgid",
    "sender_name": "m.sender_name",
    "sender_address": "m.sender_address",
    "sender_protocol": "m.sender_protocol",
    "user_property": "m.user_property",
    "group_id": "{a}.group_id",
    "headers": "m.headers",
    "body_type": "m.body_type",
    "body": "m.body",
}

COLUMNS = (
    Column("queue", "STRING", "queue the message is in", ("queue_id",), required=True),
    Column("msgid", "BINARY", "message id, 16 bytes", ("id",)),
    Column("id", "BIGINT", "its second half as a number; grows in enqueue order", ("id",), required=True),
    Column("seq", "BIGINT", "place in the stream; NULL in batch reads", ()),
    Column(
        "state",
        "STRING",
        "READY, WAITING, PROCESSED, EXPIRED, UNDELIVERABLE, CLAIMED (held by a session or job) or SPLIT (a message of "
        "a multi-consumer queue read without `consumer`: every consumer has a state of its own)",
        ("state",),
    ),
    Column("consumer", "STRING", "the subscriber, where one was asked for", ()),
    Column("priority", "BIGINT", "smaller is more important", ("priority",)),
    Column("correlation", "STRING", "correlation identifier", ("correlation",)),
    Column("kind", "STRING", "canonical payload type: RAW, BASIC, FIELDS, OBJECT, ANYDATA", ("kind",)),
    Column("enq_time", "TIMESTAMP", "when it was enqueued", ("enq_time",)),
    Column("enq_user", "STRING", "who enqueued it", ("enq_user",)),
    Column("deq_time", "TIMESTAMP", "when it was consumed, where the queue retains it", ("deq_time",)),
    Column("deq_user", "STRING", "who consumed it", ("deq_user",)),
    Column("ready_at", "TIMESTAMP", "when its delay is or was over", ("ready_at",)),
    Column("expires_at", "TIMESTAMP", "when it expires", ("expires_at",)),
    Column("expiration", "DOUBLE", "seconds of availability it was enqueued with; NULL: forever", ("expiration",)),
    Column("attempts", "INT", "failed attempts to consume it", ("attempts",)),
    Column("exception_queue", "STRING", "where it goes when it cannot be consumed", ("exception_queue",)),
    Column("expiration_reason", "STRING", "why it is in an exception queue", ("expiration_reason",)),
    Column("original_queue", "STRING", "queue it was in before the exception queue", ("original_queue_id",)),
    Column("original_msgid", "BINARY", "its id in the queue it was propagated from", ("original_msgid",)),
    Column("sender_name", "STRING", "agent that sent it", ("sender_name",)),
    Column("sender_address", "STRING", "queue it was last propagated from", ("sender_address",)),
    Column("sender_protocol", "INT", "protocol of that address; 0 is a queue", ("sender_protocol",)),
    Column("user_property", "STRING", "additional information about the body", ("user_property",)),
    Column(
        "transaction_group",
        "STRING",
        "number of the transaction that enqueued it, where the queue groups by transaction or orders by commit",
        ("group_id",),
    ),
    Column(
        "headers",
        HEADERS,
        "header array in order. `type`: TEXT, RAW (`value` is base64), BOOLEAN, BYTE, SHORT, INTEGER, LONG, FLOAT, "
        "DOUBLE, DATE (epoch seconds), JSON, DECIMAL, UBYTE, USHORT, UINT",
        ("headers",),
    ),
    Column("body_type", "STRING", "NONE, RAW, TEXT, FIELDS (JSON), VALUE (JSON of a declared type)", ("body_type",)),
    Column("body", "BINARY", "the body as it is stored; text is UTF-8", ("body",)),
    Column("text", "STRING", "the body where it is text, JSON, fields or a value; else NULL", ("body_type", "body")),
    Column(
        "origin",
        ORIGIN,
        "where a bridged message was read, from its `MGW_*` headers: system (KAFKA, RABBITMQ, MQTT), topic or routing "
        "key, Kafka's partition, offset and timestamp, the id it had in another hub",
        ("headers",),
    ),
)

NAMES = tuple(column.name for column in COLUMNS)
_BY_NAME = {column.name: column for column in COLUMNS}


def chosen(names: Iterable[str]) -> tuple[Column, ...]:
    """The columns of these names, in this order.

    Raises:
        ConfigInvalid: no such column, or one twice.
    """
    found = []
    for name in names:
        column = _BY_NAME.get(name)
        if column is None or column in found:
            raise ConfigInvalid(
                f"column {name!r} cannot be read from a queue",
                cause="it is named twice" if column else "the data source mgw has no such column",
                cure=f"use {', '.join(NAMES)}",
            )
        found.append(column)
    return tuple(found)


def ddl(columns: Iterable[Column] = COLUMNS) -> str:
    """Columns as the DDL of a Spark schema."""
    return ", ".join(f"{column.name} {column.type}{' NOT NULL' if column.required else ''}" for column in columns)
