"""The links of an agent: each lives as long as its definition."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol, runtime_checkable

from mgw.links import registry
from mgw.links.contract import Link, LinkConfig

__all__ = ["LinkPool", "SharesKnowledge"]


@runtime_checkable
class SharesKnowledge(Protocol):
    """A link that knows more of its messaging system than its definition says."""

    def share_knowledge(self, links: Iterable[Link]) -> None:
        """Know from now on, together with them, what one of these links knows of the same messaging system. Called
        before the link is first used; the link that it replaces, because its definition was altered, is among them."""
        ...


class LinkPool:
    """Opens each link once. Any thread may ask.

    Jobs of one link share it, and so do all attempts of a job. A link whose definition was altered is opened again when
    it is next asked for; jobs that still run continue with the one they have.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._links: dict[tuple[str, bool], tuple[LinkConfig, Link]] = {}  # name and whether it keeps logs

    def link(self, config: LinkConfig) -> Link:
        """The link of this definition.

        Raises:
            ConfigInvalid, LinkError: as :func:`mgw.links.registry.open_link`; it is tried again at the next call.
        """
        slot = _slot(config)
        with self._lock:
            definition, link = self._links.get(slot, (None, None))
            if link is None or definition != config:
                link = registry.open_link(config)
                if isinstance(link, SharesKnowledge):
                    link.share_knowledge([other for _, other in self._links.values()])
                self._links[slot] = config, link
            return link

    def without_logs(self, config: LinkConfig) -> Link:
        """The link for messages that have no part in the logs of jobs."""
        return self.link(replace(config, inbound_log_queue=None, outbound_log_queue=None))

    def keep(self, configs: Iterable[LinkConfig]) -> None:
        """Drop the links that are not defined any more."""
        kept = {slot for config in configs for slot in (_slot(config), (config.name, False))}
        with self._lock:
            self._links = {slot: opened for slot, opened in self._links.items() if slot in kept}


def _slot(config: LinkConfig) -> tuple[str, bool]:
    return config.name, config.inbound_log_queue is not None or config.outbound_log_queue is not None
