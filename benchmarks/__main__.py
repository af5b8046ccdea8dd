"""Every benchmark: ``python -m benchmarks``."""

import argparse

from benchmarks import guarantees, hub, route, through

if __name__ == "__main__":
    argparse.ArgumentParser("python -m benchmarks", description="Every benchmark: an hour and a half.").parse_args()
    route.main([])
    through.main([])
    guarantees.main([])
    hub.main([])
