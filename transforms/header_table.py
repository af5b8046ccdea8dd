"""What the maps of all brokers share about headers: rows of their tables, standard fields, names that keep a prefix.

Each broker has one table (``transforms/amqp/table.py``, ``transforms/kafka/table.py``, ``transforms/mqtt/table.py``).
The maps take the names, types and fields from it; the reference page and the tests are made from it, too.

An application's header keeps its name and its type everywhere. It has a prefix in the hub only where its name would
mean something else without: ``MGW_AMQP_H_content-type`` is a header of that name, not the property.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from mgw.transforms.message import TRAIL, ValueType

__all__ = [
    "AMQP_APPLICATION",
    "AMQP_HOP",
    "AMQP_ROUTING",
    "CONTENT_ENCODING",
    "CONTENT_TYPE",
    "CORRELATION_ID",
    "FIELDS_CONTENT_TYPE",
    "KAFKA_APPLICATION",
    "KEPT",
    "MESSAGE_ID",
    "MQTT_APPLICATION",
    "PLAIN",
    "REPLY_TO",
    "TRACE",
    "Row",
    "bare_name",
    "clean_text",
    "is_clean",
    "others",
    "trail_row",
]

#: Prefixes of an application's headers: in the hub where their name would mean something else, or where the link that
#: brought them says ``header_names: documented``.
AMQP_APPLICATION, KAFKA_APPLICATION, MQTT_APPLICATION = "MGW_AMQP_H_", "MGW_KAFKA_H_", "MGW_MQTT_U_"
_APPLICATION: Final = (AMQP_APPLICATION, KAFKA_APPLICATION, MQTT_APPLICATION)

#: Names of standard fields where a broker has no field for them: those of AMQP, of the CloudEvents bindings, of HTTP.
CONTENT_TYPE, CONTENT_ENCODING = "content-type", "content-encoding"
CORRELATION_ID, REPLY_TO, MESSAGE_ID = "correlation-id", "reply-to", "message-id"
PLAIN: Final = frozenset((CONTENT_TYPE, CONTENT_ENCODING, CORRELATION_ID, REPLY_TO, MESSAGE_ID))

#: Headers of AMQP that are about one hop: the broker or a plugin writes them, nobody sends them on.
AMQP_HOP: Final = frozenset(
    (
        "x-death",
        "x-first-death-exchange",
        "x-first-death-queue",
        "x-first-death-reason",
        "x-last-death-exchange",
        "x-last-death-queue",
        "x-last-death-reason",
        "x-delivery-count",
        "x-acquired-count",
        "x-stream-offset",
    )
)
#: RabbitMQ takes these as routing keys and closes the channel on plain text.
AMQP_ROUTING: Final = frozenset(("CC", "BCC"))
#: Names that keep the prefix of the broker they came from.
KEPT: Final = PLAIN | AMQP_HOP | AMQP_ROUTING

#: W3C trace context: headers like any other, in all three brokers.
TRACE: Final = ("traceparent", "tracestate")

#: Content type of fields as JSON in an MQTT payload; no other broker has that form.
FIELDS_CONTENT_TYPE: Final = "application/vnd.mgw.fields+json"

_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f]")


class Row(NamedTuple):
    """One line of the table of a broker: what something of a message is there.

    Attributes:
        name: header in the hub, or a property of the message where ``of_message`` is true.
        field: of the broker.
        kind: type of the header; None: any.
        size: largest value.
        sent, read: the directions in which it is carried.
        conversion, loss: in words, for the reference.
        key: what the code calls the field.
        also: headers of other brokers, and of the hub, that fill the field where ``name`` is missing; the first wins.
        of_message: ``name`` is no header.
    """

    name: str
    field: str
    kind: ValueType | None = None
    size: str = ""
    sent: bool = True
    read: bool = True
    conversion: str = ""
    loss: str = ""
    key: Any = None
    also: tuple[str, ...] = ()
    of_message: bool = False


def trail_row(field: str) -> Row:
    """The trail of a message, in that field."""
    return Row(
        TRAIL,
        field,
        ValueType.TEXT,
        "24 jobs",
        conversion="the jobs with the option `max_passes` that the message passed, as `JOB@HUB*PASSES`, the last one "
        "at the end",
    )


def others(rows: Iterable[Row]) -> dict[str, tuple[Any, int]]:
    """The headers that fill a field of another name: the code's name of the field, and the rank, the least first."""
    return {name: (row.key, rank) for row in rows for rank, name in enumerate(row.also)}


def bare_name(name: str, own: str) -> str:
    """A header's name as an application gave it: without the prefix of a broker other than ``own``, where it can be.

    The prefix stays where the name would mean something else without it.
    """
    for prefix in _APPLICATION:
        if prefix != own and name.startswith(prefix):
            rest = name[len(prefix) :]
            return name if not rest or rest in KEPT or rest.startswith("MGW_") else rest
    return name


def clean_text(data: bytes) -> str | None:
    """Bytes as text if they are UTF-8 without control characters, else None."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if is_clean(text) else None


def is_clean(text: str) -> bool:
    """Whether text holds no control characters."""
    return text.isprintable() or not _CONTROL.search(text)
