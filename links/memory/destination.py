"""Writing to the broker inside the process."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from mgw.links.contract import (
    Direction,
    Encoded,
    JobUse,
    Recovered,
)
from mgw.links.memory.connection import MemoryAccess, MemoryConnection
from mgw.links.placement import NOWHERE, Placement
from mgw.transforms.message import Header, Message, ValueType, check_headers

__all__ = ["MESSAGE_ID", "MemoryDestination"]


#: Header that carries the message id of the sending hub, as text: ``AQMSGID:`` and 32 hexadecimal digits.
MESSAGE_ID = "MGW_MEMORY_messageId"


class MemoryDestination(MemoryConnection):
    """Writes to a queue, a log or a topic; the broker stores at once and confirms in order."""

    def __init__(self, link: MemoryAccess, use: JobUse) -> None:
        super().__init__(link, use)
        self._confirmed: int | None = None
        self._pending: list[int] = []
        self._located: dict[int, Placement] = {}
        self._recovered: Recovered | None = None

    def connect(self) -> None:
        """See :meth:`mgw.links.contract.Destination.connect`."""
        with self.broker.changed:
            self._open(Direction.OUTBOUND)
            self._confirmed = None
            self._pending = []
            self._located = {}
            log = self._log()
            self._recovered = None if log is None else Recovered(log.get(self.use.job))

    def _log(self) -> dict[str, int] | None:
        name = self.link.config.outbound_log_queue
        return None if name is None else self.broker.sending_logs.setdefault(name, {})

    def recovered(self) -> Recovered | None:
        """See :meth:`mgw.links.contract.Destination.recovered`."""
        return self._recovered

    def encode(self, message: Message) -> Encoded:
        """See :meth:`mgw.links.contract.Destination.encode`."""
        headers = message.headers
        if message.msgid is not None and message.header(MESSAGE_ID) is None:
            headers = (*headers, Header(MESSAGE_ID, ValueType.TEXT, f"AQMSGID:{message.msgid.hex()}"))
        check_headers(headers)
        now = self.use.clock.now()
        remaining = message.remaining(now)
        sent = replace(
            message,
            headers=headers,
            msgid=None,
            enqueue_time=None,
            attempts=0,
            delay=0,
            expiration=None,
            expires_at=None,
        )
        return sent, None if remaining is None else now + remaining

    def publish(self, sequence: int, messages: Sequence[Encoded]) -> None:
        """See :meth:`mgw.links.contract.Destination.publish`."""
        with self.broker.changed:
            self._check("publish")
            self._raise_fault("publish")
            name = self.use.endpoint.provider_queue
            self.link.find(self.use.endpoint, Direction.OUTBOUND)
            batch: Any = messages
            targets = self.broker.targets(name)
            for target in targets:
                target.check_room(len(messages))
            if self.use.located:
                one = targets[0] if len(targets) == 1 and self.broker.find(name) else None
                runs = [NOWHERE if one is None else one.end, len(messages)]
                self._located[sequence] = Placement([f"{name}@"], [runs])
            for target in targets:
                target.put(batch)
            log = self._log()
            if log is not None:
                log[self.use.job] = sequence
            self._pending.append(sequence)
            self.broker.changed.notify_all()

    def confirmed(self, wait: float) -> int | None:
        """See :meth:`mgw.links.contract.Destination.confirmed`."""
        broker = self.broker
        with broker.changed:
            self._check("confirm")
            if self._pending or wait:
                broker.changed.wait_for(self._progress, wait)
            self._interrupted = False
            self._check("confirm")
            if self._pending and not broker.hold_confirms:
                self._raise_fault("confirm")
                self._confirmed = self._pending[-1]
                self._pending = []
            return self._confirmed

    def stored(self, sequence: int, count: int) -> Collection[int]:
        """See :meth:`mgw.links.contract.Destination.stored`; a batch is stored whole and at once, or not at all."""
        known = sequence in self._pending or (self._confirmed is not None and sequence <= self._confirmed)
        return range(count) if known and self._recovered is None else ()

    def located(self, sequence: int) -> Placement | None:
        """See :meth:`mgw.links.contract.Destination.located`."""
        return self._located.pop(sequence, None)

    def _progress(self) -> bool:
        if self._interrupted or self._epoch != self.broker.epoch or self.broker.stalled:
            return True
        return bool(self._pending) and not self.broker.hold_confirms

    def close(self) -> None:
        """See :meth:`mgw.links.contract.Destination.close`."""
        self._epoch = None
        self._pending = []
