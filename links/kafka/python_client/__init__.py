"""Kafka by kafka-python, the default client: the only folder that imports it."""
