"""What the gateway tells of itself: events, log, batches in the log."""
