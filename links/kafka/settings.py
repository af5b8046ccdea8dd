"""Attributes and options of a Kafka link in the form the client takes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mgw.links.contract import LinkConfig
from mgw.links.kafka.network import DIRECT
from mgw.links.kafka.tls import tls_context
from mgw.transforms.errors import (
    ConfigInvalid,
)

__all__ = ["Settings", "settings_of"]


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
                cause=f"security_protocol {protocol} needs them to log in",
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
