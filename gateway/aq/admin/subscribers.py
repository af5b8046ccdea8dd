"""Procedures on subscribers (AQ guide 12.2 §8.6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mgw.gateway.aq.admin import removal_sql
from mgw.gateway.aq.admin.audit import shown_object
from mgw.gateway.aq.admin.base import choice
from mgw.gateway.aq.admin.removal import Held, Removal, RemovalProcedures
from mgw.gateway.aq.admin.transformations import subscriber_transformation
from mgw.gateway.aq.conditions.routing_sql import translate
from mgw.gateway.aq.errors import (
    AgentAddressInvalid,
    AgentNameInvalid,
    DeliveryModeInvalid,
    NotOnSingleConsumerQueue,
    RuleInvalid,
    SingleConsumerQueue,
    SubscriberExists,
    SubscriberMissing,
    SubscriberOfExceptionQueue,
    SubscribesToItself,
    TooManySubscribers,
)
from mgw.gateway.aq.model import Agent, DeliveryMode, QueueRef, QueueType, SubscriberInfo
from mgw.gateway.aq.names import MAX_ADDRESS, agent_name, is_of_job
from mgw.gateway.aq.options import SUBSCRIBER_OPTIONS, changed_options, read_options
from mgw.gateway.aq.queues import catalog_sql as catalog
from mgw.gateway.aq.queues import consumers_sql, statistics_sql
from mgw.gateway.aq.security import security_sql
from mgw.gateway.aq.store.statements import Db
from mgw.transforms.errors import AqError

__all__ = ["SubscriberProcedures"]

MAX_SUBSCRIBERS = 1024  # AQ guide 12.2 §2.3
MAX_LOCAL = 1000  # AQ guide 12.2 §4.6.1
MAX_RULE = 4000


class SubscriberProcedures(RemovalProcedures):
    """Add, alter, remove and list subscribers."""

    def _check_rule(self, rule: str | None) -> None:
        if rule is None:
            return
        if len(rule) > MAX_RULE:
            raise RuleInvalid(f"rule has {len(rule)} characters", cause=f"at most {MAX_RULE} are allowed")
        from mgw.gateway.aq.conditions.rules import compile_rule

        with self.look() as db:
            compile_rule(rule, db)

    def add_subscriber(
        self,
        queue_name: str,
        subscriber: Agent | str,
        *,
        rule: str | None = None,
        transformation: str | None = None,
        queue_to_queue: bool = False,
        delivery_mode: str = DeliveryMode.PERSISTENT,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Subscribe an agent; it gets what is enqueued from now on and meets its rule (AQ guide 12.2 §8.6.1).

        If there is no AQ agent of that name, one is made (AQ guide 12.2 §22.3).

        Running calls of sessions are waited for, running transactions are not. As part of an application's transaction
        nothing is committed: the subscription is in force when the application commits.

        Args:
            subscriber: name of a local agent, or the agent.
            rule: a condition on the message, at most 4000 characters; None = all messages.
            transformation: name of one that the subscriber's messages go through when they are dequeued.
            queue_to_queue: only for subscribers in other queues.
            delivery_mode: PERSISTENT, or PERSISTENT_OR_BUFFERED; cannot be altered later.
            options: see :data:`mgw.gateway.aq.options.SUBSCRIBER_OPTIONS`.

        Raises:
            AqError: 24010 unknown queue, 24034 subscribed already, 24039 single-consumer queue, 24050 exception queue,
                24045 address, 24019, 24047, 24049 name, 24067 too many, 25299 delivery mode, 25313 the queue
                itself, 25448 the rule is invalid (with line and column), 24094 the transformation does not exist, or
                does not take what the queue holds.
        """
        agent = subscriber if isinstance(subscriber, Agent) else Agent(subscriber)
        name = agent_name(agent.name, what="subscriber")
        self._check_rule(rule)
        mode = _delivery_mode(delivery_mode, name)
        kept = changed_options(SUBSCRIBER_OPTIONS, {}, options, f"subscriber {name}")
        with self.change() as conn:
            db = Db(conn)
            queue = self.need_queue(db, queue_name)
            _check_subscribable(queue)
            self._check_address(db, queue, agent, queue_to_queue=queue_to_queue)
            name = name or ""
            taken = consumers_sql.consumer_id(db, queue, name)
            if taken is not None and consumers_sql.is_subscriber(db, taken):
                raise SubscriberExists(
                    f"subscriber {name} of queue {queue.full_name} already exists",
                    cause="it was added before",
                    cure="alter it, or choose another name",
                )
            transformation = subscriber_transformation(db, queue, transformation, self.schema)
            if taken is not None:
                consumers_sql.drop_removed(db, taken)
                statistics_sql.begin_left_out(db, taken, self.hub.clock.now())
            _check_number(queue, consumers_sql.count_subscribers(db, queue))
            security_sql.add_automatic_agent(db, name, self.hub.clock.now())
            consumers_sql.upsert_subscriber(
                db,
                {
                    "queue_id": queue.id,
                    "name": name,
                    "name_key": name.upper(),
                    "address": "",
                    "protocol": 0,
                    "is_subscriber": 1,
                    "rule": rule,
                    "rule_sql": None,
                    "transformation": transformation,
                    "delivery_mode": mode.value,
                    "queue_to_queue": 0,
                    "options": kept,
                    "created": self.hub.clock.now(),
                },
            )
            number = consumers_sql.consumer_id(db, queue, name)
            if rule is not None:
                translate(db, number)
            if number is not None and _is_kept(name):
                self._keep(conn, "add", "subscriber", None, consumers_sql.subscriber(db, number))

    def alter_subscriber(
        self,
        queue_name: str,
        subscriber: Agent | str,
        *,
        rule: str | None,
        transformation: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Set rule and transformation of a subscriber, both (AQ guide 12.2 §8.6.2).

        To change one, repeat the other: None takes the rule, or the transformation, away.

        Args:
            options: merged element by element, a value of None removes one; None as a whole keeps all.

        Raises:
            AqError: 24010 unknown queue, 24035 unknown subscriber, 24029 single-consumer queue, 24050 exception queue,
                25448 the rule is invalid, 24094 the transformation does not exist, or does not take what the queue
                holds.
        """
        self._check_rule(rule)
        with self.change() as conn:
            db = Db(conn)
            number, queue = self._subscriber(db, queue_name, subscriber), self.need_queue(db, queue_name)
            name = subscriber if isinstance(subscriber, str) else subscriber.name or ""
            before = consumers_sql.subscriber(db, number)
            consumers_sql.set_rule(db, number, rule, subscriber_transformation(db, queue, transformation, self.schema))
            if options is not None:
                held = read_options(consumers_sql.options_of(db, number))
                owner = f"subscriber {subscriber if isinstance(subscriber, str) else subscriber.name}"
                consumers_sql.set_options(db, number, changed_options(SUBSCRIBER_OPTIONS, held, options, owner))
            if rule is not None:
                translate(db, number)
            if _is_kept(name):
                self._keep(conn, "alter", "subscriber", before, consumers_sql.subscriber(db, number))

    def remove_subscriber(
        self, queue_name: str, subscriber: Agent | str, *, force: bool = True, move_to: str | None = None
    ) -> Held:
        """End a subscription with its backlog (AQ guide 12.2 §8.6.3, §1.10); returns what waited for it.

        What waited for it is not there for it any more; messages that waited for nobody else are removed by the time
        manager. A transaction may still commit what it holds. As part of an application's transaction nothing is
        committed.

        Args:
            force: False: refuse to remove a subscriber for whom messages wait.
            move_to: a queue that these messages go to first, in the same transaction.

        Raises:
            AqError: 24010 unknown queue, 24035 unknown subscriber, 24029 single-consumer queue, 24050 exception queue;
                messages wait for it; 24018 transactions work on the queue (not with ``force``); 24010, 24033, 25207,
                25215 the other queue does not take them.
        """
        with self.change() as conn:
            db = Db(conn)
            consumer, queue = self._subscriber(db, queue_name, subscriber), self.need_queue(db, queue_name)
            if not force or move_to is not None:
                self._alone(db, queue)
            held = removal_sql.held_by_consumer(db, consumer)
            shown = subscriber if isinstance(subscriber, str) else subscriber.name or subscriber.address
            removal = Removal("remove subscriber", f"{shown} of queue {queue.full_name}", held, move_to)
            before = consumers_sql.subscriber(db, consumer)
            removal = replace(removal, kind="subscriber", before=shown_object(before))
            self._settle(conn, removal, [(queue, consumer)], force=force)
            consumers_sql.remove_subscriber(db, consumer)
            return held

    def queue_subscribers(self, queue_name: str | None = None) -> list[SubscriberInfo]:
        """Subscribers of one queue, or of all; a user sees those of queues to dequeue from (AQ guide 12.2 §9.11).

        Raises:
            AqError: 24010 unknown queue, 1031 the user may neither dequeue from it nor administer it.
        """
        with self.look() as db:
            rights = self.rights
            if rights is None:
                return consumers_sql.list_subscribers(
                    db, None if queue_name is None else self.need_queue(db, queue_name)
                )
            if queue_name is not None:
                return consumers_sql.list_subscribers(db, rights.reading_target(db, queue_name, self.schema))
            open_to_user = rights.readable(db, catalog.list_queues(db))
            return [each for each in consumers_sql.list_subscribers(db) if each.queue in open_to_user]

    def _subscriber(self, db: Db, queue_name: str, subscriber: Agent | str) -> int:
        agent = subscriber if isinstance(subscriber, Agent) else Agent(subscriber)
        queue = self.need_queue(db, queue_name)
        _check_subscribable(queue, NotOnSingleConsumerQueue)
        name = agent_name(agent.name, what="subscriber")
        found = consumers_sql.consumer_id(db, queue, name or "", agent.address or "", agent.protocol or 0)
        if found is None or not consumers_sql.is_subscriber(db, found):
            raise SubscriberMissing(
                f"subscriber {name or agent.address} of queue {queue.full_name} does not exist",
                cause="it was removed, or never added",
                cure="add it: add_subscriber",
            )
        return found

    def _check_address(self, db: Db, queue: QueueRef, agent: Agent, *, queue_to_queue: bool) -> None:
        """Only local agents can be served; they have a name, no address, and protocol 0."""
        shown = agent.name or agent.address
        if agent.address and len(agent.address) > MAX_ADDRESS:
            raise AgentAddressInvalid(
                f"address of subscriber {shown!r:.60} has {len(agent.address)} characters",
                cause=f"at most {MAX_ADDRESS} are allowed",
            )
        if agent.address and not agent.protocol and "@" not in agent.address:
            try:
                target = catalog.find_queue(db, agent.address, self.schema)
            except AqError as error:
                raise AgentAddressInvalid(
                    f"address {agent.address!r} of a subscriber is not valid", cause=error.what, cure=error.cure
                ) from error
            if target is not None and target.id == queue.id:
                raise SubscribesToItself(
                    f"queue {queue.full_name} cannot subscribe to itself",
                    cause="the subscriber's address is the queue",
                    cure="leave the address out for a local agent",
                )
        if not agent.address and not agent.name:
            raise AgentNameInvalid(
                f"subscriber of queue {queue.full_name} has neither name nor address", cure="give it a name"
            )
        if agent.address or queue_to_queue or agent.protocol:
            raise AgentAddressInvalid(
                f"subscriber {shown!r} of queue {queue.full_name} cannot be served",
                cause="propagation to other queues is not part of this release"
                if agent.address or queue_to_queue
                else f"protocol {agent.protocol} is not that of a local agent",
                cure="subscribe a local agent by name, or use a gateway job",
            )


def _is_kept(name: str) -> bool:
    """Whether the audit tells of a subscriber by itself; those of jobs come and go with the jobs."""
    return bool(name) and not is_of_job(name)


def _delivery_mode(given: str, name: str | None) -> DeliveryMode:
    mode = choice(DeliveryMode, given, f"delivery mode of subscriber {name}", DeliveryModeInvalid)
    if mode is DeliveryMode.BUFFERED:
        raise DeliveryModeInvalid(
            f"delivery mode of subscriber {name} cannot be BUFFERED",
            cause="buffered messages are not part of this release",
            cure="use PERSISTENT",
        )
    return mode


def _check_number(queue: QueueRef, addresses: list[str]) -> None:
    local = addresses.count("")
    for number, limit, kind in ((len(addresses), MAX_SUBSCRIBERS, ""), (local, MAX_LOCAL, "local ")):
        if number >= limit:
            raise TooManySubscribers(
                f"queue {queue.full_name} has {number} {kind}subscribers",
                cause=f"at most {limit} are allowed",
                cure="remove subscribers that are no longer used",
            )


def _check_subscribable(queue: QueueRef, error: type[AqError] = SingleConsumerQueue) -> None:
    if queue.queue_type is QueueType.EXCEPTION:
        raise SubscriberOfExceptionQueue(
            f"exception queue {queue.full_name} cannot have subscribers",
            cause="each of its messages is dequeued once, without a consumer name",
        )
    if not queue.multiple_consumers:
        raise error(
            f"queue {queue.full_name} cannot have subscribers",
            cause="it is a single-consumer queue",
            cure="create its queue table with multiple_consumers",
        )
