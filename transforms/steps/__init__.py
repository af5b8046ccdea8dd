"""Transformations: what a job may do to each message between its source and its destination."""
