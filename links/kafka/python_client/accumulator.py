"""The client's queue of record batches, taking many records at a time.

For every record the client makes a future with a lock, and takes three locks and a counter. Here the records of a batch
that go to one partition are put into its record batches under one lock, and have one future
(:mod:`mgw.links.kafka.python_client.sent`). From there on everything is the client's: when a record batch is sent, its
sequence number, requests, retries, transactions.

This reaches into the client, which has no public seam there; the client is pinned to the minor release.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from kafka import TopicPartition, errors
from kafka.producer.producer_batch import ProducerBatch
from kafka.producer.record_accumulator import RecordAccumulator
from kafka.record.memory_records import MemoryRecords

from mgw.links.kafka.python_client.record_batch import RecordBatch, record_content
from mgw.links.kafka.python_client.sent import Run, Sent

__all__ = ["Accumulator"]


class _Batch(ProducerBatch):  # type: ignore[misc]
    """A record batch in the client's queue."""

    def __init__(self, topic_partition: TopicPartition, records: RecordBatch, now: float) -> None:
        super().__init__(topic_partition, records, now=now)
        self.runs: list[tuple[Sent, Run]] = []

    def try_append(self, *_: Any, **__: Any) -> None:
        """As if it were full: single records go to a batch of their own."""

    def take(self, records: Sequence[tuple[int, bytes]], start: int, places: Sequence[int]) -> Sent | None:
        """Append the records from ``start`` on that fit, published under these numbers; None if none does."""
        first = self.records.next_offset()
        end = self.records.extend(records, start)
        if end == start:
            return None
        run = Run(self.produce_future, first, places[start:end])
        sent = Sent(self.topic_partition, run)
        self.runs.append((sent, run))
        return sent


class Accumulator(RecordAccumulator):  # type: ignore[misc]
    """The client's queue of record batches."""

    def append_all(
        self,
        place: TopicPartition,
        records: Sequence[tuple[int, bytes]],
        places: Sequence[int],
        sent: list[Sent],
    ) -> bool:
        """Queue records of a partition, adding to ``sent``; whether the sender has something new to look at."""
        start, look = 0, False
        with self._tp_lock(place):
            if self._closed:
                raise errors.IllegalStateError("RecordAccumulator is closed")
            queue = self._batches[place]
            batch = queue[-1] if queue and isinstance(queue[-1], _Batch) else None
            while start < len(records):
                taken = batch.take(records, start, places) if batch is not None else None
                if taken is None:
                    batch = self._new_batch(place)
                    queue.append(batch)
                    self._incomplete.add(batch)
                    look = True
                else:
                    sent.append(taken)
                    start += taken.count
            return look or len(queue) > 1 or batch is None or batch.records.is_full()

    def _new_batch(self, place: TopicPartition) -> _Batch:
        records = RecordBatch(2, self.config["compression_attrs"], self.config["batch_size"])
        return _Batch(place, records, time.monotonic())

    def split_and_reenqueue(self, batch: Any, now: float | None = None) -> int:
        """See the client: the halves of a batch that the server found too large take its place."""
        if not isinstance(batch, _Batch):
            divided: int = super().split_and_reenqueue(batch, now=now)
            return divided
        place = batch.topic_partition
        if self._transaction_manager and batch.has_sequence:  # it was not stored, so its numbers are free
            self._transaction_manager.set_sequence_number(place, batch.base_sequence)
        records = [
            (record.timestamp, record_content(record.value, record.key, record.headers))
            for each in MemoryRecords(batch.records.buffer())
            for record in each
        ]
        middle = (len(records) + 1) // 2
        batches: list[_Batch] = []
        parts: dict[int, list[Run]] = {}
        for half, begin in ((records[:middle], 0), (records[middle:], middle)):
            start = 0
            while start < len(half):
                new = self._new_batch(place)
                end = new.records.extend(half, start)
                new.created, new.attempts = batch.created, batch.attempts
                if now is not None:
                    new.last_attempt = now
                for index, (sent, run) in enumerate(batch.runs):
                    part = run.part(begin + start, begin + end, 0, new.produce_future)
                    if part.places:
                        new.runs.append((sent, part))
                        parts.setdefault(index, []).append(part)
                batches.append(new)
                start = end
        for index, (sent, run) in enumerate(batch.runs):
            sent.divide(run, parts[index])
        with self._tp_lock(place):
            for new in reversed(batches):
                self._batches[place].appendleft(new)
                self._incomplete.add(new)
        batch.produce_future._latch.set()  # who waits for it looks again
        return len(batches)
