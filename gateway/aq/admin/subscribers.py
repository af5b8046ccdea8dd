"""Procedures on subscribers (AQ guide 12.2 §8.6)."""

from __future__ import annotations

from gateway.aq import statements_catalog as catalog
from gateway.aq import statements_security as security_sql
from gateway.aq.admin.base import Administration, choice
from gateway.aq.admin.transformations import subscriber_transformation
from gateway.aq.errors import (
    AgentAddressInvalid,
    DeliveryModeInvalid,
    RuleInvalid,
    SingleConsumerQueue,
    SubscriberExists,
    SubscriberMissing,
    SubscriberOfExceptionQueue,
    TooManySubscribers,
)
from gateway.aq.model import Agent, DeliveryMode, QueueRef, QueueType, SubscriberInfo
from gateway.aq.names import agent_name
from gateway.aq.statements import Db
from gateway.aq.statements_routing import translate

__all__ = ["SubscriberProcedures"]

MAX_SUBSCRIBERS = 1000  # local ones, AQ guide 12.2 §4.6.1
MAX_RULE = 4000


class SubscriberProcedures(Administration):
    """Add, alter, remove and list subscribers."""

    def add_subscriber(
        self,
        queue_name: str,
        subscriber: Agent | str,
        *,
        rule: str | None = None,
        transformation: str | None = None,
        queue_to_queue: bool = False,
        delivery_mode: str = DeliveryMode.PERSISTENT,
    ) -> None:
        """Subscribe an agent; it gets what is enqueued from now on and meets its rule (AQ guide 12.2 §8.6.1).

        If there is no AQ agent of that name, one is made (AQ guide 12.2 §22.3).

        Raises:
            AqError: 24010 unknown queue, 24034 subscribed already, 24039 single-consumer queue, 24050 exception queue,
                24047 name, 24067 too many, 25448 the rule is invalid (with line and column), 24094 the transformation
                does not exist, or does not take what the queue holds.
        """
        agent = Agent(subscriber) if isinstance(subscriber, str) else subscriber
        name = agent_name(agent.name, what="subscriber")
        _check_rule(rule)
        mode = choice(DeliveryMode, delivery_mode, f"delivery mode of subscriber {name}", DeliveryModeInvalid)
        with self.change() as conn:
            db = Db(conn)
            queue = self.need_queue(db, queue_name)
            _check_subscribable(queue)
            if agent.address or name is None or queue_to_queue:
                raise AgentAddressInvalid(
                    f"subscriber {name or agent.address!r} of queue {queue.full_name} cannot be served",
                    cause="propagation to other queues is not part of this release",
                    cure="subscribe a local agent by name, or use a gateway job",
                )
            taken = catalog.consumer_id(db, queue, name, "", agent.protocol)
            if taken is not None and catalog.is_subscriber(db, taken):
                raise SubscriberExists(f"subscriber {name} of queue {queue.full_name} exists", cure="alter_subscriber")
            transformation = subscriber_transformation(db, queue, transformation, self.schema)
            if len(catalog.count_subscribers(db, queue)) >= MAX_SUBSCRIBERS:
                raise TooManySubscribers(
                    f"queue {queue.full_name} has too many subscribers",
                    cause=f"at most {MAX_SUBSCRIBERS} are allowed",
                )
            security_sql.add_automatic_agent(db, name, self.hub.clock.now())
            catalog.upsert_subscriber(
                db,
                {
                    "queue_id": queue.id,
                    "name": name,
                    "name_key": name.upper(),
                    "address": "",
                    "protocol": agent.protocol,
                    "is_subscriber": 1,
                    "rule": rule,
                    "rule_sql": None,
                    "transformation": transformation,
                    "delivery_mode": mode.value,
                    "queue_to_queue": 0,
                    "created": self.hub.clock.now(),
                },
            )
            if rule is not None:
                translate(db, catalog.consumer_id(db, queue, name, "", agent.protocol))

    def alter_subscriber(
        self, queue_name: str, subscriber: Agent | str, *, rule: str | None, transformation: str | None = None
    ) -> None:
        """Set rule and transformation of a subscriber, both (AQ guide 12.2 §8.6.2).

        Raises:
            AqError: 24010 unknown queue, 24035 unknown subscriber, 25448 the rule is invalid, 24094 the transformation
                does not exist, or does not take what the queue holds.
        """
        _check_rule(rule)
        with self.change() as conn:
            db = Db(conn)
            number, queue = self._subscriber(db, queue_name, subscriber), self.need_queue(db, queue_name)
            catalog.set_rule(db, number, rule, subscriber_transformation(db, queue, transformation, self.schema))
            if rule is not None:
                translate(db, number)

    def remove_subscriber(self, queue_name: str, subscriber: Agent | str) -> None:
        """End a subscription; messages that waited for it only are removed by the time manager (AQ guide 12.2 §8.6.3).

        Raises:
            AqError: 24010 unknown queue, 24035 unknown subscriber.
        """
        with self.change() as conn:
            db = Db(conn)
            catalog.remove_subscriber(db, self._subscriber(db, queue_name, subscriber))

    def queue_subscribers(self, queue_name: str | None = None) -> list[SubscriberInfo]:
        """Subscribers of one queue, or of all; a user sees those of queues to dequeue from (AQ guide 12.2 §9.11).

        Raises:
            AqError: 24010 unknown queue, 1031 the user may neither dequeue from it nor administer it.
        """
        with self.look() as db:
            rights = self.rights
            if rights is None:
                return catalog.list_subscribers(db, None if queue_name is None else self.need_queue(db, queue_name))
            if queue_name is not None:
                return catalog.list_subscribers(db, rights.reading_target(db, queue_name, self.schema))
            open_to_user = rights.readable(db, catalog.list_queues(db))
            return [each for each in catalog.list_subscribers(db) if each.queue in open_to_user]

    def _subscriber(self, db: Db, queue_name: str, subscriber: Agent | str) -> int:
        agent = Agent(subscriber) if isinstance(subscriber, str) else subscriber
        queue = self.need_queue(db, queue_name)
        found = catalog.consumer_id(db, queue, agent.name or "", agent.address or "", agent.protocol)
        if found is None or not catalog.is_subscriber(db, found):
            raise SubscriberMissing(
                f"subscriber {agent.name} of queue {queue.full_name} does not exist",
                cure="add_subscriber",
            )
        return found


def _check_subscribable(queue: QueueRef) -> None:
    if queue.queue_type is QueueType.EXCEPTION:
        raise SubscriberOfExceptionQueue(
            f"exception queue {queue.full_name} cannot have subscribers",
            cause="its messages are taken once, without a consumer name",
        )
    if not queue.multiple_consumers:
        raise SingleConsumerQueue(
            f"queue {queue.full_name} cannot have subscribers",
            cause="it is a single-consumer queue",
            cure="make its queue table with multiple_consumers",
        )


def _check_rule(rule: str | None) -> None:
    if rule is None:
        return
    if len(rule) > MAX_RULE:
        raise RuleInvalid(f"rule has {len(rule)} characters", cause=f"at most {MAX_RULE} are allowed")
    from gateway.aq.rules import compile_rule

    compile_rule(rule)
