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

__all__ = ["EndedInStart", "Signals", "stacks"]

_LOGGER = logging.getLogger("mgw.engine")

Action = Callable[[signal.Signals], object]
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
_AGAIN_SECONDS = 0.2


class EndedInStart(SystemExit):
    """A signal that ends the process came before there was anything to drain: exit code 0."""

    def __init__(self, number: int) -> None:
        super().__init__(0)
        self.number = signal.Signals(number)


class Signals:
    """From now on SIGUSR1 opens the log file again, SIGUSR2 writes into the log what this process does, and SIGHUP is
    kept until :meth:`on` says what it means. SIGTERM, SIGINT and SIGQUIT raise :class:`EndedInStart` in the main
    thread until :meth:`end_on`. Made in the main thread; one per process.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._actions: dict[int, Action] = {signal.SIGUSR1: _reopen, signal.SIGUSR2: self._dump}
        self._kept: list[signal.Signals] = []
        self._ending: Counter[int] = Counter()
        self._raised = threading.Event()
        self._interrupting = False
        self.state: Callable[[], Sequence[str]] = list  # lines for SIGUSR2, in addition to the threads
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, _noted)
        for number in _ENDING:
            signal.signal(number, self._end_in_start)
        threading.Thread(target=self._obey, name="signals", daemon=True).start()

    def on(self, number: signal.Signals, action: Action) -> None:
        """Call ``action`` at this signal, and at once if it came before."""
        signal.signal(number, _noted)
        self._act_on(number, action)

    def _act_on(self, number: signal.Signals, action: Action) -> None:
        with self._mutex:
            self._actions[number] = action
            waiting = number in self._kept
            self._kept = [each for each in self._kept if each is not number]
        if waiting:
            action(number)

    def end_on(self, action: Action) -> None:
        """Call ``action`` at the first signal that ends the process; the second of them ends it at once."""

        def ending(number: int, _: FrameType | None) -> None:
            self._ending.update(_ENDING)
            if self._ending[number] > 1:
                os._exit(128 + number)

        for number in _ENDING:
            signal.signal(number, ending)
            self._act_on(number, action)

    def _obey(self) -> None:
        while True:
            for byte in os.read(self._read, 64):
                number = signal.Signals(byte)
                with self._mutex:
                    action = self._actions.get(number)
                    if action is None and number not in self._kept:
                        self._kept.append(number)
                if action is None and number in _ENDING and not self._interrupting:
                    self._interrupting = True  # one thread, for each signal it sends comes here, too
                    threading.Thread(target=self._interrupt, args=(number,), name="signal", daemon=True).start()
                elif action is not None:
                    try:
                        action(number)
                    except Exception:
                        _LOGGER.exception("signal %s could not be handled", number.name)

    def _end_in_start(self, number: int, _: FrameType | None) -> None:
        self._raised.set()
        raise EndedInStart(number)

    def _interrupt(self, number: signal.Signals) -> None:
        """A signal that comes right before a system call does not end it: send it again until Python has seen it."""
        while not self._raised.wait(_AGAIN_SECONDS) and number not in self._actions:
            signal.pthread_kill(threading.main_thread().ident or 0, number)

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
