"""A TCP proxy on a loopback port that can cut, stall, refuse and slow down what goes through it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tests.support.ports import LOOPBACK, free_port

__all__ = ["TcpProxy"]

_CHUNK = 64 * 1024
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_CALL_DEADLINE = 10.0


class TcpProxy:
    """Forwards ``host``:``port`` of its own to a target; a context manager, run by a thread of its own.

    with TcpProxy("127.0.0.1", rabbitmq.port) as proxy:
        ... connect to proxy.host, proxy.port ...
        proxy.cut()

    Every method takes effect before it returns and may be called from any thread.
    """

    def __init__(self, target_host: str, target_port: int, *, port: int | None = None) -> None:
        self.target = (target_host, target_port)
        self.host = LOOPBACK
        self.port = port if port is not None else free_port()
        self.accepted = 0
        self.forwarded_bytes = 0
        self._delay = 0.0
        self._pairs: dict[asyncio.Task[None], tuple[socket.socket, ...]] = {}
        self._forsaken: list[socket.socket] = []  # ends at the target of connections whose client is gone
        self._loop = asyncio.new_event_loop()
        self._requests, self._answers = asyncio.Event(), asyncio.Event()  # set: that direction flows
        self._listener: socket.socket | None = None
        self._requests.set()
        self._answers.set()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"proxy-{self.port}", daemon=True)

    def start(self) -> Self:
        """Listen; raises OSError when the port is taken."""
        self._thread.start()
        try:
            self.accept()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Cut everything and end the thread; may be called twice."""
        if self._loop.is_closed():
            return
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._shut_down(), self._loop).result(_CALL_DEADLINE)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def connections(self) -> int:
        """Connections open now."""
        return len(self._pairs)

    def cut(self) -> None:
        """Reset every open connection, on both ends; new ones are accepted."""
        self._call(self._cut)

    def forsake(self) -> None:
        """Reset every open connection for its client and tell the target nothing: the client's host lost its power,
        or a firewall forgot the connection. New ones are accepted and flow."""
        self._call(self._forsake)

    def stall(self, *, requests: bool = True, answers: bool = True) -> None:
        """Forward nothing more and close nothing, as if the peer were dead; new connections stall too.

        ``requests`` False: what the clients send still goes through; ``answers`` False: what the target sends does.
        """

        def stop() -> None:
            if requests:
                self._requests.clear()
            if answers:
                self._answers.clear()

        self._call(stop)

    def resume(self) -> None:
        """Forward again, beginning with what was held back."""

        def go_on() -> None:
            self._requests.set()
            self._answers.set()

        self._call(go_on)

    def refuse(self) -> None:
        """Refuse new connections; open ones live on."""
        self._call(self._refuse)

    def accept(self) -> None:
        """Take new connections again, on the same port."""
        self._call(self._accept)

    def delay(self, seconds: float) -> None:
        """Hold every chunk back for so long, each way, from now on; 0 ends it."""
        self._delay = seconds

    def _call(self, function: Callable[[], None]) -> None:
        async def call() -> None:
            function()
            await asyncio.sleep(0)

        asyncio.run_coroutine_threadsafe(call(), self._loop).result(_CALL_DEADLINE)

    async def _shut_down(self) -> None:
        self._refuse()
        self._cut()
        for end in self._forsaken:
            end.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)

    def _accept(self) -> None:
        if self._listener is not None:
            return
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self.host, self.port))
            listener.listen(128)
            listener.setblocking(False)
        except BaseException:
            listener.close()
            raise
        self._listener = listener
        # Not sock_accept: what it accepted is lost, open, when it is cancelled at that moment.
        self._loop.add_reader(listener, self._take, listener)

    def _refuse(self) -> None:
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
            self._listener.close()
        self._listener = None

    def _cut(self) -> None:
        for task, ends in list(self._pairs.items()):
            task.cancel()
            for end in ends:
                self._reset(end)
        self._pairs.clear()

    def _forsake(self) -> None:
        for task, (client, server) in list(self._pairs.items()):
            self._forsaken.append(server.dup())
            task.cancel()
            self._reset(client)
        self._pairs.clear()

    def _take(self, listener: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionAbortedError):
            client, _ = listener.accept()
            client.setblocking(False)
            server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            server.setblocking(False)
            self.accepted += 1
            task = self._loop.create_task(self._serve(client, server))
            self._pairs[task] = (client, server)
            task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._pairs.pop(task, None)

    async def _serve(self, client: socket.socket, server: socket.socket) -> None:
        try:
            await self._loop.sock_connect(server, self.target)
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.TaskGroup() as both_ways:
                both_ways.create_task(self._pump(client, server, self._requests))
                both_ways.create_task(self._pump(server, client, self._answers))
        except* OSError:
            self._reset(client)
            self._reset(server)
        finally:
            for end in (client, server):
                if end.fileno() >= 0:  # cut() may have closed it already
                    self._loop.remove_reader(end)
                    self._loop.remove_writer(end)
                    end.close()

    async def _pump(self, source: socket.socket, target: socket.socket, flowing: asyncio.Event) -> None:
        while True:
            await flowing.wait()
            chunk = await self._loop.sock_recv(source, _CHUNK)
            if self._delay:
                await asyncio.sleep(self._delay)
            await flowing.wait()
            if not chunk:
                target.shutdown(socket.SHUT_WR)
                return
            await self._loop.sock_sendall(target, chunk)
            self.forwarded_bytes += len(chunk)

    def _reset(self, end: socket.socket) -> None:
        if end.fileno() < 0:
            return
        self._loop.remove_reader(end)
        self._loop.remove_writer(end)
        with contextlib.suppress(OSError):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        end.close()
