"""Where an end of a job is: a link that is altered may lead to another messaging system from then on."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

from mgw.links.contract import Direction, JobUse, Link

__all__ = ["AskPlace", "KnowsPlace", "Place", "nowhere", "place_of"]


class Place(NamedTuple):
    """Where a job reads or writes, and keeps its log, in words for people.

    ``address`` is what the definition of the link says. ``system`` is what the messaging system says of itself, the
    same through every address; "" where it says nothing. ``log`` is "" where the job keeps none.
    """

    address: str
    system: str = ""
    log: str = ""

    @property
    def name(self) -> str:
        """What distinguishes it from every other place."""
        return self._logged(self.system or self.address)

    def __str__(self) -> str:
        return self._logged(f"{self.system} ({self.address})" if self.system else self.address)

    def _logged(self, text: str) -> str:
        return f"{text}, {self.log}" if self.log else text

    def elsewhere(self, other: Place) -> bool:
        """Whether a link that led to ``other`` was altered and leads elsewhere now. Another system at the same address
        is not an alteration: it replaced the first one without notice, which the logs have to detect."""
        return self.address != other.address and not (self.system and self.system == other.system)

    def differs(self, other: Place) -> bool:
        """Whether what is known of ``other`` does not hold here: it is elsewhere, or has another log. A log that the
        job begins to keep changes nothing."""
        return self.elsewhere(other) or (bool(other.log) and self.log != other.log)


#: Asks where an end of a job is; None: nobody can say it.
AskPlace = Callable[[], Place | None]


def nowhere() -> None:
    """For an end of which nobody can say where it is."""


@runtime_checkable
class KnowsPlace(Protocol):
    """A link that can say where its jobs read and write."""

    def place(self, use: JobUse, direction: Direction) -> Place:
        """Where the job reads or writes now; may connect, unless :meth:`mgw.links.contract.Link.verify` just did.

        Raises:
            LinkError: the messaging system does not answer or refuses.
        """
        ...


def place_of(link: Link, use: JobUse, direction: Direction) -> Place | None:
    """Where a job of the link reads or writes; None: the link cannot say it.

    Raises:
        LinkError: as :meth:`KnowsPlace.place`.
    """
    return link.place(use, direction) if isinstance(link, KnowsPlace) else None
