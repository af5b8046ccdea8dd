"""Kafka by librdkafka (package confluent-kafka): the only folder that imports it."""
