"""The fence of a job at RabbitMQ: one connection of the job at a time, whatever became of the one before.

A connection that died without notice (power loss, a firewall that forgot it) lives on at the broker until its
heartbeats are missed. So long its consumer keeps the messages that were sent ahead: another reader of the queue
meanwhile gets newer ones first. The fence is an exclusive queue, which lives as long as the connection that declared
it. It works for every type of queue, and keeps nobody out but earlier connections of the same job; an exclusive
consumer would keep everybody out, and quorum queues do not know it.
"""

from __future__ import annotations

import logging

from pika import exceptions

from mgw.links.contract import Direction, JobUse
from mgw.links.rabbitmq.connection import Session
from mgw.links.rabbitmq.management import close_owner
from mgw.transforms.errors import LinkRefused, LinkUnavailable

__all__ = ["Fence"]

_LOGGER = logging.getLogger("mgw.rabbitmq")

_AGAIN_SECONDS = 0.5  # how often the lock is tried; the broker logs an error each time
_MISSED = 3  # a broker counts a connection as dead after two to three intervals of silence
_END_SECONDS = 2.0  # and then ends it
_MOST_SECONDS = 30.0  # one attempt of a job; the next one goes on waiting
_GONE_SECONDS = 1.0  # in which the consumers of a connection end that has lost its lock
_LOOK_SECONDS = 0.05
_ARGUMENTS = {"x-queue-type": "classic"}  # where the virtual host has another default, an exclusive queue is refused
_QUESTION = {**_ARGUMENTS, "x-queue-leader-locator": "mgw-question"}  # an argument that none can have
_LOCKED, _DENIED = 405, 403


class Fence:
    """The lock of one job in one direction.

    Attributes:
        patience: seconds to wait for the connection before; by default as long as the broker needs to notice that a
            connection with the same heartbeat is dead, 30 at most.
    """

    def __init__(self, use: JobUse, direction: Direction, heartbeat: int) -> None:
        self.name = f"mgw.lock.{use.hub_id}.{use.job}.{direction.lower()}"
        self.patience = min(_MISSED * heartbeat + _END_SECONDS, _MOST_SECONDS)
        self._use = use

    def take(self, session: Session) -> None:
        """Shut earlier connections of the job out, until this one ends. Waits until they are gone.

        With AMQP_ManagementURL the broker is asked to close them, so that nothing has to be waited for.

        Raises:
            LinkUnavailable: one is still connected after ``patience`` seconds, or the session was interrupted.
            LinkRefused: the user may not declare the lock.
        """
        clock = self._use.clock
        deadline = clock.monotonic() + self.patience
        told = ""
        while (refusal := self._try(session)) is not None:
            before, told = told, close_owner(session.settings, self.name)
            if told != before:
                _LOGGER.info("job %s waits for the end of its earlier connection to RabbitMQ: %s", self._use.job, told)
            if clock.monotonic() >= deadline or session.pump(_AGAIN_SECONDS, _not_yet, "connect"):
                raise self._held(session) from refusal

    def await_consumers(self, session: Session, queue: str) -> int:
        """Wait for a moment until nobody consumes from ``queue``: a connection loses its lock and its consumers at
        about the same time, and the lock may be first. Others who read the queue as well are left alone; returns how
        many consumers there are."""
        clock = self._use.clock
        deadline = clock.monotonic() + _GONE_SECONDS
        while True:
            with session.calling("connect"):
                consumers = int(session.channel.queue_declare(queue, passive=True).method.consumer_count)
            if not consumers or clock.monotonic() >= deadline or session.pump(_LOOK_SECONDS, _not_yet, "connect"):
                return consumers

    def held(self, session: Session) -> bool:
        """Whether a connection of the job, another than this one, has the lock."""
        with session.calling("verify"):
            channel = session.fresh_channel()
            try:
                channel.queue_declare(self.name, passive=True)
            except exceptions.ChannelClosedByBroker as refusal:
                return bool(refusal.reply_code == _LOCKED)
            channel.close()
        return False

    def permitted(self, session: Session) -> bool:
        """Whether the user may declare the lock; asks without declaring it."""
        refusal = _declared(session, "verify", self.name, _QUESTION)
        return refusal is None or refusal.reply_code != _DENIED

    def _try(self, session: Session) -> exceptions.ChannelClosedByBroker | None:
        refusal = _declared(session, "connect", self.name, _ARGUMENTS)
        if refusal is None or refusal.reply_code == _LOCKED:
            return refusal
        error = session.translate(refusal, "connect")
        if refusal.reply_code != _DENIED:
            raise error from refusal
        raise LinkRefused(
            f"job {self._use.job}: RabbitMQ does not let user {session.settings.username!r} declare its lock "
            f"{self.name!r}",
            link=session.settings.link,
            operation="connect",
            cause=error.cause,
            cure="give the user the configure permission on mgw[.]lock[.].*",
        ) from refusal

    def _held(self, session: Session) -> LinkUnavailable:
        return LinkUnavailable(
            f"job {self._use.job}: another process of this job is still connected to RabbitMQ",
            link=session.settings.link,
            operation="connect",
            cause=f"it holds the lock {self.name}",
            cure="it ends by itself when the broker notices that the process is gone, after two to three times the "
            "AMQP_Heartbeat of its connection; with AMQP_ManagementURL it is closed at once; the job tries again",
        )


def _declared(
    session: Session, operation: str, name: str, arguments: dict[str, str]
) -> exceptions.ChannelClosedByBroker | None:
    """Declare an exclusive queue on a channel of its own; the refusal, if it is refused."""
    with session.calling(operation):
        channel = session.fresh_channel()
        try:
            channel.queue_declare(name, exclusive=True, arguments=arguments)
        except exceptions.ChannelClosedByBroker as refusal:
            return refusal
        channel.close()
    return None


def _not_yet() -> bool:
    return False
