"""The process of an agent: its hub, its signals, its supervisor."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from mgw.gateway.aq import Hub
from mgw.gateway.runtime.beginning import RunOptions, prepared
from mgw.gateway.runtime.lease_guard import begin_again
from mgw.gateway.runtime.procedures import Procedures
from mgw.gateway.runtime.signals import Signals
from mgw.gateway.runtime.supervisor import Supervisor
from mgw.gateway.state.secrets import Secrets
from mgw.transforms.open_files import raise_limit

__all__ = ["run"]

_LOGGER = logging.getLogger("mgw.engine")


def run(
    options: RunOptions,
    procedures: Procedures,
    signals: Signals | None = None,
    face: Callable[[Hub, Supervisor], AbstractContextManager[object]] | None = None,
) -> int:
    """``mgw run``: open the hub, run the agent until SIGTERM, SIGINT or SIGQUIT; a second one ends the process at once.

    SIGHUP reads the configuration files again. SIGUSR1 opens the log file again, SIGUSR2 writes what the process
    does into the log.

    Args:
        procedures: what the agent has done by the services.
        signals: made before, where they may come before this begins; None: made here.
        face: answers questions about the process while it runs.

    Raises:
        GatewayError: the hub cannot be opened, the agent is running elsewhere, or a configuration is invalid.
        EndedInStart: one of the three came before the agent was started.
    """
    signals = signals or Signals()
    raise_limit()
    hub, init_file = prepared(options)
    try:
        supervisor = Supervisor(hub, Secrets.for_hub(options.hub_url), options, procedures, init_file=init_file)

        def stop(number: signal.Signals) -> None:
            supervisor.request_stop()
            _LOGGER.info("signal %s: draining, at most %.0f s", number.name, options.drain_seconds)

        signals.state = supervisor.state
        signals.on(signal.SIGHUP, lambda _: supervisor.request_reload())
        signals.end_on(stop)
        supervisor.heap.freeze_later()
        try:
            with nullcontext() if face is None else face(hub, supervisor):
                code = supervisor.run()
        finally:
            supervisor.heap.end()
    finally:
        hub.close()
    if supervisor.fenced and options.standby:
        begin_again(supervisor.agent_name)
    return code
