"""Writing to RabbitMQ exactly once: batches and the record of the last one in one AMQP transaction.

The channel takes no new transaction while one is being committed, so batches wait meanwhile and the next transaction
takes all of them, up to a limit. RabbitMQ stores all of a transaction or nothing when the client dies; a transaction
of which it refuses a part stays stored in part. That is written into the log queue and ends the job, because neither
sending again nor leaving it is right: a person must compare. Only queues whose refusals it tells are written to in
this way (see :func:`mgw.links.rabbitmq.guarantee.look_at_transactions`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence

from mgw.links.contract import Direction, Encoded, JobUse, Recovered
from mgw.links.rabbitmq.conditions import Answers
from mgw.links.rabbitmq.connection import Session
from mgw.links.rabbitmq.destination import DestinationPlan, RabbitDestination
from mgw.links.rabbitmq.fence import Fence
from mgw.links.rabbitmq.frames import commit_frame, message_frames
from mgw.links.rabbitmq.guarantee import look_at_transactions
from mgw.links.rabbitmq.knowledge import Knowledge
from mgw.links.rabbitmq.log_queue import LogQueue, Record
from mgw.links.rabbitmq.settings import Settings
from mgw.transforms.errors import Blame, DeliveryRejected, LinkError, LinkUnavailable

__all__ = ["LoggedDestination", "Transactions"]

TRANSACTION_MESSAGES = 1000  # one transaction takes batches until it has so many


class Transactions:
    """Which sequences are stored: one transaction at a time, the batches behind it wait."""

    def __init__(self) -> None:
        self.done: int | None = None  # highest sequence of the last committed transaction
        self.committing: int | None = None  # highest sequence of the transaction on its way
        self.refusal = ""
        self.blame = Blame.DESTINATION
        self.partial: int | None = None  # highest sequence of the refused transaction, which may be committed by now
        self._waiting: deque[tuple[int, Sequence[Encoded]]] = deque()

    @property
    def in_flight(self) -> bool:
        """Whether a sequence waits for its commit."""
        return self.committing is not None or bool(self._waiting)

    @property
    def answered(self) -> bool:
        """A transaction is refused as a whole."""
        return True

    def add(self, sequence: int, messages: Sequence[Encoded]) -> None:
        """A batch is to be sent."""
        self._waiting.append((sequence, messages))

    def begin(self) -> list[Encoded]:
        """The messages of the next transaction; none while one is on its way, after a refusal, or with none waiting."""
        if self.committing is not None or self.refusal or not self._waiting:
            return []
        sequence, messages = self._waiting.popleft()
        taken = list(messages)
        while self._waiting and len(taken) + len(self._waiting[0][1]) <= TRANSACTION_MESSAGES:
            sequence, messages = self._waiting.popleft()
            taken += messages
        self.committing = sequence
        return taken

    def committed(self) -> None:
        """The broker has committed; a transaction of which it refused a part does not count."""
        sequence, self.committing = self.committing, None
        if not self.refusal:
            self.done = sequence

    def refuse(self, why: str, blame: Blame = Blame.DESTINATION) -> None:  # noqa: ARG002  stored in part: no message
        """The broker refused a message of the transaction on its way."""
        if not self.refusal:
            self.refusal = why
            self.partial = self.committing


class LoggedDestination(RabbitDestination):
    """A destination that keeps the sending log; one per job can be connected."""

    def __init__(
        self,
        settings: Settings,
        use: JobUse,
        plan: DestinationPlan,
        template: str,
        *,
        knowledge: Knowledge,
        answers: Answers,
    ) -> None:
        super().__init__(settings, use, plan)
        self._answers = answers
        self._log_queue = LogQueue(template, use, knowledge)
        self.fence = Fence(use, Direction.OUTBOUND, settings.heartbeat)
        self._transactions = Transactions()
        self._record: Record | None = None

    def _new_session(self) -> Session:
        self._state = self._transactions = Transactions()
        purpose = f"{self._use.agent} {self._use.job} out"
        return Session(self._settings, purpose, returned=self._returned, committed=self._committed)

    def _prepare(self, session: Session) -> None:
        if why := look_at_transactions(session, self._plan, self._answers):
            raise self._not_transacted(why, "connect")
        queue = self._log_queue
        queue.check(session)
        self.fence.take(session)
        with session.calling("connect"):
            session.channel.tx_select()
        self._record = queue.read(session)
        if self._record is not None and self._record.partial:
            raise self._partial(self._record.partial, "its log queue says so since an earlier refusal")

    def _not_transacted(self, why: str, operation: str) -> LinkUnavailable:
        return LinkUnavailable(
            f"foreign queue {self._use.endpoint.full_name} cannot be written to in transactions",
            link=self._settings.link,
            operation=operation,
            cause=why,
            cure="nothing: the job connects again by itself, and sends with confirmations then",
        )

    def recovered(self) -> Recovered | None:
        """See :meth:`mgw.links.contract.Destination.recovered`."""
        record = self._record
        return Recovered(None) if record is None else Recovered(record.sequence or None, record.sure)

    def publish(self, sequence: int, messages: Sequence[Encoded]) -> None:
        """See :meth:`mgw.links.contract.Destination.publish`."""
        session = self._connected("publish")
        try:
            session.check("publish")
            if why := self._answers.untransacted:  # the queue is another one than at connect
                raise self._not_transacted(why, "publish")
            if not self._transactions.in_flight:
                self._last_progress = self._use.clock.monotonic()
            self._transactions.add(sequence, messages)
            self._place(sequence, messages)
            self._begin(session)
            session.pump(0.0, _at_once, "publish")
        except DeliveryRejected as error:
            raise self._refused(session, error) from error

    def stored(self, sequence: int, count: int) -> Collection[int]:  # noqa: ARG002
        """See :meth:`mgw.links.contract.Destination.stored`; the log says it."""
        return ()

    def _begin(self, session: Session) -> None:
        messages = self._transactions.begin()
        sequence = self._transactions.committing
        if sequence is None or not messages:
            return
        pieces: list[bytes] = []
        message_frames(pieces, session.number, session.frame_max, messages)
        self._log_queue.add_frames(pieces, sequence, session.frame_max)
        pieces.append(commit_frame(session.number))
        session.write(b"".join(pieces))

    def _committed(self) -> None:
        self._transactions.committed()
        if self._session is not None:
            self._begin(self._session)

    def confirmed(self, wait: float) -> int | None:
        """See :meth:`mgw.links.contract.Destination.confirmed`."""
        try:
            return super().confirmed(wait)
        except DeliveryRejected as error:
            raise self._refused(self._connected("publish"), error) from error

    def _refused(self, session: Session, error: DeliveryRejected) -> DeliveryRejected:
        """Note at the broker that the transaction on its way is there in part, before anybody takes its record."""
        state = self._transactions
        if not state.refusal and "partial tx" not in error.cause:
            return error  # nothing was committed
        state.refuse(error.cause)
        sequence = state.partial
        if sequence is None:
            return error
        cause = error.cause
        try:
            if not session.failed:  # the record of the transaction comes before ours
                session.pump(self._settings.answer_timeout, lambda: state.committing is None, "publish")
            self._log_queue.write(session, Record(sequence, partial=sequence))
        except LinkError as problem:
            cause = f"{cause}; and that could not be written to its log queue: {problem.text()}"
        return self._partial(sequence, cause)

    def _partial(self, sequence: int, cause: str) -> DeliveryRejected:
        return DeliveryRejected(
            f"foreign queue {self._use.endpoint.full_name}: RabbitMQ stored only part of the transaction up to batch "
            f"{sequence}",
            link=self._settings.link,
            operation="publish",
            cause=cause,
            cure=f"correct the queue, its limits or the bindings; compare both queues; purge {self._log_queue.name}, "
            f"then mgw agents cleanup RESET_SUB_MISSING_LOG_REC {self._use.job} sends the batches again",
            number=417,
        )


def _at_once() -> bool:
    return True
