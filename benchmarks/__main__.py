"""Every benchmark: ``python -m benchmarks``."""

from benchmarks import guarantees, hub, route

if __name__ == "__main__":
    route.main([])
    guarantees.main([])
    hub.main([])
