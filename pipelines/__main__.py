"""``python -m pipelines NAME --config FILE``, and the file to give to spark-submit."""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    """Run one pipeline; leaves with its exit code."""
    if not __package__:  # spark-submit runs this file: its folder must not be searched, but the one above
        here = Path(__file__).resolve().parent
        sys.path[:] = [str(here.parent), *(place for place in sys.path if Path(place or ".").resolve() != here)]
    from gateway.cli.main import execute
    from pipelines.cli import submitted

    sys.exit(execute(["run", *sys.argv[1:]], submitted(), "pipelines"))


if __name__ == "__main__":
    main()
