"""Kafka's client for tests, whose sockets are closed where they fail and not left to the garbage collector."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import kafka

from mgw.links.kafka.python_client.network import DIRECT, NetClient

__all__ = ["KafkaAdminClient", "KafkaConsumer", "KafkaProducer"]


@contextmanager
def _closing() -> Iterator[dict[str, Any]]:
    """Options of a constructor; the client would leave its thread and sockets behind where it reaches no broker."""
    made: list[NetClient] = []

    def make(**configs: Any) -> NetClient:
        made.append(NetClient(**configs))
        return made[-1]

    try:
        yield {"kafka_client": make, "proxy_url": DIRECT}
    except BaseException:
        for client in made:
            client.close()
        raise


class KafkaConsumer(kafka.KafkaConsumer):  # type: ignore[misc]
    """A consumer as tests need it; parameters as in the client, of those for TLS ``ssl_cafile`` alone."""

    def __init__(self, *topics: str, **options: Any) -> None:
        if "ssl_cafile" in options:  # the client would make the context where it connects, which is ours here
            options["ssl_context"] = ssl.create_default_context(cafile=options.pop("ssl_cafile"))
        with _closing() as closing:
            super().__init__(*topics, **closing, **options)


class KafkaProducer(kafka.KafkaProducer):  # type: ignore[misc]
    """A producer as tests need it; parameters as in the client."""

    def __init__(self, **options: Any) -> None:
        with _closing() as closing:
            super().__init__(**closing, **options)


class KafkaAdminClient(kafka.KafkaAdminClient):  # type: ignore[misc]
    """An administrator as tests need it; parameters as in the client."""

    def __init__(self, **options: Any) -> None:
        with _closing() as closing:
            super().__init__(**closing, **options)
