"""``mgw links test`` for RabbitMQ: one thing after the other, in plain words."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import replace

from mgw.links.contract import Check
from mgw.links.failed_check import failed_check
from mgw.links.nodes import Nodes
from mgw.links.rabbitmq.connection import Session
from mgw.links.rabbitmq.errors import NO_TLS
from mgw.links.rabbitmq.settings import Settings
from mgw.links.tls import cause_of, cure_for
from mgw.transforms.errors import LinkError, LinkRefused

__all__ = ["run_checks"]


def run_checks(settings: Settings) -> Sequence[Check]:
    """Which nodes accept connections; of the first of them: name resolution, port, TLS, credentials and virtual host,
    version, alarms. Never raises."""
    lines, node = settings.nodes.answering()
    return [*lines, *_check_node(replace(settings.at(node), nodes=Nodes([node])))]


def _check_node(settings: Settings) -> Sequence[Check]:
    checks: list[Check] = []
    try:
        addresses = socket.getaddrinfo(settings.hostname, settings.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        detail = f"{settings.hostname!r} cannot be resolved ({error})"
        return [failed_check("name", error, detail, "correct hostname or DNS")]
    found = sorted({str(address[4][0]) for address in addresses})
    checks.append(Check("name", True, f"{settings.hostname} is {', '.join(found)}"))
    try:
        with socket.create_connection((settings.hostname, settings.port), settings.connect_timeout):
            checks.append(Check("port", True, f"{settings.place} accepts connections"))
    except OSError as error:
        cure = "check port, firewall and that RabbitMQ runs"
        return [*checks, failed_check("port", error, f"{settings.place} cannot be reached ({error})", cure)]
    if settings.tls.on:
        checks.append(_tls(settings))
        if not checks[-1].ok:
            return checks
    try:
        session = Session(settings, "test")
    except LinkError as error:
        name = "credentials" if isinstance(error, LinkRefused) else "protocol"
        return [*checks, Check(name, False, f"{error.what}: {error.cause}", error.cure)]
    try:
        host = settings.virtual_host
        checks.append(Check("credentials", True, f"user {settings.username!r} may use virtual host {host!r}"))
        checks.append(Check("broker", True, session.server))
        session.pump(0.0, lambda: True, "test")
        if session.blocked:
            cure = "free memory or disk space at the broker"
            checks.append(Check("alarms", False, f"the broker accepts no messages: {session.blocked}", cure))
    except LinkError as error:
        checks.append(Check("connection", False, f"{error.what}: {error.cause}", error.cure))
    finally:
        session.close()
    return checks


def _tls(settings: Settings) -> Check:
    try:
        context = settings.tls.context(settings.place)
        with (
            socket.create_connection((settings.hostname, settings.port), settings.connect_timeout) as plain,
            context.wrap_socket(plain, server_hostname=settings.hostname) as wrapped,
        ):
            return Check("tls", True, f"{wrapped.version()}, {settings.tls.state}")
    except LinkError as error:
        return Check("tls", False, error.cause, error.cure)
    except (OSError, ValueError) as error:
        reason = cause_of(error)
        return failed_check("tls", error, reason, cure_for(reason, host="hostname", no_tls=NO_TLS))
