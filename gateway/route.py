"""What a route is: the life of a batch in one direction. The order of its lines is the guarantee.

Inbound (:mod:`gateway.inbound`): read, convert, one hub transaction (rows, positions, counters, owner check), settle.
Outbound (:mod:`gateway.outbound`): plan (claim and plan row in one short hub transaction), convert, publish, wait for
the confirmation, complete in a second short hub transaction.

No hub transaction is open while a broker is spoken to. A route is driven by one thread, from ``open`` to ``close``; any
error ends it, and whatever was not settled or completed comes again with the next route of the job.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gateway.aq.hub import Hub
from gateway.events import Journalist
from gateway.journal import Counts
from gateway.ledger import record_break
from gateway.model import JobDef
from gateway.turns import Turns
from links.contract import Backlog
from transforms.clock import Clock

__all__ = ["STALL_SECONDS", "Caution", "Route", "RouteContext"]

STALL_SECONDS = 60.0  # nothing moved for so long although something should have: the connection is rebuilt


@dataclass(frozen=True, slots=True)
class RouteContext:
    """What a route shares with its agent."""

    hub: Hub
    agent_key: str
    token: int
    job: JobDef
    clock: Clock
    turns: Turns
    journalist: Journalist
    cautious: bool = False  # one message at a time: find the one that cannot be converted
    stall_seconds: float = STALL_SECONDS
    ledger: bool = True  # record what becomes of every message

    def open_ledger(self, sequence: int | None = None) -> None:
        """A job that runs without the ledger leaves a mark there, so that the gap explains itself."""
        if not self.ledger:
            with self.hub.write() as conn:
                record_break(conn, self.job.id, "the ledger is off", sequence=sequence, now=self.clock.now())


class Caution:
    """Batch size: one message at a time after a conversion failure, until a batch's worth has passed."""

    def __init__(self, context: RouteContext) -> None:
        self._left = context.job.batch_size if context.cautious else 0
        self._size = context.job.batch_size

    def limit(self) -> int:
        """Messages that the next batch may have."""
        return 1 if self._left else self._size

    def passed(self, messages: int) -> None:
        """So many messages went through; 0: nothing waits any more."""
        self._left = max(0, self._left - messages) if messages else 0


class Route(Protocol):
    """One direction of one job."""

    @property
    def busy(self) -> bool:
        """Whether messages are planned or on their way."""
        ...

    def open(self) -> None:
        """Connect."""
        ...

    def carry(self, wait: float) -> Counts:
        """Carry what is there now; wait up to ``wait`` seconds for the first message.

        Raises:
            GatewayError: nothing is lost; what is not settled or completed comes again.
        """
        ...

    def backlog(self) -> Backlog | None:
        """What waits at the source, where only the route can tell."""
        ...

    def check_stall(self, backlog: Backlog | None) -> None:
        """Refuse to look healthy while messages wait and none moves.

        Raises:
            LinkTimeout: so that the connection is torn down and rebuilt.
        """
        ...

    def drain(self, seconds: float) -> None:
        """Finish what is in flight, start nothing new."""
        ...

    def interrupt(self) -> None:
        """From any thread: make a waiting ``carry`` return."""
        ...

    def close(self) -> None:
        """Disconnect."""
        ...
