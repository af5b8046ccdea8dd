"""The face over HTTP: probes and metrics. It translates, and decides nothing."""
