"""Jars fetched through Maven into a cache folder, as a pom.xml of the tests lists them."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from xml.etree import ElementTree as ET

__all__ = ["MavenFailed", "jar_folder", "pom_property"]

_REPOSITORY = Path(__file__).resolve().parents[2]
_COMPLETE = ".complete"


class MavenFailed(Exception):
    """The jars can not be fetched; the text holds Maven's own words."""


def pom_property(pom: Path, name: str) -> str:
    """A property that the pom.xml sets.

    Raises:
        MavenFailed: it does not.
    """
    found = ET.parse(pom).findtext(f".//{{*}}properties/{{*}}{name}")  # noqa: S314 our own file
    if found is None:
        raise MavenFailed(f"{pom} has no property {name}")
    return found


def jar_folder(pom: Path, name: str, version: str) -> Path:
    """Folder with the jars that ``pom`` lists, fetched when it is missing or pom.xml has changed.

    It lies below ``.cache`` of the repository, or below the folder that the variable MGW_CACHE names.

    Args:
        name: of the folder, above one for each version.

    Raises:
        MavenFailed: they can not be fetched.
    """
    cache = Path(os.environ.get("MGW_CACHE") or _REPOSITORY / ".cache") / name
    folder = cache / version
    fingerprint = hashlib.sha256(pom.read_bytes()).hexdigest()
    complete = folder / _COMPLETE
    if complete.exists() and complete.read_text() == fingerprint:
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="fetch-") as scratch:
        fetched = Path(scratch) / "jars"
        _run_maven(pom, fetched, f"{name} {version}")
        (fetched / _COMPLETE).write_text(fingerprint)
        if folder.exists():
            folder.rename(Path(scratch) / "old")
        fetched.rename(folder)
    return folder


def _run_maven(pom: Path, target: Path, what: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise MavenFailed("mvn is not installed. Run: make setup")
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={target}", "-DincludeScope=runtime"]
    result = subprocess.run(
        [maven, "-q", "-B", "-f", str(pom), *goal], capture_output=True, text=True, timeout=900, check=False
    )
    if result.returncode != 0:
        raise MavenFailed(f"{what} can not be fetched: {result.stdout}{result.stderr}")
