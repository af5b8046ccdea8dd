"""What each property and header of a message is in a Kafka record: for the maps, the reference and the tests."""

from __future__ import annotations

from typing import Final

from mgw.transforms import header_table as standard
from mgw.transforms.header_table import PLAIN, Row
from mgw.transforms.kafka.common import FOREIGN, KEY, NULL, OFFSET, PARTITION, TIMESTAMP, TIMESTAMP_TYPE, TOPIC
from mgw.transforms.kafka.types import MESSAGE_ID, ORIGINAL_TIMESTAMP
from mgw.transforms.message import ValueType

__all__ = ["AMQP_TIMESTAMP", "NOTES", "RENAMED", "ROWS"]

_TEXT, _RAW, _LONG = ValueType.TEXT, ValueType.RAW, ValueType.LONG
AMQP_TIMESTAMP: Final = "MGW_AMQP_timestamp"

ROWS: Final = (
    Row(
        "correlation",
        "key (option `KAFKA_Key`)",
        _TEXT,
        "in: 128 characters",
        conversion="UTF-8; where the key is something else: header `MGW_AQ_correlation`",
        of_message=True,
    ),
    Row(KEY, "key", _RAW, "2000 bytes", conversion="wins over the correlation"),
    Row(TOPIC, "topic", _TEXT, "249 characters", sent=False),
    Row(PARTITION, "partition", ValueType.INTEGER, conversion="out: without it the key decides"),
    Row(OFFSET, "offset", _LONG, sent=False),
    Row("enqueue time", "timestamp", ValueType.DATE, read=False, loss="fractions of a millisecond", of_message=True),
    Row(
        TIMESTAMP,
        "timestamp",
        _LONG,
        conversion="milliseconds; wins over the enqueue time",
        also=(AMQP_TIMESTAMP,),
    ),
    Row(
        ORIGINAL_TIMESTAMP,
        "timestamp, else a header of this name",
        _LONG,
        conversion="the timestamp that the record should have, where the topic takes only a nearer one",
    ),
    Row(TIMESTAMP_TYPE, "CreateTime or LogAppendTime", _TEXT, sent=False),
    Row(
        "id in the hub",
        f"header `{MESSAGE_ID}`",
        _RAW,
        "16 bytes",
        read=False,
        conversion="always, and the first header",
        of_message=True,
    ),
    Row(
        MESSAGE_ID,
        f"header `{MESSAGE_ID}`",
        _RAW,
        "16 bytes",
        conversion="the id that an earlier hop gave",
    ),
    Row(
        "priority, delay, expiration, exception queue, enqueue time, original id, sender",
        "headers `MGW_AQ_*`",
        conversion="with the job option AQ_MsgProperties: [Properties of a message](#properties-of-a-message)",
        loss="without it",
        of_message=True,
    ),
    Row(
        standard.CONTENT_TYPE,
        "header `content-type`",
        _TEXT,
        "4000 characters",
        conversion="the name of the CloudEvents binding",
        also=("MGW_AMQP_contentType", "MGW_MQTT_contentType"),
    ),
    Row(
        standard.CONTENT_ENCODING,
        "header `content-encoding`",
        _TEXT,
        "4000 characters",
        also=("MGW_AMQP_contentEncoding",),
    ),
    Row(
        standard.REPLY_TO,
        "header `reply-to`",
        _TEXT,
        "4000 characters",
        also=("MGW_AMQP_replyTo", "MGW_MQTT_responseTopic"),
    ),
    Row(standard.MESSAGE_ID, "header `message-id`", _TEXT, "4000 characters", also=("MGW_AMQP_messageId",)),
    Row(
        standard.CORRELATION_ID,
        "header `correlation-id`",
        _TEXT,
        "4000 characters",
        conversion="a correlation that is longer than 128 characters",
        also=("MGW_AMQP_correlationId",),
    ),
    standard.trail_row("header `MGW_trail`"),
    Row(
        "any other header x",
        "header x",
        None,
        "name 250 characters; text 4000 characters, bytes 2000",
        conversion="text as UTF-8, numbers as decimal text, bytes as they are, JSON `null` as an empty value. A null "
        "value is JSON `null` in the hub. `MGW_types` tells what it was where the value alone does not. In, without "
        "it: text if it is UTF-8 without control characters, "
        "else bytes (option `KAFKA_HeaderType`). Names may repeat; order is kept",
        of_message=True,
    ),
    Row(
        FOREIGN + "x",
        "header x",
        None,
        conversion="where x begins with `MGW_` and no gateway wrote it",
    ),
    Row(NULL + "x", "header x", _TEXT, read=False, conversion="a null value, with `header_names: documented`"),
)

#: What the reference says about all rows.
NOTES: Final = (
    "The body is the value: text as UTF-8, fields and objects as JSON. No body is a null value (tombstone).",
    "A topic whose retention is shorter than the age of a timestamp deletes the record early. A timestamp of RabbitMQ "
    "is the timestamp of the record, so this is true for it, too.",
    "Text that RabbitMQ had in another charset is UTF-8 in the value, and its content type still names that charset. "
    "Set the header `MGW_AMQP_contentType` in a transformation where readers go by it.",
)
#: Headers that travel under the name of a standard field, which has no field of its own in a record.
RENAMED: Final = {name: row.name for row in ROWS if row.name in PLAIN for name in row.also}
