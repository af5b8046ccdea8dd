"""What the errors of kafka-python mean."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from typing import Final

from kafka import errors

from mgw.links.kafka.client import Failure, Kind
from mgw.links.kafka.python_client.network import HANDSHAKE_FAILED
from mgw.links.tls import alert_in

__all__ = ["FENCED", "failure_of", "is_answer"]

FENCED: Final = (errors.ProducerFencedError, errors.InvalidProducerEpochError)
_NO_ANSWER: Final = (errors.KafkaTimeoutError, errors.RequestTimedOutError)
_TOO_LARGE = (errors.MessageSizeTooLargeError, errors.RecordListTooLargeError)
_OF_A_MESSAGE = (*_TOO_LARGE, errors.InvalidRecordError, errors.CorruptRecordError, errors.PolicyViolationError)
#: Answers about the producer or its transaction, not about what it sends.
_OF_THE_PRODUCER = (
    *FENCED,
    errors.OutOfOrderSequenceNumberError,
    errors.DuplicateSequenceNumberError,
    errors.UnknownProducerIdError,
    errors.InvalidTxnStateError,
    errors.InvalidProducerIdMappingError,
    errors.TransactionCoordinatorFencedError,
    errors.TransactionAbortedError,
)
#: The first line that fits counts.
_KINDS: Final[Sequence[tuple[tuple[type[BaseException], ...], Kind]]] = (
    (FENCED, Kind.FENCED),
    ((errors.SaslAuthenticationFailedError,), Kind.LOGIN),
    (
        (errors.UnsupportedSaslMechanismError, errors.IllegalSaslStateError, errors.SecurityDisabledError),
        Kind.MECHANISM,
    ),
    ((errors.AuthorizationError,), Kind.FORBIDDEN),
    ((errors.OffsetOutOfRangeError, errors.NoOffsetForPartitionError, errors.LogTruncationError), Kind.LOST),
    ((errors.UnknownTopicOrPartitionError, errors.UnknownTopicIdError, errors.InvalidTopicError), Kind.MISSING),
    (_TOO_LARGE, Kind.TOO_LARGE),
    ((errors.InvalidTimestampError,), Kind.TIMESTAMP),
    (
        (
            errors.InvalidRecordError,
            errors.PolicyViolationError,
            errors.InvalidRequiredAcksError,
            errors.UnsupportedCompressionTypeError,
        ),
        Kind.REJECTED,
    ),
    ((errors.NotEnoughReplicasError, errors.NotEnoughReplicasAfterAppendError), Kind.REPLICAS),
    (_NO_ANSWER, Kind.TIMEOUT),
    ((errors.UnsupportedCodecError,), Kind.CODEC),
    (
        (errors.KafkaConnectionError, errors.NodeNotReadyError, errors.BrokerNotAvailableError, OSError),
        Kind.UNREACHABLE,
    ),
    ((errors.UnsupportedVersionError, errors.UnrecognizedBrokerVersion), Kind.VERSION),
    ((errors.TopicAlreadyExistsError,), Kind.EXISTS),
    ((errors.RetriableError,), Kind.PASSING),
)


#: How the library tells that a request of a transaction got no answer: it quotes the error that it had.
_QUOTED: Final = re.compile(r"Could not execute transactional request for unknown reasons: (?:\[Error \d+\] )?(\w+)")


def failure_of(error: BaseException) -> Failure:
    """See :meth:`mgw.links.kafka.client.Client.failure`."""
    message = isinstance(error, _OF_A_MESSAGE)
    kind, cause = _kind(error), _named(error)
    if kind is Kind.OTHER and (quoted := _QUOTED.search(cause)) and quoted[1] in {each.__name__ for each in _NO_ANSWER}:
        kind, cause = Kind.TIMEOUT, cause[quoted.start(1) :]
    return Failure(kind, type(error).__name__, cause, is_answer(error), message, _lost(error))


def _lost(error: BaseException) -> tuple[int, int] | None:
    if isinstance(error, errors.OffsetOutOfRangeError):
        with contextlib.suppress(Exception):
            part, offset = next(iter(error.args[0].items()))
            return part.partition, offset
    return None


def _kind(error: BaseException) -> Kind:
    if HANDSHAKE_FAILED in str(error) or alert_in(str(error)):
        return Kind.TLS
    return next((kind for kinds, kind in _KINDS if isinstance(error, kinds)), Kind.OTHER)


def _named(error: BaseException) -> str:
    """Its text, with its kind once."""
    kind, text = type(error).__name__, str(error)
    return text if kind in text else f"{kind}: {text}" if text else kind


def is_answer(error: BaseException | None) -> bool:
    """Whether a server answered this about what it was sent, for good."""
    return isinstance(error, errors.BrokerResponseError) and not isinstance(
        error, (errors.RetriableError, *_OF_THE_PRODUCER)
    )
