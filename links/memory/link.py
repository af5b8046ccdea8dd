"""The link to the broker inside the process (:mod:`links.memory.broker`): for tests and examples, nothing is durable.

It has every capability, so the conformance suite is proven on it first. Queues hand out each message once and take back
what was not settled; logs keep every message and have positions; topics copy to the subscriptions of their jobs.
A provider queue is the name of a queue, a log or a topic; as a source a topic may be a pattern with ``*`` and ``?``.
"""

from __future__ import annotations

from collections.abc import Sequence

from mgw.links.contract import (
    Check,
    Delivery,
    Destination,
    Direction,
    Endpoint,
    Guarantee,
    GuaranteeReport,
    JobUse,
    LinkConfig,
    Source,
)
from mgw.links.inspection import Existence
from mgw.links.memory.broker import MemoryBroker, MemoryLog
from mgw.links.memory.connection import MemoryAccess, is_pattern, subscription_name
from mgw.links.memory.destination import MemoryDestination
from mgw.links.memory.source import MemorySource
from mgw.links.memory.spec import SPEC
from mgw.links.options import parse
from mgw.links.place import Place
from mgw.transforms.errors import (
    AdminError,
    ConfigInvalid,
    LinkError,
)

__all__ = ["SPEC", "MemoryBroker", "MemoryLink", "open_link"]


def open_link(config: LinkConfig) -> MemoryLink:
    """A memory link; raises ConfigInvalid for a bad attribute."""
    return MemoryLink(config)


class MemoryLink(MemoryAccess):
    """One configured memory link."""

    def __init__(self, config: LinkConfig) -> None:
        values = parse(SPEC.attributes, config.attributes, f"link {config.name}")
        parse(SPEC.options, config.options, f"link {config.name}")
        super().__init__(config, MemoryBroker.get(values["broker"]), values["timeout"])

    def test(self) -> Sequence[Check]:
        """See :meth:`mgw.links.contract.Link.test`."""
        checks = []
        for name, run in (("connection", self.check_connection), ("credentials", self.check_login)):
            try:
                run("test")
            except LinkError as error:
                checks.append(Check(name, False, error.cause or error.what, error.cure))
                break
            checks.append(Check(name, True, f"broker {self.broker.name} in this process"))
        return checks

    def place(self, use: JobUse, direction: Direction) -> Place:  # noqa: ARG002  the same for all
        """See :class:`mgw.links.place.KnowsPlace`."""
        return Place(self.broker.name, f"memory broker {self.broker.name}")

    def listening(self) -> frozenset[str]:
        """See :meth:`mgw.links.contract.Link.listening`."""
        return frozenset() if self.broker.refuse_connections else frozenset({self.broker.name})

    def verify(self, use: JobUse, direction: Direction) -> GuaranteeReport:
        """See :meth:`mgw.links.contract.Link.verify`."""
        self.check_connection("verify")
        self.check_login("verify")
        fault = self.broker.next_fault("verify")
        if fault is not None:
            raise fault
        self.find(use.endpoint, direction)
        if direction is Direction.INBOUND:
            store = self.broker.find(use.endpoint.provider_queue)
            if store is None:
                self.broker.subscribe(subscription_name(use), use.endpoint.provider_queue)
            elif isinstance(store, MemoryLog):
                return GuaranteeReport(Guarantee.EXACT)
        return GuaranteeReport(Guarantee.AT_LEAST_ONCE, "a memory queue lives only as long as the process")

    def check_endpoint(self, endpoint: Endpoint, direction: Direction | None) -> None:
        """See :meth:`mgw.links.contract.Link.check_endpoint`."""
        try:
            parse(SPEC.queue_options, endpoint.options, f"foreign queue {endpoint.full_name}")
        except ConfigInvalid as error:
            raise AdminError(error.what, cause=error.cause, cure=error.cure) from error
        if direction is Direction.OUTBOUND and is_pattern(endpoint.provider_queue):
            raise AdminError(
                f"foreign queue {endpoint.full_name} cannot be a destination",
                cause=f"{endpoint.provider_queue!r} is a pattern",
                cure="register the one topic to send to",
            )

    def source(self, use: JobUse) -> Source:
        """See :meth:`mgw.links.contract.Link.source`."""
        return MemorySource(self, use)

    def destination(self, use: JobUse) -> Destination:
        """See :meth:`mgw.links.contract.Link.destination`."""
        return MemoryDestination(self, use)

    def collected(self, use: JobUse) -> int:
        """See :class:`mgw.links.contract.Collects`."""
        self.check_connection("backlog")
        return self.broker.collected(subscription_name(use))

    def find_queue(self, endpoint: Endpoint) -> Existence:
        """See :class:`mgw.links.inspection.FindsQueues`."""
        self.check_connection("verify")
        self.check_login("verify")
        name, broker = endpoint.provider_queue, self.broker
        if is_pattern(name):
            matching = f"{len(broker.topics(name))} topic(s) of broker {broker.name} match"
            return Existence(True, matching, needs_none=True)
        if not broker.exists(name):
            made = f"MemoryBroker.get({broker.name!r}).queue({name!r})"
            return Existence(False, f"broker {broker.name} has no queue, log or topic {name!r}", made)
        store = broker.find(name)
        held = "is a topic" if store is None else f"holds {len(store.messages)} message(s)"
        return Existence(True, f"{name!r} of broker {broker.name} {held}")

    def first_message(self, use: JobUse) -> Delivery | None:
        """See :class:`mgw.links.inspection.ShowsMessages`."""
        self.check_connection("read")
        self.check_login("read")
        self.find(use.endpoint, Direction.INBOUND)
        store = self.broker.find(use.endpoint.provider_queue)
        return Delivery(store.messages[0]) if store is not None and store.messages else None

    def forget(self, use: JobUse, direction: Direction) -> None:
        """See :meth:`mgw.links.contract.Link.forget`."""
        if direction is Direction.INBOUND and self.broker.find(use.endpoint.provider_queue) is None:
            self.check_connection("forget")
            self.broker.unsubscribe(subscription_name(use))
