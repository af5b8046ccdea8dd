"""The ground of the hub: its database."""
