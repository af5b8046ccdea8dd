"""What the errors of librdkafka mean. A code above 0 is the answer of a server, one below 0 librdkafka's own."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError, KafkaException

from mgw.links.kafka.client import Failure, Kind

__all__ = ["OffsetLost", "code_of", "failure_of", "is_answer"]

E: Final = KafkaError
_KINDS: Final[dict[int, Kind]] = {
    code: kind
    for kind, codes in {
        Kind.FENCED: (E._FENCED, E.PRODUCER_FENCED, E.INVALID_PRODUCER_EPOCH),
        Kind.LOGIN: (E._AUTHENTICATION, E.SASL_AUTHENTICATION_FAILED),
        Kind.MECHANISM: (E.UNSUPPORTED_SASL_MECHANISM, E.ILLEGAL_SASL_STATE, E.SECURITY_DISABLED),
        Kind.FORBIDDEN: (
            E.TOPIC_AUTHORIZATION_FAILED,
            E.CLUSTER_AUTHORIZATION_FAILED,
            E.GROUP_AUTHORIZATION_FAILED,
            E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        Kind.TLS: (E._SSL,),
        Kind.LOST: (E._AUTO_OFFSET_RESET, E._NO_OFFSET, E._LOG_TRUNCATION, E.OFFSET_OUT_OF_RANGE),
        Kind.MISSING: (
            E._UNKNOWN_TOPIC,
            E._UNKNOWN_PARTITION,
            E.UNKNOWN_TOPIC_OR_PART,
            E.UNKNOWN_TOPIC_ID,
            E.TOPIC_EXCEPTION,
        ),
        Kind.TOO_LARGE: (E.MSG_SIZE_TOO_LARGE, E.RECORD_LIST_TOO_LARGE),
        Kind.TIMESTAMP: (E.INVALID_TIMESTAMP,),
        Kind.REJECTED: (
            E.INVALID_RECORD,
            E.POLICY_VIOLATION,
            E.INVALID_REQUIRED_ACKS,
            E.UNSUPPORTED_COMPRESSION_TYPE,
        ),
        Kind.REPLICAS: (E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS_AFTER_APPEND, E._ISR_INSUFF),
        Kind.TIMEOUT: (E._TIMED_OUT, E._MSG_TIMED_OUT, E._TIMED_OUT_QUEUE, E.REQUEST_TIMED_OUT),
        Kind.UNREACHABLE: (E._TRANSPORT, E._ALL_BROKERS_DOWN, E._RESOLVE, E.BROKER_NOT_AVAILABLE),
        Kind.VERSION: (E.UNSUPPORTED_VERSION, E._UNSUPPORTED_FEATURE),
        Kind.EXISTS: (E.TOPIC_ALREADY_EXISTS,),
        Kind.PASSING: (
            E.INVALID_MSG,
            E.LEADER_NOT_AVAILABLE,
            E.NOT_LEADER_FOR_PARTITION,
            E.REPLICA_NOT_AVAILABLE,
            E.NETWORK_EXCEPTION,
            E.COORDINATOR_LOAD_IN_PROGRESS,
            E.COORDINATOR_NOT_AVAILABLE,
            E.NOT_COORDINATOR,
            E.NOT_CONTROLLER,
            E.CONCURRENT_TRANSACTIONS,
            E.KAFKA_STORAGE_ERROR,
            E.FENCED_LEADER_EPOCH,
            E.UNKNOWN_LEADER_EPOCH,
            E.OFFSET_NOT_AVAILABLE,
            E.PREFERRED_LEADER_NOT_AVAILABLE,
            E.THROTTLING_QUOTA_EXCEEDED,
            E._NOENT,  # no server leads a partition
            E._WAIT_COORD,
            E._RETRY,
        ),
    }.items()
    for code in codes
}
_OF_A_MESSAGE: Final = (
    E.MSG_SIZE_TOO_LARGE,
    E.RECORD_LIST_TOO_LARGE,
    E.INVALID_RECORD,
    E.INVALID_MSG,
    E.POLICY_VIOLATION,
)
#: Answers about the producer or its transaction, not about what it sends.
_OF_THE_PRODUCER: Final = (
    E.PRODUCER_FENCED,
    E.INVALID_PRODUCER_EPOCH,
    E.OUT_OF_ORDER_SEQUENCE_NUMBER,
    E.DUPLICATE_SEQUENCE_NUMBER,
    E.UNKNOWN_PRODUCER_ID,
    E.INVALID_TXN_STATE,
    E.INVALID_PRODUCER_ID_MAPPING,
    E.TRANSACTION_COORDINATOR_FENCED,
    E.TRANSACTION_ABORTABLE,
)
_PASSING: Final = (Kind.PASSING, Kind.TIMEOUT, Kind.REPLICAS, Kind.UNREACHABLE)
_UNKNOWN_ON_SERVER: Final = (E.UNKNOWN_TOPIC_OR_PART, E.UNKNOWN_TOPIC_ID)


class OffsetLost(KafkaException):  # type: ignore[misc]
    """An offset that the log does not hold."""

    def __init__(self, error: KafkaError, partition: int, offset: int) -> None:
        super().__init__(error)
        self.place = (partition, offset)


def code_of(error: BaseException | None) -> KafkaError | None:
    """The error of the library that an exception carries."""
    first = error.args[0] if isinstance(error, KafkaException) and error.args else None
    return first if isinstance(first, KafkaError) else None


def failure_of(error: BaseException) -> Failure:
    """See :meth:`mgw.links.kafka.client.Client.failure`."""
    found = code_of(error)
    if found is None:
        name, text = type(error).__name__, str(error)
        kind = Kind.UNREACHABLE if isinstance(error, OSError) else Kind.OTHER
        return Failure(kind, name, f"{name}: {text}" if text and name not in text else text or name)
    code = found.code()
    kind = _KINDS.get(code, Kind.PASSING if found.retriable() else Kind.OTHER)
    text = found.str()
    if kind is Kind.LOGIN and "mechanism" in text:
        kind = Kind.MECHANISM
    elif code == E._TRANSPORT and "SSL" in text:  # the listener does not speak TLS, or ends it
        kind = Kind.TLS
    lost = error.place if isinstance(error, OffsetLost) else None
    return Failure(kind, found.name(), f"{found.name()}: {text}", is_answer(error), code in _OF_A_MESSAGE, lost)


def is_answer(error: BaseException | None) -> bool:
    """Whether a server answered this about what it was sent, for good."""
    found = code_of(error)
    if found is None:
        return False
    code = found.code()
    passing = _KINDS.get(code) in _PASSING or code in _UNKNOWN_ON_SERVER or found.retriable()
    return (code > 0 or code == E.UNKNOWN) and not passing and code not in _OF_THE_PRODUCER
