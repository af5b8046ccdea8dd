"""Every benchmark: ``python -m benchmarks``."""

from benchmarks import guarantees, route

if __name__ == "__main__":
    route.main([])
    guarantees.main([])
