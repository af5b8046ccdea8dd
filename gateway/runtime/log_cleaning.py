"""Obsolete and unreadable records of the links' log queues (AQ guide 12.2 §19.2.3, CLEAN_LOG_QUEUES)."""

from __future__ import annotations

import logging
from collections import defaultdict

from mgw.gateway.aq import Hub
from mgw.gateway.definitions.objects import JobStatus
from mgw.gateway.runtime.job_setup import JobSetup, setup_of
from mgw.gateway.state import catalog, run_state
from mgw.gateway.state.secrets import Secrets
from mgw.links.contract import Direction, JobUse, LinkConfig
from mgw.links.log_cleaning import KeepsLogs
from mgw.links.pool import LinkPool
from mgw.transforms.clock import Clock
from mgw.transforms.errors import GatewayError

__all__ = ["clean_logs"]

_LOGGER = logging.getLogger("mgw.engine")


_Uses = dict[str, list[tuple[JobUse, Direction]]]


def _note(setup: JobSetup, links: dict[str, LinkConfig], uses: _Uses) -> None:
    for end in setup.ends:
        links[end.link.name] = end.link
        uses[end.link.name].append((end.use, end.direction))


def clean_logs(
    hub: Hub, secrets: Secrets, agent: str, clock: Clock, pool: LinkPool, *, unreadable: bool
) -> list[GatewayError]:
    """Clean the log queues of all links of an agent; says in the log what was removed.

    Connects: never call it in a transaction.

    Args:
        pool: opens the links.
        unreadable: also remove what cannot be read, where its job has ended with an error: an operator asked for it.

    Returns:
        Why a link's log could not be cleaned, one for each such link.
    """
    links: dict[str, LinkConfig] = {}
    uses: _Uses = defaultdict(list)
    broken: set[str] = set()
    with hub.read() as conn:
        snapshot = catalog.load_snapshot(conn, agent, secrets)
        failed = {
            job.id for job in snapshot.jobs.values() if run_state.job_row(conn, job.id).status is JobStatus.FAILED
        }
    for job in snapshot.jobs.values():
        try:
            setup = setup_of(snapshot, job, hub.hub_id, clock)
        except GatewayError:
            continue  # it cannot run before its definitions hold together; its records stay, because it lives
        _note(setup, links, uses)
        if unreadable and job.id in failed:
            broken.add(job.name)

    def lives(job: str) -> bool:
        with hub.read() as conn:
            return catalog.get_subscriber(conn, job) is not None

    problems = []
    for name, config in links.items():
        if config.inbound_log_queue is None and config.outbound_log_queue is None:
            continue
        try:
            link = pool.link(config)
            if isinstance(link, KeepsLogs):
                for removed in link.clean_logs(hub.hub_id.hex(), uses[name], broken, lives):
                    _LOGGER.warning("link %s: %s", name, removed)
        except GatewayError as error:
            problems.append(error)
    return problems
