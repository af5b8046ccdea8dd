"""Messages of exception queues by reason, so that one decision serves many."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mgw.gateway.aq import queue_backlog as backlog
from mgw.gateway.aq import resolve_queue as resolve
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.exceptions.contract import Entry
from mgw.gateway.services.exceptions.desk import jobs_with_desks
from mgw.transforms.errors import AqError

__all__ = ["DeskState", "Pattern", "desk_states", "patterns"]

#: What differs between messages that failed for the same reason.
_OWN = re.compile(r"'[^']*'|\"[^\"]*\"|\b[0-9a-fA-F]{16,}\b|\d+(?:[.,:]\d+)*")


@dataclass(frozen=True, slots=True)
class DeskState:
    """The exception queue of a job.

    Attributes:
        on_link: it is on a messaging system, which is not asked for this.
        held: messages in it, of all jobs that use it; None: nobody knows without asking.
    """

    job: str
    queue: str
    on_link: bool
    held: int | None


@dataclass(slots=True)
class Pattern:
    """Messages of a job that failed for the same reason.

    Attributes:
        number: of the error.
        pattern: matches the reason of each of them, and hardly another one; ``*`` is what differs.
        sample: a reason as it is.
        first, last: epoch seconds of the failures; None: nobody knows.
        ids: of the messages, oldest failure first.
    """

    number: int | None
    pattern: str
    sample: str
    first: float | None
    last: float | None
    ids: list[str]


def desk_states(admin: GatewayAdmin) -> list[DeskState]:
    """The exception queue of every job that has one. No messaging system is asked."""
    found = []
    with admin.hub.read() as conn:
        for job in jobs_with_desks(admin):
            queue, on_link, held = job.exception_queue or "", job.propagation_type.from_link, None
            if not on_link:
                try:
                    counts = backlog(conn, resolve(conn, queue))
                    held = counts.ready + counts.waiting + counts.claimed + counts.expired
                except AqError:  # it was dropped
                    held = None
            found.append(DeskState(job.name, queue, on_link, held))
    return found


def patterns(entries: Iterable[Entry]) -> Sequence[Pattern]:
    """Messages by reason, the largest group first."""
    found: dict[tuple[int | None, str], Pattern] = {}
    for entry in entries:
        reason = entry.reason
        pattern = _OWN.sub("*", reason.text)
        group = found.setdefault(
            (reason.number, pattern), Pattern(reason.number, pattern, reason.text, reason.time, reason.time, [])
        )
        group.ids.append(entry.id)
        if reason.time is not None:
            group.first = reason.time if group.first is None else min(group.first, reason.time)
            group.last = reason.time if group.last is None else max(group.last, reason.time)
    return sorted(found.values(), key=lambda group: -len(group.ids))
