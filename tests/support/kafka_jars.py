"""Apache Kafka as jars, fetched through Maven into a cache folder."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.maven import MavenFailed, jar_folder, pom_property

__all__ = ["LOG_CONFIGURATION", "kafka_jars", "kafka_version"]

_POM = Path(__file__).resolve().parent / "kafka/pom.xml"
LOG_CONFIGURATION = _POM.with_name("log4j2.xml")


def kafka_version() -> str:
    """The version that the tests' pom.xml names."""
    return pom_property(_POM, "kafka.version")


def kafka_jars() -> Path:
    """Folder with the jars of the server and its console tools, fetched when it is missing or pom.xml has changed.

    Raises:
        MavenFailed: they can not be fetched.
    """
    return jar_folder(_POM, "kafka", kafka_version())


def main() -> None:
    """Fetch the jars if they are missing; exit status 1 and Maven's words when that fails."""
    try:
        kafka_jars()
    except MavenFailed as failure:
        sys.exit(str(failure))
