"""The link to MQTT brokers, versions 3.1.1 and 5."""
