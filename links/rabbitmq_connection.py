"""One connection to RabbitMQ: pika negotiates, opens the channel, declares and reports errors; the frames that matter
for speed pass by it (:mod:`links.amqp_frames`).

Everything pika raises leaves this module as a :class:`~transforms.errors.LinkError`; pika's own logging is silenced,
because each of its errors is reported that way.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pika
from pika import exceptions, frame
from pika.adapters.utils import connection_workflow as workflow

from links.amqp_frames import FrameScanner, Returned
from links.contract import JobUse, LinkConfig
from transforms.errors import (
    DeliveryRejected,
    LinkError,
    LinkRefused,
    LinkTimeout,
    LinkUnavailable,
    QueueMissing,
)

__all__ = ["Session", "Settings", "missing", "translate"]

logging.getLogger("pika").setLevel(logging.CRITICAL + 1)

_READ_BYTES = 256 * 1024  # per recv; pika's own 4 KiB costs a call for every sixteen messages
_READ_LIMIT = 1024 * 1024  # per turn of the loop, so that a flood cannot keep a read from returning
_WRITE_PIECE = 256 * 1024  # pika copies what is left of a piece after each partial write
_CLOSE_SECONDS = 2.0


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
            client_name=config.client_name,
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
            raise LinkRefused(
                f"link {self.link}: the TLS files cannot be used",
                link=self.link,
                operation="connect",
                cause=str(error),
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


class _Connection(pika.SelectConnection):  # type: ignore[misc]
    """pika's connection with our scanner before its frame parser."""

    scanner: FrameScanner | None = None

    def _on_data_available(self, data_in: bytes) -> None:
        scanner = self.scanner
        if scanner is None:
            super()._on_data_available(data_in)
        else:
            self.bytes_received += len(data_in)
            scanner.feed(data_in)

    def take_frame(self, data: bytes) -> None:
        """A frame that is not ours to handle."""
        _, value = frame.decode_frame(data)
        self._process_frame(value)

    def install(self, scanner: FrameScanner) -> None:
        """From now on, ``scanner`` sees the incoming bytes first."""
        rest: bytes = self._frame_buffer  # type: ignore[has-type]
        self._frame_buffer = b""
        self.scanner = scanner
        transport = self._transport
        transport._MAX_RECV_BYTES = _READ_BYTES
        transport._MAX_CONSUME_BYTES = _READ_LIMIT
        if rest:
            scanner.feed(rest)

    def write(self, data: bytes) -> None:
        """Append ready frames to the output."""
        self.bytes_sent += len(data)
        if len(data) <= _WRITE_PIECE:
            self._adapter_emit_data(data)
        else:
            view = memoryview(data)
            for start in range(0, len(data), _WRITE_PIECE):
                self._adapter_emit_data(bytes(view[start : start + _WRITE_PIECE]))

    @property
    def unsent(self) -> int:
        """Bytes waiting for the socket."""
        return int(self._get_write_buffer_size()) if self._transport is not None else 0


class Session:
    """A connection with one channel. Driven by one thread; only :meth:`interrupt` may be called from another."""

    def __init__(
        self,
        settings: Settings,
        purpose: str,
        *,
        confirmed: Callable[[int, bool, bool], object] | None = None,
        returned: Callable[[Returned], object] | None = None,
    ) -> None:
        self.settings = settings
        self.blocked = ""  # why the broker accepts no messages at the moment, "" if it does
        self._failure: BaseException | None = None
        self._interrupted = False
        self._open = False
        try:
            self._pika = pika.BlockingConnection(settings.parameters(purpose), _impl_class=_Connection)
        except LinkError:
            raise
        except Exception as error:
            raise self.translate(error, "connect") from error
        self._impl: _Connection = self._pika._impl
        self._loop = self._impl.ioloop
        self._open = True
        try:
            self._impl.add_on_connection_blocked_callback(self._on_blocked)
            self._impl.add_on_connection_unblocked_callback(self._on_unblocked)
            with self.calling("connect"):
                self.channel = self._pika.channel()
            self.channel._impl.add_on_close_callback(self._on_channel_closed)
            self.number: int = self.channel.channel_number
            self.frame_max: int = self._impl.params.frame_max
            self.scanner = FrameScanner(self.number, self._impl.take_frame, confirmed, returned)
            self._impl.install(self.scanner)
        except BaseException:
            self.close()
            raise

    @property
    def server(self) -> str:
        """Product and version of the broker."""
        known = self._impl.server_properties or {}
        return f"{known.get('product', 'an AMQP broker')} {known.get('version', '')}".strip()

    # -- driving ------------------------------------------------------------------------------------------------------

    def pump(self, wait: float, ready: Callable[[], object], operation: str) -> None:
        """Move bytes both ways until ``ready()``, an interruption, or ``wait`` seconds have passed.

        Raises:
            LinkError: the connection or the channel ended.
        """
        if not self._open:
            raise self._lost(operation)
        if self._interrupted:
            wait = 0.0
        expired: list[bool] = []
        timer = self._loop.call_later(max(0.0, wait), lambda: expired.append(True))
        try:
            while True:
                self._loop.poll()
                self._loop.process_timeouts()
                if self._ended or expired or self._interrupted or ready():
                    break
        except LinkError:
            raise
        except Exception as error:
            raise self.translate(error, operation) from error
        finally:
            self._loop.remove_timeout(timer)
        self._interrupted = False
        if self._ended:
            self.check(operation)

    @property
    def _ended(self) -> bool:
        return self._failure is not None or self._pika._closed_result.ready

    def check(self, operation: str) -> None:
        """Raise what ended the connection or the channel, if anything did."""
        if not self._open:
            raise self._lost(operation)
        failure = self._failure
        if failure is None and self._pika._closed_result.ready:
            failure = self._pika._closed_result.value.error
        if failure is not None:
            raise self.translate(failure, operation) from failure

    @contextmanager
    def calling(self, operation: str) -> Iterator[None]:
        """Around calls of pika that wait for an answer: bounds the wait, translates errors."""
        if not self._open:
            raise self._lost(operation)
        seconds = self.settings.answer_timeout
        error = LinkTimeout(
            f"link {self.settings.link}: RabbitMQ at {self.settings.place} did not answer within {seconds:g} s",
            link=self.settings.link,
            operation=operation,
            cause="the broker or the network is stuck",
            cure="look at the broker; AMQP_AnswerTimeout sets the limit",
        )
        timer = self._loop.call_later(seconds, lambda: self._impl._terminate_stream(error))
        try:
            yield
        except Exception as problem:
            if self._failure is None and not self._impl.is_open:
                self._failure = problem  # pika forgets why it closed
            raise self.translate(self._failure or problem, operation) from problem
        finally:
            self._loop.remove_timeout(timer)

    def fresh_channel(self) -> Any:
        """Another channel, for a question whose answer may close it. Call inside :meth:`calling`."""
        return self._pika.channel()

    def write(self, data: bytes) -> None:
        """Queue ready frames for the socket; sent at the next pump."""
        self._impl.write(data)

    @property
    def unsent(self) -> int:
        """Bytes the socket has not taken yet."""
        return self._impl.unsent

    def fail(self, error: BaseException) -> None:
        """End the session with an error of our own at the next check."""
        if self._failure is None:
            self._failure = error

    def interrupt(self) -> None:
        """From any thread: make a waiting pump return, or the next one not wait."""
        self._interrupted = True
        with self._pika._cleanup_mutex:  # the loop must not be closed meanwhile
            if self._open and not self._impl.is_closed:
                self._loop.add_callback_threadsafe(_nothing)

    def close(self) -> None:
        """Say goodbye to the broker, for two seconds at most; never raises."""
        if not self._open:
            return
        try:
            if not self._impl.is_closed:
                expired: list[bool] = []
                self._loop.call_later(_CLOSE_SECONDS, lambda: expired.append(True))
                self._impl.close(200, "closed by the gateway")
                while not self._pika._closed_result.ready and not expired:
                    self._loop.poll()
                    self._loop.process_timeouts()
                if not self._pika._closed_result.ready:
                    self._impl._terminate_stream(None)
                    for _ in range(3):  # the end is told by a callback of the loop
                        self._loop.call_later(0, _nothing)
                        self._loop.poll()
                        self._loop.process_timeouts()
        except Exception as error:
            logging.getLogger(__name__).debug("closing %s: %s", self.settings.link, error)
        finally:
            self._open = False
            with suppress(Exception):
                self._pika._cleanup()

    # -- events -------------------------------------------------------------------------------------------------------

    def _on_blocked(self, _connection: object, method: Any) -> None:
        self.blocked = str(method.method.reason or "a resource alarm")

    def _on_unblocked(self, _connection: object, _method: object) -> None:
        self.blocked = ""

    def _on_channel_closed(self, _channel: object, reason: BaseException) -> None:
        if not isinstance(reason, exceptions.ChannelClosedByClient | exceptions.ConnectionClosed):
            self.fail(reason)

    # -- errors -------------------------------------------------------------------------------------------------------

    def _lost(self, operation: str) -> LinkUnavailable:
        return LinkUnavailable(
            f"link {self.settings.link}: not connected to RabbitMQ at {self.settings.place}",
            link=self.settings.link,
            operation=operation,
            cause="the connection is closed",
        )

    def translate(self, error: BaseException, operation: str) -> LinkError:
        """Any error of pika or the system as ours, in plain words."""
        return error if isinstance(error, LinkError) else translate(error, operation, self.settings, self.blocked)


def missing(use: JobUse, error: QueueMissing) -> QueueMissing:
    """The same error, about the foreign queue of a job."""
    endpoint = use.endpoint
    return QueueMissing(
        f"foreign queue {endpoint.full_name}: {endpoint.provider_queue!r} does not exist in RabbitMQ",
        link=endpoint.link,
        operation=error.operation,
        cause=error.cause,
        cure=error.cure,
    )


def _nothing() -> None:
    """Only wakes the loop."""


def translate(  # noqa: C901 - one branch per kind of failure
    error: BaseException, operation: str, settings: Settings, blocked: str = ""
) -> LinkError:
    """An error of pika or the system as a LinkError that names the broker, the cause and the cure."""
    cause = _root(error)
    kind: type[LinkError] = LinkUnavailable
    what = f"link {settings.link}: RabbitMQ at {settings.place} cannot be reached"
    reason, cure = str(cause) or type(cause).__name__, "check hostname, port and that the broker runs"
    if isinstance(cause, exceptions.ChannelClosedByBroker | exceptions.ConnectionClosedByBroker):
        kind, what, cure = _closed_by_broker(cause.reply_code, cause.reply_text, settings)
        reason = cause.reply_text or f"reply code {cause.reply_code}"
    elif isinstance(cause, exceptions.AuthenticationError | exceptions.ProbableAuthenticationError):
        kind, what = (
            LinkRefused,
            f"link {settings.link}: RabbitMQ at {settings.place} refused user {settings.username!r}",
        )
        reason, cure = "user name or password is wrong", "set the link's username and password"
    elif isinstance(cause, exceptions.ProbableAccessDeniedError):
        kind, what = LinkRefused, _no_access(settings)
        reason, cure = "it does not exist, or the user has no permission there", "check virtual_host and permissions"
    elif isinstance(cause, exceptions.ConnectionBlockedTimeout):
        kind, what = LinkTimeout, f"link {settings.link}: RabbitMQ at {settings.place} accepts no messages"
        reason = f"blocked for {settings.blocked_timeout:g} s by an alarm ({blocked or 'memory or disk'})"
        cure = "free memory or disk space at the broker"
    elif isinstance(cause, exceptions.AMQPHeartbeatTimeout | workflow.AMQPConnectorStackTimeout | TimeoutError):
        kind, what = LinkTimeout, f"link {settings.link}: RabbitMQ at {settings.place} gives no sign of life"
        reason, cure = reason or "timed out", "check the network and the broker"
    elif isinstance(cause, ssl.SSLError):
        kind, what = LinkRefused, f"link {settings.link}: no TLS connection to RabbitMQ at {settings.place}"
        reason = getattr(cause, "verify_message", "") or getattr(cause, "reason", "") or str(cause)
        cure = "check tls, tls_ca_file, tls_server_name and the port (5671 for TLS)"
    elif isinstance(cause, socket.gaierror):
        reason, cure = f"the name {settings.hostname!r} is unknown", "correct hostname"
    elif isinstance(cause, ConnectionRefusedError):
        reason = "nothing listens there (connection refused)"
    elif isinstance(cause, exceptions.IncompatibleProtocolError):
        reason, cure = "what answers there does not speak AMQP 0-9-1", "check port and tls (5672 plain, 5671 TLS)"
    elif operation != "connect":
        what = f"link {settings.link}: the connection to RabbitMQ at {settings.place} was lost"
    return kind(what, link=settings.link, operation=operation, cause=reason, cure=cure)


def _root(error: BaseException) -> BaseException:
    """The error inside pika's wrappings."""
    for _ in range(10):
        inner: Any = None
        if isinstance(error, workflow.AMQPConnectionWorkflowFailed):
            inner = error.exceptions[-1]
        elif isinstance(error, workflow.AMQPConnectorPhaseErrorBase):
            inner = error.exception
        elif type(error) is exceptions.AMQPConnectionError and error.args:
            inner = error.args[0]
        elif isinstance(error, exceptions.StreamLostError) and len(error.args) > 1:
            inner = error.args[1]
        if not isinstance(inner, BaseException):
            return error
        error = inner
    return error


def _no_access(settings: Settings) -> str:
    return (
        f"link {settings.link}: RabbitMQ at {settings.place} gives no access to virtual host {settings.virtual_host!r}"
    )


def _closed_by_broker(  # noqa: PLR0911 - one return per reply code
    code: int, text: str, settings: Settings
) -> tuple[type[LinkError], str, str]:
    where = f"link {settings.link}: RabbitMQ at {settings.place}"
    if code == 403 and "Login was refused" in text:
        return LinkRefused, f"{where} refused user {settings.username!r}", "set the link's username and password"
    if code == 405 or (code == 403 and "exclusive" in text):
        return LinkUnavailable, f"{where} keeps the queue locked", "end the other connection that uses it exclusively"
    if code == 403:
        return LinkRefused, f"{where} denied access to user {settings.username!r}", "give the user the permission"
    if code == 530:
        return LinkRefused, _no_access(settings), "check virtual_host and the user's permissions"
    if code == 404:
        return QueueMissing, f"{where} has no such queue or exchange", "create it or correct the registration"
    if code == 406 and "acknowledgement" in text:
        cure = "let batches be smaller or faster, or raise the broker's consumer_timeout"
        return LinkTimeout, f"{where} waited too long for an acknowledgement", cure
    if code == 406 and "larger than" in text:
        return DeliveryRejected, f"{where} refused a message", "set AMQP_MaxMessageSize to the broker's limit"
    if code == 320:
        return LinkUnavailable, f"{where} closed the connection", "wait for the broker or start it again"
    return LinkUnavailable, f"{where} ended the connection (code {code})", "see the broker's log"
