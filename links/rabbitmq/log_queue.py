"""A job's log queue at RabbitMQ: the sequence of the last transaction.

The record is written in the transaction that it speaks of, together with a transient twin. RabbitMQ does not promise
that a transaction is on disk whole when the broker dies in its midst: the record may survive what it speaks of. The
twin never survives a restart of the broker, so a record without it proves nothing about the last transaction. The queue
is a durable classic queue with ``x-max-length`` 2, so that each pair replaces the one before; an operator creates it,
or has it created (``mgw links prepare``).

The holder of the job's lock (:mod:`mgw.links.rabbitmq.fence`) reads it alone: what an earlier connection had on the way
when it ended is in the log queue soon after.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from pika import BasicProperties

from mgw.links.contract import JobUse
from mgw.links.rabbitmq.conditions import difference_of_queue
from mgw.links.rabbitmq.connection import Session
from mgw.links.rabbitmq.frames import message_frames, publish_method
from mgw.links.rabbitmq.knowledge import Knowledge
from mgw.links.rabbitmq.management import Policies
from mgw.transforms.errors import LinkError, LinkRefused, QueueMissing

__all__ = ["LogQueue", "LogQueueMissing", "Record"]

ARGUMENTS = {"x-queue-type": "classic", "x-max-length": 2}
ARGUMENTS_LENGTH = 2  # a record and its twin
SETTLE_SECONDS = 0.5  # how soon the last transaction of a connection that has ended shows
_REMOVING = ("message-ttl", "expires", "max-length-bytes")  # policies that take records away
_PERSISTENT, _TRANSIENT = b"\x10\x00\x02", b"\x10\x00\x01"  # delivery-mode


class LogQueueMissing(QueueMissing):
    """A log queue does not exist in the messaging system [434]."""


class Record(NamedTuple):
    """What the log says. ``partial``: a transaction that the broker stored only in part, 0 if none.
    ``sure``: the broker has not been restarted since."""

    sequence: int
    partial: int = 0
    sure: bool = True


class LogQueue:
    """The log queue of one job.

    Args:
        template: name of the queue; ``{job}`` stands for the name of the job.
        knowledge: of the broker, for one look at a time.
    """

    def __init__(self, template: str, use: JobUse, knowledge: Knowledge) -> None:
        self.name = template.replace("{job}", use.job)
        self._use = use
        self._knowledge = knowledge
        self._method = publish_method(1, b"", self.name.encode(), mandatory=False)

    def check(self, session: Session) -> None:
        """Make sure that the queue is there and is one that keeps exactly the last record.

        Raises:
            LogQueueMissing: it is not there.
            LinkRefused: it has other properties.
        """
        if not self.exists(session):
            raise LogQueueMissing(
                f"job {self._use.job}: its log queue {self.name!r} does not exist in RabbitMQ",
                link=session.settings.link,
                operation="connect",
                cause="every job of a link with a log queue needs one of its own",
                cure=f"mgw links prepare {session.settings.link}; or {self._declaration()}",
                number=434,
            )

    def exists(self, session: Session) -> bool:
        """Whether the queue is there, and then as it must be.

        Raises:
            LinkRefused: it has other properties.
        """
        difference = difference_of_queue(session, self.name, ARGUMENTS)
        if difference:
            raise LinkRefused(
                f"job {self._use.job}: queue {self.name!r} cannot be its log queue",
                link=session.settings.link,
                operation="connect",
                cause=difference,
                cure=f"if nothing needs what is in it, delete it, then mgw links prepare {session.settings.link} "
                f"(or {self._declaration()}); otherwise name another log queue in the link",
            )
        return difference is not None

    def create(self, session: Session) -> None:
        """Create the queue, for an operator who asked for it.

        Raises:
            LinkError: the user may not, or the connection ended.
        """
        with session.calling("prepare"):
            channel = session.fresh_channel()
            channel.queue_declare(self.name, durable=True, arguments=ARGUMENTS)
            channel.close()

    def check_policies(self, session: Session, policies: Policies) -> None:
        """Make sure that no policy removes the record.

        Raises:
            LinkRefused: one does.
        """
        for setting, (value, origin) in policies.of_queue(self.name, "classic").items():
            short = setting == "max-length" and value.isdecimal() and int(value) < ARGUMENTS_LENGTH
            if short or setting in _REMOVING:
                raise LinkRefused(
                    f"job {self._use.job}: queue {self.name!r} cannot be its log queue",
                    link=session.settings.link,
                    operation="connect",
                    cause=f"{origin.format(setting=setting)} is {value}, so its records may be removed",
                    cure="change the pattern of that policy so that it does not match the log queues, or set a policy "
                    "of higher priority for them",
                )

    def _declaration(self) -> str:
        return (
            f"rabbitmqadmin declare queue name={self.name} durable=true "
            f"arguments='{json.dumps(ARGUMENTS, separators=(',', ':'))}'"
        )

    def read(self, session: Session, *, beyond: int | None = None) -> Record | None:
        """The record, once what an earlier connection had on the way must have arrived; None: there is none.

        Args:
            beyond: the highest sequence that can be there; when the record says it already, nothing is waited for.

        Raises:
            LinkRefused: the record is not one of this job.
        """
        record = self._look(session)
        while record is None or record.sequence != beyond:
            session.pump(SETTLE_SECONDS, _not_yet, "connect")
            again = self._look(session)
            if again == record:
                break
            record = again
        if record is None:  # from now on a restart shows; a doubt stays until the next transaction
            self.write(session, Record(0))
        return record

    def _bodies(self, session: Session, operation: str) -> list[tuple[bytes, bool]]:
        """What is in the queue, and whether it is persistent; all of it stays there."""
        with self._knowledge.alone_with(session.settings.virtual_host, self.name), session.calling(operation):
            channel = session.fresh_channel()
            bodies: list[tuple[bytes, bool]] = []
            tag = 0
            for _ in range(ARGUMENTS_LENGTH):
                method, properties, body = channel.basic_get(self.name)
                if method is not None:
                    tag = method.delivery_tag
                    bodies.append((body, properties.delivery_mode == 2))
            if tag:
                channel.basic_nack(tag, multiple=True, requeue=True)
            channel.close()
        return bodies

    def _look(self, session: Session) -> Record | None:
        bodies = self._bodies(session, "connect")
        records = [(self._parse(session, body), persistent) for body, persistent in bodies]
        written = [record for record, persistent in records if persistent]
        if not written:
            return None
        twin = any(not persistent and record.sequence == written[-1].sequence for record, persistent in records)
        return written[-1]._replace(sure=twin)

    def _parse(self, session: Session, body: bytes) -> Record:
        try:
            told: dict[str, Any] = json.loads(body)
            owner = (str(told["hub"]), str(told["job"]))
            record = Record(int(told["sequence"]), int(told.get("partial", 0)))
        except (ValueError, TypeError, KeyError) as error:
            raise self._foreign(session, f"its record {body[:60]!r} was not written by a gateway", 417) from error
        if owner != (self._use.hub_id, self._use.job):
            raise self._foreign(session, f"its record is of job {owner[1]} of hub {owner[0]}")
        return record

    def _foreign(self, session: Session, cause: str, number: int | None = None) -> LinkError:
        return LinkRefused(
            f"job {self._use.job}: log queue {self.name!r} is used by another job or program",
            link=session.settings.link,
            operation="connect",
            cause=cause,
            cure="give the job a log queue of its own ({job} in the name of the link's log queue); or, if its owner is "
            "gone or nobody can read it, mgw agents cleanup CLEAN_LOG_QUEUES and then mgw agents cleanup "
            f"RESET_SUB_MISSING_LOG_REC {self._use.job}",
            number=number,
        )

    def _value(self, record: Record) -> bytes:
        use = self._use
        value = {"hub": use.hub_id, "job": use.job, "sequence": record.sequence, "time": use.clock.now()}
        if record.partial:
            value["partial"] = record.partial
        return json.dumps(value).encode()

    def add_frames(self, pieces: list[bytes], sequence: int, frame_max: int) -> None:
        """Append the frames that publish the record of a sequence and its twin on channel 1."""
        value = self._value(Record(sequence))
        pair = [(self._method, _PERSISTENT, value), (self._method, _TRANSIENT, value)]
        message_frames(pieces, 1, frame_max, pair)

    def write(self, session: Session, record: Record) -> None:
        """Store a record at once, outside of any transaction; waits until the broker has it."""
        with session.calling("publish"):
            channel = session.fresh_channel()
            channel.confirm_delivery()
            for mode in (2, 1):
                channel.basic_publish("", self.name, self._value(record), BasicProperties(delivery_mode=mode))
            channel.close()

    def owner(self, session: Session, operation: str = "clean") -> tuple[str, str] | None:
        """Hub and job that the record is of: None without a record, two empty texts where it cannot be read."""
        owner = None
        for body, _ in self._bodies(session, operation):
            try:
                told = json.loads(body)
                int(told["sequence"])
                owner = str(told["hub"]), str(told["job"])
            except (ValueError, TypeError, KeyError):
                return "", ""
        return owner

    def forget_own(self, session: Session) -> None:
        """Remove the record if it is one of this job; no queue is fine. A log queue whose name does not tell its job
        may keep the record of another one, which would send its last batch again without it."""
        try:
            if self.owner(session, "forget") == (self._use.hub_id, self._use.job):
                self.forget(session)
        except QueueMissing:
            return

    def forget(self, session: Session) -> None:
        """Remove the record, whosever it is; no queue is fine."""
        try:
            with session.calling("forget"):
                session.channel.queue_purge(self.name)
        except QueueMissing:
            return


def _not_yet() -> bool:
    return False
