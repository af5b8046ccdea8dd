"""The messaging gateway: durable hub queues bridged to RabbitMQ, Kafka and MQTT."""

__version__ = "0.1.0"
