"""``mgw aq``: the hub's own queues and the messages in them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli import aq_security
from gateway.cli.common import (
    EXIT_FAILED,
    EXIT_USAGE,
    ago,
    completer,
    fail,
    find_name,
    hub_url,
    open_hub,
    print_json,
    print_table,
    say,
)

if TYPE_CHECKING:
    from gateway.aq.hub import Hub
    from gateway.aq.model import Counts, Dequeued, DequeueOptions, QueueInfo
    from transforms.message import Header

__all__ = ["app"]

app = typer.Typer(help="The hub's own queues and their messages.", no_args_is_help=True, rich_markup_mode=None)
subscribers = typer.Typer(help="Subscribers of multi-consumer queues.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(subscribers, name="subscribers")
aq_security.register(app)

Json = Annotated[bool, typer.Option("--json", help="Print JSON, one message or object at a time.")]
QueueName = Annotated[str, typer.Argument(metavar="QUEUE", autocompletion=completer("queues"))]
Consumer = Annotated[str | None, typer.Option("--consumer", "-c", help="Subscriber (multi-consumer queues).")]
Correlation = Annotated[str | None, typer.Option(help="Only this correlation; % and _ are wildcards.")]
Condition = Annotated[str | None, typer.Option(help="Only messages for which it is true.")]
MessageId = Annotated[str | None, typer.Option("--msgid", help="Only this message (32 hexadecimal digits).")]
Count = Annotated[int, typer.Option("--count", "-n", min=1, help="At most so many messages.")]
Body = Annotated[bool, typer.Option("--body", help="Print the bodies and nothing else, byte for byte.")]


@app.command("queues")
def queues(ctx: typer.Context, as_json: Json = False) -> None:
    """Queues of the hub with the messages in them."""
    from gateway.aq.admin import QueueAdmin
    from gateway.aq.transfer import backlog, resolve

    with open_hub(hub_url(ctx)) as hub:
        now = hub.clock.now()
        with hub.read() as conn:
            queue_admin = QueueAdmin(hub, conn)
            readers = queue_admin.queue_subscribers()
            found = []
            for queue in queue_admin.queues():
                ref = resolve(conn, f'"{queue.schema}"."{queue.name}"')
                names = [each.name for each in readers if each.queue == queue.full_name and each.name]
                found.append((queue, backlog(conn, ref), {name: backlog(conn, ref, name) for name in names}))
    if as_json:
        print_json(
            [
                asdict(queue)
                | {"messages": asdict(held), "subscribers": {name: asdict(each) for name, each in by_reader.items()}}
                for queue, held, by_reader in found
            ]
        )
        return
    rows: list[tuple[Any, ...]] = []
    for queue, held, by_reader in found:
        if queue.name.upper().startswith("AQ$_") and not (held.ready or held.expired or held.waiting):
            continue
        kind = "multi" if queue.multiple_consumers else "single"
        kind = "exception" if queue.queue_type == "EXCEPTION_QUEUE" else kind
        flags = ("E" if queue.enqueue_enabled else "-") + ("D" if queue.dequeue_enabled else "-")
        numbers = ("", "", "", "") if by_reader else _numbers(held, now)
        rows.append((queue.full_name, kind, queue.object_type or queue.payload_type, flags, *numbers))
        rows += [(f"  {name}", "", "", "", *_numbers(each, now)) for name, each in by_reader.items()]
    columns = {"QUEUE, SUBSCRIBER": "fold", "KIND": "left", "HOLDS": "left", "ON": "left"}
    print_table(columns | {"READY": "right", "DELAYED": "right", "EXPIRED": "right", "OLDEST": "right"}, rows)


def _numbers(held: Counts, now: float) -> tuple[Any, ...]:
    age = ago(None if held.oldest is None else now - held.oldest)
    return held.ready + held.claimed, held.waiting, held.expired, age


@app.command("enqueue")
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
) -> None:
    """Put messages into a queue and print their ids."""
    from gateway.aq.admin import QueueAdmin
    from transforms.message import Message, PayloadKind

    given = _input(text, file)
    bodies = given.splitlines() if lines else [given]
    headers = _headers(header)
    with open_hub(hub_url(ctx)) as hub:
        name = _queue_name(hub, queue)
        info = QueueAdmin(hub).queue(name)
        is_raw = raw or (info is not None and info.payload_type == "RAW")
        messages = [
            Message(
                body=body if is_raw else _fitting(info, _text(body)),
                headers=headers,
                kind=PayloadKind.RAW if is_raw and not headers else PayloadKind.BASIC,
                priority=priority,
                correlation=correlation,
                delay=delay,
                expiration=expiration,
            )
            for body in bodies
        ]
        with hub.session() as session:
            ids = session.enqueue_array(name, messages, recipients=recipient or ())
            session.commit()
    for each in ids:
        say(each.hex().upper())


@app.command("dequeue")
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
) -> None:
    """Take messages out of a queue and print them. Exit 1 when there is none."""
    options = _options(consumer, correlation, condition, msgid, wait=wait, browse=False)
    with open_hub(hub_url(ctx)) as hub, hub.session() as session:
        found = session.dequeue_array(_queue_name(hub, queue), options, count)
        for each in found:
            _print(each, body=body, as_json=as_json)
        sys.stdout.flush()  # what cannot be printed is not taken
        session.commit()


@app.command("browse")
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
) -> None:
    """Look at messages and leave them where they are."""
    options = _options(consumer, correlation, condition, msgid, wait=0, browse=True)
    with open_hub(hub_url(ctx)) as hub, hub.session() as session:
        for each in session.dequeue_array(_queue_name(hub, queue), options, count):
            _print(each, body=body, as_json=as_json)


@app.command("time-manager")
def time_manager(ctx: typer.Context, as_json: Json = False) -> None:
    """Do once what time demands: end delays, expire, remove. Agents do it every second."""
    from gateway.aq.monitor import run_once

    with open_hub(hub_url(ctx)) as hub:
        report = run_once(hub)
    if as_json:
        print_json(asdict(report))
        return
    say(
        f"{report.made_ready} made ready, {report.expired} expired, {report.removed} removed, "
        f"{report.returned} returned by sessions that died"
    )


@subscribers.command("list")
def subscribers_list(
    ctx: typer.Context,
    queue: Annotated[str | None, typer.Argument(metavar="QUEUE", autocompletion=completer("queues"))] = None,
    as_json: Json = False,
) -> None:
    """Subscribers of one queue, or of all. Those named MGW_... belong to jobs."""
    from gateway.aq.admin import QueueAdmin

    with open_hub(hub_url(ctx)) as hub:
        found = QueueAdmin(hub).queue_subscribers(_queue_name(hub, queue) if queue else None)
    if as_json:
        print_json([asdict(each) for each in found])
        return
    print_table(
        {"QUEUE": "fold", "SUBSCRIBER": "fold", "RULE": "fold"}, [(each.queue, each.name, each.rule) for each in found]
    )


@subscribers.command("add")
def subscribers_add(
    ctx: typer.Context,
    queue: QueueName,
    name: Annotated[str, typer.Argument(metavar="SUBSCRIBER")],
    rule: Annotated[str | None, typer.Option(help="Only messages for which it is true.")] = None,
) -> None:
    """Subscribe; the subscriber gets what is put in from now on."""
    from gateway.aq.admin import QueueAdmin

    with open_hub(hub_url(ctx)) as hub:
        full = _queue_name(hub, queue)
        QueueAdmin(hub).add_subscriber(full, name, rule=rule)
    say(f"{name} subscribes to {full}")


@subscribers.command("remove")
def subscribers_remove(
    ctx: typer.Context, queue: QueueName, name: Annotated[str, typer.Argument(metavar="SUBSCRIBER")]
) -> None:
    """End a subscription; what waits for it is dropped."""
    from gateway.aq.admin import QueueAdmin

    if name.upper().startswith("MGW_"):
        fail(f"subscriber {name} belongs to a job; remove the job instead: mgw jobs remove {name[4:]}")
    with open_hub(hub_url(ctx)) as hub:
        full = _queue_name(hub, queue)
        QueueAdmin(hub).remove_subscriber(full, name)
    say(f"{name} no longer subscribes to {full}")


@contextmanager
def _usage() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        fail(str(error), EXIT_USAGE)


def _queue_name(hub: Hub, name: str) -> str:
    """The queue as it was defined; leaves with a suggestion when there is none."""
    from gateway.aq.admin import QueueAdmin

    found = QueueAdmin(hub).queue(name)
    return found.full_name if found else find_name("queue", name, [each.full_name for each in QueueAdmin(hub).queues()])


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
        with _usage():
            identity = bytes.fromhex(msgid.removeprefix("AQMSGID:"))
    return DequeueOptions(
        consumer_name=consumer,
        dequeue_mode=DequeueMode.BROWSE if browse else DequeueMode.REMOVE,
        wait=wait,
        msgid=identity,
        correlation=correlation,
        deq_condition=condition,
    )


def _print(found: Dequeued, *, body: bool, as_json: bool) -> None:
    if body:
        sys.stdout.flush()
        sys.stdout.buffer.write(_bytes(found.message.body))
        sys.stdout.buffer.write(b"\n" if sys.stdout.isatty() else b"")
        sys.stdout.buffer.flush()
        return
    if as_json:
        import json

        say(json.dumps(_as_json(found), ensure_ascii=False))
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


def _fitting(info: QueueInfo | None, text: str) -> Any:
    """Text as the queue holds it: a JSON object is an object, and ANYDATA wraps text."""
    if info is not None and info.payload_type == "OBJECT":
        from transforms.convert import parse_json

        try:
            return parse_json(text)
        except ValueError:
            return text  # refused by the queue, with the reason
    if info is not None and info.payload_type == "ANYDATA":
        from gateway.aq.anydata import wrap

        return wrap(text)
    return text


def _as_json(found: Dequeued) -> dict[str, Any]:
    message = found.message
    text = isinstance(message.body, str)
    values: dict[str, Any] = {
        "msgid": found.msgid.hex().upper(),
        "state": found.state.name,
        "kind": message.kind.value,
        "priority": message.priority,
        "correlation": message.correlation,
        "enqueue_time": message.enqueue_time,
        "expires_at": message.expires_at,
        "attempts": message.attempts,
        "headers": [[header.name, header.type.name, _plain(header.value)] for header in message.headers],
    }
    if isinstance(message.body, tuple):
        return values | {"fields": [[field.name, field.type.name, _plain(field.value)] for field in message.body]}
    if message.type_name is not None:
        import json

        from transforms.objects import object_json

        return values | {"type": message.type_name, "value": json.loads(object_json(message.body))}
    return values | {"text" if text else "raw": _plain(message.body)}


def _plain(value: Any) -> Any:
    """Bytes as base64."""
    if isinstance(value, bytes):
        import base64

        return base64.b64encode(value).decode("ascii")
    return value


def _shown(value: Any) -> str:
    """A value for people: control characters escaped, bytes that are text as text."""
    if isinstance(value, bytes):
        try:
            value = value.decode("utf-8")
        except UnicodeDecodeError:
            return f"0x{value.hex()}"
    if hasattr(value, "type_name"):
        from transforms.objects import object_json

        value = f"{value.type_name} {object_json(value)}"
    if isinstance(value, tuple):
        return ", ".join(f"{field.name}={_shown(field.value)}" for field in value)
    text = str(value)
    return "".join(letter if letter.isprintable() or letter == "\n" else repr(letter)[1:-1] for letter in text)


def _bytes(body: Any) -> bytes:
    if isinstance(body, bytes):
        return body
    if isinstance(body, tuple):
        from transforms.convert import fields_to_json

        return fields_to_json(body)[0].encode()
    if hasattr(body, "type_name"):
        from transforms.objects import plain_body

        body = plain_body(body)
        return body if isinstance(body, bytes) else str(body or "").encode()
    return b"" if body is None else str(body).encode("utf-8")
