"""What the gateway reports about itself: events, log, batches in the log."""
