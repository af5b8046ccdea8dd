"""The partition of a record, as the client and Kafka's own producer choose it, for many records at a time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from struct import unpack_from
from typing import Any, Final

from mgw.transforms.kafka import Record

__all__ = ["murmur2", "spread"]

_MASK: Final = 0xFFFFFFFF
_M: Final = 0x5BD1E995


def murmur2(key: bytes) -> int:
    """The hash that places keys (32 bits); the same as the client's, which takes each byte on its own."""
    length = len(key)
    words = length >> 2
    found = 0x9747B28C ^ length
    for word in unpack_from(f"<{words}I", key):
        word = word * _M & _MASK  # noqa: PLW2901
        found = (found * _M ^ (word ^ word >> 24) * _M) & _MASK
    rest = key[words << 2 :]
    if rest:
        found = (found ^ int.from_bytes(rest, "little")) * _M & _MASK
    found = (found ^ found >> 13) * _M & _MASK
    return found ^ found >> 15


def spread(records: Sequence[Record], topic: str, cluster: Any) -> dict[int, Sequence[int]]:
    """Partition -> indexes of its records, in order: the partition they name, that of their key, or any with a leader.

    Args:
        cluster: what the client knows of the servers; the topic is known.

    Raises:
        ValueError: a record names a partition that the topic does not have.
    """
    every = sorted(cluster.partitions_for_topic(topic))
    count = len(every)
    if count == 1 and all(record.partition is None for record in records):
        return {every[0]: range(len(records))}
    known = set(every)
    pool = list(cluster.available_partitions_for_topic(topic) or ()) or every
    choice = random.choice
    found: dict[int, Any] = {}
    for index, record in enumerate(records):
        partition = record.partition
        if partition is None:
            key = record.key
            partition = choice(pool) if key is None else every[(murmur2(key) & 0x7FFFFFFF) % count]
        elif partition not in known:
            raise ValueError(f"topic {topic} has no partition {partition}")
        at = found.get(partition)
        if at is None:
            found[partition] = [index]
        else:
            at.append(index)
    return found
