"""Apache Kafka as jars, fetched through Maven into a cache folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.support.brokers.server import ServerFailed

__all__ = ["LOG_CONFIGURATION", "kafka_jars", "kafka_version"]

_REPOSITORY = Path(__file__).resolve().parents[3]
_POM = _REPOSITORY / "tests/support/kafka/pom.xml"
LOG_CONFIGURATION = _POM.with_name("log4j2.xml")
_COMPLETE = ".complete"


def kafka_version() -> str:
    """The version that the tests' pom.xml names."""
    version = ET.parse(_POM).findtext(".//{*}properties/{*}kafka.version")  # noqa: S314 our own file
    if version is None:
        raise ServerFailed(f"{_POM} has no property kafka.version")
    return version


def kafka_jars() -> Path:
    """Folder with the jars of the server and its console tools, fetched when it is missing or pom.xml has changed.

    It lies below ``.cache`` of the repository, or below the folder that the variable MGW_CACHE names. Raises
    ServerFailed with Maven's own words when they can not be fetched.
    """
    cache = Path(os.environ.get("MGW_CACHE") or _REPOSITORY / ".cache") / "kafka"
    folder = cache / kafka_version()
    fingerprint = hashlib.sha256(_POM.read_bytes()).hexdigest()
    complete = folder / _COMPLETE
    if complete.exists() and complete.read_text() == fingerprint:
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="fetch-") as scratch:
        fetched = Path(scratch) / "jars"
        _run_maven(fetched)
        (fetched / _COMPLETE).write_text(fingerprint)
        if folder.exists():
            folder.rename(Path(scratch) / "old")
        fetched.rename(folder)
    return folder


def _run_maven(target: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise ServerFailed("mvn is not installed. Run: make setup")
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={target}", "-DincludeScope=runtime"]
    result = subprocess.run(
        [maven, "-q", "-B", "-f", str(_POM), *goal], capture_output=True, text=True, timeout=900, check=False
    )
    if result.returncode != 0:
        raise ServerFailed(f"Kafka {kafka_version()} can not be fetched: {result.stdout}{result.stderr}")


def main() -> None:
    """Fetch the jars if they are missing; exit status 1 and Maven's words when that fails."""
    try:
        kafka_jars()
    except ServerFailed as failure:
        sys.exit(str(failure))
