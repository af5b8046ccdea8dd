"""The end of a job that is in a foreign system."""

from __future__ import annotations

from dataclasses import dataclass

from mgw.gateway.definitions.objects import ForeignQueueDef, LinkDef
from mgw.links.contract import Domain, LinkSpec

__all__ = ["ForeignEnd"]


@dataclass(frozen=True, slots=True)
class ForeignEnd:
    """The end of a job in the foreign system."""

    queue: ForeignQueueDef
    link: LinkDef
    spec: LinkSpec

    @property
    def is_topic(self) -> bool:
        """Whether it is a topic; without a domain it is what the type names first."""
        domain = self.queue.domain or next((item for item in self.spec.domains if item), None)
        return domain is Domain.TOPIC
