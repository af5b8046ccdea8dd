"""Options of the data source ``mgw`` for writing, checked before Spark plans anything."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from mgw.pipelines.source.options import hub_url, known, number, required
from mgw.transforms.errors import ConfigInvalid

__all__ = ["WriteOptions"]

_KNOWN = ("url", "queue", "query", "user", "maxRowsPerSecond", "removeFrom")
_SPARKS = ("checkpointLocation", "path", "queryName")  # Spark hands its own down, too
_UNNAMED = "write-"
MAX_NAME = 200  # characters
MAX_BATCH = 2**63 - 1
MAX_RATE = 10_000_000


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Where to write, and under what name.

    Attributes:
        url: SQLAlchemy URL of the hub; may hold a password.
        queue: ``[schema.]queue``.
        query: name of the write; what was written under it is known by it.
        unnamed: whether the name was made up.
        batch: number of the batch; None in streams, where Spark numbers them.
        user: user of the hub whose privileges are checked, or None: the owner of the hub.
        rate: rows per second that become messages at most; None: as fast as can be.
        remove_from: exception queues from which the messages with the rows' ``msgid`` are removed, each in the
            transaction in which its row becomes a message.
    """

    url: str = field(repr=False)
    queue: str
    query: str
    unnamed: bool = False
    batch: int | None = None
    user: str | None = None
    rate: int | None = None
    remove_from: tuple[str, ...] = ()

    @classmethod
    def of(cls, options: Mapping[str, str], *, streaming: bool = False) -> WriteOptions:
        """Options as Spark hands them over; their names compare case-insensitively.

        Raises:
            ConfigInvalid: one is missing, unknown or has a value that can never work.
        """
        own = {name: value for name, value in options.items() if name.lower() not in _PASSED}
        known(own, _KNOWN if streaming else (*_KNOWN, "batch"))
        given = {name.lower(): value for name, value in own.items()}
        if not streaming and "batch" in given and not given.get("query"):
            raise ConfigInvalid(
                "option 'batch' is given without 'query'",
                cause="both identify a batch",
                cure="give the write a name: option 'query'",
            )
        query = required(given, "query") if streaming else given.get("query") or _UNNAMED + secrets.token_hex(8)
        if len(query) > MAX_NAME or not query.isprintable() or query != query.strip():
            raise ConfigInvalid(
                f"option 'query' has the value {query[:50]!r}",
                cause=f"a name has at most {MAX_NAME} printable characters and no blanks around them",
                cure="choose another name",
            )
        return cls(
            url=hub_url(given),
            queue=required(given, "queue"),
            query=query,
            unnamed=not given.get("query"),
            batch=None if streaming else _batch(given),
            user=given.get("user") or None,
            rate=number(given, "maxRowsPerSecond", 0, MAX_RATE) or None,
            remove_from=tuple(name.strip() for name in given.get("removefrom", "").split(",") if name.strip()),
        )


_PASSED = {name.lower() for name in _SPARKS}


def _batch(given: Mapping[str, str]) -> int:
    """Batches count from 0, as Spark's do."""
    return 0 if given.get("batch") == "0" else number(given, "batch", 0, MAX_BATCH)
