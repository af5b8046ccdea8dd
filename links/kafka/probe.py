"""Questions to a Kafka cluster: ``mgw links test`` and the guarantee of a job."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable

from mgw.links.contract import Check
from mgw.links.failed_check import failed_check
from mgw.links.kafka.guarantee import not_compacted
from mgw.links.kafka.sending_log import describe_log
from mgw.links.kafka.settings import Settings
from mgw.links.kafka.tls import handshake_cure
from mgw.transforms.errors import LinkError

__all__ = ["run_checks"]

_CONNECT = 5.0  # seconds for one TCP connection


def run_checks(settings: Settings) -> list[Check]:
    """Name, port, TLS, login and reachability of all servers; the first failed check ends the list."""
    checks: list[Check] = []
    steps: tuple[Callable[[Settings], list[Check]], ...] = (_check_addresses, _check_tls, _check_cluster, _check_log)
    for step in steps:
        checks += step(settings)
        if not all(check.ok for check in checks):
            break
    return checks


def _split(server: str) -> tuple[str, int]:
    host, _, port = server.rpartition(":")
    return (host.strip("[]"), int(port)) if host else (server, 9092)


def _check_addresses(settings: Settings) -> list[Check]:
    """At least one server must accept a connection."""
    problems: list[str] = []
    failure = OSError("there is no server")
    for server in settings.servers:
        host, port = _split(server)
        error = _knock(host, port)
        if error is None:
            return [Check("address", True, f"{server} accepts connections")]
        failure = error
        problems.append(f"{server}: {_reason(host, port, error)}")
    cure = "check bootstrap_servers, and that the cluster runs"
    return [failed_check("address", failure, "; ".join(problems), cure)]


def _knock(host: str, port: int) -> OSError | None:
    try:
        with socket.create_connection((host, port), timeout=_CONNECT):
            return None
    except OSError as error:
        return error


def _reason(host: str, port: int, error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return f"the name {host} cannot be resolved ({error.strerror})"
    if isinstance(error, TimeoutError):
        return f"no answer within {_CONNECT:g} s (a firewall?)"
    if isinstance(error, ConnectionRefusedError):
        return f"nothing listens on port {port}"
    return str(error)


def _check_tls(settings: Settings) -> list[Check]:
    context: ssl.SSLContext | None = settings.common.get("ssl_context")
    if context is None:
        return []
    problem = reason = "no server accepts connections"
    failure = OSError(reason)
    for server in settings.servers:
        host, port = _split(server)
        try:
            with (
                socket.create_connection((host, port), timeout=_CONNECT) as plain,
                context.wrap_socket(plain, server_hostname=host) as secure,
            ):
                name = settings.tls.server_name or host
                told = f"the certificate is valid for {name}" if settings.tls.verify else settings.tls.state
                return [Check("tls", True, f"{secure.version()}, {told}")]
        except ssl.SSLCertVerificationError as error:
            problem, reason = f"{server}: the certificate is not accepted: {error.verify_message}", error.verify_message
            failure = error
        except (ssl.SSLError, OSError) as error:
            problem, reason = f"{server}: the TLS handshake failed: {error}", str(error)
            failure = error
    return [failed_check("tls", failure, problem, handshake_cure(reason))]


def _check_cluster(settings: Settings) -> list[Check]:
    try:
        cluster = settings.client.cluster(settings, "test")
    except LinkError as error:
        return [Check("login", False, error.cause or error.what, error.cure)]
    user = settings.common.get("sasl_plain_username")
    checks = [
        Check("login", True, f"user {user} is accepted" if user else "the listener requires no login"),
        Check(
            "cluster",
            True,
            f"cluster {cluster.cluster_id}, {len(cluster.servers)} server(s)"
            f"{f', release {cluster.release} or later' if cluster.release else ''}",
        ),
    ]
    for number, host, port in cluster.servers:
        if failure := _knock(host, port):
            detail = f"server {number} is announced as {host}:{port}, but {_reason(host, port, failure)}"
            cure = "correct advertised.listeners of that server, or the network between here and there"
            return [*checks, failed_check("servers", failure, detail, cure)]
    checks.append(Check("servers", True, "every server can be reached under the address it announces"))
    return checks


def _check_log(settings: Settings) -> list[Check]:
    """The log topic, where the link has one."""
    if settings.log_topic is None:
        return []
    try:
        log = describe_log(settings, "test")
    except LinkError as error:
        return [Check("sending log", False, error.cause or error.what, error.cure)]
    if problem := not_compacted(log):
        change = f"--alter --entity-type topics --entity-name {log.name} --add-config cleanup.policy=compact"
        return [Check("sending log", False, problem, f"kafka-configs.sh {change} (and --bootstrap-server)")]
    return [Check("sending log", True, f"topic {log.name} has partitions for {len(log.partitions)} job(s)")]
