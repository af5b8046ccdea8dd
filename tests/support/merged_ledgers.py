"""Merging what a hub's ledger says of small batches, as the agent's upkeep does it."""

from __future__ import annotations

from mgw.gateway.aq.hub import Hub
from mgw.gateway.ledger.upkeep import Merging, store

__all__ = ["merge_all"]


def merge_all(hub: Hub, *, agent: str = "DEFAULT_AGENT", now: float | None = None) -> int:
    """Merge until there is nothing left to merge; how many rows were made."""
    merging, made, more = Merging(agent), 0, True
    while more:
        with hub.read() as conn:
            group, more = merging.look(conn, now=hub.clock.now() if now is None else now)
        if group is not None:
            with hub.write(durable=False) as conn:
                store(conn, group)
            made += 1
    return made
