"""What a link that refuses some options of jobs for some queues offers in addition to
:class:`mgw.links.contract.Link`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from mgw.links.contract import Direction, Endpoint

__all__ = ["ChecksJobs"]


@runtime_checkable
class ChecksJobs(Protocol):
    """A link that knows combinations of options which can never work."""

    def check_job(self, endpoint: Endpoint, options: Mapping[str, Any], direction: Direction) -> None:
        """Refuse, without a connection, options of a job that this end of it cannot follow.

        Args:
            options: of the job, names in lower case.

        Raises:
            AdminError: with the reason.
        """
        ...
