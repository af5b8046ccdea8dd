"""Canonical messages as MQTT PUBLISH packets, and back."""
