"""The sending log of a job: its last committed sequence, in the link's compacted log topic (outbound_log_queue).

Every job has a partition of its own, because an open transaction of another job would hold the reading of it back. The
key is hub id and job. A record that exists stays where it is, also after partitions were added to the topic; a new job
takes the first partition that no other key lives in, beginning with the one its name is hashed to, and claims it by a
record without a sequence. Of two jobs that claim one partition at the same time the first in the log keeps it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from mgw.links.contract import Direction, JobUse
from mgw.links.kafka.client import LogReader, LogRecord, Place, Topic, Transactions
from mgw.links.kafka.connection import describe
from mgw.links.kafka.errors import translate
from mgw.links.kafka.settings import Settings
from mgw.transforms.errors import LinkError, LinkRefused, LinkTimeout, QueueMissing

__all__ = ["SendingLog", "describe_log"]

_REMOVED = -1  # in the place of a sequence or an offset: the record has no value

_FIRST_LOOK = 500  # offsets read from the end of a partition; ten times as many if the record is not among them
_SLICE = 0.25  # seconds


@dataclass(slots=True)
class _Found:
    """What a partition holds: our last record, and the other keys that live there."""

    own: tuple[int, int | None] | None  # offset, sequence; sequence None: a claim
    others: dict[bytes, int]  # key -> offset of its last record


def describe_log(settings: Settings, operation: str) -> Topic:
    """The log topic.

    Raises:
        QueueMissing: there is none.
        LinkError: the cluster does not answer, or we may not write there.
    """
    name = settings.log_topic or ""
    try:
        return describe(settings, name, operation, Direction.OUTBOUND)
    except QueueMissing as error:
        raise QueueMissing(
            f"link {settings.link}: the topic {name} of its sending log (outbound_log_queue) does not exist",
            link=settings.link,
            operation=operation,
            cause=error.cause,
            cure=f"mgw links prepare {settings.link}; or kafka-topics.sh --create --topic {name} --partitions "
            "<as many as jobs write to the link, or more> --config cleanup.policy=compact (and --bootstrap-server)",
            number=434,
        ) from error


class SendingLog:
    """The record of one job."""

    def __init__(self, settings: Settings, use: JobUse) -> None:
        self._settings = settings
        self._use = use
        self._topic = settings.log_topic or ""
        self.key = f"{use.hub_id}/{use.job}".encode()
        #: Where the record is, known after :meth:`find`.
        self.partition = -1

    def record(self, sequence: int | None, count: int) -> LogRecord:
        """Everything up to ``sequence`` is stored, the last transaction had ``count`` messages."""
        text = json.dumps({"sequence": sequence, "count": count, "time": self._use.clock.now()})
        return LogRecord(Place(self._topic, self.partition), self.key, text.encode())

    def find(self, transactions: Transactions, target: Topic) -> int | None:
        """The last committed sequence, or None; call it when earlier producers of the job are shut out.

        What they have written to the log and to the target and no server has marked is ended first, as was decided;
        where nobody knows that, it stands if its record in the log does.

        Raises:
            LinkRefused: every partition belongs to other jobs.
            LinkTimeout: another transaction holds a partition back.
        """
        partitions = describe_log(self._settings, "connect").partitions
        start = int.from_bytes(blake2b(self.key, digest_size=8).digest()) % len(partitions)
        order = [*partitions[start:], *partitions[:start]]
        with self._reader() as reader:
            self._end_open(transactions, reader, order, target)
            found: dict[int, _Found] = {}
            for partition in order:
                found[partition] = self._look(reader, partition)
                own = found[partition].own
                if own is not None and own[1] is not None:
                    self.partition = partition
                    return own[1]
            for partition in order:
                look = found[partition]
                if look.own is None and not look.others:
                    self._write(transactions, partition, self.record(None, 0).value)
                    look = self._look(reader, partition)
                if look.own is None:
                    continue
                if all(offset > look.own[0] for offset in look.others.values()):
                    self.partition = partition
                    return None
                self._write(transactions, partition, None)
        others = sorted({key.decode(errors="replace") for look in found.values() for key in look.others})
        raise self._no_room(len(order), others)

    def _no_room(self, partitions: int, others: list[str]) -> LinkRefused:
        return LinkRefused(
            f"link {self._settings.link}: the log topic {self._topic} has no partition for job {self._use.job}",
            link=self._settings.link,
            operation="connect",
            cause=f"every job needs one of its own, and all {partitions} belong to other jobs: {', '.join(others[:5])}"
            f"{' and more' if len(others) > 5 else ''}",
            cure=f"add partitions to {self._topic}; or remove the record of a job that no longer exists, by writing a "
            "record with its key and no value",
        )

    def forget(self, transactions: Transactions) -> None:
        """Remove the record, wherever it is."""
        with self._reader() as reader:
            partitions = describe_log(self._settings, "forget").partitions
            self._end_open(transactions, reader, partitions)
            for partition in partitions:
                try:
                    there = self._look(reader, partition).own is not None
                except LinkRefused:  # there, and not to be read
                    there = True
                if there:
                    self._write(transactions, partition, None)

    def owners(self) -> dict[bytes, bool]:
        """The keys that live in the log, and whether the last record of each can be read."""
        living: dict[bytes, bool] = {}
        with self._reader() as reader:
            for partition in describe_log(self._settings, "clean").partitions:
                place = Place(self._topic, partition)
                begin, end = reader.range(place)
                # One job writes to a partition, so its record is among the last there.
                for record in self._records(reader, place, max(begin, end - _FIRST_LOOK), end):
                    if record.key is None:
                        continue
                    if record.value is None:
                        living.pop(record.key, None)
                    else:
                        living[record.key] = _readable(record.value)
        return living

    def _write(self, transactions: Transactions, partition: int, value: bytes | None) -> None:
        record = LogRecord(Place(self._topic, partition), self.key, value)
        transactions.run(self._topic, (), record, f"topic {self._topic}")

    @contextmanager
    def _reader(self) -> Iterator[LogReader]:
        reader = self._settings.client.log_reader(self._settings, self._use)
        try:
            yield reader
        except LinkError:
            raise
        except Exception as error:
            raise translate(error, self._settings, "connect", f"topic {self._topic}") from error
        finally:
            reader.close()

    def _end_open(
        self, transactions: Transactions, reader: LogReader, partitions: Sequence[int], target: Topic | None = None
    ) -> None:
        """End what is open of ours in the log and in the target."""
        log = [Place(self._topic, number) for number in partitions]
        others = [Place(target.name, number) for number in target.partitions] if target else []
        transactions.end_open(reader, log, others, self.key, f"topic {self._topic}")

    def _look(self, reader: LogReader, partition: int) -> _Found:
        """Read a partition backwards until our record with a sequence is found, or all of it was read.

        The end is that of all records, open transactions included: what was committed may lie behind one.
        """
        place = Place(self._topic, partition)
        begin, end = reader.range(place)
        found = _Found(None, {})
        stop, size = end, _FIRST_LOOK
        while stop > begin:
            start = max(begin, stop - size)
            earlier = self._read(reader, place, start, stop, wanted=found.own is None)
            found = _merge(earlier, found)
            if found.own is not None and found.own[1] is not None and found.own[1] >= 0:
                break
            stop, size = start, size * 10
        return _Found(found.own if found.own and found.own[1] != _REMOVED else None, _living(found.others))

    def _read(self, reader: LogReader, place: Place, start: int, stop: int, *, wanted: bool) -> _Found:
        last: Any = None  # of ours; what came before it does not count, whatever it is
        others: dict[bytes, int] = {}
        for record in self._records(reader, place, start, stop):
            if record.key == self.key:
                last = record
            elif record.key is not None:
                others[record.key] = record.offset if record.value is not None else _REMOVED
        if last is None or not wanted:
            return _Found(None, others)
        return _Found((last.offset, self._sequence(last.value, place, last.offset)), others)

    def _records(self, reader: LogReader, place: Place, start: int, stop: int) -> Iterator[Any]:
        clock = self._use.clock
        moved_at, position = clock.monotonic(), start
        reader.start(place, start)
        while position < stop:
            for record in reader.poll(_SLICE):
                if record.offset >= stop:
                    break
                yield record
            before, position = position, reader.position()
            if position > before:
                moved_at = clock.monotonic()
            elif clock.monotonic() - moved_at > self._settings.delivery_timeout:
                raise LinkTimeout(
                    f"link {self._settings.link}: topic {self._topic}, partition {place.partition} cannot be read "
                    f"to its end (offset {position} of {stop})",
                    link=self._settings.link,
                    operation="connect",
                    cause="the cluster is slow, or another producer has an open transaction there",
                    cure="wait for that transaction's timeout; make sure that nobody else writes to the log topic",
                )

    def _sequence(self, value: bytes | None, place: Place, offset: int) -> int | None:
        if value is None:
            return _REMOVED
        try:
            sequence = json.loads(value)["sequence"]
            return None if sequence is None else int(sequence)
        except (ValueError, KeyError, TypeError) as error:
            raise LinkRefused(
                f"link {self._settings.link}: the record of job {self._use.job} in topic {self._topic} "
                f"(partition {place.partition}, offset {offset}) cannot be read",
                link=self._settings.link,
                operation="connect",
                cause="it was not written by a gateway: somebody else writes to the log topic",
                cure="compare both queues; then mgw agents cleanup CLEAN_LOG_QUEUES removes it, and "
                f"mgw agents cleanup RESET_SUB_MISSING_LOG_REC {self._use.job} lets the job continue",
                number=417,
            ) from error


def _readable(value: bytes) -> bool:
    try:
        sequence = json.loads(value)["sequence"]
        return sequence is None or int(sequence) >= 0
    except (ValueError, KeyError, TypeError):
        return False


def _merge(earlier: _Found, later: _Found) -> _Found:
    return _Found(later.own or earlier.own, earlier.others | later.others)


def _living(others: dict[bytes, int]) -> dict[bytes, int]:
    return {key: offset for key, offset in others.items() if offset != _REMOVED}
