"""A worker process: runs the jobs that its supervisor gives it, and ends with the supervisor at the latest.

``python -m mgw.gateway.runtime.workers.worker PARENT CHANNEL MAILBOX NUMBER:MAILBOX,...``, files by their numbers.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

from mgw.gateway.aq import Hub
from mgw.gateway.observe.log_capture import captured
from mgw.gateway.observe.log_file import relay
from mgw.gateway.observe.relayed import RelayHandler
from mgw.gateway.runtime.start_heap import StartHeap
from mgw.gateway.runtime.workers.channel import Channel, Said
from mgw.gateway.runtime.workers.host import Host
from mgw.gateway.runtime.workers.wake import Relay
from mgw.gateway.state.gateway_hub import open_hub
from mgw.gateway.state.lease import sign_connections
from mgw.gateway.state.secrets import Secrets
from mgw.transforms.errors import GatewayError, HubError

__all__ = ["main"]

_LOGGER = logging.getLogger("mgw.engine")

TICK_SECONDS = 0.5
_PDEATHSIG = 1  # prctl(2): the signal that this process gets when the thread that started it ends
_OF_THE_SUPERVISOR = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def main(words: list[str]) -> int:
    """Run until the supervisor says so, or is gone."""
    parent, channel_file, mailbox_file = map(int, words[:3])
    for number in _OF_THE_SUPERVISOR:  # a terminal, or a service manager, sends them to all processes: it tells us
        signal.signal(number, signal.SIG_IGN)
    _end_with(parent)
    boxes = {int(number): int(file) for number, _, file in (box.partition(":") for box in words[3].split(",") if box)}
    channel = Channel(socket.socket(fileno=channel_file))
    said = channel.heard()
    begin = next(said, None)
    if begin is None:
        return 1
    relay(RelayHandler(lambda record: channel.say("log", record=record)), int(begin["level"]))
    heap = StartHeap()
    with captured(lines=True):
        try:
            hub = _open(begin, channel)
        except GatewayError as error:
            _LOGGER.error("%s", error)
            return 1
        if hub.postgresql:
            sign_connections(hub.engine, begin["signature"])
        wake = Relay(hub, {number: socket.socket(fileno=file) for number, file in boxes.items()})
        wake.listen(socket.socket(fileno=mailbox_file))
        host = Host(hub, Secrets.for_hub(begin["hub_url"]), channel, wake, begin)
        heard = _Heard(int(begin["silent_seconds"] / TICK_SECONDS))
        threading.Thread(target=_tick, args=(host, channel, heard), name="tick", daemon=True).start()
        threading.Thread(target=host.look_after, name="look-after", daemon=True).start()
        heap.freeze_later()
        try:
            return 0 if host.obey(heard.noted(said)) else 1
        finally:
            heap.end()
            if not host.ended:  # the supervisor is gone: whoever takes the agent over shall not wait for us
                os._exit(1)
            hub.close()


def _end_with(parent: int) -> None:
    """Have the system kill this process when its supervisor ends, however that ends."""
    with suppress(OSError, AttributeError):  # elsewhere than on Linux the channel alone tells
        ctypes.CDLL(None, use_errno=True).prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _open(begin: Said, channel: Channel) -> Hub:
    """The hub, which the supervisor had open a moment ago; one that is away is waited for.

    Raises:
        GatewayError: it cannot be opened.
    """
    told = False
    while True:
        try:
            return open_hub(begin["hub_url"], durability=begin["durability"])
        except HubError as error:
            if not error.retriable or not channel.say("alive"):
                raise
            if not told:
                _LOGGER.warning("waiting for the hub: %s", error)
                told = True
            time.sleep(TICK_SECONDS)


class _Heard:
    """Counts for how long the supervisor has said nothing: it says something every half second.

    Ticks are counted, so that a machine that was suspended does not look like a supervisor that hangs.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._ticks = 0
        self._busy = False  # what it said last is being done

    def noted(self, said: Iterator[Said]) -> Iterator[Said]:
        """The same, noted."""
        for each in said:
            self._ticks, self._busy = 0, True
            yield each
            self._ticks, self._busy = 0, False

    def tick(self) -> bool:
        """Whether the supervisor may still be there."""
        self._ticks += not self._busy
        return self._ticks <= self._most


def _tick(host: Host, channel: Channel, heard: _Heard) -> None:
    pause = threading.Event()
    while channel.say("alive"):
        host.report()
        if not heard.tick():
            break
        pause.wait(TICK_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
