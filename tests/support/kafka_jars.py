"""Apache Kafka as jars, fetched through Maven into a cache folder."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.support.maven import MavenFailed, jar_folder, pom_property
from tests.support.memory import write_into_memory

__all__ = ["LOG_CONFIGURATION", "kafka_archive", "kafka_jars", "kafka_version", "make_archive"]

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


def kafka_archive() -> Path:
    """Where the classes that a broker loads are kept in the form in which Java starts with them in half the time.

    Nobody needs it: Java does without where it is missing, or of another Java or other jars.
    """
    jars = kafka_jars()
    return jars.with_name(f"{jars.name}.jsa")


def make_archive() -> None:
    """Let a broker write down the classes that it loads, where that was not done."""
    from tests.support.brokers import Kafka
    from tests.support.brokers.server import ServerFailed

    write_into_memory()
    archive = kafka_archive()
    if archive.exists():
        return
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix="archive-") as scratch:
        made = Path(scratch) / archive.name
        try:
            with Kafka(java_options=[f"-XX:ArchiveClassesAtExit={made}"]) as broker:
                broker.stop_deadline = 120.0  # it writes when it ends
                broker.create_topic("any")
        except ServerFailed as failure:
            print(f"setup: brokers will start more slowly: {failure}", file=sys.stderr)
        if made.exists():
            made.rename(archive)


def main() -> None:
    """Fetch the jars if they are missing; exit status 1 and Maven's words when that fails."""
    try:
        kafka_jars()
    except MavenFailed as failure:
        sys.exit(str(failure))
