"""The link to RabbitMQ (AMQP 0-9-1)."""
