"""The data pipeline on Spark: the data source ``mgw``, and jobs on what was bridged (docs/how-to/spark.md).

Nothing below this floor imports it, and nothing here is imported before somebody asks for a pipeline: the gateway runs
without Spark.
"""
