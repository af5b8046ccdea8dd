"""Names and limits of the transactions of a job, the same with every client."""

from __future__ import annotations

from typing import Final

from mgw.links.contract import JobUse
from mgw.links.kafka.client import Settings
from mgw.transforms.errors import LinkTimeout, LinkUnavailable

__all__ = ["MAY_ASK_FOR_ID", "closed", "silent", "transaction_timeout", "transactional_id"]

_MIN_OPEN: Final = 60_000  # milliseconds a server lets a transaction stay open, at least
_MAX_OPEN: Final = 900_000  # transaction.max.timeout.ms, as servers have it by default
#: Cure where a user may not have a transactional id.
MAY_ASK_FOR_ID: Final = "ask the cluster's administrator to grant WRITE and DESCRIBE on that transactional id"


def transactional_id(settings: Settings, use: JobUse) -> str:
    """Name of the job's transactions in the cluster: the same forever."""
    return f"mgw-{settings.link}-{use.hub_id}-{use.job}"


def transaction_timeout(settings: Settings) -> int:
    """Milliseconds after which a server aborts a transaction that nobody ends."""
    return int(min(_MAX_OPEN, max(_MIN_OPEN, settings.delivery_timeout * 2000)))


def silent(settings: Settings, what: str, cause: str) -> LinkTimeout:
    """A transaction does not get on."""
    return LinkTimeout(
        f"link {settings.link}: {what} has confirmed nothing in time",
        link=settings.link,
        operation="publish",
        cause=f"{cause}; a server is down, or too few replicas are in sync",
        cure="check that the cluster is up and that all its servers can be reached from here",
    )


def closed(settings: Settings, identity: str) -> LinkUnavailable:
    """A producer that takes nothing any more."""
    return LinkUnavailable(
        f"link {settings.link}: the producer {identity} is closed",
        link=settings.link,
        operation="publish",
        cause="it was closed, or failed before",
        cure="connect first",
    )
