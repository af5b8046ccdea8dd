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
    from mgw.transforms.message import Header, Message, PayloadKind, ValueType
    from mgw.transforms.objects import AnyData, ObjectValue
    from mgw.transforms.payloads.name_values import (
        CASE_INSENSITIVE,
        CASE_SENSITIVE,
        name_value,
        nvarray_add,
        nvarray_find_name,
        nvarray_find_name_type,
        nvarray_get,
        nvarray_get_boolean,
        nvarray_get_byte,
        nvarray_get_date,
        nvarray_get_double,
        nvarray_get_float,
        nvarray_get_integer,
        nvarray_get_long,
        nvarray_get_raw,
        nvarray_get_short,
        nvarray_get_text,
    )

__version__ = "0.1.0"

logging.getLogger("mgw").addHandler(logging.NullHandler())  # the program decides what is done with the log

__all__ = [
    "CASE_INSENSITIVE",
    "CASE_SENSITIVE",
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
    "PayloadKind",
    "PayloadType",
    "QueueAdmin",
    "SequenceDeviation",
    "Session",
    "TransformFailed",
    "ValueType",
    "Visibility",
    "__version__",
    "name_value",
    "nvarray_add",
    "nvarray_find_name",
    "nvarray_find_name_type",
    "nvarray_get",
    "nvarray_get_boolean",
    "nvarray_get_byte",
    "nvarray_get_date",
    "nvarray_get_double",
    "nvarray_get_float",
    "nvarray_get_integer",
    "nvarray_get_long",
    "nvarray_get_raw",
    "nvarray_get_short",
    "nvarray_get_text",
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
    "transforms.message": ("Header", "Message", "PayloadKind", "ValueType"),
    "transforms.payloads.name_values": (
        "CASE_INSENSITIVE",
        "CASE_SENSITIVE",
        "name_value",
        "nvarray_add",
        "nvarray_find_name",
        "nvarray_find_name_type",
        "nvarray_get",
        "nvarray_get_boolean",
        "nvarray_get_byte",
        "nvarray_get_date",
        "nvarray_get_double",
        "nvarray_get_float",
        "nvarray_get_integer",
        "nvarray_get_long",
        "nvarray_get_raw",
        "nvarray_get_short",
        "nvarray_get_text",
    ),
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
