"""Transformations that come with the gateway, for ``function: mgw.transforms.builtin:<name>`` in a definition.

Each takes the message and its options and gives the changed message. What only sets values needs no function: use
``set`` and ``unset`` (:mod:`mgw.transforms.steps.registry`).
"""

from __future__ import annotations

import fnmatch
from dataclasses import replace
from typing import Any

from mgw.transforms.message import Message, PayloadKind, find_header
from mgw.transforms.payloads.json_text import dump_json, parse_json

__all__ = [
    "copy_header",
    "decode_text",
    "drop_headers",
    "json_drop",
    "json_pick",
    "json_rename",
    "rename_header",
    "text_to_json",
    "uppercase",
]


def _object(message: Message) -> dict[str, Any]:
    body = message.body
    if not isinstance(body, (str, bytes)):
        raise ValueError("the body must be a JSON object, but there is none")
    value = parse_json(body)
    if not isinstance(value, dict):
        raise ValueError(f"the body must be a JSON object, but it is {type(value).__name__}")
    return value


def _text(message: Message) -> str:
    body = message.body
    if isinstance(body, bytes):
        return body.decode()
    if isinstance(body, str):
        return body
    raise ValueError("the body must be text, but there is none")


def _with_text(message: Message, text: str) -> Message:
    return replace(message, body=text, kind=PayloadKind.BASIC)


def json_pick(message: Message, *, attributes: list[str]) -> Message:
    """Keep only these attributes of a JSON object, in this order; those that are not there stay away."""
    given = _object(message)
    return _with_text(message, dump_json({name: given[name] for name in attributes if name in given}))


def json_drop(message: Message, *, attributes: list[str]) -> Message:
    """Remove these attributes of a JSON object."""
    dropped = frozenset(attributes)
    return _with_text(message, dump_json({k: v for k, v in _object(message).items() if k not in dropped}))


def json_rename(message: Message, *, names: dict[str, str]) -> Message:
    """Rename attributes of a JSON object, old name to new name; order is kept.

    Raises:
        ValueError: a new name is there already: one of the two values would be lost.
    """
    given = _object(message)
    renamed = {names.get(name, name): value for name, value in given.items()}
    if len(renamed) < len(given):
        raise ValueError("the new name of an attribute already exists")
    return _with_text(message, dump_json(renamed))


def text_to_json(message: Message, *, attribute: str = "text") -> Message:
    """Wrap a text body into a JSON object with one attribute: ``hello`` becomes ``{"text":"hello"}``."""
    return _with_text(message, dump_json({attribute: _text(message)}))


def decode_text(message: Message, *, encoding: str = "utf-8") -> Message:
    """Bytes in a character encoding of Python's (``latin-1``, ``cp1252``, ``utf-16``...) become text."""
    body = message.body
    return _with_text(message, body.decode(encoding)) if isinstance(body, bytes) else message


def uppercase(message: Message) -> Message:
    """The text of the body in capital letters."""
    return _with_text(message, _text(message).upper())


def rename_header(message: Message, *, old: str, new: str) -> Message:
    """Rename every header ``old``; their order and values stay."""
    return replace(message, headers=tuple(h._replace(name=new) if h.name == old else h for h in message.headers))


def copy_header(message: Message, *, source: str, target: str) -> Message:
    """Copy the first header ``source`` to ``target``, replacing headers of that name; nothing when there is none."""
    found = find_header(message.headers, source)
    if found is None:
        return message
    others = tuple(header for header in message.headers if header.name != target)
    return replace(message, headers=(*others, found._replace(name=target)))


def drop_headers(message: Message, *, names: list[str]) -> Message:
    """Remove headers by name; ``*`` and ``?`` stand for any text and any character (``MGW_AMQP_*``)."""
    kept = tuple(h for h in message.headers if not any(fnmatch.fnmatchcase(h.name, name) for name in names))
    return replace(message, headers=kept)
