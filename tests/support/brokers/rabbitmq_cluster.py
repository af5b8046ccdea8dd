"""Three RabbitMQ nodes in one cluster, each with ports, folder and process of its own."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from tests.support.brokers.rabbitmq import RabbitMQ
from tests.support.ports import free_port
from tests.support.waiting import eventually

__all__ = ["TICK_SECONDS", "RabbitMQCluster"]

TICK_SECONDS = 8  # after 1 to 1.25 times as long without a sign of life, nodes give another one up


class RabbitMQCluster:
    """Nodes that pause where they are a minority; a context manager that starts and ends them.

    ``nodes`` are ordinary servers: kill, freeze, thaw and start them by themselves. ``host`` and ``port`` are those of
    a node that nothing was done to, for clients that know one address.
    """

    def __init__(self, size: int = 3) -> None:
        cookie, mapper = secrets.token_hex(16), free_port()
        config = [
            "cluster_partition_handling = pause_minority",
            "cluster_formation.randomized_startup_delay_range.max = 0",
        ]
        config += ["cluster_formation.randomized_startup_delay_range.min = 0"]
        config += ["cluster_formation.peer_discovery_backend = classic_config"]
        kernel = f"-kernel net_ticktime {TICK_SECONDS}"
        self.nodes = [RabbitMQ(cookie=cookie, mapper=mapper, erlang=kernel) for _ in range(size)]
        config += [f"cluster_formation.classic_config.nodes.{i} = {each.node}" for i, each in enumerate(self.nodes, 1)]
        for node in self.nodes:
            node.configure(config)
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
        return next(node for node in self.nodes if node not in self.hurt)

    @property
    def host(self) -> str:
        """Of :attr:`whole`."""
        return self.whole.host

    @property
    def port(self) -> int:
        """Of :attr:`whole`."""
        return self.whole.port

    def start(self) -> Self:
        """Start all nodes: the first one forms the cluster, the others join it."""
        first, *others = self.nodes
        first.start()
        with ThreadPoolExecutor() as pool:
            list(pool.map(RabbitMQ.start, others))
        self.await_all()
        return self

    def await_all(self) -> None:
        """Wait until every node runs and sees all others run."""
        for node in self.nodes:
            eventually(
                lambda node=node: self._sees(node) == len(self.nodes), deadline=60, what=f"all seen by {node.node}"
            )

    def _sees(self, node: RabbitMQ) -> int:
        return int(node.ctl("eval", "length(rabbit_nodes:all_running())."))

    def part(self, node: RabbitMQ) -> None:
        """Part a node from the others: they and it refuse each other's connections; clients are not concerned."""
        others = ",".join(f"'{each.node}'" for each in self.nodes if each is not node)
        node.ctl("eval", f"[begin erlang:set_cookie(N, parted), erlang:disconnect_node(N) end || N <- [{others}]].")

    def join(self, node: RabbitMQ) -> None:
        """End :meth:`part`."""
        others = ",".join(f"'{each.node}'" for each in self.nodes if each is not node)
        node.ctl("eval", f"[erlang:set_cookie(N, erlang:get_cookie()) || N <- [{others}]].")

    def close(self) -> None:
        """End all nodes."""
        for node in self.nodes:
            node.kill()  # orderly, each would wait for the others
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
