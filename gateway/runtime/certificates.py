"""Looks at the certificates of an agent's links, keeps when they end, and warns in time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from mgw.gateway.aq import Hub
from mgw.gateway.definitions.objects import LinkDef
from mgw.gateway.observe.events import CertificateEnds, Journalist
from mgw.gateway.state.certificates import put_certificates
from mgw.links import registry
from mgw.links.certificates import WARNING_SECONDS, Certificate, ShowsCertificates
from mgw.transforms.clock import Clock
from mgw.transforms.errors import GatewayError, HubError

__all__ = ["CertificateWatch"]

LOOK_SECONDS: Final = 3600.0
_PAUSE_SECONDS: Final = 86_400.0  # between two warnings of one certificate


class CertificateWatch:
    """Used by one thread.

    Args:
        links: those of the agent now, by their names in capitals.
    """

    def __init__(
        self, hub: Hub, links: Callable[[], Mapping[str, LinkDef]], journalist: Journalist, clock: Clock
    ) -> None:
        self._hub = hub
        self._links = links
        self._journalist = journalist
        self._clock = clock
        self._looked: dict[str, tuple[float, object]] = {}  # link: when, and its definition then
        self._told: dict[Certificate, float] = {}

    def look(self) -> None:
        """Look at the links that are new, were altered, or were last looked at an hour ago.

        Raises:
            HubError: the database refused.
        """
        now = self._clock.monotonic()
        links = self._links()
        self._looked = {name: seen for name, seen in self._looked.items() if name in links}
        for name, link in links.items():
            definition = link.config()
            when, known = self._looked.get(name, (0.0, None))
            if known == definition and now - when < LOOK_SECONDS:
                continue
            self._look_at(link, anew=known != definition)
            self._looked[name] = now, definition

    def _look_at(self, link: LinkDef, *, anew: bool) -> None:
        try:
            opened = registry.open_link(link.config())
        except HubError:
            raise
        except GatewayError:  # its jobs say so
            return
        if not isinstance(opened, ShowsCertificates):
            return
        found = opened.certificates()
        with self._hub.write() as conn:
            put_certificates(conn, link.name, found, self._clock.now(), anew=anew)
        for each in found:
            left = each.expires - self._clock.now()
            told = self._told.get(each)
            if left < WARNING_SECONDS and (told is None or self._clock.monotonic() - told >= _PAUSE_SECONDS):
                self._told[each] = self._clock.monotonic()
                self._journalist.tell(CertificateEnds(link.name, each.owner, each.place, each.subject, left))
