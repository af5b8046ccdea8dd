"""Which client library connects, and what a cluster says of a topic, whichever asks.

A library is imported when a link that uses it is opened.
"""

from __future__ import annotations

import importlib
from typing import Final, cast

from mgw.links.contract import Direction
from mgw.links.kafka.client import Client, Described, Kind, Topic
from mgw.links.kafka.errors import translate
from mgw.links.kafka.settings import Settings
from mgw.transforms.errors import LinkError, LinkRefused, QueueMissing

__all__ = ["client_of", "describe"]

#: Attribute ``client`` -> module with ``CLIENT``, and the extra that brings the library.
_CLIENTS: Final = {
    "kafka-python": ("mgw.links.kafka.python_client.client", "kafka"),
    "confluent": ("mgw.links.kafka.confluent_client.client", "confluent"),
}


def client_of(name: str) -> Client:
    """The library of that name.

    Raises:
        LinkError: it is not installed.
    """
    module, extra = _CLIENTS[name]
    try:
        return cast(Client, importlib.import_module(module).CLIENT)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "mgw":
            raise
        raise LinkError(
            f"link type KAFKA cannot be used with client {name}",
            cause=f"the Python package {error.name!r} is not installed",
            cure=f"pip install 'messaging-gateway[{extra}]'",
        ) from error


def describe(settings: Settings, name: str, operation: str, direction: Direction | None) -> Topic:
    """Ask for a topic without ever creating it, also where the cluster creates topics on first use. ``direction`` None:
    it is only looked at.

    Raises:
        QueueMissing: there is no such topic, or we may not see it.
        LinkRefused: we may see it but not read (write) it.
        LinkUnavailable, LinkTimeout: the cluster does not answer.
    """
    try:
        described = settings.client.describe(settings, name, operation)
    except LinkError:
        raise
    except Exception as error:
        if settings.client.failure(error).kind is Kind.MISSING:
            raise _missing(settings, name, operation, error) from error
        raise translate(error, settings, operation, f"topic {name}") from error
    if direction is not None:
        _check_permission(settings, described, direction, operation)
    return described.topic


def _missing(settings: Settings, name: str, operation: str, error: Exception) -> QueueMissing:
    return QueueMissing(
        f"link {settings.link}: topic {name} does not exist",
        link=settings.link,
        operation=operation,
        cause=f"the cluster answers {settings.client.failure(error).name}",
        cure="create the topic, or register the foreign queue with the right provider_queue",
        number=434,
    )


def _check_permission(settings: Settings, described: Described, direction: Direction, operation: str) -> None:
    needed = "READ" if direction is Direction.INBOUND else "WRITE"
    allowed = described.allowed
    if allowed and needed not in allowed:
        raise LinkRefused(
            f"link {settings.link}: topic {described.topic.name} may not be used",
            link=settings.link,
            operation=operation,
            cause=f"the user has {', '.join(allowed)} on it, not {needed}",
            cure=f"ask the cluster's administrator to grant {needed} on the topic",
        )
