"""Canonical messages as Kafka records, and back."""
