"""How memory links and the jobs on them reach the broker."""

from __future__ import annotations

from mgw.links.contract import (
    Direction,
    Endpoint,
    JobUse,
    LinkConfig,
)
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.errors import (
    LinkRefused,
    LinkTimeout,
    LinkUnavailable,
    QueueMissing,
)

__all__ = ["MemoryAccess", "MemoryConnection", "is_pattern", "subscription_name"]


class MemoryAccess:
    """How a link reaches its broker."""

    def __init__(self, config: LinkConfig, broker: MemoryBroker, timeout: float) -> None:
        self.config = config
        self.broker = broker
        self.timeout = timeout

    def check_connection(self, operation: str) -> None:
        """Raise LinkUnavailable while the broker refuses connections, LinkTimeout while it is stalled."""
        if self.broker.refuse_connections:
            raise LinkUnavailable(
                f"link {self.config.name}: broker {self.broker.name} cannot be reached",
                link=self.config.name,
                operation=operation,
                cause="it refuses connections",
                cure="start it",
            )
        self.wait_while_stalled(operation, 0.0)

    def check_login(self, operation: str) -> None:
        """Raise LinkRefused if the broker has users and ours is not one of them."""
        users = self.broker.users
        if users is not None and users.get(self.config.username or "") != self.config.password:
            raise LinkRefused(
                f"link {self.config.name}: broker {self.broker.name} refused user {self.config.username!r}",
                link=self.config.name,
                operation=operation,
                cause="user name or password is wrong",
                cure="set the link's username and password",
            )

    def wait_while_stalled(self, operation: str, waited: float) -> None:
        """Wait for a stalled broker, at most until the timeout; raises LinkTimeout then."""
        broker = self.broker
        with broker.changed:
            if not broker.changed.wait_for(lambda: not broker.stalled, max(0.0, self.timeout - waited)):
                raise LinkTimeout(
                    f"link {self.config.name}: broker {broker.name} did not answer within {self.timeout:g} s",
                    link=self.config.name,
                    operation=operation,
                    cause="it is stalled",
                    cure="check the broker",
                )

    def find(self, endpoint: Endpoint, direction: Direction) -> None:
        """Raise QueueMissing unless the endpoint's queue, log or topic exists (for a pattern: is well-formed)."""
        name = endpoint.provider_queue
        if direction is Direction.INBOUND and is_pattern(name):
            return
        if not self.broker.exists(name):
            raise QueueMissing(
                f"foreign queue {endpoint.full_name}: {name!r} does not exist at broker {self.broker.name}",
                link=self.config.name,
                cause="it was not created there",
                cure="create it or correct the registration",
                number=434,
            )


def subscription_name(use: JobUse) -> str:
    """Name of the durable subscription of a topic job."""
    return f"MGW_{use.job}"


def is_pattern(name: str) -> bool:
    """Whether a provider queue stands for many topics."""
    return "*" in name or "?" in name


class MemoryConnection:
    """What source and destination share: being connected, cut, stalled, interrupted."""

    def __init__(self, link: MemoryAccess, use: JobUse) -> None:
        self.link = link
        self.use = use
        self.broker = link.broker
        self._epoch: int | None = None
        self._interrupted = False

    def _open(self, direction: Direction) -> None:
        self.link.check_connection("connect")
        self.link.check_login("connect")
        self._raise_fault("connect")
        self.link.find(self.use.endpoint, direction)
        self._interrupted = False
        self._epoch = self.broker.epoch

    def _check(self, operation: str) -> None:
        if self._epoch != self.broker.epoch:
            raise LinkUnavailable(
                f"link {self.link.config.name}: not connected to broker {self.broker.name}",
                link=self.link.config.name,
                operation=operation,
                cause="the connection was lost" if self._epoch is not None else "connect was not called",
            )
        if self.broker.stalled:
            self.link.wait_while_stalled(operation, 0.0)

    def _raise_fault(self, operation: str) -> None:
        fault = self.broker.next_fault(operation)
        if fault is not None:
            raise fault

    def interrupt(self) -> None:
        """See :meth:`mgw.links.contract.Source.interrupt`."""
        with self.broker.changed:
            self._interrupted = True
            self.broker.changed.notify_all()
