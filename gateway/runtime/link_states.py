"""Whether the links of an agent work, as its jobs find: for the log, when nobody can ask the hub."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass, field

from mgw.gateway.definitions.link_views import shown_attributes
from mgw.gateway.observe.moments import at, since
from mgw.links import registry
from mgw.links.contract import LinkConfig
from mgw.transforms.errors import GatewayError

__all__ = ["LinkStates", "host_of"]


@dataclass(slots=True)
class _Known:
    """What is known of a link. Times are epoch seconds."""

    connected: set[str] = field(default_factory=set)  # jobs
    failing: bool = False
    changed: float | None = None
    error: str = ""
    error_time: float = 0.0
    node: str = ""


class LinkStates:
    """The links by name. Any thread may tell, and ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._links: dict[str, _Known] = {}

    def connected(self, link: str, job: str, now: float) -> None:
        """A job is connected."""
        with self._lock:
            known = self._links.setdefault(link, _Known())
            if not known.connected:
                known.changed = now
            known.connected.add(job)
            known.failing = False

    def at(self, link: str, node: str) -> None:
        """The node of a cluster to which its jobs are connected; "" for a link of one address."""
        with self._lock:
            self._links.setdefault(link, _Known()).node = node

    def left(self, link: str, job: str, now: float) -> None:
        """A job is not connected any more."""
        with self._lock:
            known = self._links.setdefault(link, _Known())
            if job in known.connected:
                known.connected.discard(job)
                if not known.connected:
                    known.changed = now

    def failed(self, link: str, error: str, now: float) -> None:
        """A job could not use the link."""
        with self._lock:
            known = self._links.setdefault(link, _Known())
            if not known.failing and known.changed is None:
                known.changed = now
            known.failing, known.error, known.error_time = True, error, now

    def lines(self, link: LinkConfig, jobs: Collection[str], now: float) -> list[str]:
        """A link that ``jobs`` use: state, since when, where it is, its last error."""
        with self._lock:
            known = self._links.get(link.name) or _Known()
            word = "UP" if known.connected else "UNUSED" if not jobs else "DOWN" if known.failing else "CONNECTING"
            used = f"{len(known.connected)} of {len(jobs)} jobs connected"
            where = f"{host_of(link)}, node {known.node}" if known.node else host_of(link)
            state = f"link {link.name}: {word}{since(known.changed, now)}, {where}, {used}"
            error = f"  last error, {at(known.error_time, now)}: {known.error}"
        return [state, error] if known.error else [state]


def host_of(link: LinkConfig) -> str:
    """Where a link leads, as its definition says: type, and what its view shows, where that is not the default."""
    try:
        shown = shown_attributes(registry.spec(link.type))
    except GatewayError:  # the package that brings the type is gone; its jobs say so
        shown = []
    given = {name.lower(): value for name, value in link.attributes.items()}
    told = []
    for each in shown:
        value, instead = given.get(each.name.lower()), given.get(each.instead.lower())
        if value is None and instead:
            told.append(f"{each.instead} {instead}")
            continue
        value = each.default if value is None else value
        text = f"{each.name} {value}"
        if not each.secret and (each.required or value != each.default) and text not in told:
            told.append(text)
    return " ".join([link.type, *told])
