"""Whether a queue or an exchange exists, and the first message of a stream; nothing is changed at the broker."""

from __future__ import annotations

from contextlib import closing
from urllib.parse import quote

from mgw.links.contract import Delivery, JobUse
from mgw.links.inspection import Existence
from mgw.links.rabbitmq.conditions import QueueFacts, look_at_queue
from mgw.links.rabbitmq.connection import Session
from mgw.links.rabbitmq.kept_stream import KeptStream
from mgw.links.rabbitmq.management import Policies
from mgw.links.rabbitmq.settings import Settings
from mgw.transforms.amqp import Rules
from mgw.transforms.errors import LinkRefused, QueueMissing

__all__ = ["first_of", "found_exchange", "found_queue", "other_type"]


def found_queue(settings: Settings, queue: str, queue_type: str) -> Existence:
    """Whether a queue exists; ``queue_type``: the one it is to have, or ``auto``.

    Raises:
        LinkError: the broker does not answer, or does not let the user ask.
    """
    session = Session(settings, "look")
    try:
        with session.calling("verify"):
            there = session.channel.queue_declare(queue, passive=True).method
        facts = look_at_queue(session, queue, Policies())
    except QueueMissing:
        wanted = "" if queue_type in ("auto", "classic") else f" queue_type={queue_type}"
        return Existence(
            False,
            f"virtual host {settings.virtual_host} has no queue {queue!r}",
            _made(settings, f"queue name={_quoted(queue)} durable=true{wanted}"),
        )
    finally:
        session.close()
    kind = f"a {'' if facts.durable else 'transient '}{facts.type} queue" if facts.known else "a queue"
    if facts.type == "stream":
        kind = "a stream"
    held = "" if facts.type == "stream" else f" with {there.message_count} message(s)"
    other = other_type(queue_type, facts)
    return Existence(True, f"{queue!r} is {kind}{held} and {there.consumer_count} reader(s){other and f'; {other}'}")


def other_type(queue_type: str, facts: QueueFacts) -> str:
    """What a job does with a queue that is not of the type ``queue_type``; "" if it is, or nobody can tell."""
    if queue_type == "auto" or not facts.known or facts.type == queue_type:
        return ""
    registered = f"it is registered with AMQP_QueueType {queue_type}"
    if queue_type == "stream":
        return f"{registered}: a job that reads it asks for an offset, which RabbitMQ refuses for a {facts.type} queue"
    if facts.type == "stream":
        return (
            f"{registered}: a job that reads it is refused, as it would begin at the end of the stream whenever it "
            "connects, and never get what came before"
        )
    return f"{registered}, which changes nothing for a job: it reads and writes a {facts.type} queue in the same way"


def found_exchange(settings: Settings, exchange: str) -> Existence:
    """Whether an exchange exists.

    Raises:
        LinkError: as for :func:`found_queue`.
    """
    session = Session(settings, "look")
    try:
        with session.calling("verify"):
            session.channel.exchange_declare(exchange, passive=True)
    except QueueMissing:
        return Existence(
            False,
            f"virtual host {settings.virtual_host} has no exchange {exchange!r}",
            _made(settings, f"exchange name={_quoted(exchange)} type=topic durable=true"),
        )
    finally:
        session.close()
    return Existence(True, f"{exchange!r} is an exchange; a job that reads it declares a queue of its own")


def first_of(settings: Settings, use: JobUse, queue: str | None, rules: Rules) -> Delivery | None:
    """The first message of a stream; ``queue`` None: the job has yet to declare it.

    Raises:
        LinkError: see :meth:`mgw.links.inspection.ShowsMessages.first_message`.
    """
    if queue is None:
        raise _refused(use, "the queue of the job gets messages from the moment on at which the job declares it")
    session = Session(settings, f"{use.agent} {use.job} look")
    try:
        with session.calling("verify"):
            session.channel.queue_declare(queue, passive=True)
        if look_at_queue(session, queue, Policies()).type != "stream":
            raise _refused(
                use,
                "RabbitMQ shows a message of a queue only by handing it out, which marks it as redelivered; a quorum "
                "queue counts it as a delivery, too",
            )
        with closing(KeptStream(settings, use, queue, rules, session, bare=False)) as stream:
            held = next(iter(stream.read(1)), None)
    finally:
        session.close()
    return None if held is None else Delivery(held.message)


def _refused(use: JobUse, cause: str) -> LinkRefused:
    return LinkRefused(
        f"messages of foreign queue {use.endpoint.full_name} cannot be shown without taking one",
        link=use.endpoint.link,
        operation="read",
        cause=cause,
        cure="give a message by hand",
    )


def _made(settings: Settings, what: str) -> str:
    return f"rabbitmqadmin --vhost={_quoted(settings.virtual_host)} declare {what}"


def _quoted(name: str) -> str:
    return name if quote(name, safe="/.@:") == name else "'" + name.replace("'", "'\\''") + "'"
