"""How to reach one RabbitMQ."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pika

from mgw.links.contract import LinkConfig
from mgw.transforms.errors import LinkRefused
from mgw.transforms.open_files import shortage

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """How to reach one RabbitMQ; times in seconds. Built from the link's attributes and options."""

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
    tls: bool
    ca_file: str | None
    cert_file: str | None
    key_file: str | None
    verify: bool
    server_name: str
    management_url: str = ""

    @classmethod
    def of(cls, config: LinkConfig, attributes: Mapping[str, Any], options: Mapping[str, Any]) -> Settings:
        """Settings from parsed attributes and options."""
        tls: bool = attributes["tls"]
        return cls(
            link=config.name,
            hostname=attributes["hostname"],
            port=attributes["port"] or (5671 if tls else 5672),
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
            ca_file=attributes["tls_ca_file"],
            cert_file=attributes["tls_cert_file"],
            key_file=attributes["tls_key_file"],
            verify=attributes["tls_verify"],
            server_name=attributes["tls_server_name"] or attributes["hostname"],
            management_url=options["amqp_managementurl"] or "",
        )

    @property
    def place(self) -> str:
        """``host:port`` for people."""
        return f"{self.hostname}:{self.port}"

    def ssl_context(self) -> ssl.SSLContext:
        """TLS context; raises LinkRefused when a certificate file cannot be used."""
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if not self.verify:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if self.cert_file:
                context.load_cert_chain(self.cert_file, self.key_file)
        except (OSError, ValueError) as error:
            if shortage(error, guess=False):
                raise
            files = ", ".join(name for name in (self.ca_file, self.cert_file, self.key_file) if name)
            raise LinkRefused(
                f"link {self.link}: the TLS files cannot be used",
                link=self.link,
                operation="connect",
                cause=f"{files}: {error}",
                cure="check tls_ca_file, tls_cert_file and tls_key_file",
            ) from error
        return context

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
            ssl_options=pika.SSLOptions(self.ssl_context(), self.server_name) if self.tls else None,
            client_properties={"connection_name": f"{self.client_name} {purpose}", "product": "mgw"},
        )
