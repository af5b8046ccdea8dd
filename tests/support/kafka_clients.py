"""Kafka's client for tests, whose sockets are closed where they fail and not left to the garbage collector."""

from __future__ import annotations

import ssl
from typing import Any

import kafka

from links.kafka_network import DIRECT, NetClient

__all__ = ["KafkaAdminClient", "KafkaConsumer", "KafkaProducer"]

_CLOSING = {"kafka_client": NetClient, "proxy_url": DIRECT}


class KafkaConsumer(kafka.KafkaConsumer):  # type: ignore[misc]
    """A consumer as tests need it; parameters as in the client, of those for TLS ``ssl_cafile`` alone."""

    def __init__(self, *topics: str, **options: Any) -> None:
        if "ssl_cafile" in options:  # the client would make the context where it connects, which is ours here
            options["ssl_context"] = ssl.create_default_context(cafile=options.pop("ssl_cafile"))
        super().__init__(*topics, **_CLOSING, **options)


class KafkaProducer(kafka.KafkaProducer):  # type: ignore[misc]
    """A producer as tests need it; parameters as in the client."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**_CLOSING, **options)


class KafkaAdminClient(kafka.KafkaAdminClient):  # type: ignore[misc]
    """An administrator as tests need it; parameters as in the client."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**_CLOSING, **options)
