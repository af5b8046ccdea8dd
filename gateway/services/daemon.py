"""An agent run in this process until it is asked to stop, with its log."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from mgw.gateway.aq import Hub
from mgw.gateway.definitions.http_address import HttpAddress
from mgw.gateway.observe.log_capture import captured
from mgw.gateway.observe.log_file import configure
from mgw.gateway.runtime.agent_processes import AgentProcesses
from mgw.gateway.runtime.child_of import end_with_parent
from mgw.gateway.runtime.procedures import Procedures
from mgw.gateway.runtime.run import run as supervise
from mgw.gateway.runtime.secret_files import ReadFiles
from mgw.gateway.runtime.signals import EndedInStart, Signals
from mgw.gateway.runtime.supervisor import RunOptions
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.authors import by_agent
from mgw.gateway.services.probes import Probes
from mgw.gateway.state.gateway_hub import open_hub
from mgw.gateway.state.secrets import Secrets
from mgw.transforms.clock import SYSTEM_CLOCK
from mgw.transforms.errors import ConfigInvalid

__all__ = [
    "PROCEDURES",
    "RunOptions",
    "Signals",
    "end_with_parent",
    "log_format_of",
    "log_level_of",
    "logged",
    "run",
    "run_agents",
    "until_ended",
]

_LOGGER = logging.getLogger("mgw.engine")


def _finish_remove_job(hub: Hub, secrets: Secrets, name: str) -> None:
    GatewayAdmin(hub, secrets).finish_remove_job(name)


def _apply_files(hub: Hub, secrets: Secrets, files: Sequence[Path]) -> Iterator[str]:
    from mgw.gateway.services.configuration import apply_files

    return apply_files(hub, secrets, files)


def _prepare_links(hub: Hub, secrets: Secrets, files: Sequence[Path], done: set[str]) -> Iterator[str]:
    from mgw.gateway.services.configuration import prepare_left

    return prepare_left(hub, secrets, files, done)


def _read_files(files: Sequence[Path]) -> ReadFiles:
    from mgw.gateway.services.configuration import read_files

    return read_files(files)


#: What an agent has done by the services.
PROCEDURES = Procedures(
    finish_remove_job=_finish_remove_job,
    apply_files=_apply_files,
    prepare_links=_prepare_links,
    read_files=_read_files,
)


def run(
    options: RunOptions,
    signals: Signals | None = None,
    face: Callable[[Hub, Probes], AbstractContextManager[object]] | None = None,
) -> int:
    """Run an agent until a signal ends it; returns the exit code. See :func:`mgw.gateway.runtime.run.run`.

    Args:
        face: answers over HTTP about the hub and with what the probes say, as long as the agent runs.

    Raises:
        GatewayError: the hub cannot be opened, the agent is running elsewhere, or a configuration is invalid.
    """
    with by_agent(options.agent):
        if face is None:
            return supervise(options, PROCEDURES, signals)
        return supervise(options, PROCEDURES, signals, lambda hub, supervisor: face(hub, Probes(hub, supervisor)))


def run_agents(options: RunOptions, agents: Sequence[str] | None, address: HttpAddress | None, signals: Signals) -> int:
    """Run several agents, each in a process of its own, until a signal ends this one; returns the exit code.

    Args:
        options: of each of them.
        agents: their names; None: all agents of the hub.
        address: where the first of them answers over HTTP, the next one at the next port; None: none does.

    Raises:
        GatewayError: the hub cannot be opened.
    """

    def command(agent: str, number: int) -> list[str]:
        words = ["run", *map(str, options.config_files), "--agent", agent, "--http", _http_of(address, number)]
        words += ["--log-format", options.log_format, "--durability", options.durability]
        words += ["--drain", str(options.drain_seconds)]
        words += ["--log-dir", str(options.log_directory)] if options.log_directory is not None else []
        return [*words, "--standby"] if options.standby else words

    os.environ["MGW_HUB"] = options.hub_url  # it may have a password, which no command line shows
    configure("", directory=None, log_format=options.log_format)
    hub = open_hub(options.hub_url, durability=options.durability)
    try:
        processes = AgentProcesses(hub, agents, command, SYSTEM_CLOCK, drain_seconds=options.drain_seconds)
        return processes.run(signals)
    finally:
        hub.close()


def _http_of(address: HttpAddress | None, number: int) -> str:
    if address is None:
        return "off"
    if len(address.ports) > 1:
        return "auto"
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{host}:{address.ports[0] + number}"


def log_format_of(files: Sequence[Path]) -> str:
    """The form of the log that the files ask for, before they are checked: what is said of them has it, too."""
    if not files:
        return "text"
    from mgw.gateway.config.load import load

    place: object = load(files, os.environ).tree
    for key in ("settings", "log", "format"):
        place = place.get(key) if isinstance(place, dict) else None
    return "json" if str(place).lower() == "json" else "text"


def log_level_of(environ: Mapping[str, str], configured: int | None) -> int | None:
    """The log level that MGW_LOG_LEVEL gives, or the files do; None: the initialization file decides.

    Raises:
        ConfigInvalid: MGW_LOG_LEVEL is not 0 to 4.
    """
    text = environ.get("MGW_LOG_LEVEL")
    if not text:
        return configured
    if text not in {"0", "1", "2", "3", "4"}:
        raise ConfigInvalid(
            f"variable MGW_LOG_LEVEL cannot be {text!r}",
            cause="it is a whole number from 0 (basic) to 4 (everything)",
            cure="correct it, or unset it",
        )
    return int(text)


@contextmanager
def until_ended(form: str) -> Iterator[None]:
    """A process without an agent: what it says goes to standard output, in the form ``text`` or ``json``; at its end
    the block waits for SIGTERM or SIGINT."""
    configure("", directory=None, log_format=form)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    yield
    ended.wait()


@contextmanager
def logged(agent: str, form: str) -> Iterator[Signals]:
    """Have everything that this process says go into the log of an agent, in the form ``text`` or ``json``.

    Gives the signals: what ends the process ends it at once, with 0, until :func:`run` is there to drain; the others
    are held back until then.
    """
    configure(agent, directory=None, log_format=form, early=True)
    signals = Signals()
    with captured(lines=form == "json"):
        try:
            yield signals
        except EndedInStart as end:
            _LOGGER.info("signal %s: ended before the agent was started", end.number.name)
            raise
