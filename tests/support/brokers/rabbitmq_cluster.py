"""Three RabbitMQ nodes in one cluster, each with ports, folder and process of its own."""

from __future__ import annotations

import secrets
from types import TracebackType
from typing import Self

from tests.support.brokers.rabbitmq import RabbitMQ
from tests.support.brokers.server import ServerFailed, connect
from tests.support.waiting import eventually

__all__ = ["TICK_SECONDS", "RabbitMQCluster"]

TICK_SECONDS = 8  # after 1 to 1.25 times as long without a sign of life, nodes give another one up
_PARTITIONS = "cluster_partition_handling = pause_minority"


class RabbitMQCluster:
    """Nodes that pause where they are a minority; a context manager that starts and ends them.

    ``nodes`` are ordinary servers: kill, freeze, thaw and start them by themselves. ``host`` and ``port`` are those of
    a node that nothing was done to, for clients that know one address.
    """

    def __init__(self, size: int = 3) -> None:
        cookie = secrets.token_hex(16)
        kernel = f"-kernel net_ticktime {TICK_SECONDS}"
        first = RabbitMQ(cookie=cookie, erlang=kernel, config=[_PARTITIONS])
        join = [
            "cluster_formation.peer_discovery_backend = classic_config",
            f"cluster_formation.classic_config.nodes.1 = {first.node}",
            "cluster_formation.randomized_startup_delay_range.min = 0",
            "cluster_formation.randomized_startup_delay_range.max = 0",
        ]
        others = [
            RabbitMQ(cookie=cookie, erlang=kernel, mapper=first.mapper, config=[_PARTITIONS, *join])
            for _ in range(size - 1)
        ]
        self.nodes = [first, *others]
        self.username, self.password, self.vhost = "guest", "guest", "/"
        self.heartbeat = TICK_SECONDS  # seconds, for clients that have to notice a frozen node
        self.hurt: set[RabbitMQ] = set()

    @property
    def hosts(self) -> str:
        """All addresses, as a link takes them."""
        return ",".join(f"{node.host}:{node.port}" for node in self.nodes)

    @property
    def whole(self) -> RabbitMQ:
        """A node that nothing was done to."""
        return next(node for node in reversed(self.nodes) if node not in self.hurt)

    @property
    def host(self) -> str:
        """Of :attr:`whole`."""
        return self.whole.host

    @property
    def port(self) -> int:
        """Of :attr:`whole`."""
        return self.whole.port

    def start(self) -> Self:
        """Start all nodes: the first one forms the cluster, the others join it, one after the other."""
        for node in self.nodes:
            node.start()
        self.await_all()
        return self

    def await_all(self) -> None:
        """Wait until every node runs, takes connections and sees all others run."""
        for node in self.nodes:
            eventually(
                lambda node=node: self._sees(node) == len(self.nodes),
                deadline=60,
                what=f"{node.node} sees all",
                tolerate=(ServerFailed, OSError),
            )

    def _sees(self, node: RabbitMQ) -> int:
        connect(node.port).close()  # one that was a minority counts as running before it listens
        return int(node.call("length(rabbit_nodes:all_running())"))

    def thaw(self, node: RabbitMQ) -> None:
        """Let a frozen node go on, and start it again as an operator has to: it connects before it knows that the
        others gave it up, and Mnesia refuses both sides from then on."""
        node.thaw()
        node.call("node()")
        node.kill()
        node.start()

    def part(self, node: RabbitMQ) -> None:
        """Part a node from the others: they and it refuse each other's connections; clients are not concerned."""
        others = ",".join(f"'{each.node}'" for each in self.nodes if each is not node)
        cookies = f"[erlang:set_cookie(N, parted) || N <- [{others}]]"
        node.call(f"{cookies}, [erlang:disconnect_node(N) || N <- [{others}]]")

    def join(self, node: RabbitMQ) -> None:
        """End :meth:`part`."""
        others = ",".join(f"'{each.node}'" for each in self.nodes if each is not node)
        node.call(f"[erlang:set_cookie(N, erlang:get_cookie()) || N <- [{others}]]")

    def close(self) -> None:
        """End all nodes."""
        for node in self.nodes:
            node.kill()  # orderly, each would wait for the others
        for node in self.nodes:
            node.close()

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
