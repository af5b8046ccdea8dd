"""The messages of all exception queues by job, queue and reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.exceptions.contract import EVERYTHING, Entry
from mgw.gateway.services.exceptions.desk import desk_of, jobs_with_desks
from mgw.transforms.errors import GatewayError, HubError

__all__ = ["MOST", "Group", "Groups", "grouped"]

MOST = 10_000  # messages of a job that are looked at


@dataclass(slots=True)
class Group:
    """Messages of a job that failed for the same reason. ``reason`` is without the cause, which differs."""

    job: str
    queue: str
    number: int | None
    reason: str
    messages: int = 0
    first: float | None = None  # epoch seconds of the failures
    last: float | None = None
    sample: str = ""  # id of the first

    def add(self, entry: Entry) -> None:
        """One more."""
        self.messages += 1
        self.sample = self.sample or entry.id
        when = entry.reason.time
        if when is not None:
            self.first = when if self.first is None else min(self.first, when)
            self.last = when if self.last is None else max(self.last, when)


@dataclass(slots=True)
class Groups:
    """What was found.

    Attributes:
        left_out: why the exception queue of a job could not be read, by job.
        unfinished: jobs with more than :data:`MOST` messages; only so many are counted.
    """

    groups: Sequence[Group] = ()
    left_out: dict[str, str] = field(default_factory=dict)
    unfinished: list[str] = field(default_factory=list)


def grouped(admin: GatewayAdmin) -> Groups:
    """The messages of the exception queues of all jobs, counted; the largest group of each job first."""
    result, groups = Groups(), list[Group]()
    for job in jobs_with_desks(admin):
        found: dict[tuple[int | None, str], Group] = {}
        try:
            desk = desk_of(admin, job.name)
            for count, entry in enumerate(islice(desk.entries(EVERYTHING, MOST + 1, whole=False), MOST + 1)):
                if count == MOST:
                    result.unfinished.append(job.name)
                    break
                number, reason = entry.reason.number, entry.reason.text.partition("; cause: ")[0]
                found.setdefault((number, reason), Group(job.name, desk.queue, number, reason)).add(entry)
        except HubError:
            raise
        except GatewayError as refusal:  # its queue was dropped or stopped, or is on a link
            result.left_out[job.name] = str(refusal)
        groups += sorted(found.values(), key=lambda each: -each.messages)
    result.groups = groups
    return result
