"""What the modules of the Kafka link share: settings of the client, its errors in our words, clients that clean up.

Guards against kafka-python 3.0 (each has a test):

* A constructor that cannot bootstrap raises a bare timeout after trying again and again, and leaves its thread and
  sockets behind. :func:`build` remembers why the last connection failed, gives up at once where trying again cannot
  help (password, certificate), and closes what was opened.
* A producer that is garbage collected silences the log of its module for the whole process. :class:`Producer` does not.
* ``KafkaProducer.close`` does not end its thread when the flush in it times out. :func:`close_producer` does.
* One record whose header name is not UTF-8 makes its batch unreadable: see :mod:`links.kafka_records`.
* The rest is in :mod:`links.kafka_network`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kafka import KafkaAdminClient, KafkaProducer, errors
from kafka.admin import ConfigResource, ConfigResourceType

from links.contract import Direction, LinkConfig
from links.kafka_network import DIRECT, HANDSHAKE_FAILED, HOPELESS, NetClient
from links.kafka_tls import handshake_cure, tls_context
from transforms.errors import (
    ConfigInvalid,
    DeliveryRejected,
    LinkError,
    LinkRefused,
    LinkTimeout,
    LinkUnavailable,
    PositionLost,
    QueueMissing,
)
from transforms.openfiles import shortage

__all__ = [
    "FENCED",
    "Producer",
    "Settings",
    "Topic",
    "build",
    "close_producer",
    "describe",
    "quietly",
    "settings_of",
    "translate",
]

_C = TypeVar("_C")

#: Another producer with the same transactional id came later.
FENCED = (errors.ProducerFencedError, errors.InvalidProducerEpochError)
_LOST = (errors.OffsetOutOfRangeError, errors.NoOffsetForPartitionError, errors.LogTruncationError)
_MISSING = (errors.UnknownTopicOrPartitionError, errors.UnknownTopicIdError, errors.InvalidTopicError)
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


class _Secret(str):
    """A password that is not shown when the client logs its settings."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


@dataclass(frozen=True, slots=True)
class Settings:
    """Attributes and options of a link in the form the client takes them."""

    link: str
    servers: tuple[str, ...]
    common: Mapping[str, Any] = field(repr=False)  # every client; holds the password
    consumer: Mapping[str, Any]
    producer: Mapping[str, Any]
    max_request_size: int | None  # bytes; None: what the topic takes
    delivery_timeout: float  # seconds without any progress after which a destination gives up
    log_topic: str | None = None  # the link's outbound_log_queue

    def client_id(self, job: str) -> str:
        """How the cluster sees a job's connections."""
        return f"{self.common['client_id']}-{job}"

    @property
    def timeout(self) -> float:
        """Seconds to wait for the answer to one request."""
        return float(self.common["request_timeout_ms"]) / 1000


def settings_of(config: LinkConfig, attributes: Mapping[str, Any], options: Mapping[str, Any]) -> Settings:
    """Settings of a link from its parsed attributes and options.

    Raises:
        ConfigInvalid: a file of the TLS set-up cannot be read, a password is missing, a package for the compression is.
    """
    protocol = attributes["security_protocol"]
    common: dict[str, Any] = {
        "bootstrap_servers": [
            server.strip() for server in attributes["bootstrap_servers"].split(",") if server.strip()
        ],
        "client_id": config.client_name,
        "security_protocol": protocol,
        "request_timeout_ms": options["kafka_request_timeout_ms"],
        "bootstrap_timeout_ms": options["kafka_bootstrap_timeout_ms"],
        "metadata_max_age_ms": options["kafka_metadata_max_age_ms"],
        "reconnect_backoff_max_ms": 1000,
        "proxy_url": DIRECT,
        "connections_max_idle_ms": max(540_000, 2 * options["kafka_request_timeout_ms"]),
    }
    if protocol.endswith("SSL"):
        common["ssl_context"] = tls_context(config.name, attributes)
    if protocol.startswith("SASL"):
        if not config.username or config.password is None:
            raise ConfigInvalid(
                f"link {config.name}: username or password is missing",
                cause=f"security_protocol {protocol} logs in with them",
                cure="set username and password of the link",
            )
        common["sasl_mechanism"] = attributes["sasl_mechanism"]
        common["sasl_plain_username"] = config.username
        common["sasl_plain_password"] = _Secret(config.password)
    compression = options["kafka_compression_type"]
    _check_compression(config.name, compression)
    return Settings(
        link=config.name,
        servers=tuple(common["bootstrap_servers"]),
        common=common,
        consumer={
            "fetch_max_bytes": options["kafka_fetch_max_bytes"],
            "max_partition_fetch_bytes": options["kafka_max_partition_fetch_bytes"],
            "fetch_max_wait_ms": min(500, options["kafka_request_timeout_ms"] // 2),
        },
        producer={
            "linger_ms": options["kafka_linger_ms"],
            "batch_size": options["kafka_batch_size"],
            "compression_type": None if compression == "none" else compression,
        },
        max_request_size=options["kafka_max_request_size"],
        delivery_timeout=options["kafka_delivery_timeout_ms"] / 1000,
        log_topic=config.outbound_log_queue,
    )


def _check_compression(link: str, compression: str) -> None:
    from kafka import codec

    package = {"lz4": "lz4", "snappy": "python-snappy", "zstd": "zstandard"}.get(compression)
    if package and not getattr(codec, f"has_{compression}")():
        raise ConfigInvalid(
            f"link {link}: KAFKA_Compression_type {compression} cannot be used",
            cause=f"the Python package {package} is not installed",
            cure=f"pip install {package}, or use gzip or none",
        )


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
        cause=f"{type(cause).__name__}: {cause}" if str(cause) else "the connection was closed before the first answer",
        cure="check bootstrap_servers, that the cluster runs, and that security_protocol is what this listener speaks",
    )


def _is_tls(error: BaseException) -> bool:
    return HANDSHAKE_FAILED in str(error)


def translate(error: BaseException, link: str, operation: str, what: str) -> LinkError:
    """A client error in the gateway's terms; the only place that knows both. ``what`` names topic or partition."""
    if isinstance(error, LinkError):
        return error
    kind, cure = _classify(error)
    if found := shortage(error, guess=kind in {LinkUnavailable, LinkTimeout}):
        return _no_file(link, operation, found)
    text = str(error)
    cause = (
        text if type(error).__name__ in text else f"{type(error).__name__}: {text}" if text else type(error).__name__
    )
    number = {PositionLost: 415, QueueMissing: 434, DeliveryRejected: 805}.get(kind)
    happened = "was shut out by another process of this job" if isinstance(error, FENCED) else "failed"
    return kind(
        f"link {link}: {operation} of {what} {happened}",
        link=link,
        operation=operation,
        cause=cause,
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
            "see that one process only runs this job; what was not committed is sent again",
        ),
        (
            (errors.SaslAuthenticationFailedError,),
            LinkRefused,
            "set the link's username and password, and the sasl_mechanism the cluster has them for",
        ),
        (
            (errors.UnsupportedSaslMechanismError, errors.IllegalSaslStateError, errors.SecurityDisabledError),
            LinkRefused,
            "set sasl_mechanism and security_protocol to what this listener offers",
        ),
        ((errors.AuthorizationError,), LinkRefused, "let the cluster's administrator grant the link's user access"),
        (
            _LOST,
            PositionLost,
            "find out which messages are missing, then mgw agents cleanup RESET_SUB_MISSING_MESSAGE JOB",
        ),
        (_MISSING, QueueMissing, "create the topic, or register the foreign queue with the right provider_queue"),
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
        ((errors.RetriableError,), LinkUnavailable, "nothing, if it passes; else look at the cluster"),
    )
    if _is_tls(error):
        return LinkRefused, handshake_cure(str(error))
    for kinds, kind, cure in table:
        if isinstance(error, kinds):
            return kind, cure
    return LinkError, "look at the cause; if it stays, report it"


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
        if issubclass(error, _MISSING):
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
            cure=f"let the cluster's administrator grant {needed} on the topic",
        )


def _read_config(admin: Any, name: str) -> Mapping[str, str] | None:
    try:
        answer = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)], config_filter="all")
    except (errors.AuthorizationError, errors.UnsupportedVersionError):
        return None
    table = answer.get("topic", {}).get(name)
    return None if table is None else {key: str(entry["value"]) for key, entry in table.items()}
