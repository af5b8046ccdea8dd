"""What an agent deletes and merges now and then, in pieces small enough that others come between.

What a crash makes it forget is done again, so it does not wait for the disk.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial

from sqlalchemy import Connection

from mgw.gateway.aq import Hub, prune_audit
from mgw.gateway.definitions.agent_options import AgentSettings
from mgw.gateway.ledger import upkeep
from mgw.gateway.runtime.job_history import GRAINS, merge_old
from mgw.gateway.state import catalog, history, run_state
from mgw.transforms.clock import Clock
from mgw.transforms.errors import HubError

__all__ = ["Pruning"]

_LOGGER = logging.getLogger("mgw.engine")

KEY_DAYS = 7  # a message that its publisher sends again later than that is stored again
TAP_SECONDS = 3600  # a command (mgw tap) that was stopped for longer, with ctrl-z, does not go on
PRUNE_ROWS = 500  # per transaction: a few milliseconds in which nobody else writes
PRUNE_SHARE = 0.2  # of the time at most; the rest is for those who carry messages


class Pruning:
    """Of one agent; ``stop`` ends what is under way between two pieces."""

    def __init__(self, hub: Hub, agent_key: str, clock: Clock, stop: threading.Event) -> None:
        self._hub = hub
        self._agent_key = agent_key
        self._clock = clock
        self._stop = stop
        self._merging = upkeep.Merging(agent_key)

    def prune(self, settings: AgentSettings | None) -> None:
        """Delete events, entries of the audit, keys, records of the ledger and of the history that are too old, and
        what commands that were killed left of their taps; ``settings``: None where no agent runs."""
        now = self._clock.now()
        kept = (settings or AgentSettings()).event_retention
        with self._hub.write() as conn:
            run_state.prune_events(conn, before=now - kept)
            catalog.delete_taps_before(conn, now - TAP_SECONDS)
        changed = now - (settings or AgentSettings()).audit_retention
        self._in_pieces(lambda conn: prune_audit(conn, before=changed, limit=PRUNE_ROWS))
        before = now - KEY_DAYS * 86400
        self._in_pieces(lambda conn: run_state.prune_keys(conn, before=before, limit=PRUNE_ROWS))
        if settings is not None:
            oldest = self._clock.now() - settings.ledger_retention
            self._in_pieces(lambda conn: upkeep.prune(conn, self._agent_key, before=oldest, limit=PRUNE_ROWS))
            self.tidy_history(settings.history_retention)

    def tidy_history(self, retention: float) -> None:
        """Merge what is old in the history of jobs, and delete what is older than ``retention`` (seconds)."""
        now, agent = self._clock.now(), self._agent_key
        for grain, age in GRAINS:
            merge = partial(merge_old, agent_key=agent, grain=grain, before=now - age, limit=PRUNE_ROWS)
            self._in_pieces(merge)
        self._in_pieces(lambda conn: history.prune(conn, agent, before=now - retention, limit=PRUNE_ROWS))

    def merge(self) -> None:
        """Merge what the ledger says of small batches; a look or a group at a time."""
        clock, pause, more = self._clock, 0.0, True
        while more and not self._stop.wait(pause):
            begun = clock.monotonic()
            with self._hub.read() as conn:
                group, more = self._merging.look(conn, now=clock.now())
            if group is not None:
                try:
                    with self._hub.write(durable=False) as conn:
                        upkeep.store(conn, group)
                except upkeep.ChangedMeanwhile:
                    _LOGGER.debug("records of job %s were pruned while they were merged", group.row.job_id)
                except HubError:
                    self._merging.again(group)
                    raise
            pause = (clock.monotonic() - begun) * (1 / PRUNE_SHARE - 1)

    def _in_pieces(self, prune: Callable[[Connection], int]) -> None:
        """Delete in transactions of their own until nothing is left to delete, or the agent is to stop."""
        clock, pause = self._clock, 0.0
        while not self._stop.wait(pause):
            with self._hub.write(durable=False) as conn:
                begun = clock.monotonic()
                if prune(conn) < PRUNE_ROWS:
                    return
            pause = (clock.monotonic() - begun) * (1 / PRUNE_SHARE - 1)
