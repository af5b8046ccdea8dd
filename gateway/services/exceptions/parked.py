"""Parked keys of jobs: messages that wait behind one that cannot be delivered are shown, tried at once, given up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from mgw.gateway.definitions.job_options import park_key
from mgw.gateway.definitions.objects import JobDef
from mgw.gateway.observe.parking_events import KeyGivenUp, KeyHastened
from mgw.gateway.services import lookup
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.exceptions.contract import DeskRefused
from mgw.gateway.services.exceptions.journal import Deed, record
from mgw.gateway.state import parked
from mgw.gateway.state.parked import PARKED, TRYING, ParkedKey

__all__ = ["Waiting", "give_up", "parked_keys", "release"]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A parked key of a job.

    Attributes:
        job: its name.
        messages: how many messages wait, the first one included.
        first: message id of the message that cannot be delivered, 32 hexadecimal digits.
        entry: reason, attempts and times.
    """

    job: str
    messages: int
    first: str
    entry: ParkedKey


def parked_keys(admin: GatewayAdmin, name: str | None = None) -> list[Waiting]:
    """What is parked of a job, or of all jobs, the oldest key of each first.

    Raises:
        NotFound: there is no job of that name.
    """
    jobs = [lookup.job(admin, name)] if name is not None else admin.list_jobs()
    found = list[Waiting]()
    with admin.hub.read() as conn:
        for job in jobs:
            counts = parked.counts(conn, job.id)
            for entry in parked.load(conn, job.id):
                waiting = counts.get(entry.number, 0) + (entry.state == TRYING)
                found.append(Waiting(job.name, waiting, admin.hub.hub_id.hex() + f"{entry.head:016x}", entry))
    return found


def release(admin: GatewayAdmin, name: str, keys: Sequence[str] = (), *, by: str) -> list[str]:
    """Have the first messages of parked keys tried now; no ``keys``: of all of them. Returns the keys.

    Raises:
        NotFound: there is no job of that name.
        DeskRefused: a key is not parked.
    """
    return _change(admin, lookup.job(admin, name), keys, lambda job, chosen: KeyHastened(job.name, by, tuple(chosen)))


def give_up(admin: GatewayAdmin, name: str, keys: Sequence[str], *, by: str) -> list[str]:
    """Move the first messages of parked keys to the exception queue of the job; those behind them follow.

    Raises:
        NotFound: there is no job of that name.
        DeskRefused: a key is not parked, or the job has no exception queue.
    """
    job = lookup.job(admin, name)
    if job.exception_queue is None:
        raise DeskRefused(
            f"job {job.name} has no exception queue",
            cause="a message that is given up goes there, it is never deleted",
            cure=f"give it one: mgw jobs alter {job.name} --exception-queue QUEUE",
        )
    return _change(admin, job, keys, lambda job, chosen: KeyGivenUp(job.name, by, tuple(chosen)), given_up=True)


def _change(
    admin: GatewayAdmin,
    job: JobDef,
    keys: Sequence[str],
    event_of: Callable[[JobDef, Sequence[str]], Deed],
    *,
    given_up: bool = False,
) -> list[str]:
    now = admin.clock.now()
    with admin.hub.write() as conn:
        chosen = _chosen(conn, job, keys)
        waiting = [entry.number for entry in chosen if entry.state == PARKED]
        names = [entry.key for entry in chosen if entry.state == PARKED]
        if waiting:
            event = event_of(job, names)
            parked.hasten(conn, job.id, waiting, now=now, give_up=given_up)
            record(conn, event, job, now)
    if waiting:
        record(None, event, job, now)
    return names


def _chosen(conn: sa.Connection, job: JobDef, keys: Sequence[str]) -> list[ParkedKey]:
    found = {entry.key: entry for entry in parked.load(conn, job.id)}
    for key in keys:
        if key not in found:
            parks = park_key(job.options) is not None
            cause = "it may be done with" if parks else "the job parks nothing (job option park_key)"
            raise DeskRefused(
                f"key {key!r} of job {job.name} is not parked",
                cause=cause,
                cure=f"see mgw exceptions parked {job.name}",
            )
    return [found[key] for key in dict.fromkeys(keys)] if keys else list(found.values())
