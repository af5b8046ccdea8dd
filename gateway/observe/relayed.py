"""The log of a worker process is that of its agent: each record goes to the supervisor, which writes it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from mgw.gateway.observe.log_file import wanted
from mgw.gateway.state.secrets import redact
from mgw.transforms.errors import GatewayError

__all__ = ["RelayHandler", "say_again"]

_KEPT = ("mgw_id", "event", "object")


class RelayHandler(logging.Handler):
    """Hands each record on; ``say`` takes what :func:`say_again` is given there."""

    def __init__(self, say: Callable[[Mapping[str, Any]], object]) -> None:
        super().__init__()
        self._say = say
        self.addFilter(wanted)

    def emit(self, record: logging.LogRecord) -> None:
        """Hand the record on. An error becomes part of its text: what happened, and for one of ours nothing else."""
        try:
            text = record.getMessage()
            error = record.exc_info[1] if record.exc_info else None
            if error is not None:
                text += f" ({type(error).__name__}: {error})"
                if not isinstance(error, GatewayError):
                    text += "\n" + redact(logging.Formatter().formatException(record.exc_info))  # type: ignore[arg-type]
            told = {name: value for name in _KEPT if (value := getattr(record, name, None)) is not None}
            self._say(
                told
                | {
                    "name": record.name,
                    "level": record.levelno,
                    "created": record.created,
                    "thread": record.threadName,
                    "text": text,
                }
            )
        except Exception:
            self.handleError(record)


def say_again(number: int, told: Mapping[str, Any]) -> None:
    """Write a record of worker ``number`` into the log of this process, which names the worker."""
    name, level = str(told["name"]), int(told["level"])
    record = logging.LogRecord(name, level, "", 0, str(told["text"]), None, None)
    record.created = float(told["created"])
    record.threadName = f"worker-{number}/{told['thread']}"
    record.worker = number
    for kept in _KEPT:
        if kept in told:
            setattr(record, kept, told[kept])
    logging.getLogger(name).handle(record)
