"""What a way through the gateway may begin and end with, and what is promised there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mgw.links.contract import Guarantee
from tests.faults.oracle import Feed, Outlet

__all__ = ["ENDS", "End", "Way"]

_ALO, _EXACT, _UNLESS = Guarantee.AT_LEAST_ONCE, Guarantee.EXACT, Guarantee.EXACT_UNLESS_BROKER_CRASH


@dataclass(frozen=True, slots=True)
class End:
    """A kind of foreign queue.

    Attributes:
        system: ``rabbitmq``, ``kafka`` or ``mqtt``.
        link: ends with the same link share it.
        kind: of the queue, RabbitMQ only.
        options: of its registration as a source.
        inbound, outbound: what a job must promise there.
        twins: messages with equal bodies and without ids are promised once, too.
        identified: it carries properties of a message.
        client: library of the link, Kafka only.
    """

    system: str
    link: str
    kind: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    inbound: Guarantee = _ALO
    outbound: Guarantee = _ALO
    twins: bool = False
    identified: bool = True
    client: str = "kafka-python"


_EARLIEST = {"KAFKA_StartAt": "earliest", "KAFKA_HeaderType": "TEXT"}

ENDS: Mapping[str, End] = {
    "classic": End("rabbitmq", "rabbitmq", "classic"),
    "quorum": End("rabbitmq", "rabbitmq", "quorum"),
    "stream": End("rabbitmq", "rabbitmq", "stream", inbound=_EXACT, twins=True),
    "ids": End("rabbitmq", "rabbitmq", "classic", {"AMQP_UniqueIds": "TRUE"}, inbound=_EXACT),
    "quorumids": End("rabbitmq", "rabbitmq", "quorum", {"AMQP_UniqueIds": "TRUE"}, inbound=_EXACT),
    "logged": End("rabbitmq", "rabbitmq_logged", "classic", inbound=_UNLESS, outbound=_UNLESS, twins=True),
    "kafka": End("kafka", "kafka", options=_EARLIEST, inbound=_EXACT, twins=True),
    "kafkalog": End("kafka", "kafka_logged", options=_EARLIEST, inbound=_EXACT, outbound=_EXACT, twins=True),
    "confluent": End("kafka", "confluent", options=_EARLIEST, inbound=_EXACT, twins=True, client="confluent"),
    "confluentlog": End(
        "kafka", "confluent_logged", options=_EARLIEST, inbound=_EXACT, outbound=_UNLESS, twins=True, client="confluent"
    ),
    "mqtt": End("mqtt", "mqtt", inbound=_UNLESS, twins=True),
    "mqtt311": End("mqtt", "mqtt311", inbound=_UNLESS, twins=True, identified=False),
}


@dataclass(frozen=True, slots=True)
class Way:
    """One way through the gateway: what is written to, what is read from, the jobs between and what they promise."""

    feed: Feed
    outlet: Outlet
    levels: Mapping[str, Guarantee]
    systems: tuple[str, ...]
    twins: bool
    identified: bool

    @property
    def jobs(self) -> tuple[str, ...]:
        """Names of the jobs."""
        return tuple(self.levels)
