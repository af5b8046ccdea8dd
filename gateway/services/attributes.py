"""What the attributes of objects mean, for faces: described once, below, where the objects are."""

from __future__ import annotations

from mgw.gateway.aq import QUEUE_ATTRIBUTES, QUEUE_TABLE_ATTRIBUTES, SUBSCRIBER_ATTRIBUTES
from mgw.gateway.definitions.attributes import (
    AGENT_ATTRIBUTES,
    FOREIGN_QUEUE_ATTRIBUTES,
    JOB_ATTRIBUTES,
    LINK_ATTRIBUTES,
    OUTBOUND_SCHEDULE_ATTRIBUTES,
)
from mgw.links.contract import Field as Attribute

__all__ = [
    "AGENT_ATTRIBUTES",
    "FOREIGN_QUEUE_ATTRIBUTES",
    "JOB_ATTRIBUTES",
    "LINK_ATTRIBUTES",
    "OUTBOUND_SCHEDULE_ATTRIBUTES",
    "QUEUE_ATTRIBUTES",
    "QUEUE_TABLE_ATTRIBUTES",
    "SUBSCRIBER_ATTRIBUTES",
    "Attribute",
    "meaning",
]

#: A larger bound is that of the column and tells nobody anything.
_UNLIMITED = 2**31 - 1


def meaning(attribute: Attribute) -> str:
    """What an attribute means and which numbers it may have, as plain text."""
    text = attribute.description.replace("`", "")
    least, most = attribute.minimum or None, attribute.maximum  # that a number is not negative goes without saying
    if most is not None and most < _UNLIMITED:
        return f"{text} {attribute.minimum or 0:g} to {most:.10g}."
    return text if least is None else f"{text} At least {least:g}."
