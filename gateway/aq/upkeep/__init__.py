"""What time and background work do to queues: time manager, statistics."""
