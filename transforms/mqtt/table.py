"""What each property and header of a message is in an MQTT PUBLISH: for the maps, the reference and the tests."""

from __future__ import annotations

from typing import Final

from mgw.transforms import header_table as standard
from mgw.transforms.header_table import PLAIN, Row, others
from mgw.transforms.message import ValueType
from mgw.transforms.mqtt.common import CONTENT, CORRELATION, DUP, FORMAT, QOS, RESPONSE, RETAIN, TOPIC

__all__ = ["ENVELOPE_ROWS", "HELD", "HOP", "MORE", "NOTES", "OTHERS", "RENAMED", "ROWS", "ROWS_3"]

_TEXT, _RAW, _BOOLEAN, _INTEGER = ValueType.TEXT, ValueType.RAW, ValueType.BOOLEAN, ValueType.INTEGER
_STRING = "65,535 bytes"

#: Fields of a PUBLISH of any version.
_FIXED: Final = (
    Row(TOPIC, "topic", _TEXT, "4000 characters", conversion="out: the registered topic, or `MQTT_TopicFrom`"),
    Row(QOS, "QoS", _INTEGER, sent=False, conversion="out: option `MQTT_Qos`"),
    Row(RETAIN, "retain", _BOOLEAN, conversion="out, without it: option `MQTT_Retain`"),
    Row(DUP, "dup", _BOOLEAN, sent=False),
)
#: What every hop tells again.
HOP: Final = frozenset(row.name for row in _FIXED)

#: MQTT 5.
ROWS: Final = (
    *_FIXED,
    Row(
        "expiration",
        "message expiry interval",
        ValueType.DOUBLE,
        "136 years",
        conversion="whole seconds left, rounded up; the broker counts down",
        of_message=True,
    ),
    Row("correlation", "correlation data", _TEXT, "in: 128 characters", of_message=True),
    Row(
        CORRELATION,
        "correlation data",
        _RAW,
        "2000 bytes",
        conversion="wins over the correlation",
        key=CORRELATION,
        also=("MGW_AMQP_correlationId", standard.CORRELATION_ID),
    ),
    Row(
        RESPONSE,
        "response topic",
        _TEXT,
        "4000 characters",
        conversion="of another broker: unless it holds a wildcard",
        key=RESPONSE,
        also=("MGW_AMQP_replyTo", standard.REPLY_TO),
    ),
    Row(
        CONTENT,
        "content type",
        _TEXT,
        "4000 characters",
        key=CONTENT,
        also=("MGW_AMQP_contentType", standard.CONTENT_TYPE),
    ),
    Row(FORMAT, "payload format indicator", _INTEGER, "0 or 1", conversion="out, without it: 1 for text, else 0"),
    Row(
        standard.CONTENT_ENCODING,
        "user property `content-encoding`",
        _TEXT,
        "4000 characters",
        also=("MGW_AMQP_contentEncoding",),
    ),
    Row(
        standard.MESSAGE_ID,
        "user property `message-id`",
        _TEXT,
        "4000 characters",
        also=("MGW_AMQP_messageId",),
    ),
    Row(
        "id in the hub",
        "user property `MGW_AQ_messageID`",
        _TEXT,
        read=False,
        conversion="`AQMSGID:` and 32 hex digits",
        of_message=True,
    ),
    Row(
        "MGW_AQ_messageID",
        "user property `MGW_AQ_original_msgid`",
        read=False,
        conversion="the id that an earlier hop gave",
    ),
    Row(
        "priority, delay, exception queue, enqueue time, original id",
        "user properties `MGW_AQ_*`",
        conversion="with the job option AQ_MsgProperties",
        loss="without it",
        of_message=True,
    ),
    standard.trail_row("user property `MGW_trail`"),
    Row(
        "any other header x",
        "user property x",
        None,
        "name 250 characters; text 4000 characters, bytes 2000",
        conversion="text; numbers as decimal text, bytes, and text with control characters, in base64. `MGW_types` "
        "tells the type of what is not plain text. Names may repeat; order is kept",
        of_message=True,
    ),
    Row(
        "MGW_MQTT_U_x",
        "user property x",
        None,
        conversion="where x is `content-type`, `reply-to`, `correlation-id`, which are fields, or the name of a field "
        "in the hub",
    ),
)

#: MQTT 3.1.1 without envelope: what a row of MQTT 5 is there.
ROWS_3: Final = tuple(
    row
    if row.name in HOP
    else Row(row.name, "", row.kind, sent=False, read=False, loss="not carried", of_message=row.of_message)
    for row in ROWS
)

#: MQTT 3.1.1 and MQTT 5 with the option ``MQTT_Envelope = JSON``.
ENVELOPE_ROWS: Final = (
    *_FIXED,
    Row(
        "expiration",
        "member `expiration`",
        ValueType.DOUBLE,
        "136 years",
        conversion="whole seconds left, rounded up. MQTT 5 has it in the message expiry interval, too, which wins and "
        "which the broker counts down",
        of_message=True,
    ),
    Row("correlation", "member `correlation`", _TEXT, "128 characters", of_message=True),
    Row(
        "id in the hub",
        "header `MGW_AQ_messageID`",
        _TEXT,
        read=False,
        conversion="`AQMSGID:` and 32 hex digits",
        of_message=True,
    ),
    Row(
        "MGW_AQ_messageID",
        "header `MGW_AQ_original_msgid`",
        read=False,
        conversion="the id that an earlier hop gave",
    ),
    Row(
        "priority, delay, exception queue, enqueue time, original id",
        "headers `MGW_AQ_*`",
        conversion="with the job option AQ_MsgProperties",
        loss="without it",
        of_message=True,
    ),
    standard.trail_row("header `MGW_trail`"),
    Row(
        "any other header x",
        "`[x, type, value]` of member `headers`",
        None,
        "name 250 characters; text 4000 characters, bytes 2000",
        conversion="one to one, under its name in the hub; bytes in base64. Names may repeat; order is kept",
        of_message=True,
    ),
    Row(
        "body",
        "members `body_type`, `body`",
        None,
        conversion="text, bytes in base64, fields, or none",
        of_message=True,
    ),
)

#: What the reference says about all rows.
NOTES: Final = (
    "The table is that of MQTT 5.",
    "The body is the payload: text as UTF-8, fields as JSON (content type `application/vnd.mgw.fields+json`).",
)
#: Further tables of the reference: heading, rows, notes.
MORE: Final = (
    (
        "MQTT 3.1.1",
        ROWS_3,
        ("The body is the payload. The option `MQTT_PayloadType` says whether a payload that is read is text.",),
    ),
    (
        "MQTT 3.1.1 and MQTT 5 with an envelope",
        ENVELOPE_ROWS,
        (
            "With the option `MQTT_Envelope: JSON` the payload is a JSON object with these members. Both sides must "
            "use it.",
        ),
    ),
)
#: User properties that have a prefix in the hub, because the name is that of a field.
HELD: Final = (PLAIN - {row.name for row in ROWS}) | {""}
#: Headers that travel under the name of a standard field, which MQTT does not have.
RENAMED: Final = {name: row.name for row in ROWS if row.name in PLAIN for name in row.also}
#: Headers of other brokers that fill a field, with the name of that field and their rank.
OTHERS: Final[dict[str, tuple[str, int]]] = others(row for row in ROWS if row.key)
