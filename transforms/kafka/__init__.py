"""Canonical message <-> Kafka record, as pure functions (no client, no I/O).

Names, fields and what is lost: :mod:`mgw.transforms.kafka.table`.

Nothing is lost and nothing loses its type. Kafka header values are bytes, so numbers and booleans travel as decimal
text, which other programs can read. A reader takes a value that is UTF-8 without control characters for text and any
other for bytes. One more header, ``MGW_types``, tells the next gateway what this does not: JSON, header name -> one
letter for each occurrence of the name (``transforms.kafka.types.LETTERS``; small letters for headers that a foreign
system named; one letter stands for all if they are the same). Headers that come in as they would without it are left
out, so a message whose headers are text does not have it. Two things the client library cannot send are marked in it
too: null header values (sent empty, letter ``n``, or ``N`` under a name ``MGW_x``) and a null value without a key
(sent empty, letter ``n`` under the name ``MGW_types``). ``header_names: documented``: a header ``x`` of others is
``MGW_KAFKA_H_x``, and bytes; a null value is ``MGW_KAFKA_N_x``.

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
