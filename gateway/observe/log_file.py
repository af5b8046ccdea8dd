"""The log: JSON or text to stdout, and the gateway's own file per agent run in the documented line format.

AQ guide 12.2 §21.1: ``oramgw-[AGENT-]host-timestamp-pid.log``; a record is a line
``>>YYYY-MM-DD HH:MM:SS  MGW  component  level  id  thread`` and then free text lines; causes are chained under
``[Linked-exception]``, the last one usually names the root.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from mgw.gateway.definitions.objects import DEFAULT_AGENT
from mgw.gateway.observe.levels import TRACE_DEBUG_HIGH, TRACE_HIGH, TRACE_LITE
from mgw.gateway.observe.spans import log_context
from mgw.gateway.state.secrets import redact
from mgw.transforms.errors import GatewayError

__all__ = [
    "LEVELS",
    "AgentLogFormatter",
    "JsonFormatter",
    "configure",
    "end",
    "log_file_name",
    "relay",
    "reopen",
    "set_level",
    "wanted",
]

#: Log levels of the documentation (0 BASIC .. 4 DEBUG_HIGH) as levels of :mod:`logging`.
LEVELS = {0: logging.INFO, 1: TRACE_LITE, 2: TRACE_HIGH, 3: logging.DEBUG, 4: TRACE_DEBUG_HIGH}

_MOST_EARLY = 1000  # records
_OURS = "mgw"  # every logger of ours is below it
_COMPONENTS = {
    "mgw.engine": "Engine",
    "mgw.http": "HTTP",
    "mgw.admin": "AdminMgr",
    "mgw.gateway.services.admin": "AdminMgr",
    "mgw.gateway.aq": "AQN",
    "mgw.gateway": "Engine",
    "mgw.links": "MSGD",
    "mgw.rabbitmq": "MSGD",
}


def log_file_name(agent: str, *, host: str | None = None, pid: int | None = None, now: float | None = None) -> str:
    """Name of the log file of one agent run."""
    stamp = datetime.fromtimestamp(time.time() if now is None else now, UTC).strftime("%Y%m%d%H%M%S")
    parts = ["oramgw"]
    if agent.upper() != DEFAULT_AGENT:
        parts.append(agent)
    parts += [host or socket.gethostname(), stamp, str(pid or os.getpid())]
    return "-".join(parts) + ".log"


def _component(name: str) -> str:
    place = name
    while place:
        if place in _COMPONENTS:
            return _COMPONENTS[place]
        place = place.rpartition(".")[0]
    return name


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] == _OURS


def _message(record: logging.LogRecord) -> str:
    """What it says; a library may say anything, so passwords are hidden there."""
    return record.getMessage() if _is_ours(record.name) else redact(record.getMessage())


def _causes(error: BaseException) -> list[str]:
    lines: list[str] = []
    cause = error.__cause__ or error.__context__
    while cause is not None and len(lines) < 10:
        lines.append(f"[Linked-exception]\n{type(cause).__name__}: {cause}")
        cause = cause.__cause__ or cause.__context__
    return lines


class AgentLogFormatter(logging.Formatter):
    """The documented record format."""

    def format(self, record: logging.LogRecord) -> str:
        """One record."""
        when = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%d %H:%M:%S")
        number = getattr(record, "mgw_id", None)
        ident = str(number) if number is not None else ("EXCEPTION" if record.exc_info else "LOG")
        head = f">>{when}  MGW  {_component(record.name)}  {record.levelname}  {ident}  {record.threadName}"
        lines = [head, _message(record)]
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            lines.append(f"{type(error).__name__}: {error}")
            lines += _causes(error)
            if not isinstance(error, GatewayError):
                lines.append(self.formatException(record.exc_info))
        return "\n".join(lines)


class JsonFormatter(logging.Formatter):
    """One JSON object per record, for log collectors."""

    def format(self, record: logging.LogRecord) -> str:
        """One record."""
        entry: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "component": _component(record.name),
            "thread": record.threadName,
            "message": _message(record),
        }
        for name, attribute in (("id", "mgw_id"), ("event", "event"), ("object", "object"), ("worker", "worker")):
            value = getattr(record, attribute, None)
            if value is not None:
                entry[name] = value
        entry |= log_context()
        if record.exc_info and record.exc_info[1] is not None:
            entry["error"] = f"{type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
            if not isinstance(record.exc_info[1], GatewayError):
                entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%d %H:%M:%S")
        number = getattr(record, "worker", None)
        worker = "" if number is None else f"[worker {number}] "
        line = f"{when} {record.levelname:<7} {_component(record.name)}: {worker}{_message(record)}"
        if record.exc_info and record.exc_info[1] is not None:
            line += f" ({type(record.exc_info[1]).__name__}: {record.exc_info[1]})"
        return line


class _Steady:
    """What a handler does when its line cannot be written (full disk, reader gone): no traceback for each of them.

    The first is reported to the other handlers, and the next after one that could be written.
    """

    _failing = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802  (given by logging)
        if self._failing:
            return
        self._failing = True
        error = sys.exc_info()[1]
        place = getattr(self, "baseFilename", "standard output")
        logging.getLogger("mgw.engine").warning(
            "log lines cannot be written to %s; cause: %s; cure: free space there; the gateway continues without it",
            place,
            getattr(error, "strerror", None) or error,
        )

    def flush(self) -> None:
        super().flush()  # type: ignore[misc]
        self._failing = False


class _Stdout(_Steady, logging.StreamHandler):  # type: ignore[type-arg]
    pass


class _AgentFile(_Steady, logging.FileHandler):
    def reopen(self) -> None:
        """Go on in a file of the same name, made if it was renamed; the lines before are in the one that was open.

        Raises:
            OSError: it cannot be opened; the one that is open stays.
        """
        fresh = self._open()
        self.acquire()
        try:
            before, self.stream = self.stream, fresh
        finally:
            self.release()
        if before is not None:
            with suppress(OSError):  # what could not be written there was said
                before.close()


class _Early(logging.Handler):
    """Keeps what is said before the agent's own file is there; the file gets it first."""

    def __init__(self) -> None:
        super().__init__()
        self.records: deque[logging.LogRecord] = deque(maxlen=_MOST_EARLY)

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @classmethod
    def taken(cls) -> list[logging.LogRecord]:
        """What was kept so far; nothing is kept from now on."""
        root = logging.getLogger()
        found: list[logging.LogRecord] = []
        for handler in [each for each in root.handlers if isinstance(each, cls)]:
            root.removeHandler(handler)
            found += handler.records
        return found


def wanted(record: logging.LogRecord) -> bool:
    """What is written: all of ours; of the libraries only warnings, below level 4."""
    return _is_ours(record.name) or record.levelno >= logging.WARNING or _Level.in_force >= 4


class _Level:
    """The level that was asked for."""

    in_force = 0


def set_level(log_level: int) -> None:
    """Apply a documented log level (0..4) at once."""
    _Level.in_force = log_level
    logging.getLogger(_OURS).setLevel(LEVELS.get(log_level, logging.INFO))
    logging.getLogger().setLevel(logging.INFO if log_level >= 4 else logging.WARNING)


def reopen() -> Path | None:
    """Open the agent's log file by its name again, for it was renamed: nothing is lost, before it or after it.

    Returns:
        The path; None: there is no file.

    Raises:
        GatewayError: it cannot be opened; the log goes on in the file that was renamed.
    """
    handler = next((each for each in logging.getLogger().handlers if isinstance(each, _AgentFile)), None)
    if handler is None:
        return None
    path = Path(handler.baseFilename)
    try:
        handler.reopen()
    except OSError as exc:
        raise GatewayError(
            f"log file {path} cannot be opened again",
            cause=exc.strerror or str(exc),
            cure="make its directory writable and send the signal once more; until then the log goes on in the file "
            "that was renamed",
            number=-3,
        ) from exc
    return path


def end() -> None:
    """Close what :func:`configure` opened."""
    _Early.taken()
    root = logging.getLogger()
    for handler in [each for each in root.handlers if isinstance(each, _Steady)]:
        root.removeHandler(handler)
        handler.close()


def _begin(handler: logging.Handler, formatter: logging.Formatter) -> None:
    handler.setFormatter(formatter)
    handler.addFilter(wanted)
    logging.getLogger().addHandler(handler)


def relay(handler: logging.Handler, log_level: int) -> None:
    """Set the log up for a worker process: what it says goes to this handler, and nowhere else."""
    end()
    if logging.lastResort is not None:
        logging.getLogger().removeHandler(logging.lastResort)
    logging.getLogger().addHandler(handler)
    set_level(log_level)
    threading.current_thread().name = "main"


def configure(
    agent: str,
    *,
    directory: str | os.PathLike[str] | None,
    log_format: str = "text",
    log_level: int = 0,
    early: bool = False,
) -> Path | None:
    """Set the log up for one agent run: what the gateway, and the libraries it uses, say through :mod:`logging`.

    Args:
        agent: name of the agent.
        directory: where the agent's own file goes; None = stdout only. Made if missing.
        log_format: ``text`` or ``json``, for stdout.
        log_level: documented level 0..4.
        early: this is called again as soon as the directory is known, whose file has then what was said before.

    Returns:
        The path of the agent's log file, or None.

    Raises:
        GatewayError: the directory or file cannot be written (result -3 of the documentation).
    """
    said = _Early.taken()
    end()
    if early:
        kept = _Early()
        kept.records.extend(said)
        logging.getLogger().addHandler(kept)
    if logging.lastResort is not None:
        logging.getLogger().removeHandler(logging.lastResort)  # of a command; from now on the log says it
    _begin(
        _Stdout(getattr(sys.stdout, "original", sys.stdout)),
        JsonFormatter() if log_format == "json" else _TextFormatter(),
    )
    set_level(log_level)
    threading.current_thread().name = "main"
    if directory is None:
        return None
    path = Path(directory) / log_file_name(agent)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = _AgentFile(path, encoding="utf-8")
    except OSError as exc:
        raise GatewayError(
            f"log file {path} cannot be created",
            cause=exc.strerror or str(exc),
            cure="make the directory writable or choose another with --log-dir",
            number=-3,
        ) from exc
    _begin(handler, AgentLogFormatter())
    for record in said:
        handler.handle(record)
    return path
