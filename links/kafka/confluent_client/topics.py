"""What librdkafka tells of topics and the cluster."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import ConfigResource, NewPartitions, NewTopic, ResourceType

from mgw.links.kafka.client import Cluster, Described, Kind, Server, Topic
from mgw.links.kafka.confluent_client.connection import Admin
from mgw.links.kafka.confluent_client.errors import failure_of

__all__ = ["cluster_of", "create", "describe", "extend", "topic_id_of"]

_HALF: Final = (1 << 64) - 1
_ANY: Final = "mgw.any"  # a topic to ask with; it need not exist, and is not created


def topic_id_of(described: Any) -> str:
    """The id of a topic, spelled as the other client does; positions in the hub have it."""
    found = described.topic_id
    if found is None:
        return ""
    high, low = found.get_most_significant_bits() & _HALF, found.get_least_significant_bits() & _HALF
    return str(uuid.UUID(int=high << 64 | low)) if high or low else ""


def describe(admin: Admin, name: str) -> Described:
    """See :meth:`mgw.links.kafka.client.Client.describe`."""
    client = admin.client
    found = admin.ask(client.describe_topics, TopicCollection([name]), include_authorized_operations=True)
    topic = Topic(
        name=name,
        cluster_id=str(admin.metadata(name).cluster_id or ""),
        topic_id=topic_id_of(found),
        partitions=tuple(sorted(part.id for part in found.partitions)),
        config=_config(admin, name),
        replicas=min((len(part.replicas) for part in found.partitions), default=1),
    )
    return Described(topic, tuple(each.name for each in found.authorized_operations or ()))


def _config(admin: Admin, name: str) -> Mapping[str, str] | None:
    try:
        table = admin.ask(admin.client.describe_configs, [ConfigResource(ResourceType.TOPIC, name)])
    except KafkaException as error:
        if failure_of(error).kind in (Kind.FORBIDDEN, Kind.VERSION):
            return None
        raise
    return {key: str(entry.value) for key, entry in table.items()} or None


def cluster_of(admin: Admin) -> Cluster:
    """See :meth:`mgw.links.kafka.client.Client.cluster`."""
    found = admin.metadata(_ANY)
    servers = [Server(each.id, each.host, each.port) for each in found.brokers.values()]
    return Cluster(str(found.cluster_id or ""), sorted(servers), release="")


def create(admin: Admin, name: str, partitions: int, replicas: int, config: Mapping[str, str]) -> None:
    """See :meth:`mgw.links.kafka.client.Client.create_topic`."""
    wanted = NewTopic(name, num_partitions=partitions, replication_factor=replicas, config=dict(config))
    admin.ask(admin.client.create_topics, [wanted])


def extend(admin: Admin, name: str, partitions: int) -> None:
    """See :meth:`mgw.links.kafka.client.Client.extend_topic`."""
    admin.ask(admin.client.create_partitions, [NewPartitions(name, partitions)])
