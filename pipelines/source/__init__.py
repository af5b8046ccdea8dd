"""The data source ``mgw``: reading the hub's queues from Spark, in batches and as replayable streams."""
