"""librdkafka as a client of the Kafka link."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from mgw.links.contract import JobUse
from mgw.links.kafka.client import (
    Client,
    Cluster,
    Consumer,
    Described,
    Failure,
    LogReader,
    Producer,
    Topic,
    Transactions,
)
from mgw.links.kafka.confluent_client import topics
from mgw.links.kafka.confluent_client.connection import Admin
from mgw.links.kafka.confluent_client.consumer import ConfluentConsumer, ConfluentLogReader
from mgw.links.kafka.confluent_client.errors import failure_of
from mgw.links.kafka.confluent_client.producer import ConfluentProducer
from mgw.links.kafka.confluent_client.transaction import any_open, open_transactions
from mgw.links.kafka.errors import translate
from mgw.links.kafka.settings import Settings
from mgw.transforms.errors import LinkError

__all__ = ["CLIENT", "ConfluentClient"]

_T = TypeVar("_T")


class ConfluentClient:
    """See :class:`mgw.links.kafka.client.Client`."""

    name = "confluent"
    asks_for_transactions = False
    takes_server_name = False

    def failure(self, error: BaseException) -> Failure:
        """See :meth:`mgw.links.kafka.client.Client.failure`."""
        return failure_of(error)

    def check_compression(self, link: str, compression: str) -> None:
        """See :meth:`mgw.links.kafka.client.Client.check_compression`; the library has them all."""

    def describe(self, settings: Settings, name: str, operation: str) -> Described:
        """See :meth:`mgw.links.kafka.client.Client.describe`."""
        return _asking(settings, operation, lambda admin: topics.describe(admin, name))

    def cluster(self, settings: Settings, operation: str) -> Cluster:
        """See :meth:`mgw.links.kafka.client.Client.cluster`."""
        try:
            return _asking(settings, operation, topics.cluster_of)
        except LinkError:
            raise
        except Exception as error:
            raise translate(error, settings, operation, "the cluster") from error

    def create_topic(
        self, settings: Settings, name: str, partitions: int, replicas: int, config: Mapping[str, str]
    ) -> None:
        """See :meth:`mgw.links.kafka.client.Client.create_topic`."""
        _asking(settings, "prepare", lambda admin: topics.create(admin, name, partitions, replicas, config))

    def extend_topic(self, settings: Settings, name: str, partitions: int) -> None:
        """See :meth:`mgw.links.kafka.client.Client.extend_topic`."""
        _asking(settings, "prepare", lambda admin: topics.extend(admin, name, partitions))

    def consumer(self, settings: Settings, use: JobUse) -> Consumer:
        """See :meth:`mgw.links.kafka.client.Client.consumer`."""
        return ConfluentConsumer(settings, use)

    def producer(self, settings: Settings, use: JobUse, limit: int) -> Producer:
        """See :meth:`mgw.links.kafka.client.Client.producer`."""
        return ConfluentProducer(settings, use, limit)

    def may_be_left_open(self, settings: Settings, topics: Sequence[Topic]) -> bool:
        """See :meth:`mgw.links.kafka.client.Client.may_be_left_open`."""
        try:
            return _asking(settings, "connect", lambda admin: any_open(admin, topics))
        except LinkError:
            raise
        except Exception as error:
            raise translate(error, settings, "connect", f"topic {topics[0].name}") from error

    def transactions(self, settings: Settings, use: JobUse, limit: int) -> Transactions:
        """See :meth:`mgw.links.kafka.client.Client.transactions`."""
        return open_transactions(settings, use, limit)

    def log_reader(self, settings: Settings, use: JobUse) -> LogReader:
        """See :meth:`mgw.links.kafka.client.Client.log_reader`."""
        return ConfluentLogReader(settings, use)


CLIENT: Client = ConfluentClient()


def _asking(settings: Settings, operation: str, question: Callable[[Admin], _T]) -> _T:
    admin = Admin(settings, operation)
    try:
        return question(admin)
    finally:
        admin.close()
