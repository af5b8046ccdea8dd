"""How ``mgw aq`` prints messages."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from mgw.gateway.cli.common import printable, say
from mgw.gateway.cli.jsonform import moment, number

if TYPE_CHECKING:
    from mgw.gateway.services.messages import Dequeued
    from mgw.transforms.message import ValueType

__all__ = ["print_message"]


def print_message(found: Dequeued, *, body: bool, as_json: bool) -> None:
    """One message: its body alone, as one line of JSON, or for people."""
    if body:
        from mgw.gateway.services.messages import body_bytes

        sys.stdout.flush()
        sys.stdout.buffer.write(body_bytes(found.message.body))
        sys.stdout.buffer.write(b"\n" if sys.stdout.isatty() else b"")
        sys.stdout.buffer.flush()
        return
    if as_json:
        say(_as_json(found))
        return
    message = found.message
    parts = {
        "priority": message.priority,
        "correlation": message.correlation,
        "attempts": message.attempts or None,
        "state": found.state.name,
    }
    say(
        " ".join(
            [found.msgid.hex().upper(), *(f"{name}={value}" for name, value in parts.items() if value is not None)]
        )
    )
    for header in message.headers:
        say(f"  {header.name}: {_shown(header.value)}")
    if message.body is not None:
        say(f"  {_shown(message.body)}")


def _as_json(found: Dequeued) -> str:
    import json

    message = found.message
    text = isinstance(message.body, str)
    values: dict[str, Any] = {
        "msgid": found.msgid.hex().upper(),
        "state": found.state.name,
        "kind": message.kind.value,
        "priority": message.priority,
        "correlation": message.correlation,
        "enqueue_time": moment(message.enqueue_time),
        "expires_at": moment(message.expires_at),
        "attempts": message.attempts,
        "headers": [[header.name, header.type.name, _typed(header.value, header.type)] for header in message.headers],
    }
    if isinstance(message.body, tuple):
        values["fields"] = [[field.name, field.type.name, _typed(field.value, field.type)] for field in message.body]
    elif message.type_name is not None:
        from mgw.gateway.services.messages import object_json

        values["type"] = message.type_name
        value = object_json(message.body, lenient=True)  # as it is: its numbers have more digits than Python's floats
        return f'{json.dumps(values, ensure_ascii=False)[:-1]}, "value": {value}}}'
    else:
        values["text" if text else "raw"] = _plain(message.body)
    return json.dumps(values, ensure_ascii=False)


def _typed(value: Any, kind: ValueType) -> Any:
    return moment(value) if kind.name == "DATE" else _plain(value)


def _plain(value: Any) -> Any:
    """Bytes as base64; numbers that JSON does not have as text."""
    if isinstance(value, bytes):
        import base64

        return base64.b64encode(value).decode("ascii")
    return number(value)


def _shown(value: Any) -> str:
    """A value for people: control characters escaped, bytes that are text as text."""
    if isinstance(value, bytes):
        try:
            value = value.decode("utf-8")
        except UnicodeDecodeError:
            return f"0x{value.hex()}"
    if hasattr(value, "type_name"):
        from mgw.gateway.services.messages import object_json

        value = f"{value.type_name} {object_json(value, lenient=True)}"
    if isinstance(value, tuple):
        return ", ".join(f"{field.name}={_shown(field.value)}" for field in value)
    return printable(str(value))
