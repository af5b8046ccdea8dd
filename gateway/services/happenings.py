"""What happened, and what administration changed: lists of the events and of the audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mgw.gateway.aq import Hub
from mgw.gateway.services.event_levels import LEVELS, at_least
from mgw.gateway.state import happened
from mgw.gateway.state.happened import Audited, Happened

__all__ = ["LEVELS", "Asked", "Audited", "Happened", "audit", "events"]


@dataclass(frozen=True, slots=True)
class Asked:
    """Which events: those that fulfil every condition given.

    Attributes:
        since: epoch seconds.
        level: of that importance at least.
        object, agent, name: in whatever letter case; ``name`` is the kind of event.
        before: with a smaller id than this.
    """

    since: float | None = None
    level: str | None = None
    object: str | None = None
    agent: str | None = None
    name: str | None = None
    before: int | None = None

    @property
    def levels(self) -> Sequence[str]:
        """Those that are important enough; none: all are."""
        return at_least(self.level)


def events(hub: Hub, asked: Asked, limit: int) -> list[Happened]:
    """The latest events, the latest first."""
    with hub.read() as conn:
        return happened.events(
            conn,
            since=asked.since,
            levels=asked.levels,
            object_name=asked.object,
            agent=asked.agent,
            name=asked.name,
            before=asked.before,
            limit=limit,
        )


def audit(
    hub: Hub,
    limit: int,
    *,
    since: float | None = None,
    before: int | None = None,
    after: int | None = None,
    name: str | None = None,
) -> list[Audited]:
    """What administration changed, the latest first.

    Args:
        since: epoch seconds.
        before, after: with a smaller number than this, with a larger one.
        name: of this object alone.
    """
    with hub.read() as conn:
        return happened.audit(conn, since=since, before=before, after=after, name=name, limit=limit)
