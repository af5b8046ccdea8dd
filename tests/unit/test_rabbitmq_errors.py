"""What RabbitMQ and the network say, in our words."""

from __future__ import annotations

import socket
import ssl

import pytest
from pika import exceptions
from pika.adapters.utils import connection_workflow as workflow

from mgw.links.contract import LinkConfig
from mgw.links.options import parse
from mgw.links.rabbitmq.errors import translate
from mgw.links.rabbitmq.link import SPEC
from mgw.links.rabbitmq.settings import Settings
from mgw.transforms.errors import DeliveryRejected, LinkError, LinkRefused, LinkTimeout, LinkUnavailable, QueueMissing

CONFIG = LinkConfig("plant", "rabbitmq", {"hostname": "mq.example", "virtual_host": "shop"}, {}, "alice", "s3cret")
SETTINGS = Settings.of(CONFIG, parse(SPEC.attributes, CONFIG.attributes, "x"), parse(SPEC.options, {}, "x"))


def wrapped(error: Exception) -> Exception:
    """As pika wraps what went wrong while connecting."""
    found: Exception = exceptions.AMQPConnectionError(workflow.AMQPConnectorSocketConnectError(error))
    return found


CASES = [
    (wrapped(ConnectionRefusedError(111, "Connection refused")), LinkUnavailable, "nothing listens"),
    (wrapped(socket.gaierror(-2, "Name or service not known")), LinkUnavailable, "'mq.example' is unknown"),
    (wrapped(TimeoutError("timed out")), LinkTimeout, "timed out"),
    (workflow.AMQPConnectorStackTimeout("too long"), LinkTimeout, "does not respond"),
    (workflow.AMQPConnectorTransportSetupError(ssl.SSLError(1, "wrong version")), LinkRefused, "no TLS"),
    (exceptions.ProbableAuthenticationError(), LinkRefused, "user 'alice'"),
    (exceptions.ProbableAccessDeniedError(), LinkRefused, "virtual host 'shop'"),
    (exceptions.IncompatibleProtocolError(), LinkUnavailable, "AMQP 0-9-1"),
    (exceptions.ConnectionBlockedTimeout(), LinkTimeout, "alarm"),
    (exceptions.AMQPHeartbeatTimeout("No activity"), LinkTimeout, "No activity"),
    (exceptions.StreamLostError("gone", ConnectionResetError(104, "reset by peer")), LinkUnavailable, "reset by peer"),
    (exceptions.ConnectionClosedByBroker(403, "ACCESS_REFUSED - Login was refused"), LinkRefused, "refused user"),
    (
        exceptions.ConnectionClosedByBroker(320, "CONNECTION_FORCED - shutdown"),
        LinkUnavailable,
        "closed the connection",
    ),
    (exceptions.ConnectionClosedByBroker(530, "NOT_ALLOWED - vhost shop not found"), LinkRefused, "'shop'"),
    (exceptions.ConnectionClosedByBroker(541, "INTERNAL_ERROR"), LinkUnavailable, "code 541"),
    (exceptions.ChannelClosedByBroker(404, "NOT_FOUND - no queue 'q'"), QueueMissing, "no queue 'q'"),
    (
        exceptions.ChannelClosedByBroker(
            404, "NOT_FOUND - home node 'r@b' of durable queue 'q' is down or inaccessible"
        ),
        LinkUnavailable,
        "a node that is down",
    ),
    (exceptions.ChannelClosedByBroker(406, "PRECONDITION_FAILED - inequivalent arg"), LinkError, "code 406"),
    (exceptions.ChannelClosedByBroker(403, "ACCESS_REFUSED - access to queue"), LinkRefused, "denied"),
    (exceptions.ChannelClosedByBroker(403, "ACCESS_REFUSED - in exclusive use"), LinkUnavailable, "locked"),
    (exceptions.ChannelClosedByBroker(405, "RESOURCE_LOCKED"), LinkUnavailable, "locked"),
    (
        exceptions.ChannelClosedByBroker(406, "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out"),
        LinkTimeout,
        "acknowledgement",
    ),
    (
        exceptions.ChannelClosedByBroker(
            406, "PRECONDITION_FAILED - message size 9 is larger than configured max size"
        ),
        DeliveryRejected,
        "AMQP_MaxMessageSize",
    ),
    (RuntimeError("surprise"), LinkUnavailable, "surprise"),
]


@pytest.mark.parametrize(("error", "kind", "words"), CASES, ids=lambda value: str(value)[:40])
def test_error_names_link_cause_and_cure(error: Exception, kind: type[LinkError], words: str) -> None:
    found = translate(error, "read", SETTINGS)
    assert type(found) is kind
    assert words in str(found)
    assert found.link == "plant"
    assert found.operation == "read"
    assert found.cause
    assert found.cure
    assert (found.number == 434) is (kind is QueueMissing)
    assert "s3cret" not in str(found)
