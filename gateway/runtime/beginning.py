"""How a run of an agent begins: its log, its hub, its initialization file."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import make_url

from mgw.gateway.aq import Durability, Hub
from mgw.gateway.definitions import init_file
from mgw.gateway.definitions.init_file import InitFile
from mgw.gateway.definitions.objects import DEFAULT_AGENT, AgentStatus
from mgw.gateway.observe.log_file import configure
from mgw.gateway.observe.repeated_warning import Complaint
from mgw.gateway.runtime.endings import ending_of
from mgw.gateway.state import catalog
from mgw.gateway.state.gateway_hub import open_hub
from mgw.transforms.clock import SYSTEM_CLOCK
from mgw.transforms.errors import GatewayError, HubUnavailable

__all__ = ["NO_LOG_FILE", "RunOptions", "default_log_directory", "prepared"]

_LOGGER = logging.getLogger("mgw.engine")

REOPEN_SECONDS = 1.0
NO_LOG_FILE = Path("off")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How ``mgw run`` was called."""

    hub_url: str
    agent: str = DEFAULT_AGENT
    config_files: Sequence[Path] = ()
    log_directory: Path | None = None  # NO_LOG_FILE: none; None: where it is by default
    log_format: str = "text"
    drain_seconds: float = 10.0
    durability: Durability = "full"
    log_level: int | None = None  # 0..4; None: what the initialization file says, else 0
    standby: bool = False  # wait while another process runs the agent, and take over when that is gone


def prepared(options: RunOptions) -> tuple[Hub, InitFile]:
    """The hub, and what the agent's initialization file says; the log is set up with both.

    Raises:
        GatewayError: the hub cannot be opened, or the run ends before it began: the initialization file cannot be used
            or no log file can be made. That is stored with the agent, as LAST_ERROR_MSG.
    """
    where = options.log_directory or default_log_directory(options.hub_url)
    try:
        configure(options.agent, directory=None, log_format=options.log_format, early=True)
        hub = _opened(options)
    except BaseException:
        _log_to(options, where)
        raise
    try:
        return hub, _begun(hub, options, where)
    except GatewayError as error:
        _store(hub, options.agent, error)
        hub.close()
        raise
    except BaseException:
        hub.close()
        raise


def _opened(options: RunOptions) -> Hub:
    """The hub; a process on standby waits until it can be reached."""
    trouble = Complaint(SYSTEM_CLOCK, _LOGGER)
    while True:
        try:
            hub = open_hub(options.hub_url, durability=options.durability)
        except HubUnavailable as error:
            if not options.standby:
                raise
            trouble.say(str(error))
            time.sleep(REOPEN_SECONDS)
        else:
            trouble.over()
            return hub


def _begun(hub: Hub, options: RunOptions, where: Path | None) -> InitFile:
    with hub.read() as conn:
        agent = catalog.get_agent(conn, options.agent)
    try:
        said = init_file.read(options.agent, None if agent is None else agent.initfile, os.environ)
    except GatewayError:
        _log_to(options, where)
        raise
    _log_to(options, options.log_directory or said.log_directory or where)
    if said.path is not None:
        _LOGGER.info("agent %s: initialization file %s", options.agent, said.path)
    for line in said.without_effect:
        _LOGGER.warning("agent %s: %s has no effect: %s", options.agent, said.path, line)
    os.environ.update(said.variables)
    return said


def _log_to(options: RunOptions, directory: Path | None) -> None:
    kept = None if directory == NO_LOG_FILE else directory
    configure(options.agent, directory=kept, log_format=options.log_format)


def _store(hub: Hub, agent: str, error: GatewayError) -> None:
    """Unless another process runs the agent."""
    try:
        with hub.write() as conn:
            state = catalog.agent_state(conn, agent)
            if state is not None and state.status in {AgentStatus.NOT_STARTED, AgentStatus.START_SCHEDULED}:
                catalog.end_start(conn, agent, ending_of(error).error or str(error), hub.clock.now())
    except GatewayError as failure:
        _LOGGER.warning("the error is not stored with agent %s: %s", agent, failure)


def default_log_directory(hub_url: str) -> Path | None:
    """Where the agent's log file goes unless the operator says otherwise: ``log`` next to a SQLite hub, or nowhere."""
    url = make_url(hub_url)
    return Path(url.database).parent / "log" if url.get_backend_name() == "sqlite" and url.database else None
