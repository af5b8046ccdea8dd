"""Attributes and options of an MQTT link in the form the client takes them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from mgw.links.nodes import Node, Nodes
from mgw.links.tls import Tls

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Typed attributes of a link (see ``mgw.links.mqtt.spec.SPEC``).

    Attributes:
        host, port: of one node: the first that the link names, or the one that is connected to.
        nodes: all that the link names.
    """

    link: str
    host: str
    port: int
    version: int
    prefix: str
    keepalive: int
    session_expiry: int
    max_packet_size: int
    connect_timeout: float
    tls: Tls
    username: str | None
    password: str | None = field(default=None, repr=False)
    nodes: Nodes = field(kw_only=True, repr=False, compare=False)

    def at(self, node: Node) -> Settings:
        """The same for one of the nodes."""
        return replace(self, host=node.host, port=node.port)

    @property
    def several(self) -> bool:
        """Whether the link names more than one node; each may keep sessions of its own."""
        return self.nodes.several

    @property
    def place(self) -> str:
        """``host:port`` for people."""
        return f"{self.host}:{self.port}"
