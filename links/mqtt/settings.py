"""Attributes and options of an MQTT link in the form the client takes them."""

from __future__ import annotations

from dataclasses import dataclass, field

from mgw.links.tls import Tls

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Typed attributes of a link (see ``mgw.links.mqtt.spec.SPEC``)."""

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

    @property
    def place(self) -> str:
        """``host:port`` for people."""
        return f"{self.host}:{self.port}"
