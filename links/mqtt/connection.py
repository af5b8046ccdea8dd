"""Connecting to an MQTT broker: the client library resolves, connects, secures and logs in; then the wire is ours."""

from __future__ import annotations

import hashlib
import logging
import select
import socket
import ssl
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from paho.mqtt.client import MQTT_CLEAN_START_FIRST_ONLY, Client, ConnectFlags
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from mgw.links.client_logging import NotedOnly
from mgw.links.mqtt.errors import closed_early, refused, translate, unavailable
from mgw.links.mqtt.settings import Settings
from mgw.links.mqtt.wire import Wire
from mgw.links.nodes import Node
from mgw.transforms.errors import LinkError, LinkTimeout

__all__ = ["Session", "client_id_of", "open_session"]

_CLIENT_LOGGER = logging.getLogger("paho.mqtt.client")
_CLIENT_LOGGER.setLevel(logging.INFO)  # below, it describes every packet
_CLIENT_LOGGER.addFilter(NotedOnly("failed to receive on socket", "timeout on socket"))

_MAX_ID = 23  # characters that every 3.1.1 broker must take, MQTT 3.1.1 §3.1.3.1


@dataclass(frozen=True, slots=True)
class Session:
    """A logged-in connection and what the broker said of itself (MQTT 5; otherwise the protocol's limits)."""

    wire: Wire
    client_id: str
    node: Node
    present: bool
    receive_maximum: int = 65535
    maximum_packet: int = 0  # bytes, 0 = no limit told
    maximum_qos: int = 2
    retain: bool = True
    wildcards: bool = True
    shared: bool = True
    expiry: int | None = None  # seconds, where the broker changed ours


def client_id_of(settings: Settings, job: str, hub_id: str, role: str, place: str) -> str:
    """The client id of a job: stable, different for every hub, job, role and provider queue.

    So a session can never hold messages of a topic that its job no longer reads. MQTT 3.1.1 brokers need not take more
    than 23 letters and digits; there the name is shortened and the digest makes it unique.
    """
    digest = hashlib.sha256("\0".join((hub_id, settings.link, job, role, place)).encode()).hexdigest()
    if settings.version >= 5:
        return f"{settings.prefix}{job}_{role}_{digest[:8]}"
    readable = "".join(c for c in settings.prefix + job if c.isascii() and c.isalnum())
    return readable[: _MAX_ID - 12] + digest[:12]


class _Socket(ssl.SSLSocket):
    """Closes itself when the handshake fails, which the client library leaves to the garbage collector; remembers what
    the broker said when it ended the connection after the handshake, which the client library does not tell."""

    failure: ssl.SSLError | None = None

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """See :meth:`ssl.SSLSocket.recv`."""
        try:
            return super().recv(buflen, flags)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            self.failure = error
            raise

    def do_handshake(self, block: bool = False) -> None:
        """See :meth:`ssl.SSLSocket.do_handshake`."""
        try:
            super().do_handshake(block)
        except BaseException:
            self.close()
            raise


class _Answer:
    """What the callbacks of the client library saw; they do nothing but write it down."""

    reason: ReasonCode | None = None
    present = False
    properties: Properties | None = None

    def on_connect(
        self, _client: Client, _data: object, flags: ConnectFlags, reason: ReasonCode, properties: Properties | None
    ) -> None:
        """Called once, inside :func:`open_session`."""
        self.reason, self.present, self.properties = reason, flags.session_present, properties


def open_session(
    settings: Settings,
    client_id: str,
    *,
    clean: bool,
    expiry: int = 0,
    receive_maximum: int | None = None,
    nodelay: bool = False,
    node: Node | None = None,
    holder: str = "",
) -> Session:
    """Connect and log in, at the first node that answers.

    Args:
        node: the one to connect to; None: any.
        holder: of the session; it returns to the node that has it (:meth:`mgw.links.nodes.Nodes.lost`).
        clean: forget what the broker holds for this client id; False continues it.
        expiry: seconds the broker keeps the session after we are gone (MQTT 3.1.1: not 0 means forever).
        receive_maximum: messages the broker may send without an acknowledgement (MQTT 5).
        nodelay: for publishers; it costs subscribers throughput.

    Raises:
        LinkError: LinkUnavailable, LinkTimeout, LinkRefused.
    """

    def attempt(at: Node) -> Session:
        chosen = settings.at(at)
        return _open_session(chosen, client_id, clean, expiry, receive_maximum, nodelay=nodelay, holder=holder)

    return settings.nodes.connect(attempt, holder) if node is None else attempt(node)


def _open_session(
    settings: Settings,
    client_id: str,
    clean: bool,
    expiry: int,
    receive_maximum: int | None,
    *,
    nodelay: bool,
    holder: str,
) -> Session:
    client = _client(settings, client_id, clean)
    answer = _Answer()
    client.on_connect = answer.on_connect
    properties = None
    if settings.version >= 5:
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        if expiry:
            properties.SessionExpiryInterval = expiry
        if receive_maximum:
            properties.ReceiveMaximum = receive_maximum
    try:
        client.connect(
            settings.host,
            settings.port,
            settings.keepalive,
            clean_start=clean if settings.version >= 5 else MQTT_CLEAN_START_FIRST_ONLY,
            properties=properties,
        )
        _wait_for_connack(client, answer, settings)
    except BaseException as error:
        _drop(client)
        if isinstance(error, LinkError) or not isinstance(error, Exception):
            raise
        raise translate(error, settings) from error
    sock = client.socket()
    if not isinstance(sock, socket.socket):
        _drop(client)
        raise unavailable(settings, "the broker closed the connection during the login")
    if nodelay:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    told = answer.properties
    keepalive = _property(told, "ServerKeepAlive", settings.keepalive)
    node = Node(settings.host, settings.port)
    try:
        wire = Wire(
            sock,
            link=settings.link,
            client_id=client_id,
            keepalive=keepalive,
            release=lambda: _drop(client),
            suspected=lambda: settings.nodes.failed(node),
            lost=(lambda: settings.nodes.lost(node, holder)) if holder else None,
        )
    except OSError as error:
        _drop(client)
        raise translate(error, settings) from error
    return Session(
        wire,
        client_id,
        node,
        answer.present,
        _property(told, "ReceiveMaximum", 65535),
        _property(told, "MaximumPacketSize", 0),
        _property(told, "MaximumQoS", 2),
        _property(told, "RetainAvailable", 1) == 1,
        _property(told, "WildcardSubscriptionAvailable", 1) == 1,
        _property(told, "SharedSubscriptionAvailable", 1) == 1,
        getattr(told, "SessionExpiryInterval", None),
    )


def _client(settings: Settings, client_id: str, clean: bool) -> Client:
    client = Client(
        CallbackAPIVersion.VERSION2,
        client_id=client_id,
        clean_session=None if settings.version >= 5 else clean,
        protocol=MQTTProtocolVersion.MQTTv5 if settings.version >= 5 else MQTTProtocolVersion.MQTTv311,
        reconnect_on_failure=False,
    )
    client.connect_timeout = settings.connect_timeout
    client.enable_logger(_CLIENT_LOGGER)
    if settings.username is not None:
        client.username_pw_set(settings.username, settings.password)
    if settings.tls.on:
        try:
            context = settings.tls.context(settings.place)
        except OSError as error:
            raise translate(error, settings) from error
        context.sslsocket_class = _Socket
        client.tls_set_context(context)
        client.tls_insecure_set(not settings.tls.verify)  # the client would compare the name itself
    return client


def _wait_for_connack(client: Client, answer: _Answer, settings: Settings) -> None:
    deadline = time.monotonic() + settings.connect_timeout
    while answer.reason is None:
        sock = client.socket()
        if sock is None:
            raise closed_early(settings)
        if client.want_write():
            client.loop_write()
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise LinkTimeout(
                f"link {settings.link}: {settings.place} does not answer the login",
                link=settings.link,
                operation="connect",
                cause=f"no CONNACK within {settings.connect_timeout:g} s",
                cure="check whether this port is an MQTT listener, with or without TLS as configured",
            )
        pending = isinstance(sock, ssl.SSLSocket) and sock.pending()
        if pending or _is_readable(sock, min(remaining, 0.5)):
            code = client.loop_read()
            if answer.reason is None and code == MQTTErrorCode.MQTT_ERR_PROTOCOL and settings.version < 5:
                raise refused(settings, 0x84)
            if isinstance(sock, _Socket) and sock.failure is not None:
                raise translate(sock.failure, settings)
            if answer.reason is None and code not in (MQTTErrorCode.MQTT_ERR_SUCCESS, MQTTErrorCode.MQTT_ERR_AGAIN):
                raise closed_early(settings)
    if answer.reason.value >= 0x80:
        raise refused(settings, answer.reason.value)


def _is_readable(sock: Any, seconds: float) -> bool:
    poll = select.poll()  # select() knows no file beyond the 1024th
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _drop(client: Client) -> None:
    """Close the socket of a client that is no longer needed."""
    sock = client.socket()
    if sock is not None:
        with suppress(OSError):
            sock.close()  # type: ignore[no-untyped-call, unused-ignore]


def _property(properties: Properties | None, name: str, default: int) -> int:
    return int(getattr(properties, name, default))
