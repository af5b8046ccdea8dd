"""``python -m mgw.pipelines NAME --config FILE``, and the file to give to spark-submit."""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    """Run one pipeline; leaves with its exit code."""
    if not __package__:  # spark-submit runs this file: its folder must not be searched, but the one that holds mgw
        here = Path(__file__).absolute().parent
        above = next(folder for folder in here.parents if (folder / "mgw" / "__init__.py").is_file())
        others = (place for place in sys.path if Path(place or ".").resolve() != here.resolve())
        sys.path[:] = [str(above), *others]
    from mgw.gateway.cli.main import execute
    from mgw.pipelines.cli import submitted

    sys.exit(execute(["run", *sys.argv[1:]], submitted(), "pipelines"))


if __name__ == "__main__":
    main()
