"""Benchmarks: the gateway beside bare client loops and beside its peers, in one run, as ratios."""
