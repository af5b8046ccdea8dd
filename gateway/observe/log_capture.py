"""What a process says outside its log, put into the log: printed lines, warnings of Python, errors nobody caught.

A collector that reads JSON must get JSON, from the first line to the last.
"""

from __future__ import annotations

import io
import logging
import re
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TextIO

__all__ = ["captured"]

_LOGGER = logging.getLogger("mgw.engine")
_ERROR = re.compile(r"mgw: (?:error: )?|\S+: error ")


class _Lines(io.TextIOBase):
    """Writes each line to the log; stands for a stream, ``original``."""

    def __init__(self, name: str, original: TextIO) -> None:
        self.original = original
        self._logger = logging.getLogger(f"mgw.{name}")
        self._warns = name == "stderr"
        self._mutex = threading.Lock()
        self._rest = ""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.original.encoding

    def fileno(self) -> int:
        return self.original.fileno()

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        with self._mutex:
            *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._say(line)
        return len(text)

    def finish(self) -> None:
        """Write what has no end of line."""
        with self._mutex:
            rest, self._rest = self._rest, ""
        self._say(rest)

    def _say(self, line: str) -> None:
        if not line.strip():
            return
        if not self._warns:
            self._logger.info("%s", line)
            return
        error = _ERROR.match(line)
        own = error is not None and line.startswith("mgw: ")
        self._logger.log(
            logging.ERROR if error else logging.WARNING, "%s", line[error.end() :] if own and error else line
        )


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    _LOGGER.critical("the process ends because of an unexpected error", exc_info=(kind, error, trace))


def _uncaught_in_thread(given: Any) -> None:
    if given.exc_type is not SystemExit:
        name = given.thread.name if given.thread is not None else "?"
        info = (given.exc_type, given.exc_value or given.exc_type(), given.exc_traceback)
        _LOGGER.error("thread %s ended because of an unexpected error", name, exc_info=info)


def _unraisable(given: Any) -> None:
    error = given.exc_value
    info = (given.exc_type, error, given.exc_traceback) if error is not None else None
    _LOGGER.error("%s %r", given.err_msg or "error ignored in", given.object, exc_info=info)


@contextmanager
def captured(*, lines: bool) -> Iterator[None]:
    """Inside, warnings of Python and errors that nobody catches go into the log, which must be configured already.

    Args:
        lines: standard output and standard error are also written line by line into the log.
    """
    hooks = sys.excepthook, threading.excepthook, sys.unraisablehook
    show, streams = warnings.showwarning, (sys.stdout, sys.stderr)
    sys.excepthook, threading.excepthook, sys.unraisablehook = _uncaught, _uncaught_in_thread, _unraisable
    logging.captureWarnings(True)
    if lines:
        sys.stdout, sys.stderr = _Lines("stdout", sys.stdout), _Lines("stderr", sys.stderr)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, _Lines):
                stream.finish()
        sys.stdout, sys.stderr = streams
        logging.captureWarnings(False)
        warnings.showwarning = show
        sys.excepthook, threading.excepthook, sys.unraisablehook = hooks
