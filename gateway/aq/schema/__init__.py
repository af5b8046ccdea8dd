"""The schema of a hub: what is in a database, whether it may be opened, making it, and bringing it forward."""
