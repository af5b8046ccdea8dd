"""What happened to a message, and whether every message of a job has exactly one outcome."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from itertools import islice
from typing import NamedTuple

from mgw.gateway.aq import Hub, looking
from mgw.gateway.ledger.check import Proof, reconcile
from mgw.gateway.ledger.history import NotInLedger, Range, Sight, Trace, life, sights, trace
from mgw.gateway.ledger.record import Kind
from mgw.gateway.services import lookup
from mgw.gateway.services.admin import GatewayAdmin

__all__ = [
    "Kind",
    "Life",
    "NotInLedger",
    "Proof",
    "Proven",
    "Range",
    "Sight",
    "Trace",
    "message_life",
    "prove_job",
    "trace_message",
]


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


class Life(NamedTuple):
    """What is known of a message, and the queue that has it now; None: it has left the hub."""

    trace: Trace
    queue: str | None


def message_life(hub: Hub, message: bytes) -> Life:
    """Everything that is known of a message of the hub, whichever jobs touched it.

    Raises:
        NotInLedger: nothing is, or the id is of another hub.
    """
    with hub.read() as conn:
        return Life(life(conn, hub.hub_id, message.hex()), looking.home(conn, hub.hub_id, message))


def prove_job(hub: Hub, job_name: str, span: Range, *, listed: bool = False, most: int | None = None) -> Proven:
    """Whether every message of a job in a range has exactly one outcome; ``listed``: with every message, or with the
    first ``most``.

    Raises:
        NotFound: there is not a job of that name.
    """
    job = lookup.job(GatewayAdmin(hub), job_name)
    with hub.read() as conn:
        proof = reconcile(conn, job, hub.hub_id, span)
        if not listed:
            return Proven(proof, [])
        with closing(sights(conn, job, hub.hub_id, span)) as found:
            return Proven(proof, list(islice(found, most)))
