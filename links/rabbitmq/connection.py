"""One connection to RabbitMQ: pika negotiates, opens the channel, declares and reports errors; the frames that matter
for speed pass by it (:mod:`mgw.links.rabbitmq.frames`).

Everything pika raises leaves this module as a :class:`~transforms.errors.LinkError`; pika's own logging is silenced,
because each of its errors is reported that way.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pika
from pika import exceptions, frame

from mgw.links.client_logging import note_only
from mgw.links.nodes import Node
from mgw.links.rabbitmq.errors import translate
from mgw.links.rabbitmq.frames import FrameScanner, Returned
from mgw.links.rabbitmq.pulse import PATIENCE, keep_alive
from mgw.links.rabbitmq.settings import Settings
from mgw.transforms.errors import LinkError, LinkTimeout, LinkUnavailable

__all__ = ["Session"]

logging.getLogger("pika").setLevel(logging.INFO)  # below, it describes every frame
note_only(
    "pika.channel",
    "pika.connection",
    "pika.heartbeat",
    "pika.adapters.base_connection",
    "pika.adapters.blocking_connection",
    "pika.adapters.select_connection",
    "pika.adapters.utils.connection_workflow",
    "pika.adapters.utils.io_services_utils",
    "pika.adapters.utils.selector_ioloop_adapter",
)

_READ_BYTES = 256 * 1024  # per recv; pika's own 4 KiB costs a call for every sixteen messages
_READ_LIMIT = 1024 * 1024  # per turn of the loop, so that a flood cannot keep a read from returning
_WRITE_PIECE = 256 * 1024  # pika copies what is left of a piece after each partial write
_CLOSE_SECONDS = 2.0
_HEARTBEAT = frame.Heartbeat().marshal()
_SEND_SHARE = 0.6  # of the heartbeat interval: when ours are sent at the latest


class _Connection(pika.SelectConnection):  # type: ignore[misc]
    """pika's connection with our scanner before its frame parser."""

    scanner: FrameScanner | None = None

    def _on_data_available(self, data_in: bytes) -> None:
        scanner = self.scanner
        if scanner is None:
            super()._on_data_available(data_in)
        else:
            self.bytes_received += len(data_in)
            if data_in == _HEARTBEAT and not scanner.in_frame:
                self._answer()
            else:
                scanner.feed(data_in)

    def _answer(self) -> None:
        """An idle connection is woken by the broker's heartbeats only, and sends its own then: one timer less."""
        checker = self._heartbeat_checker
        if checker is not None and checker._send_timer is not None:
            self._adapter_remove_timeout(checker._send_timer)
            checker._send_timer = None
            checker._send_heartbeat()

    def take_frame(self, data: bytes) -> None:
        """A frame that is not ours to handle."""
        _, value = frame.decode_frame(data)
        self._process_frame(value)

    def install(self, scanner: FrameScanner) -> None:
        """From now on, ``scanner`` sees the incoming bytes first."""
        rest: bytes = self._frame_buffer  # type: ignore[has-type]
        self._frame_buffer = b""
        self.scanner = scanner
        if self._heartbeat_checker is not None:  # the broker sends after a half: before ours
            self._heartbeat_checker._send_interval = _SEND_SHARE * self._heartbeat_checker._timeout
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

    def flush(self) -> None:
        """Give the socket what it takes now; reads nothing."""
        if self.unsent:
            self._transport._on_socket_writable()

    def show_life(self) -> None:
        """Send what waits for the socket, or else a heartbeat; reads nothing."""
        if self._transport is not None:
            if not self.unsent:
                self.write(_HEARTBEAT)
            self._transport._on_socket_writable()

    @property
    def unsent(self) -> int:
        """Bytes waiting for the socket."""
        return int(self._get_write_buffer_size()) if self._transport is not None else 0


class Session:
    """A connection with one channel. Driven by one thread; another may call :meth:`interrupt` and :meth:`beat` only.

    Where the link names several nodes, it is connected to the first that answers, and ``settings`` are those of that
    node.
    """

    def __init__(
        self,
        settings: Settings,
        purpose: str,
        *,
        confirmed: Callable[[int, bool, bool], object] | None = None,
        returned: Callable[[Returned], object] | None = None,
        committed: Callable[[], object] | None = None,
    ) -> None:
        self.settings = settings
        self.blocked = ""  # why the broker accepts no messages at the moment, "" if it does
        self._failure: BaseException | None = None
        self._interrupted = False
        self._open = False
        self._driving = threading.RLock()  # held by whoever moves bytes
        self._driven = 0.0  # when the thread of the session was here last (monotonic)
        self._beat_at = 0.0
        settings.nodes.connect(lambda node: self._connect(settings.at(node), purpose))
        try:
            self.channel._impl.add_on_close_callback(self._on_channel_closed)
            self.number: int = self.channel.channel_number
            self.frame_max: int = self._impl.params.frame_max
            self.scanner = FrameScanner(self.number, self._impl.take_frame, confirmed, returned, committed)
            self._impl.install(self.scanner)
            keep_alive(self)
        except BaseException:
            self.close()
            raise

    def _connect(self, settings: Settings, purpose: str) -> None:
        """Connect to one node."""
        self.settings, self._failure = settings, None
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
        except BaseException:
            self.close()
            raise

    @property
    def node(self) -> Node:
        """Where it is connected."""
        return self.settings.node

    @property
    def server(self) -> str:
        """Product and version of the broker."""
        known = self._impl.server_properties or {}
        return f"{known.get('product', 'an AMQP broker')} {known.get('version', '')}".strip()

    @property
    def cluster(self) -> str:
        """The name that the broker gives its cluster, "" where it gives none."""
        name = (self._impl.server_properties or {}).get("cluster_name", "")
        return name.decode(errors="replace") if isinstance(name, bytes) else str(name)

    # -- driving ------------------------------------------------------------------------------------------------------

    def pump(self, wait: float, ready: Callable[[], object], operation: str) -> bool:
        """Move bytes both ways until ``ready()``, an interruption, or ``wait`` seconds have passed.

        Returns:
            Whether it was interrupted.

        Raises:
            LinkError: the connection or the channel ended.
        """
        if not self._open:
            raise self._lost(operation)
        with self._moving():
            interrupted = self._pump(wait, ready, operation)
        if self._ended:
            self.check(operation)
        return interrupted

    def await_answer(self, seconds: float, ready: Callable[[], object], operation: str) -> None:
        """Move bytes both ways until ``ready()``, for ``seconds`` at most. An interruption does not end the wait: a job
        may be stopped at any moment, and whether the broker did what it was told has to be known all the same.

        Raises:
            LinkError: the connection or the channel ended.
        """
        if not self._open:
            raise self._lost(operation)
        with self._moving():
            self._pump(seconds, ready, operation, interruptible=False)
        if self._ended:
            self.check(operation)

    @contextmanager
    def _moving(self) -> Iterator[None]:
        with self._driving:
            try:
                yield
            finally:
                self._driven = time.monotonic()

    def beat(self, now: float) -> bool:
        """Show the broker that we live while our thread is elsewhere; see :mod:`mgw.links.rabbitmq.pulse`."""
        if not self._open or self._ended:
            return False
        away = now - self._driven
        due = max(self._driven, self._beat_at) + self.settings.heartbeat / 2 <= now
        if due and away < PATIENCE and self._driving.acquire(blocking=False):
            try:
                if self._impl.is_open:
                    self._impl.show_life()
                    self._beat_at = now
            finally:
                self._driving.release()
        return True

    def _pump(self, wait: float, ready: Callable[[], object], operation: str, *, interruptible: bool = True) -> bool:
        if interruptible and self._interrupted:
            wait = 0.0
        expired: list[bool] = []
        timer = self._loop.call_later(max(0.0, wait), lambda: expired.append(True))
        try:
            while True:
                self._loop.poll()
                self._loop.process_timeouts()
                if self._ended or expired or (interruptible and self._interrupted) or ready():
                    break
        except LinkError:
            raise
        except Exception as error:
            raise self.translate(error, operation) from error
        finally:
            self._loop.remove_timeout(timer)
        if not interruptible:
            return False
        interrupted, self._interrupted = self._interrupted, False
        return interrupted

    @property
    def failed(self) -> bool:
        """Whether the channel or the connection has ended."""
        return self._ended

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
    def calling(self, operation: str, most: float | None = None) -> Iterator[None]:
        """Around calls of pika that wait for an answer: bounds the wait, translates errors.

        Args:
            most: seconds that the answer may take where that is less than AMQP_AnswerTimeout.
        """
        if not self._open:
            raise self._lost(operation)
        seconds = self.settings.answer_timeout
        if most is not None:
            seconds = min(seconds, most)
        error = LinkTimeout(
            f"link {self.settings.link}: RabbitMQ at {self.settings.place} did not answer within {seconds:g} s",
            link=self.settings.link,
            operation=operation,
            cause="the broker or the network is stuck",
            cure="check the broker; AMQP_AnswerTimeout sets the limit",
        )
        with self._moving():
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
        with self._driving:
            self._impl.write(data)

    def write_now(self, data: bytes) -> None:
        """The same, and the socket gets at once what it takes."""
        with self._driving:
            self._impl.write(data)
            self._impl.flush()

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
        with self._driving:
            self._close()

    def _close(self) -> None:
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
        answered = isinstance(error, exceptions.ChannelClosedByBroker)
        found = error if isinstance(error, LinkError) else translate(error, operation, self.settings, self.blocked)
        if self._open and not answered and isinstance(found, LinkUnavailable | LinkTimeout):
            self.suspect()
        return found

    def suspect(self) -> None:
        """The node does not do what it should: the next session of the link begins with another one."""
        self.settings.nodes.failed(self.node)


def _nothing() -> None:
    """Only wakes the loop."""
