"""What an agent runs: its jobs, and the route of each."""
