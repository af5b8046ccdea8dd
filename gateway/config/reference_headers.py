"""The page of the reference about headers, from the table of each broker."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable

from mgw.gateway.config.reference_text import cell, page, table
from mgw.links import registry
from mgw.links.contract import LinkSpec
from mgw.transforms.aq_properties import AQ_PROPERTIES, MESSAGE_ID
from mgw.transforms.header_table import Row

__all__ = ["anchor", "headers_page", "rows_of"]

_HEADING = ("In the hub", "At the broker", "Type", "Size", "Direction", "Also filled from", "Conversion", "Loss")


def headers_page() -> str:
    """headers.md: what each property and header of a message is at each broker."""
    parts = [
        "# Headers\n",
        "An application's header keeps its name and its type in the hub and at every broker; so do `traceparent` and "
        "`tracestate`. Names of the hub that begin with `MGW_AMQP_`, `MGW_KAFKA_` or `MGW_MQTT_` belong to a broker. "
        "Standard fields go to the field of the destination; each table says which headers fill it where the "
        "broker's own name is missing, the first of them first. Rules and transformations use the names of the hub.\n",
        "Read is from the broker to the hub, sent is from the hub to the broker. With `header_names: documented` of a "
        "link an application's header `x` is `MGW_AMQP_H_x`, `MGW_KAFKA_H_x` or `MGW_MQTT_U_x` in the hub, and no "
        "field is filled from a header of another broker.\n",
    ]
    for name in registry.types():
        spec = registry.spec(name)
        if rows := rows_of(spec):
            module = importlib.import_module(f"{spec.mapping}.table")
            parts += _section(f"## {spec.title}\n", rows, module.NOTES)
            for title, more, notes in getattr(module, "MORE", ()):
                parts += _section(f"### {title}\n", more, notes)
    return page(parts + _aq_properties())


def _aq_properties() -> list[str]:
    """The reserved names, which are the same at each broker."""
    rows = [
        (
            f"`{each.name}`",
            each.field.replace("_", " "),
            each.kind.name,
            each.range,
            "both" if each.read else "sent",
            each.meaning,
        )
        for each in AQ_PROPERTIES
    ]
    return [
        "## Properties of a message\n",
        "With the job option `AQ_MsgProperties` these travel as headers (RabbitMQ, Kafka) or user properties (MQTT 5), "
        f"`{MESSAGE_ID}` with `PreserveMessageID`; Kafka and MQTT 5 always have it, MQTT 5 as text `AQMSGID:` and 32 "
        "hex digits. A header of that name in the message wins. An inbound job with the option sets the property from "
        "the first header of the name, except that the expiration and the correlation that MQTT 5 has in fields win; "
        "what is only sent stays a header. A header of another type or out of range fails its message, one that is "
        "missing leaves the default. Any whole-number type is read, for times also FLOAT and DOUBLE, and over MQTT "
        "text that is a number. Kafka also has `MGW_AQ_expires_at` (epoch milliseconds) and `MGW_AQ_sender` (JSON, "
        "`name` and `address`), and leaves out what is at its default.\n",
        table(("Name", "Property", "Type", "Range", "Direction", "Meaning"), [tuple(map(cell, row)) for row in rows]),
    ]


def _section(heading: str, rows: Iterable[Row], notes: Iterable[str]) -> list[str]:
    cells = [tuple(map(cell, _row(row))) for row in rows]
    return [heading, table(_HEADING, cells), *(f"* {note}\n" for note in notes)]


def rows_of(spec: LinkSpec) -> tuple[Row, ...]:
    """The table of headers of a messaging system; empty where it has none of its own."""
    if not spec.mapping or not hasattr(importlib.import_module(spec.mapping), "__path__"):
        return ()
    if importlib.util.find_spec(f"{spec.mapping}.table") is None:
        return ()
    rows: tuple[Row, ...] = importlib.import_module(f"{spec.mapping}.table").ROWS
    return rows


def _row(row: Row) -> tuple[str, ...]:
    return (
        row.name if row.of_message else f"`{row.name}`",
        row.field,
        "" if row.kind is None else row.kind.name,
        row.size,
        "both" if row.sent and row.read else "sent" if row.sent else "read" if row.read else "",
        ", ".join(f"`{name}`" for name in row.also),
        row.conversion,
        row.loss,
    )


def anchor(title: str) -> str:
    """Anchor of a heading."""
    return title.lower().replace(" ", "-")
