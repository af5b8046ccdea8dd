"""Recovery: what the logs on both sides of a job prove, and what a person may decide when they do not match.

AQ guide 12.2 §19.2.3, §21.4: errors 415 (source messages missing), 416 and 417 (log records missing) end a job; one of
the RESET actions of CLEANUP_GATEWAY lets it continue.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import sqlalchemy as sa

from mgw.gateway.aq import transfer
from mgw.gateway.definitions.job_options import OnMissing, on_missing
from mgw.gateway.definitions.objects import JobDef, JobStatus, Propagation
from mgw.gateway.ledger import store as ledger
from mgw.gateway.ledger.record import read_again, unpacked
from mgw.gateway.observe.gap_events import MessagesMissing, stopped, went_on
from mgw.gateway.state import run_state
from mgw.gateway.state.gaps import keep_gaps, kept_gaps, pass_gaps
from mgw.gateway.state.run_state import Plan
from mgw.links.contract import RESUME, Mark, Recovered
from mgw.transforms.errors import GatewayError, PositionLost
from mgw.transforms.gap import Gap, begins_again, ranges_of

__all__ = [
    "check_plan",
    "check_sending_log",
    "drop_received",
    "give_up",
    "gives_up",
    "missed",
    "missing_by",
    "reset_log_records",
    "reset_missing_messages",
]


_SOURCE_LOST = 415
_RESET = "an operator reset the job"
_SENDING_LOG = "sending log at"  # what the errors of check_sending_log say


def check_sending_log(job: JobDef, row: run_state.JobRow, recovered: Recovered | None) -> None:
    """Compare the sending log at the destination with what the hub knows.

    Raises:
        GatewayError: [417] the log lost records; [416] the log is ahead of the hub, which was restored from a backup or
            shares the log with another hub. Nothing was sent; a person must decide.
    """
    if recovered is None or row.log_sequence == run_state.LOG_RESET:
        return
    logged = recovered.sequence
    if logged is not None and logged > row.plan_sequence:
        raise GatewayError(
            f"job {job.name}: the sending log at {job.destination} is ahead of the hub",
            cause=f"it records batch {logged}, the hub planned {row.plan_sequence} so far: the hub was restored from a "
            "backup, or another hub uses the same log",
            cure="compare both queues, then run mgw agents cleanup RESET_SUB_MISSING_LOG_REC with the job's name",
            number=416,
        )
    if row.log_sequence is not None and (logged is None or logged < row.log_sequence):
        raise GatewayError(
            f"job {job.name}: records of the sending log at {job.destination} are missing",
            cause=f"the hub completed batch {row.log_sequence}, the log says {logged or 'nothing'}: it was purged, "
            "re-created or consumed by somebody else",
            cure="compare both queues, then run mgw agents cleanup RESET_SUB_MISSING_LOG_REC with the job's name",
            number=417,
        )


def check_plan(job: JobDef, plan: Plan, found: int) -> None:
    """Make sure that every message of a plan that is to be sent (again) is still there.

    Raises:
        GatewayError: [415] some are gone: consumed, purged, or moved to an exception queue by somebody else.
    """
    if found != len(plan.ids):
        raise GatewayError(
            f"job {job.name}: {len(plan.ids) - found} of {len(plan.ids)} messages of batch {plan.sequence} are missing",
            cause=f"somebody purged {job.source}, or took them from it",
            cure="find out who did, then run mgw agents cleanup RESET_SUB_MISSING_MESSAGE with the job's name",
            number=415,
        )


def reset_log_records(conn: sa.Connection, job: JobDef, *, now: float) -> bool:
    """RESET_SUB_MISSING_LOG_REC: the next connect takes the sending log as it is; planned messages are READY again.

    The last batches may arrive twice. Returns False, and does nothing, for a job that is not FAILED.
    """
    if run_state.job_row(conn, job.id).status is not JobStatus.FAILED:
        return False
    kind = job.propagation_type
    if kind is Propagation.THROUGH:
        _reset_through(conn, job, now)
    elif not kind.from_link:
        _release_plans(conn, job, now)
        sequence = run_state.job_row(conn, job.id).plan_sequence
        ledger.record_break(conn, job.id, "an operator accepted the sending log as it is", sequence=sequence, now=now)
        run_state.forget_log(conn, job.id, reset=True)
    else:
        ledger.record_break(conn, job.id, "an operator cleared the receiving log", now=now)
        run_state.clear_receiving_log(conn, job.id)
    run_state.revive(conn, job.id)
    return True


def reset_missing_messages(conn: sa.Connection, job: JobDef, *, now: float) -> bool:
    """RESET_SUB_MISSING_MESSAGE: missing messages are accepted as lost, the job continues with what exists.

    From the hub: plans shrink to the messages that are there. From a link: the job goes on behind the gaps that it
    found; where its source could not tell them, at the first message it has.

    Returns False, and does nothing, for a job that is not FAILED.
    """
    if run_state.job_row(conn, job.id).status is not JobStatus.FAILED:
        return False
    if not job.propagation_type.from_link:
        queue = transfer.resolve(conn, job.source)
        consumer = job.subscriber if queue.multiple_consumers else None
        for plan in run_state.load_plans(conn, job.id):
            found = tuple(claimed.id for claimed in transfer.load(conn, queue, consumer, plan.ids))
            run_state.alter_plan(conn, job.id, Plan(plan.sequence, found))
            if missing := sorted(set(plan.ids) - set(found)):
                names = ", ".join(queue.hub_id.hex() + f"{number:016x}" for number in missing)
                note = f"an operator accepted the loss of messages of batch {plan.sequence}: {names}"
                ledger.record_break(conn, job.id, note, sequence=plan.sequence, now=now)
    elif gaps := kept_gaps(conn, job.id):
        give_up(conn, job, gaps, "an operator accepted the loss", now=now)
    else:
        drop_received(conn, job.id, run_state.load_plans(conn, job.id), now=now, note=_RESET)
        ledger.record_break(
            conn, job.id, "an operator accepted the loss of messages that are gone at the source", now=now
        )
        run_state.clear_receiving_log(conn, job.id)
        run_state.write_marks(conn, job.id, [Mark(RESUME, "earliest")], now=0)
    run_state.revive(conn, job.id)
    return True


def missing_by(error: Exception) -> tuple[Gap, ...]:
    """The gaps that an error of a source tells of; none where the source cannot tell."""
    return error.gaps if isinstance(error, PositionLost) and error.number == _SOURCE_LOST else ()


def gives_up(job: JobDef, error: Exception) -> bool:
    """Whether the job goes on behind what the error says is missing, without an operator."""
    return bool(missing_by(error)) and on_missing(job) is OnMissing.CONTINUE


def missed(conn: sa.Connection, job: JobDef, error: Exception, *, now: float) -> MessagesMissing | None:
    """Keep what a job misses that ends with ``error``, for the operator who may accept it; what there is to tell."""
    if not job.propagation_type.from_link:
        return None
    gaps = missing_by(error)
    news = keep_gaps(conn, job.id, gaps, now=now)
    if gaps and not news:
        return None
    if not gaps:
        if not isinstance(error, PositionLost) or error.number != _SOURCE_LOST:
            return None
        gaps = (Gap("", None, None, error.cause),)
    return MessagesMissing(job.name, job.source, gaps, stopped(job.name))


def give_up(conn: sa.Connection, job: JobDef, gaps: Sequence[Gap], why: str, *, now: float) -> MessagesMissing:
    """Let a job go on behind what is missing at its source, and write down what that was; ``why``: who decided it.

    The event is in the hub with the transaction, and is returned for the log.
    """
    drop_received(conn, job.id, run_state.load_plans(conn, job.id), now=now, note=why)
    event = MessagesMissing(job.name, job.source, tuple(gaps), went_on(gaps, why))
    again = [gap.partition for gap in gaps if begins_again(gap)]
    ledger.record_break(conn, job.id, read_again(f"{why}: {ranges_of(gaps)}", again), now=now)
    pass_gaps(conn, job.id, gaps, now=now)
    run_state.add_event(
        conn,
        agent_name=job.agent,
        level=logging.getLevelName(event.level),
        name=event.name,
        object_name=event.object,
        text=event.text(),
        now=now,
    )
    return event


def drop_received(conn: sa.Connection, job_id: int, plans: Sequence[Plan], *, now: float, note: str) -> None:
    """Drop plans of a job from link to link: what the hub keeps for them was never so. Their messages come again."""
    if not plans:
        return
    for plan in plans:
        run_state.forget_keys(conn, job_id, unpacked(plan.detail)["y"] if plan.detail else ())
    ledger.record_returned(conn, job_id, [(plan.sequence, ()) for plan in plans], now=now, note=note)
    run_state.delete_plans(conn, job_id, [plan.sequence for plan in plans])


def _reset_through(conn: sa.Connection, job: JobDef, now: float) -> None:
    """The log that failed is taken as it is: the sending log, or the receiving log."""
    row = run_state.job_row(conn, job.id)
    drop_received(conn, job.id, run_state.load_plans(conn, job.id), now=now, note=_RESET)
    if _SENDING_LOG in run_state.last_error(conn, job.id):
        note = "an operator accepted the sending log as it is"
        ledger.record_break(conn, job.id, note, sequence=row.plan_sequence, now=now)
        run_state.forget_log(conn, job.id, reset=True)
    else:
        note = "an operator cleared the receiving log"
        ledger.record_break(conn, job.id, note, sequence=row.plan_sequence, now=now)
        run_state.clear_receiving_log(conn, job.id)


def _release_plans(conn: sa.Connection, job: JobDef, now: float) -> None:
    queue = transfer.resolve(conn, job.source)
    consumer = job.subscriber if queue.multiple_consumers else None
    plans = run_state.load_plans(conn, job.id)
    transfer.release(conn, queue, consumer, [message_id for plan in plans for message_id in plan.ids])
    ended = [(plan.sequence, plan.ids) for plan in plans]
    ledger.record_returned(conn, job.id, ended, now=now, note="an operator reset the sending log")
    run_state.delete_plans(conn, job.id, [plan.sequence for plan in plans])
