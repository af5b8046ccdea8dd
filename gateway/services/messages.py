"""Messages of the hub's queues, given and taken by people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from mgw.gateway.aq import (
    SCALARS,
    Dequeued,
    DequeueMode,
    DequeueOptions,
    Hub,
    QueueAdmin,
    State,
    canonical_type,
    looking,
    resolve_queue,
    wrap,
)
from mgw.gateway.services import lookup
from mgw.gateway.services.message_json import Given, message_of
from mgw.transforms.errors import ConversionFailure, GatewayError
from mgw.transforms.message import Header, Message, PayloadKind
from mgw.transforms.objects import object_json, plain_body
from mgw.transforms.payloads.fields import fields_to_json, json_to_fields
from mgw.transforms.payloads.json_text import parse_exact

__all__ = [
    "BodyRefused",
    "Dequeued",
    "Looked",
    "Reader",
    "State",
    "TypeNotAsked",
    "body_bytes",
    "browse",
    "enqueue",
    "find",
    "look",
    "object_json",
    "put",
    "taken",
]

Looked = looking.Looked
Reader = looking.Reader
_PAGE = 50  # messages whose bodies are read together


class BodyRefused(GatewayError):
    """What was given cannot be the body of a message of that queue."""

    def __str__(self) -> str:
        return f"{self.what}; {self.cure}"


class TypeNotAsked(BodyRefused):
    """The queue does not hold ANYDATA, so a body has no type of its own."""


def enqueue(
    hub: Hub,
    queue: str,
    bodies: Sequence[bytes],
    *,
    raw: bool = False,
    type_name: str | None = None,
    headers: Sequence[Header] = (),
    priority: int = 1,
    correlation: str | None = None,
    delay: float = 0,
    expiration: float | None = None,
    sender: str | None = None,
    recipients: Sequence[str] = (),
    user: str | None = None,
) -> list[bytes]:
    """Put messages into a queue, in one transaction; their ids.

    Args:
        bodies: as they came in; text in UTF-8 unless ``raw`` or the queue holds bytes. JSON where the queue holds
            fields, objects or ANYDATA.
        type_name: what ANYDATA wraps.
        delay, expiration: seconds.

    Raises:
        NotFound: there is no queue of that name.
        BodyRefused: a body is not text, not JSON, or not of that type; nothing is stored.
        AqError: the queue refuses a message; nothing is stored.
    """
    name = lookup.queue(hub, queue, user)
    info = QueueAdmin(hub, user=user).queue(name)
    holds = info.payload_type if info is not None else None
    if holds == "ANYDATA" and type_name is None and info is not None and info.object_type in SCALARS:
        type_name = info.object_type
    is_raw = raw or holds == "RAW"
    if type_name is not None and holds not in {None, "ANYDATA"}:
        raise TypeNotAsked(f"--type is for ANYDATA, queue {name} holds {holds}", cure="leave it out")
    messages = [
        Message(
            body=_fitting(holds, body if is_raw else _text(body), type_name),
            headers=tuple(headers),
            kind=PayloadKind.RAW if is_raw and not headers else PayloadKind.BASIC,
            priority=priority,
            correlation=correlation,
            delay=delay,
            expiration=expiration,
            sender_name=sender,
        )
        for body in bodies
    ]
    with hub.session(user=user) as session:
        ids = session.enqueue_array(name, messages, recipients=recipients)
        session.commit()
    return ids


def put(hub: Hub, queue: str, given: Sequence[Given]) -> list[bytes]:
    """Put messages into a queue as they were given, all or none, in one transaction; their ids.

    Raises:
        NotFound: there is no queue of that name.
        Malformed: one of them cannot be a message of that queue; nothing is stored.
        AqError: the queue refuses a message; nothing is stored.
    """
    name = lookup.queue(hub, queue)
    info = QueueAdmin(hub).queue(name)
    holds, object_type = (None, None) if info is None else (str(info.payload_type), info.object_type)
    messages = [message_of(each, holds, object_type) for each in given]
    recipients = [each.recipients for each in given]
    with hub.session() as session:
        ids = session.enqueue_array(name, messages, recipient_lists=recipients if any(recipients) else None)
        session.commit()
    return ids


def look(
    hub: Hub,
    queue: str,
    *,
    consumer: str | None = None,
    state: State | None = None,
    correlation: str | None = None,
    condition: str | None = None,
    after: Sequence[float] = (),
    limit: int,
) -> Iterator[Looked]:
    """Messages of a queue in a state, in the order of dequeue, after those of a place; nothing is taken.

    Args:
        consumer, state, correlation, condition: as :func:`mgw.gateway.aq.queues.looking.page`.

    Raises:
        NotFound: there is no queue of that name.
        AqError: as that.
    """
    name = lookup.queue(hub, queue)
    while limit > 0:
        size = min(limit, _PAGE)
        with hub.read() as conn:
            found = looking.page(
                conn,
                resolve_queue(conn, name),
                consumer=consumer,
                state=state,
                correlation=correlation,
                condition=condition,
                after=after,
                limit=size,
            )
        yield from found
        if len(found) < size:
            return
        limit, after = limit - size, found[-1].place


def find(hub: Hub, queue: str, msgid: bytes) -> tuple[Looked, Sequence[Reader]]:
    """A message of a queue in whatever state, and the consumers it is for.

    Raises:
        NotFound: there is no queue of that name, or no such message in it.
    """
    name = lookup.queue(hub, queue)
    with hub.read() as conn:
        found = looking.one(conn, resolve_queue(conn, name), msgid)
    if found is None:
        raise lookup.MessageNotFound(msgid.hex().upper(), f"queue {name}")
    return found


@contextmanager
def taken(
    hub: Hub,
    queue: str,
    *,
    count: int,
    consumer: str | None = None,
    wait: float = 0,
    correlation: str | None = None,
    condition: str | None = None,
    msgid: bytes | None = None,
    user: str | None = None,
) -> Iterator[Sequence[Dequeued]]:
    """Messages taken out of a queue when the body of ``with`` ends; they stay there when it raises.

    Args:
        wait: seconds to wait for the first message.

    Raises:
        NotFound: there is no queue of that name.
        AqError: there is no message (25228), or as :meth:`mgw.gateway.aq.sessions.session.Session.dequeue_array`.
    """
    options = _options(consumer, correlation, condition, msgid, wait=wait, mode=DequeueMode.REMOVE)
    with hub.session(user=user) as session:
        yield session.dequeue_array(lookup.queue(hub, queue, user), options, count)
        session.commit()


def browse(
    hub: Hub,
    queue: str,
    *,
    count: int,
    consumer: str | None = None,
    correlation: str | None = None,
    condition: str | None = None,
    msgid: bytes | None = None,
    user: str | None = None,
) -> Sequence[Dequeued]:
    """Messages of a queue, which stay where they are.

    Raises:
        NotFound: there is no queue of that name.
        AqError: as :func:`taken`.
    """
    options = _options(consumer, correlation, condition, msgid, wait=0, mode=DequeueMode.BROWSE)
    with hub.session(user=user) as session:
        return session.dequeue_array(lookup.queue(hub, queue, user), options, count)


def body_bytes(body: Any) -> bytes:
    """A body as a file holds it: bytes as they are, text in UTF-8, fields and objects as JSON."""
    if isinstance(body, bytes):
        return body
    if isinstance(body, tuple):
        return fields_to_json(body)[0].encode()
    if hasattr(body, "type_name"):
        body = plain_body(body, lenient=True)
        return body if isinstance(body, bytes) else str(body or "").encode()
    return b"" if body is None else str(body).encode("utf-8")


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BodyRefused(
            f"the body is not UTF-8 text at byte {error.start}", cure="add --raw to send bytes"
        ) from error


def _fitting(holds: str | None, body: str | bytes, type_name: str | None) -> Any:
    """A body as the queue holds it: JSON as an object or fields, and ANYDATA wraps it."""
    try:
        if holds == "ANYDATA":
            if type_name is not None and canonical_type(type_name, "MGW") not in SCALARS:
                return wrap(parse_exact(body), type_name)
            return wrap(body, type_name)
        if holds == "FIELDS" and isinstance(body, str):
            return json_to_fields(body)
    except (ValueError, ConversionFailure) as error:
        reason = error.cause if isinstance(error, ConversionFailure) else f"it is not JSON ({error})"
        raise BodyRefused(f"the body cannot be used: {reason}", cure='send a JSON object, such as {"id": 7}') from error
    if holds == "OBJECT" and isinstance(body, str):
        with suppress(ValueError):  # refused by the queue, with the reason
            return parse_exact(body)
    return body


def _options(
    consumer: str | None,
    correlation: str | None,
    condition: str | None,
    msgid: bytes | None,
    *,
    wait: float,
    mode: DequeueMode,
) -> DequeueOptions:
    return DequeueOptions(
        consumer_name=consumer,
        dequeue_mode=mode,
        wait=wait,
        msgid=msgid,
        correlation=correlation,
        deq_condition=condition,
    )
