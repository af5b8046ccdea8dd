"""What the jobs of one agent share."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import sqlalchemy as sa

from mgw.gateway.aq import Hub
from mgw.gateway.observe.events import Journalist
from mgw.gateway.observe.measures import Measures
from mgw.gateway.observe.spans import spans_of
from mgw.gateway.runtime.building import build_route
from mgw.gateway.runtime.connection_quota import Connections
from mgw.gateway.runtime.fair_semaphore import Turns
from mgw.gateway.runtime.guarantee_watch import VERIFY_SECONDS
from mgw.gateway.runtime.job_setup import JobSetup
from mgw.gateway.runtime.link_states import LinkStates
from mgw.gateway.runtime.plan_requests import PlanRequests
from mgw.gateway.runtime.reach import Reaches
from mgw.gateway.runtime.resting_queues import RestingQueues
from mgw.gateway.runtime.route import Route, RouteContext
from mgw.gateway.state import lease
from mgw.links.contract import Link
from mgw.links.pool import LinkPool
from mgw.transforms.clock import Clock

__all__ = ["Engine"]

VERIFIED_AT_ONCE = 2  # jobs of an agent whose guarantees are verified at the same time while they run


@dataclass(frozen=True, slots=True)
class Engine:
    """What the jobs of one agent share."""

    hub: Hub
    agent_key: str
    token: int
    clock: Clock
    turns: Turns
    journalist: Journalist
    reaches: Reaches
    links: LinkPool
    ledger: bool = True
    verify_seconds: float = VERIFY_SECONDS
    connections: Connections = field(default_factory=Connections)
    link_states: LinkStates = field(default_factory=LinkStates)
    requests: PlanRequests = field(default_factory=PlanRequests)
    measures: Measures = field(default_factory=Measures)
    resting: RestingQueues = field(init=False)
    verify_turns: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(VERIFIED_AT_ONCE))

    def __post_init__(self) -> None:
        object.__setattr__(self, "resting", RestingQueues(self.hub, self.clock))

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A hub transaction that a process which lost the agent cannot commit.

        Raises:
            LeaseLost: it did.
        """
        with self.hub.write() as conn:
            lease.check_owner(conn, self.agent_key, self.token)
            yield conn

    def build(
        self, setup: JobSetup, source: Link | None, target: Link | None, *, cautious: bool, losses: dict[int, int]
    ) -> Route:
        """The route of a job, not yet open; its links, None for an end in the hub."""
        context = RouteContext(
            self.hub,
            self.agent_key,
            self.token,
            setup.job,
            self.clock,
            self.turns,
            self.journalist,
            cautious,
            ledger=self.ledger,
            losses=losses,
            requests=self.requests,
            resting=self.resting,
            spans=spans_of(setup.job),
            measures=self.measures,
        )
        return build_route(context, setup, self.links, source, target)
