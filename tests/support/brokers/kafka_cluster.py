"""Three Kafka nodes in one cluster, each broker and controller, with ports, folder and process of its own."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from tests.support.brokers.kafka import Kafka
from tests.support.brokers.server import connect, receive_exactly
from tests.support.ports import LOOPBACK, free_port
from tests.support.proxy import TcpProxy
from tests.support.waiting import eventually

__all__ = ["KafkaCluster"]

_METADATA = struct.pack("!hhihi", 3, 1, 7, -1, 0)  # version 1, of no topic
_REPLICATED = ("offsets.topic.replication.factor", "transaction.state.log.replication.factor")
_CONFIG = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "transaction.state.log.min.isr": "2",
    # A node that is frozen or parted is given up after this long; under load a sign of life may be late.
    "broker.session.timeout.ms": "6000",
    "controller.quorum.election.timeout.ms": "2000",
    "controller.quorum.fetch.timeout.ms": "4000",
    "replica.lag.time.max.ms": "6000",
    "replica.socket.timeout.ms": "6000",
}


class _Node(Kafka):
    """A node that other nodes reach through a proxy."""

    def __init__(self, cluster: str, number: int, proxy: TcpProxy, controllers: Mapping[int, int]) -> None:
        voters = ",".join(f"{other}@{LOOPBACK}:{port}" for other, port in controllers.items())
        config = _CONFIG | dict.fromkeys(_REPLICATED, "3")
        super().__init__(config=config | {"node.id": str(number), "controller.quorum.voters": voters}, cluster=cluster)
        self.number = number
        self.replicas = 3
        self._controller_port = controllers[number]
        self.proxy_between = proxy
        self._between = proxy.target[1]

    def _configuration(self) -> dict[str, str]:
        found = super()._configuration()
        found["listeners"] += f",BETWEEN://{LOOPBACK}:{self._between}"
        found["advertised.listeners"] += f",BETWEEN://{LOOPBACK}:{self.proxy_between.port}"
        found["listener.security.protocol.map"] += ",BETWEEN:PLAINTEXT"
        return found | {"inter.broker.listener.name": "BETWEEN", "metadata.max.idle.interval.ms": "500"}

    def ready(self) -> bool:
        """The node lists itself."""
        return self.number in self.listed()

    def listed(self) -> set[int]:
        """The nodes that it takes for alive."""
        with connect(self.port) as connection:
            connection.sendall(struct.pack("!i", len(_METADATA)) + _METADATA)
            (size,) = struct.unpack("!i", receive_exactly(connection, 4))
            answer = receive_exactly(connection, size)
        (count,) = struct.unpack_from("!i", answer, 4)
        found, at = set(), 8
        for _ in range(count):
            number, length = struct.unpack_from("!ih", answer, at)
            at += 6 + length + 4
            (rack,) = struct.unpack_from("!h", answer, at)
            at += 2 + max(rack, 0)
            found.add(number)
        return found


class KafkaCluster:
    """Nodes with three replicas of everything, of which two must have a record; a context manager that starts and ends
    them.

    ``nodes`` are ordinary servers: kill, freeze, thaw and start them by themselves. ``bootstrap`` names all.
    """

    def __init__(self, size: int = 3) -> None:
        cluster = Kafka.new_cluster_id()
        controllers = {number: free_port() for number in range(1, size + 1)}
        proxies = [TcpProxy(LOOPBACK, free_port()) for _ in controllers]
        self.nodes = [_Node(cluster, n, proxy, controllers) for n, proxy in zip(controllers, proxies, strict=True)]
        self.bootstrap = ",".join(node.bootstrap for node in self.nodes)
        self.hurt: set[Kafka] = set()

    def start(self) -> Self:
        """Start all nodes, at once, since none is ready alone."""
        for node in self.nodes:
            node.proxy_between.start()
        with ThreadPoolExecutor() as pool:
            list(pool.map(_Node.start, self.nodes))
        self.await_all()
        return self

    def await_all(self) -> None:
        """Wait until every node takes all for alive."""
        everyone = {node.number for node in self.nodes}
        for node in self.nodes:
            eventually(
                lambda node=node: node.listed() == everyone,
                deadline=60,
                what=f"node {node.number} lists all",
                tolerate=(OSError,),
            )

    def thaw(self, node: _Node) -> None:
        """Let a frozen node go on."""
        node.thaw()

    def part(self, node: _Node) -> None:
        """Other brokers do not reach a node any more, while it reaches them and the controller; nor are clients
        concerned. What it leads gets no replicas."""
        node.proxy_between.stall()

    def join(self, node: _Node) -> None:
        """End :meth:`part`."""
        node.proxy_between.resume()

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create a topic and wait until it can be used."""
        self.nodes[0].create_topic(name, partitions, config)

    def close(self) -> None:
        """End all nodes."""
        for node in self.nodes:
            node.kill()  # orderly, each would hand over what it leads
            node.close()
            node.proxy_between.close()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
