"""How to reach one RabbitMQ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pika

from mgw.links.contract import LinkConfig
from mgw.links.nodes import Node, Nodes, nodes_of
from mgw.links.tls import Tls

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """How to reach one RabbitMQ; times in seconds. Built from the link's attributes and options.

    Attributes:
        hostname, port: of one node: the first that the link names, or the one that a session is connected to.
        nodes: all that the link names.
    """

    link: str
    hostname: str
    port: int
    virtual_host: str
    username: str
    password: str
    client_name: str
    heartbeat: int
    connect_timeout: float
    answer_timeout: float
    blocked_timeout: float
    confirm_timeout: float
    tls: Tls
    management_url: str = ""
    nodes: Nodes = field(kw_only=True, repr=False, compare=False)

    @classmethod
    def of(cls, config: LinkConfig, attributes: Mapping[str, Any], options: Mapping[str, Any]) -> Settings:
        """Settings from parsed attributes and options.

        Raises:
            ConfigInvalid: an address that cannot be.
        """
        tls = Tls.of(config.name, attributes, on=attributes["tls"])
        port = attributes["port"] or (5671 if tls.on else 5672)
        nodes = Nodes(nodes_of(f"link {config.name}", attributes["hostname"], attributes["hosts"], port))
        return cls(
            link=config.name,
            hostname=nodes.all[0].host,
            port=nodes.all[0].port,
            virtual_host=attributes["virtual_host"],
            username=config.username or "guest",
            password=config.password or ("" if config.username else "guest"),  # the broker's own default user
            client_name=attributes["connection_name"] or config.client_name,
            heartbeat=options["amqp_heartbeat"],
            connect_timeout=options["amqp_connecttimeout"],
            answer_timeout=options["amqp_answertimeout"],
            blocked_timeout=options["amqp_blockedtimeout"],
            confirm_timeout=options["amqp_confirmtimeout"],
            tls=tls,
            management_url=options["amqp_managementurl"] or "",
            nodes=nodes,
        )

    def at(self, node: Node) -> Settings:
        """The same for one of the nodes."""
        return replace(self, hostname=node.host, port=node.port)

    @property
    def node(self) -> Node:
        """The address."""
        return Node(self.hostname, self.port)

    @property
    def place(self) -> str:
        """``host:port`` for people."""
        return f"{self.hostname}:{self.port}"

    def parameters(self, purpose: str) -> pika.ConnectionParameters:
        """What pika wants; ``purpose`` shows in the connection's name at the broker."""
        return pika.ConnectionParameters(
            host=self.hostname,
            port=self.port,
            virtual_host=self.virtual_host,
            credentials=pika.PlainCredentials(self.username, self.password),
            heartbeat=self.heartbeat,
            connection_attempts=1,
            socket_timeout=self.connect_timeout,
            stack_timeout=self.connect_timeout,
            blocked_connection_timeout=self.blocked_timeout,
            ssl_options=pika.SSLOptions(self.tls.context(self.place), self.hostname) if self.tls.on else None,
            client_properties={"connection_name": f"{self.client_name} {purpose}", "product": "mgw"},
        )
