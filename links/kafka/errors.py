"""Errors of the Kafka client in the gateway's terms."""

from __future__ import annotations

from collections.abc import Sequence

from kafka import errors

from mgw.links.kafka.network import HANDSHAKE_FAILED, HOPELESS
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

__all__ = ["FENCED", "MISSING", "translate", "unreachable"]

#: Another producer with the same transactional id came later.
FENCED = (errors.ProducerFencedError, errors.InvalidProducerEpochError)
_LOST = (errors.OffsetOutOfRangeError, errors.NoOffsetForPartitionError, errors.LogTruncationError)
MISSING = (errors.UnknownTopicOrPartitionError, errors.UnknownTopicIdError, errors.InvalidTopicError)


_TOO_LARGE = (errors.MessageSizeTooLargeError, errors.RecordListTooLargeError)
_REJECTED = (
    *_TOO_LARGE,
    errors.InvalidRecordError,
    errors.InvalidTimestampError,
    errors.PolicyViolationError,
    errors.InvalidRequiredAcksError,
    errors.UnsupportedCompressionTypeError,
)
_REPLICAS = (errors.NotEnoughReplicasError, errors.NotEnoughReplicasAfterAppendError)
_TIMEOUTS = (errors.KafkaTimeoutError, errors.RequestTimedOutError)


def unreachable(settings: Settings, operation: str, cause: BaseException) -> LinkError:
    """None of the servers could be reached."""
    if isinstance(cause, HOPELESS) or _is_tls(cause):
        return translate(cause, settings.link, operation, "the cluster")
    if found := shortage(cause):
        return _no_file(settings.link, operation, found)
    kind = LinkTimeout if isinstance(cause, errors.RequestTimedOutError) else LinkUnavailable
    return kind(
        f"link {settings.link}: no Kafka server answers at {', '.join(settings.servers)}",
        link=settings.link,
        operation=operation,
        cause=_unanswered(cause),
        cure="check bootstrap_servers, that the cluster runs, and that security_protocol is what this listener speaks",
    )


def _unanswered(error: BaseException) -> str:
    if not str(error):
        return "the connection was closed before the first answer"
    return "nothing listens there (connection refused)" if "ECONNREFUSED" in str(error) else _named(error)


def _named(error: BaseException) -> str:
    """Its text, with its kind once."""
    kind, text = type(error).__name__, str(error)
    return text if kind in text else f"{kind}: {text}" if text else kind


def _is_tls(error: BaseException) -> bool:
    return HANDSHAKE_FAILED in str(error)


def translate(error: BaseException, link: str, operation: str, what: str) -> LinkError:
    """A client error in the gateway's terms; the only place that knows both. ``what`` names topic or partition."""
    if isinstance(error, LinkError):
        return error
    kind, cure = _classify(error)
    if found := shortage(error, guess=kind in {LinkUnavailable, LinkTimeout}):
        return _no_file(link, operation, found)
    number = {PositionLost: 415, QueueMissing: 434, DeliveryRejected: 805}.get(kind)
    happened = "was fenced by another process of this job" if isinstance(error, FENCED) else "failed"
    return kind(
        f"link {link}: {operation} of {what} {happened}",
        link=link,
        operation=operation,
        cause=_named(error),
        cure=cure,
        number=number,
    )


def _no_file(link: str, operation: str, shortage: tuple[str, str]) -> LinkError:
    cause, cure = shortage
    what = f"link {link}: no connection to the cluster can be opened"
    return LinkUnavailable(what, link=link, operation=operation, cause=cause, cure=cure)


def _classify(error: BaseException) -> tuple[type[LinkError], str]:
    table: Sequence[tuple[tuple[type[BaseException], ...], type[LinkError], str]] = (
        (
            FENCED,
            LinkError,
            "make sure that only one process runs this job; what was not committed is sent again",
        ),
        (
            (errors.SaslAuthenticationFailedError,),
            LinkRefused,
            "set the link's username and password, and the sasl_mechanism for which the cluster knows them",
        ),
        (
            (errors.UnsupportedSaslMechanismError, errors.IllegalSaslStateError, errors.SecurityDisabledError),
            LinkRefused,
            "set sasl_mechanism and security_protocol to what this listener offers",
        ),
        ((errors.AuthorizationError,), LinkRefused, "ask the cluster's administrator to grant the link's user access"),
        (
            _LOST,
            PositionLost,
            "find out which messages are missing, then run mgw agents cleanup RESET_SUB_MISSING_MESSAGE JOB",
        ),
        (MISSING, QueueMissing, "create the topic, or register the foreign queue with the right provider_queue"),
        (_TOO_LARGE, DeliveryRejected, "raise max.message.bytes of the topic, or send smaller messages"),
        (_REJECTED, DeliveryRejected, "see the cause; the topic's configuration refuses it"),
        (_REPLICAS, LinkUnavailable, "start the servers that are down, or lower min.insync.replicas of the topic"),
        (_TIMEOUTS, LinkTimeout, "check that the cluster is up and that all its servers can be reached from here"),
        (
            (errors.UnsupportedCodecError,),
            LinkError,
            "install the Python package of that compression (lz4, python-snappy, zstandard)",
        ),
        (
            (errors.KafkaConnectionError, errors.NodeNotReadyError, errors.BrokerNotAvailableError, OSError),
            LinkUnavailable,
            "check that the cluster is up and that all its servers can be reached from here",
        ),
        (
            (errors.UnsupportedVersionError, errors.UnrecognizedBrokerVersion),
            LinkError,
            "use a Kafka server of release 0.11 or later",
        ),
        ((errors.RetriableError,), LinkUnavailable, "nothing, if it does not last; otherwise check the cluster"),
    )
    if _is_tls(error):
        return LinkRefused, handshake_cure(str(error))
    for kinds, kind, cure in table:
        if isinstance(error, kinds):
            return kind, cure
    return LinkError, "check the cause; if the failure persists, report it"
