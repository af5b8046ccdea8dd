"""The messaging gateway: durable hub queues bridged to RabbitMQ, Kafka and MQTT, without losing a message.

The names of this module are the public ones: they keep their meaning from one release to the next, or the changelog
says what takes their place. Everything else of the package may move. Each name is imported when it is first used, so
that ``import mgw`` loads no database driver and no client of a broker.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mgw.gateway.aq import (
        FOREVER,
        INFINITE,
        NO_WAIT,
        Agent,
        Dequeued,
        DequeueMode,
        DequeueOptions,
        EnqueueOptions,
        Hub,
        Navigation,
        NoMessage,
        PayloadType,
        QueueAdmin,
        SequenceDeviation,
        Session,
        Visibility,
        register_function,
        type_name,
        unregister_function,
        unwrap,
        wrap,
    )
    from mgw.gateway.services.admin import GatewayAdmin
    from mgw.gateway.state.gateway_hub import open_hub
    from mgw.transforms.errors import (
        AqError,
        ArgumentInvalid,
        ConversionFailure,
        GatewayError,
        HubError,
        TransformFailed,
    )
    from mgw.transforms.message import Header, Message, ValueType
    from mgw.transforms.objects import AnyData, ObjectValue

__version__ = "0.1.0"

logging.getLogger("mgw").addHandler(logging.NullHandler())  # the program decides what is done with the log

__all__ = [
    "FOREVER",
    "INFINITE",
    "NO_WAIT",
    "Agent",
    "AnyData",
    "AqError",
    "ArgumentInvalid",
    "ConversionFailure",
    "DequeueMode",
    "DequeueOptions",
    "Dequeued",
    "EnqueueOptions",
    "GatewayAdmin",
    "GatewayError",
    "Header",
    "Hub",
    "HubError",
    "Message",
    "Navigation",
    "NoMessage",
    "ObjectValue",
    "PayloadType",
    "QueueAdmin",
    "SequenceDeviation",
    "Session",
    "TransformFailed",
    "ValueType",
    "Visibility",
    "__version__",
    "open_hub",
    "register_function",
    "type_name",
    "unregister_function",
    "unwrap",
    "wrap",
]

_HOMES = {
    "gateway.aq": (
        "FOREVER",
        "INFINITE",
        "NO_WAIT",
        "Agent",
        "DequeueMode",
        "DequeueOptions",
        "Dequeued",
        "EnqueueOptions",
        "Hub",
        "Navigation",
        "NoMessage",
        "PayloadType",
        "QueueAdmin",
        "SequenceDeviation",
        "Session",
        "Visibility",
        "register_function",
        "type_name",
        "unregister_function",
        "unwrap",
        "wrap",
    ),
    "gateway.services.admin": ("GatewayAdmin",),
    "gateway.state.gateway_hub": ("open_hub",),
    "transforms.errors": (
        "AqError",
        "ArgumentInvalid",
        "ConversionFailure",
        "GatewayError",
        "HubError",
        "TransformFailed",
    ),
    "transforms.message": ("Header", "Message", "ValueType"),
    "transforms.objects": ("AnyData", "ObjectValue"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'mgw' has no attribute {name!r}")
    found = getattr(import_module(f"mgw.{_HOME[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
