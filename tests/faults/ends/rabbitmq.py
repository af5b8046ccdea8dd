"""RabbitMQ queues and streams, through pika."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pika
import pika.exceptions

from tests.faults.verdict import IDENTITY, Copy, Numbered, identity_in
from tests.support.brokers import RabbitMQ
from tests.support.waiting import eventually

__all__ = ["RabbitFeed", "RabbitOutlet", "declare"]

_FAILURES = (pika.exceptions.AMQPError, OSError)
_BACK = 60.0  # seconds for a server to take connections again
_ANSWERED = 15.0  # seconds after which a message without an answer is in doubt


def _connect(server: RabbitMQ) -> Any:
    credentials = pika.PlainCredentials(server.username, server.password)
    return pika.BlockingConnection(
        pika.ConnectionParameters(server.host, server.port, server.vhost, credentials, heartbeat=server.heartbeat)
    )


def declare(server: RabbitMQ, name: str, arguments: Mapping[str, object]) -> None:
    """A durable queue."""
    connection = _connect(server)
    try:
        connection.channel().queue_declare(name, durable=True, arguments=dict(arguments))
    finally:
        connection.close()


class RabbitFeed:
    """Persistent messages, each of them confirmed after the queue has taken it over.

    Not in transactions: RabbitMQ commits one of which a quorum queue refused messages. They are mandatory: while a
    stream starts after a crash of the broker, nothing routes to it, and what nobody takes is confirmed all the same.
    """

    def __init__(self, server: RabbitMQ, queue: str) -> None:
        self._server = server
        self._queue = queue
        self._connection: Any = None
        self._channel: Any = None
        self._returned = 0
        self._tag = 0  # of the last message on this channel
        self._open: set[int] = set()  # tags that wait for their answer
        self._refused: set[int] = set()
        assert self.reopen(), "RabbitMQ is not there"

    def publish(self, messages: Sequence[Numbered]) -> set[int]:
        self._returned = 0
        first, self._tag = self._tag + 1, self._tag + len(messages)
        tags = range(first, self._tag + 1)
        self._open, self._refused = set(tags), set()
        end = time.monotonic() + _ANSWERED
        try:
            for message in messages:
                self._channel.basic_publish("", self._queue, message.body, _own(message), mandatory=True)
            self._connection._flush_output(lambda: not self._open or time.monotonic() > end)
            self._connection.process_data_events(0)
        except _FAILURES:
            pass  # what was confirmed before is there
        if self._returned:
            return set()
        untaken = self._open | self._refused
        return {message.number for tag, message in zip(tags, messages, strict=True) if tag not in untaken}

    def reopen(self) -> bool:
        self.close()
        try:
            self._connection = _connect(self._server)
            self._channel = self._connection.channel()
            self._channel.add_on_return_callback(self._came_back)
            selected: list[Any] = []
            self._channel._impl.confirm_delivery(self._answered, selected.append)
            self._connection._flush_output(lambda: selected)
            self._tag = 0
        except _FAILURES:
            return False
        return True

    def _answered(self, frame: Any) -> None:
        tag = frame.method.delivery_tag
        answered = {open_ for open_ in self._open if open_ <= tag} if frame.method.multiple else {tag}
        self._open -= answered
        if isinstance(frame.method, pika.spec.Basic.Nack):
            self._refused |= answered

    def _came_back(self, *_returned: object) -> None:
        self._returned += 1

    def close(self) -> None:
        _close(self._connection)
        self._connection = None


def _own(message: Numbered) -> pika.BasicProperties:
    if message.identity is None:  # nothing tells it from another with the same body
        return pika.BasicProperties(delivery_mode=2)
    return pika.BasicProperties(
        delivery_mode=2,
        message_id=message.identity,
        correlation_id=f"lane{message.lane}",
        headers={IDENTITY: message.identity},
    )


class RabbitOutlet:
    """A queue, read and emptied after the faults: what lies in it is what the broker holds durably."""

    def __init__(self, server: RabbitMQ, queue: str) -> None:
        self._server = server
        self._queue = queue
        self._connection: Any = None
        self._deliveries: Any = None

    def collect(self) -> list[Copy]:
        if self._connection is None:
            self._connection = eventually(
                lambda: _connect(self._server), deadline=_BACK, what="RabbitMQ after the faults", tolerate=_FAILURES
            )
            channel = self._connection.channel()
            self._deliveries = channel.consume(self._queue, auto_ack=True, inactivity_timeout=0.5)
        copies = []
        for _, properties, body in self._deliveries:
            if body is None:
                break
            copies.append(Copy(body, identity_in((properties.headers or {}).items())))
        return copies

    def close(self) -> None:
        _close(self._connection)
        self._connection = None


def _close(connection: Any) -> None:
    if connection is None:
        return
    with suppress(*_FAILURES):
        connection.close()
