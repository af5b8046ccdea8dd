"""What a job reads at RabbitMQ, and how."""

from __future__ import annotations

from dataclasses import dataclass

from mgw.transforms.amqp import Rules

__all__ = ["SourcePlan"]


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """What to read and how. ``queue`` is read; for a topic job it is declared and bound to ``exchange`` first."""

    queue: str
    exchange: str | None
    routing_key: str
    queue_type: str  # auto, classic, quorum, stream
    prefetch: int
    exclusive: bool
    stream_offset: str
    priority: int  # among the consumers of the queue
    rules: Rules
    unique_ids: bool = False  # publishers give message ids that are unique in this queue
    dead_letters: bool = False  # messages may leave the queue unacknowledged

    @property
    def needs_log(self) -> bool:
        """Whether a receiving log raises what the job can promise, unless the queue is a stream."""
        return not self.unique_ids and not self.dead_letters
