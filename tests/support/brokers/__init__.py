"""The real servers that tests, demo and benchmarks run against, each private, on free loopback ports.

with RabbitMQ() as rabbitmq:
    pika.BlockingConnection(pika.ConnectionParameters(rabbitmq.host, rabbitmq.port))
"""

from __future__ import annotations

from tests.support.brokers.kafka import Kafka
from tests.support.brokers.mosquitto import Mosquitto
from tests.support.brokers.postgresql import PostgreSQL
from tests.support.brokers.rabbitmq import RabbitMQ
from tests.support.brokers.server import Server, ServerFailed
from tests.support.ports import free_port

__all__ = ["Kafka", "Mosquitto", "PostgreSQL", "RabbitMQ", "Server", "ServerFailed", "free_port"]
