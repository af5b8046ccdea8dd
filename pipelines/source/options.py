"""Options of the data source ``mgw`` for reading, checked before Spark plans anything."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from mgw.pipelines.source.columns import COLUMNS, Column, chosen
from mgw.transforms.errors import ConfigInvalid

__all__ = ["HUB_VARIABLE", "SourceOptions", "What", "flag", "hub_url", "known", "number", "required"]

HUB_VARIABLE = "MGW_HUB"
_KNOWN = ("url", "queue", "consumer", "user", "what", "partitions", "columns", "fetchSize")
_KNOWN_STREAM = (*_KNOWN, "stream", "maxRowsPerTrigger", "failOnDataLoss")
MAX_PARTITIONS = 10_000
MAX_FETCH = 1_000_000
MAX_ROWS = 10_000_000


class What(StrEnum):
    """Which messages of the queue a batch reads."""

    MESSAGES = "messages"
    READY = "ready"
    HISTORY = "history"
    EXCEPTIONS = "exceptions"


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What to read, and how.

    Attributes:
        url: SQLAlchemy URL of the hub; may hold a password.
        queue: ``[schema.]queue``.
        consumer: subscriber of a multi-consumer queue, or None: its message rows.
        user: user of the hub whose privileges are checked, or None: the owner of the hub.
        what: which messages.
        partitions: ranges to read side by side.
        columns: what is read, in order.
        fetch_size: rows in a piece that is handed to Spark at most.
        stream: name of the stream in the hub; empty in batch reads.
        max_rows: rows of a micro-batch at most.
        fail_on_data_loss: whether a stream whose messages are gone fails, or continues with what is left.
    """

    url: str = field(repr=False)
    queue: str
    consumer: str | None = None
    user: str | None = None
    what: What = What.MESSAGES
    partitions: int = 2
    columns: tuple[Column, ...] = COLUMNS
    fetch_size: int = 8192
    stream: str = ""
    max_rows: int = 10_000
    fail_on_data_loss: bool = True

    @classmethod
    def of(cls, options: Mapping[str, str], *, streaming: bool = False, partitions: int = 2) -> SourceOptions:
        """Options as Spark hands them over; their names compare case-insensitively.

        Args:
            streaming: for a stream, which must have a name.
            partitions: what is taken where the option is not given.

        Raises:
            ConfigInvalid: one is missing, unknown or has a value that can never work.
        """
        known(options, _KNOWN_STREAM if streaming else _KNOWN)
        given = {name.lower(): value for name, value in options.items()}
        what = given.get("what", What.MESSAGES.value).lower()
        if what not in list(What):
            raise _invalid("what", what, f"one of {', '.join(What)}")
        if streaming and "what" in given:
            raise _invalid("what", what, "not allowed for a stream, which takes the messages that are ready")
        names = [name.strip() for name in given.get("columns", "").split(",") if name.strip()]
        return cls(
            url=hub_url(given),
            queue=required(given, "queue"),
            consumer=given.get("consumer") or None,
            user=given.get("user") or None,
            what=What(what),
            partitions=number(given, "partitions", partitions, MAX_PARTITIONS),
            columns=chosen(names) if names else COLUMNS,
            fetch_size=number(given, "fetchSize", 8192, MAX_FETCH),
            stream=required(given, "stream") if streaming else "",
            max_rows=number(given, "maxRowsPerTrigger", 10_000, MAX_ROWS),
            fail_on_data_loss=flag(given, "failOnDataLoss", True),
        )


def hub_url(options: Mapping[str, str]) -> str:
    """Option ``url``, or what the environment says.

    Raises:
        ConfigInvalid: neither does.
    """
    url = options.get("url") or os.environ.get(HUB_VARIABLE)
    if not url:
        raise ConfigInvalid(
            "no hub is given",
            cause=f"neither option 'url' nor the variable {HUB_VARIABLE} is set",
            cure="say where the hub is: sqlite:///path or postgresql://user@host/database",
        )
    return url


def known(options: Mapping[str, str], names: Iterable[str]) -> None:
    """Refuse options that do not exist; Spark adds ``path`` by itself where it is given.

    Raises:
        ConfigInvalid: one is unknown.
    """
    allowed = {name.lower() for name in names}
    for name in options:
        if name.lower() not in allowed:
            raise ConfigInvalid(
                f"option {name!r} is unknown to the data source mgw",
                cause="it is misspelt, or for another kind of read or write",
                cure=f"use {', '.join(names)}",
            )


def required(options: Mapping[str, str], name: str) -> str:
    """An option that must be there.

    Raises:
        ConfigInvalid: it is not.
    """
    value = options.get(name.lower())
    if not value:
        raise ConfigInvalid(f"option {name!r} is missing", cause="the data source mgw needs it", cure="give it")
    return value


def number(options: Mapping[str, str], name: str, default: int, largest: int) -> int:
    """A whole number from 1 on.

    Raises:
        ConfigInvalid: it is something else.
    """
    text = options.get(name.lower())
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= largest:
        raise _invalid(name, text, f"a whole number from 1 to {largest}")
    return int(text)


def flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    """``true`` or ``false``.

    Raises:
        ConfigInvalid: it is something else.
    """
    text = options.get(name.lower())
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise _invalid(name, text, "true or false")
    return text.lower() == "true"


def _invalid(name: str, value: str, allowed: str) -> ConfigInvalid:
    return ConfigInvalid(
        f"option {name!r} has the value {value!r}", cause="that can never work", cure=f"give {allowed}"
    )
