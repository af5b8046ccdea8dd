"""Creates the log queues of a link's jobs at RabbitMQ, when an operator asks for it."""

from __future__ import annotations

from collections.abc import Sequence

from mgw.links.contract import JobUse
from mgw.links.log_preparation import LogStep, LogVerb
from mgw.links.rabbitmq.conditions import Answers
from mgw.links.rabbitmq.connection import Session
from mgw.links.rabbitmq.destination import DestinationPlan
from mgw.links.rabbitmq.guarantee import look_at_transactions
from mgw.links.rabbitmq.knowledge import Knowledge
from mgw.links.rabbitmq.log_queue import ARGUMENTS, LogQueue
from mgw.links.rabbitmq.settings import Settings
from mgw.links.rabbitmq.source import is_stream
from mgw.links.rabbitmq.source_plan import SourcePlan
from mgw.transforms.errors import LinkRefused, QueueMissing

__all__ = ["prepare"]

_FORM = ", ".join(["durable", *(f"{name}={value}" for name, value in ARGUMENTS.items())])


def prepare(
    settings: Settings,
    logs: Sequence[tuple[LogQueue, JobUse, SourcePlan | DestinationPlan]],
    knowledge: Knowledge,
    *,
    dry_run: bool,
) -> Sequence[LogStep]:
    """See :class:`mgw.links.log_preparation.PreparesLogs`."""
    session = Session(settings, "prepare")
    try:
        policies = knowledge.policies.read(settings)
        owners: dict[str, str] = {}
        steps, missing = [], []
        for log, use, plan in logs:
            if _needs_none(session, plan):
                continue
            if (other := owners.setdefault(log.name, use.job)) != use.job:
                raise _shared(settings, log, other, use.job)
            log.check_policies(session, policies)
            there = log.exists(session)
            steps.append(LogStep(LogVerb.NONE if there else LogVerb.CREATE, f"queue {log.name}", _FORM, (use.job,)))
            if not there:
                missing.append(log)
        for log in () if dry_run else missing:
            log.create(session)
    finally:
        session.close()
    return steps


def _needs_none(session: Session, plan: SourcePlan | DestinationPlan) -> bool:
    """Whether the job reads a stream, whose offsets are all the log it needs, or may not send in transactions. A queue
    that is missing is no stream, nor is one that somebody reads alone."""
    if isinstance(plan, DestinationPlan):
        return bool(look_at_transactions(session, plan, Answers()))
    if plan.exchange is not None or plan.queue_type != "auto":
        return plan.queue_type == "stream"
    try:
        return is_stream(session, plan.queue)
    except (QueueMissing, LinkRefused):
        return False


def _shared(settings: Settings, log: LogQueue, one: str, other: str) -> LinkRefused:
    return LinkRefused(
        f"link {settings.link}: log queue {log.name!r} cannot serve two jobs",
        link=settings.link,
        operation="prepare",
        cause=f"jobs {one} and {other} would write to it",
        cure="write {job} in the name of the link's log queue, such as mgw.sent.{job}",
    )
