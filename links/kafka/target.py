"""A topic that is written to: what it takes, and messages in the form of its records."""

from __future__ import annotations

from collections.abc import Callable

from mgw.links.contract import JobUse
from mgw.links.kafka.client import Kind, Sendable, Topic
from mgw.links.kafka.errors import translate
from mgw.links.kafka.settings import Settings
from mgw.links.kafka.timestamps import Timestamps
from mgw.transforms.errors import Blame, ConversionFailure, DeliveryRejected, LinkError
from mgw.transforms.kafka import Record, Rules, to_record
from mgw.transforms.message import Message

__all__ = ["BATCH_OVERHEAD", "Target"]

BATCH_OVERHEAD = 61  # bytes, header of a record batch
_DEFAULT_LIMIT = 1_048_588  # bytes, Kafka's own default of max.message.bytes
_RECORD_OVERHEAD = 21  # bytes at most, lengths, offset and time of a record


class Target:
    """What the topic takes, as of the last :meth:`learn`."""

    def __init__(self, settings: Settings, use: JobUse, rules: Rules) -> None:
        self._settings = settings
        self._clock = use.clock
        self._rules = rules
        self._name = use.endpoint.provider_queue
        self._compacted = False
        self._partitions: frozenset[int] = frozenset()
        self._timestamps = Timestamps()
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
        self._timestamps.learn(topic.config)

    def encode(self, message: Message) -> Sendable:
        """See :meth:`mgw.links.contract.Destination.encode`."""
        now = self._clock.now()
        record = to_record(message, self._rules, now, self._timestamps.window(now))
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
                cause="the topic is compacted (cleanup.policy), it accepts only records with a key",
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

    def accepted(self) -> None:
        """The broker took a batch."""
        self._timestamps.accepted()

    def error(self, error: BaseException) -> LinkError:
        """Why a record was not stored, in the gateway's terms; what it teaches is applied to what is encoded next."""
        settings = self._settings
        failure = settings.client.failure(error)
        translated = translate(error, settings, "publish", f"topic {self._name}")
        if failure.kind is Kind.TIMESTAMP or Timestamps.told(error):
            return self._wrong_time(error, translated)
        if failure.kind is Kind.TOO_LARGE:
            return DeliveryRejected(
                f"link {settings.link}: topic {self._name} refused a message as too large",
                link=settings.link,
                operation="publish",
                cause=f"the topic accepted at most {self.limit} bytes when the job connected; {translated.cause}",
                cure=translated.cure,
                number=805,
            ).blamed(Blame.MESSAGE)
        if isinstance(translated, DeliveryRejected):
            return translated.blamed(Blame.MESSAGE) if failure.message else translated
        if type(translated) is LinkError and failure.final:
            return DeliveryRejected(
                f"link {settings.link}: topic {self._name} refused a batch",
                link=settings.link,
                operation="publish",
                cause=translated.cause,
                cure="check the cause and the servers' log",
                number=805,
            ).blamed(Blame.UNKNOWN)
        return translated

    def _wrong_time(self, error: BaseException, translated: LinkError) -> DeliveryRejected:
        learnt = self._timestamps.refused(error, self._clock.now())
        return DeliveryRejected(
            f"link {self._settings.link}: topic {self._name} refused a timestamp",
            link=self._settings.link,
            operation="publish",
            cause=translated.cause,
            cure="compare the clocks of this machine and of the Kafka servers; see message.timestamp.before.max.ms "
            "and message.timestamp.after.max.ms of the topic",
            number=805,
        ).blamed(Blame.FORM if learnt else Blame.DESTINATION)


def _size(record: Record) -> int:
    """Bytes of a record in a batch of its own, at most; the limits of Kafka are for batches."""
    size = BATCH_OVERHEAD + _RECORD_OVERHEAD
    if record.value is not None:
        size += len(record.value)
    if record.key is not None:
        size += len(record.key)
    for name, value in record.headers:
        size += 4 * len(name) + len(value) + 10  # UTF-8 takes at most four bytes a character; two lengths
    return size
