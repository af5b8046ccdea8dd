"""The connections of the Kafka client, with what it lacks there.

* It does not tell why it could not connect; here the last reason is kept, and trying again ends where it cannot help.
* An answer that arrives together with the end of the connection is thrown away, among them the answer to a wrong
  password; here it is read.
* ``allow_auto_create_topics=False`` does not reach the metadata requests, so a consumer creates the topic it lost; here
  none ever does.
* It warns several times a second of servers that it cannot reach; the job says that itself, so here it only informs.
* At level DEBUG two of its modules log every byte, among them passwords (SASL PLAIN) and message bodies; here they
  begin at INFO.
* Sockets whose connection or TLS handshake fails are not closed, and a TLS handshake has no time limit; here they are,
  and it has.
* It looks for the cluster at a random server, for as long as it may look at all: one that is frozen accepts the
  connection and answers nothing, and the others are never asked. Here each is asked once before any is asked again,
  and has its share of the time.
* A client that is closed while it writes leaves that socket open, and the server its session; here it closes it.

This reaches into the client (:data:`DIRECT` is its own way to plug in another way to connect, the rest is not public);
the client is pinned to the minor release.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import time
import weakref
from collections import Counter
from typing import Any, Final

from kafka import errors
from kafka.net.compat import KafkaNetClient
from kafka.net.inet import KafkaNetSocket, create_connection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

from mgw.links.client_logging import NotedOnly, note_only
from mgw.links.tls import alert_in

__all__ = ["DIRECT", "HANDSHAKE_FAILED", "HOPELESS", "NetClient"]

#: Value of ``proxy_url`` that connects directly, closing what fails.
DIRECT: Final = "direct://"

#: How the text of an error begins when the TLS handshake failed.
HANDSHAKE_FAILED: Final = "Handshake failed"
#: Errors that the next attempt will meet again.
HOPELESS: Final = (
    errors.SaslAuthenticationFailedError,
    errors.AuthorizationError,
    errors.UnsupportedSaslMechanismError,
    errors.IllegalSaslStateError,
    errors.SecurityDisabledError,
)


_PAUSE = 0.05  # seconds between two attempts to send a request of a transaction

for _module in ("kafka.net.connection", "kafka.protocol.parser"):
    logging.getLogger(_module).setLevel(logging.INFO)
note_only("kafka.net.connection", "kafka.net.manager", "kafka.net.transport")
#: Of these, what they say of connections that fail and, many times a second, of attempts to find a server.
for _module, _beginnings in {
    "kafka.cluster": ("Metadata refresh", "No node available for metadata refresh"),
    "kafka.producer.sender": (
        "%s: Got an exception when trying to find a node",
        "%s: Got error produce response on topic-partition %s, retrying",
    ),
    "kafka.net.selector": ("Task ",),
}.items():
    logging.getLogger(_module).addFilter(NotedOnly(*_beginnings))


class _Direct(KafkaNetSocket):  # type: ignore[misc]
    """A way to connect as the client knows proxies; connects directly and closes the socket when that fails."""

    SCHEMES = ("direct",)

    async def sock_connect(self, net: Any, sock: socket.socket, *args: Any, **kwargs: Any) -> socket.socket:
        try:
            return await super().sock_connect(net, sock, *args, **kwargs)  # type: ignore[no-any-return]
        except BaseException:
            _close(net, sock)
            raise


def _close(net: Any, sock: socket.socket) -> None:
    with contextlib.suppress(KeyError, ValueError):
        net.unregister_event(sock, selectors.EVENT_READ | selectors.EVENT_WRITE)
    sock.close()


class _Network(NetworkSelector):  # type: ignore[misc]
    """Closes every socket when it is closed: a task that is cancelled in a write does not come to it any more."""

    def __init__(self, **configs: Any) -> None:
        super().__init__(**configs)
        self.transports: weakref.WeakSet[Any] = weakref.WeakSet()

    def close(self) -> None:
        try:
            super().close()
        finally:
            for transport in list(self.transports):
                if transport._sock is not None:
                    transport._sock.close()


class _Manager(KafkaConnectionManager):  # type: ignore[misc]
    """Remembers why a connection could not be made, and does not try again where that cannot help; asks every server
    for the cluster."""

    last_failure: BaseException | None = None

    def __init__(self, net: Any, **configs: Any) -> None:
        super().__init__(net, **configs)
        self.cluster.config["allow_auto_create_topics"] = False
        self._asked: Counter[Any] = Counter()  # servers that were asked for the cluster
        self._servers = self.cluster.bootstrap_brokers
        self.cluster.bootstrap_brokers = self._asked_least

    def _asked_least(self) -> list[Any]:
        servers = list(self._servers())
        least = min((self._asked[each.node_id] for each in servers), default=0)
        return [each for each in servers if self._asked[each.node_id] == least]

    def get_connection(self, node_id: Any, timeout_ms: float | None = None, **options: Any) -> Any:
        """A connection; where a time is given, which is what is left to find the cluster, it gets its share."""
        if timeout_ms is not None:
            timeout_ms /= max(1, len(self._asked_least()))
            self._asked[node_id] += 1
        return super().get_connection(node_id, timeout_ms=timeout_ms, **options)

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        sock = await create_connection(
            self._net,
            node.host,
            node.port,
            self.config["socket_options"],
            proxy_url=self.config["proxy_url"],
            timeout_at=timeout_at,
        )
        transport: Any
        if self.ssl_enabled:
            transport = KafkaSSLTransport(self._net, sock, host=node.host, ssl_context=self.config["ssl_context"])
        else:
            transport = KafkaTCPTransport(self._net, sock, host=node.host)
        self._net.transports.add(transport)
        try:
            left = None if timeout_at is None else max(0.0, timeout_at - time.monotonic()) * 1000
            await self.wait_for(self.call_soon(transport.handshake), left)
        except Exception as error:
            _close(self._net, transport._sock)
            raise errors.KafkaConnectionError(f"{HANDSHAKE_FAILED}: {error}") from error
        receive = transport._sock_recv

        def receive_before_end() -> tuple[bytes, BaseException | None]:
            data, error = receive()
            return (data, None) if data else (data, error)

        transport._sock_recv = receive_before_end
        return transport

    async def _connect(self, node: Any, conn: Any, *args: Any, **kwargs: Any) -> None:
        await super()._connect(node, conn, *args, **kwargs)
        error = conn.init_future.exception
        if error is not None:
            self.last_failure = error
            if isinstance(error, HOPELESS) or HANDSHAKE_FAILED in str(error) or alert_in(str(error)):
                self._auth_failures[node.node_id] = error


class NetClient(KafkaNetClient):  # type: ignore[misc]
    """What the client objects (consumer, producer, admin) are given as ``kafka_client``."""

    def __init__(self, **configs: Any) -> None:
        net = _Network(**configs)
        super().__init__(net=net, manager=_Manager(net, **configs))

    def await_ready(self, node_id: Any, timeout_ms: float = 30000) -> bool:
        """Whether a request can be sent to that server now.

        The client raises where a server is not ready, and what sends the requests of transactions then forgets the one
        in hand: the transaction stands until it is given up. It sends it again where the answer is False, at once, so
        that the answer takes a moment.
        """
        try:
            return bool(super().await_ready(node_id, timeout_ms))
        except errors.KafkaConnectionError:
            end = time.monotonic() + _PAUSE
            while (left := end - time.monotonic()) > 0 and not self.is_ready(node_id):
                self._net.poll(timeout_ms=left * 1000)
            return bool(self.is_ready(node_id))

    def close(self, node_id: Any = None) -> None:
        """Close the connection to one server, or all; then the loop ends too, whatever a connection says to its end."""
        try:
            super().close(node_id)
        finally:
            if node_id is None:
                self._net.close()

    @property
    def last_failure(self) -> BaseException | None:
        """Why the last connection could not be made."""
        return self._manager.last_failure  # type: ignore[no-any-return]
