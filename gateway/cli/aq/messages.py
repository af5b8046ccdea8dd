"""``mgw aq enqueue``, ``dequeue`` and ``browse``."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.aq.printing import print_message
from gateway.cli.aq.words import Json, QueueName, User, full_queue_name
from gateway.cli.common import EXIT_FAILED, EXIT_USAGE, fail, hub_url, open_hub, say

if TYPE_CHECKING:
    from gateway.aq.model import DequeueOptions
    from transforms.message import Header

__all__ = ["register"]

Consumer = Annotated[str | None, typer.Option("--consumer", "-c", help="Subscriber (multi-consumer queues).")]
Correlation = Annotated[str | None, typer.Option(help="Only this correlation; % and _ are wildcards.")]
Condition = Annotated[str | None, typer.Option(help="Only messages for which it is true.")]
MessageId = Annotated[str | None, typer.Option("--msgid", help="Only this message (32 hexadecimal digits).")]
Count = Annotated[int, typer.Option("--count", "-n", min=1, help="At most so many messages.")]
Body = Annotated[bool, typer.Option("--body", help="Print the bodies and nothing else, byte for byte.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the group."""
    for name, command in (("enqueue", enqueue), ("dequeue", dequeue), ("browse", browse)):
        app.command(name)(command)


def enqueue(
    ctx: typer.Context,
    queue: QueueName,
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help="Body; '-' reads standard input.")] = None,
    *,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Body from a file, byte for byte.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="The body is bytes, not text.")] = False,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="Text header.")
    ] = None,
    priority: Annotated[int, typer.Option("--priority", "-p", help="Smaller is more important.")] = 1,
    correlation: Annotated[str | None, typer.Option(help="At most 128 characters.")] = None,
    delay: Annotated[float, typer.Option(min=0, help="Seconds until it may be read.")] = 0,
    expiration: Annotated[float | None, typer.Option(min=0, help="Seconds it stays readable.")] = None,
    recipient: Annotated[list[str] | None, typer.Option(help="Instead of the subscribers; may be repeated.")] = None,
    lines: Annotated[bool, typer.Option("--lines", help="Every line of the input is a message.")] = False,
    type_name: Annotated[
        str | None,
        typer.Option("--type", help="What ANYDATA wraps: NUMBER, or OE.ADDRESS given as JSON."),
    ] = None,
    sender: Annotated[str | None, typer.Option(help="Name of the sender; on secure queues an AQ agent.")] = None,
    user: User = None,
) -> None:
    """Put messages into a queue and print their ids."""
    from gateway.aq.admin import QueueAdmin
    from transforms.message import Message, PayloadKind

    given = _input(text, file)
    bodies = given.splitlines() if lines else [given]
    headers = _headers(header)
    with open_hub(hub_url(ctx)) as hub:
        name = full_queue_name(hub, queue, user)
        info = QueueAdmin(hub, user=user).queue(name)
        is_raw = raw or (info is not None and info.payload_type == "RAW")
        holds = info.payload_type if info is not None else None
        if type_name is not None and holds not in {None, "ANYDATA"}:
            fail(f"--type is for ANYDATA, queue {name} holds {holds}; leave it out", EXIT_USAGE)
        messages = [
            Message(
                body=_fitting(holds, body if is_raw else _text(body), type_name),
                headers=headers,
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
            ids = session.enqueue_array(name, messages, recipients=recipient or ())
            session.commit()
    for each in ids:
        say(each.hex().upper())


def dequeue(
    ctx: typer.Context,
    queue: QueueName,
    *,
    consumer: Consumer = None,
    count: Count = 1,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for the first message.")] = 0,
    correlation: Correlation = None,
    condition: Condition = None,
    msgid: MessageId = None,
    body: Body = False,
    as_json: Json = False,
    user: User = None,
) -> None:
    """Take messages out of a queue and print them. Exit 1 when there is none."""
    options = _options(consumer, correlation, condition, msgid, wait=wait, browse=False)
    with open_hub(hub_url(ctx)) as hub, hub.session(user=user) as session:
        found = session.dequeue_array(full_queue_name(hub, queue, user), options, count)
        for each in found:
            print_message(each, body=body, as_json=as_json)
        sys.stdout.flush()  # what cannot be printed is not taken
        session.commit()


def browse(
    ctx: typer.Context,
    queue: QueueName,
    *,
    consumer: Consumer = None,
    count: Count = 20,
    correlation: Correlation = None,
    condition: Condition = None,
    msgid: MessageId = None,
    body: Body = False,
    as_json: Json = False,
    user: User = None,
) -> None:
    """Look at messages and leave them where they are."""
    options = _options(consumer, correlation, condition, msgid, wait=0, browse=True)
    with open_hub(hub_url(ctx)) as hub, hub.session(user=user) as session:
        for each in session.dequeue_array(full_queue_name(hub, queue, user), options, count):
            print_message(each, body=body, as_json=as_json)


def _input(text: str | None, file: Path | None) -> bytes:
    if text is not None and file is not None:
        fail("a body is given twice; give TEXT or --file", EXIT_USAGE)
    if file is not None:
        try:
            return file.read_bytes()
        except OSError as error:
            fail(f"{file} cannot be read: {error.strerror}; check path and permissions")
    if text is None or text == "-":
        return sys.stdin.buffer.read()
    return text.encode("utf-8", "surrogateescape")


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        fail(f"the body is not UTF-8 text at byte {error.start}; add --raw to send bytes", EXIT_FAILED)


def _fitting(holds: str | None, body: str | bytes, type_name: str | None) -> Any:
    """A body as the queue holds it: JSON as an object or fields, and ANYDATA wraps it."""
    from gateway.aq.anydata import SCALARS, canonical_type, wrap
    from transforms.convert import json_to_fields, parse_exact
    from transforms.errors import ConversionFailure

    try:
        if holds == "ANYDATA":
            if type_name is not None and canonical_type(type_name, "MGW") not in SCALARS:
                return wrap(parse_exact(body), type_name)
            return wrap(body, type_name)
        if holds == "FIELDS" and isinstance(body, str):
            return json_to_fields(body)
    except (ValueError, ConversionFailure) as error:
        reason = error.cause if isinstance(error, ConversionFailure) else f"it is no JSON ({error})"
        fail(f'the body cannot be used: {reason}; send a JSON object, such as {{"id": 7}}')
    if holds == "OBJECT" and isinstance(body, str):
        with suppress(ValueError):  # refused by the queue, with the reason
            return parse_exact(body)
    return body


def _headers(words: list[str] | None) -> tuple[Header, ...]:
    from transforms.message import Header, ValueType

    result = []
    for word in words or ():
        name, equals, value = word.partition("=")
        if not equals or not name:
            fail(f"--header {word!r} is not of the form NAME=VALUE", EXIT_USAGE)
        result.append(Header(name, ValueType.TEXT, value))
    return tuple(result)


def _options(
    consumer: str | None,
    correlation: str | None,
    condition: str | None,
    msgid: str | None,
    *,
    wait: float,
    browse: bool,
) -> DequeueOptions:
    from gateway.aq.model import DequeueMode, DequeueOptions

    identity = None
    if msgid is not None:
        try:
            identity = bytes.fromhex(msgid.removeprefix("AQMSGID:"))
        except ValueError:
            identity = b""
        if len(identity) != 16:
            fail(f"--msgid {msgid!r} is not 32 hexadecimal digits; copy it from mgw aq browse", EXIT_USAGE)
    return DequeueOptions(
        consumer_name=consumer,
        dequeue_mode=DequeueMode.BROWSE if browse else DequeueMode.REMOVE,
        wait=wait,
        msgid=identity,
        correlation=correlation,
        deq_condition=condition,
    )
