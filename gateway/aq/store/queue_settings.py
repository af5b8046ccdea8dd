"""The settings of a queue, as one call reads them for the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

__all__ = ["Hold", "QueueSettings", "SettingsAhead"]

Hold = Literal["enqueue", "dequeue"]


class QueueSettings(NamedTuple):
    """The attributes of a queue that may change while it is used."""

    enqueue_enabled: bool
    dequeue_enabled: bool
    max_retries: int
    retry_delay: float
    retention_time: float
    enqueue_closing: bool = False  # being stopped: what a transaction has enqueued it may still commit
    reopened: float | None = None  # last key of the first message that became READY again; -inf: not looked up
    last_id: int | None = None  # of the hub's messages; None: not looked up


@dataclass(frozen=True, slots=True)
class SettingsAhead:
    """Settings that were read with their queue, for the next call that asks for them."""

    queue_id: int
    hold: Hold  # what is going to be done there
    held: bool  # False: somebody has the queue exclusively, or waits for it; the settings must be read again
    settings: QueueSettings
