"""Signals of the daemon, obeyed on a thread of their own: the main thread may be waiting, or stuck."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from types import FrameType

from mgw.gateway.observe.log_file import reopen
from mgw.transforms.errors import GatewayError

__all__ = ["Signals", "stacks"]

_LOGGER = logging.getLogger("mgw.engine")

Action = Callable[[signal.Signals], object]


class Signals:
    """From now on SIGUSR1 opens the log file again, SIGUSR2 writes into the log what this process does, and SIGHUP is
    kept until :meth:`on` says what it means. Made in the main thread; one per process.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._actions: dict[int, Action] = {signal.SIGUSR1: _reopen, signal.SIGUSR2: self._dump}
        self._kept: list[signal.Signals] = []
        self._ending: Counter[int] = Counter()
        self.state: Callable[[], Sequence[str]] = list  # lines for SIGUSR2, in addition to the threads
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, _noted)
        threading.Thread(target=self._obey, name="signals", daemon=True).start()

    def on(self, number: signal.Signals, action: Action) -> None:
        """Call ``action`` at this signal, and at once if it came before."""
        with self._mutex:
            self._actions[number] = action
            waiting = number in self._kept
            self._kept = [each for each in self._kept if each is not number]
        signal.signal(number, _noted)
        if waiting:
            action(number)

    def end_on(self, *numbers: signal.Signals, action: Action) -> None:
        """Call ``action`` at the first of these signals; the second of them ends the process at once."""

        def ending(number: int, _: FrameType | None) -> None:
            self._ending.update(numbers)
            if self._ending[number] > 1:
                os._exit(128 + number)

        for number in numbers:
            self.on(number, action)
            signal.signal(number, ending)

    def _obey(self) -> None:
        while True:
            for byte in os.read(self._read, 64):
                number = signal.Signals(byte)
                with self._mutex:
                    action = self._actions.get(number)
                    if action is None:
                        self._kept.append(number)
                if action is not None:
                    try:
                        action(number)
                    except Exception:
                        _LOGGER.exception("signal %s could not be handled", number.name)

    def _dump(self, number: signal.Signals) -> None:
        try:
            state = list(self.state())
        except Exception as error:  # whatever is wrong, the threads are to be shown
            state = [f"state not known: {type(error).__name__}: {error}"]
        _LOGGER.info("signal %s: state of this process\n%s", number.name, "\n".join([*state, *stacks()]))


def _noted(_: int, __: FrameType | None) -> None:
    """The thread has been told by the wake-up pipe."""


def _reopen(number: signal.Signals) -> None:
    try:
        path = reopen()
    except GatewayError as error:
        _LOGGER.error("signal %s: %s", number.name, error)
        return
    done = f"log file {path} is opened again" if path else "there is no log file, the log goes to standard output only"
    _LOGGER.info("signal %s: %s", number.name, done)


def stacks() -> list[str]:
    """What each thread is doing: a heading, then its calls, the innermost last."""
    names = {each.ident: each.name for each in threading.enumerate()}
    lines: list[str] = []
    for ident, frame in sorted(sys._current_frames().items(), key=lambda each: names.get(each[0], "")):
        lines.append(f"thread {names.get(ident, ident)}")
        lines += [f"  {each.filename}:{each.lineno} {each.name}" for each in traceback.extract_stack(frame)]
    return lines
