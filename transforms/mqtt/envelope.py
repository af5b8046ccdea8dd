"""A message as one JSON document in the payload, for brokers without user properties (option ``MQTT_Envelope = JSON``).

``{"mgw": 1, "headers": [[name, type, value], ...], "body_type": "text"|"raw"|"fields"|"none", "body": ...}`` with
``correlation`` (text) and ``expiration`` (seconds left) where the message has them. Header types are the codes of
:class:`~mgw.transforms.message.ValueType`, raw values and raw bodies are base64.
"""

from __future__ import annotations

import base64
import json
from typing import Any, NamedTuple

from mgw.transforms.errors import ConversionFailure
from mgw.transforms.message import (
    MAX_CORRELATION,
    MAX_SECONDS,
    Body,
    Header,
    PayloadKind,
    encode_headers,
)
from mgw.transforms.mqtt.header_array import read_headers
from mgw.transforms.objects import AnyData, ObjectValue, plain_body

__all__ = ["CONTENT_TYPE", "Envelope", "unwrap", "wrap"]

CONTENT_TYPE = "application/vnd.mgw.envelope+json"


class Envelope(NamedTuple):
    """What an envelope holds."""

    body: Body
    headers: tuple[Header, ...] = ()
    correlation: str | None = None
    expiration: float | None = None  # seconds left

    @property
    def kind(self) -> PayloadKind:
        """FIELDS or BASIC, by the body."""
        return PayloadKind.FIELDS if isinstance(self.body, tuple) else PayloadKind.BASIC


def wrap(envelope: Envelope) -> bytes:
    """The payload."""
    body, headers, correlation, expiration = envelope
    document: dict[str, Any] = {"mgw": 1, "headers": json.loads(encode_headers(headers) or "[]")}
    if correlation is not None:
        document["correlation"] = correlation
    if expiration is not None:
        document["expiration"] = expiration
    if isinstance(body, (ObjectValue, AnyData)):
        body = plain_body(body)
    if isinstance(body, str):
        document |= {"body_type": "text", "body": body}
    elif isinstance(body, bytes):
        document |= {"body_type": "raw", "body": base64.b64encode(body).decode()}
    elif body is None:
        document |= {"body_type": "none"}
    else:
        document |= {"body_type": "fields", "body": json.loads(encode_headers(body) or "[]")}
    return json.dumps(document, separators=(",", ":")).encode()


def unwrap(payload: bytes, topic: str) -> Envelope:
    """What the payload of a message from ``topic`` holds.

    Raises:
        ConversionFailure: it is not an envelope.
    """
    try:
        return _read(json.loads(payload))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        reason = f"there is no {error}" if isinstance(error, KeyError) else str(error)
        raise ConversionFailure(
            f"message from topic {topic[:200]!r} is not a JSON envelope",
            cause=f"the queue is registered with MQTT_Envelope = JSON, but reading the payload failed: {reason}"[:300],
            cure="have the publisher write envelopes, or register the queue without MQTT_Envelope",
        ) from error


def _read(document: Any) -> Envelope:
    if document["mgw"] != 1:
        raise ValueError(f"envelope version {document['mgw']!r} is unknown")
    expiration, correlation = document.get("expiration"), document.get("correlation")
    if correlation is not None and not (isinstance(correlation, str) and len(correlation) <= MAX_CORRELATION):
        raise ValueError(f"correlation is not a text of at most {MAX_CORRELATION} characters")
    if expiration is not None:
        expiration = max(1.0, float(expiration))
        if expiration >= MAX_SECONDS:
            expiration = None
    return Envelope(
        _read_body(document["body_type"], document.get("body")),
        read_headers(document["headers"]),
        correlation,
        expiration,
    )


def _read_body(kind: str, body: Any) -> Body:
    if kind == "none":
        return None
    if kind == "fields":
        return read_headers(body)
    if kind not in ("text", "raw") or not isinstance(body, str):
        raise ValueError(f"body_type {kind!r} does not fit the body")
    return body if kind == "text" else base64.b64decode(body, validate=True)
