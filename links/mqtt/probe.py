"""What can be said of an MQTT link and its broker: the lines of ``mgw links test``, and log queues that cannot be."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mgw.links.contract import Check, LinkConfig
from mgw.links.mqtt.connection import Session
from mgw.links.mqtt.settings import Settings
from mgw.links.mqtt.source import try_read
from mgw.links.nodes import Node
from mgw.transforms.errors import ConfigInvalid, LinkError
from mgw.transforms.mqtt.topic import check_topic

__all__ = ["VERSION_TOPIC", "check_logs", "check_nodes", "run_checks", "version_of"]

VERSION_TOPIC = "$SYS/broker/version"
_VERSION_WAIT = 1.0  # seconds after the subscription; a broker that shows it does so at once


def version_of(session: Session, settings: Settings) -> str | None:
    """What the broker says it is; None: nothing.

    Raises:
        LinkError: the connection was lost.
    """
    return try_read(session, settings, VERSION_TOPIC, _VERSION_WAIT)


def run_checks(settings: Settings, probe: Callable[[], Session]) -> Sequence[Check]:
    """See :meth:`mgw.links.contract.Link.test`; ``probe`` opens a session."""
    name = "MQTT 5" if settings.version >= 5 else "MQTT 3.1.1"
    nodes, _ = settings.nodes.answering()
    try:
        session = probe()
    except LinkError as error:
        return (
            *nodes,
            Check("connection", False, f"{error.what}: {error.cause}", error.cure),
        )
    user = f"as {settings.username!r}" if settings.username else "without user name"
    checks = [
        *nodes,
        Check("connection", True, f"{settings.nodes.last or settings.place} {settings.tls.state}"),
        Check("login", True, f"{name} {user}"),
    ]
    try:
        version = version_of(session, settings)
    except LinkError as error:
        return (*checks, Check("broker", False, f"{error.what}: {error.cause}", error.cure))
    finally:
        session.wire.close()
    told = [version or "version not shown"]
    if settings.version >= 5:
        told.append(f"highest QoS {session.maximum_qos}")
        told.append(f"packets up to {session.maximum_packet} bytes" if session.maximum_packet else "any packet size")
        told.append(f"{session.receive_maximum} messages in flight")
        told += [
            f"no {what}"
            for what, has in (
                ("retained messages", session.retain),
                ("wildcards", session.wildcards),
                ("shared subscriptions", session.shared),
            )
            if not has
        ]
    good = session.maximum_qos >= 1
    cure = "" if good else "configure the broker to allow QoS 1"
    return (*checks, Check("broker", good, ", ".join(told), cure))


def check_nodes(config: LinkConfig, owner: str, nodes: Sequence[Node]) -> None:
    """Refuse a sending log with several nodes."""
    if len(nodes) > 1 and config.outbound_log_queue is not None:
        raise ConfigInvalid(
            f"{owner}: outbound_log_queue is refused",
            cause="hosts names several nodes, and the echo which proves the records is kept by one",
            cure="remove outbound_log_queue, or name one node",
        )


def check_logs(config: LinkConfig, owner: str) -> None:
    """Refuse log queues that cannot be."""
    if config.inbound_log_queue is not None:
        raise ConfigInvalid(
            f"{owner}: inbound_log_queue is refused",
            cause="an MQTT link does not need it: the state of jobs that read from it is kept in the hub",
            cure="remove inbound_log_queue",
        )
    if config.outbound_log_queue is None:
        return
    reason = check_topic(config.outbound_log_queue)
    if reason is None and "{job}" not in config.outbound_log_queue:
        reason = "every job needs a topic of its own"
    if reason:
        raise ConfigInvalid(
            f"{owner}: outbound_log_queue cannot be {config.outbound_log_queue!r}",
            cause=reason,
            cure="name a topic for the records of each job, for example mgw/sent/{job}",
        )
