"""The numbers of errors, for faces that describe them."""

from mgw.gateway.config.error_numbers import Chapter, Described, chapters, numbers

__all__ = ["Chapter", "Described", "chapters", "numbers"]
