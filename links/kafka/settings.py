"""Attributes and options of a Kafka link in the form the clients take them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mgw.links.contract import LinkConfig
from mgw.links.kafka.client import Client, Settings
from mgw.links.kafka.oauth import Tokens
from mgw.links.kafka.tls import tls_context
from mgw.links.tls import Tls
from mgw.transforms.errors import (
    ConfigInvalid,
)

__all__ = ["Settings", "settings_of"]

_LONG_POLL_MS = 10_000  # that a server may wait for records of a topic where none come
OAUTHBEARER = "OAUTHBEARER"


class _Secret(str):
    """A password that is not shown when the client logs its settings."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


def settings_of(
    config: LinkConfig, client: Client, attributes: Mapping[str, Any], options: Mapping[str, Any]
) -> Settings:
    """Settings of a link from its parsed attributes and options.

    Raises:
        ConfigInvalid: a file of the TLS set-up cannot be read, a password is missing, a package for the compression is.
    """
    protocol = _protocol(config.name, attributes)
    tls = Tls.of(config.name, attributes, on=protocol.endswith("SSL"))
    _check_client(client, tls)
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
        "connections_max_idle_ms": max(540_000, 2 * options["kafka_request_timeout_ms"]),
    }
    if tls.on:
        common["ssl_context"] = tls_context(tls, attributes["bootstrap_servers"])
    tokens = None
    if protocol.startswith("SASL") and attributes["sasl_mechanism"] == OAUTHBEARER:
        tokens = Tokens(config, attributes)
        common["sasl_mechanism"] = OAUTHBEARER
    elif protocol.startswith("SASL"):
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
    client.check_compression(config.name, compression)
    return Settings(
        link=config.name,
        client=client,
        servers=tuple(common["bootstrap_servers"]),
        common=common,
        consumer={
            "fetch_max_bytes": options["kafka_fetch_max_bytes"],
            "max_partition_fetch_bytes": options["kafka_max_partition_fetch_bytes"],
            "fetch_max_wait_ms": min(_LONG_POLL_MS, options["kafka_request_timeout_ms"]),
        },
        producer={
            "linger_ms": options["kafka_linger_ms"],
            "batch_size": options["kafka_batch_size"],
            "compression_type": None if compression == "none" else compression,
        },
        max_request_size=options["kafka_max_request_size"],
        delivery_timeout=options["kafka_delivery_timeout_ms"] / 1000,
        tls=tls,
        tokens=tokens,
        log_topic=config.outbound_log_queue,
    )


def _protocol(link: str, attributes: Mapping[str, Any]) -> str:
    """The protocol of the listener, where the attribute ``tls`` has a say as well."""
    protocol: str = attributes["security_protocol"]
    if attributes["tls"] is None or attributes["tls"] == protocol.endswith("SSL"):
        return protocol
    if attributes["tls"]:
        return "SASL_SSL" if protocol.startswith("SASL") else "SSL"
    raise ConfigInvalid(
        f"link {link}: tls is FALSE, and security_protocol is {protocol}",
        cause="that protocol is encrypted",
        cure="leave tls out, or set security_protocol to PLAINTEXT or SASL_PLAINTEXT",
    )


def _check_client(client: Client, tls: Tls) -> None:
    if tls.on and tls.server_name and tls.verify and not client.takes_server_name:
        raise ConfigInvalid(
            f"link {tls.link}: tls_server_name is refused",
            cause="librdkafka compares the certificate with the host that it connects to, and with no other name",
            cure="use client kafka-python, or a certificate with the host names that the servers advertise",
        )
