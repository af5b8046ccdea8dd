"""What happened to a message, and whether every message of a job has exactly one outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mgw.gateway.aq import Hub
from mgw.gateway.ledger.check import Proof, reconcile
from mgw.gateway.ledger.history import Range, Sight, Trace, life, sights, trace
from mgw.gateway.ledger.record import Kind
from mgw.gateway.services import lookup
from mgw.gateway.services.admin import GatewayAdmin

__all__ = ["Kind", "Proof", "Proven", "Range", "Sight", "Trace", "life_of", "prove_job", "trace_message"]


class Proven(NamedTuple):
    """A reconciliation, and a line per message where they were asked for."""

    proof: Proof
    sights: Sequence[Sight]


def trace_message(hub: Hub, job_name: str, message: str) -> Trace:
    """Everything that is known of one message of a job.

    Args:
        message: its id in the hub, ``AQMSGID:`` and hexadecimal digits or these alone, or its coordinates outside.

    Raises:
        NotFound: there is not a job of that name.
        GatewayError: the message is not known.
    """
    job = lookup.job(GatewayAdmin(hub), job_name)
    with hub.read() as conn:
        return trace(conn, job, hub.hub_id, message)


def prove_job(hub: Hub, job_name: str, span: Range, *, listed: bool = False) -> Proven:
    """Whether every message of a job in a range has exactly one outcome; ``listed``: with every message.

    Raises:
        NotFound: there is not a job of that name.
    """
    job = lookup.job(GatewayAdmin(hub), job_name)
    with hub.read() as conn:
        proof = reconcile(conn, job, hub.hub_id, span)
        return Proven(proof, list(sights(conn, job, hub.hub_id, span)) if listed else [])


def life_of(hub: Hub, message: str) -> Trace:
    """Everything that is known of one message in all jobs, and where it is now; nothing, where no ledger names it.

    Args:
        message: its id in the hub.

    Raises:
        GatewayError: it is no such id, or that of a message of another hub.
    """
    with hub.read() as conn:
        return life(conn, hub.hub_id, message)
