"""What the gateway keeps in the hub: definitions and the state of its jobs."""
