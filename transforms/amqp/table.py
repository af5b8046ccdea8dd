"""What each property and header of a message is in AMQP 0-9-1: for the maps, the reference and the tests."""

from __future__ import annotations

from typing import Final

from mgw.transforms import header_table as standard
from mgw.transforms.amqp.common import (
    APP_ID,
    CLUSTER_ID,
    CONTENT_ENCODING,
    CONTENT_TYPE,
    CORRELATION_ID,
    MESSAGE_ID,
    REPLY_TO,
    ROUTING_KEY,
    TIMESTAMP,
    TYPE_NAME,
    USER_ID,
)
from mgw.transforms.header_table import AMQP_HOP, AMQP_ROUTING, PLAIN, Row, others
from mgw.transforms.message import ValueType

__all__ = ["ESCAPE", "FIELD_NAMES", "HOP_FIELDS", "KEPT", "NOTES", "OTHERS", "PROPERTIES", "ROWS"]

_TEXT, _DATE = ValueType.TEXT, ValueType.DATE
_SHORT = "255 bytes"

ROWS: Final = (
    Row(
        "priority",
        "priority",
        ValueType.INTEGER,
        "0 to `AMQP_MaxPriority` (P)",
        conversion="out: less than 0 is P, more than P is 0, else P - priority; in: P - the lesser of P and the "
        "property, which is 0 where it is absent",
        loss="more than P levels",
        of_message=True,
    ),
    Row(
        "expiration",
        "expiration, header `MGW_AQ_expires_at`",
        ValueType.DOUBLE,
        "49.7 days; longer: the header only",
        conversion="milliseconds left; the header says when it ends (epoch milliseconds), because the broker does not "
        "count down. In: at least 1 s",
        of_message=True,
    ),
    Row(
        "delivery mode",
        "delivery-mode",
        ValueType.INTEGER,
        conversion="out: 2, whatever the header says, because a message of mode 1 does not survive a restart of the "
        "broker, and the job has completed it at its source; the job option JMS_DeliveryMode may say otherwise",
        loss="mode 1",
        read=False,
        of_message=True,
    ),
    Row(
        "correlation",
        "correlation-id",
        _TEXT,
        "128 characters; longer, or not UTF-8: `MGW_AMQP_correlationId`",
        of_message=True,
    ),
    Row(
        "MGW_AMQP_correlationId",
        "correlation-id",
        _TEXT,
        _SHORT,
        conversion="wins over the correlation",
        key=CORRELATION_ID,
        also=("MGW_MQTT_correlationData", standard.CORRELATION_ID),
    ),
    Row("id in the hub", "message-id", _TEXT, read=False, conversion="`AQMSGID:` and 32 hex digits", of_message=True),
    Row(
        "MGW_AMQP_messageId",
        "message-id",
        _TEXT,
        _SHORT,
        conversion="wins over the id in the hub",
        key=MESSAGE_ID,
        also=(standard.MESSAGE_ID,),
    ),
    Row("enqueue time", "timestamp", _DATE, read=False, loss="fractions of a second", of_message=True),
    Row(
        "MGW_AMQP_timestamp",
        "timestamp",
        _DATE,
        "from 1970, whole seconds",
        conversion="wins over the enqueue time. A time of Kafka travels as a header, too, because it has milliseconds",
        loss="fractions of a second",
        key=TIMESTAMP,
        also=("MGW_KAFKA_originalTimestamp", "MGW_KAFKA_timestamp"),
    ),
    Row(
        "MGW_AMQP_contentType",
        "content-type",
        _TEXT,
        _SHORT,
        conversion="out, where none is given: text/plain for text, application/octet-stream for bytes, "
        "application/json for fields and objects, none without a body",
        key=CONTENT_TYPE,
        also=("MGW_MQTT_contentType", standard.CONTENT_TYPE),
    ),
    Row(
        "MGW_AMQP_contentEncoding",
        "content-encoding",
        _TEXT,
        _SHORT,
        conversion="out, where none is given: utf-8 for text",
        key=CONTENT_ENCODING,
        also=(standard.CONTENT_ENCODING,),
    ),
    Row(
        "MGW_AMQP_replyTo",
        "reply-to",
        _TEXT,
        _SHORT,
        key=REPLY_TO,
        also=("MGW_MQTT_responseTopic", standard.REPLY_TO),
    ),
    Row("sender's name", "app-id", _TEXT, _SHORT, read=False, loss="the sender's address", of_message=True),
    Row("MGW_AMQP_appId", "app-id", _TEXT, _SHORT, conversion="wins over the sender's name", key=APP_ID),
    Row("MGW_AMQP_type", "type", _TEXT, _SHORT, key=TYPE_NAME),
    Row(
        "MGW_AMQP_userId",
        "user-id",
        _TEXT,
        _SHORT,
        conversion="out: must be the link's user",
        key=USER_ID,
    ),
    Row("MGW_AMQP_clusterId", "cluster-id", _TEXT, _SHORT, key=CLUSTER_ID),
    Row(
        "MGW_AMQP_deliveryMode",
        "delivery-mode",
        ValueType.INTEGER,
        sent=False,
        conversion="other brokers carry it as a header",
    ),
    Row("MGW_AMQP_exchange", "exchange", _TEXT, _SHORT, sent=False, conversion="none for the default exchange"),
    Row(
        "MGW_AMQP_routingKey",
        "routing key",
        _TEXT,
        _SHORT,
        conversion="out: where the foreign queue leaves it open",
        key=ROUTING_KEY,
    ),
    Row("MGW_AMQP_redelivered", "redelivered", ValueType.BOOLEAN, sent=False, conversion="where it is true"),
    Row("MGW_AMQP_expiration", "expiration", _TEXT, _SHORT, sent=False, conversion="one that is not a number"),
    Row(
        "exception queue, enqueue time, original id",
        "headers `MGW_AQ_*`",
        conversion="with the job option AQ_MsgProperties, which tells priority and expiration there, too",
        loss="without it",
        of_message=True,
    ),
    standard.trail_row("header `MGW_trail`"),
    Row(
        "any other header x",
        "header x of the same type",
        None,
        "name 255 bytes",
        conversion="boolean, byte, short, integer, long, the unsigned ones, float, double, decimal, text, bytes, "
        "timestamp one to one; an array, a table, void as JSON. Text that is not UTF-8 is RAW",
        loss="a DATE loses fractions of a second; a number that its type cannot hold becomes the next larger type",
        of_message=True,
    ),
    Row(
        "MGW_AMQP_H_x",
        "header x",
        None,
        conversion=f"where x is a name of another meaning: {', '.join(f'`{name}`' for name in sorted(PLAIN))}, "
        f"{', '.join(f'`{name}`' for name in sorted(AMQP_ROUTING))}, and what the broker writes about one hop "
        "(`x-death`, `x-delivery-count` and the like), which is not sent on",
    ),
    Row(
        "x, one of these names",
        "header `MGW_H_x`",
        None,
        conversion="from another broker, where it does not fill the property",
        of_message=True,
    ),
)

#: What the reference says about all rows.
NOTES: Final = ("The body is the payload: text as UTF-8, fields and objects as JSON.",)
_FIELDS: Final = [row for row in ROWS if row.key is not None]
#: Property headers a message may carry, and the flag of their property.
PROPERTIES: Final[dict[str, int]] = {row.name: row.key for row in _FIELDS}
FIELD_NAMES: Final = {flag: name for name, flag in PROPERTIES.items()}
#: Headers of other brokers that fill a property, with its flag and their rank.
OTHERS: Final[dict[str, tuple[int, int]]] = others(ROWS)
#: Say something about the hop that is over: shown inbound, never sent.
HOP_FIELDS: Final = frozenset(row.name for row in ROWS if not row.sent) | {"MGW_AQ_expires_at"}
#: Names that have a prefix in the hub, and ``MGW_H_`` in AMQP where another broker brought them.
KEPT: Final = PLAIN | AMQP_HOP | AMQP_ROUTING
ESCAPE: Final = "MGW_H_"
