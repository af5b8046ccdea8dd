"""RabbitMQ's client for Java: a program that writes a message with headers of every type, and tells what it reads."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.maven import MavenFailed, jar_folder, pom_property

__all__ = ["amqp_client", "main"]

_FOLDER = Path(__file__).resolve().parent
_POM, _SOURCE = _FOLDER / "pom.xml", _FOLDER / "AmqpClient.java"
_FAST_START = ("-Xmx64m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


def amqp_client(url: str, *words: str) -> list[str]:
    """The command line of the program: ``publish QUEUE`` or ``get QUEUE`` at the broker of this AMQP address.

    Raises:
        MavenFailed: the client cannot be fetched or compiled.
    """
    jars = jar_folder(_POM, "amqp-client", pom_property(_POM, "amqp.version"))
    source = _SOURCE.read_bytes()
    classes = jars / f"classes-{hashlib.sha256(source).hexdigest()[:12]}"
    if not (classes / "AmqpClient.class").exists():
        _compile(jars, classes)
    return [_java(), *_FAST_START, "-cp", f"{classes}:{jars}/*", "AmqpClient", url, *words]


def _compile(jars: Path, classes: Path) -> None:
    """Whoever comes first; who comes at the same time makes the same."""
    made = classes.with_name(f"{classes.name}.{os.getpid()}")
    compiler = next(jars.glob("ecj-*.jar"))
    path = ":".join(map(str, jars.glob("*.jar")))
    command = [_java(), "-jar", str(compiler), "-17", "-encoding", "UTF-8", "-cp", path, "-d", str(made)]
    result = subprocess.run([*command, str(_SOURCE)], capture_output=True, text=True, timeout=120, check=False)
    if result.returncode != 0:
        raise MavenFailed(f"{_SOURCE.name} cannot be compiled: {result.stdout}{result.stderr}")
    try:
        made.rename(classes)
    except OSError:
        shutil.rmtree(made)


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin/java") if home else shutil.which("java")
    if java is None:
        raise MavenFailed("java is not installed. Run: make setup")
    return java


def main() -> None:
    """Fetch and compile it if it is missing; exit status 1 and the reason when that fails."""
    try:
        amqp_client("")
    except MavenFailed as failure:
        sys.exit(str(failure))
