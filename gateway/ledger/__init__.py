"""The ledger: what happened to every message, and what can be proved from it."""
