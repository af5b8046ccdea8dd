"""Clients of a Kafka cluster that clean up behind themselves, and what the cluster says of a topic.

Guards against kafka-python 3.0 (each has a test):

* A constructor that cannot bootstrap raises a bare timeout after trying again and again, and leaves its thread and
  sockets behind. :func:`build` remembers why the last connection failed, gives up at once where trying again cannot
  help (password, certificate), and closes what was opened.
* A producer that is garbage collected silences the log of its module for the whole process. :class:`Producer` does not.
* ``KafkaProducer.close`` does not end its thread when the flush in it times out. :func:`close_producer` does.
* One record whose header name is not UTF-8 makes its batch unreadable: see :mod:`mgw.links.kafka.records`.
* The rest is in :mod:`mgw.links.kafka.network`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, errors
from kafka.admin import ConfigResource, ConfigResourceType

from mgw.links.contract import Direction, JobUse
from mgw.links.kafka.errors import MISSING, translate, unreachable
from mgw.links.kafka.network import NetClient
from mgw.links.kafka.settings import Settings
from mgw.transforms.errors import (
    LinkError,
    LinkRefused,
    QueueMissing,
)

__all__ = ["Producer", "Topic", "build", "close_producer", "consumer_of", "describe", "quietly"]

_C = TypeVar("_C")


class Producer(KafkaProducer):  # type: ignore[misc]
    """The client's producer, without silencing the log of its module when it is collected."""

    def close(self, timeout: float | None = None, null_logger: bool = False) -> None:  # noqa: ARG002
        """As in the client; ``null_logger`` is ignored."""
        super().close(timeout=timeout, null_logger=False)


def build(client: Callable[..., _C], settings: Settings, operation: str, **options: Any) -> _C:
    """A connected client object.

    Raises:
        LinkUnavailable, LinkTimeout: no server answered within KAFKA_Bootstrap_timeout_ms.
        LinkRefused: a server refused the login or the TLS handshake.
    """
    made: list[NetClient] = []

    def make(**configs: Any) -> NetClient:
        made.append(NetClient(**configs))
        return made[-1]

    try:
        return client(kafka_client=make, **{**settings.common, **options})
    except Exception as error:
        failure = made[0].last_failure if made else None
        for net_client in made:
            with contextlib.suppress(Exception):
                net_client.close()
        if isinstance(error, errors.KafkaTimeoutError):
            raise unreachable(settings, operation, failure or error) from error
        raise translate(error, settings.link, operation, "the cluster") from error


def consumer_of(settings: Settings, use: JobUse) -> KafkaConsumer:
    """A consumer for a job: it reads what is committed, from offsets that the job names, and creates no topic.

    Raises:
        LinkError: see :func:`build`.
    """
    return build(
        KafkaConsumer,
        settings,
        "connect",
        **settings.consumer,
        client_id=settings.client_id(use.job),
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="none",
        isolation_level="read_committed",
        allow_auto_create_topics=False,
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


@dataclass(frozen=True, slots=True)
class Topic:
    """What the cluster says about a topic."""

    name: str
    cluster_id: str
    topic_id: str  # "" where the cluster is too old to have one
    partitions: tuple[int, ...]
    config: Mapping[str, str] | None  # None where we may not read it
    replicas: int = 1  # of the partition that has the fewest


def describe(settings: Settings, name: str, operation: str, direction: Direction | None) -> Topic:
    """Ask for a topic without ever creating it, also where the cluster creates topics on first use. ``direction`` None:
    it is only looked at.

    Raises:
        QueueMissing: there is no such topic, or we may not see it.
        LinkRefused: we may see it but not read (write) it.
        LinkUnavailable, LinkTimeout: the cluster does not answer.
    """
    admin = build(KafkaAdminClient, settings, operation)
    try:
        return _describe(admin, settings, name, operation, direction)
    except LinkError:
        raise
    except Exception as error:
        raise translate(error, settings.link, operation, f"topic {name}") from error
    finally:
        quietly(admin.close)


def _describe(admin: Any, settings: Settings, name: str, operation: str, direction: Direction | None) -> Topic:
    found = admin.describe_topics([name])[0]
    code = found["error_code"]
    if code:
        error = errors.for_code(code)
        if issubclass(error, MISSING):
            raise QueueMissing(
                f"link {settings.link}: topic {name} does not exist",
                link=settings.link,
                operation=operation,
                cause=f"the cluster answers {error.__name__}",
                cure="create the topic, or register the foreign queue with the right provider_queue",
                number=434,
            )
        raise error(name)
    if direction is not None:
        _check_permission(settings, found, direction, operation)
    return Topic(
        name=name,
        cluster_id=str(admin.describe_cluster()["cluster_id"] or ""),
        topic_id=str(found["topic_id"] or ""),
        partitions=tuple(sorted(part["partition_index"] for part in found["partitions"])),
        config=_read_config(admin, name),
        replicas=min((len(part["replica_nodes"]) for part in found["partitions"]), default=1),
    )


def _check_permission(settings: Settings, found: Mapping[str, Any], direction: Direction, operation: str) -> None:
    needed = "READ" if direction is Direction.INBOUND else "WRITE"
    allowed = found.get("authorized_operations") or ()
    if allowed and needed not in allowed:
        raise LinkRefused(
            f"link {settings.link}: topic {found['name']} may not be used",
            link=settings.link,
            operation=operation,
            cause=f"the user has {', '.join(allowed)} on it, not {needed}",
            cure=f"ask the cluster's administrator to grant {needed} on the topic",
        )


def _read_config(admin: Any, name: str) -> Mapping[str, str] | None:
    try:
        answer = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)], config_filter="all")
    except (errors.AuthorizationError, errors.UnsupportedVersionError):
        return None
    table = answer.get("topic", {}).get(name)
    if not table:  # the client answers so for a topic whose configuration may not be seen
        return None
    return {key: str(entry["value"]) for key, entry in table.items()}
