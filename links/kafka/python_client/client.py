"""kafka-python as a client of the Kafka link."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from kafka import KafkaAdminClient, codec, errors
from kafka.admin import ConfigResource, ConfigResourceType

from mgw.links.contract import JobUse
from mgw.links.kafka.client import Client, Cluster, Consumer, Described, Failure, LogReader, Producer, Server, Topic
from mgw.links.kafka.client import Transactions as AnyTransactions
from mgw.links.kafka.errors import translate
from mgw.links.kafka.python_client.connection import build, quietly
from mgw.links.kafka.python_client.consumer import PythonConsumer, PythonLogReader
from mgw.links.kafka.python_client.errors import failure_of
from mgw.links.kafka.python_client.producer import producer_of
from mgw.links.kafka.python_client.transaction import open_transactions
from mgw.links.kafka.settings import Settings
from mgw.transforms.errors import ConfigInvalid, LinkError

__all__ = ["CLIENT", "PythonClient"]

_T = TypeVar("_T")


class PythonClient:
    """See :class:`mgw.links.kafka.client.Client`."""

    name = "kafka-python"
    asks_for_transactions = True
    takes_server_name = True

    def failure(self, error: BaseException) -> Failure:
        """See :meth:`mgw.links.kafka.client.Client.failure`."""
        return failure_of(error)

    def check_compression(self, link: str, compression: str) -> None:
        """See :meth:`mgw.links.kafka.client.Client.check_compression`."""
        package = {"lz4": "lz4", "snappy": "python-snappy", "zstd": "zstandard"}.get(compression)
        if package and not getattr(codec, f"has_{compression}")():
            raise ConfigInvalid(
                f"link {link}: KAFKA_Compression_type {compression} cannot be used",
                cause=f"the Python package {package} is not installed",
                cure=f"pip install {package}, or use gzip or none",
            )

    def describe(self, settings: Settings, name: str, operation: str) -> Described:
        """See :meth:`mgw.links.kafka.client.Client.describe`."""
        return _asking(settings, operation, lambda admin: _describe(admin, name))

    def cluster(self, settings: Settings, operation: str) -> Cluster:
        """See :meth:`mgw.links.kafka.client.Client.cluster`."""
        try:
            return _asking(settings, operation, _cluster)
        except LinkError:
            raise
        except Exception as error:
            raise translate(error, settings, operation, "the cluster") from error

    def create_topic(
        self, settings: Settings, name: str, partitions: int, replicas: int, config: Mapping[str, str]
    ) -> None:
        """See :meth:`mgw.links.kafka.client.Client.create_topic`."""
        wanted = {name: {"num_partitions": partitions, "replication_factor": replicas, "configs": config}}
        _asking(settings, "prepare", lambda admin: admin.create_topics(wanted, wait_for_metadata=True))

    def extend_topic(self, settings: Settings, name: str, partitions: int) -> None:
        """See :meth:`mgw.links.kafka.client.Client.extend_topic`."""
        _asking(settings, "prepare", lambda admin: admin.create_partitions({name: partitions}))

    def consumer(self, settings: Settings, use: JobUse) -> Consumer:
        """See :meth:`mgw.links.kafka.client.Client.consumer`."""
        return PythonConsumer(settings, use)

    def producer(self, settings: Settings, use: JobUse, limit: int) -> Producer:
        """See :meth:`mgw.links.kafka.client.Client.producer`."""
        return producer_of(settings, use, limit)

    def may_be_left_open(self, settings: Settings, topics: Sequence[Topic]) -> bool:  # noqa: ARG002
        """See :meth:`mgw.links.kafka.client.Client.may_be_left_open`; it can end them itself."""
        return False

    def transactions(self, settings: Settings, use: JobUse, limit: int) -> AnyTransactions:
        """See :meth:`mgw.links.kafka.client.Client.transactions`."""
        return open_transactions(settings, use, limit)

    def log_reader(self, settings: Settings, use: JobUse) -> LogReader:
        """See :meth:`mgw.links.kafka.client.Client.log_reader`."""
        return PythonLogReader(settings, use)


CLIENT: Client = PythonClient()


def _asking(settings: Settings, operation: str, question: Callable[[Any], _T]) -> _T:
    admin = build(KafkaAdminClient, settings, operation)
    try:
        return question(admin)
    finally:
        quietly(admin.close)


def _cluster(admin: Any) -> Cluster:
    found = admin.describe_cluster()
    release = ".".join(str(part) for part in admin.config["api_version"] or admin._manager.broker_version)
    servers = [Server(each["broker_id"], each["host"], each["port"]) for each in found["brokers"]]
    return Cluster(str(found["cluster_id"] or ""), servers, release)


def _describe(admin: Any, name: str) -> Described:
    found = admin.describe_topics([name])[0]
    code = found["error_code"]
    if code:
        raise errors.for_code(code)(name)
    topic = Topic(
        name=name,
        cluster_id=str(admin.describe_cluster()["cluster_id"] or ""),
        topic_id=str(found["topic_id"] or ""),
        partitions=tuple(sorted(part["partition_index"] for part in found["partitions"])),
        config=_read_config(admin, name),
        replicas=min((len(part["replica_nodes"]) for part in found["partitions"]), default=1),
    )
    return Described(topic, tuple(found.get("authorized_operations") or ()))


def _read_config(admin: Any, name: str) -> Mapping[str, str] | None:
    try:
        answer = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)], config_filter="all")
    except (errors.AuthorizationError, errors.UnsupportedVersionError):
        return None
    table = answer.get("topic", {}).get(name)
    if not table:  # the client answers so for a topic whose configuration may not be seen
        return None
    return {key: str(entry["value"]) for key, entry in table.items()}
