"""Canonical messages as rows of ``aq_message`` and back. Pure; the hot loops of the hub."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mgw.gateway.aq.errors import DelayInvalid, ExpirationInvalid, MessageRefused, PayloadRefused
from mgw.gateway.aq.model import PayloadType, QueueRef, SortList
from mgw.gateway.aq.payloads import forms as payloads
from mgw.gateway.aq.store.columns import NEW_MESSAGE, STORED
from mgw.gateway.aq.store.statements import Row
from mgw.gateway.aq.store.tables import BodyType, State
from mgw.transforms.errors import ConversionFailure
from mgw.transforms.message import (
    MAX_CORRELATION,
    Message,
    MessageDraft,
    PayloadKind,
    check_fields,
    decode_headers,
    encode_headers,
)
from mgw.transforms.objects import AnyData, ObjectValue

__all__ = [
    "check_times",
    "decode",
    "encode",
    "message_number",
    "msgid",
]

_NONE, _RAW, _TEXT, _FIELDS, _VALUE = (int(t) for t in BodyType)
_READY, _WAITING, _SPLIT = int(State.READY), int(State.WAITING), int(State.SPLIT)
_KIND_TEXT = {kind: str(kind.value) for kind in PayloadKind}
_KINDS = {str(kind.value): kind for kind in PayloadKind}
_BODIES: dict[PayloadType, dict[Any, int]] = {
    PayloadType.RAW: {bytes: _RAW},
    PayloadType.BASIC: {bytes: _RAW, str: _TEXT},
    PayloadType.FIELDS: {tuple: _FIELDS},
    PayloadType.TEXT: {str: _TEXT},
    PayloadType.JSON: {str: _TEXT},
    PayloadType.XMLTYPE: {str: _TEXT},
    PayloadType.OBJECT: {ObjectValue: _VALUE, dict: _VALUE},
    PayloadType.ANYDATA: {AnyData: _VALUE},
}
_CHECKED = (PayloadType.JSON, PayloadType.XMLTYPE)
_BY_PRIORITY = (SortList.PRIORITY, SortList.PRIORITY_ENQ_TIME, SortList.PRIORITY_COMMIT_TIME)
_BEFORE_KIND, _BEHIND_KIND = NEW_MESSAGE.around("kind")
_OF_MESSAGE = STORED.getter(
    "id", "body", "headers", "kind", "priority", "correlation", "expiration", "expires_at", "enq_time", "attempts",
    "exception_queue", "sender_name", "sender_address", "original_msgid", "body_type", "type_id", "user_property",
    "sender_protocol",
)  # fmt: skip
_BEYOND = 2**63
MAX_USER_PROPERTY = 4000  # characters


def msgid(hub_id: bytes, number: int) -> bytes:
    """The 16-byte message id."""
    return hub_id + number.to_bytes(8, "big")


def message_number(hub_id: bytes, identity: object) -> int | None:
    """The row id in a message id, or None if it is not one of this hub."""
    if not isinstance(identity, bytes) or len(identity) != 16 or identity[:8] != hub_id:
        return None
    number = int.from_bytes(identity[8:], "big")
    return number if number < _BEYOND else None


def encode(  # noqa: C901, PLR0912, PLR0915, PLR0917  (one loop for speed)
    queue: QueueRef,
    messages: Sequence[Message],
    ids: Sequence[int],
    now: float,
    user: str | None,
    txn: str | None,
    values: Sequence[payloads.Encoded] = (),
    *,
    system: bool = True,
) -> list[Row]:
    """Rows of :data:`~mgw.gateway.aq.store.columns.NEW_MESSAGE` for a batch of messages, checked.

    ``values`` are their bodies in a queue of objects or ANYDATA.
    ``system``: the caller may say which messages they were before they came here.

    Raises:
        MessageRefused: 25215 the body does not fit the payload type, or is larger than the queue takes; 25203, 25209
            negative delay or expiration; a property that cannot be stored.
    """
    bodies = _BODIES[queue.payload_type]
    limit = queue.max_payload
    checked = queue.payload_type in _CHECKED
    by_priority = queue.sort_list in _BY_PRIORITY
    by_second = queue.sort_list is SortList.ENQ_TIME_PRIORITY
    second = float(int(now))
    split = queue.multiple_consumers
    queue_id = queue.id
    rows: list[Row] = []
    stored: dict[int, str | None] = {}  # header arrays that several messages have, by their identity
    index = 0
    try:
        for index, message in enumerate(messages):
            delay, expiration = message.delay, message.expiration
            correlation = message.correlation
            if (
                correlation is not None
                or message.exception_queue is not None
                or message.sender_name is not None
                or message.sender_address is not None
                or message.sender_protocol
                or message.user_property is not None
            ):
                _check_texts(message, index)
            if delay or expiration is not None:
                check_times(message, index)
            priority = message.priority
            odd = type(priority) is not int and (not isinstance(priority, int) or type(priority) is bool)
            if odd or not -_BEYOND <= priority < _BEYOND:
                raise _refused(index, f"priority {priority!r} is out of range", "it is not a 64-bit integer")
            body: Any = message.body
            if body is None:
                body_type = _NONE
            else:
                body_type = bodies.get(type(body), -1)
                if body_type == _TEXT:
                    if checked:
                        payloads.check_text(queue, index, body)
                    body = body.encode()
                elif body_type == _FIELDS:
                    _check_fields(body, index)
                    body = (encode_headers(body) or "[]").encode()
                elif body_type == _VALUE:
                    body = values[index].body
                elif body_type < 0:
                    raise _wrong_type(queue, message, index)
                if len(body) > limit:
                    raise _too_large(queue, len(body), index)
            array = message.headers
            headers = None
            if array and (headers := stored.get(id(array))) is None:
                headers = stored[id(array)] = encode_headers(array)
            ready_at = now + delay
            number = ids[index]
            rows.append(
                (
                    number,
                    queue_id,
                    _SPLIT if split else _WAITING if delay > 0 else _READY,
                    priority if by_priority else second if by_second else 0,
                    priority if by_second else 0,
                    number,
                    priority,
                    ready_at,
                    None if expiration is None else ready_at + expiration,
                    expiration,
                    correlation,
                    now,
                    user,
                    txn,
                    0,
                    message.exception_queue,
                    message.sender_name,
                    message.sender_address,
                    message.sender_protocol or None,
                    message.original_msgid if system else None,
                    message.user_property,
                    _KIND_TEXT[message.kind],
                    headers,
                    body_type,
                    body,
                )
            )
    except (TypeError, ValueError, KeyError, RecursionError) as error:
        cause = str(error) or type(error).__name__
        raise _refused(index, f"message {index} for queue {queue.full_name} cannot be stored", cause) from error
    if values:
        return [
            (*row[_BEFORE_KIND], value.kind, *row[_BEHIND_KIND], value.type_id, value.type_name)
            for row, value in zip(rows, values, strict=True)
        ]
    return rows


def _check_fields(fields: tuple[Any, ...], index: int) -> None:
    try:
        check_fields(fields)
    except ConversionFailure as error:
        raise _refused(index, error.what, error.cause, error.cure) from None


def _refused(
    index: int, what: str, cause: str, cure: str = "correct the message", error: type[MessageRefused] = MessageRefused
) -> MessageRefused:
    return error(what, index=index, cause=cause, cure=cure)


def _wrong_type(queue: QueueRef, message: Message, index: int) -> MessageRefused:
    names: dict[Any, str] = {
        bytes: "raw bytes", str: "text", tuple: "fields",
        ObjectValue: "an object", dict: "an object", AnyData: "ANYDATA",
    }  # fmt: skip
    kind = names.get(type(message.body), type(message.body).__name__)
    return _refused(
        index,
        f"message {index} does not fit queue {queue.full_name}",
        f"its body is {kind}, the queue holds {queue.payload_type.value}",
        "convert the message, or use a queue table with another payload type",
        PayloadRefused,
    )


def _too_large(queue: QueueRef, size: int, index: int) -> MessageRefused:
    return _refused(
        index,
        f"message {index} is too large for queue {queue.full_name}",
        f"its body has {size} bytes, the queue accepts at most {queue.max_payload}",
        "send a smaller body, or create the queue table with a larger max_payload",
        PayloadRefused,
    )


def _check_texts(message: Message, index: int) -> None:
    texts = (
        ("correlation", message.correlation, MAX_CORRELATION),
        ("exception queue", message.exception_queue, 259),
        ("sender name", message.sender_name, 128),
        ("sender address", message.sender_address, 1024),
        ("user property", message.user_property, MAX_USER_PROPERTY),
    )
    if not 0 <= message.sender_protocol < 256:
        raise _refused(index, f"sender protocol {message.sender_protocol} of message {index} is not valid", "0 to 255")
    for name, text, limit in texts:
        if text is None:
            continue
        if len(text) > limit:
            raise _refused(
                index, f"{name} of message {index} has {len(text)} characters", f"at most {limit} are allowed"
            )
        if "\x00" in text:
            raise _refused(index, f"{name} {text!r} of message {index} contains a NUL character", "it cannot be stored")
        if not text.isascii():
            text.encode()  # a lone surrogate cannot be stored


def check_times(message: Message, index: int) -> None:
    """Refuse a delay or an expiration that is out of range (25203, 25209)."""
    if not isinstance(message.delay, int | float) or not 0 <= message.delay < 2**40:
        raise _refused(
            index, f"delay {message.delay!r} of message {index} is not valid", "0 or more seconds", error=DelayInvalid
        )
    if message.expiration is None:
        return
    if not isinstance(message.expiration, int | float) or not 0 <= message.expiration < 2**40:
        raise _refused(
            index,
            f"expiration {message.expiration!r} of message {index} is not valid",
            "0 or more seconds",
            error=ExpirationInvalid,
        )


def decode(rows: Sequence[Row], hub_id: bytes, *, with_body: bool = True) -> list[Message]:
    """Messages from rows of :data:`~mgw.gateway.aq.store.columns.STORED`.

    Their delay is 0: it is over, or was overridden.
    """
    messages = []
    for row in rows:
        (
            number, body, headers, kind, priority, correlation, expiration, expires_at, enqueued, attempts, exceptions,
            sender, address, original, body_type, type_id, user_property, protocol,
        ) = _OF_MESSAGE(row)  # fmt: skip
        if body_type == _NONE or not with_body:
            body = None
        elif body_type == _TEXT:
            body = bytes(body).decode()
        elif body_type == _FIELDS:
            body = decode_headers(bytes(body).decode())
        elif body_type == _VALUE:
            body = payloads.stored_value(_KINDS[kind], type_id, bytes(body))
        draft = MessageDraft(
            body,
            decode_headers(headers) if headers else (),
            _KINDS[kind],
            priority,
            correlation,
            0,
            expiration,
            expires_at,
            hub_id + number.to_bytes(8, "big"),
            enqueued,
            attempts,
            exceptions,
            sender,
            address,
            original,
            user_property,
            protocol or 0,
        )
        draft.__class__ = Message  # as new_message does it
        messages.append(draft)
    return messages
