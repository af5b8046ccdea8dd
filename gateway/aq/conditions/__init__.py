"""Rules and conditions on messages, in Python and in SQL."""
