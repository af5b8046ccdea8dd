"""Every error of the Kafka client becomes one of ours, with object, cause and cure."""

from __future__ import annotations

import inspect

import pytest
from kafka import errors

from links.kafka_client import translate
from transforms.errors import (
    DeliveryRejected,
    LinkError,
    LinkRefused,
    LinkTimeout,
    LinkUnavailable,
    PositionLost,
    QueueMissing,
)

ALL = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, Exception) and kind is not errors.LogTruncationError
]


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_client_error_is_translated(kind: type[Exception]) -> None:
    error = translate(kind("why"), "kf", "publish", "topic t")
    assert isinstance(error, LinkError)
    assert (error.link, error.operation) == ("kf", "publish")
    assert "topic t" in str(error)
    assert kind.__name__ in error.cause
    assert error.cure


@pytest.mark.parametrize(
    ("error", "wanted", "number"),
    [
        (errors.SaslAuthenticationFailedError("no"), LinkRefused, None),
        (errors.UnsupportedSaslMechanismError("no"), LinkRefused, None),
        (errors.TopicAuthorizationFailedError("t"), LinkRefused, None),
        (errors.ClusterAuthorizationFailedError("t"), LinkRefused, None),
        (errors.KafkaConnectionError("Handshake failed: CERTIFICATE_VERIFY_FAILED"), LinkRefused, None),
        (errors.KafkaConnectionError("111 ECONNREFUSED"), LinkUnavailable, None),
        (errors.NodeNotReadyError("1"), LinkUnavailable, None),
        (errors.NotLeaderForPartitionError("1"), LinkUnavailable, None),
        (ConnectionResetError("reset"), LinkUnavailable, None),
        (errors.KafkaTimeoutError("60 s"), LinkTimeout, None),
        (errors.RequestTimedOutError("60 s"), LinkTimeout, None),
        (errors.UnknownTopicOrPartitionError("t"), QueueMissing, 434),
        (errors.MessageSizeTooLargeError("t"), DeliveryRejected, 805),
        (errors.InvalidTimestampError("t"), DeliveryRejected, 805),
        (errors.NotEnoughReplicasError("t"), LinkUnavailable, None),
        (errors.OffsetOutOfRangeError("t"), PositionLost, 415),
        (errors.NoOffsetForPartitionError("t"), PositionLost, 415),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_error_becomes_what_the_engine_acts_on(error: Exception, wanted: type[LinkError], number: int | None) -> None:
    translated = translate(error, "kf", "publish", "topic t")
    assert type(translated) is wanted
    assert translated.number == number
