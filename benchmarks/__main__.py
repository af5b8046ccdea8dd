"""Every benchmark: ``python -m benchmarks``."""

from benchmarks import guarantees, hub, route, through

if __name__ == "__main__":
    route.main([])
    through.main([])
    guarantees.main([])
    hub.main([])
