"""What a link whose jobs need logs at their messaging system offers in addition to :class:`mgw.links.contract.Link`.

A link creates nothing in the foreign system on its own account. This is the one exception, and an operator asks for it:
``mgw links prepare``.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol, runtime_checkable

from mgw.links.contract import Direction, JobUse

__all__ = ["LogStep", "LogVerb", "PreparesLogs", "prepared_by"]


class LogVerb(StrEnum):
    """What happens to one log in the messaging system."""

    CREATE = "create"
    EXTEND = "extend"
    NONE = "none"  # it is there, as it must be


class LogStep(NamedTuple):
    """One log of a link. ``log`` names it and its kind: ``queue mgw.sent.ORDERS_OUT``; ``form`` says how it is made."""

    verb: LogVerb
    log: str
    form: str
    jobs: Sequence[str] = ()

    def __str__(self) -> str:
        verb = "keep" if self.verb is LogVerb.NONE else self.verb
        jobs = f": log of job {', '.join(self.jobs)}" if self.jobs else ""
        return f"{verb:<6} {self.log} ({self.form}){jobs}"


def prepared_by(link: str) -> str:
    """End of the note of a job that lacks nothing but its log."""
    return f" (mgw links prepare {link} creates what is missing)"


@runtime_checkable
class PreparesLogs(Protocol):
    """A link that can create the logs which its ``inbound_log_queue`` and ``outbound_log_queue`` name."""

    def prepare_logs(self, uses: Sequence[tuple[JobUse, Direction]], *, dry_run: bool) -> Sequence[LogStep]:
        """Create what is missing; what is there as it must be stays as it is. Nothing is deleted or recreated, because
        the guarantee depends on the contents of a log. Everything is looked at before the first is created.

        Args:
            uses: the jobs of this link.
            dry_run: create nothing; the steps are what would be done.

        Raises:
            LinkError: the messaging system does not answer or refuses, or a log is there and cannot serve.
        """
        ...
