"""What a link that keeps logs at its messaging system offers beside :class:`links.contract.Link`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol, runtime_checkable

from links.contract import Direction, JobUse

__all__ = ["KeepsLogs"]


@runtime_checkable
class KeepsLogs(Protocol):
    """A link whose logs can hold records that nobody needs any more."""

    def clean_logs(
        self, hub_id: str, uses: Sequence[tuple[JobUse, Direction]], broken: Collection[str]
    ) -> Sequence[str]:
        """Remove obsolete records, those of jobs of hub ``hub_id`` that are not among ``uses``, and unreadable ones of
        the jobs named in ``broken``. Records of other hubs stay. Returns what was removed, in plain words.

        Raises:
            LinkError: the messaging system does not answer or refuses.
        """
        ...
