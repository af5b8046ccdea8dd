"""A topic that is written to: what it takes, and messages in the form of its records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kafka import errors
from kafka.record.default_records import DefaultRecordBatchBuilder

from links.contract import JobUse
from links.kafka_client import Settings, Topic, translate
from links.placement import Placement, placed
from transforms.errors import ConversionFailure, DeliveryRejected, LinkError
from transforms.kafka import Record, Rules, to_record
from transforms.message import Message

__all__ = ["BATCH_OVERHEAD", "Sendable", "Target", "placement_of"]

BATCH_OVERHEAD = 61  # bytes, header of a record batch
_DEFAULT_LIMIT = 1_048_588  # bytes, Kafka's own default of max.message.bytes


class Sendable(NamedTuple):
    """A record and its size in bytes."""

    record: Record
    size: int


class Target:
    """What the topic takes, as of the last :meth:`learn`."""

    def __init__(self, settings: Settings, use: JobUse, rules: Rules) -> None:
        self._settings = settings
        self._clock = use.clock
        self._rules = rules
        self._name = use.endpoint.provider_queue
        self._compacted = False
        self._partitions: frozenset[int] = frozenset()
        #: Bytes of the largest message.
        self.limit = settings.max_request_size or _DEFAULT_LIMIT
        #: Asks a client what partitions it knows by now.
        self.known_partitions: Callable[[], set[int]] = set

    def learn(self, topic: Topic) -> None:
        """Take the limits of the topic as the cluster describes it."""
        config = topic.config or {}
        limit = int(config.get("max.message.bytes", _DEFAULT_LIMIT))
        if self._settings.max_request_size is not None:
            limit = min(limit, self._settings.max_request_size) if topic.config else self._settings.max_request_size
        self.limit = limit
        self._compacted = "compact" in config.get("cleanup.policy", "")
        self._partitions = frozenset(topic.partitions)

    def encode(self, message: Message) -> Sendable:
        """See :meth:`links.contract.Destination.encode`."""
        record = to_record(message, self._rules, self._clock.now())
        size = _size(record)
        if size > self.limit:
            raise ConversionFailure(
                f"message of {size} bytes is too large for topic {self._name}",
                cause=f"the limit is {self.limit} bytes (max.message.bytes of the topic, KAFKA_Max_request_size)",
                cure="raise both limits, or send smaller messages",
            )
        if self._compacted and record.key is None:
            raise ConversionFailure(
                f"message without a key cannot be stored in topic {self._name}",
                cause="the topic is compacted (cleanup.policy), it takes only records with a key",
                cure="set the correlation, or header MGW_KAFKA_key",
            )
        if record.partition is not None and self._partitions and record.partition not in self._partitions:
            self._check_partition(record.partition)
        return Sendable(record, size)

    def _check_partition(self, partition: int) -> None:
        """Look again at what the client knows by now (no request): partitions can be added."""
        self._partitions |= self.known_partitions()
        if partition not in self._partitions:
            raise ConversionFailure(
                f"header MGW_KAFKA_partition cannot be {partition}",
                cause=f"topic {self._name} has partitions 0 to {max(self._partitions)}",
                cure="correct the header, or register the queue with KAFKA_Partition = KEY, which ignores it",
            )

    def error(self, error: BaseException) -> LinkError:
        """Why a record was not stored, in the gateway's terms."""
        translated = translate(error, self._settings.link, "publish", f"topic {self._name}")
        if isinstance(error, errors.MessageSizeTooLargeError | errors.RecordListTooLargeError):
            return DeliveryRejected(
                f"link {self._settings.link}: topic {self._name} refused a message as too large",
                link=self._settings.link,
                operation="publish",
                cause=f"the topic took at most {self.limit} bytes when the job connected; {translated.cause}",
                cure=translated.cure,
                number=805,
            )
        return translated


def _size(record: Record) -> int:
    """Bytes of a record in a batch of its own, at most; the limits of Kafka are for batches."""
    size: int = BATCH_OVERHEAD + DefaultRecordBatchBuilder.MAX_RECORD_OVERHEAD
    if record.value is not None:
        size += len(record.value)
    if record.key is not None:
        size += len(record.key)
    for name, value in record.headers:
        size += 4 * len(name) + len(value) + 10  # UTF-8 takes at most four bytes a character; two lengths
    return size


def placement_of(topic: str, futures: Sequence[Any]) -> Placement | None:
    """Where records are, from what the client was told of each (futures that have succeeded); None for no records."""
    if not futures:
        return None
    found = [future.value for future in futures]
    partitions = [metadata.partition for metadata in found]
    names = {partition: f"{topic}/{partition}@" for partition in set(partitions)}
    return placed(partitions, [metadata.offset for metadata in found], names)
