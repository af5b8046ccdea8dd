"""A hub queue, as an application with a session of its own uses it."""

from __future__ import annotations

from collections.abc import Sequence

from mgw.gateway.aq.model import DequeueOptions
from mgw.transforms.errors import AqError, HubError
from mgw.transforms.message import Header, Message, ValueType
from tests.faults.verdict import IDENTITY, Copy, Numbered, identity_in
from tests.support.gateways import Gateway

__all__ = ["HubFeed", "HubOutlet"]

_NOTHING = 25228
_WAIT = DequeueOptions(wait=0.5)


class HubFeed:
    """Enqueues and commits; what the commit did not confirm is in doubt."""

    def __init__(self, gateway: Gateway, queue: str) -> None:
        self._gateway = gateway
        self._queue = queue

    def publish(self, messages: Sequence[Numbered]) -> set[int]:
        try:
            self._gateway.enqueue(self._queue, [_message(message) for message in messages])
        except HubError:
            return set()
        return {message.number for message in messages}

    def reopen(self) -> bool:
        try:
            with self._gateway.hub.read():
                return True
        except HubError:
            return False

    def close(self) -> None:
        """The stage closes the hub."""


def _message(message: Numbered) -> Message:
    if message.identity is None:
        return Message(body=message.body)
    header = Header(IDENTITY, ValueType.TEXT, message.identity)
    return Message(body=message.body, headers=(header,), correlation=f"lane{message.lane}")


class HubOutlet:
    """Dequeues for good, after the faults."""

    def __init__(self, gateway: Gateway, queue: str) -> None:
        self._gateway = gateway
        self._queue = queue

    def collect(self) -> list[Copy]:
        with self._gateway.hub.session() as session:
            try:
                taken = session.dequeue_array(self._queue, _WAIT, 1000)
            except AqError as error:
                if error.number == _NOTHING:
                    return []
                raise
            session.commit()
        return [_copy(entry.message) for entry in taken]

    def close(self) -> None:
        """The stage closes the hub."""


def _copy(message: Message) -> Copy:
    body = message.body.encode() if isinstance(message.body, str) else message.body
    identity = identity_in((name, value) for name, _, value in message.headers)
    return Copy(body if isinstance(body, bytes) else b"", identity)
