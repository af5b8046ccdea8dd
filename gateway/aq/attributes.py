"""Attributes of queue tables, queues and subscribers, each described once.

The configuration file with its schema and reference page and the command line take names, meanings, defaults and ranges
from here; ``tests/unit/test_attributes.py`` holds the typed procedures to them. What has no column of its own is an
option (:mod:`mgw.gateway.aq.options`).
"""

from __future__ import annotations

from collections.abc import Mapping

from mgw.links.contract import Field

__all__ = ["LARGEST_INTEGER", "QUEUE_ATTRIBUTES", "QUEUE_TABLE_ATTRIBUTES", "SUBSCRIBER_ATTRIBUTES", "by_name"]

LARGEST_INTEGER = 2**31 - 1
COMMENT = Field("comment", "Free text.")


def by_name(*fields: Field) -> Mapping[str, Field]:
    """Descriptions by the name of what they describe."""
    return {field.name: field for field in fields}


QUEUE_TABLE_ATTRIBUTES = by_name(
    Field(
        "payload_type",
        "What the messages hold. JMS messages: SYS.AQ$_JMS_TEXT_MESSAGE, and alike BYTES, MAP, STREAM and OBJECT, or "
        "SYS.AQ$_JMS_MESSAGE for all of them.",
        default="BASIC",
        alterable=False,
    ),
    Field(
        "multiple_consumers",
        "False: each message goes to one consumer. True: to every subscriber.",
        bool,
        False,
        alterable=False,
    ),
    Field(
        "sort_list",
        "Order of dequeue, such as PRIORITY,ENQ_TIME; none: order of arrival.",
        choices=(
            "ENQ_TIME",
            "ENQ_TIME,PRIORITY",
            "PRIORITY",
            "PRIORITY,ENQ_TIME",
            "COMMIT_TIME",
            "PRIORITY,COMMIT_TIME",
        ),
        alterable=False,
    ),
    Field(
        "message_grouping",
        "TRANSACTIONAL: messages of one transaction stay together.",
        default="NONE",
        choices=("NONE", "TRANSACTIONAL"),
        alterable=False,
    ),
    Field("compatible", "8.1, 10.0 or 12.2 (limits RAW to 32,512 bytes)."),
    Field("secure", "Users other than the owner need AQ agents.", bool, False, alterable=False),
    Field("max_payload", "Largest message, bytes.", int, minimum=1, alterable=False),
    Field(
        "jms_types",
        "ANYDATA may hold JMS and XML types; cannot be taken back. A missing key leaves it as it is.",
        bool,
    ),
    Field("storage_clause", "Free text about storage, kept for the views.", alterable=False),
    Field("primary_instance", "Owner instance; 0: any.", int, 0, minimum=0, maximum=LARGEST_INTEGER),
    Field(
        "secondary_instance",
        "Instance that takes over; 0: any. Needs a primary one.",
        int,
        0,
        minimum=0,
        maximum=LARGEST_INTEGER,
    ),
    COMMENT,
)

QUEUE_ATTRIBUTES = by_name(
    Field(
        "type",
        "EXCEPTION: only the hub itself enqueues.",
        default="NORMAL",
        choices=("NORMAL", "EXCEPTION"),
        alterable=False,
    ),
    Field(
        "max_retries",
        "Failed attempts to dequeue before a message goes to the exception queue; default 5.",
        int,
        minimum=0,
        maximum=LARGEST_INTEGER,
    ),
    Field("retry_delay", "Seconds that a message waits after a failed attempt.", float, 0, minimum=0),
    Field("retention_time", "Seconds a message is kept after it was consumed, or INFINITE.", float, 0),
    Field("enqueue", "Messages may be enqueued.", bool, True),
    Field("dequeue", "Messages may be dequeued.", bool, True),
    COMMENT,
)

SUBSCRIBER_ATTRIBUTES = by_name(
    Field("rule", "Only messages for which it is true; none: all."),
    Field("transformation", "Transformation applied to its messages when they are dequeued."),
    Field(
        "delivery_mode",
        "Which messages it gets; cannot be changed later.",
        default="PERSISTENT",
        choices=("PERSISTENT", "PERSISTENT_OR_BUFFERED"),
        alterable=False,
    ),
)
