"""LISTEN: wait until one of several agents has a message (AQ guide 12.2 §1.7, §10.4)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from mgw.gateway.aq.errors import (
    DeliveryModeInvalid,
    ListenDuplicate,
    ListenNameGiven,
    ListenNameMissing,
    ListenNotEnabled,
    ListenTimeout,
    UnknownQueue,
)
from mgw.gateway.aq.model import Agent, DeliveryMode, QueueRef, QueueType
from mgw.gateway.aq.names import agent_name
from mgw.gateway.aq.queues import catalog_sql as catalog
from mgw.gateway.aq.queues import consumers_sql, listen_sql
from mgw.gateway.aq.queues.listen_sql import Watched
from mgw.gateway.aq.sessions.ground import SessionGround
from mgw.gateway.aq.sessions.navigation import check_wait
from mgw.gateway.aq.store.statements import Db
from mgw.transforms.errors import AqError

__all__ = ["listen"]

Target = Callable[[Db, str, str | None], QueueRef]

_LOOK_AGAIN = 1.0  # seconds; should a wake-up get lost


def listen(
    hub: SessionGround,
    agents: Sequence[Agent],
    wait: float,
    listen_delivery_mode: str,
    *,
    target: Target,
    pause: Callable[[], None],
) -> Agent:
    """See :meth:`mgw.gateway.aq.sessions.session.Session.listen`.

    Args:
        target: finds the queue a consumer may dequeue from.
        pause: called before the first wait.
    """
    _check(agents, wait, listen_delivery_mode)
    with hub.read() as conn:
        db = Db(conn)
        watched = _resolve(db, agents, target)
        heard = _look(db, agents, watched)
    if heard is not None:
        return heard
    deadline = hub.clock.monotonic() + wait
    woken = threading.Event()
    unsubscribe = hub.notifier.subscribe({each.queue for each in watched}, woken.set)
    try:
        pause()
        while True:
            woken.clear()
            hub.require_open()
            with hub.read() as conn:
                heard = _look(Db(conn), agents, watched)
            if heard is not None:
                return heard
            left = deadline - hub.clock.monotonic()
            if left <= 0:
                raise ListenTimeout(
                    f"no message for any of {len(agents)} agent(s)",
                    cause="the wait ended" if wait > 0 else "there is none now",
                    cure="listen again, or wait longer",
                )
            woken.wait(min(left, _LOOK_AGAIN))
    finally:
        unsubscribe()


def _check(agents: Sequence[Agent], wait: float, mode: str) -> None:
    if not agents:
        raise AqError("no agent to listen for", cause="the list of agents is empty", cure="list at least one")
    check_wait(wait)
    try:
        wanted = DeliveryMode(str(mode).upper())
    except ValueError:
        allowed = ", ".join(member.value for member in DeliveryMode)
        raise DeliveryModeInvalid(f"delivery mode is {mode!r}", cause=f"allowed are {allowed}") from None
    if wanted is DeliveryMode.BUFFERED:
        raise DeliveryModeInvalid(
            "the hub cannot listen for buffered messages",
            cause="buffered messages are not part of this release",
            cure="listen for PERSISTENT messages",
        )


def _resolve(db: Db, agents: Sequence[Agent], target: Target) -> list[Watched]:
    """Queue and consumer of each agent, all of them checked before anything is looked at."""
    watched: list[Watched] = []
    for agent in agents:
        if not isinstance(agent, Agent) or not agent.address:
            raise UnknownQueue(
                f"agent {agent!r} has no address",
                cause="the address of an agent to listen for is its queue",
                cure="give the queue as address: Agent(name, queue)",
            )
        queue = target(db, agent.address, agent.name)
        exceptions = queue.queue_type is QueueType.EXCEPTION
        consumer = 0 if exceptions else _consumer(db, queue, agent)
        if exceptions and agent.name is not None:
            raise _name_given(queue, agent, "messages of an exception queue have no consumer")
        one = Watched(queue.id, consumer, exceptions)
        if one in watched:
            raise ListenDuplicate(
                f"agent {agent.name or queue.full_name} is listed twice",
                cause=f"both entries are for queue {queue.full_name}",
                cure="list every agent once",
            )
        if not catalog.queue_settings(db, queue).dequeue_enabled:
            raise _not_enabled(queue.full_name)
        watched.append(one)
    return watched


def _consumer(db: Db, queue: QueueRef, agent: Agent) -> int:
    if queue.multiple_consumers:
        if agent.name is None:
            raise ListenNameMissing(
                f"an agent of queue {queue.full_name} has no name",
                cause="the queue is a multi-consumer queue",
                cure="name the consumer",
            )
        agent_name(agent.name, what="consumer")
        return consumers_sql.require_consumer(db, queue, agent.name)
    if agent.name is not None:
        raise _name_given(queue, agent, "the queue is a single-consumer queue")
    return 0


def _name_given(queue: QueueRef, agent: Agent, why: str) -> AqError:
    return ListenNameGiven(
        f"agent {agent.name!r} of queue {queue.full_name} has a name", cause=why, cure="leave the name out"
    )


def _not_enabled(queue: str) -> AqError:
    return ListenNotEnabled(
        f"queue {queue} is not enabled for dequeue",
        cause="it was not started, or was stopped or dropped meanwhile",
        cure=f"start it: mgw aq start {queue} (in Python start_queue)",
    )


def _look(db: Db, agents: Sequence[Agent], watched: Sequence[Watched]) -> Agent | None:
    """The first agent that has a READY message; one statement for all of them."""
    heard = listen_sql.first_with_a_message(db, watched)
    if heard is None:
        return None
    place, has_message = heard
    if not has_message:
        raise _not_enabled(agents[place].address or "")
    return agents[place]
