"""Clusters in the place of single brokers, and what may happen to one of their nodes while messages move."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.faults.injuries import Injuries
from tests.faults.stage import Brokers, Stage
from tests.support.brokers.kafka_cluster import KafkaCluster
from tests.support.brokers.rabbitmq_cluster import RabbitMQCluster
from tests.support.waiting import eventually

__all__ = ["ClusterBrokers", "freeze_broker_node", "kill_broker_node", "part_broker_node"]

_AWAY = 300  # messages that have to be carried while a node is away
_SECONDS = 90.0  # for them


class ClusterBrokers(Brokers):
    """Three nodes of each messaging system."""

    @property
    def rabbitmq(self) -> Any:
        """A :class:`RabbitMQCluster`."""
        return self._get("rabbitmq", RabbitMQCluster)

    @property
    def kafka(self) -> Any:
        """A :class:`KafkaCluster`."""
        return self._get("kafka", KafkaCluster)

    def stage(self, url: str, folder: Path, *, batch_size: int, faults: Mapping[str, object]) -> Stage:
        return _ClusterStage(url, folder, self, batch_size=batch_size, faults=faults)


class _ClusterStage(Stage):
    """Links name every node, and go there without a proxy."""

    def _where(self, system: str) -> dict[str, Any]:
        if system == "kafka":
            return {"bootstrap_servers": self.brokers.kafka.bootstrap}
        hosts: Any = self.brokers.rabbitmq
        return {"hosts": hosts.hosts}


def _one_away(
    injuries: Injuries, harm: Callable[[Any, Any], None], heal: Callable[[Any, Any], None], *, passing: bool = True
) -> None:
    """One node of every cluster of the way is harmed, messages pass without it (where ``passing``; otherwise a job may
    fail instead), and it comes back."""
    brokers = injuries.stage.brokers
    assert isinstance(brokers, ClusterBrokers)
    clusters = [getattr(brokers, system) for system in injuries.way.systems]
    harmed = [(cluster, injuries.rng.choice(cluster.nodes)) for cluster in clusters]
    try:
        for cluster, node in harmed:
            cluster.hurt.add(node)
            harm(cluster, node)
        _await_effect(injuries.stage, passing=passing)
    finally:
        for cluster, node in harmed:
            heal(cluster, node)
    for cluster, node in harmed:
        cluster.await_all()
        cluster.hurt.discard(node)


def _await_effect(stage: Stage, *, passing: bool) -> None:
    start = stage.progress()

    def seen() -> bool:
        if stage.progress() >= start + _AWAY or (not passing and stage.failing()):
            return True
        stage.reset_retrying()
        return False

    eventually(seen, deadline=_SECONDS, what=f"{_AWAY} messages carried without a node")


def kill_broker_node(injuries: Injuries) -> None:
    """SIGKILL of a node, which starts again after the others did without it."""
    _one_away(injuries, lambda _, node: node.kill(), lambda _, node: node.start())


def freeze_broker_node(injuries: Injuries) -> None:
    """SIGSTOP: it keeps its connections and answers nobody."""
    _one_away(injuries, lambda _, node: node.freeze(), lambda cluster, node: cluster.thaw(node))


def part_broker_node(injuries: Injuries) -> None:
    """The network between a node and the others fails; clients reach it. A Kafka node keeps what it leads, for it
    reaches the controller, and takes nothing there, for it has no replicas."""
    passing = "kafka" not in injuries.way.systems
    _one_away(injuries, lambda at, node: at.part(node), lambda at, node: at.join(node), passing=passing)
