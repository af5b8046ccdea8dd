"""The link to a broker inside the process, for tests and examples."""
