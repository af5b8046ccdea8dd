"""Reading from RabbitMQ: classic, quorum and priority queues, streams, and the queue of a topic job."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from pika import exceptions

from mgw.links.contract import BATCH_BYTES, EMPTY_BATCH, RESUME, Backlog, Batch, Delivery, Direction, JobUse, Position
from mgw.links.rabbitmq.connection import Session
from mgw.links.rabbitmq.end import End
from mgw.links.rabbitmq.errors import missing
from mgw.links.rabbitmq.fence import Fence
from mgw.links.rabbitmq.frames import Incoming, ack_frame
from mgw.links.rabbitmq.job_queue import bind_job_queue, declare_job_queue
from mgw.links.rabbitmq.knowledge import Knowledge
from mgw.links.rabbitmq.settings import Settings
from mgw.links.rabbitmq.source_plan import SourcePlan
from mgw.links.rabbitmq.stream_end import EMPTY, ShortStream, end_of
from mgw.transforms.amqp import HEADER_PREFIX, decode
from mgw.transforms.amqp.identity import content_digest, message_key
from mgw.transforms.errors import LinkRefused, LinkTimeout, LinkUnavailable, PositionLost, QueueMissing
from mgw.transforms.gap import Gap
from mgw.transforms.message import Message

__all__ = ["RabbitSource", "is_stream"]

_LOGGER = logging.getLogger("mgw.rabbitmq")

_OFFSET = HEADER_PREFIX + "x-stream-offset"
_PARTITION = "0"  # a stream is one log
_SILENCE = 60.0  # seconds without a message after which a stream is asked whether it has one
_ANSWER_SECONDS = 2.0  # in which it hands it out
_NEVER = 2**63  # no stream reaches that offset


def is_stream(session: Session, queue: str) -> bool:
    """Whether an existing queue is a stream.

    A passive declaration does not tell the type; asking for an offset does: other queues refuse it, and a stream that
    is read from its end on a channel that ends at once notices nothing.
    """
    with session.calling("connect"):
        channel = session.fresh_channel()
        try:
            channel.basic_qos(prefetch_count=1)
            channel.basic_consume(queue, _never, arguments={"x-stream-offset": "next"})
        except exceptions.ChannelClosedByBroker as error:
            if "x-stream-offset" in (error.reply_text or ""):
                return False
            raise
        channel._impl.close()  # pika's own close would reject messages that came meanwhile, which streams do not allow
        return True


class RabbitSource(End):
    """See :class:`mgw.links.contract.Source`."""

    def __init__(self, settings: Settings, use: JobUse, plan: SourcePlan, knowledge: Knowledge) -> None:
        super().__init__(settings, use)
        self._plan = plan
        self._short = knowledge.short_streams
        self._slot = settings.virtual_host, plan.queue, use.job
        self.fence = Fence(use, Direction.INBOUND, settings.heartbeat)
        self._stream = False
        self._stored: int | None = None  # offset of the last message handed out, or the hub's position
        self._position: str | None = None  # the same as the hub keeps it: the offset, and the digest of that message
        self._resuming = False  # the first message after connect proves that nothing in between is gone
        self._resume_until = 0.0
        self._begins: int | None = None  # where a job that has read nothing yet begins, until that is handed out
        self._warned = False
        self.silence = _SILENCE  # seconds
        self._heard = 0.0  # when the last message of a stream came, or was asked for
        self._unproven = False  # something was acknowledged since the broker answered last

    def connect(self, positions: Mapping[str, str]) -> None:
        """See :meth:`mgw.links.contract.Source.connect`."""
        plan = self._plan
        self._unproven = False
        session = self._session = self._new_session()
        try:
            if plan.exchange is not None:
                declare_job_queue(session, plan)
            else:
                with session.calling("connect"):
                    session.channel.queue_declare(plan.queue, passive=True)
            self._stream = plan.exchange is None and (
                plan.queue_type == "stream" or (plan.queue_type == "auto" and is_stream(session, plan.queue))
            )
            if not self._stream:  # a stream's reader takes nothing away from another
                self._shut_out(session)
            if plan.exchange is not None:
                bind_job_queue(session, plan)
            self._subscribe(session, positions)
        except BaseException as error:
            self.close()
            if isinstance(error, QueueMissing):
                raise missing(self._use, error) from error
            raise
        self._heard = self._use.clock.monotonic()

    def _new_session(self) -> Session:
        return Session(self._settings, f"{self._use.agent} {self._use.job} in")

    def _shut_out(self, session: Session) -> None:
        """Let no earlier connection of the job keep messages that this one then would get behind newer ones."""
        try:
            self.fence.take(session)
        except LinkRefused as error:
            _LOGGER.debug("%s", error)  # the guarantee's note says so
            return
        others = self.fence.await_consumers(session, self._plan.queue)
        if others and self._plan.exchange is not None:
            raise self._read_by_others(others)

    def _read_by_others(self, others: int) -> LinkUnavailable:
        return LinkUnavailable(
            f"job {self._use.job}: somebody else reads {self._plan.queue!r}, the job's own queue",
            link=self._settings.link,
            operation="connect",
            cause=f"it has {others} reader(s), each of which would get a part of the messages: another hub may "
            "have a job of this name on this virtual host",
            cure="give one of the jobs another name, or end the other reader; the job tries again by itself",
        )

    def _subscribe(self, session: Session, positions: Mapping[str, str]) -> None:
        plan = self._plan
        arguments: dict[str, Any] = {}
        if self._stream:
            known = positions.get(_PARTITION)
            self._position = known
            self._stored = int(known.partition(":")[0]) if known is not None else None
            self._begins = None
            if known is None and RESUME not in positions and plan.stream_offset == "next":
                self._begins = self._stored = end_of(session, plan.queue, _NEVER)
            self._resuming = self._stored is not None and self._stored != EMPTY
            self._resume_until = self._use.clock.monotonic() + self._settings.answer_timeout
            # Attached at the stored message itself: seeing it again proves that the stream is still the same and whole.
            start: str | int = "first" if RESUME in positions else plan.stream_offset
            if self._stored is not None:
                start = "first" if self._stored == EMPTY else self._stored
            arguments["x-stream-offset"] = start
        elif plan.priority:
            arguments["x-priority"] = plan.priority
        session.channel._impl.add_on_cancel_callback(lambda _frame: session.fail(self._cancelled()))
        with session.calling("connect"):
            session.channel.basic_qos(prefetch_count=plan.prefetch)
            session.channel.basic_consume(
                plan.queue, _never, exclusive=plan.exclusive and not self._stream, arguments=arguments
            )

    def _cancelled(self) -> QueueMissing:
        return QueueMissing(
            f"foreign queue {self._use.endpoint.full_name}: RabbitMQ ended the subscription of {self._plan.queue!r}",
            link=self._settings.link,
            operation="read",
            cause="the queue was deleted, or moved to another node",
            cure="create the queue again; the job reconnects by itself",
            number=434,
        )

    def _look_for_the_end(self, session: Session) -> None:
        """The stored message did not come: find out whether the stream ends before it.

        Raises:
            PositionLost: it does, and no member of the stream that was away explains it.
            LinkTimeout: nobody can tell yet.
        """
        stored, now = self._stored, self._use.clock.monotonic()
        assert stored is not None  # noqa: S101  # it is resumed there
        end = end_of(session, self._plan.queue, stored)
        if session.scanner.deliveries:
            return
        if end is None or end >= stored:
            raise self._not_resumed("the broker is slow", "the job tries again by itself")
        short, patience = self._short.seen(self._slot, stored, end, now), self._settings.answer_timeout
        if short.certain(now, patience):
            self._short.forget(self._slot)
            raise self._ends_early(short)
        raise self._not_resumed(
            f"{_end(end)}: it was re-created, or this node lacks its last messages for the moment",
            f"the job reports what is missing if this is still so after {short.wait(patience):g} s",
        )

    def _not_resumed(self, cause: str, cure: str) -> LinkTimeout:
        return LinkTimeout(
            f"foreign queue {self._use.endpoint.full_name}: the stream does not reach offset {self._stored}",
            link=self._settings.link,
            operation="read",
            cause=cause,
            cure=cure,
        )

    def _ends_early(self, short: ShortStream) -> PositionLost:
        queue = self._plan.queue
        cause = f"the stream {queue!r} ends before the stored offset {short.stored}: it was re-created, or lost its end"
        cause += " in a crash"
        gap = Gap(_PARTITION, short.stored + 1, None, f"{cause}; some messages may come twice")
        return self._lost(f"{cause} ({_end(short.end)})", gap)

    def read(self, max_messages: int, wait: float) -> Batch:
        """See :meth:`mgw.links.contract.Source.read`."""
        session = self._connected("read")
        if self._begins is not None:  # stored before anything is read: a failure before the first batch skips nothing
            before, self._position, self._begins = self._position, str(self._begins), None
            return Batch((), (Position(_PARTITION, before, self._position),), None)
        waiting = session.scanner.deliveries
        session.pump(0.0 if waiting else wait, lambda: waiting, "read")
        if not waiting:
            if self._resuming and self._use.clock.monotonic() > self._resume_until:
                self._look_for_the_end(session)
            if not waiting:
                return EMPTY_BATCH
        take = waiting.popleft
        items = [take() for _ in range(min(max_messages, len(waiting)))]
        if sum([len(item[5]) for item in items]) > BATCH_BYTES:
            kept = light(items)
            waiting.extendleft(reversed(items[kept:]))
            del items[kept:]
        return self._batch(items)

    def _batch(self, items: Sequence[Incoming]) -> Batch:
        now, rules, queue = self._use.clock.now(), self._plan.rules, self._plan.queue
        deliveries: list[Delivery] = []
        add, make = deliveries.append, tuple.__new__
        for tag, redelivered, exchange, key, properties, body in items:
            message, failure = decode(properties, body, exchange, key, redelivered, now, rules)
            add(make(Delivery, (message, failure, redelivered, f"{queue}#{tag}", False)))
        last: int = items[-1][0]
        if self._stream:
            return self._stream_batch(deliveries, items)
        if self._plan.unique_ids:
            return Batch(deliveries, (), last, ids=self._keys(items))
        return Batch(deliveries, (), last)

    def _keys(self, items: Sequence[Incoming]) -> list[str | None]:
        keys = [message_key(properties) for _, _, _, _, properties, _ in items]
        if None in keys and not self._warned:
            self._warned = True
            _LOGGER.warning(
                "foreign queue %s: a message has no message-id, though AMQP_UniqueIds says that all have one; "
                "such messages may arrive twice after a failure; cure: let every publisher set message-id",
                self._use.endpoint.full_name,
            )
        return keys

    def _stream_batch(self, deliveries: list[Delivery], items: Sequence[Incoming]) -> Batch:
        last: int = items[-1][0]
        self._heard = self._use.clock.monotonic()
        if self._resuming:
            self._check_resumed(_offset(deliveries[0].message), items[0])
            self._resuming = False
            self._short.forget(self._slot)
            deliveries = [found for found in deliveries if _offset(found.message) > (self._stored or 0)]
        if not deliveries:
            return Batch((), (), last)
        before, self._stored = self._position, _offset(deliveries[-1].message)
        if self._stored < 0:
            raise LinkUnavailable(
                f"foreign queue {self._use.endpoint.full_name}: {self._plan.queue!r} is not a stream",
                link=self._settings.link,
                operation="read",
                cause="its messages have no offset",
                cure="set the option AMQP_QueueType of the foreign queue to classic or quorum",
            )
        self._position = after = f"{self._stored}:{_digest(items[-1])}"
        queue = self._plan.queue
        named = [found._replace(origin=f"{queue}@{_offset(found.message)}") for found in deliveries]
        return Batch(named, (Position(_PARTITION, before, after),), last)

    def _check_resumed(self, offset: int, item: Incoming) -> None:
        """Make sure that the message at the stored offset is the one that was stored last.

        Raises:
            PositionLost: it is gone, or another one.
        """
        stored, queue = self._stored, self._plan.queue
        assert stored is not None  # noqa: S101  # set together
        digest = (self._position or "").partition(":")[2]
        if offset > stored + 1:
            cause = f"the stream {queue!r} now begins at offset {offset} (retention, or it was re-created)"
            gap = Gap(_PARTITION, stored + 1, offset - 1, cause, offset, str(offset - 1))
        elif offset == stored and digest and digest != _digest(item):
            cause = f"the message at offset {stored} of stream {queue!r} is another one: the stream was re-created, "
            cause += "or lost its end in a crash"
            gap = Gap(_PARTITION, stored + 1, None, f"{cause}; some messages may come twice")
        else:
            return
        raise self._lost(cause, gap)

    def _lost(self, cause: str, gap: Gap) -> PositionLost:
        return PositionLost(
            f"foreign queue {self._use.endpoint.full_name}: messages after offset {self._stored} are gone",
            link=self._settings.link,
            operation="read",
            cause=cause,
            cure="restore the stream; or, to continue with the oldest message that is left: mgw"
            f" agents cleanup RESET_SUB_MISSING_MESSAGE {self._use.job}",
            number=415,
        ).missing(gap)

    def settle(self, batch: Batch) -> None:
        """See :meth:`mgw.links.contract.Source.settle`."""
        session = self._connected("settle")
        session.check("settle")
        if batch.token is not None:
            session.write_now(ack_frame(session.number, batch.token, multiple=True))
            self._unproven = True

    def await_settled(self, seconds: float) -> None:
        """See :class:`mgw.links.contract.AnswersSettled`. An acknowledgement has no answer, but a question behind it
        has; a stream is read on from its position."""
        if self._unproven and not self._stream:
            self._ask(self._connected("settle"), "settle", seconds)

    def _ask(self, session: Session, operation: str, most: float | None = None) -> int:
        """How many messages wait, asked on the channel of the acknowledgements."""
        with session.calling(operation, most):
            answer = session.channel.queue_declare(self._plan.queue, passive=True)
        self._unproven = False
        return int(answer.method.message_count)

    def backlog(self) -> Backlog | None:
        """See :meth:`links.contract.Source.backlog`; streams cannot tell, so their silence is looked into instead."""
        session = self._connected("backlog")
        if self._stream:
            self._check_silence(session)
            return None
        waiting = self._ask(session, "backlog")
        return Backlog(waiting + len(session.scanner.deliveries))

    def _check_silence(self, session: Session) -> None:
        """After a minute without a message: ask the stream, on another channel, for the one after the last.

        Raises:
            LinkTimeout: it is there, and was not handed out.
        """
        now = self._use.clock.monotonic()
        if self._stored is None or session.scanner.deliveries or now - self._heard < self.silence:
            return
        self._heard = now
        came: list[bool] = []
        with session.calling("backlog"):
            channel = session.fresh_channel()
            channel.basic_qos(prefetch_count=1)
            channel._impl.basic_consume(
                self._plan.queue, lambda *_: came.append(True), arguments={"x-stream-offset": self._stored + 1}
            )
        session.pump(_ANSWER_SECONDS, lambda: came or session.scanner.deliveries, "backlog")
        with session.calling("backlog"):
            channel._impl.close()
        if came:  # perhaps it was published just now, and is on its way to both
            session.pump(_ANSWER_SECONDS, lambda: session.scanner.deliveries, "backlog")
        if came and not session.scanner.deliveries:
            raise LinkTimeout(
                f"foreign queue {self._use.endpoint.full_name}: messages wait after offset {self._stored}, but none "
                f"was delivered for {self.silence:.0f} s",
                link=self._settings.link,
                operation="read",
                cause="the subscription is stuck",
                cure="the gateway reconnects now",
            )


def light(items: Sequence[Incoming]) -> int:
    """How many of the messages a batch should have, that their bodies are not more than BATCH_BYTES; one at least."""
    room = BATCH_BYTES
    for number, item in enumerate(items):
        room -= len(item[5])
        if room < 0:
            return max(1, number)
    return len(items)


def _end(offset: int) -> str:
    return "it is empty" if offset == EMPTY else f"it ends at offset {offset}"


def _never(*_arguments: object) -> None:
    """Deliveries pass by pika; see mgw.links.rabbitmq.frames."""


def _digest(item: Incoming) -> str:
    """Of what a stream keeps as it is: a newer release of the broker may hand the same properties out differently."""
    return content_digest(b"", item[5], item[2], item[3]).hex()


def _offset(message: Message) -> int:
    value = message.header(_OFFSET)
    return value if isinstance(value, int) else -1
