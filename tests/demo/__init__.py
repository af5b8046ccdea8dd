"""The demonstration: real brokers, real clients, one gateway, and a verdict."""
