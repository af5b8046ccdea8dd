"""``mgw aq enqueue``, ``dequeue`` and ``browse``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mgw.gateway.cli.aq.printing import print_message
from mgw.gateway.cli.aq.words import Json, QueueName, User
from mgw.gateway.cli.common import EXIT_USAGE, completer, fail, hub_url, open_hub, say

if TYPE_CHECKING:
    from mgw.transforms.message import Header

__all__ = ["register"]

Consumer = Annotated[
    str | None,
    typer.Option(
        "--consumer", "-c", help="Subscriber (multi-consumer queues).", autocompletion=completer("subscribers")
    ),
]
Correlation = Annotated[str | None, typer.Option(help="Only this correlation; % and _ are wildcards.")]
Condition = Annotated[str | None, typer.Option(help="Only messages for which it is true.")]
MessageId = Annotated[str | None, typer.Option("--msgid", help="Only this message (32 hexadecimal digits).")]
Count = Annotated[int, typer.Option("--count", "-n", min=1, help="Maximum number of messages.")]
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
    delay: Annotated[float, typer.Option(min=0, help="Seconds until it can be dequeued.")] = 0,
    expiration: Annotated[float | None, typer.Option(min=0, help="Seconds for which it can be dequeued.")] = None,
    recipient: Annotated[list[str] | None, typer.Option(help="Instead of the subscribers; may be repeated.")] = None,
    lines: Annotated[bool, typer.Option("--lines", help="Every line of the input is a message.")] = False,
    type_name: Annotated[
        str | None,
        typer.Option("--type", help="What ANYDATA wraps: NUMBER, or OE.ADDRESS given as JSON."),
    ] = None,
    sender: Annotated[str | None, typer.Option(help="Name of the sender; on secure queues an AQ agent.")] = None,
    user: User = None,
) -> None:
    """Enqueue messages and print their ids."""
    from mgw.gateway.services import messages

    given = _input(text, file)
    headers = _headers(header)
    with open_hub(hub_url(ctx)) as hub:
        try:
            ids = messages.enqueue(
                hub,
                queue,
                given.splitlines() if lines else [given],
                raw=raw,
                type_name=type_name,
                headers=headers,
                priority=priority,
                correlation=correlation,
                delay=delay,
                expiration=expiration,
                sender=sender,
                recipients=recipient or (),
                user=user,
            )
        except messages.TypeNotAsked as error:
            fail(str(error), EXIT_USAGE)
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
    """Dequeue messages and print them. Exit 1 when there is none."""
    from mgw.gateway.services import messages

    identity = _message_id(msgid)
    with (
        open_hub(hub_url(ctx)) as hub,
        messages.taken(
            hub,
            queue,
            count=count,
            consumer=consumer,
            wait=wait,
            correlation=correlation,
            condition=condition,
            msgid=identity,
            user=user,
        ) as found,
    ):
        for each in found:
            print_message(each, body=body, as_json=as_json)
        sys.stdout.flush()  # what cannot be printed is not taken


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
    """Print messages without dequeuing them."""
    from mgw.gateway.services import messages

    identity = _message_id(msgid)
    with open_hub(hub_url(ctx)) as hub:
        found = messages.browse(
            hub,
            queue,
            count=count,
            consumer=consumer,
            correlation=correlation,
            condition=condition,
            msgid=identity,
            user=user,
        )
        for each in found:
            print_message(each, body=body, as_json=as_json)


def _input(text: str | None, file: Path | None) -> bytes:
    if text is not None and file is not None:
        fail("two bodies are given; give TEXT or --file", EXIT_USAGE)
    if file is not None:
        try:
            return file.read_bytes()
        except OSError as error:
            fail(f"{file} cannot be read: {error.strerror}; check path and permissions")
    if text is None or text == "-":
        return sys.stdin.buffer.read()
    return text.encode("utf-8", "surrogateescape")


def _headers(words: list[str] | None) -> tuple[Header, ...]:
    from mgw.transforms.message import Header, ValueType

    result = []
    for word in words or ():
        name, equals, value = word.partition("=")
        if not equals or not name:
            fail(f"--header {word!r} is not of the form NAME=VALUE", EXIT_USAGE)
        result.append(Header(name, ValueType.TEXT, value))
    return tuple(result)


def _message_id(msgid: str | None) -> bytes | None:
    if msgid is None:
        return None
    try:
        identity = bytes.fromhex(msgid.removeprefix("AQMSGID:"))
    except ValueError:
        identity = b""
    if len(identity) != 16:
        fail(f"--msgid {msgid!r} is not 32 hexadecimal digits; copy it from mgw aq browse", EXIT_USAGE)
    return identity
