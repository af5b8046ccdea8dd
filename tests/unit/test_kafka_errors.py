"""Every error of the Kafka client becomes one of ours, with object, cause and cure."""

from __future__ import annotations

import inspect
import logging

import pytest
from kafka import errors

from mgw.links.kafka.errors import translate, unreachable
from mgw.links.kafka.python_client.client import CLIENT
from mgw.links.kafka.settings import Settings
from mgw.transforms.errors import (
    DeliveryRejected,
    LinkError,
    LinkRefused,
    LinkTimeout,
    LinkUnavailable,
    PositionLost,
    QueueMissing,
)

SETTINGS = Settings("kf", CLIENT, ("127.0.0.1:1",), {}, {}, {}, None, 1.0)
ALL = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, Exception) and kind is not errors.LogTruncationError
]


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_client_error_is_translated(kind: type[Exception]) -> None:
    error = translate(kind("why"), SETTINGS, "publish", "topic t")
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
    translated = translate(error, SETTINGS, "publish", "topic t")
    assert type(translated) is wanted
    assert translated.number == number


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (errors.KafkaConnectionError("111 ECONNREFUSED"), "nothing listens there (connection refused)"),
        (errors.KafkaConnectionError("110 ETIMEDOUT"), "KafkaConnectionError: 110 ETIMEDOUT"),
        (ConnectionResetError(), "the connection was closed before the first answer"),
    ],
)
def test_servers_that_cannot_be_reached_are_named_with_the_cause_once(error: Exception, cause: str) -> None:
    assert unreachable(SETTINGS, "connect", error).cause == cause


def test_a_transaction_without_an_answer_is_told_as_the_silence_it_is() -> None:
    """The library quotes the error of the connection in one of its own, of which nobody knows what to do."""
    quoted = "Could not execute transactional request for unknown reasons: "
    silent = translate(
        errors.KafkaError(f"{quoted}{errors.RequestTimedOutError('after 9999 ms')}"), SETTINGS, "publish", "t"
    )
    assert (type(silent), silent.cause) == (LinkTimeout, "RequestTimedOutError: after 9999 ms")
    assert silent.cure == "check that the cluster is up and that all its servers can be reached from here"
    other = translate(errors.KafkaError(f"{quoted}ValueError: odd"), SETTINGS, "publish", "t")
    assert (type(other), other.cause) == (LinkError, f"KafkaError: {quoted}ValueError: odd")


def test_what_the_job_says_itself_is_no_warning_of_the_client(caplog: pytest.LogCaptureFixture) -> None:
    for name, text in {
        "kafka.net.manager": "Bootstrap connection failed",
        "kafka.net.connection": "Connection failed",
        "kafka.net.transport": "%s: Error receiving network data closing socket",
        "kafka.cluster": "Metadata refresh: failed %s",
        "kafka.producer.sender": "%s: Got an exception when trying to find a node to send a transactional request to.",
    }.items():
        caplog.set_level(logging.INFO, logger=name)
        logging.getLogger(name).warning(text)
        logging.getLogger(name).error(text)
    assert len(caplog.records) == 10
    assert {record.levelname for record in caplog.records} == {"INFO"}


def test_other_warnings_of_the_client_stay_warnings(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("kafka.cluster").warning("Topic %s is not available during auto-create", "t")
    logging.getLogger("kafka.producer.sender").warning("%s: Got %s on topic-partition %s", "a", "b", "c")
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
