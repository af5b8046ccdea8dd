"""The jobs: each reads, transforms with a pure function from data frames to data frames, and writes."""
