"""Clients of a Kafka cluster that clean up behind themselves.

Guards against kafka-python 3.0 (each has a test):

* A constructor that cannot bootstrap raises a bare timeout after trying again and again, and leaves its thread and
  sockets behind. :func:`build` remembers why the last connection failed, gives up at once where trying again cannot
  help (password, certificate), and closes what was opened.
* A producer that is garbage collected silences the log of its module for the whole process; ours does not
  (:mod:`mgw.links.kafka.python_client.producer`).
* ``KafkaProducer.close`` does not end its thread when the flush in it times out. :func:`close_producer` does.
* One record whose header name is not UTF-8 makes its batch unreadable
  (:mod:`mgw.links.kafka.python_client.records`).
* The rest is in :mod:`mgw.links.kafka.python_client.network`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

from kafka import KafkaConsumer, KafkaProducer, errors
from kafka.net.sasl.oauth import AbstractTokenProvider

from mgw.links.contract import JobUse
from mgw.links.kafka.errors import translate, unreachable
from mgw.links.kafka.oauth import Tokens
from mgw.links.kafka.python_client.network import DIRECT, NetClient
from mgw.links.kafka.settings import Settings

__all__ = ["build", "close_producer", "consumer_of", "quietly"]

_C = TypeVar("_C")


class _Provider(AbstractTokenProvider):  # type: ignore[misc]
    """What the library asks at each login."""

    def __init__(self, tokens: Tokens) -> None:
        super().__init__()
        self._tokens = tokens

    def token(self) -> str:
        """The token now."""
        return self._tokens.token().value

    def extensions(self) -> dict[str, str]:
        """What the cluster wants in addition."""
        return dict(self._tokens.extensions)


def build(client: Callable[..., _C], settings: Settings, operation: str, **options: Any) -> _C:
    """A connected client object.

    Raises:
        LinkUnavailable, LinkTimeout: no server answered within KAFKA_Bootstrap_timeout_ms.
        LinkRefused: a server refused the login or the TLS handshake.
    """
    made: list[NetClient] = []
    if settings.tokens is not None:
        settings.tokens.token()  # what is wrong is told here; the library would go on trying
        options["sasl_oauth_token_provider"] = _Provider(settings.tokens)

    def make(**configs: Any) -> NetClient:
        made.append(NetClient(**configs))
        return made[-1]

    try:
        return client(kafka_client=make, proxy_url=DIRECT, **{**settings.common, **options})
    except Exception as error:
        failure = made[0].last_failure if made else None
        for net_client in made:
            with contextlib.suppress(Exception):
                net_client.close()
        if isinstance(error, errors.KafkaTimeoutError):
            slow = isinstance(failure, errors.RequestTimedOutError)
            raise unreachable(settings, operation, failure or error, slow=slow) from error
        raise translate(error, settings, operation, "the cluster") from error


def consumer_of(settings: Settings, use: JobUse, *, wait: int) -> KafkaConsumer:
    """A consumer for a job: it reads what is committed, from offsets that the job names, and creates no topic.

    A server may wait ``wait`` milliseconds for records. What is asked meanwhile it answers only then.

    Raises:
        LinkError: see :func:`build`.
    """
    return build(
        KafkaConsumer,
        settings,
        "connect",
        **{**settings.consumer, "fetch_max_wait_ms": wait},
        request_timeout_ms=settings.common["request_timeout_ms"] + wait,
        client_id=settings.client_id(use.job),
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="none",
        isolation_level="read_committed",
        allow_auto_create_topics=False,
        metrics_enabled=False,  # nobody reads them, and each request writes a dozen
    )


def quietly(close: Callable[[], object]) -> None:
    """Run a closing function; what it raises no longer matters to anybody."""
    with contextlib.suppress(Exception):
        close()


def close_producer(producer: KafkaProducer) -> None:
    """End a producer within a few seconds; what it has not sent is dropped."""
    sender = producer._sender
    quietly(sender.force_close)
    quietly(lambda: sender.join(3.0))
    quietly(lambda: producer.close(timeout=0))
