"""Conditions as SQL: what a database can decide of a rule, exactly as Python would."""
