"""Options of queue tables and of subscribers, each described once.

A queue table and a subscriber keep their options as one JSON text. The procedures, the configuration file with its
schema, linter, plan and export, the command line and the reference page take them from here: a new one is a description
here, and the code that obeys it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mgw.links.contract import Field
from mgw.links.options import merged, parse_value
from mgw.transforms.errors import AqError, ConfigInvalid

__all__ = ["QUEUE_TABLE_OPTIONS", "SUBSCRIBER_OPTIONS", "changed_options", "number_of", "read_options"]

#: What a queue table may be given in addition to its attributes; all can be altered, and count within ten seconds.
QUEUE_TABLE_OPTIONS = (
    Field(
        "age_warning",
        "Seconds for which a message of its queues may be READY before running agents warn of it, in the log "
        "and in `MGW_EVENTS`; not set: never.",
        float,
        None,
        dynamic=True,
        minimum=1,
    ),
)

#: What a subscriber may be given in addition to rule and transformation.
SUBSCRIBER_OPTIONS = (
    Field(
        "age_warning",
        "The same for messages that wait for this subscriber; not set: as in the queue table.",
        float,
        None,
        dynamic=True,
        minimum=1,
    ),
)


def changed_options(
    fields: Sequence[Field], held: Mapping[str, str], given: Mapping[str, Any] | None, owner: str
) -> str:
    """The text to store: ``given`` merged into ``held``; a value of None removes an option, ``*`` with None all.

    Raises:
        AqError: an option is unknown, or has a value that it cannot have.
    """
    try:
        return json.dumps(merged(fields, held, given or {}, owner))
    except ConfigInvalid as error:
        raise AqError(error.what, cause=error.cause, cure=error.cure) from error


def read_options(text: str) -> dict[str, str]:
    """The options in a stored text, names as they are documented."""
    return dict(json.loads(text))


def number_of(fields: Sequence[Field], options: Mapping[str, str], name: str) -> float | None:
    """An option whose value is a number; None where it has none."""
    field = next(each for each in fields if each.name == name)
    value = options.get(name, field.default)
    return None if value is None else float(parse_value(field, value, name))
