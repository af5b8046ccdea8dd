"""What callers of the web face send, for :mod:`tests.support.fuzz`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mgw.gateway.config.given import clean
from mgw.gateway.config.load import load_text
from mgw.gateway.http.problems import Problem
from mgw.gateway.http.rest.bodies import Sent, json_of
from mgw.gateway.http.rest.paging import cursor_of, place_of
from mgw.gateway.services.message_json import Given, Malformed, message_of, read_json
from mgw.transforms.errors import ConversionFailure, GatewayError
from tests.support.fuzz import Target
from tests.support.fuzz_bodies import JSON_TOKENS

__all__ = ["http_targets"]

_MESSAGES = (
    b'{"text": "ok", "headers": {"tenant": "acme", "count": {"type": "int", "value": 3}}, "priority": 2}',
    b'{"json": {"sum": 1.10, "list": [1, null, true]}, "correlation": "c", "delay": 1.5, "expiration": 60}',
    b'{"base64": "AAEC", "headers": [{"name": "a", "type": "double", "value": 1e300}], "sender": "s"}',
    b'{"fields": {"at": {"type": "date", "value": "2026-11-26T10:00:00Z"}, "raw": {"type": "raw", "value": "AA=="}}}',
)
_WORDS = (
    b'"headers"',
    b'"type"',
    b'"value"',
    b"1e999",
    b"-0",
    b"\\ud800",
    b'"date"',
    b'"long"',
    b"9223372036854775808",
)
_FILES = (
    b"version: 1\nqueues: {A: {}, B: {secure: true}}\njobs: {j: {type: local, source: A, destination: B}}\n",
    b"links: &l\n  x: {type: rabbitmq, hostname: h, options: {RABBITMQ_heartbeat: 30}}\nforeign_queues: {q@x: {}}\n",
)


def http_targets() -> tuple[Target, ...]:
    """All of them."""
    return (
        Target("http-json", _json, _MESSAGES, (Problem,), JSON_TOKENS),
        Target(
            "http-message", _message, _MESSAGES, (ValueError, Malformed, ConversionFailure), (*JSON_TOKENS, *_WORDS)
        ),
        Target("http-cursor", _cursor, [(cursor_of("ORDERS.NEWS") or "").encode(), b"AAAA"], (Problem,)),
        Target(
            "http-configuration",
            _configuration,
            _FILES,
            (GatewayError,),
            (b"&l", b"*l", b"<<: *l", b"!!python", b"${X}"),
        ),
    )


def _json(data: bytes) -> object:
    return type(json_of(Sent("application/json", data))).__name__


def _message(data: bytes) -> object:
    value = read_json(data)
    if not isinstance(value, Mapping):
        return None
    shapes = []
    for holds in (None, "BASIC", "FIELDS", "RAW"):
        try:
            made = message_of(_given(value), holds, None)
        except (Malformed, ConversionFailure) as error:
            shapes.append(type(error).__name__)
        else:
            shapes.append(f"{type(made.body).__name__} {len(made.headers)}")
    return tuple(shapes)


def _given(value: Mapping[str, Any]) -> Given:
    """As the model of the route does, which checks the types of the plain members."""
    texts = {
        name: each for name in ("text", "base64", "correlation", "sender") if isinstance(each := value.get(name), str)
    }
    return Given(
        **texts,
        json=value.get("json"),
        has_json="json" in value,
        fields=value.get("fields"),
        headers=value.get("headers") or (),
    )


def _cursor(data: bytes) -> object:
    return len(place_of(data.decode("latin-1")) or "")


def _configuration(data: bytes) -> object:
    source = clean(load_text(data.decode("utf-8", "replace"), "body"))
    json.dumps(source.tree, default=str)
    return tuple(sorted({each.name for each in source.findings}))
