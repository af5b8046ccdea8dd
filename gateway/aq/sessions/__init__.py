"""Enqueue and dequeue for an application, in a transaction."""
