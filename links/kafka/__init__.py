"""The link to Apache Kafka."""
