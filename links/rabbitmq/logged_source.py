"""Reading a RabbitMQ queue exactly once, without message ids: acknowledgements and a record in one transaction.

See :mod:`links.rabbitmq.receiving_log` for how redelivered messages are distinguished from new ones. The commit of one
batch is awaited when the next one is settled, so that the broker and the hub work at the same time.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from mgw.links.contract import Backlog, Batch, JobUse
from mgw.links.rabbitmq.conditions import look_at_queue
from mgw.links.rabbitmq.connection import Session
from mgw.links.rabbitmq.errors import alarm
from mgw.links.rabbitmq.frames import Incoming, ack_frame, commit_frame
from mgw.links.rabbitmq.knowledge import Knowledge
from mgw.links.rabbitmq.log_queue import LogQueue
from mgw.links.rabbitmq.receiving_log import LogAhead, LogBehind, ReceivingLog
from mgw.links.rabbitmq.settings import Settings
from mgw.links.rabbitmq.source import RabbitSource
from mgw.links.rabbitmq.source_plan import SourcePlan
from mgw.transforms.amqp.common import EXPIRATION
from mgw.transforms.amqp.identity import content_digest
from mgw.transforms.errors import LinkTimeout, PositionLost

__all__ = ["LoggedSource"]

_LOGGER = logging.getLogger("mgw.rabbitmq")
_LOOK_SECONDS = 0.25  # how often a count is repeated that is too small


class LoggedSource(RabbitSource):
    """A source that suppresses what the hub has already. Reads alone, and holds a lock at the broker."""

    def __init__(self, settings: Settings, use: JobUse, plan: SourcePlan, template: str, knowledge: Knowledge) -> None:
        super().__init__(settings, use, plan, knowledge)
        self._log_queue = LogQueue(template, use, knowledge)
        self._policies = knowledge.policies
        self._log: ReceivingLog
        self._committing: int | None = None  # sequence whose transaction is not answered yet

    def _new_session(self) -> Session:
        self._committing = None
        return Session(self._settings, f"{self._use.agent} {self._use.job} in", committed=self._committed)

    def _committed(self) -> None:
        sequence, self._committing = self._committing, None
        if sequence is not None:
            self._log.acknowledged(sequence)

    def _shut_out(self, session: Session) -> None:
        self.fence.take(session)
        self.fence.await_consumers(session, self._plan.queue)

    def _subscribe(self, session: Session, positions: Mapping[str, str]) -> None:
        if self._stream:  # its offsets are all the log it needs
            super()._subscribe(session, positions)
            return
        queue = self._log_queue
        queue.check(session)
        with session.calling("connect"):
            session.channel.tx_select()
        facts = look_at_queue(session, self._plan.queue, self._policies.read(session.settings))
        if facts.leaves:
            _LOGGER.warning("job %s: %s; messages delivered again are stored again", self._use.job, facts.leaves)
        super()._subscribe(session, positions)
        known = positions.get("seq")
        record = queue.read(session, beyond=int(known.partition(":")[0]) if known else None)
        try:
            # A message that left the queue leaves its digest behind, which would suppress an equal one: rather twice.
            sure = not facts.leaves and (record is None or record.sure)
            self._log = ReceivingLog(positions, None if record is None else record.sequence, sure=sure)
        except LogAhead as error:
            raise self._mismatch(
                416, f"it is ahead of the hub ({error}): the hub was restored from a backup"
            ) from error
        except LogBehind as error:
            raise self._mismatch(
                417, f"records are missing ({error}): it was purged, re-created or consumed by somebody else"
            ) from error
        except ValueError as error:
            raise self._mismatch(417, f"the receiving log in the hub cannot be read ({error})") from error
        if self._log.awaited:
            self._check_awaited(session)

    def _check_awaited(self, session: Session) -> None:
        """Make sure that the messages that must come again can come: nobody else acknowledged them.

        Their digests would else suppress equal messages that are new.

        Raises:
            PositionLost: the queue holds fewer.
        """
        clock, queue = self._use.clock, self._plan.queue
        deadline = clock.monotonic() + self._settings.answer_timeout  # for what an earlier connection held
        while True:
            with session.calling("connect"):
                ready = session.channel.queue_declare(queue, passive=True).method.message_count
            held = ready + len(session.scanner.deliveries)
            if held >= self._log.awaited:
                return
            if clock.monotonic() >= deadline:
                break
            session.pump(_LOOK_SECONDS, _not_yet, "connect")
        raise PositionLost(
            f"foreign queue {self._use.endpoint.full_name}: messages that the hub stored and did not acknowledge are "
            f"gone from queue {queue!r}",
            link=self._settings.link,
            operation="connect",
            cause=f"{self._log.awaited} must come again and it holds {held}: it was purged, re-created or read by "
            "somebody else",
            cure="find out who did; then, to continue with what is left: mgw"
            f" agents cleanup RESET_SUB_MISSING_MESSAGE {self._use.job}",
            number=415,
        )

    def _mismatch(self, number: int, cause: str) -> PositionLost:
        return PositionLost(
            f"job {self._use.job}: log queue {self._log_queue.name!r} does not match the receiving log of the hub",
            link=self._settings.link,
            operation="connect",
            cause=cause,
            cure="compare both queues, then run mgw agents cleanup RESET_SUB_MISSING_LOG_REC with the job's name; the "
            "messages read last may arrive twice",
            number=number,
        )

    def _batch(self, items: Sequence[Incoming]) -> Batch:
        if self._stream:
            return super()._batch(items)
        knows = self._log.knows
        digests = [content_digest(item[4], item[5], item[2], item[3]) for item in items]
        batch = super()._batch(items)
        deliveries = batch.deliveries
        if self._log.awaited:
            deliveries = [
                delivery._replace(duplicate=True) if delivery.redelivered and knows(digest) else delivery
                for delivery, digest in zip(deliveries, digests, strict=True)
            ]
        kept = [digest for item, digest in zip(items, digests, strict=True) if not _expires(item[4])]
        positions, marks = self._log.batch(kept)
        return Batch(deliveries, positions, (batch.token, self._log.sequence), marks, alone=True)

    def settle(self, batch: Batch) -> None:
        """See :meth:`mgw.links.contract.Source.settle`."""
        if self._stream:
            super().settle(batch)
            return
        session = self._connected("settle")
        session.check("settle")
        if batch.token is None:
            return
        self._await_commit(session)
        tag, sequence = batch.token
        pieces = [ack_frame(session.number, tag, multiple=True)]
        self._log_queue.add_frames(pieces, sequence, session.frame_max)
        pieces.append(commit_frame(session.number))
        self._committing = sequence
        session.write(b"".join(pieces))
        session.pump(0.0, _at_once, "settle")

    def await_settled(self, seconds: float) -> None:
        """See :class:`mgw.links.contract.AnswersSettled`."""
        if self._stream:
            super().await_settled(seconds)
        else:
            self._connected("settle").await_answer(seconds, lambda: self._committing is None, "settle")

    def backlog(self) -> Backlog | None:
        """See :meth:`mgw.links.contract.Source.backlog`; the channel answers nothing while it commits."""
        self._await_commit(self._connected("backlog"))
        return super().backlog()

    def _await_commit(self, session: Session) -> None:
        if self._committing is None:
            return
        seconds = self._settings.answer_timeout
        session.await_answer(seconds, lambda: self._committing is None, "settle")
        if self._committing is not None:
            blocked = f"the broker is blocked by an alarm ({session.blocked})" if session.blocked else ""
            session.suspect()
            raise LinkTimeout(
                f"foreign queue {self._use.endpoint.full_name}: RabbitMQ did not commit acknowledgements "
                f"within {seconds:g} s",
                link=self._settings.link,
                operation="settle",
                cause=blocked or "the broker is overloaded or stuck",
                cure="check the broker; AMQP_AnswerTimeout sets the limit",
            ).limited(alarm(session.blocked))


def _expires(properties: bytes) -> bool:
    """Whether the message may expire before it comes again; its digest would then suppress an equal one instead."""
    return bool(int.from_bytes(properties[:2]) & EXPIRATION)


def _not_yet() -> bool:
    return False


def _at_once() -> Any:
    return True
