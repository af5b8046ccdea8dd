"""Questions to a Kafka cluster: ``mgw links test`` and the guarantee of a job."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Any

from kafka import KafkaAdminClient

from links.contract import Check, Guarantee, GuaranteeReport
from links.failed_check import failed_check
from links.kafka_client import Settings, Topic, build, describe, quietly, translate
from links.kafka_log import describe_log
from links.kafka_tls import handshake_cure
from transforms.errors import LinkError, LinkTimeout, LinkUnavailable

__all__ = ["report_inbound", "report_outbound", "test_link", "transaction_state"]

_CONNECT = 5.0  # seconds for one TCP connection
_TRANSACTION_STATE = "__transaction_state"


def test_link(settings: Settings) -> list[Check]:
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
                return [Check("tls", True, f"{secure.version()}, the certificate is valid for {host}")]
        except ssl.SSLCertVerificationError as error:
            problem, reason = f"{server}: the certificate is not accepted: {error.verify_message}", error.verify_message
            failure = error
        except (ssl.SSLError, OSError) as error:
            problem, reason = f"{server}: the TLS handshake failed: {error}", str(error)
            failure = error
    return [failed_check("tls", failure, problem, handshake_cure(reason))]


def _check_cluster(settings: Settings) -> list[Check]:
    try:
        admin = build(KafkaAdminClient, settings, "test")
    except LinkError as error:
        return [Check("login", False, error.cause or error.what, error.cure)]
    try:
        cluster: Mapping[str, Any] = admin.describe_cluster()
        version = ".".join(str(part) for part in admin.config["api_version"] or admin._manager.broker_version)
    except Exception as error:
        failed = translate(error, settings.link, "test", "the cluster")
        return [Check("cluster", False, failed.cause or failed.what, failed.cure)]
    finally:
        quietly(admin.close)
    user = settings.common.get("sasl_plain_username")
    checks = [
        Check("login", True, f"user {user} is accepted" if user else "the listener asks for no login"),
        Check(
            "cluster",
            True,
            f"cluster {cluster['cluster_id']}, {len(cluster['brokers'])} server(s), release {version} or later",
        ),
    ]
    for broker in cluster["brokers"]:
        host, port = broker["host"], broker["port"]
        if failure := _knock(host, port):
            detail = f"server {broker['broker_id']} is announced as {host}:{port}, but {_reason(host, port, failure)}"
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
    if problem := _not_compacted(log):
        change = f"--alter --entity-type topics --entity-name {log.name} --add-config cleanup.policy=compact"
        return [Check("sending log", False, problem, f"kafka-configs.sh {change} (and --bootstrap-server)")]
    return [Check("sending log", True, f"topic {log.name} has room for {len(log.partitions)} job(s)")]


def transaction_state(settings: Settings) -> Topic | None:
    """The topic in which the cluster keeps transactions, or None where it may not be seen or is not there yet.

    Raises:
        LinkUnavailable, LinkTimeout: nobody answered, which says nothing of the topic.
    """
    try:
        return describe(settings, _TRANSACTION_STATE, "verify", None)
    except (LinkUnavailable, LinkTimeout):
        raise
    except LinkError:
        return None


def report_outbound(topic: Topic, log: Topic | None, state: Topic | None = None) -> GuaranteeReport:
    """What a job that writes to this topic can promise, with the link's log topic and the cluster's transactions."""
    if log is None:
        return GuaranteeReport(
            Guarantee.AT_LEAST_ONCE,
            "the link has no outbound_log_queue, so a restart may repeat a batch "
            "(header MGW_AQ_messageID is the same in the copies)",
        )
    failed = _unreadable(log) or _not_compacted(log)
    for each in (log, topic):
        failed = failed or _unreadable(each) or _unsafe(each)
    if state is not None:
        failed = failed or _unreadable(state) or _unsafe(state)
        if not failed and state.replicas < min(topic.replicas, 2):
            failed = f"topic {state.name} has one replica: with its server the outcome of transactions is lost"
    if failed:
        return GuaranteeReport(Guarantee.AT_LEAST_ONCE, failed)
    return GuaranteeReport(Guarantee.EXACT, "for read_committed readers")


def _unreadable(topic: Topic) -> str:
    if topic.config is not None:
        return ""
    return f"the configuration of topic {topic.name} cannot be read (grant DescribeConfigs)"


def _not_compacted(log: Topic) -> str:
    policy = (log.config or {}).get("cleanup.policy", "delete")
    if policy == "compact":
        return ""
    return (
        f"cleanup.policy of the log topic {log.name} is {policy}: after a quiet time its records are removed "
        "(set cleanup.policy=compact)"
    )


def _unsafe(topic: Topic) -> str:
    """Why an acknowledged record may be lost when a server fails."""
    config = topic.config or {}
    if config.get("unclean.leader.election.enable") == "true":
        return f"unclean.leader.election.enable is on for topic {topic.name}: after a crash the log may go back"
    in_sync = int(config.get("min.insync.replicas", 1))
    if topic.replicas > 1 and in_sync < 2:
        return (
            f"min.insync.replicas of topic {topic.name} is {in_sync} with {topic.replicas} replicas: "
            "a single server may hold what was confirmed (set it to 2)"
        )
    return ""


def report_inbound(topic: Topic) -> GuaranteeReport:
    """What a job that reads from this topic can promise."""
    if topic.config is None:
        return GuaranteeReport(
            Guarantee.EXACT_UNLESS_BROKER_CRASH,
            f"the configuration of topic {topic.name} cannot be read (grant DescribeConfigs), so unclean leader "
            "election may be on",
        )
    if topic.config.get("unclean.leader.election.enable") == "true":
        return GuaranteeReport(
            Guarantee.EXACT_UNLESS_BROKER_CRASH,
            f"unclean.leader.election.enable is on for topic {topic.name}: after a crash the log may go back",
        )
    if not topic.topic_id:
        return GuaranteeReport(
            Guarantee.EXACT_UNLESS_BROKER_CRASH,
            "the cluster has no topic ids, so a topic that is created again under its name cannot be noticed",
        )
    return GuaranteeReport(Guarantee.EXACT)
