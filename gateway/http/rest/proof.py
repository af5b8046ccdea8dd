"""What happened to a message, and whether every message of a job has exactly one outcome."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from mgw.gateway.http.access import Viewer
from mgw.gateway.http.problems import Problem
from mgw.gateway.http.rest.answers import HubOf
from mgw.gateway.http.rest.given import JobPath, Limit, MessagePath, Moment, Word, message_id, seconds
from mgw.gateway.http.rest.moments import moment
from mgw.gateway.services.proof import Range, Sight, Trace, message_life, prove_job, trace_message

__all__ = ["router"]

router = APIRouter(tags=["proof"])


class SightModel(BaseModel):
    """What one record of the ledger says of one message."""

    job: str = Field(description="The job.")
    kind: Literal["RECEIVED", "CARRIED", "COMPLETED", "RETURNED", "BREAK"] = Field(
        description="RECEIVED: read from a link and stored. COMPLETED: sent to a link. CARRIED: from link to link."
    )
    batch: int = Field(description="Number of the record; 0: a plan that is not completed.")
    sequence: int | None = Field(description="Number of the batch of a job that sends.")
    started: datetime | None = Field(description="When it was read, or planned.")
    sent: datetime | None = Field(description="When it was handed to the destination.")
    confirmed: datetime | None = Field(description="When the destination said that it has it.")
    finished: datetime | None = Field(description="When it was stored, or the plan completed; null: not yet.")
    outcome: str = Field(description="What happened to it.")
    reason: str = Field(description="Why, where there is a reason.")
    origin: str = Field(description="Its coordinates at the source, such as `log@4711`.")
    places: list[str] = Field(description="Its coordinates at the destination.")
    messages: list[str] = Field(description="Its ids in the hub.")
    redelivered: bool = Field(description="The source said that it had delivered it before.")


class Whereabouts(BaseModel):
    """Where a message of the hub is now."""

    id: str = Field(description="Its id in the hub.")
    state: str | None = Field(description="In words; null: it has left the hub.")


class MessageLife(BaseModel):
    """Everything known of one message, in time order."""

    message: str = Field(description="Its id, or the coordinates that were asked for.")
    holds: bool = Field(description="Nothing contradicts exactly once.")
    records: list[SightModel] = Field(description="What the ledger has of it.")
    now: list[Whereabouts] = Field(description="The message, and others that were made of the same one.")
    offences: list[str] = Field(description="What contradicts exactly once.")
    queue: str | None = Field(
        default=None, description="The queue of the hub that has it: see `/queues/{queue}/messages/{message}`."
    )


class JobProof(BaseModel):
    """A reconciliation: whether every message of a job in a range has exactly one outcome."""

    job: str = Field(description="The job.")
    holds: bool = Field(description="Every message has exactly one outcome.")
    batches: int = Field(description="Batches in the range.")
    messages: int = Field(description="Messages in the range.")
    outcomes: dict[str, int] = Field(description="Messages by what happened to them.")
    first: datetime | None = Field(description="When the first batch of the range was finished.")
    last: datetime | None = Field(description="When the last batch of the range was finished.")
    planned: int = Field(description="Messages that are planned, and not completed yet.")
    waiting: int | None = Field(description="Messages in the source queue that no plan took yet; null inbound.")
    vacant: int = Field(description="Source positions in the range that brought no message.")
    uncertain: int = Field(description="Messages that may be stored twice, with nothing to tell copies apart.")
    offences: list[str] = Field(description="What contradicts that every message has exactly one outcome.")
    unlisted: int = Field(description="Offences beyond those listed.")
    notes: list[str] = Field(description="What to know about it.")
    records: list[SightModel] = Field(description="A line per message, where `list` asks for them.")


def _sight(found: Sight) -> SightModel:
    return SightModel(
        job=found.job,
        kind=found.kind.value,
        batch=found.batch,
        sequence=found.sequence,
        started=moment(found.started),
        sent=moment(found.sent),
        confirmed=moment(found.confirmed),
        finished=moment(found.finished),
        outcome=found.outcome,
        reason=found.reason,
        origin=found.origin,
        places=list(found.places),
        messages=[each.upper() for each in found.messages],
        redelivered=found.redelivered,
    )


def _life(found: Trace, queue: str | None = None) -> MessageLife:
    return MessageLife(
        message=found.message if queue is None and len(found.message) != _HEX else found.message.upper(),
        holds=not found.offences,
        records=[_sight(each) for each in found.sights],
        now=[Whereabouts(id=identity.upper(), state=state) for identity, state in found.states.items()],
        offences=list(found.offences),
        queue=queue,
    )


_HEX = 32


@router.get("/messages/{message}")
def show_life(message: MessagePath, hub: HubOf, _: Viewer) -> MessageLife:
    """The life of a message: where it came from, when it was stored, planned, sent and confirmed, its coordinates at
    the brokers, and where it and its copies are now."""
    found = message_life(hub, message_id(message))
    return _life(found.trace, found.queue)


@router.get("/jobs/{job}/prove")
def prove(
    job: JobPath,
    hub: HubOf,
    _: Viewer,
    *,
    since: Annotated[Moment | None, Query(description="Batches finished from this moment on.")] = None,
    until: Annotated[Moment | None, Query(description="Batches finished before this moment.")] = None,
    last: Annotated[
        int | None, Query(ge=1, le=10**9, description="Only the latest batches that hold this many messages.")
    ] = None,
    list: Annotated[bool, Query(description="With a line per message, at most `limit`.")] = False,  # noqa: A002
    limit: Limit = 100,
) -> JobProof:
    """Whether every message of a job in a range has exactly one outcome, as `mgw prove` says. Give a range: all of the
    ledger takes its time."""
    found = prove_job(hub, job, Range(seconds(since), seconds(until), last), listed=list, most=limit)
    proof = found.proof
    return JobProof(
        job=proof.job,
        holds=proof.holds,
        batches=proof.batches,
        messages=proof.messages,
        outcomes=dict(proof.outcomes),
        first=moment(proof.first),
        last=moment(proof.last),
        planned=proof.planned,
        waiting=proof.waiting,
        vacant=proof.vacant,
        uncertain=proof.uncertain,
        offences=[*proof.offences],
        unlisted=proof.unlisted,
        notes=[*proof.notes],
        records=[_sight(each) for each in found.sights],
    )


@router.get("/jobs/{job}/prove/message")
def prove_message(
    job: JobPath,
    hub: HubOf,
    _: Viewer,
    message: Annotated[
        Word, Query(min_length=1, description="Its id in the hub, or the coordinates where the job read or wrote it.")
    ],
) -> MessageLife:
    """What a job and others know of one message, also by its coordinates outside."""
    if not message.strip():
        raise Problem(422, "no message is named", "give its id in the hub, or its coordinates outside")
    return _life(trace_message(hub, job, message))
