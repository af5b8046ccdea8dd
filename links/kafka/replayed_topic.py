"""Writing messages of an exception queue back to the topic that they came from, each into the partition it was in."""

from __future__ import annotations

from dataclasses import replace

from mgw.links.contract import Encoded, JobUse
from mgw.links.kafka.destination import KafkaDestination
from mgw.links.kafka.settings import Settings
from mgw.transforms.kafka import Rules
from mgw.transforms.kafka.common import PARTITION
from mgw.transforms.message import Message

__all__ = ["ReplayedTopic"]


class ReplayedTopic(KafkaDestination):
    """See :class:`mgw.links.contract.Destination`. The key decides where the topic does not have the partition."""

    def __init__(self, settings: Settings, use: JobUse, rules: Rules, *, same_partition: bool) -> None:
        super().__init__(settings, use, replace(rules, again=True, take_partition=same_partition))
        self._same = same_partition

    def encode(self, message: Message) -> Encoded:
        """See :meth:`mgw.links.contract.Destination.encode`."""
        kept = tuple(header for header in message.headers if header.name != PARTITION or self._has(header.value))
        return super().encode(message if len(kept) == len(message.headers) else replace(message, headers=kept))

    def _has(self, partition: object) -> bool:
        return self._same and partition in self._known_partitions()
