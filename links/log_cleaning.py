"""What a link that keeps logs at its messaging system offers in addition to :class:`mgw.links.contract.Link`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol, runtime_checkable

from mgw.links.contract import Direction, JobUse

__all__ = ["KeepsLogs"]


@runtime_checkable
class KeepsLogs(Protocol):
    """A link whose logs can hold records that nobody needs any more."""

    def clean_logs(
        self,
        hub_id: str,
        uses: Sequence[tuple[JobUse, Direction]],
        broken: Collection[str],
        lives: Callable[[str], bool],
    ) -> Sequence[str]:
        """Remove obsolete records, those of jobs of hub ``hub_id`` that do not live, and unreadable ones of the jobs
        named in ``broken``. Records of other hubs stay. Returns what was removed, in plain words.

        Args:
            uses: the jobs of this link; other links of the hub may keep their logs in the same place.
            lives: whether the hub has a job of that name. Asked after its record was seen, so that a job created
                meanwhile keeps it.

        Raises:
            LinkError: the messaging system does not answer or refuses.
        """
        ...
