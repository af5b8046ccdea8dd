"""What the tests add to Spark as jars, fetched through Maven into a cache folder."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.maven import MavenFailed, jar_folder, pom_property

__all__ = ["spark_jars"]

_POM = Path(__file__).resolve().parent / "spark/pom.xml"


def spark_jars() -> Path:
    """Folder with the jars, fetched when it is missing or pom.xml has changed.

    Raises:
        MavenFailed: they can not be fetched.
    """
    return jar_folder(_POM, "spark", pom_property(_POM, "spark.version"))


def main() -> None:
    """Fetch the jars if they are missing; exit status 1 and Maven's words when that fails."""
    try:
        spark_jars()
    except MavenFailed as failure:
        sys.exit(str(failure))
