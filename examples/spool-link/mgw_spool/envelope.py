"""Messages as files, and files as messages: pure functions.

==========================  =========  ================================================================
Hub                         Direction  File
==========================  =========  ================================================================
body                        both       ``body`` with ``body_type``; another file than ``*.mgw`` is all body
headers                     both       ``headers``: name, type code and value of each
priority, correlation       both       ``priority``, ``correlation``
expiration                  both       ``expires_at``, epoch seconds
message id                  out        ``id``; it comes in as header ``MGW_SPOOL_messageId``
==========================  =========  ================================================================
"""

from __future__ import annotations

import base64
import json
import math
from typing import Any

from mgw.transforms.errors import ConversionFailure
from mgw.transforms.message import (
    MAX_CORRELATION,
    Body,
    Header,
    Message,
    PayloadKind,
    ValueType,
    check_headers,
    decode_headers,
    encode_headers,
)
from mgw.transforms.objects import AnyData, ObjectValue, plain_body
from mgw.transforms.payloads.fields import fields_to_json

__all__ = ["MESSAGE_ID", "SUFFIX", "decode", "encode", "plain"]

MESSAGE_ID = "MGW_SPOOL_messageId"  # AQMSGID: and 32 hexadecimal digits
SUFFIX = ".mgw"


def encode(message: Message, now: float) -> bytes:
    """Content of an envelope.

    Raises:
        ConversionFailure: the headers break the limits of the gateway.
    """
    check_headers(message.headers)
    remaining = message.remaining(now)
    kind, body = _body(message.body)
    document = {
        "spool": 1,
        "id": None if message.msgid is None else f"AQMSGID:{message.msgid.hex()}",
        "priority": message.priority,
        "correlation": message.correlation,
        "expires_at": None if remaining is None else now + remaining,
        "headers": json.loads(encode_headers(message.headers) or "[]"),
        "body_type": kind,
        "body": body,
    }
    return json.dumps({name: value for name, value in document.items() if value is not None}).encode()


def _body(body: Body) -> tuple[str, Any]:
    if isinstance(body, ObjectValue | AnyData):
        body = plain_body(body)
    if isinstance(body, str):
        return "text", body
    if isinstance(body, bytes):
        return "raw", base64.b64encode(body).decode()
    return ("none", None) if body is None else ("fields", json.loads(encode_headers(body) or "[]"))


def plain(message: Message) -> bytes:
    """The body alone; fields become a JSON object. No body is an empty file."""
    check_headers(message.headers)
    body = message.body
    if isinstance(body, ObjectValue | AnyData):
        body = plain_body(body)
    if isinstance(body, tuple):
        body = fields_to_json(body)[0]
    return body.encode() if isinstance(body, str) else body or b""


def decode(name: str, content: bytes, now: float) -> Message:
    """The message in a file.

    Raises:
        ConversionFailure: the file calls itself an envelope and is none.
    """
    if not name.endswith(SUFFIX):
        return Message(content)
    try:
        return _message(json.loads(content), now)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = f"there is no {error}" if isinstance(error, KeyError) else str(error)
        raise ConversionFailure(
            f"file {name} is not an envelope",
            cause=reason[:300],
            cure="let its sender write another name, or an envelope",
        ) from error


def _message(document: dict[str, Any], now: float) -> Message:
    if document["spool"] != 1:
        raise ValueError(f"version {document['spool']!r} is unknown")
    correlation, expires_at = document.get("correlation"), document.get("expires_at")
    if correlation is not None and not (isinstance(correlation, str) and len(correlation) <= MAX_CORRELATION):
        raise ValueError(f"correlation is no text of at most {MAX_CORRELATION} characters")
    headers = decode_headers(json.dumps(document.get("headers", [])))
    if "id" in document:
        headers = (*headers, Header(MESSAGE_ID, ValueType.TEXT, str(document["id"])))
    body: Body = None
    kind, given = document["body_type"], document.get("body")
    if kind == "fields":
        body = decode_headers(json.dumps(given))
    elif kind == "raw":
        body = base64.b64decode(str(given), validate=True)
    elif kind == "text":
        body = str(given)
    elif kind != "none":
        raise ValueError(f"body_type {kind!r} is unknown")
    return Message(
        body,
        headers,
        PayloadKind.FIELDS if isinstance(body, tuple) else PayloadKind.BASIC,
        int(document.get("priority", 1)),
        correlation,
        expiration=None if expires_at is None else math.ceil(float(expires_at) - now),
    )
