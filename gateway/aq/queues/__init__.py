"""Messages in queues: stored, searched, claimed, finished; and the statements that do it."""
