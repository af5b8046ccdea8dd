"""The data source ``mgw``: writing data frames and streams into the hub's queues, exactly once by (query, batch)."""
