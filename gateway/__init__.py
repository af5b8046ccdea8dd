"""The messaging gateway: durable hub queues bridged to RabbitMQ, Kafka and MQTT."""
