"""Canonical message <-> Kafka record, as pure functions (no client, no I/O).

===============================  =====================================================================================
canonical                        record
===============================  =====================================================================================
correlation                      key in UTF-8 (:attr:`KeyFrom.CORRELATION`, the default); inbound if UTF-8 and at most
                                 128 characters. Where the key is something else: header ``MGW_AQ_correlation``
``MGW_KAFKA_key``                key; takes precedence over everything else
``MGW_KAFKA_topic``              inbound only
``MGW_KAFKA_partition``          partition; without it the key decides
``MGW_KAFKA_offset``             inbound only
enqueue time                     timestamp, outbound; header ``MGW_KAFKA_timestamp`` (milliseconds) wins
``MGW_KAFKA_originalTimestamp``  the timestamp that the record should have had, where the topic takes only a nearer
                                 one: sent instead of ``MGW_KAFKA_timestamp`` where it can be, else kept
``MGW_KAFKA_timestampType``      inbound only: CreateTime or LogAppendTime
message id                       header ``MGW_AQ_messageID`` (16 bytes), always and first: a stable key for receivers
                                 that deduplicate. Inbound it is a header like any other
priority, delay, expiration,     headers ``MGW_AQ_*`` with the job option AQ_MsgProperties, both directions. Inbound
exception queue, original id,    they become properties and leave the header array, because a header would win over
sender                           the property when the message travels on
``MGW_KAFKA_H_x``                header ``x`` of a foreign system
``MGW_KAFKA_N_x``                header ``x`` with a null value
any other header                 header of the same name
body                             value: text as UTF-8, fields as JSON; none is a null value (tombstone)
===============================  =====================================================================================

Nothing is lost and nothing loses its type. Kafka header values are bytes, so numbers and booleans travel as decimal
text, which other programs can read, and one more header, ``MGW_types``, tells the next gateway what they were: JSON,
header name -> one letter for each occurrence of the name (``transforms.kafka.types.LETTERS``; small letters for headers
that a foreign system named; one letter stands for all if they are the same). Headers that come in as they would without
it (raw headers of foreign systems, the reserved ``MGW_AQ_*`` names) are left out, so a message without typed headers
does not have it. Two things the client library cannot send are marked in it too: null header values (sent empty, letter
``n``) and a null value without a key (sent empty, letter ``n`` under the name ``MGW_types``).

Sources: AQ guide 12.2 §20.1 (canonical types), §20.3 (reserved names); Kafka protocol, record format v2.
"""

from __future__ import annotations

from mgw.transforms.kafka.common import KeyFrom, Received, Record, Rules, Window
from mgw.transforms.kafka.inbound import from_record, origin_headers
from mgw.transforms.kafka.outbound import to_record
from mgw.transforms.kafka.types import MESSAGE_ID, TYPES

__all__ = [
    "MESSAGE_ID",
    "TYPES",
    "KeyFrom",
    "Received",
    "Record",
    "Rules",
    "Window",
    "from_record",
    "origin_headers",
    "to_record",
]
