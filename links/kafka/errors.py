"""Errors of a Kafka client in the gateway's terms."""

from __future__ import annotations

from typing import Final

from mgw.links.kafka.client import Kind
from mgw.links.kafka.settings import Settings
from mgw.links.kafka.tls import handshake_cure
from mgw.transforms.errors import (
    DeliveryRejected,
    LinkError,
    LinkRefused,
    LinkTimeout,
    LinkUnavailable,
    PositionLost,
    QueueMissing,
)
from mgw.transforms.open_files import shortage

__all__ = ["translate", "unreachable"]

#: The next attempt to connect will meet these again.
_HOPELESS: Final = (Kind.LOGIN, Kind.MECHANISM, Kind.FORBIDDEN, Kind.TLS)
_REACH: Final = "check that the cluster is up and that all its servers can be reached from here"
_MEANING: Final[dict[Kind, tuple[type[LinkError], str]]] = {
    Kind.FENCED: (LinkError, "make sure that only one process runs this job; what was not committed is sent again"),
    Kind.LOGIN: (
        LinkRefused,
        "set the link's username and password, and the sasl_mechanism for which the cluster knows them",
    ),
    Kind.MECHANISM: (LinkRefused, "set sasl_mechanism and security_protocol to what this listener offers"),
    Kind.FORBIDDEN: (LinkRefused, "ask the cluster's administrator to grant the link's user access"),
    Kind.LOST: (
        PositionLost,
        "find out which messages are missing, then run mgw agents cleanup RESET_SUB_MISSING_MESSAGE JOB",
    ),
    Kind.MISSING: (QueueMissing, "create the topic, or register the foreign queue with the right provider_queue"),
    Kind.TOO_LARGE: (DeliveryRejected, "raise max.message.bytes of the topic, or send smaller messages"),
    Kind.TIMESTAMP: (DeliveryRejected, "see the cause; the topic's configuration refuses it"),
    Kind.REJECTED: (DeliveryRejected, "see the cause; the topic's configuration refuses it"),
    Kind.REPLICAS: (LinkUnavailable, "start the servers that are down, or lower min.insync.replicas of the topic"),
    Kind.TIMEOUT: (LinkTimeout, _REACH),
    Kind.CODEC: (LinkError, "install the Python package of that compression (lz4, python-snappy, zstandard)"),
    Kind.UNREACHABLE: (LinkUnavailable, _REACH),
    Kind.VERSION: (LinkError, "use a Kafka server of release 0.11 or later"),
    Kind.PASSING: (LinkUnavailable, "nothing, if it does not last; otherwise check the cluster"),
}
_UNKNOWN: Final = (LinkError, "check the cause; if the failure persists, report it")


def unreachable(settings: Settings, operation: str, cause: BaseException, *, slow: bool = False) -> LinkError:
    """None of the servers could be reached; ``slow``: one took the connection and did not answer."""
    if settings.client.failure(cause).kind in _HOPELESS:
        return translate(cause, settings, operation, "the cluster")
    if found := shortage(cause):
        return _no_file(settings.link, operation, found)
    kind = LinkTimeout if slow else LinkUnavailable
    return kind(
        f"link {settings.link}: no Kafka server answers at {', '.join(settings.servers)}",
        link=settings.link,
        operation=operation,
        cause=_unanswered(settings, cause),
        cure="check bootstrap_servers, that the cluster runs, and that security_protocol is what this listener speaks",
    )


def _unanswered(settings: Settings, error: BaseException) -> str:
    text = str(error)
    if not text:
        return "the connection was closed before the first answer"
    if "ECONNREFUSED" in text or "Connection refused" in text:
        return "nothing listens there (connection refused)"
    return settings.client.failure(error).cause


def translate(error: BaseException, settings: Settings, operation: str, what: str) -> LinkError:
    """A client error in the gateway's terms; the only place that knows both. ``what`` names topic or partition."""
    if isinstance(error, LinkError):
        return error
    link, failure = settings.link, settings.client.failure(error)
    kind, cure = _MEANING.get(failure.kind, _UNKNOWN)
    if failure.kind is Kind.TLS:
        kind, cure = LinkRefused, handshake_cure(failure.cause)
    if found := shortage(error, guess=kind in {LinkUnavailable, LinkTimeout}):
        return _no_file(link, operation, found)
    number = {PositionLost: 415, QueueMissing: 434, DeliveryRejected: 805}.get(kind)
    happened = "was fenced by another process of this job" if failure.kind is Kind.FENCED else "failed"
    return kind(
        f"link {link}: {operation} of {what} {happened}",
        link=link,
        operation=operation,
        cause=failure.cause,
        cure=cure,
        number=number,
    )


def _no_file(link: str, operation: str, shortage: tuple[str, str]) -> LinkError:
    cause, cure = shortage
    what = f"link {link}: no connection to the cluster can be opened"
    return LinkUnavailable(what, link=link, operation=operation, cause=cause, cure=cure)
