"""Opens a queue that the exception desk reads: what kind it is, and whether looking can do harm to its messages."""

from __future__ import annotations

from mgw.links.contract import JobUse
from mgw.links.rabbitmq.conditions import Answers, QueueFacts, look_at_queue
from mgw.links.rabbitmq.connection import Session
from mgw.links.rabbitmq.errors import missing
from mgw.links.rabbitmq.held_queue import HeldAmqpQueue
from mgw.links.rabbitmq.held_quorum_queue import HeldQuorumQueue
from mgw.links.rabbitmq.kept_stream import KeptStream
from mgw.links.rabbitmq.knowledge import Knowledge
from mgw.links.rabbitmq.settings import Settings
from mgw.transforms.amqp import Rules
from mgw.transforms.errors import LinkRefused, QueueMissing

__all__ = ["open_queue"]

_HARM = "looking through it could cost messages"


def open_queue(
    settings: Settings, use: JobUse, rules: Rules, knowledge: Knowledge, answers: Answers
) -> HeldAmqpQueue | KeptStream:
    """The queue of the use, connected.

    Raises:
        LinkError: see :meth:`mgw.links.reading_back.ReadsBack.exceptions_reader`.
    """
    session = Session(settings, f"{use.agent} {use.job} exceptions")
    try:
        return _opened(session, settings, use, rules, knowledge, answers)
    except BaseException as error:
        session.close()
        if isinstance(error, QueueMissing):
            raise missing(use, error) from error
        raise


def _opened(  # noqa: PLR0917
    session: Session, settings: Settings, use: JobUse, rules: Rules, knowledge: Knowledge, answers: Answers
) -> HeldAmqpQueue | KeptStream:
    answers.cluster = session.cluster
    queue = use.endpoint.provider_queue
    with session.calling("connect"):
        there = session.channel.queue_declare(queue, passive=True).method
    facts = look_at_queue(session, queue, knowledge.policies.read(settings), answers)
    if not facts.known:
        raise _refused(
            use,
            _HARM,
            "the broker does not say what kind of queue it is: the user lacks the configure permission on it",
            "grant it",
        )
    if facts.type == "stream":
        return KeptStream(settings, use, queue, rules, session)
    limit = _delivery_limit(use, facts) if facts.type == "quorum" else None
    if answers.queues[queue][1]:
        raise _refused(
            use,
            _HARM,
            "it is an auto-delete queue, which RabbitMQ deletes when its last reader goes",
            "use a durable queue; or read it with a job from it into a queue of the hub",
        )
    if there.consumer_count:
        raise _refused(
            use,
            "its messages cannot be held",
            f"{there.consumer_count} consumer(s) read it, and would get newer messages first",
            "stop them first",
        )
    waiting = int(there.message_count)
    if facts.type == "quorum":
        return HeldQuorumQueue(settings, use, queue, rules, session, waiting=waiting, delivery_limit=limit)
    exclusive = not facts.single_active_consumer  # such a queue takes no exclusive reader
    return HeldAmqpQueue(settings, use, queue, rules, session, waiting=waiting, exclusive=exclusive)


def _delivery_limit(use: JobUse, facts: QueueFacts) -> int | None:
    """After how many deliveries a message that is given back leaves the queue; None: never."""
    if facts.policies.unseen:
        raise _refused(
            use,
            _HARM,
            "it is a quorum queue, which counts each look as a delivery and drops a message at its delivery limit; a "
            f"policy may set one, and {facts.policies.unseen}",
            "name the management API of the broker in the option AMQP_ManagementURL of the link; or use a classic "
            "queue or a stream",
        )
    return facts.delivery_limit


def _refused(use: JobUse, what: str, cause: str, cure: str) -> LinkRefused:
    return LinkRefused(
        f"foreign queue {use.endpoint.full_name}: {what}",
        link=use.endpoint.link,
        operation="read",
        cause=cause,
        cure=cure,
    )
