"""What a job can promise at RabbitMQ, from what the broker says now: the first condition that fails decides."""

from __future__ import annotations

from mgw.links.contract import Direction, Guarantee, GuaranteeReport, JobUse
from mgw.links.log_preparation import prepared_by
from mgw.links.rabbitmq.conditions import Answers, QueueFacts, look_at_exchange, look_at_queue
from mgw.links.rabbitmq.connection import Session
from mgw.links.rabbitmq.destination import DestinationPlan
from mgw.links.rabbitmq.fence import Fence
from mgw.links.rabbitmq.job_queue import collect
from mgw.links.rabbitmq.knowledge import Knowledge
from mgw.links.rabbitmq.log_queue import LogQueue
from mgw.links.rabbitmq.management import Policies
from mgw.links.rabbitmq.source import is_stream
from mgw.links.rabbitmq.source_plan import SourcePlan
from mgw.transforms.errors import LinkRefused

__all__ = ["look_at_transactions", "report_destination", "report_source"]

_TWICE = "a batch may be sent twice after a failure; receivers that drop a repeated message-id see it once"
_UNTRANSACTED = (
    "RabbitMQ commits a transaction although a quorum queue refused its messages, so the job sends with confirmations "
    "and keeps no log"
)


def report_source(
    session: Session, use: JobUse, plan: SourcePlan, template: str | None, *, answers: Answers, knowledge: Knowledge
) -> GuaranteeReport:
    """What a job that reads can promise; ``template`` names its log queue. What was found out before is in ``answers``
    (in this attempt of the job) and ``knowledge``.

    Raises:
        LinkError: the queue or the log queue cannot be used; or it is a stream, and was registered as another type.
    """
    if plan.exchange is not None:
        collect(session, use, plan)
    else:
        with session.calling("verify"):
            session.channel.queue_declare(plan.queue, passive=True)
        streams = answers.streams
        if plan.queue_type == "auto" and plan.queue not in streams:
            streams[plan.queue] = is_stream(session, plan.queue)
        if plan.queue_type == "stream" or streams.get(plan.queue):
            return GuaranteeReport(Guarantee.EXACT)
    policies = knowledge.policies.read(session.settings)
    facts = look_at_queue(session, plan.queue, policies, answers)
    if facts.known and facts.type == "stream":
        raise LinkRefused(
            f"foreign queue {use.endpoint.full_name} cannot be read as a {plan.queue_type} queue",
            link=session.settings.link,
            operation="verify",
            cause=f"{plan.queue!r} is a stream: the job would begin at its end at every connect, and never get what "
            "came before",
            cure="register it with AMQP_QueueType auto or stream",
        )
    passed = _passed(session, use, plan, facts, answers)
    if lost := facts.transient or facts.gives_up:
        return GuaranteeReport(Guarantee.AT_MOST_ONCE, _joined(lost, passed))
    if plan.unique_ids:
        note = "for messages with a message-id, unique as AMQP_UniqueIds declares"
        return GuaranteeReport(Guarantee.EXACT, _joined(note, passed))
    if template is None:
        note = (
            "the queue has neither unique message ids (AMQP_UniqueIds) nor a receiving log (inbound_log_queue), "
            "so a batch may arrive again after a failure"
        )
        cure = "" if plan.dead_letters or facts.leaves else prepared_by(session.settings.link)
        return GuaranteeReport(Guarantee.AT_LEAST_ONCE, _joined(note + cure, passed))
    if failed := _unproven(session, plan, facts):
        return GuaranteeReport(Guarantee.AT_LEAST_ONCE, _joined(failed, passed))
    log = LogQueue(template, use, knowledge)
    log.check(session)
    log.check_policies(session, policies)
    alone = facts.type != "quorum" or facts.single_active_consumer
    return GuaranteeReport(
        Guarantee.EXACT_UNLESS_BROKER_CRASH,
        _joined(
            "after a restart of the broker messages may arrive again and are stored again; presumes, as "
            "AMQP_DeadLetters "
            "FALSE declares, that no message leaves the queue unacknowledged",
            "" if alone else f"presumes that nobody else reads quorum queue {plan.queue}, which refuses no reader",
            facts.unseen,
        ),
    )


def _unproven(session: Session, plan: SourcePlan, facts: QueueFacts) -> str:
    """Why a receiving log does not prove what came before, "" if it does."""
    failed = "messages may leave the queue unacknowledged (AMQP_DeadLetters)" if plan.dead_letters else facts.leaves
    if failed:
        return f"{failed}, so the broker's redelivered flag does not prove that one came before"
    if facts.type == "quorum" and session.settings.nodes.several:
        return f"{plan.queue} is a quorum queue on several nodes, and a commit does not wait for its acknowledgements"
    return ""


def report_destination(
    session: Session,
    use: JobUse,
    plan: DestinationPlan,
    template: str | None,
    *,
    answers: Answers,
    knowledge: Knowledge,
) -> GuaranteeReport:
    """What a job that writes can promise; ``template`` names its log queue. What was found out before is in ``answers``
    (in this attempt of the job) and ``knowledge``.

    Raises:
        LinkError: the queue, the exchange or the log queue cannot be used.
    """
    with session.calling("verify"):
        if plan.queue is not None:
            session.channel.queue_declare(plan.queue, passive=True)
        elif plan.exchange:
            session.channel.exchange_declare(plan.exchange, passive=True)
    policies = knowledge.policies.read(session.settings)
    lost, weak, unseen, facts = _risk_chosen(plan), "", policies.unseen, None
    if plan.queue is not None:
        facts = look_at_queue(session, plan.queue, policies, answers)
        lost, weak, unseen = lost or facts.transient or facts.drops, facts.refuses, facts.unseen
    elif plan.exchange:
        exchange = look_at_exchange(session, plan.exchange, policies)
        unseen = exchange.unseen
        if exchange.alternate:
            weak = (
                f"exchange {plan.exchange} has the alternate exchange {exchange.alternate} ({exchange.origin}), which "
                "receives what cannot be routed: such messages count as delivered"
            )
    untransacted = answers.untransacted = _untransacted(session, plan, facts) or weak
    if lost:
        return GuaranteeReport(Guarantee.AT_MOST_ONCE, lost)
    if template is None or untransacted:
        why = untransacted if template else ""
        cure = "" if untransacted else prepared_by(session.settings.link)
        return GuaranteeReport(Guarantee.AT_LEAST_ONCE, _joined(weak, "" if why == weak else why, _TWICE + cure))
    log = LogQueue(template, use, knowledge)
    log.check(session)
    log.check_policies(session, policies)
    return GuaranteeReport(
        Guarantee.EXACT_UNLESS_BROKER_CRASH,
        _joined(
            "after a restart of the broker what was not completed is sent again; receivers that drop "
            "a repeated message-id see it once",
            unseen,
        ),
    )


def look_at_transactions(session: Session, plan: DestinationPlan, answers: Answers) -> str:
    """Why the job may not send in transactions, "" if it may; kept in ``answers`` for the attempt.

    A quorum queue may refuse messages, while its leader changes or when it is full. RabbitMQ (3.10 and later) commits
    their transaction all the same, and says nothing; with confirmations it says so (``basic.nack``). On several nodes a
    record may survive on one where the messages of its transaction are lost on another.

    Raises:
        LinkError: the connection ended.
    """
    if answers.untransacted is None:
        facts = None if plan.queue is None else look_at_queue(session, plan.queue, Policies(), answers)
        answers.untransacted = _untransacted(session, plan, facts)
    return answers.untransacted


def _untransacted(session: Session, plan: DestinationPlan, facts: QueueFacts | None) -> str:
    if session.settings.nodes.several:
        return "a log queue proves nothing on several nodes, so the job sends with confirmations and keeps no log"
    declared = plan.queue_type in {"classic", "stream"}
    cure = "set AMQP_QueueType to classic if"
    if facts is None:
        where = f"exchange {plan.exchange}" if plan.exchange else "the default exchange"
        return "" if declared else f"a quorum queue may get what goes to {where} ({cure} none does): {_UNTRANSACTED}"
    if facts.known:
        return "" if facts.type in {"classic", "stream"} else f"{plan.queue} is a {facts.type} queue: {_UNTRANSACTED}"
    return "" if declared else f"{plan.queue} may be a quorum queue ({cure} it is none): {_UNTRANSACTED}"


def _risk_chosen(plan: DestinationPlan) -> str:
    """Which option has messages lost, "" if none."""
    mode = plan.rules.delivery_mode
    if mode != 2:
        chosen = "NON_PERSISTENT" if mode else "PRESERVE_MSG"
        return f"JMS_DeliveryMode is {chosen}: a restart of the broker loses messages of delivery-mode 1"
    return "" if plan.mandatory else "AMQP_Mandatory is FALSE: unroutable messages are lost"


def _passed(session: Session, use: JobUse, plan: SourcePlan, facts: QueueFacts, answers: Answers) -> str:
    """Why newer messages may pass older ones, "" if they may not.

    A connection that died unnoticed keeps what was sent ahead. The job's lock shuts it out, and so do queues that know
    one consumer only.
    """
    if facts.single_active_consumer or (plan.exclusive and facts.known and facts.type == "classic"):
        return ""
    if answers.fenced is None:
        answers.fenced = Fence(use, Direction.INBOUND, session.settings.heartbeat).permitted(session)
    if answers.fenced:
        return ""
    return (
        f"after a connection that died unnoticed newer messages may overtake up to {plan.prefetch} older ones: user "
        f"{session.settings.username!r} may not declare the lock of the job (configure permission on mgw[.]lock[.].*)"
    )


def _joined(*notes: str) -> str:
    return "; ".join(note for note in notes if note)
